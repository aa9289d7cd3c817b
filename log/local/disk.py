"""All that the local log asks of an operating system, in one small object.

Tests put a disk in its place whose writes tear, whose syncs fail and whose space runs out; a simulator can put one
that lives in memory and loses power. A method raises OSError as the system does.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

READ_WRITE = os.O_RDWR | os.O_CLOEXEC


class File(Protocol):
    """An open file. Positions are bytes from its start."""

    def size(self) -> int:
        """How many bytes it has."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """At most `size` bytes; fewer only at the end of the file."""
        ...

    def write(self, position: int, data: bytes) -> int:
        """Write some of `data`, at least one byte of it; how many it were."""
        ...

    def truncate(self, size: int) -> None:
        """Cut it to `size` bytes."""
        ...

    def sync(self) -> None:
        """Return when its bytes and its size would survive a power cut. After an error nothing is known of either."""
        ...

    def close(self) -> None:
        """Let it go."""
        ...


class Disk(Protocol):
    """Files in folders."""

    def make_folder(self, path: Path) -> None:
        """Make the folder and those above it where they are missing, durably; nobody else may look into it."""
        ...

    def names(self, path: Path) -> list[str]:
        """What the folder holds, sorted."""
        ...

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> File:
        """Open a file. One that is there already is opened as it is."""
        ...

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name, in place of whatever had it."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file."""
        ...

    def sync_folder(self, path: Path) -> None:
        """Return when the folder's names would survive a power cut."""
        ...

    def lock(self, path: Path, note: bytes) -> Callable[[], None]:
        """Lock a file against every other process, leave `note` in it, and return what unlocks it.

        Raises:
            BlockingIOError: Another holds it. The process that dies lets go of its locks.
        """
        ...


def write_all(file: File, position: int, data: bytes) -> None:
    """Write all of `data`, however little the system takes at once."""
    while data:
        written = file.write(position, data)
        position += written
        data = data[written:]


def read_all(disk: Disk, path: Path, size: int | None = None) -> bytes:
    """The file's first `size` bytes, or all of it."""
    file = disk.open(path, write=False)
    try:
        return file.read(0, file.size() if size is None else size)
    finally:
        file.close()


class SystemFile:
    """A file of this machine."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def size(self) -> int:
        """See File."""
        return os.fstat(self._descriptor).st_size

    def read(self, position: int, size: int) -> bytes:
        """See File."""
        parts = []
        while size > 0 and (part := os.pread(self._descriptor, size, position)):
            parts.append(part)
            position += len(part)
            size -= len(part)
        return b"".join(parts)

    def write(self, position: int, data: bytes) -> int:
        """See File."""
        return os.pwrite(self._descriptor, data, position)

    def truncate(self, size: int) -> None:
        """See File."""
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        """See File."""
        _fdatasync(self._descriptor)

    def close(self) -> None:
        """See File."""
        os.close(self._descriptor)


class SystemDisk:
    """The file systems of this machine."""

    def make_folder(self, path: Path) -> None:
        """See Disk."""
        if not path.parent.exists():
            self.make_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
        path.chmod(0o700)
        self.sync_folder(path.parent)

    def names(self, path: Path) -> list[str]:
        """See Disk."""
        return sorted(os.listdir(path))

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> SystemFile:
        """See Disk."""
        flags = READ_WRITE if write else os.O_RDONLY | os.O_CLOEXEC
        return SystemFile(os.open(path, flags | (os.O_CREAT if create else 0), 0o600))

    def rename(self, old: Path, new: Path) -> None:
        """See Disk."""
        os.rename(old, new)

    def remove(self, path: Path) -> None:
        """See Disk."""
        os.remove(path)

    def sync_folder(self, path: Path) -> None:
        """See Disk."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: Path, note: bytes) -> Callable[[], None]:
        """See Disk."""
        descriptor = os.open(path, READ_WRITE | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        # The note is for whoever is refused. A full disk has no room for it and must not keep us from starting.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, note, 0)
        return lambda: os.close(descriptor)


# macOS has no fdatasync, and its fsync does not reach the disk's own platters: F_FULLFSYNC does.
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


def _fdatasync(descriptor: int) -> None:
    if _FULL_SYNC is None:
        os.fdatasync(descriptor)
    else:
        fcntl.fcntl(descriptor, _FULL_SYNC)
