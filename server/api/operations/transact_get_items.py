"""TransactGetItems: up to a hundred items, read in isolation.

The items are of one state (server/routing). On Kafka a read of several partitions is cancelled, with a conflict as its
reason, if each of its attempts has met a write.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from ....expressions import Plan
from ....materializer.fold.storage import Stored
from ....materializer.partition import Conflict, EncodedKey, Found, ResultPosition
from ....model.capacity import transaction_read_half_units
from ....model.errors import (
    Reason,
    RequestError,
    TransactionCanceledError,
    TransactionConflictError,
    ValidationError,
)
from ....model.lazy_dataclass import dataclass
from ....model.limits import Limits
from ....model.tables import TableDefinition
from ....model.values import check_item
from ...auth.rights import Demand, ItemDemand, Right
from ...database import Database
from .. import parameters
from ..operation import operation
from ..policy_facts import FACTS
from ..reply import Reply
from ..response_json import Consumed, array, consumed_each, members
from .get_item import projected

MULTIPLE: Final = "Transaction request cannot include multiple operations on one item"
TOO_LARGE: Final = "The aggregate size of the items in the transaction exceeds 4 MB"
CONFLICT: Final = Reason("TransactionConflict", TransactionConflictError().message)


Show: TypeAlias = Callable[[Stored, Plan | None], bytes]
"""Returns the attributes of an item that an answer has, as JSON."""


@dataclass(slots=True)
class _Get:
    request: dict[str, Any]
    plan: Plan | None
    definition: TableDefinition
    show: Show


def _demands(body: dict[str, Any]) -> Iterator[Demand]:
    for action in body["TransactItems"]:
        get = action["Get"]
        yield ItemDemand(
            "dynamodb:GetItem",
            Right.READ,
            get["TableName"],
            get,
            FACTS["GetItem"],
            None,
            body,
            "TransactGetItems",
        )


@operation("TransactGetItems", _demands)
def transact_get_items(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Validate the request and read the items."""
    read_items(database, body, reply, [projected] * len(body["TransactItems"]))


def read_items(database: Database, body: dict[str, Any], reply: Reply, shows: Sequence[Show]) -> None:
    """Validate a request and reply with its items, each shown by its own function.

    Raises:
        RequestError: The request is invalid.
    """
    limits = database.state.limits
    requests = [item["Get"] for item in body["TransactItems"]]
    plans = [_plan(request, limits) for request in requests]
    gets = [
        _Get(request, plan, database.state.usable_table(request["TableName"]).definition, show)
        for request, plan, show in zip(requests, plans, shows, strict=True)
    ]
    keys = _keys(gets, limits)
    if len(set(keys)) < len(keys):
        raise ValidationError(MULTIPLE)
    database.counted.get_isolated(keys, None, partial(_answer, body, reply, gets, limits))


def _plan(request: dict[str, Any], limits: Limits) -> Plan | None:
    return parameters.parse_read(request, limits, partial(check_item, request["Key"], limits)).plan


def _keys(gets: list[_Get], limits: Limits) -> list[EncodedKey]:
    """Return the keys to read.

    Raises:
        TransactionCanceledError: A key does not match its table; its reason has the index of the key.
    """
    keys: list[EncodedKey] = []
    reasons = []
    for get in gets:
        try:
            key = get.definition.key.read_key(get.request["Key"], limits)
            parameters.check_key_paths(get.plan, get.definition)
            keys.append((get.definition.id, *key))
            reasons.append(Reason("None"))
        except ValidationError as error:
            reasons.append(Reason("ValidationError", error.message))
    if len(keys) < len(gets):
        raise TransactionCanceledError(reasons)
    return keys


def _answer(
    body: dict[str, Any],
    reply: Reply,
    gets: list[_Get],
    limits: Limits,
    found: list[Found] | RequestError,
    position: ResultPosition,
) -> None:
    if isinstance(found, RequestError):
        reply.error(found, position)
        return
    items = [one for one in found if not isinstance(one, Conflict)]
    if len(items) < len(found):
        reply.error(TransactionCanceledError([_reason(one) for one in found]), position)
        return
    if sum(stored[1] for stored in items if stored is not None) > limits.transaction_bytes:
        reply.error(ValidationError(TOO_LARGE), position)
        return
    responses = []
    tables: dict[int, Consumed] = {}
    for get, stored in zip(gets, items, strict=True):
        consumed = tables.setdefault(get.definition.id, Consumed(get.request["TableName"], kind="Read"))
        consumed.table += transaction_read_half_units(0 if stored is None else stored[1])
        responses.append(b"{}" if stored is None else b'{"Item":%b}' % get.show(stored, get.plan))
    answer = members(b'"Responses":' + array(responses), consumed_each(body, reply, tables.values()))
    reply.ok(answer, position)


def _reason(found: Found) -> Reason:
    return CONFLICT if isinstance(found, Conflict) else Reason("None")
