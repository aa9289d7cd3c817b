"""foldb beside dynoxide, and beside itself on other sizes, in one run.

    DYNOXIDE=path/to/dynoxide python -m benchmarks [part ...] [--seconds 3] [--rounds 3] [--quick]

Each part prints a table; a figure that has a goal says whether it is reached. Without a part all are run, which takes
about half an hour. Needs Linux and wrk on the PATH, and dynoxide (npm package @dynoxide/linux-x64) for the comparison:
where it is missing its columns say so.
"""

import argparse
import os
import platform
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from . import cluster, cpu, feed, flat, kafka, memory, paging, rates, refold, scans, start, turns
from .load import require_wrk
from .options import QUICK, Options

PARTS: dict[str, Callable[[Options], None]] = {
    "rates": rates.measure,
    "batches": rates.measure_batches,
    "refold": refold.measure,
    "memory": memory.measure,
    "start": start.measure,
    "flat": flat.measure,
    "paging": paging.measure,
    "scans": scans.measure,
    "turns": turns.measure,
    "cpu": cpu.measure,
    "feed": feed.measure,
    "kafka": kafka.measure,
    "cluster": cluster.measure,
}
_WITH_WRK = ("rates", "batches", "flat", "scans", "feed", "cluster")


def main() -> None:
    """Run the parts that are named, or all."""
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
    parser.add_argument("part", nargs="*", choices=[*PARTS, []], help="what to measure; all of it by default")
    parser.add_argument("--seconds", type=int, help="how long a round of requests lasts")
    parser.add_argument("--rounds", type=int, help="how often servers take turns; medians are shown")
    parser.add_argument("--connections", type=int, nargs="+", help="of clients; 1, 32 and 128 by default")
    parser.add_argument("--items", type=int, help="how many items a large table has; 1,000,000 by default")
    parser.add_argument("--port", type=int, help="the first of the ports that servers get")
    parser.add_argument(
        "--quick", action="store_true", help="see that everything runs, the figures mean nothing"
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
    """What the processor calls itself, where Linux tells it."""
    try:
        found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1] if found else platform.machine()


if __name__ == "__main__":
    main()
