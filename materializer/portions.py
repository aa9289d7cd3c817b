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


class Traffic:
    """The number of requests of clients that this process has received.

    Attributes:
        requests: Each listener adds one at a request.
    """

    __slots__ = ("requests",)

    def __init__(self) -> None:
        self.requests = 0


class Pace:
    """The items of the next step of a long task: `least` after a request, then twice as many at each step, to `most`.

    A request waits for the step that runs. A step of few items is short, and one of many needs fewer syncs of the log.
    """

    def __init__(self, traffic: Traffic, least: int, most: int) -> None:
        self._traffic = traffic
        self._least = least
        self._most = most
        self._items = least
        self._requests = traffic.requests  # at the last step

    def next_items(self) -> int:
        """Return the maximum number of items of the next step."""
        requests = self._traffic.requests
        self._items = self._least if requests != self._requests else min(2 * self._items, self._most)
        self._requests = requests
        return self._items


def portion(entries: Iterable[ViewEntry], items: int) -> tuple[list[ViewEntry], bool]:
    """Return the next entries of a scan, at most `items`, and whether more may follow.

    Their bytes are about 8 KB times `items` at most, and never more than 4 MB and an item.
    """
    taken: list[ViewEntry] = []
    size, most = 0, min(items * _STEP_BYTES, PORTION_BYTES)
    for entry in islice(entries, items):
        taken.append(entry)
        size += len(entry[3][0])
        if size >= most:
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
