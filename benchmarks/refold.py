"""Measure the rate of a refold: puts, and conditional updates of the same items."""

import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from foldb.log.commands import Command, Put, Record
from foldb.log.local import LocalLog
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.refold import refold

from . import logs
from .options import Options
from .peers import temporary_folder
from .requests import PER_COLLECTION, orders
from .tables import at_least, show

GOAL_PUTS = 200_000
GOAL_UPDATES = 60_000


def measure(options: Options) -> None:
    """Print commands per second of processor time."""
    rows = []
    for name, per_key in (("one item a key", 1), (f"{PER_COLLECTION} items a key", PER_COLLECTION)):
        keys = list(orders(options.commands // per_key, per_key))
        rows.append([f"puts, {name}", _against(_rate(options, logs.puts(keys), len(keys)), GOAL_PUTS)])
    both: Iterator[Command] = chain(logs.puts(keys), logs.updates(keys))
    rate = _rate(options, both, len(keys), puts_before=len(keys))
    rows.append(["conditional updates", _against(rate, GOAL_UPDATES)])
    show("refold", ["", "commands/s"], rows)


def _against(rate: float, goal: float) -> str:
    return f"{rate:,.0f}/s, {at_least(rate / goal, 1)} of {goal:,}"


def _rate(options: Options, commands: Iterator[Command], count: int, puts_before: int = 0) -> float:
    """Return the best rate of `count` commands after as many puts."""
    with temporary_folder() as folder:
        logs.write(folder, commands, options.port)
        return max(_once(folder, count, puts_before) for _ in range(options.rounds))


def _once(folder: Path, count: int, puts_before: int) -> float:
    state, records = PartitionState(), LocalLog.open_reader(folder / "data").read(0)
    if puts_before:
        refold(state, _through(records, puts_before))
    start = time.process_time()
    refold(state, records)
    return count / (time.process_time() - start)


def _through(records: Iterator[Record], puts: int) -> Iterator[Record]:
    """Yield the records up to the one with the last of N puts."""
    for record in records:
        yield record
        puts -= sum(type(command) is Put for command in record.entry.commands)
        if not puts:
            return
