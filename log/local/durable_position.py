"""The writer's durable position, in a small file for readers and for the next start.

    mark ::= uint64 segment  uint64 acknowledged  uint64 synced  check          big-endian; BLAKE2b-64 of the rest

`segment` is the sequence of the segment's first record; `acknowledged` and `synced` are byte positions in it. The file
is written after each sync and never synced itself: its positions may be too low, especially after a power cut, and are
never too high. A reader shows acknowledged records. If a start finds fewer bytes than were synced, the log is damaged;
the blocks alone would look like a write torn by a crash.
"""

import struct
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

from ...model.lazy_dataclass import dataclass
from .filesystem import File, Filesystem, read_all, write_all

NAME: Final = "mark"
NUMBERS: Final = struct.Struct(">QQQ")
CHECK_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class DurablePosition:
    """See the module."""

    sequence: int
    acknowledged: int
    synced: int

    def encode(self) -> bytes:
        """Return the file's bytes."""
        numbers = NUMBERS.pack(self.sequence, self.acknowledged, self.synced)
        return numbers + _check(numbers)


def read_mark(disk: Filesystem, folder: Path) -> DurablePosition | None:
    """Return the writer's durable position; None if the file is missing or invalid."""
    try:
        data = read_all(disk, folder / NAME)
    except FileNotFoundError:
        return None
    numbers = data[: NUMBERS.size]
    if len(numbers) < NUMBERS.size or data[NUMBERS.size :] != _check(numbers):
        return None
    return DurablePosition(*NUMBERS.unpack(numbers))


def open_mark(disk: Filesystem, folder: Path) -> File | None:
    """Open the file for durable positions; None if the disk is full, which must not prevent a start."""
    try:
        return disk.open(folder / NAME, create=True)
    except OSError:
        return None


def write_mark(file: File, mark: DurablePosition) -> None:
    """Write the durable position. After a failure the file has an older one, which is allowed."""
    with suppress(OSError):
        write_all(file, 0, mark.encode())


def _check(numbers: bytes) -> bytes:
    return blake2b(numbers, digest_size=CHECK_BYTES).digest()
