"""One page of a Query or a Scan.

    entries in order ──► evaluated, until Limit or 1 MB ──► filtered ──► projected ──► Page
                         └── portion ──┴── portion ──┘

The cost of a page is that of the evaluated items, not of the returned ones: filter, projection and counting do not
change it. Most pages have none of the three and are the stored bytes, never decoded.

Only DynamoDB's rules end a page. A long page is read in portions of a fixed amount of work, so that other requests
are served between two portions, and all portions see the state at one position of the log (view.py).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final, TypeAlias

from ...expressions import Plan
from ...log.commands import Check
from ...model.capacity import read_half_units
from ...model.errors import ValidationError
from ...model.limits import MODERN, Limits
from ...model.values import dump, load
from .read_requests import ItemKeys, Page, QueryRequest, ScanRequest
from .state import Index, Table
from .storage import HASHES, Store, Stored
from .transactions.participant import current_decision
from .transactions.state import Effect
from .view import ScanPosition, StoreView

Request: TypeAlias = QueryRequest | ScanRequest
ReplacedImages: TypeAlias = Callable[[Store, bytes | None], Sequence[tuple[bytes, bytes, Stored | None]]]

# The work limit of one page, in bytes of JSON to decode; evaluating one value costs about as much as _LOOK_BYTES.
WORK_BYTES: Final = 16 * 1024 * 1024
_LOOK_BYTES: Final = 32
# The work of one portion, in the same unit: 0.1 ms, or 0.4 ms if each item has a partition key of its own.
PORTION_BYTES = 16 * 1024
# The fixed work of an entry, in the same unit: of a copied one, and of a decoded one.
_ENTRY_BYTES: Final = 128
_DECODED_ENTRY_BYTES: Final = 640


def segment_bounds(segment: int, segments: int) -> tuple[int, int]:
    """Return the hashes of one segment of a parallel scan; the upper end is excluded.

    Segments are disjoint, together they cover all hashes, and they never change.
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


def _wrong_segment_start(request: ScanRequest) -> ValidationError:
    return ValidationError(
        "The provided starting key is invalid: Invalid ExclusiveStartKey. Please use ExclusiveStartKey "
        f"with correct Segment. TotalSegments: {request.segments} Segment: {request.segment}"
    )


# (sort key, item) of one partition key, or (hash, partition key, sort key, item).
_Entry: TypeAlias = tuple[Any, ...]


class _Evaluated:
    """The page so far, up to and including the entry `tail`; `goes_on` if the range has more entries."""

    __slots__ = (
        "fetched_half_units",
        "goes_on",
        "items",
        "keys",
        "scanned",
        "size",
        "tail",
        "weight",
        "work",
    )

    def __init__(self) -> None:
        self.items: list[bytes] = []
        self.keys: ItemKeys | None = None
        self.scanned = 0
        self.size = 0
        self.fetched_half_units = 0
        self.weight = 0
        self.work = 0
        self.tail: _Entry | None = None
        self.goes_on = False


class PageReader:
    """A page that is read in portions, all of them at the log position of the first.

    The first portion reads the live stores, unless `open_views` was called before. For a longer page, views preserve
    the stores as of then.
    """

    __slots__ = (
        "_done",
        "_index",
        "_items",
        "_page_bytes",
        "_request",
        "_show",
        "_store",
        "_table",
        "_view",
    )

    def __init__(self, table: Table, request: Request, page_bytes: int = MODERN.page_bytes) -> None:
        """Prepare to read a page of at most `page_bytes` by DynamoDB's count.

        Raises:
            ValidationError: The index does not exist or is being backfilled, or `start` belongs to another segment.
        """
        self._table = table
        self._request = request
        self._page_bytes = page_bytes
        self._index, self._store = _source(table, request.index)
        self._done = _Evaluated()
        self._view: StoreView | None = None
        # The table's items, if index entries lack attributes that the page shows.
        self._items: Store | StoreView | None = table.items if _fetches(self._index, request) else None
        plan = request.plan
        is_plain = plan is None or (plan.filter is None and plan.projection is None)
        self._show = None if is_plain else _projector(request)
        if isinstance(request, ScanRequest) and request.start is not None:
            low, high = segment_bounds(request.segment, request.segments)
            if not low <= self._store.hash_of(request.start[0]) < high:
                raise _wrong_segment_start(request)
        if isinstance(request, ScanRequest) and request.keyed:
            assert self._index is None, "the items are of a table"
            assert self._is_copied, "the items are unchanged"
            self._done.keys = ItemKeys([], [], [])

    def can_continue(self, table: Table | None) -> bool:
        """Return whether `table` still has the stores that this page reads; a rebuild or a deletion replaces them."""
        if table is not self._table:
            return False
        return self._index is None or table.indexes.get(self._index.definition.name) is self._index

    def read(self, work: int) -> Page | None:
        """Read a portion of `work` bytes; return the page when it has ended."""
        request, entries = self._request, self._entries()
        if isinstance(request, ScanRequest) and request.room is not None and not self._done.scanned:
            # The rest of a page that began in other partitions.
            first = next(entries, None)
            if first is not None and first[-1][1] > request.room < self._page_bytes:
                return Page([], 0, 0, None, 0, full=True)
            if first is not None:
                self._page_bytes = request.room
                entries = chain((first,), entries)
        if self._collect(entries, work) if self._is_copied else self._evaluate(entries, work):
            self.close()
            return self._page()
        self.open_views()
        return None

    @property
    def spent(self) -> int:
        """The work of all portions so far, in bytes."""
        done = self._done
        if self._is_copied:
            return done.scanned * _ENTRY_BYTES
        return done.work + done.scanned * _DECODED_ENTRY_BYTES

    @property
    def _is_copied(self) -> bool:
        """Whether the page has the stored bytes unchanged."""
        return self._show is None and self._items is None

    def open_views(self) -> None:
        """Preserve the stores as they are now for the portions that are still to read."""
        if self._view is None:
            request = self._request
            self._view = StoreView(self._store, request.pk if isinstance(request, QueryRequest) else None)
            if self._items is not None:
                self._items = StoreView(self._table.items)

    @property
    def stores(self) -> list[Store]:
        """The stores that the page reads."""
        return [self._store] if self._items is None else [self._store, self._table.items]

    def go_back(self, replaced: ReplacedImages) -> bool:
        """Read the stores as they were before recent writes; return whether the page's part of them differed.

        `replaced` returns the images that writes to a store, or to one partition key of it, have replaced since: by
        key, None if the write added an item.
        """
        pk = self._request.pk if isinstance(self._request, QueryRequest) else None
        images = [replaced(store, pk) for store in self.stores]
        if not any(images):
            return False
        self.open_views()
        for view, own in zip((self._view, self._items), images, strict=False):
            assert isinstance(view, StoreView), "open_views opens it"
            for image in own:
                view.keep(*image)
        return True

    def lay(self, effect: Effect, limits: Limits) -> None:
        """Read the items as if a decided transaction had applied this effect already."""
        self.open_views()
        assert self._view is not None, "open_views opens it"
        if isinstance(effect, Check):
            return
        decision = current_decision(self._table, effect, limits)
        for view in (self._view if self._index is None else None, self._items):
            if isinstance(view, StoreView):
                view.lay(effect.pk, effect.sk, decision.new)
        for update in decision.index_updates:
            if update.index is self._index:
                if update.old_key is not None:
                    self._view.lay(*update.old_key, None)
                if update.new_key is not None:
                    self._view.lay(*update.new_key, update.entry)

    def continue_page(self, limit: int | None, room: int) -> None:
        """Read the rest of a page that began in other partitions: at most `limit` items, in `room` bytes."""
        assert isinstance(self._request, ScanRequest), "a Query has one partition"
        self._request = replace(self._request, limit=limit, room=room)

    def close(self) -> None:
        """Release the views of a page that has ended, or whose client has disconnected."""
        for view in (self._view, self._items):
            if isinstance(view, StoreView):
                view.close()

    def _entries(self) -> Iterator[_Entry]:
        """Return the entries after those that were read."""
        request, tail = self._request, self._done.tail
        if isinstance(request, ScanRequest):
            low, high = segment_bounds(request.segment, request.segments)
            after: ScanPosition | None = None
            if tail is not None:
                after = tail[0], tail[1], tail[2]
            elif request.start is not None:
                after = self._store.hash_of(request.start[0]), *request.start
            source = self._store if self._view is None else self._view
            return source.scan(after, low, high)
        start: bytes | None = request.start if tail is None else tail[-2]
        below, above = request.low, request.high
        if start is not None and request.forward:
            below = max(below, start + b"\0")  # the first bytes after `start`
        elif start is not None:
            above = start if above is None else min(above, start)
        store = self._store if self._view is None else self._view
        return store.range(request.pk, below, above, not request.forward)

    def _collect(self, entries: Iterator[_Entry], work: int) -> bool:
        """Take a portion of entries unchanged; return whether the page has ended."""
        done, page_bytes, limit = self._done, self._page_bytes, self._request.limit
        items, keys, size, tail = done.items, done.keys, done.size, done.tail
        most = len(items) + max(1, work // _ENTRY_BYTES)
        if limit is not None and limit < most:
            most = limit
        has_ended = True
        for entry in entries:
            stored = entry[-1]
            if size + stored[1] > page_bytes and items:
                done.goes_on = True
                break
            size += stored[1]
            items.append(stored[0])
            if keys is not None:
                keys.pks.append(entry[1])
                keys.sks.append(entry[2])
                keys.sizes.append(stored[1])
            tail = entry
            if len(items) == most:
                has_ended = done.goes_on = most == limit
                break
        done.scanned, done.size, done.weight, done.tail = len(items), size, size, tail
        return has_ended

    def _evaluate(self, entries: Iterator[_Entry], work: int) -> bool:
        """Fetch, filter and project a portion of entries; return whether the page has ended.

        Items that an index fetches count towards the 1 MB too: a page of small entries must not grow without bound.
        The work is bounded as well: a megabyte is 200,000 tiny items, and a filter of 4 KB evaluates hundreds of
        values of each.
        """
        done, request, show = self._done, self._request, self._show
        work_each, stop = expression_work(request.plan), done.work + work
        overhead = 0
        for entry in entries:
            kept = entry[-1]
            stored = kept if self._items is None else self._fetch(kept)
            weight = done.weight + (kept[1] if self._items is None else kept[1] + stored[1])
            worked = done.work + len(stored[0]) + work_each
            if (weight > self._page_bytes or worked > WORK_BYTES) and done.scanned:
                done.goes_on = True
                return True
            done.scanned += 1
            done.weight, done.work = weight, worked
            done.size += kept[1]
            if self._items is not None:
                done.fetched_half_units += read_half_units(stored[1], request.consistent)
            shown = stored[0] if show is None else show(stored[0])
            if shown is not None:
                done.items.append(shown)
            done.tail = entry
            if done.scanned == request.limit:
                done.goes_on = True
                return True
            overhead += _DECODED_ENTRY_BYTES
            if worked + overhead >= stop:
                return False
        return True

    def _fetch(self, entry: Stored) -> Stored:
        """Return the item of an index entry."""
        assert self._items is not None
        item = load(entry[0])
        key = self._table.definition.key
        pk, sk = key.pk(item), key.sk(item)
        assert pk is not None
        assert sk is not None
        stored = self._items.get(pk, sk)
        assert stored is not None, "an index entry without its item"
        return stored

    def _page(self) -> Page:
        done, request, index = self._done, self._request, self._index
        units = read_half_units(done.size, request.consistent)
        # A scan over partitions needs the key of the last entry also at the end of the range: the next partition may be
        # full.
        is_part = isinstance(request, ScanRequest) and request.room is not None
        tail = None
        if done.tail is not None and (done.goes_on or is_part):
            tail = last_key(self._table, index, done.tail[-1])
        return Page(
            items=[] if request.count_only else done.items,
            count=len(done.items),
            scanned=done.scanned,
            last=tail if done.goes_on else None,
            table_half_units=units if index is None else done.fetched_half_units,
            index_half_units=0 if index is None else units,
            size=done.size,
            weight=done.weight,
            tail=tail,
            keys=done.keys,
        )


def _fetches(index: Index | None, request: Request) -> bool:
    """Return whether the page needs the table's items in addition to the entries of a local index."""
    return (
        request.all_attributes
        and index is not None
        and index.definition.kind == "LSI"
        and index.definition.projection.kind != "ALL"
    )


def expression_work(plan: Plan | None) -> int:
    """Return the work of filter and projection for each item, in bytes of JSON that could be decoded in that time."""
    parts = () if plan is None else (plan.filter, plan.projection)
    return _LOOK_BYTES * sum(part.value_reads for part in parts if part is not None)


def _projector(request: Request) -> Callable[[bytes], bytes | None]:
    """Return a function from an item to its filtered and projected bytes; None if the filter drops the item."""
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


def last_key(table: Table, index: Index | None, stored: Stored) -> bytes:
    """Return the JSON of LastEvaluatedKey: the table's key, and the index's. Every entry holds both."""
    item = load(stored[0])
    names = table.definition.key.names if index is None else _index_key_names(table, index)
    return dump({name: item[name] for name in names})


def _index_key_names(table: Table, index: Index) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*table.definition.key.names, *index.definition.key.names)))
