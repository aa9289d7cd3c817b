"""A trimmed log has the same states and records as the log before, from the horizon on; before it, none."""

from pathlib import Path

import pytest

from foldb.log.commands import Entry, Position, Skip, new_context
from foldb.log.local import LocalLog
from foldb.log.local.backup import back_up, cut, intact_part, restore
from foldb.log.local.foundation import FOLDERS, base_name, head_name, newest
from foldb.log.local.reader import LogReader
from foldb.materializer.foundation import initial_state
from foldb.materializer.refold import refold_log
from foldb.materializer.snapshots import Snapshots
from foldb.materializer.trim import prepare
from foldb.materializer.trim_job import TrimCut, TrimJob
from foldb.model.errors import CorruptionError, HorizonError, LogError
from tests.unit.log.fake_disk import FakeDisk
from tests.unit.log.local_logs import FOLDER, append, open_log
from tests.unit.materializer.trim.trims import (
    ARCHIVE,
    ENTRIES,
    digest_of,
    filled,
    reopened,
    segments,
    trim,
    untrimmed,
)

MIDDLE = 90


@pytest.fixture
def disk() -> FakeDisk:
    return FakeDisk()


@pytest.fixture
def log(disk: FakeDisk) -> LocalLog:
    return filled(disk)


def test_records_from_the_horizon_on_are_those_before(disk: FakeDisk, log: LocalLog) -> None:
    trim(log, disk, MIDDLE)

    whole_digest, whole = untrimmed()
    assert 0 < log.begin(0) <= MIDDLE
    assert list(log.read(0, log.begin(0))) == list(whole[log.begin(0) :])
    assert digest_of(log) == whole_digest
    assert digest_of(LogReader(FOLDER, disk)) == whole_digest


def test_the_horizon_is_a_segment_boundary_before_the_cut(disk: FakeDisk, log: LocalLog) -> None:
    before = segments(disk)

    foundation = trim(log, disk, MIDDLE)

    assert foundation is not None
    assert segments(disk) == [each for each in before if each >= foundation.sequence]
    assert foundation.sequence == max(each for each in before if each <= MIDDLE)


def test_a_cut_in_the_first_segment_removes_nothing(disk: FakeDisk, log: LocalLog) -> None:
    assert trim(log, disk, 3) is None
    assert segments(disk)[0] == 0


def test_the_open_segment_stays_and_takes_appends(disk: FakeDisk, log: LocalLog) -> None:
    trim(log, disk, 10**6)

    assert len(segments(disk)) == 1
    append(log, Entry(b"o" * 16, 0, []))
    log.close()
    assert reopened(disk).end(0) == len(ENTRIES) + 2


def test_records_before_the_horizon_are_refused_with_it(disk: FakeDisk, log: LocalLog) -> None:
    trim(log, disk, MIDDLE)

    for reading in (log, reopened_reader(disk)):
        with pytest.raises(HorizonError, match=f"@5 is before the history horizon @{log.begin(0)} "):
            reading.read(0, 5)
        with pytest.raises(HorizonError):
            reading.hash_of(0, log.begin(0) - 2)


def test_the_hash_of_the_last_removed_record_is_known(disk: FakeDisk, log: LocalLog) -> None:
    hashes = [log.hash_of(0, offset) for offset in range(log.end(0))]

    trim(log, disk, MIDDLE)

    begin = log.begin(0)
    assert [log.hash_of(0, offset) for offset in range(begin - 1, log.end(0))] == hashes[begin - 1 :]


def test_a_second_trim_begins_at_the_first(disk: FakeDisk, log: LocalLog) -> None:
    trim(log, disk, 50)
    first = log.begin(0)
    trim(log, disk, 100)

    assert log.begin(0) > first
    assert digest_of(reopened_reader(disk)) == untrimmed()[0]
    assert len([name for name in disk.names(FOLDER / FOLDERS[0]) if name.endswith(".head")]) == 1


def test_a_reader_that_is_behind_a_trim_continues(disk: FakeDisk, log: LocalLog) -> None:
    reader = LogReader(FOLDER, disk)
    reading = reader.read(0)
    next(reading)

    trim(log, disk, 10**6)

    with pytest.raises(HorizonError):
        list(reading)
    assert reader.end(0) == log.end(0)
    assert digest_of(reader) == untrimmed()[0]


def test_snapshots_before_the_horizon_are_removed(disk: FakeDisk) -> None:
    log = filled(disk, ENTRIES[:30])
    snapshots = Snapshots(FOLDER, disk)
    old = snapshots.make(log).head.offset
    append(log, *ENTRIES[30:])
    new = snapshots.make(log).head.offset

    trim(log, disk, MIDDLE)

    assert snapshots.offsets() == [new]
    assert old < log.begin(0)


def test_a_snapshot_from_before_the_horizon_is_not_used(disk: FakeDisk) -> None:
    log = filled(disk, ENTRIES[:30])
    snapshots = Snapshots(FOLDER, disk)
    old = snapshots.path(snapshots.make(log).head.offset)
    node = disk.names_cached[old]
    append(log, *ENTRIES[30:])
    trim(log, disk, MIDDLE)

    disk.names_cached[old] = node  # a copy of the folder brought it back

    [offset] = snapshots.offsets()
    assert "a trim removed its record" in str(snapshots.examine(offset, log).fault)
    assert snapshots.load_newest(log).head is None


def test_a_snapshot_of_a_log_without_new_records_is_made(disk: FakeDisk, log: LocalLog) -> None:
    trim(log, disk, 10**6)
    log.close()

    made = Snapshots(FOLDER, disk).make(reopened_reader(disk))

    assert made.head.offset == len(ENTRIES)


class TestDamage:
    @pytest.mark.parametrize("copy", FOLDERS)
    @pytest.mark.parametrize("kind", ["head", "base"])
    def test_a_damaged_copy_is_replaced_by_the_other(
        self, disk: FakeDisk, log: LocalLog, copy: str, kind: str
    ) -> None:
        foundation = trim(log, disk, MIDDLE)
        assert foundation is not None
        log.close()
        path = path_of(copy, kind, foundation.sequence)
        intact = bytes(disk.names_cached[path].cached)
        disk.replace(path, intact[:-1] + bytes([intact[-1] ^ 1]))

        assert digest_of(LogReader(FOLDER, disk)) == untrimmed()[0]
        assert digest_of(reopened(disk)) == untrimmed()[0]
        assert bytes(disk.names_cached[path].cached) == intact

    @pytest.mark.parametrize("kind", ["head", "base"])
    def test_a_log_without_an_intact_copy_is_refused(self, disk: FakeDisk, log: LocalLog, kind: str) -> None:
        disk.make_folder(ARCHIVE)
        foundation = trim(log, disk, MIDDLE, archive=ARCHIVE)
        assert foundation is not None
        log.close()
        for copy in FOLDERS:
            path = path_of(copy, kind, foundation.sequence)
            disk.replace(path, bytes(disk.names_cached[path].cached)[:-9])
        before = disk.contents(FOLDER)

        with pytest.raises(
            CorruptionError, match="both copies of the log's foundation are damaged"
        ) as refused:
            reopened(disk)
        assert disk.contents(FOLDER) == before
        if kind == "base":
            assert str(ARCHIVE) in str(refused.value)

    def test_a_missing_copy_is_written_again(self, disk: FakeDisk, log: LocalLog) -> None:
        foundation = trim(log, disk, MIDDLE)
        assert foundation is not None
        log.close()
        for name in foundation.names():
            disk.remove(FOLDER / FOLDERS[1] / name)

        reopened(disk)

        assert disk.contents(FOLDER / FOLDERS[0]) == disk.contents(FOLDER / FOLDERS[1])

    def test_a_log_without_its_segments_is_refused(self, disk: FakeDisk, log: LocalLog) -> None:
        trim(log, disk, MIDDLE)
        log.close()
        for sequence in segments(disk):
            disk.remove(FOLDER / f"{sequence:020d}.avro")

        with pytest.raises(CorruptionError, match="segments are missing"):
            reopened(disk)

    def test_a_missing_first_segment_is_found(self, disk: FakeDisk, log: LocalLog) -> None:
        trim(log, disk, MIDDLE)
        log.close()
        disk.remove(FOLDER / f"{segments(disk)[0]:020d}.avro")

        with pytest.raises(CorruptionError, match="does not continue the log's foundation"):
            reopened(disk)


class TestVerification:
    def test_a_base_with_another_state_removes_nothing(self, disk: FakeDisk, log: LocalLog) -> None:
        before = segments(disk)

        def verify(foundation: object, voids: object) -> None:
            raise CorruptionError("base", "another state")

        with pytest.raises(CorruptionError):
            prepare(disk, TrimJob(FOLDER, TrimCut(offsets={0: MIDDLE})), verify)

        log.close()
        assert digest_of(reopened(disk)) == untrimmed()[0]
        assert segments(disk) == before
        assert newest(disk, FOLDER) is None

    @pytest.mark.parametrize("room", [100, 1_000, 2_500, 4_000])
    def test_a_full_disk_removes_nothing_and_keeps_its_room(
        self, room: int, disk: FakeDisk, log: LocalLog
    ) -> None:
        before = segments(disk)
        used = disk.used()
        disk.space = used + room

        with pytest.raises(OSError, match="No space"):
            trim(log, disk, MIDDLE)

        assert segments(disk) == before
        assert disk.used() == used
        disk.space = None
        trim(log, disk, MIDDLE)
        assert digest_of(log) == untrimmed()[0]

    def test_a_foundation_that_was_not_verified_is_not_used(self, disk: FakeDisk, log: LocalLog) -> None:
        prepared = prepare(disk, TrimJob(FOLDER, TrimCut(offsets={0: 50})), lambda *_: None)
        prepare(disk, TrimJob(FOLDER, TrimCut(offsets={0: MIDDLE})), lambda *_: None)
        assert prepared is not None
        results: list[int | Exception] = []

        log.trim(prepared, results.append)

        assert isinstance(results[0], FileNotFoundError)
        assert log.begin(0) == 0


class TestVoids:
    def test_a_record_voided_after_the_cut_is_not_in_the_base(self, disk: FakeDisk) -> None:
        log = filled(disk)
        append(log, Entry(b"s" * 16, 0, [Skip(20, None, new_context(""))]))
        voided = digest_of(log)

        trim(log, disk, MIDDLE)

        assert voided != untrimmed()[0]
        assert digest_of(log) == voided

    def test_a_refold_after_a_skip_begins_at_the_horizon(self, disk: FakeDisk) -> None:
        log = filled(disk)
        trim(log, disk, MIDDLE)
        state = initial_state(log, 0)
        refold_log(state, log, 0)
        append(log, Entry(b"s" * 16, 0, [Skip(log.begin(0) + 3, None, new_context(""))]))

        refold_log(state, log, 0)

        assert state.voided == [(log.begin(0) + 3, None)]


class TestCopies:
    def test_the_archive_and_the_log_have_everything(self, disk: FakeDisk, log: LocalLog) -> None:
        disk.make_folder(ARCHIVE)
        trim(log, disk, 40, archive=ARCHIVE)
        trim(log, disk, MIDDLE, archive=ARCHIVE)

        archive = LogReader(ARCHIVE, disk)
        assert list(archive.read(0)) == list(untrimmed()[1][: log.begin(0)])
        back_up(disk, LogReader(FOLDER, disk).part(), ARCHIVE)
        assert digest_of(LogReader(ARCHIVE, disk)) == untrimmed()[0]

    def test_an_archive_that_was_extended_is_extended_again(self, disk: FakeDisk, log: LocalLog) -> None:
        disk.make_folder(ARCHIVE)
        back_up(disk, LogReader(FOLDER, disk).part(), ARCHIVE)

        trim(log, disk, MIDDLE, archive=ARCHIVE)

        assert digest_of(LogReader(ARCHIVE, disk)) == untrimmed()[0]

    def test_an_archive_with_a_gap_is_refused(self, disk: FakeDisk, log: LocalLog) -> None:
        backup = Path("/backup")
        disk.make_folder(backup)
        part = LogReader(FOLDER, disk).part()
        restore(disk, cut(part, Position(0, 10)), backup)
        trim(log, disk, MIDDLE)

        with pytest.raises(LogError, match="was trimmed: its history begins with record"):
            back_up(disk, LogReader(FOLDER, disk).part(), backup)

    def test_a_backup_of_a_trimmed_log_is_one(self, disk: FakeDisk, log: LocalLog) -> None:
        trim(log, disk, MIDDLE)
        backup = Path("/backup")
        disk.make_folder(backup)

        back_up(disk, LogReader(FOLDER, disk).part(), backup)

        copied = open_log(disk, path=backup)
        assert copied.begin(0) == log.begin(0)
        assert digest_of(copied) == untrimmed()[0]
        assert disk.contents(backup / FOLDERS[1]) == disk.contents(FOLDER / FOLDERS[0])

    def test_a_backup_begun_before_the_trim_keeps_its_history(self, disk: FakeDisk) -> None:
        log = filled(disk, ENTRIES[:MIDDLE])
        backup = Path("/backup")
        disk.make_folder(backup)
        back_up(disk, LogReader(FOLDER, disk).part(), backup)
        append(log, *ENTRIES[MIDDLE:])

        trim(log, disk, 40)
        back_up(disk, LogReader(FOLDER, disk).part(), backup)

        assert list(LogReader(backup, disk).read(0)) == list(untrimmed()[1])

    def test_salvage_copies_the_foundation(self, disk: FakeDisk, log: LocalLog) -> None:
        trim(log, disk, MIDDLE)
        target = Path("/salvaged")
        disk.make_folder(target)

        restore(disk, intact_part(disk, FOLDER).part, target)

        assert digest_of(open_log(disk, path=target)) == untrimmed()[0]

    def test_a_restore_to_before_the_horizon_is_refused(self, disk: FakeDisk, log: LocalLog) -> None:
        trim(log, disk, MIDDLE)

        with pytest.raises(HorizonError, match="@5 is before the history horizon"):
            cut(LogReader(FOLDER, disk).part(), Position(0, 5))


def reopened_reader(disk: FakeDisk) -> LogReader:
    return LogReader(FOLDER, disk)


def path_of(copy: str, kind: str, sequence: int) -> Path:
    """The path of a file of the foundation."""
    return FOLDER / copy / (head_name(sequence) if kind == "head" else base_name(sequence, 0))
