"""Portions: the part of a long task in one turn of the loop, so that other requests are served in between.

A portion is bounded by counting its work, never by a clock. 600 steps take about ten milliseconds.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from ..log.commands import Action, Backfill, Command, Load, Put, Transact
from .fold.view import ViewEntry

PORTION_BYTES = 4 * 1024 * 1024
"""A portion of large items ends after this number of bytes, before its number of items is reached."""


# Reading this number of bytes from the log takes as long as folding a small put.
_STEP_BYTES: Final = 8 * 1024


def portion(entries: Iterable[ViewEntry], items: int) -> tuple[list[ViewEntry], bool]:
    """Return the next entries of a scan, at most `items` and about 4 MB, and whether more may follow."""
    taken: list[ViewEntry] = []
    size = 0
    for entry in islice(entries, items):
        taken.append(entry)
        size += len(entry[3][0])
        if size >= PORTION_BYTES:
            return taken, True
    return taken, len(taken) == items


def steps(command: Command | Action) -> int:
    """Return the approximate work of folding a command, in puts of a small item."""
    if type(command) is Put:
        return 1 + len(command.item) // _STEP_BYTES
    if type(command) is Transact:
        return sum(map(steps, command.actions))
    if type(command) is Load:
        return sum(1 + len(item.item) // _STEP_BYTES for item in command.items)
    return command.count if type(command) is Backfill else 1
