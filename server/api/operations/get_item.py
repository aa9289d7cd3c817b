"""GetItem: the item at a key. The hottest path there is: without a projection the stored bytes go out as they are."""

from functools import partial
from typing import Any

from ....expressions import Plan
from ....materializer.fold.storage import Stored
from ....materializer.partition import ResultPosition
from ....model.capacity import read_half_units
from ....model.errors import RequestError
from ....model.values import check_item, dump, load
from ...auth.rights import Right
from ...database import Database
from .. import parameters
from ..operation import operation
from ..reply import Reply
from ..response_json import EMPTY, Consumed, consumed_one, members

_PLAIN = frozenset(("TableName", "Key", "ConsistentRead"))


@operation("GetItem", Right.READ)
def get_item(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Check the request and read."""
    limits, key = database.limits, body["Key"]
    if body.keys() <= _PLAIN:
        check_item(key, limits)
        definition = database.table(body["TableName"]).definition
        done = partial(_answer_plain, reply)
    else:
        parameters.check(body, limits, "GetItem")
        check_item(key, limits)
        plan = parameters.read(body, limits).plan
        definition = database.table(body["TableName"]).definition
        parameters.check_key_paths(plan, definition)
        done = partial(_answer, body, plan, reply)
    pk, sk = definition.key.read_key(key, limits)
    # Who names a position is not to be answered by a state from before it.
    consistent = body.get("ConsistentRead", False) or reply.after is not None
    database.partition.get(definition.id, pk, sk, consistent, done)


def _answer_plain(reply: Reply, stored: Stored | RequestError | None, position: ResultPosition) -> None:
    if isinstance(stored, tuple):
        reply.ok(b'{"Item":%b}' % stored[0], position)
    elif stored is None:
        reply.ok(EMPTY, position)
    else:
        reply.error(stored, position)


def _answer(
    body: dict[str, Any],
    plan: Plan | None,
    reply: Reply,
    stored: Stored | RequestError | None,
    position: ResultPosition,
) -> None:
    if isinstance(stored, RequestError):
        reply.error(stored, position)
        return
    size = 0 if stored is None else stored[1]
    consumed = Consumed(body["TableName"], read_half_units(size, body.get("ConsistentRead", False)))
    item = b"" if stored is None else b'"Item":' + projected(stored, plan)
    reply.ok(members(item, consumed_one(body, consumed)), position)


def projected(stored: Stored, plan: Plan | None) -> bytes:
    """What a plan's projection leaves of an item, as JSON."""
    if plan is None or plan.projection is None:
        return stored[0]
    return dump(plan.projection.apply(load(stored[0])))
