"""Keeps the pauses of Python's cycle collector short, for any number of items.

A full collection traverses everything that could be part of a cycle, and every collection of items could be: a tenth
of a second at a million items. But objects that survive a full collection are no garbage, and items never become
part of a cycle. So survivors are frozen (`gc.freeze`) when there are many, and the next full collection traverses only
newer objects.

A cycle that is frozen is never found when it becomes garbage, such as the error of a request that was being
answered. So few survivors stay as they are, and a server whose tables do not grow freezes nothing.

A collection also traverses each item in a new list or dict. So a portion of work that adds items by the thousand
runs without collections, and its items are frozen as well, but first a full collection removes the garbage.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

# A full collection traverses so many objects in a millisecond, and the other collections fewer in a tenth of one.
_MANY_SURVIVORS: Final = 20_000
_MANY_ADDED: Final = 2_000

_is_ours = False  # whether `short_pauses` is active in this process


@contextmanager
def short_pauses() -> Iterator[None]:
    """Freeze the survivors of a full collection if there are many. For a whole process, which has to be foldb's own."""
    global _is_ours
    gc.freeze()
    gc.callbacks.append(_put_out_of_sight)
    _is_ours = True
    try:
        yield
    finally:
        _is_ours = False
        gc.callbacks.remove(_put_out_of_sight)
        gc.unfreeze()


@contextmanager
def no_collections() -> Iterator[None]:
    """Disable the cycle collector: a refold makes no cyclic garbage, and collections would take a third of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def adding_items() -> Iterator[None]:
    """Run a portion of work without collections, and freeze its items if there are many."""
    with no_collections():
        yield
        if _is_ours and gc.get_count()[0] > _MANY_ADDED:
            gc.collect()
            gc.freeze()


def _put_out_of_sight(phase: str, info: dict[str, Any]) -> None:
    is_full = phase == "stop" and info["generation"] == 2
    if is_full and len(gc.get_objects(generation=2)) > _MANY_SURVIVORS:
        gc.freeze()
