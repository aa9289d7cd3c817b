"""Portions: the part of a long task that one turn of the loop does, so other requests are served in between.

A portion is bounded by counting its work, never by a clock. 600 steps take about ten milliseconds.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from ..log.commands import Backfill, Command, Transact
from .fold.view import Entry

PORTION_BYTES: Final = 4 * 1024 * 1024
"""A portion of large items ends here, whatever their number."""


def portion(entries: Iterable[Entry], items: int) -> tuple[list[Entry], bool]:
    """Return the next entries of a scan, at most `items` and about 4 MB, and whether more may follow."""
    taken: list[Entry] = []
    size = 0
    for entry in islice(entries, items):
        taken.append(entry)
        size += len(entry[3][0])
        if size >= PORTION_BYTES:
            return taken, True
    return taken, len(taken) == items


def steps(command: Command) -> int:
    """Return how many items folding a command touches at most."""
    if type(command) is Transact:
        return len(command.actions)
    return command.count if type(command) is Backfill else 1
