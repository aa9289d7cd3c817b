"""`python -m tests.verification.simulator`: histories from their seeds. Exit code 1 if one is wrong.

--seed N            one history, and its report; with --verbose, all its events
--seeds A:B         all from A on, before B
--jobs J            the number of processes
--operations K      the number of requests of a history
"""

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from tests.verification.simulator.run import OPERATIONS, Report, simulate

_SHARE = 50  # seeds per task of a process


def main(words: list[str]) -> int:
    """Run histories and print their results."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.verification.simulator", description="Histories from their seeds."
    )
    parser.add_argument("--seed", type=int, help="one history")
    parser.add_argument("--verbose", action="store_true", help="of one history, say all that happens")
    parser.add_argument("--seeds", help="A:B, all from A on, before B")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--operations", type=int, default=OPERATIONS, help="what clients ask for in a history"
    )
    parser.add_argument("--most", type=int, default=10, help="stop after so many that are wrong")
    choices = parser.parse_args(words)
    if choices.seed is not None:
        say(str(simulate(choices.seed, choices.operations, say if choices.verbose else None)))
        return 0
    first, _, end = (choices.seeds or "0:100").partition(":")
    totals = many(range(int(first), int(end)), choices.operations, choices.jobs, choices.most)
    return 1 if totals.wrong else 0


@dataclass(slots=True)
class Totals:
    """The sums of many reports."""

    faults: Counter[str] = field(default_factory=Counter)
    histories: int = 0
    wrong: int = 0
    operations: int = 0
    transactions: int = 0
    acknowledged: int = 0
    index_reads: int = 0
    records: int = 0
    seconds: float = 0.0

    def add(self, report: Report) -> None:
        """Add a report."""
        self.histories += 1
        self.faults += report.faults
        self.operations += report.operations
        self.transactions += report.transactions
        self.acknowledged += report.acknowledged
        self.index_reads += report.index_reads
        self.records += report.records
        self.seconds += report.seconds


def many(seeds: range, operations: int = OPERATIONS, jobs: int = 1, most: int = 10) -> Totals:
    """Run the histories of many seeds and print their results; stop after `most` wrong ones."""
    began = time.monotonic()
    totals = Totals()
    for seed, result in results(seeds, operations, jobs):
        if isinstance(result, Report):
            totals.add(result)
            continue
        totals.wrong += 1
        say(f"{result}\npython -m tests.verification.simulator --seed {seed} --operations {operations}\n")
        if totals.wrong == most:
            break
    passed = time.monotonic() - began
    for fault, count in sorted(totals.faults.items()):
        say(f"{count:12,}  {fault}")
    for name in ("operations", "transactions", "acknowledged", "index_reads", "records"):
        say(f"{getattr(totals, name):12,}  {name.replace('_', ' ')}")
    say(f"{totals.seconds / 3600:12,.1f}  hours of virtual time")
    say(f"{totals.histories:12,}  histories, {totals.histories / passed:.0f} a second; {totals.wrong} wrong")
    return totals


def results(seeds: range, operations: int, jobs: int) -> Iterator[tuple[int, Report | str]]:
    """Yield each seed with its report or its fault, in order."""
    if jobs == 1:
        for seed in seeds:
            yield seed, judged(seed, operations)
        return
    with ProcessPoolExecutor(jobs) as processes:
        shares = [
            range(first, min(first + _SHARE, seeds.stop)) for first in range(seeds.start, seeds.stop, _SHARE)
        ]
        try:
            for share, found in zip(
                shares, processes.map(_judged_all, shares, [operations] * len(shares)), strict=True
            ):
                yield from zip(share, found, strict=True)
        finally:
            processes.shutdown(cancel_futures=True)


def judged(seed: int, operations: int) -> Report | str:
    """Return the report of a history, or its fault."""
    try:
        return simulate(seed, operations)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"seed {seed}: {type(error).__name__}: {error} ({last.filename}:{last.lineno})"


def _judged_all(seeds: range, operations: int) -> list[Report | str]:
    return [judged(seed, operations) for seed in seeds]


def say(text: str) -> None:
    """Print one line and flush."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
