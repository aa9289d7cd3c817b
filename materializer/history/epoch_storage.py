"""Where the epochs of a partition are: on disk, or in memory.

    <folder>/epochs      BLAKE2b-128 of the list, and the list of the epochs as JSON (epochs.py)
    <folder>/lock        locked while a process has the history open
    <folder>/<number>/   the storage of one epoch (rocks_engine.py)

The list is replaced as a whole, after everything that it names is durable. A folder that it does not name is an epoch
whose base was not complete when the process ended, or one that was deleted: the next start removes it.
"""

import logging
import shutil
from collections.abc import Collection
from hashlib import blake2b
from pathlib import Path
from typing import Final, Protocol

from ...log.local.filesystem import Filesystem, SystemFilesystem, create_file, read_all
from .engine import Engine, HistoryInUseError, finding_full_disk
from .memory_engine import MemoryEngine

logger = logging.getLogger(__name__)

_LIST: Final = "epochs"
_LOCK: Final = "lock"
_CHECK_BYTES: Final = 16


class EpochStorage(Protocol):
    """The storages of the epochs of one partition, by number, and their list."""

    def read_list(self) -> bytes | None:
        """Return the list; None if it is missing or damaged."""
        ...

    def write_list(self, text: bytes) -> None:
        """Replace the list.

        Raises:
            FullDiskError: The disk is full. The list is the one before.
        """
        ...

    def numbers(self) -> list[int]:
        """Return the numbers of all storages."""
        ...

    def open(self, number: int) -> Engine:
        """Open the storage of an epoch, or create it.

        Raises:
            FullDiskError: The disk is full.
        """
        ...

    def remove(self, numbers: Collection[int]) -> None:
        """Delete storages. They are closed."""
        ...

    def close(self) -> None:
        """Release the storage. All epochs are closed."""
        ...


def read_list(disk: Filesystem, folder: Path) -> bytes | None:
    """Return the list of the epochs in a folder, which a process may have open; None if it is missing or damaged."""
    try:
        data = read_all(disk, folder / _LIST)
    except FileNotFoundError:
        return None
    text = data[_CHECK_BYTES:]
    if data[:_CHECK_BYTES] == _check(text):
        return text
    logger.warning("the list of epochs in %s is damaged; the history is folded again", folder)
    return None


class EpochFolder:
    """An `EpochStorage` on disk."""

    def __init__(self, folder: Path) -> None:
        """Open the folder of a partition, or create it.

        Raises:
            FullDiskError: The disk is full.
            HistoryInUseError: Another process has opened the history.
        """
        self._folder = folder
        self._disk = SystemFilesystem()
        with finding_full_disk():
            folder.mkdir(mode=0o700, exist_ok=True, parents=True)
            try:
                self._lock = self._disk.lock(folder / _LOCK, b"")
            except BlockingIOError as error:
                raise HistoryInUseError(f"another process has opened the history in {folder}") from error

    def read_list(self) -> bytes | None:
        """Return the list; None if it is missing or damaged."""
        return read_list(self._disk, self._folder)

    def write_list(self, text: bytes) -> None:
        """Replace the list."""
        with finding_full_disk():
            create_file(self._disk, self._folder / _LIST, _check(text) + text, replaces=True).close()

    def numbers(self) -> list[int]:
        """Return the numbers of all storages."""
        return sorted(int(path.name) for path in self._folder.iterdir() if path.name.isdecimal())

    def open(self, number: int) -> Engine:
        """Open the storage of an epoch, or create it."""
        from .rocks_engine import RocksEngine  # the library of RocksDB: a serving process does not load it

        with finding_full_disk():
            return RocksEngine(self._folder / f"{number}")

    def remove(self, numbers: Collection[int]) -> None:
        """Delete storages. Reads under way may still use their files."""
        for number in numbers:
            shutil.rmtree(self._folder / f"{number}", ignore_errors=True)

    def close(self) -> None:
        """Unlock the folder."""
        self._lock.close()


class EpochMemory:
    """An `EpochStorage` in memory. It outlives its history, which the next one continues."""

    def __init__(self) -> None:
        self.engines: dict[int, MemoryEngine] = {}
        self._list: bytes | None = None

    def read_list(self) -> bytes | None:
        """Return the list; None if there is none."""
        return self._list

    def write_list(self, text: bytes) -> None:
        """Replace the list."""
        self._list = text

    def numbers(self) -> list[int]:
        """Return the numbers of all storages."""
        return sorted(self.engines)

    def open(self, number: int) -> Engine:
        """Return the storage of an epoch."""
        return self.engines.setdefault(number, MemoryEngine())

    def remove(self, numbers: Collection[int]) -> None:
        """Delete storages."""
        for number in numbers:
            del self.engines[number]

    def close(self) -> None:
        """Do nothing."""


def _check(text: bytes) -> bytes:
    return blake2b(text, digest_size=_CHECK_BYTES).digest()
