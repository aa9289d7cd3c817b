"""One page of a Query or a Scan.

    entries in order ──► evaluated, until Limit or 1 MB ──► filtered ──► projected ──► Page

A page is paid for by what was evaluated, not by what comes back: filter, projection and counting change nothing
in its cost. Most pages have none of the three and are the stored bytes as they are, never decoded.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import itemgetter
from typing import TypeAlias

from ...expressions import Plan
from ...model.capacity import read_half_units
from ...model.errors import ValidationError
from ...model.limits import MODERN
from ...model.values import dump, load
from .pages import Page, QueryRequest, ScanRequest
from .state import Index, Table
from .storage import HASHES, Store, Stored

Request: TypeAlias = QueryRequest | ScanRequest

# The work of one page, in bytes of JSON that are decoded; a look at a value takes about as long as so many of them.
WORK_BYTES = 16 * 1024 * 1024
_LOOK_BYTES = 32


def get(table: Table, pk: bytes, sk: bytes) -> Stored | None:
    """The item at a key."""
    return table.items.get(pk, sk)


def query_page(table: Table, request: QueryRequest, page_bytes: int = MODERN.page_bytes) -> Page:
    """Read a page of one item collection.

    Raises:
        ValidationError: The index is not there or not filled yet.
    """
    index, store = _source(table, request.index)
    low, high, start = request.low, request.high, request.start
    if start is not None and request.forward:
        low = max(low, start + b"\0")  # the first bytes after `start`
    elif start is not None:
        high = start if high is None else min(high, start)
    entries = store.range(request.pk, low, high, reverse=not request.forward)
    return _page(table, index, request, map(itemgetter(1), entries), page_bytes)


def scan_page(table: Table, request: ScanRequest, page_bytes: int = MODERN.page_bytes) -> Page:
    """Read a page in the order of hashes, of the whole or of one segment.

    Raises:
        ValidationError: The index is not there or not filled yet, or `start` belongs to another segment.
    """
    index, store = _source(table, request.index)
    low, high = segment_bounds(request.segment, request.segments)
    start = None
    if request.start is not None:
        start = (store.hash_of(request.start[0]), *request.start)
        if not low <= start[0] < high:
            raise _foreign_start(request)
    entries = store.scan(start, low, high)
    found = map(itemgetter(3), entries)
    if request.room is None:
        return _page(table, index, request, found, page_bytes)
    return _rest_of_page(table, index, request, found, page_bytes)


def _rest_of_page(
    table: Table, index: Index | None, request: ScanRequest, entries: Iterator[Stored], page_bytes: int
) -> Page:
    """Read what of a page stands in this partition, in the room that the partitions before it left."""
    assert request.room is not None
    first = next(entries, None)
    if first is None:
        return _page(table, index, request, iter(()), page_bytes)
    if first[1] > request.room < page_bytes:
        return Page([], 0, 0, None, 0, full=True)
    return _page(table, index, request, chain((first,), entries), request.room)


def segment_bounds(segment: int, segments: int) -> tuple[int, int]:
    """The hashes of one segment of a parallel scan, the upper end excluded.

    Segments are disjoint, together they are everything, and they stay the same whatever is written.
    """
    return segment * HASHES // segments, (segment + 1) * HASHES // segments


def _source(table: Table, name: str | None) -> tuple[Index | None, Store]:
    if name is None:
        return None, table.items
    index = table.indexes.get(name)
    if index is None:
        raise ValidationError(f"The table does not have the specified index: {name}")
    if index.definition.backfilling:
        raise ValidationError(f"Cannot read from backfilling global secondary index: {name}")
    return index, index.store


def _foreign_start(request: ScanRequest) -> ValidationError:
    return ValidationError(
        "The provided starting key is invalid: Invalid ExclusiveStartKey. Please use ExclusiveStartKey "
        f"with correct Segment. TotalSegments: {request.segments} Segment: {request.segment}"
    )


@dataclass(slots=True)
class _Evaluated:
    """What a page has been through so far: up to the entry `tail`, which is `end` too if the range goes on there."""

    items: list[bytes] = field(default_factory=list)
    count: int = 0
    scanned: int = 0
    size: int = 0
    fetched_half_units: int = 0
    weight: int = 0
    tail: Stored | None = None
    end: Stored | None = None


def _page(
    table: Table, index: Index | None, request: Request, entries: Iterator[Stored], page_bytes: int
) -> Page:
    plan = request.plan
    fetches = _fetches(index, request)
    if fetches or (plan is not None and (plan.filter is not None or plan.projection is not None)):
        done = _evaluate(table, request, entries, page_bytes, fetches)
    else:
        done = _collect(request, entries, page_bytes)
    units = read_half_units(done.size, request.consistent)
    last = None if done.end is None else _last_key(table, index, done.end)
    return Page(
        items=done.items,
        count=done.count,
        scanned=done.scanned,
        last=last,
        table_half_units=units if index is None else done.fetched_half_units,
        index_half_units=0 if index is None else units,
        size=done.size,
        weight=done.weight,
        tail=_tail(table, index, request, done) if last is None else last,
    )


def _tail(table: Table, index: Index | None, request: Request, done: _Evaluated) -> bytes | None:
    """The key of the last entry of a range that has come to its end, for whoever goes on elsewhere."""
    goes_on = isinstance(request, ScanRequest) and request.room is not None
    return _last_key(table, index, done.tail) if goes_on and done.tail is not None else None


def _fetches(index: Index | None, request: Request) -> bool:
    """Whether the page needs the table's items besides the entries of a local index."""
    return (
        request.all_attributes
        and index is not None
        and index.definition.kind == "LSI"
        and index.definition.projection.kind != "ALL"
    )


def _collect(request: Request, entries: Iterator[Stored], page_bytes: int) -> _Evaluated:
    """Take entries as they are."""
    items: list[bytes] = []
    size = 0
    previous = end = None
    for stored in islice(entries, request.limit):
        size += stored[1]
        if size > page_bytes and items:
            size -= stored[1]
            end = previous
            break
        items.append(stored[0])
        previous = stored
    count = len(items)
    if count == request.limit:
        end = previous
    return _Evaluated([] if request.count_only else items, count, count, size, 0, size, previous, end)


def _evaluate(
    table: Table, request: Request, entries: Iterator[Stored], page_bytes: int, fetches: bool
) -> _Evaluated:
    """Take entries through fetch, filter and projection.

    What an index fetches counts towards the 1 MB too: a page of small entries must not grow without bound. Nor must
    what it takes to read them: a megabyte is 200,000 tiny items, and a filter of 4 KB looks at each hundreds of times.
    """
    done, weight, work, previous = _Evaluated(), 0, 0, None
    show, work_each = _shower(request), looks_bytes(request.plan)
    for entry in entries:
        stored = _fetch(table, entry) if fetches else entry
        weight += entry[1] + stored[1] if fetches else entry[1]
        work += len(stored[0]) + work_each
        if (weight > page_bytes or work > WORK_BYTES) and done.scanned:
            done.end = previous
            break
        done.scanned += 1
        done.weight = weight
        done.size += entry[1]
        if fetches:
            done.fetched_half_units += read_half_units(stored[1], request.consistent)
        shown = show(stored[0])
        if shown is not None:
            done.items.append(shown)
        previous = entry
        if done.scanned == request.limit:
            done.end = entry
            break
    done.tail = previous
    done.count = len(done.items)
    if request.count_only:
        done.items = []
    return done


def looks_bytes(plan: Plan | None) -> int:
    """What filter and projection cost for each item, in bytes of JSON that could be decoded meanwhile."""
    parts = () if plan is None else (plan.filter, plan.projection)
    return _LOOK_BYTES * sum(part.looks for part in parts if part is not None)


def _shower(request: Request) -> Callable[[bytes], bytes | None]:
    """What an item shows of itself, as filter and projection have it; None if the filter drops it."""
    plan, values = request.plan, request.values or {}
    if plan is None or (plan.filter is None and plan.projection is None):
        return lambda data: data
    wanted, projection = plan.filter, plan.projection
    bound = values if wanted is None else wanted.bind(values)

    def show(data: bytes) -> bytes | None:
        item = load(data)
        if wanted is not None and not wanted.holds(item, bound):
            return None
        return data if projection is None else dump(projection.apply(item))

    return show


def _fetch(table: Table, entry: Stored) -> Stored:
    """The item that an index entry stands for."""
    item = load(entry[0])
    key = table.definition.key
    pk, sk = key.pk(item), key.sk(item)
    assert pk is not None
    assert sk is not None
    stored = table.items.get(pk, sk)
    assert stored is not None, "an entry without its item"
    return stored


def _last_key(table: Table, index: Index | None, stored: Stored) -> bytes:
    """The JSON of LastEvaluatedKey: the table's key, and the index's. Every entry holds both."""
    item = load(stored[0])
    names = table.definition.key.names if index is None else _index_key_names(table, index)
    return dump({name: item[name] for name in names})


def _index_key_names(table: Table, index: Index) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*table.definition.key.names, *index.definition.key.names)))
