"""Keeps the pauses of Python's cycle collector short, however many items there are.

A full collection walks through everything that could be part of a cycle, and each collection of items is: a tenth of a
second at a million items. But what has come through one is not garbage, and items never become part of a cycle. So
whatever comes through is put out of the collector's sight, and the next full collection looks only at what is new.

A cycle that dies after it has been put there is not found any more. What lives that long here are items, tables and
connections, and none of them leaves a cycle behind.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def short_pauses() -> Iterator[None]:
    """Have full collections look at nothing twice. It is for the whole process, so only for one that is ours."""
    gc.freeze()
    gc.callbacks.append(_put_out_of_sight)
    try:
        yield
    finally:
        gc.callbacks.remove(_put_out_of_sight)
        gc.unfreeze()


def _put_out_of_sight(phase: str, info: dict[str, Any]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
