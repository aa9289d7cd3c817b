"""Local logs on a disk in memory, without a thread: an append is durable, or refused, when `append` returns."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from foldb.log.commands import Entry, Put
from foldb.log.local import LocalLog
from foldb.log.local.disk_process import DiskWrite, Done
from foldb.log.local.durable_position import write_mark
from foldb.log.local.filesystem import File, Filesystem, write_all
from foldb.log.local.reader import LogReader
from foldb.log.log import Appended, Log
from foldb.model.errors import LogError
from tests.unit.log.fake_disk import FakeDisk
from tests.unit.log.samples import put_entry

FOLDER = Path("/data")
FIRST = FOLDER / "00000000000000000000.avro"


class Inline:
    """The writer's thread without the thread."""

    def __init__(self) -> None:
        self._jobs: list[Callable[[], None]] = []

    def run(self, job: Callable[[], None]) -> None:
        """Run the job now, or after the one that runs it."""
        self._jobs.append(job)
        if len(self._jobs) > 1:
            return
        try:
            while self._jobs:
                self._jobs[0]()
                self._jobs.pop(0)
        finally:
            self._jobs.clear()

    def close(self) -> None:
        pass


class InlineDiskWriter:
    """A disk process without the process. It starts with the second entry."""

    starts_after = 1

    def start(self, folder: Filesystem, lock: File) -> None:
        pass

    def attach(self, ended: Callable[[], None]) -> None:
        pass

    def write(self, write: DiskWrite, done: Done) -> None:
        try:
            write_all(write.file, write.position, write.data)
            write.file.sync()
        except OSError as error:
            done(error.errno)
        else:
            if write.mark_file is not None:
                write_mark(write.mark_file, write.mark)
            done(0)

    def wait(self) -> None:
        raise AssertionError("each write ends at once")

    def close(self) -> None:
        pass


class Held:
    """A writer's thread that the test runs step by step: appends between two steps are one group."""

    def __init__(self) -> None:
        self._jobs: list[Callable[[], None]] = []

    def run(self, job: Callable[[], None]) -> None:
        self._jobs.append(job)

    def close(self) -> None:
        while self._jobs:
            self._jobs.pop(0)()


has_disk_writer = False
"""Whether `open_log` opens logs with a disk writer (the fixture `both_writers`)."""


def open_log(disk: Filesystem, *, path: Path = FOLDER, **options: Any) -> LocalLog:
    """The log in a folder, FOLDER unless another is given."""
    if "background" not in options:
        options["background"] = Inline()
        options.setdefault("disk_writer", InlineDiskWriter() if has_disk_writer else None)
    options.setdefault("on_fatal", lambda error: None)
    return LocalLog(
        path,
        clock=itertools.count(1000).__next__,
        deliver=lambda callback: callback(),
        random_bytes=lambda size: b"l" * size,
        disk=disk,
        **options,
    )


def append(log: LocalLog, *entries: Entry, partition: int = 0) -> list[Appended | LogError]:
    """Append them and return the answers."""
    results: list[Appended | LogError] = []
    for entry in entries:
        log.append(partition, entry, results.append)
    return results


def numbers(log: Log | LogReader, partition: int = 0) -> list[int]:
    """The numbers of the entries that are in the log, Genesis left out."""
    return [record.entry.entry_number for record in log.read(partition, start=1)]


def log_of(count: int, disk: FakeDisk | None = None, **options: Any) -> FakeDisk:
    """Return a disk with a closed log of `count` entries."""
    disk = disk or FakeDisk()
    log = open_log(disk, **options)
    results = append(log, *(put_entry(n) for n in range(count)))
    assert all(isinstance(result, Appended) for result in results)
    log.close()
    return disk


def item_of(entry: Entry) -> bytes:
    """The item of an entry of one put."""
    [command] = entry.commands
    assert isinstance(command, Put)
    return command.item
