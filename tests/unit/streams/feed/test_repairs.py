"""Repairs of damaged segments: one after another, page by page, and never half."""

from typing import Any

import pytest

from foldb.materializer.feed_requests import ReadChanges
from foldb.model.errors import ServiceUnavailableError
from foldb.streams.feed.segments import REBUILT
from tests.unit.streams.feed.life import CHANGES, Held, Life

pytestmark = pytest.mark.usefixtures("small")


def damage(life: Life, *nths: int) -> None:
    """Flip a bit in the first block of these segments, after a restart that drops the cached blocks."""
    life.kill()
    for nth in nths:
        segment = life.feed._tables[life.table].segments._segments[nth]
        data = bytearray(life.disk.names_cached[segment.path].cached)
        data[segment.heads[0].at + 200] ^= 1
        life.disk.replace(segment.path, bytes(data))


def rebuilt_files(life: Life) -> list[str]:
    return life.disk.names(CHANGES / REBUILT) if CHANGES / REBUILT in life.disk.folders else []


def settle(life: Life) -> None:
    for _ in range(40):
        life.reading.run()
        life.writing.run()


def test_a_rebuild_waits_until_the_history_is_folded(life: Life, caplog: pytest.LogCaptureFixture) -> None:
    """Its readers get an error after 20 seconds, and the rebuild goes on."""
    damage(life, 1)
    reads, answers = list[Any](), list[Any]()

    def is_late(cut: Any, read: Any, done: Any) -> None:
        reads.append(read)
        if len(reads) < 5:
            done(ServiceUnavailableError(), cut)
        else:
            life.read_past(cut, read, done)

    life.feed.repairs._read_past = is_late
    life.partition.feed(ReadChanges(life.table, 0), lambda answer, _: answers.append(answer))
    settle(life)
    assert [] == answers
    assert 1 == len(reads)

    life.loop.advance(5)
    settle(life)
    assert 1 == life.feed.repairs.repaired
    assert 1 == len(answers)
    assert "cannot rebuild" not in caplog.text
    life.check()


def test_segments_are_rebuilt_one_after_another(life: Life) -> None:
    damage(life, 0, 1, 2)
    held, reads = Held(), list[Any]()

    def read_past(cut: Any, read: Any, done: Any) -> None:
        reads.append(read)
        held.submit(lambda: life.read_past(cut, read, done), lambda _: None)

    life.feed.repairs._read_past = read_past
    table = life.feed._tables[life.table]
    for segment in table.segments._segments[:3]:
        life.feed.verify(life.table, segment.after)
    settle(life)
    assert 3 == life.feed.repairs.damaged
    assert 1 == len(reads)

    while held.jobs:
        assert 1 == len(held.jobs)
        held.run(1)
        settle(life)
    assert 3 == life.feed.repairs.repaired
    assert [] == rebuilt_files(life)
    life.check()


@pytest.mark.parametrize("when", ["closed", "killed"])
def test_a_rebuild_that_is_cut_short_leaves_no_file(when: str, life: Life) -> None:
    damage(life, 1)
    held, pages = Held(), list[Any]()

    def read_past(cut: Any, read: Any, done: Any) -> None:
        pages.append(read)
        if len(pages) == 1:
            life.read_past(cut, read, done)
        else:
            held.submit(lambda: life.read_past(cut, read, done), lambda _: None)

    life.feed.repairs._read_past = read_past
    life.partition.feed(ReadChanges(life.table, 0), lambda *_: None)
    settle(life)
    assert 2 == len(pages)
    assert rebuilt_files(life)

    if when == "closed":
        life.feed.begin_close()
        life.writing.run()
        assert [] == rebuilt_files(life)
        held.run()
        assert 2 == len(pages)
        life.stop()
    else:
        life.kill()
        assert [] == rebuilt_files(life)
    life.check()
