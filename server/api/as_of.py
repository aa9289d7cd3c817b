"""Reads of the past: requests whose tables are named with a cut, `Orders@10482.3` (model/cuts.py).

    request ──► names without the cut ──► validated, right checked ──► definitions at the cut
            ──► handler(a Database as of the cut, body) ──► the partitions at the cut ──► answer

The handlers are those of the live reads, so an answer has the bytes that it had at the cut. The Database has the tables
of the request by the names that it uses, and a partition that reads the histories.

A position is exact in its partition, and means the log time of its record in the others. The tables of a request are
those that its named partition had at the position; those of a time are the catalog's. Several positions are those of a
live answer, so a consistent read has the transactions that its instant had (materializer/history/decided_parts.py).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, cast

from ...log.commands import Command, Position
from ...materializer.fold.state import PartitionState, Table
from ...materializer.fold.storage import Stored
from ...materializer.history.history import PartitionCut
from ...materializer.history.requests import (
    Cuts,
    DescribeTables,
    GetItems,
    OnPast,
    PartitionWithHistory,
    PastItems,
    PastTable,
    PastTables,
    at_instant,
)
from ...materializer.partition import (
    EncodedKey,
    OnFound,
    OnItem,
    OnItems,
    OnOutcome,
    OnPage,
    OnReached,
    OnStatus,
    Page,
    QueryRequest,
    ResultPosition,
    ScanRequest,
    Since,
)
from ...model.cuts import (
    SEPARATOR,
    Ago,
    AtPositions,
    AtTime,
    NamedCut,
    cut_text,
    parse_cut,
    split_name,
    time_text,
)
from ...model.errors import RequestError, ServiceUnavailableError, ValidationError
from ...model.slots import CATALOG, data_partitions
from ...model.tables import name_of
from ..database import Database
from ..routing import Router
from ..routing.fan_in import FanIn, first_error, joined
from .item_counts import Counts, counts_of
from .min_position import positions_of

READS: Final = ("BatchGetItem", "DescribeTable", "GetItem", "Query", "Scan", "TransactGetItems")
"""The operations that can read the past."""

_START_KEY: Final = "ExclusiveStartKey"
_START_INVALID: Final = "The provided starting key is invalid"


class PastRequest(NamedTuple):
    """The cut of a request.

    Attributes:
        text: The cut as the names of the request have it.
        cut: The cut; an age is resolved.
        tables: The names of the tables without the cut.
        is_relative: Whether the names have an age, so that LastEvaluatedKey carries the resolved time.
    """

    text: str
    cut: AtPositions | AtTime
    tables: Sequence[str]
    is_relative: bool

    def present(self, name: str) -> str:
        """Return a name of the request without its cut."""
        return split_name(name)[0]

    def past(self, name: str) -> str:
        """Return a name without a cut as the request has it."""
        return f"{name}{SEPARATOR}{self.text}"


def past_request(operation: str, body: dict[str, Any], now_ms: int) -> PastRequest | None:
    """Return the cut of a request; None if no table of the request is named with one.

    The member `@` of ExclusiveStartKey, which holds the time of the first page of a relative cut, is removed.

    Raises:
        ValidationError: The operation cannot read the past, a cut is malformed, or the tables have different cuts.
    """
    names = list(_names(body))
    texts = {split_name(name)[1] for name in names}
    text = next((each for each in texts if each is not None), None)
    if text is None:
        return None
    name = next(name for name in names if SEPARATOR in name)
    try:
        cut = parse_cut(text)
    except ValueError as error:
        if operation not in READS:
            return None  # no name at all: the service model's error says so
        raise ValidationError(f"{name[:255]}: {error}") from None
    if operation not in READS:
        raise ValidationError(
            f"{name[:255]} names a state of the past, which {operation} cannot use: only {', '.join(READS)} can. "
            f"Name the table itself, {split_name(name)[0][:255]}"
        )
    if len(texts) > 1:
        raise ValidationError("All tables of a request must be read at one cut: name each with the same cut")
    tables = list(dict.fromkeys(split_name(name_of(each))[0] for each in names))
    return PastRequest(text, _resolved(cut, body, now_ms), tables, isinstance(cut, Ago))


def rename(body: dict[str, Any], new_name: Callable[[str], str]) -> None:
    """Replace the names of the tables in a request."""
    if isinstance(body.get("TableName"), str):
        body["TableName"] = new_name(body["TableName"])
    if isinstance(requests := body.get("RequestItems"), dict):
        body["RequestItems"] = {new_name(name): request for name, request in requests.items()}
    for action in _actions(body):
        action["TableName"] = new_name(action["TableName"])


def _names(body: dict[str, Any]) -> Iterator[str]:
    if isinstance(name := body.get("TableName"), str):
        yield name
    if isinstance(requests := body.get("RequestItems"), dict):
        yield from requests
    for action in _actions(body):
        yield action["TableName"]


def _actions(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the actions of a transaction that have the name of a table."""
    items = body.get("TransactItems")
    for item in items if isinstance(items, list) else ():
        for action in item.values() if isinstance(item, dict) else ():
            if isinstance(action, dict) and isinstance(action.get("TableName"), str):
                yield action


def _resolved(cut: NamedCut, body: dict[str, Any], now_ms: int) -> AtPositions | AtTime:
    if isinstance(cut, AtPositions):
        return cut
    if isinstance(cut, AtTime):
        if cut.time_ms > now_ms:
            raise ValidationError(f"{time_text(cut.time_ms)} is in the future: a cut is a point of history")
        return cut
    if "TotalSegments" in body or "Segment" in body:
        raise ValidationError(
            f"The segments of a parallel Scan must be read at one cut, and -{cut_text(cut)[1:]} is another for each: "
            f"name the time itself, as {time_text(max(0, now_ms - cut.age_ms))}"
        )
    start = body.get(_START_KEY)
    if start is None:
        return AtTime(max(0, now_ms - cut.age_ms))
    return _time_in(start, now_ms)


def _time_in(start: Any, now_ms: int) -> AtTime:
    """Remove the member `@` of a start key, and return its time.

    Raises:
        ValidationError: The start key has no such member, or it is not a time of the past.
    """
    value = start.pop(SEPARATOR, None) if isinstance(start, dict) else None
    text = value.get("S") if isinstance(value, dict) and len(value) == 1 else None
    try:
        cut = parse_cut(text) if isinstance(text, str) else None
    except ValueError:
        cut = None
    if not isinstance(cut, AtTime) or cut.time_ms > now_ms:
        raise ValidationError(
            f"{_START_INVALID}: of a table named with an age, such as -1h, it must have the member @ of the "
            "LastEvaluatedKey before"
        )
    return cut


# A Database as of a cut


class Refusable(Protocol):
    """Receives the error of a request: a Reply, or one of the statements of a request."""

    def error(self, error: RequestError, position: ResultPosition | None = None) -> None:
        """Answer with DynamoDB's error."""
        ...


def open_past(
    database: Database,
    past: PastRequest,
    operation: str,
    reply: Refusable,
    proceed: Callable[[Database], None],
) -> None:
    """Call `proceed` with the database as of the cut of a request, or reply with an error."""
    _Opening(database, past, operation, reply, proceed).begin()


class _Opening:
    """The steps to a Database as of a cut: the definitions of its tables, and for DescribeTable their counts."""

    def __init__(
        self,
        database: Database,
        past: PastRequest,
        operation: str,
        reply: Refusable,
        proceed: Callable[[Database], None],
    ) -> None:
        self._database = database
        self._past = past
        self._is_described = operation == "DescribeTable"
        self._reply = reply
        self._proceed = proceed

    def begin(self) -> None:
        """Read the definitions where the cut is exact, or in the catalog."""
        cut, count = self._past.cut, self._database.partitions.count
        if isinstance(cut, AtTime):
            cuts = Cuts({}, cut.time_ms)
            sources = [CATALOG]
        else:
            try:
                positions = {each.partition: each for each in positions_of(cut.positions, count)}
            except ValueError as error:
                self._reply.error(ValidationError(f"{self._past.text}: {error}"))
                return
            cuts, sources = Cuts(positions, 0), list(positions)
        needs_time = 0 < len(cuts.positions) < count  # for the partitions that are not named
        is_counted = self._is_described or needs_time
        self._describe(sources, cuts, partial(self._on_definitions, cuts), is_counted=is_counted)

    def _on_definitions(self, cuts: Cuts, found: list[PastTables], position: ResultPosition) -> None:
        if cuts.positions:
            cuts = replace(cuts, time_ms=position.time_ms or 0)
        if not self._is_described:
            self._proceed(self._database_at(cuts, position, found[0].tables, []))
            return
        count = self._database.partitions.count
        sources = sorted({CATALOG, *data_partitions(count)})
        if len(sources) == len(found):
            self._on_counts(cuts, found, position)
        else:
            self._describe(sources, cuts, partial(self._on_counts, cuts), is_counted=True)

    def _on_counts(self, cuts: Cuts, found: list[PastTables], position: ResultPosition) -> None:
        counted = [table for each in found for table in each.tables]
        self._proceed(self._database_at(cuts, position, found[0].tables, counted))

    def _describe(
        self,
        sources: Sequence[int],
        cuts: Cuts,
        done: Callable[[list[PastTables], ResultPosition], None],
        *,
        is_counted: bool,
    ) -> None:
        def on_found(found: list[Any], positions: list[ResultPosition]) -> None:
            error = first_error(found)
            if error is not None:
                self._reply.error(error, joined(positions))
            else:
                done(found, joined(positions))

        fan_in = FanIn(len(sources), on_found)
        read = DescribeTables(self._past.tables, is_counted)
        for nth, source in enumerate(sources):
            self._database.peers[source].as_of(cuts.of(source), read, partial(fan_in.add, nth))

    def _database_at(
        self, cuts: Cuts, position: ResultPosition, tables: list[PastTable], counted: list[PastTable]
    ) -> Database:
        """Return the Database for the handlers of reads, which use no other attributes. DescribeTable alone has a clock
        and counts.
        """
        live, past = self._database, self._past
        state = PartitionState(limits=live.state.limits)
        for each in tables:
            definition = each.definition
            state.tables[definition.id] = Table(definition)
            state.names[past.past(definition.name)] = definition.id
        database = Database()
        database.settings = live.settings
        database.state = state
        database.partition = PastRouter(
            [PartitionAt(peer, cuts.of(each), cuts.instant(each)) for each, peer in enumerate(live.peers)],
            state,
            live.loop,
            at=time_text(cuts.time_ms) if past.is_relative else None,
        )
        if self._is_described:
            database.clock = lambda: position.time_ms or cuts.time_ms
            database.counts = _PastCounts(counted, position)
        return database


class _PastCounts:
    """The counts of tables at a cut, over all partitions."""

    def __init__(self, tables: Sequence[PastTable], position: ResultPosition) -> None:
        self._counts = [table.counts for table in tables]
        self._position = position

    def of(self, table: Table, callback: Callable[[Counts], None]) -> None:
        """Count a table and its indexes."""
        callback(counts_of(table, self._counts, self._position))


class PartitionAt:
    """A `Partition` at a cut.

    Args:
        partition: The partition.
        cut: The cut.
        instant: The positions of a live answer: a consistent read has the transactions that were decided there.
    """

    def __init__(
        self, partition: PartitionWithHistory, cut: PartitionCut, instant: Sequence[Position] = ()
    ) -> None:
        self._partition = partition
        self._cut = cut
        self._instant = instant

    def submit(self, command: Command, size: int, done: OnOutcome) -> None:  # noqa: ARG002
        raise AssertionError("the past cannot be written")

    def get(
        self,
        table: int,
        pk: bytes,
        sk: bytes,
        consistent: bool,
        done: OnItem,
    ) -> None:

        def answer(found: list[Stored | None] | RequestError, position: ResultPosition) -> None:
            done(found if isinstance(found, RequestError) else found[0], position)

        self.get_all([(table, pk, sk)], consistent, answer)

    def get_all(
        self,
        keys: Sequence[EncodedKey],
        consistent: bool,
        done: OnItems,
    ) -> None:

        def answer(found: Any, position: ResultPosition) -> None:
            done(found.items if isinstance(found, PastItems) else found, position)

        self._read(GetItems(keys), consistent, answer)

    def get_isolated(
        self,
        keys: Sequence[EncodedKey],
        since: Since,  # noqa: ARG002  the past does not change
        done: OnFound,
    ) -> None:
        """Read items as the instant of the request has them."""
        self.get_all(keys, True, cast(OnItems, done))

    def query(self, request: QueryRequest, done: OnPage) -> None:
        self._read(request, request.consistent, cast(OnPast, done))

    def scan(self, request: ScanRequest, done: OnPage) -> None:
        self._read(request, request.consistent, cast(OnPast, done))

    def _read(self, read: GetItems | QueryRequest | ScanRequest, consistent: bool, done: OnPast) -> None:
        self._partition.as_of(self._cut, at_instant(read, self._instant if consistent else ()), done)

    def reach(self, position: ResultPosition, done: OnReached) -> None:  # noqa: ARG002
        """Refuse the wait: the past has no later positions."""
        done(ServiceUnavailableError())

    def status(self, table: int | None, done: OnStatus) -> None:  # noqa: ARG002
        done(ServiceUnavailableError())


class PastRouter(Router):
    """A Router over partitions at a cut. Pages of a relative cut end with its time, `at`, in LastEvaluatedKey."""

    def __init__(
        self, partitions: Sequence[PartitionAt], catalog: PartitionState, scheduler: Any, *, at: str | None
    ) -> None:
        super().__init__(partitions, catalog, scheduler)
        self._at = at

    def get_isolated(
        self,
        keys: Sequence[EncodedKey],
        since: Since,  # noqa: ARG002  the past does not change
        done: OnFound,
    ) -> None:
        """Read items as all of them were at the cut."""
        self.get_all(keys, True, cast(OnItems, done))

    def query(self, request: QueryRequest, done: OnPage) -> None:
        super().query(request, self._with_time(request, done))

    def scan(self, request: ScanRequest, done: OnPage) -> None:
        super().scan(request, self._with_time(request, done))

    def _with_time(
        self,
        request: QueryRequest | ScanRequest,
        done: OnPage,
    ) -> OnPage:
        if self._at is None:
            return done
        member = b',"%b":{"S":"%b"}}' % (SEPARATOR.encode(), self._at.encode())
        self._check_keys(self._catalog.tables[request.table])

        def add(page: Page | RequestError, position: ResultPosition) -> None:
            if isinstance(page, Page) and page.last is not None:
                page.last = page.last[:-1] + member
            done(page, position)

        return add

    def _check_keys(self, table: Table) -> None:
        keys = (table.definition.key, *(index.key for index in table.definition.indexes))
        if any(SEPARATOR in key.names for key in keys):
            raise ValidationError(
                f"A key attribute of {table.definition.name} is named {SEPARATOR}: name the table with a time or a "
                "position, not with an age"
            )
