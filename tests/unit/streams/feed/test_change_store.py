"""The change store on a disk, and the repair of files that were damaged or removed."""

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from foldb.log.local.filesystem import UNFINISHED
from foldb.materializer.feed_requests import CountChanges, FindSequenceNumber, ListShards, ReadChanges
from foldb.model.errors import InternalServerError
from foldb.model.sequence_numbers import number_before, position_of
from foldb.streams.feed import change_writer, repairs
from foldb.streams.feed.change_codec import BlockHead
from foldb.streams.feed.durable_offset import FILE_NAME
from tests.unit.log.fake_disk import FakeDisk, PowerCut
from tests.unit.streams.feed.life import CHANGES, FOLDER, Held, Life

pytestmark = pytest.mark.usefixtures("small")


def files(disk: FakeDisk) -> list[str]:
    return [name for name in disk.names(CHANGES) if name.endswith(".avro")]


def test_memory_has_only_the_newest_of_several_segments(life: Life) -> None:
    [table_changes] = life.feed._tables.values()

    assert len(files(life.disk)) > 3
    assert len(table_changes.recent) < 30
    life.check()


@pytest.mark.guarantee("G36")
def test_a_start_continues_at_the_durable_offset(life: Life) -> None:
    life.check()
    life.snapshot()
    life.kill()

    assert life.folded_from == life.log.end(0)
    life.check()


@pytest.mark.guarantee("G36")
def test_a_snapshot_beyond_the_durable_offset_is_not_used(life: Life) -> None:
    """Its state lacks changes that were in memory alone when the process died."""
    life.snapshot()
    before = life.log.end(0)
    life.write(life.table, ("late", {}))
    life.snapshot()
    life.kill()

    assert before == life.folded_from
    life.check()


def test_an_idle_stream_does_not_rule_out_a_snapshot(life: Life) -> None:
    other = life.create("Other", stream=False)
    for n in range(20):
        life.write(other, (f"k{n}", {}))
    life.sync()
    life.snapshot()
    life.kill()

    assert life.folded_from == life.log.end(0)
    life.check()


def test_without_a_stream_the_newest_snapshot_is_used() -> None:
    life = Life(random.Random(1))
    table = life.create("T", stream=False)
    life.write(table, ("a", {}))
    life.snapshot()
    life.kill()

    assert life.folded_from == life.log.end(0)
    assert CHANGES not in life.disk.folders


@pytest.mark.guarantee("G36")
@pytest.mark.parametrize("place", [0, 2, -1], ids=["oldest", "middle", "newest"])
def test_a_removed_segment_is_rebuilt_by_a_start(place: int, life: Life) -> None:
    life.check()
    life.snapshot()
    life.disk.remove(CHANGES / files(life.disk)[place])
    life.kill()

    assert 0 == life.folded_from
    life.check()


def test_a_damaged_durable_offset_is_logged(life: Life, caplog: pytest.LogCaptureFixture) -> None:
    flip(life, CHANGES / "mark", 5)
    life.kill()

    assert 0 == life.folded_from
    assert (
        "the durable offset has other bytes than were written; they are rebuilt from the log" in caplog.text
    )
    life.check()


def test_the_changes_of_another_log_are_rebuilt(life: Life) -> None:
    sync = CHANGES / "mark"
    data = bytes(life.disk.names_cached[sync].cached)
    life.disk.replace(sync, data.replace(b"6c6c6c6c", b"6d6d6d6d", 1))
    life.kill()
    life.check()


def test_a_restored_log_below_the_durable_offset_wins(life: Life) -> None:
    """An operator restored an older copy of the log, and left the derived files."""
    other = Life(random.Random(1), retention_ms=0)
    other.create("T")
    for path, node in life.disk.names_cached.items():
        if path.parent == CHANGES:
            other.disk.folders.add(CHANGES)
            other.disk.names_cached[path] = node
    other.kill()
    other.check()


def block_of(life: Life, path: Path) -> BlockHead:
    """Return the last block of a segment."""
    [table_changes] = life.feed._tables.values()
    [segment] = [each for each in table_changes.segments._segments if each.path == path]
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
def test_a_damaged_segment_is_rebuilt_from_the_log(
    region: str, place: int, life: Life, caplog: pytest.LogCaptureFixture
) -> None:
    """Its readers get every change once, and so do the readers after the next start."""
    life.snapshot()
    path = CHANGES / files(life.disk)[place]
    flip(life, path, REGIONS[region](block_of(life, path)))

    if place < 0:  # memory has its changes too, so only a verification reads it
        life.feed.verify(life.table, after_of(path))
        life.reading.run()
        life.writing.run()
    life.check()
    assert (1, 0) == (life.feed.repairs.repaired, life.feed.repairs.damaged)
    assert f"{path} was rebuilt from the log" in caplog.text

    life.fill(life.table, 20)
    life.sync()
    folded = life.log.end(0)
    life.snapshot()
    life.kill()
    assert folded == life.folded_from
    life.check()


def test_a_repair_writes_the_durable_offset_at_once(life: Life) -> None:
    """The new segment may be shorter, and a scrub would report it as cut short until the next sync."""
    life.snapshot()
    before = life.disk.names_cached[CHANGES / FILE_NAME]
    path = CHANGES / files(life.disk)[-1]
    flip(life, path, -1)
    life.feed.verify(life.table, after_of(path))
    life.reading.run()
    life.writing.run()

    assert life.disk.names_cached[CHANGES / FILE_NAME] is not before


def test_a_rebuilt_segment_has_the_same_changes() -> None:
    """The rebuilt segment omits the changes outside capture periods, and has the same shards."""
    life = Life(random.Random(1), retention_ms=0)
    table = life.create("T")
    life.fill(table, 30)
    life.disable(table)
    life.fill(table, 10)
    life.enable(table)
    for _ in range(3):
        life.now += 5 * 3600 * 1000
        life.fill(table, 20)
    life.sync()
    [table_changes] = life.feed._tables.values()
    shards, segments = list(table_changes.shard_starts), table_changes.segments
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
    """They wait at most 20 seconds; then the error is one that clients retry, never an empty page."""
    path = CHANGES / files(life.disk)[1]
    flip(life, path, -1)
    held = Held()
    life.feed.repairs._read_past = lambda *read: held.submit(lambda: life.read_past(*read), lambda _: None)
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
    while held.jobs:
        held.run()
        life.writing.run()
    life.check()
    assert 1 == len(life.rebuilt)


def test_a_failed_rebuild_stays_an_error(life: Life, caplog: pytest.LogCaptureFixture) -> None:
    """Each read of it fails, the log is replayed at most once in ten seconds, and the rest can be read."""
    path = CHANGES / files(life.disk)[1]
    flip(life, path, -1)
    asked = []

    def refuse(cut: Any, read: Any, done: Any) -> None:
        asked.append(read)
        done(InternalServerError("the log is damaged too"), cut)

    life.feed.repairs._read_past = refuse
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
    life.feed.repairs._read_past = life.read_past
    life.check()
    assert 0 == life.feed.repairs.damaged


def test_a_segment_removed_during_its_rebuild_stays_removed() -> None:
    """The segment expired during the rebuild."""
    life = Life(random.Random(1), retention_ms=100_000)
    table = life.create("T")
    life.fill(table, 120)
    life.sync()
    path = CHANGES / files(life.disk)[0]
    flip(life, path, -1)
    held = Held()
    life.feed.repairs._read_past = lambda *read: held.submit(lambda: life.read_past(*read), lambda _: None)
    answers: list[Any] = []
    life.partition.feed(ReadChanges(table, 0), lambda answer, _: answers.append(answer))
    life.reading.run()
    life.writing.run()
    life.now += 200_000
    life.write(table, ("late", {}))
    life.sync()
    held.run()
    life.writing.run()
    life.reading.run()

    assert path.name not in files(life.disk)
    assert 0 == life.feed.repairs.repaired
    assert ["late"] == [each.pk.decode() for each in life.ask(ReadChanges(table, 0)).changes[-1:]]
    life.check()


def test_a_count_does_not_wait_for_a_damaged_segment(life: Life) -> None:
    """It fails at once, and the segment is rebuilt all the same."""
    [table_changes] = life.feed._tables.values()
    segment = table_changes.segments._segments[1]
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
def test_a_damaged_segment_is_rebuilt_after_a_verification(at: int, life: Life) -> None:
    """Readers do not read the header."""
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
@pytest.mark.parametrize(
    "bit", [0, 5, *(pytest.param(each, marks=pytest.mark.soak) for each in (1, 2, 3, 4, 6, 7))]
)
def test_a_start_detects_a_damaged_block_head(bit: int) -> None:
    """Reads search the heads for the position of a change: a wrong head must not hide a change."""
    life = Life(random.Random(1), retention_ms=0, segment_bytes=20_000)
    table = life.create("Cars")
    life.fill(table, 120)
    life.sync()
    found, _ = life.read_all(table, life.books.labels[table])
    numbers = [change.sequence_number for change in found]
    path = CHANGES / files(life.disk)[0]
    good = bytes(life.disk.names_cached[path].cached)
    [table_changes] = life.feed._tables.values()
    block = table_changes.segments._segments[0].heads[2]  # a start reads the whole first and last block
    first = numbers.index(block.sequence_number)
    for at in range(block.at, block.at + 24):
        for low, high in [(first - 3, first), (first - 1, first + 1), (first + 1, first + 3), (0, 119)]:
            data = bytearray(good)
            data[at] ^= 1 << bit
            life.disk.replace(path, bytes(data))
            life.kill()
            assert found[low + 1 : high + 1] == read_between(life, numbers[low], numbers[high])
        life.sync()
        good = bytes(life.disk.names_cached[path].cached)


def read_between(life: Life, after: int, until: int) -> list[Any]:
    """Read the changes with after < sequence number <= until, page by page."""
    changes: list[Any] = []
    while after < until:
        page = life.ask(ReadChanges(life.table, after, until=until))
        changes += page.changes
        assert after < page.next
        after = page.next
    return changes


def test_find_and_count_read_segments_too(life: Life) -> None:
    table = life.table
    found, _ = life.read_all(table, life.books.labels[table])

    for place in (0, 1, 40, 77, 119):
        change = found[place]
        before = life.ask(FindSequenceNumber(table, change.time)).after
        count = life.ask(CountChanges(table, change.sequence_number))
        assert (before == found[place - 1].sequence_number) if place else before < change.sequence_number
        assert len(found) - place - 1 == count.changes
        assert count.oldest_ms == (found[place + 1].time if place + 1 < len(found) else None)


def test_a_full_disk_drops_the_oldest_changes_and_logs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next start rebuilds them from the log."""
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


def test_refused_writes_are_not_in_the_durable_offset(life: Life) -> None:
    """The durable offset itself can be written: it must not cover changes that are missing."""

    def refuse(call: str, path: Path) -> None:
        if call == "write" and path.suffix == ".avro" and path.parent == CHANGES:
            raise OSError(28, "No space left on device")

    life.disk.hook = refuse
    for n in range(10):
        life.write(life.table, (f"late {n}", {"x": {"S": "x" * 300}}))
    life.sync()
    life.disk.hook = lambda call, path: None
    life.snapshot()
    life.kill()

    assert 0 == life.folded_from
    life.check()


def test_an_expired_stream_uses_no_space_and_has_no_changes() -> None:
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
    life.sync()

    assert [] == [name for name in files(life.disk) if name.startswith(f"{table}-")]
    page = life.ask(ReadChanges(table, 0, stream=label))
    assert [] == page.changes
    assert page.next == page.trim_horizon
    life.check()


def test_a_new_stream_is_not_read_from_old_cached_blocks() -> None:
    """Its segments begin after the same sequence number, so their files have the same names."""
    life = Life(random.Random(1), retention_ms=20_000)
    table, other = life.create("T"), life.create("Other")
    life.fill(table, 60)
    life.sync()
    first = life.books.labels[table]
    assert 60 == len(life.read_all(table, first)[0])

    life.disable(table)
    life.now += 40_000
    life.write(other, ("a", {}))
    life.sync()
    life.enable(table)
    life.fill(table, 60)

    assert 60 == len(life.read_all(table, life.books.labels[table])[0])
    assert [] == life.read_all(table, first)[0]


def test_a_removed_segment_raises_the_trim_horizon_at_once() -> None:
    """The writing thread has removed the oldest segment; the callback on the loop is still to come."""
    life = Life(random.Random(1), retention_ms=100_000)
    table = life.create("T")
    life.fill(table, 120)
    life.sync()
    life.now += 100_000 - 900
    life.write(table, ("late", {}))
    before = life.ask(ReadChanges(table, 0)).trim_horizon  # the next search for it is a while away
    life.now += 50
    life.write(table, ("later", {}))
    count = len(files(life.disk))

    life.loop.advance(change_writer.SYNC_INTERVAL_S)
    reported = life.writing.run_without_delivery()
    assert count > len(files(life.disk))
    page = life.ask(ReadChanges(table, before))
    reported.run()

    assert before < page.trim_horizon == life.ask(ReadChanges(table, before)).trim_horizon


def test_a_start_removes_segments_of_unknown_tables() -> None:
    """It had expired, and the process was killed between the durable offset and the removal."""
    life = Life(random.Random(1), retention_ms=20_000)
    table, other = life.create("T"), life.create("Other")
    life.fill(table, 120)
    life.sync()
    life.drop(table)
    life.now += 40_000
    life.write(other, ("a", {}))
    life.loop.advance(change_writer.SYNC_INTERVAL_S)
    life.writing.jobs.pop()  # the removal
    life.writing.run()
    life.kill()

    assert {f"{other}"} == {name.partition("-")[0] for name in files(life.disk)}
    life.check()


@pytest.mark.parametrize("is_durable", [True, False], ids=["durable offset", "none"])
def test_a_start_removes_segments_beyond_the_durable_offset(is_durable: bool, life: Life) -> None:
    stray = f"9-{1:027d}.avro"
    life.disk.open(CHANGES / stray, create=True)
    if not is_durable:
        life.disk.remove(CHANGES / "mark")
    life.kill()

    assert stray not in files(life.disk)
    life.check()


@pytest.mark.guarantee("G53")
@pytest.mark.parametrize("segment_bytes", [3000, 1 << 20], ids=["several files", "one file"])
@pytest.mark.parametrize("kept", [0, 1, 45, 119])
def test_a_trim_of_the_log_removes_expired_changes(kept: int, segment_bytes: int) -> None:
    """All of them, also those that share a file or a block with others; the shards stay."""
    life = Life(random.Random(1), retention_ms=5000, segment_bytes=segment_bytes)
    table = life.create("T")
    life.fill(table, 120)
    life.sync()
    life.check()
    [table_changes] = life.feed._tables.values()
    changes = [each for page in table_changes.segments.read(0, 10**30) for each in page]
    other = life.create("Other", stream=False)
    life.now = (changes[-kept].time if kept else changes[-1].time + 1) + 5000
    life.write(other, ("clock", {}))
    shards = life.ask(ListShards(table, life.books.labels[table]))

    life.trim_log()
    life.sync()

    for _ in range(2):
        [table_changes] = life.feed._tables.values()
        segments = table_changes.segments
        assert changes[120 - kept :] == [each for page in segments.read(0, 10**30) for each in page]
        assert shards == life.ask(ListShards(table, life.books.labels[table]))
        life.check()
        life.snapshot()
        life.kill()
        assert life.folded_from == life.log.end(0), "the start uses the changes that it finds"
    life.fill(table, 60)
    life.sync()
    life.check()
    later = life.ask(ListShards(table, life.books.labels[table])).shards
    assert shards.shards[-1].first in [shard.first for shard in later[:-1]]


def test_a_start_between_the_steps_of_a_removal_is_complete() -> None:
    """Each step may be the last one before a crash."""
    steps = 0
    while True:
        life = Life(random.Random(1), retention_ms=1000, segment_bytes=20_000)
        table = life.create("T")
        life.fill(table, 120)
        life.sync()
        life.snapshot()
        life.now += 500
        other = life.create("Other", stream=False)
        life.write(other, ("clock", {}))
        life.trim_log()
        left = iter(range(steps))

        def end_after(_: str, __: object, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise PowerCut

        life.disk.hook = end_after
        is_whole = False
        with suppress(PowerCut):
            life.sync()
            is_whole = True
        life.disk.hook = lambda call, path: None
        life.kill()
        life.check()
        assert not [name for name in life.disk.names(CHANGES) if name.endswith(UNFINISHED)]
        assert life.folded_from > 0, "the start uses the changes that it finds"
        if is_whole:
            break
        steps += 1
    assert steps > 8


def test_a_reader_of_a_removed_file_reads_the_rest(life: Life) -> None:
    """It has begun to read the file before its changes were written to another."""
    [table_changes] = life.feed._tables.values()
    changes = [each for page in table_changes.segments.read(0, 10**30) for each in page]
    middle = changes[len(changes) // 2]
    removal = table_changes.segments.removal(middle.time, middle.sequence_number)
    life.kill()
    [table_changes] = life.feed._tables.values()
    answers: list[Any] = []

    def read(segments: Any) -> list[Any]:
        found = segments.read(middle.sequence_number, changes[-1].sequence_number)
        begun = next(found)
        if not answers:
            answers.append(begun)
            segments.remove(segments.removal(middle.time, middle.sequence_number))
        return [begun, *found]

    assert removal.rest is not None
    table_changes.segments._files._cache._max_bytes = 0
    life.feed._writer.read(table_changes, read, answers.append)
    life.reading.run()
    assert [each for page in answers[-1] for each in page] == changes[changes.index(middle) + 1 :]


def test_a_segment_is_rebuilt_without_trimmed_changes() -> None:
    """They have expired, and the log has no record of them."""
    life = Life(random.Random(1), retention_ms=5000, segment_bytes=1 << 20)
    table = life.create("T")
    life.fill(table, 120)
    life.sync()
    [table_changes] = life.feed._tables.values()
    changes = [each for page in table_changes.segments.read(0, 10**30) for each in page]
    first = changes[50]
    life.log_begin, _ = position_of(first.sequence_number)
    begins: list[int] = []

    def read_past(cut: Any, read: Any, done: Any) -> None:
        begins.append(read.after_sequence_number)
        life.read_past(cut, read, done)

    life.feed.repairs._read_past = read_past
    [name] = files(life.disk)
    flip(life, CHANGES / name, -1)
    life.feed.verify(table, after_of(CHANGES / name))
    life.reading.run()
    life.writing.run()

    assert number_before(life.log_begin) == begins[0]
    assert changes[50:] == [each for page in table_changes.segments.read(0, 10**30) for each in page]
    life.kill()
