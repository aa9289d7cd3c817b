"""How far the writer has got, in a small file for readers beside it and for the next start.

    mark ::= uint64 segment  uint64 acknowledged  uint64 synced  check          big-endian; BLAKE2b-64 of the rest

Both numbers are bytes of the segment that begins with that record. The file is written after the fact and never
synced, so it may say too little, and after a power cut it often does; it never says too much. A reader shows what was
acknowledged. A start that finds less than was synced knows that the log was damaged, where the blocks alone would
look like a write that a crash tore.
"""

import struct
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

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
        """The file's bytes."""
        numbers = NUMBERS.pack(self.sequence, self.acknowledged, self.synced)
        return numbers + _check(numbers)


def read_mark(disk: Filesystem, folder: Path) -> DurablePosition | None:
    """The writer's mark; None if there is none, or none that is whole."""
    try:
        data = read_all(disk, folder / NAME)
    except FileNotFoundError:
        return None
    numbers = data[: NUMBERS.size]
    if len(numbers) < NUMBERS.size or data[NUMBERS.size :] != _check(numbers):
        return None
    return DurablePosition(*NUMBERS.unpack(numbers))


def open_mark(disk: Filesystem, folder: Path) -> File | None:
    """The file to leave marks in; None where there is no room for it, which must not keep a log from starting."""
    try:
        return disk.open(folder / NAME, create=True)
    except OSError:
        return None


def write_mark(file: File, mark: DurablePosition) -> None:
    """Leave the mark. If that fails it says too little, as it may."""
    with suppress(OSError):
        write_all(file, 0, mark.encode())


def _check(numbers: bytes) -> bytes:
    return blake2b(numbers, digest_size=CHECK_BYTES).digest()
