"""The layout of a store in memory. tests/unit/contracts/test_store.py has the tests of its answers."""

import gc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldb.materializer.fold import storage as storage_module
from foldb.materializer.fold.storage import CHUNK, LISTS_UP_TO, Collection, MemoryStore, Stored
from foldb.model.keys import key_hash, slot

OWNER = 7


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
