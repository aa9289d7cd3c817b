"""Keeps the pauses of Python's cycle collector short, for any number of items.

A full collection traverses everything that could be part of a cycle, and every collection of items could be: a tenth
of a second at a million items. But objects that survive a full collection are no garbage, and items never become
part of a cycle. So all survivors are frozen (`gc.freeze`), and the next full collection traverses only newer
objects.

A cycle that becomes garbage after it was frozen is never found. The objects that live that long are items, tables
and connections, and none of them leaves a cycle behind.

A collection also traverses each item in a new list or dict. So a portion of work that adds items by the thousand
runs without collections, and its items are frozen as well.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_is_ours = False  # whether `short_pauses` is active in this process


@contextmanager
def short_pauses() -> Iterator[None]:
    """Freeze the survivors of each full collection. For the whole process: only foldb's own processes use it."""
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
    """Run a portion of work that adds many items without collections, and freeze the items."""
    with no_collections():
        yield
        if _is_ours:
            gc.freeze()


def _put_out_of_sight(phase: str, info: dict[str, Any]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
