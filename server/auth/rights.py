"""What a key may do: for each table one of nothing, reading, writing and administering, each with all before it.

    DEMANDS["Query"](body)  ──►  (action, right, table), ...  ──►  check: all of them, or AccessDeniedException

An operation without a line in DEMANDS cannot be routed, so none is forgotten. Indexes count as their table. What is
about no table, or about all, is about the table `*`, which the pattern `*` alone matches. What is about the node that
answers is about NODE: a right of its own reads it, `monitor`, and the right to administer all tables.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from fnmatch import translate
from typing import Any, Protocol, TypeAlias

from ...model.errors import AccessDeniedError
from ...model.tables import name_of

EVERYTHING = "*"
NODE = None
"""What is about a node and no table; no request can name it."""

_PATTERN = re.compile(r"[A-Za-z0-9_.*-]{1,255}")
_TABLES_MAX = 1000  # whose rights are remembered


class Right(IntEnum):
    """Each has those before it."""

    NONE = 0
    READ = 1
    WRITE = 2
    ADMIN = 3


class Rights:
    """Which tables may be read, written and administered: names, in which `*` is anything.

    Attributes:
        monitor: Whether the figures of a node may be read, which name all tables.
    """

    def __init__(
        self,
        read: Iterable[str] = (),
        write: Iterable[str] = (),
        admin: Iterable[str] = (),
        *,
        monitor: bool = False,
    ) -> None:
        self.monitor = monitor
        self.patterns = {Right.READ: tuple(read), Right.WRITE: tuple(write), Right.ADMIN: tuple(admin)}
        self._levels = [
            (right, re.compile("|".join(translate(pattern) for pattern in patterns)))
            for right, patterns in reversed(self.patterns.items())
            if patterns
        ]
        self._known: dict[str | None, Right] = {}
        if self.on(EVERYTHING) < Right.ADMIN:
            self._known[NODE] = Right.READ if monitor else Right.NONE
        else:
            self._known[NODE] = Right.ADMIN

    def on(self, table: str | None) -> Right:
        """The highest right on a table, or on NODE."""
        right = self._known.get(table)
        if right is None:
            assert table is not NODE
            right = next((right for right, names in self._levels if names.fullmatch(table)), Right.NONE)
            if len(self._known) < _TABLES_MAX:
                self._known[table] = right
        return right


def is_pattern(text: str) -> bool:
    """Whether it can match the name of a table."""
    return bool(_PATTERN.fullmatch(text))


Demand: TypeAlias = tuple[str, Right, str | None]
"""An action of IAM, the right that it takes here, and the table, or NODE."""

Demands: TypeAlias = Callable[[dict[str, Any]], Iterable[Demand]]
"""From a request to all that it takes."""


class Bearer(Protocol):
    """Who has rights: a key."""

    @property
    def id(self) -> str: ...

    @property
    def rights(self) -> Rights: ...


def check(bearer: Bearer, demands: Iterable[Demand]) -> None:
    """Let a request pass if its key has all the rights that it takes.

    Raises:
        AccessDeniedError: It lacks one.
    """
    for action, right, table in demands:
        name = NODE if table is NODE else name_of(table)
        if bearer.rights.on(name) < right:
            resource = "node" if name is NODE else f"table/{name}"
            raise AccessDeniedError(
                f"User: arn:aws:iam::000000000000:user/{bearer.id} is not authorized to perform: {action} on resource: "
                f"arn:aws:dynamodb:us-east-1:000000000000:{resource} "
                f"because no identity-based policy allows the {action} action"
            )


def _on_table(operation: str, right: Right, member: str = "TableName") -> Demands:
    action = f"dynamodb:{operation}"

    def demands(body: dict[str, Any]) -> tuple[Demand]:
        return ((action, right, body[member]),)

    return demands


def _on_each_table(operation: str, right: Right) -> Demands:
    action = f"dynamodb:{operation}"

    def demands(body: dict[str, Any]) -> Iterator[Demand]:
        for table in body["RequestItems"]:
            yield action, right, table

    return demands


def _of_nobody(_: dict[str, Any]) -> tuple[Demand, ...]:
    return ()


def _list_tables(_: dict[str, Any]) -> Iterator[Demand]:
    yield "dynamodb:ListTables", Right.READ, EVERYTHING


def _list_streams(body: dict[str, Any]) -> Iterator[Demand]:
    yield "dynamodb:ListStreams", Right.READ, body.get("TableName", EVERYTHING)


def _get_records(body: dict[str, Any]) -> Iterator[Demand]:
    """A shard iterator begins with the ARN of its stream, and nothing else is read for it."""
    yield "dynamodb:GetRecords", Right.READ, body["ShardIterator"].partition("|")[0]


def _transact_get_items(body: dict[str, Any]) -> Iterator[Demand]:
    for action in body["TransactItems"]:
        yield "dynamodb:GetItem", Right.READ, action["Get"]["TableName"]


_TRANSACTED = {
    "ConditionCheck": ("dynamodb:ConditionCheckItem", Right.READ),
    "Put": ("dynamodb:PutItem", Right.WRITE),
    "Update": ("dynamodb:UpdateItem", Right.WRITE),
    "Delete": ("dynamodb:DeleteItem", Right.WRITE),
}


def _transact_write_items(body: dict[str, Any]) -> Iterator[Demand]:
    for actions in body["TransactItems"]:
        for kind, (action, right) in _TRANSACTED.items():
            if asked := actions.get(kind):
                yield action, right, asked["TableName"]


DEMANDS: dict[str, Demands] = {
    "BatchGetItem": _on_each_table("BatchGetItem", Right.READ),
    "BatchWriteItem": _on_each_table("BatchWriteItem", Right.WRITE),
    "CreateTable": _on_table("CreateTable", Right.ADMIN),
    "DeleteItem": _on_table("DeleteItem", Right.WRITE),
    "DeleteTable": _on_table("DeleteTable", Right.ADMIN),
    "DescribeContinuousBackups": _on_table("DescribeContinuousBackups", Right.READ),
    "DescribeEndpoints": _of_nobody,
    "DescribeKinesisStreamingDestination": _on_table("DescribeKinesisStreamingDestination", Right.READ),
    "DescribeLimits": _of_nobody,
    "DescribeStream": _on_table("DescribeStream", Right.READ, "StreamArn"),
    "DescribeTable": _on_table("DescribeTable", Right.READ),
    "DescribeTimeToLive": _on_table("DescribeTimeToLive", Right.READ),
    "DisableKinesisStreamingDestination": _on_table("DisableKinesisStreamingDestination", Right.ADMIN),
    "EnableKinesisStreamingDestination": _on_table("EnableKinesisStreamingDestination", Right.ADMIN),
    "GetItem": _on_table("GetItem", Right.READ),
    "GetRecords": _get_records,
    "GetShardIterator": _on_table("GetShardIterator", Right.READ, "StreamArn"),
    "ListStreams": _list_streams,
    "ListTables": _list_tables,
    "ListTagsOfResource": _on_table("ListTagsOfResource", Right.READ, "ResourceArn"),
    "PutItem": _on_table("PutItem", Right.WRITE),
    "Query": _on_table("Query", Right.READ),
    "Scan": _on_table("Scan", Right.READ),
    "TagResource": _on_table("TagResource", Right.ADMIN, "ResourceArn"),
    "TransactGetItems": _transact_get_items,
    "TransactWriteItems": _transact_write_items,
    "UntagResource": _on_table("UntagResource", Right.ADMIN, "ResourceArn"),
    "UpdateContinuousBackups": _on_table("UpdateContinuousBackups", Right.ADMIN),
    "UpdateItem": _on_table("UpdateItem", Right.WRITE),
    "UpdateKinesisStreamingDestination": _on_table("UpdateKinesisStreamingDestination", Right.ADMIN),
    "UpdateTable": _on_table("UpdateTable", Right.ADMIN),
    "UpdateTimeToLive": _on_table("UpdateTimeToLive", Right.ADMIN),
}


def of_metrics() -> Iterator[Demand]:
    """Yield the demand of GET /metrics, whose figures name tables and hold nothing of any item."""
    yield "foldb:Metrics", Right.READ, NODE


# Operations of foldb's own that change nothing; of all others each takes the whole database.
_READING = frozenset(
    ("DescribeSubscription", "ListDeadLetters", "ListSubscriptions", "WaitForTriggers", "Streams")
)
# Those that ask a node how it is, or to answer once it has a position.
_MONITORING = frozenset(("Status", "Wait"))


def of_admin(operation: str) -> Demands:
    """What one of foldb's own operations takes."""
    if operation == "Changes":
        return _changes
    right = Right.READ if operation in _READING | _MONITORING else Right.ADMIN
    resource = NODE if operation in _MONITORING else EVERYTHING

    def demands(_: dict[str, Any]) -> Iterator[Demand]:
        yield f"foldb:{operation}", right, resource

    return demands


def _changes(body: dict[str, Any]) -> Iterator[Demand]:
    """The feed of a table holds its items; which tables they are stands in the request, or it is all."""
    names = body.get("TableNames")
    for table in names if isinstance(names, list) and names else [EVERYTHING]:
        yield "foldb:Changes", Right.READ, str(table)
