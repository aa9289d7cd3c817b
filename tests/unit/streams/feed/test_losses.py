"""Lost and refused writes of a disk do not affect writers: readers see a gap, and the next start rebuilds it."""

import errno
import random
from pathlib import Path
from typing import Any

import pytest

from foldb.materializer.feed_requests import FindSequenceNumber, ReadChanges
from foldb.model.errors import InternalServerError
from foldb.streams.feed import change_writer, segments
from tests.unit.streams.feed.life import CHANGES, Life

pytestmark = pytest.mark.usefixtures("small")


def is_change_segment(path: Path) -> bool:
    return path.parent == CHANGES and path.suffix == ".avro"


def is_durable(life: Life) -> bool:
    return "mark" in life.disk.names(CHANGES)


def ask(life: Life, request: ReadChanges | FindSequenceNumber) -> Any:
    """Return the answer to a request, also an error."""
    answers: list[Any] = []
    life.partition.feed(request, lambda answer, _: answers.append(answer))
    life.reading.run()
    return answers[0]


def succeed(call: str, path: Path) -> None:
    """Let every call of the disk succeed."""


# A disk that refuses writes


def test_a_read_only_disk_does_not_block_writes_to_tables(
    life: Life, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def is_read_only(call: str, path: Path) -> None:
        if path == CHANGES or path.parent == CHANGES:
            raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(change_writer, "_REFUSED_FACTOR", 2)
    life.disk.hook = is_read_only
    life.fill(life.table, 200)
    life.sync()
    _, trim_horizon = life.read_all(life.table, life.books.labels[life.table])

    assert trim_horizon > 0
    assert life.feed.drops > 0
    assert f"the feed drops the oldest ones up to sequence number {trim_horizon}" in caplog.text
    life.disk.hook = succeed
    life.kill()
    life.check()


def test_a_pending_sync_does_not_cover_dropped_changes(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread is about to write a durable offset when the loop drops changes."""
    life.write(life.table, ("late", {}))
    life.loop.advance(change_writer.SYNC_INTERVAL_S)
    monkeypatch.setattr(change_writer, "MAX_UNWRITTEN_BYTES", 8000)
    for n in range(20):
        life.write(life.table, (f"more {n}", {"x": {"S": "x" * 300}}))
    life.writing.run()

    assert not is_durable(life)
    life.kill()
    life.check()


def test_syncs_resume_when_dropped_changes_have_expired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    life = Life(random.Random(1), retention_ms=20_000)
    table = life.create("T")
    life.fill(table, 60)
    with monkeypatch.context() as patched:
        patched.setattr(change_writer, "MAX_UNWRITTEN_BYTES", 8000)
        for n in range(20):
            life.write(table, (f"more {n}", {"x": {"S": "x" * 300}}))
    life.now += 10_000
    life.fill(table, 20)
    life.sync()
    assert not is_durable(life)

    life.now += 11_000
    life.fill(table, 20)
    life.sync()
    life.snapshot()
    life.kill()

    assert life.folded_from == life.log.end(0)
    life.check()


# A disk that loses data


@pytest.mark.parametrize("how", ["flipped", "removed"])
def test_a_reader_of_a_lost_block_gets_its_changes(how: str, life: Life) -> None:
    table = life.table
    life.check()
    life.kill()  # drops the cached blocks
    life.fill(table, 5)
    _lose(life, how)

    life.check()
    assert 1 == len(life.rebuilt)
    life.fill(table, 40)
    life.sync()
    life.kill()
    life.check()


@pytest.mark.parametrize("how", ["flipped", "removed"])
def test_a_sequence_number_is_found_in_a_lost_block(how: str, life: Life) -> None:
    table = life.table
    segment = life.feed._tables[table].segments._segments[1]
    request = FindSequenceNumber(table, segment.heads[0].time + 1)
    before = life.ask(request)
    life.kill()
    _lose(life, how)

    assert before == life.ask(request)
    assert 1 == len(life.rebuilt)


def _lose(life: Life, how: str) -> None:
    """Damage the first block of the second segment, or remove the segment."""
    segment = life.feed._tables[life.table].segments._segments[1]
    if how == "flipped":
        data = bytearray(life.disk.names_cached[segment.path].cached)
        data[segment.heads[0].at + 200] ^= 1
        life.disk.replace(segment.path, bytes(data))
    else:
        life.disk.remove(segment.path)


def test_a_temporary_error_of_open_loses_nothing(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pending writes of the thread succeed."""
    table = life.table

    def is_full(path: Path, *, create: bool = False, write: bool = True) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(change_writer, "_REFUSED_FACTOR", 2)
    with monkeypatch.context() as patched:
        patched.setattr(life.disk, "open", is_full)
        assert isinstance(ask(life, ReadChanges(table, 0)), InternalServerError)
    for n in range(60):
        life.write(table, (f"k{n}", {"x": {"S": "x" * 200}}))

    assert 180 == len(life.read_all(table, life.books.labels[table])[0])
    life.writing.run()
    life.check()


# A disk that may have lost data


@pytest.mark.parametrize("when", ["marking", "writing"])
def test_a_segment_with_a_failed_sync_is_replaced(
    when: str, life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system reports it once; later syncs succeed although the data was not written."""
    table, failed = life.table, list[Path]()

    def fails_once(call: str, path: Path) -> None:
        if call == "sync" and is_change_segment(path) and not failed:
            failed.append(path)
            raise OSError(errno.EIO, "Input/output error")

    if when == "writing":
        monkeypatch.setattr(segments, "_SYNC_BYTES", 3000)
    life.disk.hook = fails_once
    life.fill(table, 30)
    life.sync()
    life.fill(table, 1)
    life.sync()

    assert failed
    assert not is_durable(life)
    found, trim_horizon = life.read_all(table, life.books.labels[table])
    assert found
    assert trim_horizon < found[0].sequence_number
    life.cut_power()
    life.check()
