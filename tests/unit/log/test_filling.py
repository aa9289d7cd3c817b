"""The segment being written is filled ahead with zeros, which no reader sees."""

import errno
import os
from pathlib import Path

import fastavro
import pytest

from foldb.log.local.reader import LogReader
from foldb.log.local.writer import FILL_LEAST
from foldb.log.log import Appended
from tests.unit.log.fake_disk import FakeDisk
from tests.unit.log.local_logs import FIRST, FOLDER, append, numbers, open_log
from tests.unit.log.samples import put_entry


def size_of(disk: FakeDisk, path: Path = FIRST) -> int:
    return len(disk.names_cached[path].cached)


def test_most_syncs_need_no_new_size() -> None:
    """Fill-ahead exists for this: the file system then has no journal to commit."""
    disk = FakeDisk()
    log = open_log(disk)
    grown = 0

    def hook(call: str, path: Path) -> None:
        nonlocal grown
        grown += call == "sync" and path == FIRST and disk.names_cached[path].size_dirty

    disk.hook = hook
    append(log, *(put_entry(n, size=200) for n in range(1000)))

    assert 0 < grown < 15
    assert list(range(1000)) == numbers(log) == numbers(LogReader(FOLDER, disk))


def test_fill_ahead_grows_with_the_segment() -> None:
    disk = FakeDisk()
    log = open_log(disk)
    append(log, put_entry(0))
    least = size_of(disk)
    append(log, *(put_entry(n, size=5000) for n in range(1, 100)))

    assert FILL_LEAST < least < 2 * FILL_LEAST
    assert 500_000 < size_of(disk) < 2_000_000


@pytest.mark.parametrize("segment_bytes", [8900, 1 << 20])
def test_a_segment_loses_its_zeros_at_its_end_or_at_a_close(
    segment_bytes: int,
) -> None:
    disk = FakeDisk()
    log = open_log(disk, segment_bytes=segment_bytes)
    append(log, *(put_entry(n, size=300) for n in range(20)))
    names = [name for name in disk.names(FOLDER) if name.endswith(".avro")]
    whole = LogReader(FOLDER, disk).statistics()

    older = sum(size_of(disk, FOLDER / name) for name in names[:-1])
    assert older + size_of(disk, FOLDER / names[-1]) > whole.bytes
    log.close()

    assert whole.bytes == sum(size_of(disk, FOLDER / name) for name in names)
    assert segment_bytes == 8900 or len(names) == 1


def test_avro_tools_read_a_full_segment_of_an_open_log(tmp_path: Path) -> None:
    disk = FakeDisk()
    log = open_log(disk, segment_bytes=9760)
    append(log, *(put_entry(n, size=300) for n in range(20)))
    [first, *_] = [name for name in disk.names(FOLDER) if name.endswith(".avro")]
    (tmp_path / first).write_bytes(disk.names_cached[FOLDER / first].cached)

    with (tmp_path / first).open("rb") as file:
        offsets = [record["offset"] for record in fastavro.reader(file) if isinstance(record, dict)]

    assert list(range(len(offsets))) == offsets
    assert len(offsets) > 1


def test_after_a_crash_the_zeros_are_no_torn_write() -> None:
    disk = FakeDisk()
    append(open_log(disk), put_entry(0), put_entry(1))
    disk.crash()

    log = open_log(disk)

    assert log.cut is None
    assert [0, 1] == numbers(log)
    assert [FIRST.name] == [name for name in disk.names(FOLDER) if "avro" in name]


def test_a_write_torn_among_zeros_is_cut_without_them() -> None:
    """The side file holds the sectors that the disk may have received."""
    disk = FakeDisk()
    log = open_log(disk)
    append(log, put_entry(0))
    end = LogReader(FOLDER, disk).statistics().bytes
    disk.names_cached[FIRST].cached[end : end + 4] = b"torn"
    disk.crash()

    log = open_log(disk)

    assert log.cut is not None
    assert end == log.cut.position
    assert 4 <= log.cut.size < 4 + 512
    assert [0, 1] == (append(log, put_entry(1)), numbers(log))[1]


def test_zeros_instead_of_acknowledged_records_are_damage() -> None:
    """The mark remembers how far the log was synced."""
    disk = FakeDisk()
    append(open_log(disk), put_entry(0), put_entry(1))
    data = disk.names_cached[FIRST].cached
    disk.crash()
    end = len(bytes(data).rstrip(b"\0"))
    disk.replace(FIRST, bytes(data[: end - 60]) + bytes(len(data) - end + 60))

    with pytest.raises(Exception, match=f"{FIRST.name} at byte"):
        open_log(disk)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EFBIG])
def test_a_disk_that_takes_no_zeros_takes_records_as_ever(number: int) -> None:
    """Fill-ahead is for speed only: its failure refuses no entry that fits, and does not stop the log."""
    disk = FakeDisk()
    fatal: list[BaseException] = []
    log = open_log(disk, on_fatal=fatal.append)
    writes = 0

    def hook(call: str, path: Path) -> None:
        nonlocal writes
        writes += call == "write" and path == FIRST
        if writes == 2 and call == "write":
            raise OSError(number, os.strerror(number))

    disk.hook = hook

    results = append(log, *(put_entry(n) for n in range(5)))

    assert all(isinstance(result, Appended) for result in results)
    assert [] == fatal
    assert [0, 1, 2, 3, 4] == numbers(log)


def test_zeros_take_no_room_from_records() -> None:
    """On a disk with little space left the zeros are given back where a new segment needs it."""
    disk = FakeDisk()
    log = open_log(disk, segment_bytes=9760)
    disk.space = disk.used() + 11_760

    results = append(log, *(put_entry(n, size=300) for n in range(6)))

    assert all(isinstance(result, Appended) for result in results)
