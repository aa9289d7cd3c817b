"""A store against a plain dict, under random operations."""

import gc
from itertools import pairwise
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldb.materializer.fold import storage as storage_module
from foldb.materializer.fold.storage import CHUNK, HASHES, LISTS_UP_TO, Collection, MemoryStore, Stored
from foldb.model.keys import key_hash, slot

Model: TypeAlias = dict[tuple[bytes, bytes], Stored]

OWNER = 7

# Few keys, so that steps affect the same ones; zero bytes and prefixes, because they matter to ranges.
partition_keys = st.sampled_from([b"a", b"a\0", b"ab", b"b", b"\xff", b"c" * 40])
sort_keys = st.sampled_from([b"", b"\0", b"\0\0", b"1", b"1\0", b"11", b"2", b"\xff", b"\xff\xff"])
stored = st.integers(1, 400).map(lambda size: (b"{%d}" % size, size))
steps = st.lists(st.tuples(partition_keys, sort_keys, st.none() | stored), max_size=60)


def build(taken: list[tuple[bytes, bytes, Stored | None]], has_sort_key: bool) -> tuple[MemoryStore, Model]:
    """Apply the steps to a store and to a dict; None removes."""
    store, model = MemoryStore(OWNER, has_sort_key), Model()
    for pk, any_sk, item in taken:
        sk = any_sk if has_sort_key else b""
        if item is None:
            assert model.pop((pk, sk), None) == store.remove(pk, sk)
        else:
            assert model.get((pk, sk)) == store.put(pk, sk, item)
            model[pk, sk] = item
    return store, model


def in_scan_order(model: Model) -> list[tuple[int, bytes, bytes, Stored]]:
    return sorted((key_hash(OWNER, pk), pk, sk, item) for (pk, sk), item in model.items())


@given(steps, st.booleans())
def test_a_store_holds_the_same_items_as_a_dict(
    taken: list[tuple[bytes, bytes, Stored | None]], sort: bool
) -> None:
    store, model = build(taken, sort)

    assert in_scan_order(model) == list(store.scan())
    assert len(model) == store.count
    assert sum(size for _, size in model.values()) == store.size
    for pk, any_sk, _ in taken:
        sk = any_sk if sort else b""
        assert model.get((pk, sk)) == store.get(pk, sk)


@given(steps, partition_keys, sort_keys, st.none() | sort_keys, st.booleans())
def test_a_range_is_half_open_and_goes_either_way(
    taken: list[tuple[bytes, bytes, Stored | None]],
    pk: bytes,
    low: bytes,
    high: bytes | None,
    reverse: bool,
) -> None:
    store, model = build(taken, True)

    within = sorted(
        (sk, item)
        for (of, sk), item in model.items()
        if of == pk and low <= sk and (high is None or sk < high)
    )
    assert sorted(within, reverse=reverse) == list(store.range(pk, low, high, reverse))


@given(steps, partition_keys, sort_keys)
def test_a_scan_resumes_after_a_key_that_need_not_be_there(
    taken: list[tuple[bytes, bytes, Stored | None]], pk: bytes, sk: bytes
) -> None:
    store, model = build(taken, True)
    start = (key_hash(OWNER, pk), pk, sk)

    expected = [entry for entry in in_scan_order(model) if entry[:3] > start]
    assert expected == list(store.scan(start))


@given(steps, st.lists(st.integers(0, HASHES), min_size=1, max_size=5), partition_keys)
def test_ranges_of_hashes_cut_a_scan_into_disjoint_parts(
    taken: list[tuple[bytes, bytes, Stored | None]], cuts: list[int], pk: bytes
) -> None:
    store, model = build(taken, True)
    bounds = sorted([0, *cuts, key_hash(OWNER, pk), HASHES])  # one cut divides an item's collection

    parts = [entry for low, high in pairwise(bounds) for entry in store.scan(None, low, high)]
    assert in_scan_order(model) == parts


@given(steps, partition_keys)
def test_a_collection_is_seen_alike_whether_its_items_are_one_or_many(
    taken: list[tuple[bytes, bytes, Stored | None]], pk: bytes
) -> None:
    store, model = build(taken, True)
    mine = {sk: item for (of, sk), item in model.items() if of == pk}

    assert sorted(mine.items()) == list(store.range(pk))
    assert sum(size for _, size in mine.values()) == store.collection_size(pk)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 15), st.booleans()), max_size=120))
def test_a_collection_behaves_alike_in_lists_and_in_chunks(
    taken: list[tuple[int, bool]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage_module, "LISTS_UP_TO", 6)
        patch.setattr(storage_module, "LISTS_AGAIN_AT", 3)
        patch.setattr(storage_module, "CHUNK", 4)
        collection, model = Collection(), dict[bytes, Stored]()
        for number, keep in taken:
            sk, item = bytes([number]), (b"{}", number)
            assert model.get(sk) == collection.get(sk)
            if keep:
                assert model.get(sk) == collection.put(sk, item)
                model[sk] = item
            else:
                assert model.pop(sk, None) == collection.remove(sk)
            assert sorted(model.items()) == list(collection.range())
            assert sorted(model.items(), reverse=True) == list(collection.range(reverse=True))
            for low, high in ((sk, None), (b"", sk), (sk, sk + b"\x02")):
                within = [
                    (key, model[key]) for key in sorted(model) if low <= key and (not high or key < high)
                ]
                assert within == list(collection.range(low, high))
            assert len(model) == len(collection)
            assert sum(size for _, size in model.values()) == collection.size


def test_ranges_of_a_large_collection_are_those_of_a_small_one() -> None:
    large = Collection()
    for number in range(LISTS_UP_TO + 100):
        large.put(b"%05d" % (number * 7919 % (LISTS_UP_TO + 100)), (b"{}", 2))

    keys = [sk for sk, _ in large.range(b"00010", b"00015")]

    assert [b"00010", b"00011", b"00012", b"00013", b"00014"] == keys
    assert keys[::-1] == [sk for sk, _ in large.range(b"00010", b"00015", reverse=True)]
    assert [] == list(large.range(b"00015", b"00010"))


@pytest.mark.parametrize("portion", [1, 7, 1000])
def test_a_collection_is_discarded_in_portions(portion: int) -> None:
    """Freeing a large one at once would be a long turn of the loop."""
    collection = Collection()
    keys = [b"%05d" % number for number in range(LISTS_UP_TO + 100)]
    collection.extend(keys, [(b"{}", 2)] * len(keys))

    discarded = []
    while len(collection):
        left = [sk for sk, _ in collection.range()]
        discarded.append(collection.discard(portion))
        assert left[: -discarded[-1]] == [sk for sk, _ in collection.range()]
        if portion == 1 and len(discarded) > 2 * CHUNK:
            return

    assert len(keys) == sum(discarded)
    assert portion == max(discarded)


def test_a_store_is_discarded_in_portions() -> None:
    store = MemoryStore(OWNER, has_sort_key=True)
    for number in range(50):
        for place in range(1 + number % 3):
            store.put(b"%d" % number, b"%d" % place, (b"x" * 10, 10))
    whole = store.count

    counts = [whole]
    while store.count:
        store.discard(7)
        counts.append(store.count)

    assert all(7 == more - less for more, less in pairwise(counts[:-1]))
    assert 0 == store.size
    assert [] == list(store.scan())


def test_items_that_are_added_behind_fill_chunks() -> None:
    """A snapshot's items come in pieces of any size."""
    collection = Collection()
    keys = [b"%05d" % number for number in range(3 * LISTS_UP_TO)]
    for start in range(0, len(keys), 100):
        more = keys[start : start + 100]
        collection.extend(more, [(b"{}", 2)] * len(more))

    assert keys == [sk for sk, _ in collection.range()]
    assert [(b"00500", (b"{}", 2))] == list(collection.range(b"00500", b"00501"))


def test_a_scan_under_way_sees_partition_keys_that_came_and_went() -> None:
    store = MemoryStore(OWNER, has_sort_key=False)
    neighbours = _keys_of_one_slot(3)
    store.put(neighbours[0], b"", (b"{}", 2))
    store.put(neighbours[2], b"", (b"{}", 2))
    first = next(store.scan())  # from here on the slot's order is cached

    store.put(neighbours[1], b"", (b"{}", 2))
    store.remove(neighbours[2], b"")

    assert [neighbours[1]] == [pk for _, pk, _, _ in store.scan(first[:3])]


def test_items_at_rest_are_not_tracked_by_the_garbage_collector() -> None:
    store = MemoryStore(OWNER, has_sort_key=True)
    store.put(b"a", b"1", (b"x" * 200, 200))
    gc.collect()

    held = next(iter(store._slots.values()))[b"a"]
    assert not gc.is_tracked(held)


def _keys_of_one_slot(count: int) -> list[bytes]:
    """Return partition keys of one slot, in the order of their hashes."""
    wanted = slot(key_hash(OWNER, b"0"))
    keys = (b"%d" % number for number in range(1_000_000))
    found: list[bytes] = []
    for pk in keys:
        if slot(key_hash(OWNER, pk)) == wanted:
            found.append(pk)
        if len(found) == count:
            break
    return sorted(found, key=lambda pk: key_hash(OWNER, pk))
