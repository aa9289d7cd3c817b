"""The contract of a store: every implementation gives the answers of a plain dict, under random operations."""

from collections.abc import Callable, Iterator
from itertools import count, pairwise
from typing import Any, Final, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldb.materializer.fold.storage import HASHES, UNKNOWN, MemoryStore, Stored
from foldb.materializer.fold.view import StoreView
from foldb.materializer.history.engine import Engine
from foldb.materializer.history.memory_engine import MemoryEngine
from foldb.materializer.history.past_store import PastStore
from foldb.materializer.history.rocks_engine import RocksEngine
from foldb.materializer.history.timeline import Figures
from foldb.materializer.history.version_keys import pack_position, stamp
from foldb.materializer.history.version_store import VersionStore, VersionWriter
from foldb.model.keys import key_hash

Model: TypeAlias = dict[tuple[bytes, bytes], Stored]
NewStore: TypeAlias = Callable[[int, bool], Any]
Step: TypeAlias = tuple[bytes, bytes, Stored | None]

TIME: Final = 1_700_000_000_000

# Few keys, so that steps affect the same ones; zero bytes and prefixes, because they matter to ranges.
partition_keys = st.sampled_from([b"a", b"a\0", b"ab", b"b", b"\xff", b"c" * 40])
sort_keys = st.sampled_from([b"", b"\0", b"\0\0", b"1", b"1\0", b"11", b"2", b"\xff", b"\xff\xff"])
stored = st.integers(1, 400).map(lambda size: (b"{%d}" % size, size))
steps = st.lists(st.tuples(partition_keys, sort_keys, st.none() | stored), max_size=60)
ids = count(7)
few = settings(max_examples=40)  # each runs on five kinds of store


class Built:
    """A store after some steps, and a dict after the same steps; None removes."""

    def __init__(self, new_store: NewStore, taken: list[Step], has_sort_key: bool) -> None:
        self.owner = next(ids)
        self.store = new_store(self.owner, has_sort_key)
        self.model: Model = {}
        for pk, any_sk, item in taken:
            self.take(pk, any_sk if has_sort_key else b"", item)

    def take(self, pk: bytes, sk: bytes, item: Stored | None) -> None:
        if item is None:
            assert self.model.pop((pk, sk), None) == self.store.remove(pk, sk)
        else:
            replaced = self.model.get((pk, sk))
            known = replaced if item[1] % 2 else UNKNOWN
            assert replaced == self.store.put(pk, sk, item, known)
            self.model[pk, sk] = item

    def in_scan_order(self) -> list[tuple[int, bytes, bytes, Stored]]:
        entries = ((key_hash(self.owner, pk), pk, sk, item) for (pk, sk), item in self.model.items())
        return sorted(entries)


class Versions:
    """Makes stores of versions. Each write is a command; every few of them end a record, every few more are flushed."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.writer = VersionWriter(engine)
        self.offset = 0

    def new_store(self, store_id: int, _: bool) -> "_Stepping":
        return _Stepping(self, VersionStore(self.engine, self.writer, store_id, Figures(0, 0)))

    def next_command(self) -> None:
        self.writer.end_record(self.offset)
        if self.offset % 7 == 0:
            self.writer.flush()
        self.offset += 1
        self.writer.begin_command(
            TIME + self.offset // 3, TIME + self.offset // 3, pack_position(self.offset, 0)
        )

    def past(self, store_id: int, offset: int) -> PastStore:
        """Return a store at the cut after the record at that offset."""
        self.writer.end_record(self.offset)
        self.writer.flush()
        packed = pack_position(offset, None)
        return PastStore(self.engine, store_id, stamp(TIME + offset // 3, packed), packed)


class _Stepping:
    """A store whose every write is a command of its own."""

    def __init__(self, versions: Versions, store: VersionStore) -> None:
        self.versions = versions
        self.store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def put(self, pk: bytes, sk: bytes, item: Stored, old: Stored | None = UNKNOWN) -> Stored | None:
        self.versions.next_command()
        return self.store.put(pk, sk, item, old)

    def remove(self, pk: bytes, sk: bytes) -> Stored | None:
        self.versions.next_command()
        return self.store.remove(pk, sk)


class _Past(_Stepping):
    """Reads come from a store at the cut after the last write."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.versions.past(self.store.id, self.versions.offset), name)


@pytest.fixture(scope="module", params=["memory", "versions", "versions on disk", "past", "past on disk"])
def new_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewStore]:
    if request.param == "memory":
        yield MemoryStore
        return
    engine = RocksEngine(tmp_path_factory.mktemp("store")) if "disk" in request.param else MemoryEngine()
    versions = Versions(engine)
    if "past" not in request.param:
        yield versions.new_store
    else:
        yield lambda store_id, _: _Past(
            versions, VersionStore(engine, versions.writer, store_id, Figures(0, 0))
        )
    engine.close()


@pytest.fixture(scope="module", params=["memory", "disk"])
def versions(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Versions]:
    engine = MemoryEngine() if request.param == "memory" else RocksEngine(tmp_path_factory.mktemp("cut"))
    yield Versions(engine)
    engine.close()


@few
@given(steps, st.booleans())
def test_a_store_holds_the_same_items_as_a_dict(new_store: NewStore, taken: list[Step], sort: bool) -> None:
    built = Built(new_store, taken, sort)
    store, model = built.store, built.model

    assert built.in_scan_order() == list(store.scan())
    assert len(model) == store.count
    assert sum(size for _, size in model.values()) == store.size
    for pk, any_sk, _ in taken:
        sk = any_sk if sort else b""
        assert model.get((pk, sk)) == store.get(pk, sk)


@few
@given(steps, partition_keys, sort_keys, st.none() | sort_keys, st.booleans())
def test_a_range_is_half_open_and_goes_either_way(
    new_store: NewStore,
    taken: list[Step],
    pk: bytes,
    low: bytes,
    high: bytes | None,
    reverse: bool,
) -> None:
    built = Built(new_store, taken, True)
    store, model = built.store, built.model

    within = sorted(
        (sk, item)
        for (of, sk), item in model.items()
        if of == pk and low <= sk and (high is None or sk < high)
    )
    assert sorted(within, reverse=reverse) == list(store.range(pk, low, high, reverse))


@few
@given(steps, partition_keys, sort_keys)
def test_a_scan_resumes_after_a_key_that_need_not_be_there(
    new_store: NewStore, taken: list[Step], pk: bytes, sk: bytes
) -> None:
    built = Built(new_store, taken, True)
    store = built.store
    start = (key_hash(built.owner, pk), pk, sk)

    expected = [entry for entry in built.in_scan_order() if entry[:3] > start]
    assert expected == list(store.scan(start))


@few
@given(steps, st.lists(st.integers(0, HASHES), min_size=1, max_size=5), partition_keys)
def test_ranges_of_hashes_cut_a_scan_into_disjoint_parts(
    new_store: NewStore, taken: list[Step], cuts: list[int], pk: bytes
) -> None:
    built = Built(new_store, taken, True)
    store = built.store
    bounds = sorted([0, *cuts, key_hash(built.owner, pk), HASHES])  # one cut divides an item's collection

    parts = [entry for low, high in pairwise(bounds) for entry in store.scan(None, low, high)]
    assert built.in_scan_order() == parts


@few
@given(steps, partition_keys)
def test_a_collection_of_one_item_reads_as_one_of_many(
    new_store: NewStore, taken: list[Step], pk: bytes
) -> None:
    built = Built(new_store, taken, True)
    store, model = built.store, built.model
    mine = {sk: item for (of, sk), item in model.items() if of == pk}

    assert sorted(mine.items()) == list(store.range(pk))
    assert sum(size for _, size in mine.values()) == store.collection_size(pk)


@few
@given(steps, steps, partition_keys)
def test_the_size_of_a_collection_follows_writes(
    new_store: NewStore, taken: list[Step], later: list[Step], pk: bytes
) -> None:
    built = Built(new_store, taken, True)
    for key in [(pk, b"", None), *later]:
        built.take(*key)
        mine = [item for (of, _), item in built.model.items() if of == pk]
        assert sum(size for _, size in mine) == built.store.collection_size(pk)


@few
@given(steps, steps, partition_keys, st.booleans())
def test_a_view_shows_the_store_as_it_was_opened(
    new_store: NewStore, taken: list[Step], later: list[Step], pk: bytes, reverse: bool
) -> None:
    built = Built(new_store, taken, True)
    if isinstance(built.store, _Past):
        return  # nothing writes to it
    view = StoreView(built.store)
    before = built.in_scan_order()

    for key in later:
        built.take(*key)

    assert before == list(view.scan())
    mine = [entry for entry in before if entry[1] == pk]
    assert sorted(mine, reverse=reverse) == list(view.range(pk, b"", None, reverse))
    view.close()


@few
@given(steps, steps, partition_keys, sort_keys, st.booleans())
def test_a_store_at_a_cut_ignores_later_writes(
    versions: Versions, taken: list[Step], later: list[Step], pk: bytes, sk: bytes, reverse: bool
) -> None:
    built = Built(versions.new_store, taken, True)
    cut, model, items = versions.offset, built.in_scan_order(), dict(built.model)
    for key in later:
        built.take(*key)

    past = versions.past(built.owner, cut)

    assert model == list(past.scan())
    assert (len(model), sum(entry[3][1] for entry in model)) == (past.count, past.size)
    assert items.get((pk, sk)) == past.get(pk, sk)
    mine = [(entry[2], entry[3]) for entry in model if entry[1] == pk]
    assert sorted(mine, reverse=reverse) == list(past.range(pk, reverse=reverse))
    assert [entry for entry in mine if entry[0] >= sk] == list(past.range(pk, sk))


@few
@given(steps, partition_keys, st.booleans())
def test_a_store_at_a_cut_refuses_writes(versions: Versions, taken: list[Step], pk: bytes, put: bool) -> None:
    past = versions.past(Built(versions.new_store, taken, True).owner, versions.offset)

    with pytest.raises(AssertionError, match="read only"):
        past.put(pk, b"", (b"{}", 2)) if put else past.remove(pk, b"")
