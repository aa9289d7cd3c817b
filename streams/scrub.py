"""Reads all that a database has on its disk, slowly, and says what is damaged.

    sealed segments of the log ──► hash by hash      each by itself, and that the next continues it
    snapshots ──► their digests                      one that is damaged is removed
    change segments ──► their checksums              the server makes one that is damaged again

It is a process of its own (`python -m foldb.streams.scrub`, its job on stdin) that reads so many bytes a second, from
the disk and not from the system's memory. Each line on stdout is a `Finding`; the last one, without a kind, says that
it has read everything.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

import orjson

from ..log.local.filesystem import SystemFile, SystemFilesystem, read_all
from ..log.local.scrub import damage_in
from ..materializer.snapshots import Snapshots
from ..model.errors import LogLockedError
from .feed.change_codec import DamagedError, Owner, check
from .feed.change_store import folder_of
from .feed.durable_offset import NAME, read_mark
from .feed.segments import segments_of

_PORTION_BYTES: Final = 256 << 10

Kind = Literal["log", "snapshot", "changes"]


@dataclass(frozen=True, slots=True)
class Job:
    """What the process reads from stdin: the folder, how many partitions its log has, and bytes a second."""

    folder: str
    partitions: int
    rate: int


@dataclass(frozen=True, slots=True)
class Finding:
    """A file that is damaged.

    Attributes:
        kind: Of what; empty in the last line.
        file: Its place in the folder.
        what: What is wrong with it.
        removed: Whether it is gone: the next one replaces it.
        partition: That of a change segment, which has changes of `table` from number `after` on. A partition's mark is
            of no table.
        bytes: How many were read up to here.
    """

    kind: Kind | Literal[""]
    bytes: int
    file: str = ""
    what: str = ""
    removed: bool = False
    partition: int = 0
    table: int | None = None
    after: str = ""  # longer than an integer of JSON may be

    @property
    def text(self) -> str:
        """What is damaged, and how."""
        return self.what if self.kind == "log" else f"{self.file}: {self.what}"


class PacedDisk(SystemFilesystem):
    """The file systems of this machine, read at `rate` bytes a second; `bytes` counts what was read."""

    def __init__(self, rate: int) -> None:
        super().__init__()
        self.bytes = 0
        self._rate = rate
        self._due = time.monotonic()
        self._parent = os.getppid()

    def open(
        self,
        path: Path,
        *,
        create: bool = False,  # noqa: ARG002  a scrub writes nothing
        write: bool = True,  # noqa: ARG002
    ) -> SystemFile:
        """See Disk. Whatever the system has of the file in memory is forgotten, so that the disk is read."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if hasattr(os, "posix_fadvise"):
            with suppress(OSError):
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return _PacedFile(descriptor, self)

    def took(self, size: int) -> None:
        """Wait as long as so many bytes take. A process whose parent has died ends."""
        if os.getppid() != self._parent:
            sys.exit()
        self.bytes += size
        now = time.monotonic()
        self._due = max(self._due, now) + size / self._rate
        time.sleep(max(0.0, self._due - now))


class _PacedFile(SystemFile):
    def __init__(self, descriptor: int, disk: PacedDisk) -> None:
        super().__init__(descriptor)
        self._disk = disk

    def read(self, position: int, size: int) -> bytes:
        """See File."""
        parts = []
        while size > 0 and (part := super().read(position, min(size, _PORTION_BYTES))):
            self._disk.took(len(part))
            parts.append(part)
            position += len(part)
            size -= len(part)
        return b"".join(parts)


def scrub(job: Job) -> Iterator[Finding]:
    """Read everything once; the last finding is none."""
    disk, folder = PacedDisk(job.rate), Path(job.folder)
    for error in damage_in(disk, folder):
        yield Finding("log", disk.bytes, _place(error), str(error))
    for number in range(job.partitions):
        yield from _in_snapshots(disk, folder, Snapshots(folder, disk, number, job.partitions))
    for number in range(job.partitions):
        yield from _in_changes(disk, folder, number)
    yield Finding("", disk.bytes)


def _place(error: Exception) -> str:
    """The segment that an error of the log names."""
    if isinstance(error, OSError):
        return Path(str(error.filename)).name
    return str(error).partition(" ")[0].rstrip(":")


def _in_snapshots(disk: PacedDisk, folder: Path, snapshots: Snapshots) -> Iterator[Finding]:
    for offset in snapshots.offsets():
        fault = snapshots.fault(offset)
        if fault is not None:
            removed = False
            with suppress(LogLockedError):  # who makes one now removes what is damaged
                removed = snapshots.remove_damaged(offset)
            file = str(snapshots.path(offset).relative_to(folder))
            yield Finding("snapshot", disk.bytes, file, fault, removed)


def _in_changes(disk: PacedDisk, folder: Path, partition: int) -> Iterator[Finding]:
    """Check up to where the mark says: what follows is still being written."""
    changes = folder_of(folder, partition)
    try:
        mark = read_mark(disk, changes)
    except (DamagedError, OSError) as error:
        file = str((changes / NAME).relative_to(folder))
        yield Finding("changes", disk.bytes, file, str(error), partition=partition)
        return
    for table, extent in {} if mark is None else mark.tables.items():
        assert mark is not None
        owner = Owner(mark.log_id, partition, table)
        for after, path in segments_of(disk, changes, table):
            if not extent.first_after <= after <= extent.after:
                continue
            size = extent.size if after == extent.after else None
            try:
                data = read_all(disk, path, size)
                if size is not None and len(data) < size:
                    raise DamagedError("the file is cut short")
                check(data, owner, after)
            except FileNotFoundError:
                continue  # its time was over meanwhile
            except (DamagedError, OSError) as error:
                file = str(path.relative_to(folder))
                yield Finding("changes", disk.bytes, file, str(error), False, partition, table, str(after))


def main() -> None:
    """Do the job on stdin."""
    job = Job(**orjson.loads(sys.stdin.buffer.readline()))
    for finding in scrub(job):
        sys.stdout.buffer.write(orjson.dumps(asdict(finding)) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
