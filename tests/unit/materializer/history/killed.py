"""Follows the log in a folder in small epochs, one record a step, and prints the progress: a process for tests to kill.

python -m tests.unit.materializer.history.killed FOLDER
"""

import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from foldb.log.local import LocalLog
from foldb.materializer.history import follower as follower_module
from foldb.materializer.history.epochs import open_history


def single_steps() -> Iterator[float]:
    """Yield the times of a clock by which each step folds one record."""
    return count(0, 0.004)


def main(folder: Path) -> None:
    follower_module._CHECKPOINT_RECORDS = 7
    log = LocalLog.open_reader(folder / "data")
    follower = open_history(folder / "history", log, 0, floor=5, clock=single_steps().__next__)
    more = True
    while more:
        more = follower.step()
        sys.stdout.write(f"{follower.history.position.offset + 1}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
