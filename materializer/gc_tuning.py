"""Keeps the pauses of Python's cycle collector short, however many items there are.

A full collection walks through everything that could be part of a cycle, and each collection of items is: a tenth of a
second at a million items. But what has come through one is not garbage, and items never become part of a cycle. So
whatever comes through is put out of the collector's sight, and the next full collection looks only at what is new.

A cycle that dies after it has been put there is not found any more. What lives that long here are items, tables and
connections, and none of them leaves a cycle behind.

A collection also looks at each item in a list or dict that is new. So a portion of work that adds items by the thousand
goes without, and what it has added is put out of sight as well.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_is_ours = False  # the process: `short_pauses` holds


@contextmanager
def short_pauses() -> Iterator[None]:
    """Have full collections look at nothing twice. It is for the whole process, so only for one that is ours."""
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
    """Keep Python's cycle collector out: a refold makes no garbage of its kind, and would lose a third to it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def adding_items() -> Iterator[None]:
    """Keep the collector out of a portion of work that adds many items, and from looking at them later."""
    with no_collections():
        yield
        if _is_ours:
            gc.freeze()


def _put_out_of_sight(phase: str, info: dict[str, Any]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
