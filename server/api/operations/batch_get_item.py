"""BatchGetItem: up to a hundred items of several tables, each as GetItem reads it.

The items of one partition are read at one position, or if only some of the tables have ConsistentRead at one for these
tables and one for the others. Keys whose items do not fit into 16 MB, or are throttled, are UnprocessedKeys.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import orjson

from .... import expressions
from ....expressions import Plan
from ....materializer.fold.reads import expression_work
from ....materializer.fold.storage import Stored
from ....materializer.partition import EncodedKey, ResultPosition
from ....model.capacity import read_half_units
from ....model.errors import RequestError, ValidationError, is_throttled
from ....model.lazy_dataclass import dataclass
from ....model.limits import Limits
from ....model.tables import TableDefinition
from ....model.values import check_item
from ...auth.rights import Right, each_table
from ...database import Database
from ...routing.fan_in import FanIn, in_order, joined
from .. import parameters
from ..long_answers import LONG_BYTES, portions
from ..operation import operation
from ..policy_facts import facts_of_batch_get
from ..reply import Reply
from ..response_json import Consumed, consumed_each, members, quoted
from .get_item import projected

_Found: TypeAlias = Sequence[Stored | RequestError | None] | RequestError


@dataclass(slots=True)
class _Table:
    """One table's part of the request; `name` is the table's name or ARN in the request."""

    name: str
    request: dict[str, Any]
    plan: Plan | None
    definition: TableDefinition

    @property
    def consistent(self) -> bool:
        consistent: bool = self.request.get("ConsistentRead", False)
        return consistent


@operation("BatchGetItem", each_table("BatchGetItem", Right.READ, facts_of_batch_get))
def batch_get_item(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Validate the request and read the items."""
    limits = database.state.limits
    requests: dict[str, dict[str, Any]] = body["RequestItems"]
    if sum(len(request["Keys"]) for request in requests.values()) > limits.batch_get_keys:
        raise ValidationError("Too many items requested for the BatchGetItem call")
    if len(requests) > 1:
        # The tables of one request have one dialect.
        expressions.check_mixing({name: value for each in requests.values() for name, value in each.items()})
    plans = {name: _plan(request, limits) for name, request in requests.items()}
    tables = [
        _Table(name, request, plans[name], database.state.usable_table(name).definition)
        for name, request in requests.items()
    ]
    keys = [
        (table.definition.id, *table.definition.key.read_key(key, limits))
        for table in tables
        for key in table.request["Keys"]
    ]
    if len(set(keys)) < len(keys):
        raise ValidationError("Provided list of item keys contains duplicates")
    for table in tables:
        parameters.check_key_paths(table.plan, table.definition)
    _read(database, body, reply, tables, keys)


def _plan(request: dict[str, Any], limits: Limits) -> Plan | None:
    def validate() -> None:
        for key in request["Keys"]:
            check_item(key, limits)

    return parameters.parse_read(request, limits, validate).plan


def _read(
    database: Database, body: dict[str, Any], reply: Reply, tables: list[_Table], keys: list[EncodedKey]
) -> None:
    """Read the items of strongly and of eventually consistent tables, each with its own units."""
    answer = partial(_answer, body, reply, tables, database.state.limits.batch_get_bytes)
    kinds = {reply.after is not None or table.consistent for table in tables}
    if len(kinds) == 1:
        _read_group(database, keys, kinds.pop(), answer)
        return
    is_consistent = [table.consistent for table in tables for _ in table.request["Keys"]]
    groups = {
        consistent: [nth for nth, each in enumerate(is_consistent) if each is consistent]
        for consistent in (True, False)
    }

    def on_groups(results: list[_Found], positions: list[ResultPosition]) -> None:
        answer(_joined([*groups.values()], results), joined(positions))

    fan_in = FanIn(len(groups), on_groups)
    for nth, (consistent, places) in enumerate(groups.items()):
        _read_group(database, [keys[place] for place in places], consistent, partial(fan_in.add, nth))


def _read_group(
    database: Database,
    keys: list[EncodedKey],
    consistent: bool,
    done: Callable[[_Found, ResultPosition], None],
) -> None:
    """Read items with one consistency."""

    def on_found(found: list[Stored | None] | RequestError, position: ResultPosition) -> None:
        if isinstance(found, RequestError) and is_throttled(found) and len(keys) > 1:
            _read_each(database, keys, consistent, done)
        else:
            done(found, position)

    database.counted.get_all(keys, consistent, on_found)


def _read_each(
    database: Database,
    keys: list[EncodedKey],
    consistent: bool,
    done: Callable[[_Found, ResultPosition], None],
) -> None:
    """Read each item by itself, because some of them are throttled; if all are, pass on the error."""

    def on_all(found: list[Stored | RequestError | None], positions: list[ResultPosition]) -> None:
        errors = [one for one in found if isinstance(one, RequestError)]
        done(errors[0] if len(errors) == len(found) else found, joined(positions))

    fan_in = FanIn(len(keys), on_all)
    for nth, key in enumerate(keys):
        database.counted.get(*key, consistent, partial(fan_in.add, nth))


def _joined(groups: list[list[int]], results: list[_Found]) -> _Found:
    """Return the items of all groups in order. A throttled group is an error of each of its items, unless all are."""
    errors = [each for each in results if isinstance(each, RequestError)]
    refused = next((each for each in errors if not is_throttled(each)), None)
    if refused is not None or len(errors) == len(results):
        return refused or errors[0]
    each_group = [
        [result] * len(places) if isinstance(result, RequestError) else result
        for places, result in zip(groups, results, strict=True)
    ]
    return in_order(groups, each_group)


def _weight(stored: Stored, plan: Plan) -> int:
    """Return the size that an item counts with: its bytes and the bytes that its projection examines."""
    return max(stored[1], len(stored[0])) + expression_work(plan)


def _answer(
    body: dict[str, Any],
    reply: Reply,
    tables: list[_Table],
    room: int,
    found: _Found,
    position: ResultPosition,
) -> None:
    if isinstance(found, RequestError):
        reply.error(found, position)
        return
    pieces, unprocessed = [b'{"Responses":{'], list[bytes]()
    consumed = list[Consumed]()
    results, most = iter(found), room
    for table in tables:
        items, left, units = list[bytes](), [], Consumed(table.name)
        for key in table.request["Keys"]:
            stored = next(results)
            if isinstance(stored, RequestError):
                left.append(key)
                continue
            size = 0 if stored is None else stored[1]
            weight = size if stored is None or table.plan is None else min(_weight(stored, table.plan), most)
            if weight > room:
                room = 0  # later keys stay unprocessed, too, or small items could starve a large one
                left.append(key)
                continue
            room -= weight
            units.table += read_half_units(size, table.consistent)
            if stored is not None:
                items.append(projected(stored, table.plan))
        pieces += (b"," if consumed else b"", quoted(table.name), b":[")
        for nth, item in enumerate(items):
            pieces += (b"," if nth else b"", item)
        pieces.append(b"]")
        consumed.append(units)
        if left:
            rest = orjson.dumps({**table.request, "Keys": left})
            unprocessed.append(b"%b:%b" % (quoted(table.name), rest))
    pieces += (b'},"UnprocessedKeys":', members(*unprocessed))
    if units_of_all := consumed_each(body, reply, consumed):
        pieces += (b",", units_of_all)
    pieces.append(b"}")
    if most - room >= LONG_BYTES:
        reply.ok_long(portions(pieces), position)
    else:
        reply.ok(b"".join(pieces), position)
