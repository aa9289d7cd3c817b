"""ItemHistory, TableDifferences: the versions of an item, and the items that differ between two cuts.

ItemHistory         {"TableName", "Key", "From"?, "To"?, "Limit"?, "Next"?}
                    ──► {"Versions": [...], "To", "Next"?}                     the newest first
TableDifferences    {"TableName", "From", "To"?, "OtherTable"?, "Limit"?, "Next"?}
                    ──► {"Differences": [...], "From", "To", "Next"?}

From and To are cuts (model/cuts.py); To is now if it is missing, and `From` is excluded. The answer has the cuts that
were read, with ages as times. A client sends them and Next to read the next page, so all pages are of the same cuts.

With OtherTable, the table at From is compared with the other table at To. So are two tables that had one name at the
two cuts. This reads both tables. Otherwise the steps depend on the number of the changes between the cuts.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeVar

import orjson

from ....log.commands import Context, Position
from ....materializer.fold.state import PartitionState, Table
from ....materializer.history.attribution import RefusedWrite
from ....materializer.history.history import PartitionCut, TimeCut
from ....materializer.history.requests import (
    Cuts,
    DescribeTables,
    ItemVersion,
    PartitionWithHistory,
    PastAnswer,
    PastDifferences,
    PastMember,
    PastMembers,
    PastRead,
    PastTables,
    PastVersions,
    ReadDifferences,
    ReadMembers,
    ReadVersions,
    at_instant,
)
from ....materializer.history.version_keys import unpack_position
from ....materializer.partition import Page, ResultPosition, ScanRequest
from ....model import service
from ....model.cuts import Ago, AtTime, cut_text, parse_cut, time_text
from ....model.errors import RequestError, ResourceNotFoundError, ValidationError
from ....model.slots import CATALOG, data_partitions, partition_of_key
from ....model.tables import TableDefinition, name_of
from ....model.values import check_item, load
from ...async_calls import answer_of, call
from ...auth.rights import EVERYTHING, Demand, Past
from ...database import Database
from ..as_of import PartitionAt, PastRouter
from ..min_position import positions_of
from ..operation import Answer, admin_operation
from ..reply import Caller
from ..restores import present_time
from .start_positions import read_integer

_LIMIT: Final = 100
_HIGHEST_LIMIT: Final = 1_000
_TRANSACTIONS: Final = 50
"""The transactions of one read, at most: each may have 100 keys of 3 KB, and a frame between nodes is limited."""

_NOW: Final = "-0"
_CONDITIONS: Final = {"expression": "ConditionExpression", "legacy": "Expected", "digest": "ItemDigest"}
_UPDATES: Final = {
    "expression": "UpdateExpression",
    "legacy": "AttributeUpdates",
    "digest": "UpdateExpression",
}
_NEXT: Final = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18}){1,2}")

T = TypeVar("T", bound=PastAnswer)


class ResolvedCut(NamedTuple):
    """A cut of a request, and the tables at it.

    Attributes:
        text: The cut; an age is a time.
        cuts: The cut of each partition.
        tables: The definitions of the named tables that existed.
    """

    text: str
    cuts: Cuts
    tables: dict[str, TableDefinition]

    def table(self, name: str) -> TableDefinition:
        """Return the definition of a table.

        Raises:
            ResourceNotFoundError: The table did not exist at the cut.
        """
        if name not in self.tables:
            raise ResourceNotFoundError(
                f"Requested resource not found: Table: {name} did not exist at {self.text}; name a cut when it did"
            )
        return self.tables[name]


def _demands(body: dict[str, Any]) -> Iterator[Demand]:
    """Yield the right to read the past of each table of the request."""
    yield "foldb:ReadHistory", Past.READ, str(body.get("TableName", EVERYTHING))
    if "OtherTable" in body:
        yield "foldb:ReadHistory", Past.READ, str(body["OtherTable"])


@admin_operation("ItemHistory", _demands)
async def item_history(database: Database, body: dict[str, Any], _: Caller) -> Answer:
    """Return a page of the versions of an item, and of the refused writes to it."""
    return await read_item_history(database, body)


@admin_operation("TableDifferences", _demands)
async def table_differences(database: Database, body: dict[str, Any], _: Caller) -> Answer:
    """Return a page of the items that differ."""
    return await read_differences(database, body)


async def read_item_history(database: Database, body: dict[str, Any]) -> Answer:
    """Answer a request of ItemHistory."""
    name = _table_name(body, "TableName")
    limit = read_integer(body, "Limit", _LIMIT, 1, _HIGHEST_LIMIT)
    start = _read_next(body, 2)
    if start is not None and start[1] == 0:
        raise _not_a_next()
    now_ms = await present_time(database)
    until = await resolve_cut(database, _text(body, "To", _NOW), [name], now_ms)
    since = await resolve_cut(database, _text(body, "From", None), [], now_ms) if "From" in body else None
    _check_order(since, until)
    table = until.table(name)
    key = body.get("Key")
    if not isinstance(key, dict) or not all(isinstance(value, dict) for value in key.values()):
        raise ValidationError("ItemHistory takes the Key of an item")
    service.validate("GetItem", {"TableName": name, "Key": key})
    check_item(key, database.state.limits)
    pk, sk = table.key.read_key(key, database.state.limits)
    partition_id = partition_of_key(table.id, pk, database.partitions.count)
    read = ReadVersions(
        table.id,
        pk,
        sk,
        None if since is None else since.cuts.of(partition_id),
        None if start is None else (start[0], start[1]),
        limit,
    )
    found, position = await read_partition(
        database, partition_id, until.cuts.of(partition_id), read, PastVersions
    )
    members = await _members(database, found)
    own = PastMember(name, table.key.write(pk, sk), "")
    answer: dict[str, Any] = {
        "Versions": [_version(database, partition_id, each, members, own) for each in found.versions],
        "To": until.text,
    }
    if since is not None:
        answer["From"] = since.text
    if found.before is not None:
        answer["Next"] = ".".join(map(str, found.before))
    return Answer(orjson.dumps(answer), position)


async def read_differences(database: Database, body: dict[str, Any]) -> Answer:
    """Answer a request of TableDifferences."""
    name = _table_name(body, "TableName")
    other = _table_name(body, "OtherTable") if "OtherTable" in body else name
    limit = read_integer(body, "Limit", _LIMIT, 1, _HIGHEST_LIMIT)
    now_ms = await present_time(database)
    since = await resolve_cut(database, _text(body, "From", None), [name], now_ms)
    until = await resolve_cut(database, _text(body, "To", _NOW), [other], now_ms)
    before, after = since.table(name), until.table(other)
    if before.id == after.id:
        _check_order(since, until)
        found, following = await _changes(database, since, until, after, _read_next(body, 3), limit)
    else:
        comparison = _Comparison(database, (since, before), (until, after))
        found, following = await comparison.page(body.get("Next"), limit)
    answer = {"Differences": found, "From": since.text, "To": until.text}
    if following is not None:
        answer["Next"] = following
    return Answer(orjson.dumps(answer))


# Cuts


async def resolve_cut(database: Database, text: str, names: list[str], now_ms: int) -> ResolvedCut:
    """Return a cut and the tables at it.

    Raises:
        ValidationError: The text is not a cut of this log.
    """
    count = database.partitions.count
    try:
        cut = parse_cut(text)
        if isinstance(cut, Ago):
            cut = AtTime(max(0, now_ms - cut.age_ms))
        positions = [] if isinstance(cut, AtTime) else positions_of(cut.positions, count)
    except ValueError as error:
        raise ValidationError(str(error)) from None
    read = DescribeTables(names)
    if isinstance(cut, AtTime):
        if cut.time_ms > now_ms:
            raise ValidationError(f"{cut_text(cut)} is in the future: a cut is a point of history")
        tables = PastTables([])
        if names:
            tables, _ = await read_partition(database, CATALOG, TimeCut(cut.time_ms), read, PastTables)
        cuts = Cuts({}, cut.time_ms)
    else:
        found = [await read_partition(database, each.partition, each, read, PastTables) for each in positions]
        tables = found[0][0]
        cuts = Cuts(
            {each.partition: each for each in positions}, max(position.time_ms or 0 for _, position in found)
        )
    return ResolvedCut(cut_text(cut), cuts, {each.definition.name: each.definition for each in tables.tables})


def _check_order(since: ResolvedCut | None, until: ResolvedCut) -> None:
    """Check that a cut is not after another, as far as that follows from their times and positions."""
    if since is None:
        return
    earlier, later = since.cuts, until.cuts
    both = earlier.positions.keys() & later.positions.keys()
    if earlier.time_ms > later.time_ms or any(
        _end(earlier.positions[each]) > _end(later.positions[each]) for each in both
    ):
        raise ValidationError(f"From is after To: {since.text} is later than {until.text}")


def _end(position: Position) -> tuple[int, float]:
    return position.offset, float("inf") if position.index is None else position.index


async def read_partition(
    database: Database, partition_id: int, cut: PartitionCut, read: PastRead, kind: type[T]
) -> tuple[T, ResultPosition]:
    """Read the past of a partition.

    Raises:
        RequestError: The partition refuses the read.
    """
    peer: PartitionWithHistory = database.peers[partition_id]
    result: tuple[PastAnswer | RequestError, ResultPosition] = await call(
        lambda callback: peer.as_of(cut, read, lambda *result: callback(result))
    )
    answer, position = result
    if isinstance(answer, RequestError):
        raise answer
    assert isinstance(answer, kind), "each kind of read has its kind of answer"
    return answer, position


# The versions of an item

_Name = tuple[int, int]


async def _members(database: Database, found: PastVersions) -> dict[_Name, list[PastMember]]:
    """Return the actions of the transactions of the versions, over all partitions."""
    names = sorted(
        {
            (each.transaction[0], each.transaction[1], each.effective_time, each.effective_time)
            for each in found.versions
            if each.transaction
        }
    )
    members: dict[_Name, list[PastMember]] = {name[:2]: [] for name in names}
    if not names:
        return members
    # A version of a transaction has a later log time than its decision, so at that time all parts are there.
    newest = TimeCut(max(each.log_time for each in found.versions))
    portions = [names[at : at + _TRANSACTIONS] for at in range(0, len(names), _TRANSACTIONS)]
    for partition_id in data_partitions(database.partitions.count):
        for portion in portions:
            read = ReadMembers(portion)
            parts, _ = await read_partition(database, partition_id, newest, read, PastMembers)
            for name, part in zip(portion, parts.members, strict=True):
                members[name[:2]] += part
    return members


def _version(
    database: Database,
    partition_id: int,
    version: ItemVersion,
    members: dict[_Name, list[PastMember]],
    own: PastMember,
) -> dict[str, Any]:
    count = database.partitions.count
    kind = "refused" if version.refused is not None else "remove" if version.item is None else "put"
    shown: dict[str, Any] = {
        "Position": _position(partition_id, version.position, count),
        "Time": time_text(version.log_time),
        "EffectiveTime": time_text(version.effective_time),
        "Kind": kind,
    }
    if version.item is not None:
        shown["Item"] = orjson.Fragment(version.item)
    if version.refused is not None:
        shown["Refused"] = _refused(RefusedWrite(*version.refused))
    if version.context is not None:
        shown |= _context(Context(version.context))
    if version.transaction is not None:
        name = version.transaction[0], version.transaction[1]
        shown["Transaction"] = {
            "Position": _position(*name, count),
            "Members": [
                {"TableName": each.table, "Key": orjson.Fragment(each.key), "Operation": each.kind}
                for each in members[name]
                if (each.table, each.key) != (own.table, own.key)
            ],
        }
    return shown


def _context(context: Context) -> dict[str, Any]:
    request_id, invocation_id, principal, source, depth, reason = context.fields()
    shown = {
        "RequestId": request_id,
        "InvocationId": invocation_id,
        "Principal": principal,
        "Source": source,
        "Depth": depth or None,
        "Reason": reason,
    }
    return {name: value for name, value in shown.items() if value is not None}


def _refused(write: RefusedWrite) -> dict[str, Any]:
    shown = {
        "Operation": write.kind,
        "Error": write.code,
        "Reason": write.reason,
        "Message": write.message,
        _CONDITIONS[write.dialect]: write.condition,
        _UPDATES[write.dialect]: write.update,
        "ExpressionAttributeNames": write.names,
        "ExpressionAttributeValues": None if write.values is None else orjson.Fragment(write.values),
    }
    return {name: value for name, value in shown.items() if value is not None}


def _position(partition_id: int, packed: int, count: int) -> str:
    return Position(partition_id, *unpack_position(packed)).text(count)


# The differences of a table


async def _changes(
    database: Database,
    since: ResolvedCut,
    until: ResolvedCut,
    table: TableDefinition,
    start: list[int] | None,
    limit: int,
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of the changes of a table between two cuts, partition by partition, and where the next begins."""
    count = database.partitions.count
    found: list[dict[str, Any]] = []
    for partition_id in data_partitions(count):
        if start is not None and partition_id < start[0]:
            continue
        within = (start[1], start[2]) if start is not None and partition_id == start[0] else None
        if len(found) == limit:
            return found, f"{partition_id}.0.0"
        read = ReadDifferences(
            table.id,
            since.cuts.of(partition_id),
            within,
            limit - len(found),
            since.cuts.instant(partition_id),
        )
        page, _ = await read_partition(
            database,
            partition_id,
            until.cuts.of(partition_id),
            at_instant(read, until.cuts.instant(partition_id)),
            PastDifferences,
        )
        found += [
            _difference(table.key.write(each.pk, each.sk), each.old, each.new)
            | {"Position": _position(partition_id, each.position, count), "Time": time_text(each.log_time)}
            for each in page.differences
        ]
        if page.next is not None:
            return found, ".".join(map(str, (partition_id, *page.next)))
    return found, None


def _difference(key: bytes, old: bytes | None, new: bytes | None) -> dict[str, Any]:
    kind = "put" if old is None else "remove" if new is None else "change"
    shown: dict[str, Any] = {"Kind": kind, "Key": orjson.Fragment(key)}
    if old is not None:
        shown["Old"] = orjson.Fragment(old)
    if new is not None:
        shown["New"] = orjson.Fragment(new)
    return shown


class _Comparison:
    """Compares two tables: the items of the first with those of the second, then the other items of the second."""

    def __init__(
        self,
        database: Database,
        before: tuple[ResolvedCut, TableDefinition],
        after: tuple[ResolvedCut, TableDefinition],
    ) -> None:
        self._limits = database.state.limits
        self._sides = [(_router(database, *side), side[1]) for side in (before, after)]
        if before[1].key.attributes != after[1].key.attributes:
            raise ValidationError(
                f"{before[1].name} and {after[1].name} have different keys, so their items cannot be compared"
            )

    async def page(self, start: Any, limit: int) -> tuple[list[dict[str, Any]], str | None]:
        """Return a page, which looks at `limit` items, and where the next one begins."""
        phase, key = self._read_start(start)
        (router, table), (other_router, other) = self._sides if phase == 0 else self._sides[::-1]
        request = ScanRequest(table.id, None, start=key, limit=limit, consistent=True)
        page: Page = await answer_of(lambda callback: router.scan(request, callback))
        keys = [table.key.item_key(load(item), self._limits) for item in page.items]
        counterparts: list[Any] = []
        if keys:
            wanted = [(other.id, pk, sk) for pk, sk in keys]
            counterparts = await answer_of(lambda callback: other_router.get_all(wanted, True, callback))
        found = []
        for (pk, sk), item, stored in zip(keys, page.items, counterparts, strict=True):
            counterpart = None if stored is None else stored[0]
            if phase == 0 and item != counterpart:
                found.append(_difference(table.key.write(pk, sk), item, counterpart))
            elif phase == 1 and counterpart is None:
                found.append(_difference(table.key.write(pk, sk), None, item))
        if page.last is not None:
            return found, f"{phase}{page.last.decode()}"
        return found, None if phase else "1"

    def _read_start(self, start: Any) -> tuple[int, tuple[bytes, bytes] | None]:
        if start is None:
            return 0, None
        try:
            phase, last = int(start[:1]), start[1:]
            if phase not in (0, 1):
                raise ValueError(start)
            key = None if not last else self._sides[phase][1].key.read_key(orjson.loads(last), self._limits)
        except (TypeError, ValueError, LookupError, AttributeError, RequestError):
            raise _not_a_next() from None
        return phase, key


def _router(database: Database, cut: ResolvedCut, definition: TableDefinition) -> PastRouter:
    """Return a router of reads of one table at a cut."""
    state = PartitionState(limits=database.state.limits)
    state.tables[definition.id] = Table(definition)
    partitions = [
        PartitionAt(peer, cut.cuts.of(each), cut.cuts.instant(each))
        for each, peer in enumerate(database.peers)
    ]
    return PastRouter(partitions, state, database.loop, at=None)


# Requests


def _table_name(body: dict[str, Any], member: str) -> str:
    return name_of(_text(body, member, None))


def _text(body: dict[str, Any], member: str, default: str | None) -> str:
    value = body.get(member, default)
    if not isinstance(value, str):
        raise ValidationError(f"{member} must be a string")
    return value


def _read_next(body: dict[str, Any], members: int) -> list[int] | None:
    """Return the numbers of Next; None for the first page."""
    if "Next" not in body:
        return None
    text = body["Next"]
    if not isinstance(text, str) or not _NEXT.fullmatch(text) or text.count(".") != members - 1:
        raise _not_a_next()
    return list(map(int, text.split(".")))


def _not_a_next() -> ValidationError:
    return ValidationError("Next must be that of the page before, of the same request")
