"""What is kept on a disk, and what becomes of it when somebody else has been there."""

import random
from pathlib import Path

import pytest

from foldb.materializer.feed import CountChanges, FindNumber, ReadChanges
from foldb.model.errors import InternalServerError
from foldb.streams.feed import storing
from tests.log.fake_disk import FakeDisk
from tests.streams.feed.life import CHANGES, FOLDER, Life

pytestmark = pytest.mark.usefixtures("small")


def files(disk: FakeDisk) -> list[str]:
    return [name for name in disk.names(CHANGES) if name.endswith(".avro")]


def test_segments_are_several_and_memory_holds_the_newest_alone(life: Life) -> None:
    [channel] = life.feed._channels.values()

    assert len(files(life.disk)) > 3
    assert len(channel.recent) < 30
    life.check()


def test_a_start_goes_on_where_the_mark_is(life: Life) -> None:
    life.check()
    life.snapshot()
    life.kill()

    assert life.folded_from == life.log.end(0)
    life.check()


def test_a_snapshot_beyond_the_mark_is_passed_over(life: Life) -> None:
    """Its state knows nothing of changes that were in memory alone when the process died."""
    life.snapshot()
    before = life.log.end(0)
    life.write(life.table, ("late", {}))
    life.snapshot()
    life.kill()

    assert before == life.folded_from
    life.check()


def test_a_stream_in_which_nothing_happens_keeps_no_start_from_a_snapshot(life: Life) -> None:
    other = life.create("Other", stream=False)
    for n in range(20):
        life.write(other, (f"k{n}", {}))
    life.mark()
    life.snapshot()
    life.kill()

    assert life.folded_from == life.log.end(0)
    life.check()


def test_without_a_stream_the_newest_snapshot_is_taken_whatever_is_marked() -> None:
    life = Life(random.Random(1))
    table = life.create("T", stream=False)
    life.write(table, ("a", {}))
    life.snapshot()
    life.kill()

    assert life.folded_from == life.log.end(0)
    assert CHANGES not in life.disk.folders


@pytest.mark.parametrize("place", [0, 2, -1], ids=["oldest", "middle", "newest"])
def test_a_segment_that_somebody_removed_is_made_anew(place: int, life: Life) -> None:
    life.check()
    life.snapshot()
    life.disk.remove(CHANGES / files(life.disk)[place])
    life.kill()

    assert 0 == life.folded_from
    life.check()


def test_the_changes_of_another_log_are_not_believed(life: Life) -> None:
    mark = CHANGES / "mark"
    data = bytes(life.disk.names_cached[mark].cached)
    life.disk.replace(mark, data.replace(b"6c6c6c6c", b"6d6d6d6d", 1))
    life.kill()
    life.check()


def test_a_log_that_ends_before_the_mark_was_restored_and_is_the_truth(life: Life) -> None:
    """Somebody put back an older copy of the log, and left what is derived."""
    other = Life(random.Random(1), retention_ms=0)
    other.create("T")
    for path, node in life.disk.names_cached.items():
        if path.parent == CHANGES:
            other.disk.folders.add(CHANGES)
            other.disk.names_cached[path] = node
    other.kill()
    other.check()


def test_damage_in_the_middle_is_an_error_and_never_a_change(life: Life) -> None:
    path = CHANGES / files(life.disk)[1]
    data = bytearray(life.disk.names_cached[path].cached)
    data[-200] ^= 1
    life.disk.replace(path, bytes(data))
    answers: list[object] = []

    after = 0
    while not answers or not isinstance(answers[-1], InternalServerError):
        request = ReadChanges(life.table, after, limit=3)
        life.partition.feed(request, lambda answer, _: answers.append(answer))
        life.reading.run()
        after = getattr(answers[-1], "next", 0)

    life.disk.remove(path)
    life.kill()
    life.check()


def test_numbers_are_found_and_changes_counted_in_segments_too(life: Life) -> None:
    table = life.table
    found, _ = life.read_all(table, life.books.labels[table])

    for place in (0, 1, 40, 77, 119):
        change = found[place]
        before = life.ask(FindNumber(table, change.time)).after
        count = life.ask(CountChanges(table, change.sequence_number))
        assert (before == found[place - 1].sequence_number) if place else before < change.sequence_number
        assert len(found) - place - 1 == count.changes
        assert count.oldest_ms == (found[place + 1].time if place + 1 < len(found) else None)


def test_a_disk_that_takes_nothing_costs_the_oldest_changes_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until the next start, which makes them anew: the log has them."""
    monkeypatch.setattr(storing, "_LOSE_TIMES", 2)
    life = Life(random.Random(1), retention_ms=0)
    table = life.create("T")

    def full(call: str, path: object) -> None:
        if CHANGES in getattr(path, "parents", ()):
            raise OSError(28, "No space left on device")

    life.disk.hook = full
    for n in range(60):
        life.write(table, (f"k{n}", {"x": {"S": "x" * 200}}))
        life.writing.run()
    label = life.books.labels[table]
    found, kept_after = life.read_all(table, label)

    assert 0 < len(found) < 60
    assert kept_after < found[0].sequence_number
    assert [f"k{n}".encode() for n in range(60 - len(found), 60)] == [change.pk for change in found]

    life.disk.hook = lambda call, path: None
    life.kill()
    life.check()
    assert FOLDER in life.disk.folders


def test_what_the_disk_refused_is_not_marked(life: Life) -> None:
    """The mark itself has room: it must not speak of changes that have none."""

    def refuse(call: str, path: Path) -> None:
        if call == "write" and path.suffix == ".avro" and path.parent == CHANGES:
            raise OSError(28, "No space left on device")

    life.disk.hook = refuse
    for n in range(10):
        life.write(life.table, (f"late {n}", {"x": {"S": "x" * 300}}))
    life.mark()
    life.disk.hook = lambda call, path: None
    life.snapshot()
    life.kill()

    assert 0 == life.folded_from
    life.check()


def test_a_stream_whose_time_is_over_takes_no_room_and_says_that_nothing_is_kept() -> None:
    life = Life(random.Random(1), retention_ms=1000)
    table = life.create("T")
    for n in range(40):
        life.write(table, (f"k{n}", {"x": {"S": "x" * 200}}))
        life.writing.run()
    label = life.books.labels[table]
    life.disable(table)
    other = life.create("Other")
    life.now += 5000
    life.write(other, ("a", {}))
    life.mark()

    assert [] == [name for name in files(life.disk) if name.startswith(f"{table}-")]
    page = life.ask(ReadChanges(table, 0, stream=label))
    assert [] == page.changes
    assert page.next == page.kept_after
    life.check()


def test_a_stream_that_is_enabled_again_is_not_read_from_the_blocks_of_the_one_before() -> None:
    """Its segments go on from the same number, so their files have the same names."""
    life = Life(random.Random(1), retention_ms=20_000)
    table, other = life.create("T"), life.create("Other")
    life.fill(table, 60)
    life.mark()
    first = life.books.labels[table]
    assert 60 == len(life.read_all(table, first)[0])

    life.disable(table)
    life.now += 40_000
    life.write(other, ("a", {}))
    life.mark()
    life.enable(table)
    life.fill(table, 60)

    assert 60 == len(life.read_all(table, life.books.labels[table])[0])
    assert [] == life.read_all(table, first)[0]


def test_what_was_removed_is_told_from_the_moment_on_at_which_it_is_gone() -> None:
    """The thread that writes has removed the oldest segment; the loop has not heard of it yet."""
    life = Life(random.Random(1), retention_ms=100_000)
    table = life.create("T")
    life.fill(table, 120)
    life.mark()
    life.now += 100_000 - 900
    life.write(table, ("late", {}))
    before = life.ask(ReadChanges(table, 0)).kept_after  # and it is not looked again for a while
    life.now += 50
    life.write(table, ("later", {}))
    count = len(files(life.disk))

    life.loop.advance(storing.MARK_S)
    told = life.writing.run_untold()
    assert count > len(files(life.disk))
    page = life.ask(ReadChanges(table, before))
    told.run()

    assert before < page.kept_after == life.ask(ReadChanges(table, before)).kept_after


def test_the_segments_of_a_table_that_nobody_knows_are_removed_by_the_next_start() -> None:
    """Its time was over, and the process was killed after it had said so and before it removed them."""
    life = Life(random.Random(1), retention_ms=20_000)
    table, other = life.create("T"), life.create("Other")
    life.fill(table, 120)
    life.mark()
    life.drop(table)
    life.now += 40_000
    life.write(other, ("a", {}))
    life.loop.advance(storing.MARK_S)
    life.writing.jobs.pop()  # which would remove them
    life.writing.run()
    life.kill()

    assert {f"{other}"} == {name.partition("-")[0] for name in files(life.disk)}
    life.check()


@pytest.mark.parametrize("is_marked", [True, False], ids=["marked", "no mark"])
def test_a_start_removes_segments_of_which_no_mark_speaks(is_marked: bool, life: Life) -> None:
    stray = f"9-{1:027d}.avro"
    life.disk.open(CHANGES / stray, create=True)
    if not is_marked:
        life.disk.remove(CHANGES / "mark")
    life.kill()

    assert stray not in files(life.disk)
    life.check()
