"""GetItem: the item at a key. Without a projection the stored bytes are sent as they are: this is the hottest path."""

from functools import partial
from typing import Any, Final

from ....expressions import Plan
from ....materializer.fold.storage import Stored
from ....materializer.partition import ResultPosition
from ....model.capacity import read_half_units
from ....model.errors import RequestError
from ....model.values import check_item, dump, load
from ...auth.rights import Right
from ...database import Database
from ...usage.usage import TableUsage
from .. import parameters
from ..operation import operation
from ..reply import Reply
from ..response_json import EMPTY, Consumed, consumed_one, members

_PLAIN: Final = frozenset(("TableName", "Key", "ConsistentRead"))


@operation("GetItem", Right.READ)
def get_item(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Validate the request and read the item."""
    limits, key = database.state.limits, body["Key"]
    is_plain = body.keys() <= _PLAIN
    plan: Plan | None = None
    if is_plain:
        check_item(key, limits)
        definition = database.state.usable_table(body["TableName"]).definition
    else:
        plan = parameters.parse_read(body, limits, partial(check_item, key, limits), "GetItem").plan
        definition = database.state.usable_table(body["TableName"]).definition
        parameters.check_key_paths(plan, definition)
    pk, sk = definition.key.read_key(key, limits)
    consistent = body.get("ConsistentRead", False)
    usage = database.usage[definition.id]

    def answer(stored: Stored | RequestError | None, position: ResultPosition) -> None:
        if is_plain:
            _answer_plain(reply, usage, pk, consistent, stored, position)
        else:
            _answer(body, plan, reply, usage, pk, consistent, stored, position)

    # A client that names a position must not read a state from before it.
    database.partition.get(definition.id, pk, sk, consistent or reply.after is not None, answer)


def _answer_plain(
    reply: Reply,
    usage: TableUsage,
    pk: bytes,
    consistent: bool,
    stored: Stored | RequestError | None,
    position: ResultPosition,
) -> None:
    usage.count_get(pk, stored, consistent)
    if reply.record is not None and not isinstance(stored, RequestError):
        reply.consumed(read_half_units(stored[1] if stored else 0, consistent))
    if isinstance(stored, tuple):
        reply.ok(b'{"Item":%b}' % (stored[0],), position)
    elif stored is None:
        reply.ok(EMPTY, position)
    else:
        reply.error(stored, position)


def _answer(
    body: dict[str, Any],
    plan: Plan | None,
    reply: Reply,
    usage: TableUsage,
    pk: bytes,
    consistent: bool,
    stored: Stored | RequestError | None,
    position: ResultPosition,
) -> None:
    usage.count_get(pk, stored, consistent)
    if isinstance(stored, RequestError):
        reply.error(stored, position)
        return
    size = 0 if stored is None else stored[1]
    consumed = Consumed(body["TableName"], read_half_units(size, body.get("ConsistentRead", False)))
    item = b"" if stored is None else b'"Item":' + projected(stored, plan)
    reply.ok(members(item, consumed_one(body, reply, consumed)), position)


def projected(stored: Stored, plan: Plan | None) -> bytes:
    """Return the projected attributes of an item as JSON."""
    if plan is None or plan.projection is None:
        return stored[0]
    return dump(plan.projection.apply(load(stored[0])))
