"""The objects that Python's cycle collector traverses, and how often."""

import gc
import weakref

import pytest

from foldb.materializer.fold.storage import MemoryStore
from foldb.materializer.gc_tuning import adding_items, short_pauses


def test_a_full_collection_looks_at_nothing_twice() -> None:
    with short_pauses():
        kept = [[number] for number in range(30_000)]
        assert len(kept) <= len(gc.get_objects())

        gc.collect()

        assert len(gc.get_objects()) < len(kept)
    assert len(kept) <= len(gc.get_objects())


class Node:
    """An object of a cycle: it refers to itself."""

    def __init__(self) -> None:
        self.node = self


@pytest.mark.parametrize("items", [10, 30_000])
def test_a_portion_of_items_keeps_no_garbage(items: int) -> None:
    with short_pauses():
        garbage = weakref.ref(Node())
        with adding_items():
            kept = [[number] for number in range(items)]
        gc.collect()

        assert garbage() is None
        assert len(kept) == items


def test_a_cycle_that_a_full_collection_has_seen_is_found_as_garbage() -> None:
    with short_pauses():
        node = Node()
        gc.collect()
        garbage = weakref.ref(node)
        del node
        gc.collect()

        assert garbage() is None


def test_a_put_does_not_bring_a_whole_slot_back_before_the_collector() -> None:
    """A plain dict would be tracked again: Python untracks a dict of atoms until the next item."""
    store = MemoryStore(1, has_sort_key=False)
    for number in range(10_000):
        store.put(b"%d" % number, b"", (b"{}", 1))
    gc.collect()
    gc.disable()
    try:
        store.put(b"one more", b"", (b"{}", 1))

        assert not [
            one for one in gc.get_objects(generation=0) if isinstance(one, dict) and b"one more" in one
        ]
    finally:
        gc.enable()
