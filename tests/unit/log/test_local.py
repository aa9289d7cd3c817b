"""The local log on a real disk, as seen by other tools, processes and users."""

import os
import random
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from foldb.log.local import LocalLog, segment, writer
from foldb.log.local import history as history_module
from foldb.log.local.filesystem import SystemFile, SystemFilesystem
from foldb.log.local.history import History
from foldb.log.local.reader import LogReader
from foldb.log.local.segment import Frame, Header, sequence_in
from foldb.log.log import Appended
from foldb.model.errors import AppendUnknownError, CorruptionError, LogError, LogLockedError
from tests.unit.contracts.log_contract import Loop
from tests.unit.log import local_logs as in_memory
from tests.unit.log.samples import put_entry


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "data"


def open_log(path: Path, loop: Loop, **options: Any) -> LocalLog:
    options.setdefault("on_fatal", lambda error: None)
    return LocalLog(path, clock=lambda: 1000, deliver=loop.deliver, random_bytes=os.urandom, **options)


@pytest.fixture
def log(path: Path, loop: Loop) -> Iterator[LocalLog]:
    log = open_log(path, loop)
    yield log
    log.close()


def append(log: LocalLog, loop: Loop, *numbers: int) -> list[object]:
    results: list[object] = []
    for number in numbers:
        log.append(0, put_entry(number), results.append)
    loop.turn(until=lambda: len(results) == len(numbers))
    return results


def segments(path: Path) -> list[Path]:
    return sorted(file for file in path.iterdir() if sequence_in(file.name) is not None)


def test_any_avro_tool_reads_a_segment(log: LocalLog, loop: Loop, path: Path) -> None:
    """fastavro's plain reader, given nothing but the file. While it is written, a segment ends with zeros."""
    append(log, loop, *range(5))
    log.close()

    with segments(path)[0].open("rb") as file:
        reader = fastavro.reader(file)
        records: list[Any] = list(reader)
        schema: Any = reader.writer_schema

    assert "foldb.log.Record" == schema["name"]
    assert [0, 1, 2, 3, 4, 5] == [record["offset"] for record in records]
    assert b'{"n":{"N":"4"},"pk":{"S":"xxxxxxxxxxxxxxxxxxxx"}}' == records[5]["entry"]["commands"][0]["item"]
    assert {"pk": b"car", "table": 1}.items() <= records[1]["entry"]["commands"][0].items()


def test_the_data_is_its_owners_alone(log: LocalLog, loop: Loop, path: Path) -> None:
    append(log, loop, 0)

    assert 0o700 == stat.S_IMODE(path.stat().st_mode)
    assert {0o600} == {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()}


def test_another_process_may_not_write(log: LocalLog, path: Path) -> None:
    code = f"import fcntl; fcntl.flock(open({str(path / 'lock')!r}), fcntl.LOCK_EX | fcntl.LOCK_NB)"

    assert (
        b"BlockingIOError"
        in subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).stderr
    )


def test_a_closed_log_may_be_opened_by_another(log: LocalLog, loop: Loop, path: Path) -> None:
    with pytest.raises(LogLockedError, match=f"pid {os.getpid()}"):
        open_log(path, loop)
    log.close()

    open_log(path, loop).close()


def test_a_log_that_could_not_be_opened_leaves_no_lock(path: Path, loop: Loop) -> None:
    with pytest.raises(LogError, match="there is no log"):
        open_log(path, loop, create=False)

    open_log(path, loop).close()


def test_a_file_is_no_folder(tmp_path: Path, loop: Loop) -> None:
    (tmp_path / "data").write_text("something")

    with pytest.raises(LogError, match="is a file, not a folder"):
        open_log(tmp_path / "data", loop)


def test_two_logs_are_two_logs(tmp_path: Path, loop: Loop) -> None:
    one, two = open_log(tmp_path / "one", loop), open_log(tmp_path / "two", loop)

    assert one.log_id != two.log_id
    one.close()
    two.close()


@pytest.mark.guarantee("SEC31")
def test_segments_roll_by_size_and_read_as_one(path: Path, loop: Loop) -> None:
    log = open_log(path, loop, segment_bytes=8900)
    for number in range(40):
        append(log, loop, number)

    assert len(segments(path)) > 1
    assert all(file.stat().st_size <= 8900 for file in segments(path))
    assert list(range(40)) == [record.entry.entry_number for record in log.read(0, start=1)]
    assert list(range(30, 40)) == [record.entry.entry_number for record in log.read(0, start=31)]
    log.close()


def test_a_sync_failure_of_the_thread_is_reported_on_the_loop(
    path: Path, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    fatal: list[BaseException] = []
    log = open_log(path, loop, on_fatal=fatal.append)

    def fail(file: SystemFile) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(SystemFile, "sync", fail)
    results: list[object] = []
    log.append(0, put_entry(0), results.append)
    loop.turn(until=lambda: bool(fatal))

    assert [AppendUnknownError] == [type(result) for result in results]
    log.close()


def test_the_mode_interval_syncs_by_itself(path: Path, loop: Loop) -> None:
    log = open_log(path, loop, fsync="interval")
    tick = log._background._tick  # type: ignore[attr-defined]
    log._background._tick = None  # type: ignore[attr-defined]
    append(log, loop, 0, 1)
    assert log._writer._synced < log._writer._position

    assert tick is not None
    tick()

    assert log._writer._synced == log._writer._position
    log.close()


def test_a_reader_follows_a_writer(log: LocalLog, loop: Loop, path: Path) -> None:
    reader = LocalLog.open_reader(path)
    assert 1 == reader.end(0)

    append(log, loop, 0, 1)

    assert 3 == reader.end(0)
    assert [0, 1] == [record.entry.entry_number for record in reader.read(0, start=1)]
    assert log.genesis(0) == reader.genesis(0)
    statistics = reader.statistics()
    log.close()
    assert sum(file.stat().st_size for file in segments(path)) == statistics.bytes
    assert (1, 3, (3,), 1000) == (
        statistics.segments,
        statistics.records,
        statistics.ends,
        statistics.time_ms,
    )


def test_a_reader_follows_over_segments(path: Path, loop: Loop) -> None:
    log = open_log(path, loop, segment_bytes=1)
    reader = LocalLog.open_reader(path)
    for number in range(5):
        append(log, loop, number)
        assert number + 2 == reader.end(0)

    assert list(range(5)) == [record.entry.entry_number for record in reader.read(0, start=1)]
    log.close()


def test_a_reader_without_the_mark_shows_records_proven_durable(
    log: LocalLog, loop: Loop, path: Path
) -> None:
    """The last block may be on its way, or be taken back; each earlier one was synced before the next was begun."""
    for number in range(4):
        append(log, loop, number)
    (path / "mark").unlink()

    reader = LocalLog.open_reader(path)

    assert [0, 1, 2] == [record.entry.entry_number for record in reader.read(0, start=1)]


def test_a_reader_that_follows_reads_new_bytes_alone(
    log: LocalLog, loop: Loop, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The zeros after the end of a segment can be megabytes."""
    append(log, loop, 0)
    reader = LocalLog.open_reader(path)
    assert 2 == reader.end(0)
    segment_file, sizes = segments(path)[0], [0]
    append(log, loop, 1)
    read = SystemFile.read

    def counted(file: SystemFile, position: int, size: int) -> bytes:
        data = read(file, position, size)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(SystemFile, "read", counted)

    assert 3 == reader.end(0) == reader.end(0)

    assert sum(sizes) < 1000 < segment_file.stat().st_size


def test_a_reader_follows_a_writer_that_leaves_no_mark(
    log: LocalLog, loop: Loop, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk may have no space for the file, so what it says may be old."""
    append(log, loop, 0)
    reader = LocalLog.open_reader(path)
    assert 2 == reader.end(0)
    monkeypatch.setattr(writer, "write_mark", lambda *_: None)
    append(log, loop, 1)
    append(log, loop, 2)

    assert 3 == reader.end(0)  # the last record proves that the one before it is durable


def test_a_held_reader_shows_every_record_that_a_start_keeps(log: LocalLog, loop: Loop, path: Path) -> None:
    """`foldb verify` and a backup read it: the mark may name an earlier byte after a power cut."""
    for number in range(4):
        append(log, loop, number)
    (path / "mark").unlink()

    reader = LocalLog.open_reader(path)
    tail = reader.hold()
    append(log, loop, 4)

    assert [0, 1, 2, 3] == [record.entry.entry_number for record in reader.read(0, start=1)]
    assert (1, 0, False) == (tail.records, tail.missing, tail.is_marked)


def test_a_reader_ignores_unacknowledged_records(log: LocalLog, loop: Loop, path: Path) -> None:
    append(log, loop, 0)
    with segments(path)[0].open("ab") as file:
        file.write(b"\x02half a block")

    assert [0] == [record.entry.entry_number for record in LocalLog.open_reader(path).read(0, start=1)]


def test_a_reader_needs_a_log(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(LogError, match="there is no"):
            LocalLog.open_reader(path)


def test_a_reader_changes_nothing(log: LocalLog, loop: Loop, path: Path) -> None:
    append(log, loop, 0)
    log.close()  # so the writer fills nothing ahead
    before = {file.name: file.read_bytes() for file in path.iterdir()}

    list(LocalLog.open_reader(path).read(0))

    assert before == {file.name: file.read_bytes() for file in path.iterdir()}


def test_the_disk_writes_reads_and_locks(tmp_path: Path) -> None:
    disk = SystemFilesystem()
    file = disk.open(tmp_path / "file", create=True)
    file.write(0, b"abcdef")
    file.truncate(4)
    file.sync()
    disk.sync_folder(tmp_path)
    disk.rename(tmp_path / "file", tmp_path / "new")

    assert (4, b"bcd") == (file.size(), file.read(1, 100))
    assert ["new"] == disk.names(tmp_path)
    lock = disk.lock(tmp_path / "lock", b"us")
    with pytest.raises(BlockingIOError):
        disk.lock(tmp_path / "lock", b"them")
    lock.close()
    disk.lock(tmp_path / "lock", b"them").close()
    assert b"them" == (tmp_path / "lock").read_bytes()
    file.close()


def test_appends_at_the_same_time_are_one_group(
    path: Path, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread writes all pending appends: a hundred appends cost a few syncs, not a hundred."""
    syncs = 0
    sync = SystemFile.sync

    def count(file: SystemFile) -> None:
        nonlocal syncs
        syncs += 1
        sync(file)

    log = open_log(path, loop)
    monkeypatch.setattr(SystemFile, "sync", count)

    results = append(log, loop, *range(100))

    assert all(isinstance(result, Appended) for result in results)
    assert syncs < 100
    log.close()


def test_a_read_goes_on_where_the_one_before_it_ended(
    log: LocalLog, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A continued read begins at the end of the last one; a read of another offset searches the segment."""
    parsed: list[int] = []
    block = segment.read_block

    def counted(data: bytes, at: int, *arguments: Any) -> Frame:
        parsed.append(at)
        return block(data, at, *arguments)

    monkeypatch.setattr(segment, "read_block", counted)
    append(log, loop, *range(5))
    assert [0, 1, 2, 3, 4, 5] == [record.offset for record in log.read(0)]
    append(log, loop, 5, 6)

    parsed.clear()
    assert [6, 7] == [record.offset for record in log.read(0, 6)]
    assert 2 == len(parsed)
    assert [] == list(log.read(0, 8))
    assert 2 == len(parsed)
    assert [4, 5, 6, 7] == [record.offset for record in log.read(0, 4)]


@pytest.mark.parametrize("piece", [1, 100, 700, 1 << 20])
def test_a_segment_is_read_in_pieces_of_any_size(
    piece: int, path: Path, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole segment at once would be a long turn of the loop, beside a rebuild."""
    monkeypatch.setattr(history_module, "PIECE_BYTES", piece)
    log = open_log(path, loop, segment_bytes=5000)
    append(log, loop, *range(30))
    sizes: list[int] = []
    read = SystemFile.read

    def watched(file: SystemFile, position: int, size: int) -> bytes:
        if position:  # else it is a segment's head
            sizes.append(size)
        return read(file, position, size)

    monkeypatch.setattr(SystemFile, "read", watched)

    assert [*range(31)] == [record.offset for record in log.read(0)]
    assert [*range(17, 31)] == [record.offset for record in log.read(0, 17)]
    assert max(sizes) <= max(piece, 512), "a block is larger than the smallest piece"
    log.close()


def test_damage_after_the_first_piece_is_reported_by_position(
    path: Path, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "PIECE_BYTES", 300)
    log = open_log(path, loop)
    append(log, loop, *range(10))
    log.close()
    [file] = [each for each in path.iterdir() if sequence_in(each.name) is not None]
    content = bytearray(file.read_bytes())
    at = len(content) - 400
    content[at] ^= 1
    file.write_bytes(content)
    reader = LocalLog.open_reader(path)

    with pytest.raises(CorruptionError) as caught:
        list(reader.read(0))

    named = int(str(caught.value).partition(" at byte ")[2].split(":")[0].split()[0].strip(",."))
    assert at - 400 < named <= at


def test_a_read_goes_on_across_the_end_of_a_segment(path: Path, loop: Loop) -> None:
    log = open_log(path, loop, segment_bytes=2000)
    read = [record.offset for record in log.read(0)]
    for number in range(40):
        append(log, loop, number)
        read += [record.offset for record in log.read(0, len(read))]
    log.close()

    assert list(range(41)) == read
    assert len(segments(path)) > 2


# Identification of histories


def test_writer_and_reader_know_the_same_hash_of_every_record() -> None:
    disk = in_memory.log_of(30, segment_bytes=4000)
    log, reader = in_memory.open_log(disk), LogReader(in_memory.FOLDER, disk)

    hashes = [log.hash_of(0, offset) for offset in range(31)]

    assert hashes == [reader.hash_of(0, offset) for offset in range(31)]
    assert 31 == len(set(hashes))
    assert len([name for name in disk.names(in_memory.FOLDER) if name.endswith(".avro")]) > 2


def test_another_record_at_the_same_offset_has_another_hash() -> None:
    one, other = in_memory.log_of(5), in_memory.log_of(5)
    in_memory.append(in_memory.open_log(one), put_entry(5))
    in_memory.append(in_memory.open_log(other), put_entry(6))

    assert LogReader(in_memory.FOLDER, one).hash_of(0, 5) == LogReader(in_memory.FOLDER, other).hash_of(0, 5)
    assert LogReader(in_memory.FOLDER, one).hash_of(0, 6) != LogReader(in_memory.FOLDER, other).hash_of(0, 6)


def test_where_there_is_no_record_there_is_no_hash() -> None:
    with pytest.raises(LookupError):
        LogReader(in_memory.FOLDER, in_memory.log_of(5)).hash_of(0, 6)


@pytest.mark.parametrize("offset", range(0, 30, 3))
def test_a_continued_read_skips_earlier_segments(offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = in_memory.log_of(30, segment_bytes=4000)
    reader = LogReader(in_memory.FOLDER, disk)
    read: list[int] = []
    blocks = History._blocks

    def watched(history: History, header: Header, *arguments: Any) -> Any:
        read.append(header.chain.sequence)
        return blocks(history, header, *arguments)

    monkeypatch.setattr(History, "_blocks", watched)
    reader.hash_of(0, offset)
    [looked_in] = read
    read.clear()

    records = [record.offset for record in reader.read(0, offset + 1)]

    assert [*range(offset + 1, 31)] == records
    assert looked_in <= offset
    assert looked_in == min(read)


def test_a_later_read_begins_near_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read from any offset passes over the blocks since a position of an earlier read, and no others."""
    monkeypatch.setattr(history_module, "_NOTED_BYTES", 2000)
    reader = LogReader(in_memory.FOLDER, in_memory.log_of(200, segment_bytes=40_000))
    whole = list(reader.read(0, 0))
    parsed: list[int] = []
    read_block = segment.read_block

    def counted(data: bytes, at: int, *arguments: Any) -> Any:
        parsed.append(at)
        return read_block(data, at, *arguments)

    monkeypatch.setattr(segment, "read_block", counted)
    for offset in random.Random(1).sample(range(201), 40):
        parsed.clear()
        records = reader.read(0, offset)
        assert whole[offset] == next(records)
        assert len(parsed) <= 20
        assert whole[offset + 1 :] == list(records)


Synced = list[tuple[str, int]]


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Synced:
    """The calls that make something durable: their name, and the inode that it is about.

    A page that was written is there for every process until the power goes: a killed process does not change that.
    """
    calls: Synced = []

    def watched(name: str, real: Callable[[int], None]) -> Callable[[int], None]:
        def call(descriptor: int) -> None:
            calls.append((name, os.fstat(descriptor).st_ino))
            real(descriptor)

        return call

    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, watched(name, getattr(os, name)))
    return calls


def inode(path: Path) -> int:
    return path.stat().st_ino


@pytest.mark.guarantee("G1")
def test_a_file_is_synced_by_the_system(synced: Synced, tmp_path: Path) -> None:
    if not hasattr(os, "fdatasync"):
        pytest.skip("this system has no fdatasync")
    file = SystemFilesystem().open(tmp_path / "file", create=True)
    file.write(0, b"data")
    assert [] == synced

    file.sync()
    file.close()

    assert [("fdatasync", inode(tmp_path / "file"))] == synced


def test_a_folders_names_are_synced_by_the_system(synced: Synced, tmp_path: Path) -> None:
    SystemFilesystem().sync_folder(tmp_path)

    assert [("fsync", inode(tmp_path))] == synced


def test_a_new_folder_is_synced_into_each_that_is_above_it(synced: Synced, tmp_path: Path) -> None:
    SystemFilesystem().make_folder(tmp_path / "a" / "b")

    assert [("fsync", inode(tmp_path)), ("fsync", inode(tmp_path / "a"))] == synced
