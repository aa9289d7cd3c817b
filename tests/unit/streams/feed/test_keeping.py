"""What is kept on a disk, and what becomes of it when somebody else has been there."""

import random
from pathlib import Path
from typing import Any

import pytest

from foldb.materializer.feed_requests import CountChanges, FindSequenceNumber, ReadChanges
from foldb.model.errors import InternalServerError, LogError
from foldb.streams.feed import change_writer, repairs
from foldb.streams.feed.change_codec import BlockHead
from tests.unit.log.fake_disk import FakeDisk
from tests.unit.streams.feed.life import CHANGES, FOLDER, Held, Life

pytestmark = pytest.mark.usefixtures("small")


def files(disk: FakeDisk) -> list[str]:
    return [name for name in disk.names(CHANGES) if name.endswith(".avro")]


def test_segments_are_several_and_memory_holds_the_newest_alone(life: Life) -> None:
    [channel] = life.feed._tables.values()

    assert len(files(life.disk)) > 3
    assert len(channel.recent) < 30
    life.check()


@pytest.mark.guarantee("G36")
def test_a_start_goes_on_where_the_mark_is(life: Life) -> None:
    life.check()
    life.snapshot()
    life.kill()

    assert life.folded_from == life.log.end(0)
    life.check()


@pytest.mark.guarantee("G36")
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


@pytest.mark.guarantee("G36")
@pytest.mark.parametrize("place", [0, 2, -1], ids=["oldest", "middle", "newest"])
def test_a_segment_that_somebody_removed_is_made_anew(place: int, life: Life) -> None:
    life.check()
    life.snapshot()
    life.disk.remove(CHANGES / files(life.disk)[place])
    life.kill()

    assert 0 == life.folded_from
    life.check()


def test_a_damaged_mark_is_reported(life: Life, caplog: pytest.LogCaptureFixture) -> None:
    flip(life, CHANGES / "mark", 5)
    life.kill()

    assert 0 == life.folded_from
    assert (
        "the durable offset has other bytes than were written; they are rebuilt from the log" in caplog.text
    )
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


def block_of(life: Life, path: Path) -> BlockHead:
    """The last block of a segment."""
    [channel] = life.feed._tables.values()
    [segment] = [each for each in channel.segments._segments if each.path == path]
    return segment.heads[-1]


def after_of(path: Path) -> int:
    return int(path.stem.partition("-")[2])


REGIONS = {
    "count": lambda head: head.at,
    "number of its first change": lambda head: head.at + 4,
    "body": lambda head: head.at + head.size // 2,
    "check": lambda head: head.at + head.size - 18,
    "marker": lambda head: head.at + head.size - 1,
}


def flip(life: Life, path: Path, at: int) -> None:
    data = bytearray(life.disk.names_cached[path].cached)
    data[at] ^= 1
    life.disk.replace(path, bytes(data))


@pytest.mark.guarantee("G36")
@pytest.mark.parametrize("place", [0, 2, -1], ids=["oldest", "middle", "newest"])
@pytest.mark.parametrize("region", REGIONS)
def test_a_damaged_segment_is_made_again_from_the_log(
    region: str, place: int, life: Life, caplog: pytest.LogCaptureFixture
) -> None:
    """Its readers get every change once, and so do those of the next start."""
    life.snapshot()
    path = CHANGES / files(life.disk)[place]
    flip(life, path, REGIONS[region](block_of(life, path)))

    if place < 0:  # memory has its changes too: only a check reads it
        life.feed.verify(life.table, after_of(path))
        life.reading.run()
        life.writing.run()
    life.check()
    assert (1, 0) == (life.feed.repairs.repaired, life.feed.repairs.damaged)
    assert f"{path} was rebuilt from the log" in caplog.text

    life.fill(life.table, 20)
    life.mark()
    folded = life.log.end(0)
    life.snapshot()
    life.kill()
    assert folded == life.folded_from
    life.check()


def test_a_segment_is_made_again_as_it_was() -> None:
    """Without the changes that no window holds, and with the shards that there were."""
    life = Life(random.Random(1), retention_ms=0)
    table = life.create("T")
    life.fill(table, 30)
    life.disable(table)
    life.fill(table, 10)
    life.enable(table)
    for _ in range(3):
        life.now += 5 * 3600 * 1000
        life.fill(table, 20)
    life.mark()
    [channel] = life.feed._tables.values()
    shards, segments = list(channel.shard_starts), channel.segments
    changes = [each for page in segments.read(0, 10**30) for each in page]
    assert 4 == len(shards)

    for name in files(life.disk):
        flip(life, CHANGES / name, -1)
        life.feed.verify(table, after_of(CHANGES / name))
        life.reading.run()
        life.writing.run()

    assert len(files(life.disk)) == len(life.rebuilt) == life.feed.repairs.repaired
    assert shards == segments.shard_starts()
    assert changes == [each for page in segments.read(0, 10**30) for each in page]
    life.check()


def test_readers_of_a_damaged_segment_wait_and_then_fail(life: Life) -> None:
    """For 20 seconds at most; then the error is one that a client repeats, and never an empty page."""
    path = CHANGES / files(life.disk)[1]
    flip(life, path, -1)
    held = Held()
    life.feed.repairs._rebuild = lambda *task: held.submit(lambda: life.rebuild(*task), lambda _: None)
    answers: list[object] = []
    for _ in range(2):
        life.partition.feed(ReadChanges(life.table, 0), lambda answer, _: answers.append(answer))
    life.reading.run()
    life.writing.run()
    life.reading.run()
    assert [] == answers
    assert 1 == life.feed.repairs.damaged

    life.loop.advance(20.0)
    assert [True, True] == [isinstance(answer, InternalServerError) for answer in answers]
    held.run()
    life.writing.run()
    life.check()
    assert 1 == len(life.rebuilt)


def test_a_segment_that_cannot_be_made_again_stays_an_error(
    life: Life, caplog: pytest.LogCaptureFixture
) -> None:
    """Each read of it fails, the log is asked once in ten seconds, and the rest can be read."""
    path = CHANGES / files(life.disk)[1]
    flip(life, path, -1)
    asked = []

    def refuse(*task: Any) -> None:
        asked.append(task)
        task[-1](LogError("the log is damaged too"), lambda: None)

    life.feed.repairs._rebuild = refuse
    answers: list[object] = []
    for _ in range(3):
        life.partition.feed(ReadChanges(life.table, 0), lambda answer, _: answers.append(answer))
        for _ in range(3):
            life.reading.run()
            life.writing.run()
    assert [True] * 3 == [isinstance(answer, InternalServerError) for answer in answers]
    assert 1 == len(asked)
    assert 1 == life.feed.repairs.damaged
    assert "the log is damaged too; its readers get an error" in caplog.text

    life.loop.advance(repairs.RETRY_S)
    life.feed.repairs._rebuild = life.rebuild
    life.check()
    assert 0 == life.feed.repairs.damaged


def test_a_segment_removed_while_it_is_made_again_stays_so() -> None:
    """Its time was over meanwhile."""
    life = Life(random.Random(1), retention_ms=100_000)
    table = life.create("T")
    life.fill(table, 120)
    life.mark()
    path = CHANGES / files(life.disk)[0]
    flip(life, path, -1)
    held = Held()
    life.feed.repairs._rebuild = lambda *task: held.submit(lambda: life.rebuild(*task), lambda _: None)
    answers: list[Any] = []
    life.partition.feed(ReadChanges(table, 0), lambda answer, _: answers.append(answer))
    life.reading.run()
    life.writing.run()
    life.now += 200_000
    life.write(table, ("late", {}))
    life.mark()
    held.run()
    life.writing.run()
    life.reading.run()

    assert path.name not in files(life.disk)
    assert 0 == life.feed.repairs.repaired
    assert ["late"] == [each.pk.decode() for each in life.ask(ReadChanges(table, 0)).changes[-1:]]
    life.check()


def test_a_count_does_not_wait_for_a_damaged_segment(life: Life) -> None:
    """It fails at once, and has the segment made again all the same."""
    [channel] = life.feed._tables.values()
    segment = channel.segments._segments[1]
    request = CountChanges(life.table, segment.heads[0].sequence_number)
    life.kill()
    flip(life, segment.path, segment.heads[0].at + 200)
    answers: list[object] = []
    life.partition.feed(request, lambda answer, _: answers.append(answer))
    life.reading.run()
    assert [True] == [isinstance(answer, InternalServerError) for answer in answers]

    life.writing.run()
    assert 1 == life.feed.repairs.repaired
    assert len(life.read_all(life.table, life.books.labels[life.table])[0]) > life.ask(request).changes > 0


@pytest.mark.parametrize("at", [200, -1], ids=["header", "marker"])
def test_a_segment_that_is_checked_is_made_again(at: int, life: Life) -> None:
    """No reader looks at a header."""
    path = CHANGES / files(life.disk)[1]
    life.feed.verify(life.table, after_of(path))
    life.reading.run()
    assert [] == life.rebuilt

    good = bytes(life.disk.names_cached[path].cached)
    flip(life, path, at)
    life.feed.verify(life.table, after_of(path))
    life.reading.run()
    life.writing.run()

    assert good[:200] == bytes(life.disk.names_cached[path].cached)[:200]
    assert 1 == life.feed.repairs.repaired
    life.check()


@pytest.mark.guarantee("G36")
@pytest.mark.parametrize("bit", range(8))
def test_a_start_believes_no_damaged_head_of_a_block(bit: int) -> None:
    """The place of a change is looked up in these: a wrong one must not hide any."""
    life = Life(random.Random(1), retention_ms=0, segment_bytes=20_000)
    table = life.create("Cars")
    life.fill(table, 120)
    life.mark()
    found, _ = life.read_all(table, life.books.labels[table])
    numbers = [change.sequence_number for change in found]
    path = CHANGES / files(life.disk)[0]
    good = bytes(life.disk.names_cached[path].cached)
    [channel] = life.feed._tables.values()
    block = channel.segments._segments[0].heads[2]  # a start reads the first and the last one to their ends
    first = numbers.index(block.sequence_number)
    for at in range(block.at, block.at + 24):
        for low, high in [(first - 3, first), (first - 1, first + 1), (first + 1, first + 3), (0, 119)]:
            data = bytearray(good)
            data[at] ^= 1 << bit
            life.disk.replace(path, bytes(data))
            life.kill()
            assert found[low + 1 : high + 1] == read_between(life, numbers[low], numbers[high])
        life.mark()
        good = bytes(life.disk.names_cached[path].cached)


def read_between(life: Life, after: int, until: int) -> list[Any]:
    """The changes with after < number <= until, page by page."""
    changes: list[Any] = []
    while after < until:
        page = life.ask(ReadChanges(life.table, after, until=until))
        changes += page.changes
        assert after < page.next
        after = page.next
    return changes


def test_numbers_are_found_and_changes_counted_in_segments_too(life: Life) -> None:
    table = life.table
    found, _ = life.read_all(table, life.books.labels[table])

    for place in (0, 1, 40, 77, 119):
        change = found[place]
        before = life.ask(FindSequenceNumber(table, change.time)).after
        count = life.ask(CountChanges(table, change.sequence_number))
        assert (before == found[place - 1].sequence_number) if place else before < change.sequence_number
        assert len(found) - place - 1 == count.changes
        assert count.oldest_ms == (found[place + 1].time if place + 1 < len(found) else None)


def test_a_disk_that_takes_nothing_costs_the_oldest_changes_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until the next start, which makes them anew: the log has them."""
    monkeypatch.setattr(change_writer, "_REFUSED_FACTOR", 2)
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
    found, trim_horizon = life.read_all(table, label)

    assert 0 < len(found) < 60
    assert trim_horizon < found[0].sequence_number
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
    assert page.next == page.trim_horizon
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
    before = life.ask(ReadChanges(table, 0)).trim_horizon  # and it is not looked again for a while
    life.now += 50
    life.write(table, ("later", {}))
    count = len(files(life.disk))

    life.loop.advance(change_writer.SYNC_INTERVAL_S)
    told = life.writing.run_untold()
    assert count > len(files(life.disk))
    page = life.ask(ReadChanges(table, before))
    told.run()

    assert before < page.trim_horizon == life.ask(ReadChanges(table, before)).trim_horizon


def test_the_segments_of_a_table_that_nobody_knows_are_removed_by_the_next_start() -> None:
    """Its time was over, and the process was killed after it had said so and before it removed them."""
    life = Life(random.Random(1), retention_ms=20_000)
    table, other = life.create("T"), life.create("Other")
    life.fill(table, 120)
    life.mark()
    life.drop(table)
    life.now += 40_000
    life.write(other, ("a", {}))
    life.loop.advance(change_writer.SYNC_INTERVAL_S)
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
