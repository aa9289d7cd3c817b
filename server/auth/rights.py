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


def each_table(operation: str, right: Right) -> Demands:
    """Return the demands of a batch operation: `right` on every table of the request."""
    action = f"dynamodb:{operation}"

    def demands(body: dict[str, Any]) -> Iterator[Demand]:
        for table in body["RequestItems"]:
            yield action, right, table

    return demands


def of_metrics() -> Iterator[Demand]:
    """Yield the demand of GET /metrics, whose figures name tables and hold nothing of any item."""
    yield "foldb:Metrics", Right.READ, NODE
