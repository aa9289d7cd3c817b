"""A disk in memory that can lose power, lie about a failed sync, run out of space and fail at any call.

It keeps for every file what is cached and, by sector, what has reached the platter; and for every folder the names
that have. `power_cut` throws away what was not synced, sector by sector as the dice say. `crash` is a killed process:
only its locks are gone.
"""

import errno
import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

SECTOR = 512

Hook: TypeAlias = Callable[[str, Path], None]


class PowerCut(BaseException):
    """The machine is off: no handler of the code under test may see this as an error of the disk."""


class Node:
    """A file's bytes, independent of its names."""

    def __init__(self) -> None:
        self.cached = bytearray()
        self.durable = bytearray()
        self.dirty: set[int] = set()
        self.size_dirty = False

    def sync(self) -> None:
        for sector in self.dirty:
            self._persist(sector)
        del self.durable[len(self.cached) :]
        self.forget()

    def forget(self) -> None:
        """Fail a sync: the pages are clean after it, and stay readable until a power cut."""
        self.dirty.clear()
        self.size_dirty = False

    def lose(self, dice: random.Random) -> None:
        """Lose power. Each unsynced sector is kept or lost independently."""
        for sector in sorted(self.dirty):
            if dice.random() < 0.5:
                self._persist(sector)
        if self.size_dirty and dice.random() < 0.5:
            del self.durable[len(self.cached) :]
            self.durable += bytes(len(self.cached) - len(self.durable))
        self.cached = bytearray(self.durable)
        self.forget()

    def _persist(self, sector: int) -> None:
        start, end = sector * SECTOR, min((sector + 1) * SECTOR, len(self.cached))
        if end > start:
            self.durable += bytes(max(0, end - len(self.durable)))
            self.durable[start:end] = self.cached[start:end]


class FakeDisk:
    """See the module. `hook` is called before every call that changes something, and may raise.

    `space` is how many bytes all files may have together; `short` makes every write take one byte less than asked;
    without `syncs` a sync says that all is well and does nothing.
    """

    def __init__(self) -> None:
        self.names_cached: dict[Path, Node] = {}
        self.names_durable: dict[Path, Node] = {}
        self.folders: set[Path] = {Path("/")}
        self.locks: dict[Path, bytes] = {}
        self.hook: Hook = lambda call, path: None
        self.space: int | None = None
        self.short = False
        self.syncs = True
        self.calls: list[str] = []

    # The disk's own interface

    def hold(self, path: Path) -> "FakeHeld":
        if path not in self.folders:
            raise FileNotFoundError(errno.ENOENT, "no such folder", str(path))
        return FakeHeld(self, path)

    def make_folder(self, path: Path) -> None:
        self.touch("make_folder", path)
        self.folders.add(path)

    def names(self, path: Path) -> list[str]:
        if path not in self.folders:
            raise FileNotFoundError(errno.ENOENT, "no such folder", str(path))
        return sorted(file.name for file in self.names_cached if file.parent == path)

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> "FakeFile":
        if path not in self.names_cached:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
            self.touch("create", path)
            self.names_cached[path] = Node()
        return FakeFile(self, path, self.names_cached[path])

    def name(self, old: Path, new: Path) -> None:
        self.touch("name", new)
        if new in self.names_cached:
            raise FileExistsError(errno.EEXIST, "file exists", str(new))
        self.names_cached[new] = self.names_cached[old]
        with suppress(OSError):
            self.remove(old)

    def rename(self, old: Path, new: Path) -> None:
        self.touch("rename", new)
        self.names_cached[new] = self.names_cached.pop(old)

    def remove(self, path: Path) -> None:
        self.touch("remove", path)
        if path not in self.names_cached:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        del self.names_cached[path]

    def sync_folder(self, path: Path) -> None:
        self.touch("sync_folder", path)
        self.names_durable = {p: n for p, n in self.names_durable.items() if p.parent != path}
        self.names_durable |= {p: n for p, n in self.names_cached.items() if p.parent == path}

    def lock(self, path: Path, note: bytes) -> "FakeFile":
        file = self.open(path, create=True)
        if path in self.locks:
            raise BlockingIOError(errno.EWOULDBLOCK, "locked", str(path))
        self.locks[path] = note
        self.names_cached[path].cached[:] = note
        return FakeFile(self, path, file.node, unlocks=True)

    # Faults

    def crash(self) -> None:
        """The process is gone."""
        self.locks.clear()

    def power_cut(self, dice: random.Random) -> None:
        """The power is gone, and back. A name that was not synced is there or not; a file without a name is gone."""
        for path in sorted(set(self.names_cached) | set(self.names_durable)):
            if self.names_cached.get(path) is not self.names_durable.get(path) and dice.random() < 0.5:
                self._settle(path)
        for path in sorted(self.names_durable):
            self.names_durable[path].lose(dice)
        self.names_cached = dict(self.names_durable)
        self.crash()

    def contents(self, folder: Path) -> dict[str, bytes]:
        """Every file's bytes as a process sees them, but for the lock and the mark."""
        files = {
            path.name: bytes(node.cached) for path, node in self.names_cached.items() if path.parent == folder
        }
        return {name: data for name, data in files.items() if name not in ("lock", "mark")}

    def replace(self, path: Path, data: bytes) -> None:
        """Put other bytes in a file, durably: damage."""
        node = self.names_cached[path]
        node.cached[:] = data
        node.durable[:] = data
        node.forget()

    def touch(self, call: str, path: Path) -> None:
        self.calls.append(call)
        self.hook(call, path)

    def free(self, wanted: int) -> int:
        """Return the number of bytes, at most `wanted`, that fit on the disk."""
        if self.space is None:
            return wanted
        return max(0, min(wanted, self.space - self.used()))

    def used(self) -> int:
        """How many bytes all files have."""
        return sum(len(node.cached) for node in self.names_cached.values())

    def _settle(self, path: Path) -> None:
        if path in self.names_cached:
            self.names_durable[path] = self.names_cached[path]
        else:
            del self.names_durable[path]


class FakeHeld:
    """A FakeDisk of which one folder is held; nothing here moves a folder."""

    def __init__(self, disk: FakeDisk, folder: Path) -> None:
        self.hold, self.make_folder, self.names = disk.hold, disk.make_folder, disk.names
        self.open, self.name, self.rename, self.remove = disk.open, disk.name, disk.rename, disk.remove
        self.sync_folder, self.lock = disk.sync_folder, disk.lock
        self._locks = disk.locks
        self._folder = folder
        self._has_locked = False

    def lock_folder(self) -> bool:
        if self._folder in self._locks:
            raise BlockingIOError(errno.EWOULDBLOCK, "locked", str(self._folder))
        self._locks[self._folder] = b""
        self._has_locked = True
        return True

    def is_in_place(self) -> bool:
        return True

    def close(self) -> None:
        if self._has_locked:
            self._locks.pop(self._folder, None)


class FakeFile:
    """An open file of a FakeDisk."""

    def __init__(self, disk: FakeDisk, path: Path, node: Node, *, unlocks: bool = False) -> None:
        self._disk = disk
        self._path = path
        self._unlocks = unlocks
        self.node = node

    def size(self) -> int:
        return len(self.node.cached)

    def read(self, position: int, size: int) -> bytes:
        return bytes(self.node.cached[position : position + size])

    def write(self, position: int, data: bytes) -> int:
        self._disk.touch("write", self._path)
        if self._disk.short and len(data) > 1:
            data = data[:-1]
        node = self.node
        room = self._disk.free(max(0, position + len(data) - len(node.cached)))
        data = data[: len(node.cached) + room - position]
        if not data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        node.size_dirty |= position + len(data) > len(node.cached)
        node.cached += bytes(max(0, position - len(node.cached)))
        node.cached[position : position + len(data)] = data
        node.dirty |= set(range(position // SECTOR, (position + len(data) - 1) // SECTOR + 1))
        return len(data)

    def truncate(self, size: int) -> None:
        self._disk.touch("truncate", self._path)
        node = self.node
        node.size_dirty |= size != len(node.cached)
        del node.cached[size:]
        node.cached += bytes(size - len(node.cached))

    def sync(self) -> None:
        try:
            self._disk.touch("sync", self._path)
        except OSError:
            self.node.forget()
            raise
        if self._disk.syncs:
            self.node.sync()

    def is_at(self, name: str) -> bool:
        return self._disk.names_cached.get(self._path.parent / name) is self.node

    def close(self) -> None:
        if self._unlocks:
            self._disk.locks.pop(self._path, None)
