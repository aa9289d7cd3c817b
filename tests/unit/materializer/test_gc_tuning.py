"""The objects that Python's cycle collector traverses, and how often."""

import gc

from foldb.materializer.fold.storage import MemoryStore
from foldb.materializer.gc_tuning import short_pauses


def test_a_full_collection_looks_at_nothing_twice() -> None:
    with short_pauses():
        kept = [[number] for number in range(1000)]
        assert len(kept) <= len(gc.get_objects())

        gc.collect()

        assert len(gc.get_objects()) < len(kept)
    assert len(kept) <= len(gc.get_objects())


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
