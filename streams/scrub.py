"""Reads all files of a database slowly, and reports damage.

    sealed segments of the log ──► their hash chains   each segment by itself, and that the next one continues it
    foundation ──► its digests                         the server writes a damaged copy again from the other
    snapshots ──► their digests                        a damaged one is removed
    change segments ──► their checksums                the server rebuilds a damaged one

It is a process of its own (`python -m foldb.streams.scrub`, with its job on stdin). It reads at a limited rate, from
the disk and not from the system's cache. Each line on stdout is a `Finding`; the last one has no kind and reports the
end.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final, Literal

import orjson

from ..log.local.filesystem import SystemFile, SystemFilesystem, read_all
from ..log.local.foundation import faults
from ..log.local.history import damage_in
from ..materializer.snapshots import Snapshots
from ..model.errors import FoldbError, LogLockedError
from ..model.lazy_dataclass import dataclass
from .feed.change_codec import DamagedError, SegmentOwner, verify
from .feed.change_store import folder_of
from .feed.durable_offset import FILE_NAME, read_durable_offset
from .feed.segment_files import segments_of

_PORTION_BYTES: Final = 256 << 10

Kind = Literal["log", "foundation", "snapshot", "changes"]


@dataclass(frozen=True, slots=True)
class ScrubJob:
    """The job that the process reads from stdin: the folder, the number of partitions, and bytes per second."""

    folder: str
    partitions: int
    rate: int


@dataclass(frozen=True, slots=True)
class Finding:
    """A damaged file.

    Attributes:
        kind: The kind of file; empty in the last line.
        bytes: Number of bytes read up to here.
        file: Its path in the folder.
        problem: The damage.
        removed: Whether the file was removed.
        partition: The partition of a change segment.
        table: The table of a change segment; None for the durable offset of a partition.
        after: Exclusive lower bound of a change segment's sequence numbers.
    """

    kind: Kind | Literal[""]
    bytes: int
    file: str = ""
    problem: str = ""
    removed: bool = False
    partition: int = 0
    table: int | None = None
    after: str = ""  # longer than an integer of JSON may be

    @property
    def text(self) -> str:
        """The file and its damage, in one line."""
        return self.problem if self.kind == "log" else f"{self.file}: {self.problem}"


class PacedDisk(SystemFilesystem):
    """The file systems of this machine, read at `rate` bytes per second; `bytes` counts the bytes read."""

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
        """Open a file for reading, and drop it from the system's cache, so that the disk is read."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if hasattr(os, "posix_fadvise"):
            with suppress(OSError):
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return _PacedFile(descriptor, self)

    def pace(self, size: int) -> None:
        """Sleep as long as `size` bytes take. Exit if the parent process has died."""
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
        """Read at the rate of the disk."""
        parts = []
        while size > 0 and (part := super().read(position, min(size, _PORTION_BYTES))):
            self._disk.pace(len(part))
            parts.append(part)
            position += len(part)
            size -= len(part)
        return b"".join(parts)


def scrub(job: ScrubJob) -> Iterator[Finding]:
    """Read all files once, and yield the damaged ones; the last finding has no kind."""
    disk, folder = PacedDisk(job.rate), Path(job.folder)
    for error in damage_in(disk, folder):
        yield Finding("log", disk.bytes, _segment_named_by(error), str(error))
    with suppress(FoldbError):  # damage of both heads was yielded as damage of the log
        for fault in faults(disk, folder):
            yield Finding("foundation", disk.bytes, fault.partition(":")[0], fault)
    for partition in range(job.partitions):
        yield from _in_snapshots(disk, folder, Snapshots(folder, disk, partition, job.partitions))
    for partition in range(job.partitions):
        yield from _in_changes(disk, folder, partition)
    yield Finding("", disk.bytes)


def _segment_named_by(error: Exception) -> str:
    """Return the segment that an error of the log names."""
    if isinstance(error, OSError):
        return Path(str(error.filename)).name
    return str(error).partition(" ")[0].rstrip(":")


def _in_snapshots(disk: PacedDisk, folder: Path, snapshots: Snapshots) -> Iterator[Finding]:
    for offset in snapshots.offsets():
        fault = snapshots.fault(offset)
        if fault is not None:
            removed = False
            with suppress(LogLockedError):  # a process that makes a snapshot now removes damaged ones
                removed = snapshots.remove_damaged(offset)
            file = str(snapshots.path(offset).relative_to(folder))
            yield Finding("snapshot", disk.bytes, file, fault, removed)


def _in_changes(disk: PacedDisk, folder: Path, partition: int) -> Iterator[Finding]:
    """Verify change segments up to the durable offset: later bytes are still being written."""
    changes = folder_of(folder, partition)
    try:
        durable = read_durable_offset(disk, changes)
    except (DamagedError, OSError) as error:
        file = str((changes / FILE_NAME).relative_to(folder))
        yield Finding("changes", disk.bytes, file, str(error), partition=partition)
        return
    if durable is None:
        return
    for table, extent in durable.tables.items():
        owner = SegmentOwner(durable.log_id, partition, table)
        for after, path in segments_of(disk, changes, table):
            if not extent.first_after <= after <= extent.after:
                continue
            size = extent.size if after == extent.after else None
            try:
                data = read_all(disk, path, size)
                if size is not None and len(data) < size:
                    raise DamagedError("the file is cut short")
                verify(data, owner, after)
            except FileNotFoundError:
                continue  # it has expired
            except (DamagedError, OSError) as error:
                file = str(path.relative_to(folder))
                yield Finding("changes", disk.bytes, file, str(error), False, partition, table, str(after))


def main() -> None:
    """Run the job on stdin."""
    job = ScrubJob(**orjson.loads(sys.stdin.buffer.readline()))
    for finding in scrub(job):
        sys.stdout.buffer.write(orjson.dumps(asdict(finding)) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
