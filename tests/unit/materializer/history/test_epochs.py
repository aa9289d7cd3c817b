"""The epochs of a history: which of them a fault, a skip or a trim costs, and from which base each is built."""

import math
import random
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from foldb.log.commands import Position, Record, Skip, new_context
from foldb.log.local.filesystem import File, SystemFilesystem
from foldb.log.local.reader import LogReader
from foldb.materializer.feed_requests import Changes, ReadChanges
from foldb.materializer.fold.dump import digest
from foldb.materializer.fold.storage import Stored
from foldb.materializer.history.engine import DamagedHistoryError
from foldb.materializer.history.epoch_storage import EpochMemory
from foldb.materializer.history.epochs import (
    Epoch,
    Epochs,
    delete_epochs_before,
    memory_history,
    open_history,
)
from foldb.materializer.history.follower import Follower
from foldb.materializer.history.history import NotFoldedError, PartitionCut, TimeCut
from foldb.materializer.history.reads import read_past
from foldb.materializer.history.rocks_engine import RocksEngine
from foldb.materializer.history.version_history import VersionedState
from foldb.materializer.history.version_store import VersionWriter
from foldb.materializer.snapshots import Snapshots
from foldb.model.errors import HorizonError, LogError
from foldb.model.sequence_numbers import number_before, position_of
from tests.unit.log.fake_disk import FakeDisk
from tests.unit.log.local_logs import FOLDER
from tests.unit.materializer.history.killed import single_steps
from tests.unit.materializer.history.past import ListLog, TimeModel, content, states
from tests.unit.materializer.history.test_follower import crash
from tests.unit.materializer.ledger import Ledger, put
from tests.unit.materializer.partitions.life import Life
from tests.unit.materializer.random_log import random_log
from tests.unit.materializer.trim.trims import digest_of, filled, trim

FLOOR = 3


def tokens(count: int) -> Sequence[Record]:
    """Return a log that writes a token to each of three keys in turn."""
    return ledger_of(count).records


def ledger_of(count: int) -> Ledger:
    ledger = Ledger()
    table = ledger.create("T")
    for number in range(count):
        ledger.fold(put(table, {"pk": {"S": str(number % 3)}, "token": {"S": f"token{number:03}"}}))
    return ledger


def state_at(follower: Epochs, cut: PartitionCut) -> VersionedState:
    """Return the state at a cut, whose epoch is built if it does not exist."""
    for _ in range(100):
        try:
            return follower.history.at(cut)
        except NotFoldedError:
            follower.catch_up()
    raise AssertionError(f"the epoch of {cut} is never built")


def assert_equal_to_a_refold(follower: Epochs, records: Sequence[Record], void: Any = ()) -> None:
    """Compare the states at all positions, in a random order, so that epochs are built in one too."""
    first = follower.history.horizon.offset
    expected = [
        (offset, index, content(state.tables))
        for offset, index, state in states(records, void)
        if offset >= first
    ]
    random.Random(len(records)).shuffle(expected)
    for offset, index, tables in expected:
        partition = follower.history.horizon.partition
        assert tables == content(state_at(follower, Position(partition, offset, index)).tables), (
            offset,
            index,
        )


def sealed(follower: Epochs) -> list[Epoch]:
    return [each for each in follower.all() if each.follower is None]


def numbers(epochs: Sequence[Epoch]) -> list[int]:
    return [each.number for each in epochs]


def built(folder: Path, records: Sequence[Record], log: ListLog | None = None) -> Epochs:
    follower = open_history(folder, log or ListLog(records), 0, floor=FLOOR)
    follower.catch_up()
    assert len(follower.all()) > 3
    return follower


def damage(folder: Path, epoch: Epoch) -> None:
    """Invert bytes in all tables of the storage of an epoch, which is closed."""
    found = list((folder / "0" / f"{epoch.number}").rglob("*.sst"))
    assert found
    for path in found:
        data = bytearray(path.read_bytes())
        for at in range(0, len(data), 64):
            data[at] ^= 0xFF
        path.write_bytes(bytes(data))


def compacted(follower: Epochs) -> None:
    for epoch in follower.all():
        engine = follower.opened(epoch).engine
        assert isinstance(engine, RocksEngine)
        engine.compact()


def stored_tokens(follower: Epochs) -> list[int]:
    """Return the tokens in all versions and rows. Files may have them compressed."""
    found: set[int] = set()
    for epoch in follower.all():
        engine = follower.opened(epoch).engine
        for cursor in (engine.versions(), engine.rows()):
            at = cursor.seek(b"")
            while at is not None:
                found.update(int(each) for each in re.findall(rb"token(\d+)", repr(cursor.value()).encode()))
                at = cursor.next()
    return sorted(found)


def test_an_epoch_begins_at_twice_the_items_of_the_last() -> None:
    records = tokens(100)
    follower = memory_history(ListLog(records), 0, floor=10)
    follower.catch_up()

    first, *others = [after.first - before.first for before, after in pairwise(follower.all())]
    assert 1 + 1 + 11 == first, "a Genesis, a table and more than 10 versions"
    assert {2 * 3 + 10 + 1} == set(others), "each base has 3 items"


def test_each_epoch_begins_where_the_one_before_ends() -> None:
    follower = memory_history(ListLog(tokens(100)), 0, floor=FLOOR)
    follower.catch_up()

    for before, after in pairwise(follower.all()):
        assert before.end is not None
        assert (after.first, after.time_ms) == before.end


def test_sixteen_sealed_epochs_stay_open_at_most(tmp_path: Path) -> None:
    records = tokens(400)
    follower = built(tmp_path, records)
    assert len(sealed(follower)) > 20

    for epoch in sealed(follower):
        assert follower.history.at(Position(0, epoch.first))
    assert all(epoch.engine is not None for epoch in sealed(follower)[-16:])
    follower.step()

    is_open = [epoch.engine is not None for epoch in sealed(follower)]
    assert [False] * (len(is_open) - 16) + [True] * 16 == is_open
    follower.close()


@pytest.mark.parametrize("part", ["sealed", "newest"])
def test_damage_costs_one_epoch(tmp_path: Path, part: str) -> None:
    records = tokens(100)
    follower = built(tmp_path, records)
    compacted(follower)
    victim = follower.all()[2] if part == "sealed" else follower.all()[-1]
    others = [each.number for each in follower.all() if each is not victim]
    follower.close()
    damage(tmp_path, victim)

    follower = open_history(tmp_path, ListLog(records), 0, floor=FLOOR)
    cut = Position(0, victim.first)
    try:
        content(follower.history.at(cut).tables)
    except (DamagedHistoryError, NotFoldedError):
        follower.find_damage()
    assert victim.number not in numbers(follower.all())

    assert_equal_to_a_refold(follower, records)
    assert set(others) <= set(numbers(follower.all()))
    follower.close()


@pytest.mark.interpreted
def test_damage_during_a_fold_costs_the_newest_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = tokens(100)
    log = ListLog(records[:-5])
    follower = built(tmp_path, records, log)
    before = numbers(follower.all())
    newest = follower.all()[-1].follower
    assert newest is not None

    def fail() -> bool:
        raise DamagedHistoryError("a block")

    monkeypatch.setattr(newest, "step", fail)
    log.records = records
    follower.catch_up()

    assert before[:-1] == numbers(follower.all())[: len(before) - 1]
    assert before[-1] not in numbers(follower.all())
    assert_equal_to_a_refold(follower, records)
    follower.close()


@pytest.mark.interpreted
def test_damage_that_the_fold_reads_costs_the_newest_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = tokens(100)
    log = ListLog(records[:-5])
    follower = built(tmp_path, records, log)
    before = numbers(follower.all())
    whole, fails = VersionWriter.find, [True]

    def fail_once(writer: VersionWriter, key: bytes, *, is_kept: bool) -> Stored | None:
        if fails:
            fails.clear()
            raise DamagedHistoryError("a block")
        return whole(writer, key, is_kept=is_kept)

    newest = follower.all()[-1].follower
    assert newest is not None
    newest._writer.recent.clear()
    monkeypatch.setattr(VersionWriter, "find", fail_once)
    log.records = records
    follower.catch_up()

    assert not fails
    assert before[-1] not in numbers(follower.all())
    assert_equal_to_a_refold(follower, records)
    follower.close()


def test_a_damaged_list_is_named_and_the_history_folded_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    records = tokens(100)
    built(tmp_path, records).close()
    path = tmp_path / "0" / "epochs"
    path.write_bytes(path.read_bytes()[:-1])

    follower = built(tmp_path, records)

    assert "the list of epochs" in caplog.text
    assert "is damaged; the history is folded again" in caplog.text
    assert_equal_to_a_refold(follower, records)
    follower.close()


@pytest.mark.parametrize("method", ["end_here", "close"])
def test_an_epoch_whose_end_cannot_be_written_is_folded_again(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of an epoch is saved, and the epoch sealed, after the step that folds its last record."""
    records = tokens(100)
    whole, fails = getattr(Follower, method), [True]

    def fail_once(follower: Follower) -> object:
        if fails:
            fails.clear()
            raise DamagedHistoryError("the disk is full")
        return whole(follower)

    monkeypatch.setattr(Follower, method, fail_once)
    follower = built(tmp_path, records)

    assert not fails
    assert len(follower.all()) > 1
    assert_equal_to_a_refold(follower, records)
    fails.append(True)
    follower.close()
    again = built(tmp_path, records)
    assert_equal_to_a_refold(again, records)
    again.close()


@pytest.mark.parametrize("is_told", [False, True])
def test_a_skip_costs_its_epoch_and_those_after(tmp_path: Path, is_told: bool) -> None:
    """The fold finds the skip in the log, or the server has folded it before."""
    ledger = ledger_of(60)
    records = ledger.records
    log = ListLog(records)
    follower = built(tmp_path, records, log)
    void = (follower.all()[2].first + 1, None)
    before = numbers(follower.all())

    log.records = [*records, ledger.record(Skip(*void, new_context("S")))]
    if is_told:
        follower.declare_void([void])
        assert before[:2] == numbers(follower.all())
    follower.catch_up()

    assert before[:2] == numbers(follower.all())[:2]
    assert not set(before[2:]) & set(numbers(follower.all()))
    assert_equal_to_a_refold(follower, log.records, [void])
    follower.close()


@pytest.mark.parametrize("is_open", [True, False])
def test_a_trim_costs_the_epochs_that_begin_before_it(tmp_path: Path, is_open: bool) -> None:
    records = tokens(100)
    log = ListLog(records)
    follower = built(tmp_path, records, log)
    horizon = follower.all()[2].first + 2
    kept = numbers(follower.all()[3:])

    if not is_open:
        follower.close()
        delete_epochs_before(tmp_path, [horizon])
        assert kept == sorted(int(each.name) for each in (tmp_path / "0").glob("[0-9]*"))
    log.first = horizon
    if not is_open:
        follower = open_history(tmp_path, log, 0, floor=FLOOR)
    follower.catch_up()
    assert kept == numbers(follower.all())

    assert_equal_to_a_refold(follower, records)
    assert kept == numbers(follower.all()[-len(kept) :])
    assert horizon == follower.all()[0].first
    listed = {f"{number}" for number in numbers(follower.all())}
    assert listed == {each.name for each in (tmp_path / "0").glob("[0-9]*")}
    # Token n is in the record n + 2. The state before the horizon has the tokens of the three records before it.
    assert list(range(horizon - 5, 100)) == stored_tokens(follower)
    follower.close()


def test_a_trim_at_a_boundary_deletes_whole_epochs(tmp_path: Path) -> None:
    records = tokens(100)
    log = ListLog(records)
    follower = built(tmp_path, records, log)
    kept = follower.all()[2:]

    log.first = kept[0].first
    follower.step()

    assert numbers(kept) == numbers(follower.all())
    assert_equal_to_a_refold(follower, records)
    follower.close()


def test_a_trim_of_records_that_are_being_folded_is_no_error() -> None:
    disk = FakeDisk()
    log = filled(disk)
    reader = LogReader(FOLDER, disk)
    follower = memory_history(reader, 0, clock=single_steps().__next__)
    while follower.state.next_offset < 3:
        follower.step()

    trim(log, disk, 10**6)
    follower.catch_up()

    assert log.begin(0) == follower.all()[0].first > 3
    assert digest_of(log) == digest(follower.state)


def test_a_stop_while_a_base_is_copied_leaves_no_half_of_it(tmp_path: Path) -> None:
    dice, records = random.Random(3), tokens(60)
    stops = 0
    has_more = True
    while has_more:
        follower = open_history(tmp_path, ListLog(records), 0, floor=FLOOR, clock=single_steps().__next__)
        while has_more := follower.step():
            if follower._copies and dice.random() < 0.3:
                break
        unlisted = {int(each.name) for each in (tmp_path / "0").glob("[0-9]*")} - set(numbers(follower.all()))
        assert unlisted == {copy.number for copy in follower._copies}
        stops += bool(unlisted)
        for copy in follower._copies:
            copy.portions.close()
            copy.engine.close()
        crash(follower)
    assert stops > 3

    follower = open_history(tmp_path, ListLog(records), 0, floor=FLOOR)
    follower.catch_up()
    assert_equal_to_a_refold(follower, records)
    follower.close()


class Snapshotted:
    """A log with snapshots after some of its records."""

    def __init__(self, folder: Path, records: Sequence[Record], offsets: Sequence[int]) -> None:
        self.log = ListLog(records)
        self.snapshots = Snapshots(folder, SystemFilesystem())
        for offset in offsets:
            self.snapshots.make(ListLog(records[: offset + 1]), keep=100)

    def open(self, folder: Path, floor: float = math.inf, **options: Any) -> Epochs:
        return open_history(folder, self.log, 0, self.snapshots, floor=floor, **options)


@pytest.mark.parametrize("seed", range(3))
def test_an_epoch_begins_from_the_nearest_snapshot(tmp_path: Path, seed: int) -> None:
    records = random_log(seed, 80).records
    snapshotted = Snapshotted(tmp_path, records, [20, 40, 60])
    follower = snapshotted.open(tmp_path / "history")
    follower.catch_up()
    assert [61] == [each.first for each in follower.all()]
    assert len(records) - 1 == follower.history.position.offset

    first = []
    for offset in (50, 30, 10):
        state_at(follower, Position(0, offset))
        first.append(follower.all()[0].first)
    assert [41, 21, 0] == first
    assert_equal_to_a_refold(follower, records)
    assert 4 == len(follower.all())
    follower.close()


def test_an_epoch_that_a_read_builds_has_as_many_versions_as_others(tmp_path: Path) -> None:
    records = tokens(100)
    snapshotted = Snapshotted(tmp_path, records, [95])
    follower = snapshotted.open(tmp_path / "history", FLOOR)
    follower.catch_up()
    state_at(follower, Position(0, 2))
    epoch, newest = follower.all()
    assert epoch.end is not None
    assert (0, 96) == (epoch.first, newest.first)
    assert epoch.end.offset < 30

    with pytest.raises(NotFoldedError):
        follower.history.at(Position(0, 80))
    follower.catch_up()
    assert follower.history.at(Position(0, 80))
    follower.close()
    follower = snapshotted.open(tmp_path / "history", FLOOR)
    firsts = [each.first for each in follower.all()]
    assert max(after - before for before, after in pairwise(firsts[:-1])) < 30
    end = follower.all()[-2].end
    assert end is not None
    assert 80 < end.offset < 96
    assert_equal_to_a_refold(follower, records)
    assert max(after - before for before, after in pairwise(each.first for each in follower.all())) < 30
    follower.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_snapshot_of_the_last_record_begins_an_epoch_without_records(tmp_path: Path, seed: int) -> None:
    records = random_log(seed, 80).records
    follower = Snapshotted(tmp_path, records, [len(records) - 1]).open(tmp_path / "history", FLOOR)
    follower.catch_up()

    assert len(records) - 1 == follower.history.position.offset
    assert_equal_to_a_refold(follower, records)
    follower.close()


@pytest.mark.parametrize("seed", range(6))
def test_times_around_a_boundary_read_as_one_epoch(seed: int, tmp_path: Path) -> None:
    """Of several partitions: epochs begin while transactions are prepared, and from snapshots too."""
    dice, life = random.Random(seed), Life(seed)
    life.live(steps=120)

    for partition, records in enumerate(life.cluster.records):
        log, model = ListLog(records), TimeModel(records)
        folder = tmp_path / f"{partition}"
        folder.mkdir()
        snapshots = Snapshots(folder, SystemFilesystem(), partition, 4)
        for _ in range(2 if seed % 2 else 0):
            snapshots.make(ListLog(records[: dice.randrange(1, len(records))]), keep=100)
        follower = Epochs(EpochMemory(), log, partition, snapshots, floor=FLOOR)
        follower.catch_up()
        closed = max(each.closed_before for each in [follower.newest] if each is not None)
        for epoch in [*follower.all()]:
            for time_ms in range(epoch.time_ms - 2, epoch.time_ms + 3):
                if model.times[0] <= time_ms < closed:
                    past = state_at(follower, TimeCut(time_ms))
                    assert model.content(time_ms) == content(past.tables), (partition, time_ms)


def test_reads_of_the_newest_go_on_while_an_older_epoch_is_built(tmp_path: Path) -> None:
    records = tokens(60)
    snapshotted = Snapshotted(tmp_path, records, [40])
    follower = snapshotted.open(tmp_path / "history", clock=single_steps().__next__)
    follower.catch_up()
    expected = content(follower.history.at(Position(0, 50)).tables)

    reads = 0
    with pytest.raises(NotFoldedError):
        follower.history.at(Position(0, 10))
    while follower.step():
        assert expected == content(follower.history.at(Position(0, 50)).tables)
        reads += 1
    assert reads > 40
    assert follower.history.at(Position(0, 10))
    follower.close()


def test_repeated_reads_build_an_epoch_once(tmp_path: Path) -> None:
    """A read that waits is repeated, also while the epoch is copied and folded."""
    records = tokens(60)
    follower = Snapshotted(tmp_path, records, [10, 13, 50]).open(tmp_path / "history")
    follower.catch_up()

    for _ in range(100):
        for cut in (Position(0, 12), TimeCut(records[12].time)):
            try:
                follower.history.at(cut)
            except NotFoldedError:
                follower.step()
            follower.want(cut)
    follower.catch_up()
    firsts = [each.first for each in follower.all()]
    assert sorted(set(firsts)) == firsts
    assert_equal_to_a_refold(follower, records)
    follower.close()


class Copied:
    """A history whose second base is copied while records are written."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.table = self.ledger.create("T")
        for number in range(2000):
            self._write(number)
        log = ListLog(self.ledger.records)
        self.follower = memory_history(log, 0, floor=2005, clock=single_steps().__next__)
        self.follower.catch_up()

    def _write(self, number: int) -> None:
        item = {"pk": {"S": str(number % 2000)}, "n": {"N": str(number)}}
        self.ledger.fold(put(self.table, item))

    def writes(self) -> Iterator[None]:
        """Yield after each write. Some yields are before the end of the copy."""
        during = 0
        for number in range(2000, 2030):
            self._write(number)
            for _ in range(3):  # the copy and the folds take turns
                self.follower.step()
                during += bool(self.follower._copies)
            yield
        assert during > 3
        assert 2 == len(self.follower.all())
        self.follower.catch_up()
        assert 1 == len(sealed(self.follower))


def test_reads_of_the_newest_go_on_while_a_base_is_copied() -> None:
    """The epoch before follows the log until the next one has its base and the records since."""
    copied = Copied()
    ledger, follower = copied.ledger, copied.follower
    for _ in copied.writes():
        assert ledger.records[-1].offset == follower.history.position.offset
        assert content(ledger.state.tables) == content(follower.history.at(follower.history.position).tables)
    boundary = follower.all()[1].first
    for offset, _, state in states(ledger.records):
        if abs(offset - boundary) < 3:
            assert content(state.tables) == content(follower.history.at(Position(0, offset)).tables)


def test_changes_are_read_once_while_a_base_is_copied() -> None:
    """The epoch before also has the changes after its end."""
    copied = Copied()
    offsets = [record.offset for record in copied.ledger.records[-3:]]
    for _ in copied.writes():
        offsets.append(copied.ledger.records[-1].offset)
        for nth in (-1, -3, -7):
            read = ReadChanges(copied.table.definition.id, number_before(offsets[max(nth, -len(offsets))]))
            page, _ = read_past(copied.follower.history, copied.follower.history.position, read, 1)
            assert isinstance(page, Changes)
            assert page.is_end
            assert offsets[nth:] == [position_of(change.sequence_number)[0] for change in page.changes]


@pytest.mark.parametrize("has_snapshot", [False, True], ids=["foundation", "snapshot"])
def test_a_base_is_copied_again_after_an_error_of_the_log(tmp_path: Path, has_snapshot: bool) -> None:
    records = tokens(60)
    log = UnreadableOnce(records) if has_snapshot else UnreadableOnce(records, 10)
    offsets = [30] if has_snapshot else []
    snapshots = Snapshotted(tmp_path, records, offsets).snapshots
    follower = open_history(tmp_path / "history", log, 0, snapshots)
    with pytest.raises(LogError):
        follower.catch_up()
    follower.catch_up()
    assert len(records) - 1 == follower.history.position.offset
    assert [31 if has_snapshot else 10] == [epoch.first for epoch in follower.all()]
    follower.close()


class TrimmedAtRead(ListLog):
    """A log that a trim shortens just before its first read."""

    def read(self, partition: int, start: int = 0) -> Iterator[Record]:
        self.first = 40
        if start < self.first:
            raise HorizonError("it was removed")
        return super().read(partition, start)


def test_a_trim_of_a_snapshot_that_is_being_copied_is_no_error(tmp_path: Path) -> None:
    records = tokens(60)
    snapshots = Snapshotted(tmp_path, records, [30]).snapshots
    follower = open_history(tmp_path / "history", TrimmedAtRead(records), 0, snapshots)
    follower.catch_up()
    assert [40] == [epoch.first for epoch in follower.all()]
    assert len(records) - 1 == follower.history.position.offset
    follower.close()


class UnreadableOnce(ListLog):
    """A log whose first read fails."""

    has_failed = False

    def read(self, partition: int, start: int = 0) -> Iterator[Record]:
        self._fail_once()
        return super().read(partition, start)

    def bases(self, partition: int) -> Iterator[tuple[str, File]]:
        self._fail_once()
        return super().bases(partition)

    def _fail_once(self) -> None:
        if not self.has_failed:
            self.has_failed = True
            raise LogError("the broker does not answer")


def test_a_damaged_snapshot_is_no_base(tmp_path: Path) -> None:
    records = tokens(60)
    snapshotted = Snapshotted(tmp_path, records, [20, 40])
    path = snapshotted.snapshots.path(40)
    data = bytearray(path.read_bytes())
    data[-40] ^= 1  # the last item has another value, and the dump another digest
    path.write_bytes(bytes(data))

    follower = snapshotted.open(tmp_path / "history")
    follower.catch_up()

    assert [21] == [each.first for each in follower.all()]
    assert_equal_to_a_refold(follower, records)
    follower.close()


def test_a_snapshot_of_another_log_is_no_base(tmp_path: Path) -> None:
    records, other = tokens(60), random_log(1, 60).records
    snapshotted = Snapshotted(tmp_path, other, [40])
    snapshotted.log = ListLog(records)
    follower = snapshotted.open(tmp_path / "history")
    follower.catch_up()

    assert [0] == [each.first for each in follower.all()]
    assert_equal_to_a_refold(follower, records)
    follower.close()


def test_a_snapshot_from_before_a_skip_is_no_base(tmp_path: Path) -> None:
    ledger = ledger_of(60)
    void = (30, None)
    snapshotted = Snapshotted(tmp_path, ledger.records, [20, 40])
    snapshotted.log = ListLog([*ledger.records, ledger.record(Skip(*void, new_context("S")))])
    follower = snapshotted.open(tmp_path / "history")
    follower.catch_up()

    assert [21] == [each.first for each in follower.all()]
    assert_equal_to_a_refold(follower, snapshotted.log.records, [void])
    follower.close()


def test_an_older_epoch_honours_the_skips_that_a_snapshot_names(tmp_path: Path) -> None:
    """An older epoch is folded to its end, which may be before the Skip."""
    ledger = ledger_of(60)
    void = (10, None)
    records = [*ledger.records, ledger.record(Skip(*void, new_context("S")))]
    snapshotted = Snapshotted(tmp_path, records, [len(records) - 1])
    follower = snapshotted.open(tmp_path / "history", floor=FLOOR)
    follower.catch_up()

    assert [len(records)] == [each.first for each in follower.all()]
    assert_equal_to_a_refold(follower, records, [void])
    follower.close()


def test_a_restart_keeps_the_epochs(tmp_path: Path) -> None:
    records = tokens(60)
    snapshotted = Snapshotted(tmp_path, records, [40])
    follower = snapshotted.open(tmp_path / "history", floor=FLOOR)
    assert_equal_to_a_refold(follower, records)
    before = numbers(follower.all())
    crash(follower)

    follower = snapshotted.open(tmp_path / "history", floor=FLOOR)
    follower.catch_up()
    assert before == numbers(follower.all())
    assert_equal_to_a_refold(follower, records)
    assert before == numbers(follower.all())
    follower.close()


def test_a_log_that_lost_its_end_keeps_the_epochs_before(tmp_path: Path) -> None:
    records = tokens(60)
    follower = built(tmp_path, records)
    end = follower.all()[3].first + 1
    kept = numbers(follower.all()[:3])
    follower.close()

    follower = open_history(tmp_path, ListLog(records[:end]), 0, floor=FLOOR)
    follower.catch_up()
    assert kept == numbers(follower.all()[:3])
    assert_equal_to_a_refold(follower, records[:end])
    follower.close()


def test_lost_records_after_the_end_of_an_epoch_are_not_shown(tmp_path: Path) -> None:
    """The epoch has folded them while the next one was not begun."""
    records = tokens(60)
    follower = built(tmp_path, records[:40])
    newest_epoch = follower.all()[-1]
    assert newest_epoch.follower is not None
    newest_epoch.end, newest_epoch.last = newest_epoch.follower.end_here(), newest_epoch.follower.last
    follower._write_list()
    newest_epoch.follower._log = ListLog(records[:50])
    newest_epoch.follower.step()
    follower.close()

    follower = open_history(tmp_path, ListLog(records[:45]), 0, floor=FLOOR)
    follower.catch_up()
    assert_equal_to_a_refold(follower, records[:45])
    with pytest.raises(NotFoldedError):
        follower.history.at(Position(0, 46))
    follower.close()
