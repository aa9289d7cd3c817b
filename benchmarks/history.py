"""Measure a history: the rate at which it is folded, past reads, and its bytes on disk."""

import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median, quantiles

from foldb.log.commands import Command, Position
from foldb.log.local import LocalLog
from foldb.materializer.fold.read_requests import QueryRequest
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.history.epochs import Epochs, open_history
from foldb.materializer.history.rocks_engine import RocksEngine
from foldb.materializer.history.version_history import VersionedState
from foldb.materializer.refold import refold

from . import logs, past_requests
from .instructions import require_valgrind
from .options import Options
from .peers import temporary_folder
from .tables import at_least, at_most, show

GOAL_PUTS = 60_000
GOAL_UPDATES = 30_000
GOAL_PAGE_MS = 20
GOAL_GROWTH = 2
GOAL_BYTES = 1.0
_KEYS = 40_000
_COLLECTIONS = (1_000, 10_000, 100_000, 1_000_000)
_READS = 200
_INDEX = {
    "IndexName": "by-status",
    "KeySchema": [
        {"AttributeName": "status", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ],
    "Projection": {"ProjectionType": "ALL"},
}


def measure(options: Options) -> None:
    """Print the best rates per second of processor time, of all threads, and milliseconds of past reads."""
    require_valgrind()
    dice = random.Random(7)  # noqa: S311  the same load in each run
    keys = [
        (f"user#{number // 20}", f"order#{number % 20}")
        for number in (dice.randrange(_KEYS) for _ in range(options.commands))
    ]
    rows = []
    with temporary_folder() as folder:
        logs.append(folder, [logs.table(), *logs.changing_puts(keys, dice)], create=True)
        used, elapsed, follower = _least(folder, options)
        rate = f"{at_least(len(keys) / used / GOAL_PUTS, 1)} of {GOAL_PUTS:,}"
        rows.append(["puts", f"{len(keys) / used:,.0f}/s, {rate}; {len(keys) / elapsed:,.0f}/s elapsed"])
        rows += [_in_memory(folder, len(keys), options), *_reads(follower, keys), _bytes(folder, follower)]
    with temporary_folder() as folder:
        commands: Iterator[Command] = chain(
            [logs.table(_INDEX)], logs.changing_puts(keys[:_KEYS], dice), logs.updates(keys)
        )
        logs.append(folder, commands, create=True)
        used, elapsed, follower = _least(folder, options)
        count = len(keys[:_KEYS]) + len(keys)
        rate = f"{at_least(count / used / GOAL_UPDATES, 1)} of {GOAL_UPDATES:,}"
        rows.append(
            [
                "puts and conditional updates, an index",
                f"{count / used:,.0f}/s, {rate}; {count / elapsed:,.0f}/s elapsed",
            ]
        )
        rows += [_in_memory(folder, count, options), _bytes(folder, follower)]
    show("history", ["", "figure"], rows)
    _pages(options, dice)
    past_requests.measure(options)


def _pages(options: Options, dice: random.Random) -> None:
    """Print the time of a page of 100 items of a collection of 1,000 items, with more and more versions.

    Keys with one version need no seek (past_store.py), so the store's growth is that of ten and more.
    """
    rows = []
    middles: dict[str, list[float]] = {"forward": [], "backward": []}
    served: dict[str, list[float]] = {"forward": [], "backward": []}
    with ExitStack() as stack:
        folders = {}
        for versions in _COLLECTIONS:
            if versions > options.items:
                continue
            keys = [("user#1", f"order#{dice.randrange(1000):04}") for _ in range(versions)]
            folder = folders[versions] = stack.enter_context(temporary_folder())
            logs.append(folder, [logs.table(), *logs.changing_puts(keys, dice)], create=True)
            _, _, follower = _follow(folder)
            for name, middle in middles.items():
                request = QueryRequest(
                    logs.FIRST_TABLE, None, b"user#1", b"", None, forward=name == "forward", limit=100
                )
                taken = _timed(follower, dice, partial(VersionedState.read_page, request=request))
                middle.append(median(taken))
                rows.append(_page(f"{versions:,} versions, {name}", taken))
            follower.close()
        for (versions, name), taken in past_requests.pages(options, folders, dice).items():
            served[name].append(median(taken))
            rows.append(_page(f"{versions:,} versions, {name}, over HTTP", taken))
    for name, (_, *several) in middles.items():
        if several:
            growth = f"{max(several) / min(several):.2f}"
            rows.append([f"{_COLLECTIONS[1]:,} versions or more, {name}, growth", growth, ""])
    for name, each in served.items():
        growth = at_most(round(max(each) / min(each), 2), GOAL_GROWTH)
        rows.append([f"{_COLLECTIONS[0]:,} versions or more, {name}, over HTTP, growth", growth, ""])
    show("page of 100 items at a random cut", ["", "p50", "p99"], rows)


def _page(name: str, taken: list[float]) -> list[str]:
    return [name, f"{median(taken):.2f} ms", at_most(quantiles(taken, n=100)[98], GOAL_PAGE_MS, " ms")]


def _reads(follower: Epochs, keys: list[tuple[str, str]]) -> Iterator[list[str]]:
    dice = random.Random(8)  # noqa: S311  the same reads in each run

    def get(state: VersionedState) -> None:
        pk, sk = dice.choice(keys)
        state.tables[logs.FIRST_TABLE].items.get(pk.encode(), sk.encode())

    yield ["past get", _shown(_timed(follower, dice, get))]


def _timed(follower: Epochs, dice: random.Random, read: Callable[[VersionedState], object]) -> list[float]:
    """Return the milliseconds of reads at random cuts of the second half of the log."""
    taken = []
    for _ in range(_READS):
        last = follower.history.position.offset
        cut = Position(0, dice.randrange((last + 1) // 2, last + 1))
        start = time.perf_counter()
        read(follower.history.at(cut))
        taken.append((time.perf_counter() - start) * 1000)
    return taken


def _shown(taken: list[float]) -> str:
    return f"{median(taken):.2f} ms, {quantiles(taken, n=100)[98]:.2f} ms"


def _bytes(folder: Path, follower: Epochs) -> list[str]:
    for epoch in follower.all():
        engine = follower.opened(epoch).engine
        assert isinstance(engine, RocksEngine)
        engine.compact()
    log = sum(file.stat().st_size for file in (folder / "data").glob("*.avro"))
    follower.close()
    history = sum(file.stat().st_size for file in (folder / "history").rglob("*") if file.is_file())
    return ["bytes, compacted, beside the log's", at_most(history / log, GOAL_BYTES)]


def _follow(folder: Path) -> tuple[float, float, Epochs]:
    """Fold a log; return processor time and elapsed time in seconds."""
    used, start = time.process_time(), time.perf_counter()
    follower = open_history(folder / "history", LocalLog.open_reader(folder / "data"), 0)
    follower.catch_up()
    return time.process_time() - used, time.perf_counter() - start, follower


def _least(folder: Path, options: Options) -> tuple[float, float, Epochs]:
    """Fold a log several times; return the least processor time and elapsed time, and the last history."""
    used, elapsed, follower = _follow(folder)
    for _ in range(options.rounds - 1):
        follower.close()
        shutil.rmtree(folder / "history")
        used_again, elapsed_again, follower = _follow(folder)
        used, elapsed = min(used, used_again), min(elapsed, elapsed_again)
    return used, elapsed, follower


def _in_memory(folder: Path, count: int, options: Options) -> list[str]:
    """Return the best rate of the same fold without versions, which bounds that of a history."""
    used = []
    for _ in range(options.rounds):
        state, start = PartitionState(), time.process_time()
        refold(state, LocalLog.open_reader(folder / "data").read(0))
        used.append(time.process_time() - start)
    return ["the same fold in memory", f"{count / min(used):,.0f}/s"]
