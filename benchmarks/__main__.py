"""Measure foldb, beside dynoxide and on tables of different sizes.

    DYNOXIDE=path/to/dynoxide python -m benchmarks [part ...] [--seconds 3] [--rounds 3] [--quick]

Each part prints a table. A figure with a goal shows whether the goal is reached. All parts take about half an hour.
They need Linux and wrk on the PATH; those that count instructions need valgrind. The comparison needs dynoxide (npm
package @dynoxide/linux-x64); without it its columns are empty.
"""

import argparse
import os
import platform
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from . import (
    cluster,
    commit,
    cpu,
    feed,
    flat,
    history,
    isolation,
    kafka,
    latency,
    memory,
    paging,
    rates,
    readers,
    refold,
    scans,
    sizes,
    start,
    throttling,
    turns,
)
from .load import require_wrk
from .options import QUICK, Options

PARTS: dict[str, Callable[[Options], None]] = {
    "rates": rates.measure,
    "batches": rates.measure_batches,
    "sizes": sizes.measure,
    "refold": refold.measure,
    "memory": memory.measure,
    "start": start.measure,
    "start-kafka": start.measure_kafka,
    "flat": flat.measure,
    "paging": paging.measure,
    "scans": scans.measure,
    "isolation": isolation.measure,
    "turns": turns.measure,
    "cpu": cpu.measure,
    "throttling": throttling.measure,
    "commit": commit.measure,
    "latency": latency.measure,
    "feed": feed.measure,
    "readers": feed.measure_readers,
    "readers-instructions": readers.measure,
    "history": history.measure,
    "kafka": kafka.measure,
    "cluster": cluster.measure,
}
_WITH_WRK = (
    "rates",
    "batches",
    "sizes",
    "flat",
    "scans",
    "latency",
    "feed",
    "readers",
    "history",
    "cluster",
)


def main() -> None:
    """Run the given parts, or all."""
    # With it each process that a part starts would compile its modules again: 0.2 s of processor time.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    arguments = _arguments()
    options = _options(arguments)
    parts = arguments.part or list(PARTS)
    if any(part in _WITH_WRK for part in parts):
        require_wrk()
    print(f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, ", end="")
    print(f"Python {platform.python_version()}, rounds of {options.seconds} s: {options.rounds}")
    for part in parts:
        PARTS[part](options)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", nargs="*", choices=[*PARTS, []], help="the parts to measure; default: all")
    parser.add_argument("--seconds", type=int, help="the seconds of a round of requests")
    parser.add_argument("--rounds", type=int, help="the number of rounds; medians are printed")
    parser.add_argument(
        "--connections", type=int, nargs="+", help="the numbers of connections; default: 1, 32 and 128"
    )
    parser.add_argument("--items", type=int, help="the items of a large table; default: 1,000,000")
    parser.add_argument("--port", type=int, help="the first port of the servers; default: 18300")
    parser.add_argument(
        "--quick", action="store_true", help="check that every part runs; its figures are meaningless"
    )
    return parser.parse_args()


def _options(arguments: argparse.Namespace) -> Options:
    options = QUICK if arguments.quick else Options()
    given = {
        "seconds": arguments.seconds,
        "rounds": arguments.rounds,
        "connections": arguments.connections and tuple(arguments.connections),
        "items": arguments.items,
        "port": arguments.port,
    }
    return replace(options, **{name: value for name, value in given.items() if value is not None})


def _processor() -> str:
    """Return the model name of the processor, if Linux shows it."""
    try:
        found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1] if found else platform.machine()


if __name__ == "__main__":
    main()
