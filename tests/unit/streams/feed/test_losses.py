"""What a disk has lost or refuses costs no writer anything: readers are told, and the next start makes it anew."""

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


def is_marked(life: Life) -> bool:
    return "mark" in life.disk.names(CHANGES)


def ask(life: Life, request: ReadChanges | FindSequenceNumber) -> Any:
    """What a request is answered with, also if that is an error."""
    answers: list[Any] = []
    life.partition.feed(request, lambda answer, _: answers.append(answer))
    life.reading.run()
    return answers[0]


def nothing(call: str, path: Path) -> None:
    """A disk that is well again."""


# A disk that takes nothing


def test_a_disk_on_which_nothing_can_be_written_any_more_keeps_nobody_from_writing(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_read_only(call: str, path: Path) -> None:
        if path == CHANGES or path.parent == CHANGES:
            raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(change_writer, "_REFUSED_FACTOR", 2)
    life.disk.hook = is_read_only
    life.fill(life.table, 200)
    life.mark()
    _, trim_horizon = life.read_all(life.table, life.books.labels[life.table])

    assert trim_horizon > 0
    life.disk.hook = nothing
    life.kill()
    life.check()


def test_what_was_let_go_of_is_not_marked_by_what_was_on_its_way(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread has a mark to write when the loop finds that it is too late for that."""
    life.write(life.table, ("late", {}))
    life.loop.advance(change_writer.SYNC_INTERVAL_S)
    monkeypatch.setattr(change_writer, "MAX_UNWRITTEN_BYTES", 8000)
    for n in range(20):
        life.write(life.table, (f"more {n}", {"x": {"S": "x" * 300}}))
    life.writing.run()

    assert not is_marked(life)
    life.kill()
    life.check()


def test_when_the_time_of_what_was_let_go_of_is_over_there_is_a_mark_again(
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
    life.mark()
    assert not is_marked(life)

    life.now += 11_000
    life.fill(table, 20)
    life.mark()
    life.snapshot()
    life.kill()

    assert life.folded_from == life.log.end(0)
    life.check()


# A disk that has lost something


@pytest.mark.parametrize("how", ["flipped", "removed"])
def test_a_reader_of_a_lost_block_gets_its_changes(how: str, life: Life) -> None:
    table = life.table
    life.check()
    life.kill()  # what was read is not in memory any more
    life.fill(table, 5)
    _lose(life, how)

    life.check()
    assert 1 == len(life.rebuilt)
    life.fill(table, 40)
    life.mark()
    life.kill()
    life.check()


@pytest.mark.parametrize("how", ["flipped", "removed"])
def test_a_number_is_found_in_a_block_that_was_lost(how: str, life: Life) -> None:
    table = life.table
    segment = life.feed._tables[table].segments._segments[1]
    request = FindSequenceNumber(table, segment.heads[0].time + 1)
    before = life.ask(request)
    life.kill()
    _lose(life, how)

    assert before == life.ask(request)
    assert 1 == len(life.rebuilt)


def _lose(life: Life, how: str) -> None:
    """Damage the first block of the second segment, or remove all of it."""
    segment = life.feed._tables[life.table].segments._segments[1]
    if how == "flipped":
        data = bytearray(life.disk.names_cached[segment.path].cached)
        data[segment.heads[0].at + 200] ^= 1
        life.disk.replace(segment.path, bytes(data))
    else:
        life.disk.remove(segment.path)


def test_a_file_that_cannot_be_opened_for_a_moment_costs_nothing(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even room for what the thread has yet to write: writing works."""
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


# A disk that has not lost anything, perhaps


@pytest.mark.parametrize("when", ["marking", "writing"])
def test_a_segment_of_which_a_sync_has_failed_is_believed_no_more(
    when: str, life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system says so once; what it could not write counts as written after that."""
    table, failed = life.table, list[Path]()

    def fails_once(call: str, path: Path) -> None:
        if call == "sync" and is_change_segment(path) and not failed:
            failed.append(path)
            raise OSError(errno.EIO, "Input/output error")

    if when == "writing":
        monkeypatch.setattr(segments, "_SYNC_BYTES", 3000)
    life.disk.hook = fails_once
    life.fill(table, 30)
    life.mark()
    life.fill(table, 1)
    life.mark()

    assert failed
    assert not is_marked(life)
    found, trim_horizon = life.read_all(table, life.books.labels[table])
    assert found
    assert trim_horizon < found[0].sequence_number
    life.cut_power()
    life.check()
