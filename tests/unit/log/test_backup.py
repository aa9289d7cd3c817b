"""A copy of a log's bytes is the same log, wherever it ends and at whichever call it was interrupted."""

import itertools
import os
import random
from bisect import bisect_left
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from foldb.log.commands import Position
from foldb.log.local import LocalLog, segment
from foldb.log.local.backup import back_up, cut, intact_part, restore
from foldb.log.local.history import Part
from foldb.model.errors import CorruptionError, FoldbError, ForeignLogError, LogError, LogLockedError
from tests.unit.log import damage
from tests.unit.log.damage import Files, Sample
from tests.unit.log.fake_disk import FakeDisk
from tests.unit.log.local_logs import FOLDER, Held, append, log_of, numbers, open_log
from tests.unit.log.samples import put_entry
from tests.verification.reliability import record

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []
# Each kind of damage yields thousands of logs. Try every Nth, a prime.
EVERY = 31 if SOAK else 199
TARGET, COPY = Path("/backup"), Path("/copy")


def part_of(disk: FakeDisk, folder: Path = FOLDER) -> Part:
    return LocalLog.open_reader(folder, disk).part()


def segments(disk: FakeDisk, folder: Path) -> dict[str, bytes]:
    """The segments of a folder, without the zeros that a writer fills in."""
    return {
        name: data.rstrip(b"\0") for name, data in disk.contents(folder).items() if name.endswith(".avro")
    }


def numbers_in(disk: FakeDisk, folder: Path) -> list[int]:
    return numbers(LocalLog.open_reader(folder, disk))


@pytest.mark.guarantee("G7")
def test_a_backup_is_the_same_bytes() -> None:
    disk = log_of(40, segment_bytes=9700)

    copied = back_up(disk, part_of(disk), TARGET)

    assert len(segments(disk, FOLDER)) > 2
    assert segments(disk, FOLDER) == segments(disk, TARGET)
    assert (41, sum(map(len, segments(disk, FOLDER).values()))) == (copied.records, copied.bytes)


def test_a_second_backup_copies_only_records_that_came_since() -> None:
    disk = log_of(10, segment_bytes=9700)
    first = back_up(disk, part_of(disk), TARGET)
    log = open_log(disk, segment_bytes=9700)
    append(log, *(put_entry(n) for n in range(10, 40)))

    seen: list[int] = []
    second = back_up(disk, part_of(disk), TARGET, seen.append)

    assert (30, 30) == (second.records, sum(seen))
    assert first.bytes + second.bytes == sum(map(len, segments(disk, FOLDER).values()))
    assert segments(disk, FOLDER) == segments(disk, TARGET)
    assert 0 == back_up(disk, part_of(disk), TARGET).records


def test_a_backup_stops_at_the_last_acknowledged_record() -> None:
    """A group that is being written may be taken back, and is not in a backup."""
    disk, held = FakeDisk(), Held()
    log = open_log(disk, background=held)
    append(log, put_entry(0))
    held.close()
    mark = bytes(disk.names_cached[FOLDER / "mark"].cached)
    append(log, put_entry(1), put_entry(2))
    held.close()
    disk.replace(FOLDER / "mark", mark)

    part = part_of(disk)
    back_up(disk, part, TARGET)

    assert [0] == numbers_in(disk, TARGET)
    assert 2 == part.behind


@pytest.mark.guarantee("G7")
@pytest.mark.parametrize("fault", ["the power goes", "the process dies", "the disk fails"])
def test_any_call_of_a_backup_may_be_its_last(fault: str) -> None:
    """It leaves the beginning of a log, and the next backup goes on from there."""
    for stop in itertools.count(1):
        disk = log_of(12, segment_bytes=9700)
        back_up(disk, part_of(disk), TARGET)
        append(open_log(disk, segment_bytes=9700), *(put_entry(n) for n in range(12, 24)))
        disk.crash()
        calls = itertools.count(1)

        def fail(call: str, path: Path, calls: Iterator[int] = calls, stop: int = stop) -> None:
            if next(calls) == stop:
                raise OSError(5, call)

        disk.hook = fail
        try:
            back_up(disk, part_of(disk), TARGET)
        except OSError:
            disk.hook = lambda call, path: None
            if fault == "the power goes":
                disk.power_cut(random.Random(stop))
                # A source that lost its mark may show fewer records than the target has.
                back_up(disk, part_of(disk), TARGET)
                open_log(disk, segment_bytes=9700).close()
            elif fault == "the process dies":
                disk.crash()
        else:
            assert stop > 8, "a backup makes more calls than this"
            break
        beginning = numbers_in(disk, TARGET)
        assert beginning == list(range(len(beginning)))
        assert len(beginning) >= 12
        back_up(disk, part_of(disk), TARGET)
        assert list(range(24)) == numbers_in(disk, TARGET)


def test_a_partly_restored_folder_is_refused() -> None:
    """Else a restore that was interrupted would be served as a shorter log."""
    for stop in itertools.count(1):
        disk = log_of(24, segment_bytes=9700)
        calls = itertools.count(1)

        def fail(call: str, path: Path, calls: Iterator[int] = calls, stop: int = stop) -> None:
            if next(calls) == stop:
                raise OSError(5, call)

        disk.hook = fail
        try:
            restore(disk, part_of(disk), COPY)
        except OSError:
            disk.hook = lambda call, path: None
            disk.power_cut(random.Random(stop))
        else:
            break
        if (COPY / "mark") in disk.names_cached and disk.names_cached[COPY / "mark"].cached:
            try:
                found = numbers_in(disk, COPY)
            except FoldbError:
                continue
            assert list(range(24)) == found
        else:
            assert not segments(disk, COPY)
    assert stop > 8


def test_a_restored_folder_goes_on() -> None:
    disk = log_of(20, segment_bytes=9700)
    restore(disk, part_of(disk), FOLDER.with_name("restored"))
    files = disk.contents(FOLDER.with_name("restored"))

    log = open_log(damage.disk_of(files))
    append(log, put_entry(20))

    assert list(range(21)) == numbers(log)


def test_a_restore_ends_at_any_position() -> None:
    disk = log_of(20, segment_bytes=9700)
    for offset in range(21):
        restore(disk, cut(part_of(disk), Position(0, offset)), Path(f"/{offset}"))
        assert list(range(offset)) == numbers_in(disk, Path(f"/{offset}"))
    with pytest.raises(LogError, match="no record @21: the log ends at @20"):
        cut(part_of(disk), Position(0, 21))


def test_a_cut_keeps_the_records_of_all_partitions_before_it() -> None:
    """They share one sequence, so no partition keeps an effect of a record that another one lost."""
    disk = FakeDisk()
    log = open_log(disk, partitions=3)
    for number in range(9):
        append(log, put_entry(number), partition=number % 3)

    restore(disk, cut(part_of(disk), Position(1, 2)), COPY)

    reader = LocalLog.open_reader(COPY, disk)
    assert [[0, 3], [1, 4], [2]] == [numbers(reader, partition) for partition in range(3)]


@pytest.mark.guarantee("G7")
def test_only_an_earlier_state_of_the_source_is_appended_to() -> None:
    disk = log_of(12)
    back_up(disk, part_of(disk), TARGET)
    files = {name: disk.contents(TARGET)[name] for name in disk.contents(TARGET)}
    served = damage.disk_of(files)
    append(open_log(served), put_entry(99))
    disk.replace(TARGET / segment.name(0), served.contents(FOLDER)[segment.name(0)])
    before = disk.contents(TARGET)

    with pytest.raises(ForeignLogError, match="was served since the last backup"):
        back_up(disk, part_of(disk), TARGET)
    append(open_log(disk), put_entry(12), put_entry(13))
    with pytest.raises(ForeignLogError, match="Name a new folder"):
        back_up(disk, part_of(disk), TARGET)
    assert before == disk.contents(TARGET)


def test_a_backup_of_another_log_is_refused() -> None:
    disk = log_of(3)
    data = segment.header(b"m" * 16, part_of(disk).headers[0].fingerprint, segment.Chain.start(b"m" * 16, 1))
    disk.folders.add(TARGET)
    disk.open(TARGET / segment.name(0), create=True).write(0, data)

    with pytest.raises(ForeignLogError, match=r"holds the log 6d6d\w+, not the source's log 6c6c"):
        back_up(disk, part_of(disk), TARGET)


def test_a_served_target_and_a_full_one_are_refused() -> None:
    disk = log_of(3)
    back_up(disk, part_of(disk), TARGET)
    lock = disk.lock(TARGET / "lock", b"pid 1\n")

    with pytest.raises(LogLockedError, match="is in use by another process"):
        back_up(disk, part_of(disk), TARGET)
    lock.close()
    with pytest.raises(LogError, match="is not empty: name a new folder"):
        restore(disk, part_of(disk), TARGET)


@pytest.mark.guarantee("G7")
def test_damage_to_the_source_does_not_reach_the_backup() -> None:
    """Every record is checked, also in segments that a reader of the newest records would pass over."""
    disk = log_of(40, segment_bytes=9700)
    [_, second, *_] = segments(disk, FOLDER)
    data = bytearray(disk.contents(FOLDER)[second])
    data[-100] ^= 1
    disk.replace(FOLDER / second, bytes(data))

    with pytest.raises(CorruptionError, match=rf"{second} at byte .*`foldb log salvage /data NEWFOLDER`"):
        back_up(disk, part_of(disk), TARGET)

    assert list(segments(disk, TARGET)) == [segment.name(0)]


# Salvage

WHOLE = damage.sample(24, segment_bytes=10_260)
TORN = damage.sample(24, segment_bytes=10_260, in_flight=3)


def damaged(sample: Sample) -> Iterator[Files]:
    """Logs with each kind of damage to their segments."""
    for name in sample.segments:
        yield from damage.flips(sample, name, 0, len(sample.files[name]), 8 * EVERY + 1)
        yield from damage.truncations(sample, name, EVERY)
        for length in (1, 512, None):
            yield from damage.zeros(sample, name, length, 0, EVERY)
        yield {other: data for other, data in sample.files.items() if other != name}
    yield from itertools.islice(damage.sector_swaps(sample), None, None, EVERY)
    yield from itertools.islice(damage.sector_copies(sample), None, None, EVERY)
    yield from damage.at_random(sample, random.Random(3), 20)


def undamaged_records(sample: Sample, files: Files) -> int:
    """The number of records before the first byte that differs from the sample's."""
    count = 0
    for name in sample.segments:
        ours, theirs = sample.files[name], files.get(name, b"")
        sizes = range(min(len(ours), len(theirs)) + 1)
        same = bisect_left(sizes, True, key=partial(_differ, ours, theirs)) - 1
        header = segment.read_header(ours)
        if same < header.size:
            return count
        scan = segment.scan(ours[:same], header.size, header.marker, header.chain)
        count = scan.chain.sequence
        if scan.end < len(ours.rstrip(b"\0")):
            return count
    return count


def _differ(ours: bytes, theirs: bytes, size: int) -> bool:
    return ours[:size] != theirs[:size]


@pytest.mark.guarantee("G8")
@pytest.mark.parametrize("sample", [WHOLE, TORN], ids=["closed", "crashed"])
def test_salvage_copies_every_record_before_the_damage(sample: Sample) -> None:
    original = [record.entry for record in open_log(damage.disk_of(sample.files)).read(0)]
    tried = salvaged = 0
    for files in damaged(sample):
        disk, expected = damage.disk_of(files), undamaged_records(sample, files)
        tried += 1
        try:
            whole = intact_part(disk, FOLDER)
        except FoldbError:
            assert expected <= 1, "the first record is whole"
            continue
        restore(disk, cut(whole.part, whole.last), COPY)
        copy = damage.disk_of(disk.contents(COPY) | {"mark": bytes(disk.names_cached[COPY / "mark"].cached)})
        records = [record.entry for record in open_log(copy).read(0)]
        assert records == original[: len(records)]
        assert len(records) == whole.part.chain.sequence >= expected
        assert files == {name: data for name, data in damage_free(disk).items() if name in files}
        salvaged += 1
    assert salvaged > tried // 2
    record(test="log: salvage", cycles=tried, faults={"damage": tried}, checked=salvaged)


def damage_free(disk: FakeDisk) -> Files:
    return {
        path.name: bytes(node.cached) for path, node in disk.names_cached.items() if path.parent == FOLDER
    }


def test_salvage_reports_at_least_how_many_records_are_lost() -> None:
    disk = log_of(40, segment_bytes=9700)
    [_, second, *_, last] = segments(disk, FOLDER)
    disk.remove(FOLDER / second)

    whole = intact_part(disk, FOLDER)

    first = segment.sequence_in(second)
    assert first is not None
    assert Position(0, first - 1) == whole.last
    assert (segment.sequence_in(last) or 0) - first == whole.records
    assert "does not continue the one before" in str(whole.damage)


def test_a_copy_with_a_later_mark_is_refused_as_inconsistent() -> None:
    """A slow copy of a served folder: the segment first, the mark some writes later."""
    disk = log_of(3)
    early = disk.contents(FOLDER)
    append(open_log(disk), put_entry(3))
    late = bytes(disk.names_cached[FOLDER / "mark"].cached)
    copied = damage.disk_of(early | {"mark": late})

    with pytest.raises(CorruptionError, match=r"it is inconsistent: make copies with `foldb log backup`"):
        open_log(copied)
    whole = intact_part(copied, FOLDER)

    assert Position(0, 3) == whole.last
    assert "but the log was synced up to byte" in str(whole.damage)
