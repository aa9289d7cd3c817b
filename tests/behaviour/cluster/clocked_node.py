"""`foldb` on a clock that a test moves: `python -m tests.behaviour.cluster.clocked_node FILE serve ...`.

FILE has the milliseconds by which the clock is ahead of the system's, in 8 bytes. All nodes of a test map it, so a
write to it moves all of their clocks at once.
"""

import mmap
import sys
import time
from pathlib import Path
from typing import Final

from foldb.cli import run
from foldb.server import app

_BYTES: Final = 8


class SharedClock:
    """The clock of all processes that map a file."""

    def __init__(self, path: Path) -> None:
        """Map the file, which is created if it is missing."""
        if not path.exists():
            path.write_bytes(bytes(_BYTES))
        with path.open("r+b") as file:
            self._ahead = mmap.mmap(file.fileno(), _BYTES)

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + int.from_bytes(self._ahead[:], "little")

    def move_to(self, time_ms: int) -> None:
        """Move the clock forward to a time."""
        ahead_ms = time_ms - time.time_ns() // 1_000_000
        self._ahead[:] = ahead_ms.to_bytes(_BYTES, "little")


if __name__ == "__main__":
    clock = SharedClock(Path(sys.argv.pop(1)))
    vars(app)["clock_of"] = lambda _: clock
    run()
