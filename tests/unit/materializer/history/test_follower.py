"""A follower: it continues after any stop, and begins again when its storage is not of the log it follows."""

import random
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from foldb.log.commands import Position, Record, Skip, new_context
from foldb.log.local import LocalLog
from foldb.materializer.history import epochs as epochs_module
from foldb.materializer.history import follower as follower_module
from foldb.materializer.history.engine import DamagedHistoryError, HistoryInUseError
from foldb.materializer.history.epochs import FORMAT, Epochs, memory_history, open_history
from foldb.materializer.history.history import NotFoldedError, TimeCut
from foldb.materializer.history.rocks_engine import RocksEngine
from foldb.model.errors import HorizonError
from tests.unit.materializer.history.killed import single_steps
from tests.unit.materializer.history.past import ListLog, content, newest, states
from tests.unit.materializer.ledger import START, Ledger, put
from tests.unit.materializer.partitions.life import Life
from tests.unit.materializer.random_log import random_log

WORKER = "tests.unit.materializer.history.killed"


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_module, "_CHECKPOINT_RECORDS", 7)


def crash(follower: Epochs) -> None:
    """End without a last checkpoint, as a killed process does."""
    for epoch in follower.all():
        if epoch.follower is not None:
            epoch.follower.abandon()
        follower._close(epoch)
    follower._storage.close()


def assert_equal_to_a_refold(follower: Epochs, records: Sequence[Record], void: Any = ()) -> None:
    history = follower.history
    for offset, index, state in states(records, void):
        if offset < history.horizon.offset:
            continue
        past = history.at(Position(history.horizon.partition, offset, index))
        assert content(state.tables) == content(past.tables), (offset, index)
    assert content(state.tables) == content(follower.state.tables)
    assert records[-1].offset == history.position.offset


@pytest.mark.parametrize("seed", range(4))
def test_a_stop_at_any_record_loses_nothing(seed: int, tmp_path: Path) -> None:
    dice, records = random.Random(seed), random_log(seed, 60).records
    end = 0
    while end < len(records):
        end = min(len(records), end + dice.randrange(1, 20))
        follower = open_history(tmp_path, ListLog(records[:end]), 0)
        follower.catch_up()
        if dice.random() < 0.3:
            follower.close()
        else:
            crash(follower)

    follower = open_history(tmp_path, ListLog(records), 0)
    follower.catch_up()
    assert_equal_to_a_refold(follower, records)
    follower.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_stop_amid_transactions_over_partitions_loses_nothing(seed: int, tmp_path: Path) -> None:
    life = Life(seed)
    life.live(steps=60)
    for partition, records in enumerate(life.cluster.records):
        for end in (len(records) // 3, len(records) // 2, len(records)):
            follower = open_history(tmp_path, ListLog(records[:end]), partition)
            follower.catch_up()
            crash(follower)

        again = open_history(tmp_path, ListLog(records), partition)
        again.catch_up()
        whole = memory_history(ListLog(records), partition)
        whole.catch_up()
        assert_equal_to_a_refold(again, records)
        assert newest(whole).closed_before == newest(again).closed_before
        closed = newest(whole).closed_before
        for time_ms in range(max(closed - 3000, records[0].time), closed, 7):
            one, other = again.history.at(TimeCut(time_ms)), whole.history.at(TimeCut(time_ms))
            assert content(other.tables) == content(one.tables)
        again.close()


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    records = random_log(1, 120).records
    log = write_log(tmp_path / "data", records)
    dice = random.Random(5)
    while True:
        process = subprocess.Popen(
            [sys.executable, "-m", WORKER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        reached = [line for line, _ in zip(lines, range(dice.randrange(1, 50)), strict=False)]
        process.kill()
        process.wait()
        process.stdout.close()
        if int(reached[-1]) == len(records):
            break

    follower = open_history(tmp_path / "history", log, 0, floor=5)
    assert len(follower.all()) > 3
    assert follower.state.next_offset > 0, "it continues"
    follower.catch_up()
    assert_equal_to_a_refold(follower, list(log.read(0)))
    follower.close()


def test_a_skip_of_an_older_command_folds_the_log_again(tmp_path: Path) -> None:
    ledger = Ledger()
    table = ledger.create("T")
    for number in range(30):
        ledger.fold(put(table, {"pk": {"S": str(number % 3)}, "n": {"N": str(number)}}))
    records = ledger.records
    follower = open_history(tmp_path, ListLog(records), 0)
    follower.catch_up()

    skipping = [*records, ledger.record(Skip(records[-2].offset, None, new_context("S")))]
    for _ in range(2):
        crash(follower)
        follower = open_history(tmp_path, ListLog(skipping), 0)
        follower.catch_up()
        assert_equal_to_a_refold(follower, skipping, void=[(records[-2].offset, None)])
    follower.close()


def test_a_skip_that_the_server_has_folded_is_honoured_at_once(tmp_path: Path) -> None:
    """A restarted server knows the skip; its history ends before it."""
    ledger = Ledger()
    table = ledger.create("T")
    for number in range(30):
        ledger.fold(put(table, {"pk": {"S": str(number % 3)}, "n": {"N": str(number)}}))
    follower = open_history(tmp_path, ListLog(ledger.records), 0)
    follower.catch_up()
    void = (ledger.records[-2].offset, None)

    follower.declare_void([void])

    with pytest.raises(NotFoldedError):
        follower.history.at(Position(0, void[0]))
    follower.catch_up()
    assert_equal_to_a_refold(follower, ledger.records, void=[void])
    folded_to = follower.history.position
    follower.declare_void([void])
    assert folded_to == follower.history.position, "it is known"
    follower.close()


def test_another_log_is_folded_from_its_beginning(tmp_path: Path) -> None:
    one, other = random_log(1, 20).records, random_log(2, 40).records
    first = open_history(tmp_path, ListLog(one), 0)
    first.catch_up()
    first.close()

    second = open_history(tmp_path, ListLog(other), 0)
    assert 0 == second.state.next_offset
    second.catch_up()
    assert_equal_to_a_refold(second, other)
    second.close()


def test_a_log_that_lost_its_end_is_folded_again(tmp_path: Path) -> None:
    records = random_log(1, 40).records
    first = open_history(tmp_path, ListLog(records), 0)
    first.catch_up()
    first.close()

    second = open_history(tmp_path, ListLog(records[:-5]), 0)
    second.catch_up()
    assert_equal_to_a_refold(second, records[:-5])
    second.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_trimmed_log_has_a_history_from_its_horizon(seed: int, tmp_path: Path) -> None:
    records = random_log(seed, 60).records
    log = ListLog(records[:-5], first=25)
    follower = open_history(tmp_path, log, 0)
    follower.catch_up()
    crash(follower)
    log.records = records
    follower = open_history(tmp_path, log, 0)
    follower.catch_up()

    assert 25 == follower.history.horizon.offset
    assert_equal_to_a_refold(follower, records)
    with pytest.raises(HorizonError):
        follower.history.at(Position(0, 24))
    with pytest.raises(HorizonError):
        follower.history.at(TimeCut(START))
    follower.close()


def test_a_trim_deletes_the_older_versions(tmp_path: Path) -> None:
    """Of a served log, and of one that was trimmed while no process followed it."""
    ledger = Ledger()
    table = ledger.create("T")
    for number in range(40):
        ledger.fold(put(table, {"pk": {"S": "a"}, "secret": {"S": f"secret{number:02}"}}))
    log = ListLog(ledger.records)
    follower = open_history(tmp_path, log, 0)
    follower.catch_up()

    for first, is_open in ((20, True), (30, False)):
        log.first = first
        if not is_open:
            follower.close()
            follower = open_history(tmp_path, log, 0)
        follower.catch_up()
        assert first == follower.history.horizon.offset
        assert_equal_to_a_refold(follower, ledger.records)
        stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        kept = [number for number in range(40) if b"secret%02d" % number in stored]
        # Record 1 creates the table; the state before the first record has the item of the record before it.
        assert list(range(first - 3, 40)) == kept
    follower.close()


def test_another_format_is_folded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = random_log(1, 20).records
    first = open_history(tmp_path, ListLog(records), 0)
    first.catch_up()
    first.close()

    monkeypatch.setattr(epochs_module, "FORMAT", FORMAT + 1)
    second = open_history(tmp_path, ListLog(records), 0)
    assert 0 == second.state.next_offset
    second.catch_up()
    assert_equal_to_a_refold(second, records)
    second.close()


@pytest.mark.parametrize("suffix", ["sst", "CURRENT"])
def test_a_damaged_storage_is_detected_and_folded_again(suffix: str, tmp_path: Path) -> None:
    records = random_log(3, 60).records
    log = ListLog(records)
    follower = open_history(tmp_path, log, 0)
    follower.catch_up()
    [epoch] = follower.all()
    engine = epoch.engine
    assert isinstance(engine, RocksEngine)
    engine.compact()
    follower.close()
    for path in (tmp_path / "0" / "1" / "0").iterdir():
        if path.name.endswith(suffix):
            data = bytearray(path.read_bytes())
            for at in range(0, len(data), 64):
                data[at] ^= 0xFF
            path.write_bytes(bytes(data))

    follower = open_history(tmp_path, log, 0)
    try:
        content(follower.state.tables)
    except DamagedHistoryError:
        assert follower.find_damage()
    follower.catch_up()
    assert_equal_to_a_refold(follower, records)
    follower.close()


def test_one_process_opens_a_history_at_a_time(tmp_path: Path) -> None:
    log = ListLog(random_log(1, 5).records)
    follower = open_history(tmp_path, log, 0)

    with pytest.raises(HistoryInUseError, match="another process"):
        open_history(tmp_path, log, 0)
    follower.close()


def test_a_step_ends_when_its_time_is_over() -> None:
    """Reads are served between two steps."""
    records = random_log(1, 30).records
    follower = memory_history(ListLog(records), 0, clock=single_steps().__next__)

    reached = [0]
    while follower.step():
        reached.append(follower.history.position.offset + 1)

    assert len(records) == reached[-1]
    assert all(each <= before + 1 for before, each in pairwise(reached))


def test_new_records_are_folded_by_the_next_step() -> None:
    records = random_log(1, 30).records
    log = ListLog(records[:10])
    follower = memory_history(log, 0)
    follower.catch_up()

    log.records = records
    follower.catch_up()

    assert_equal_to_a_refold(follower, records)


def test_a_cut_outside_the_history_is_refused() -> None:
    records = random_log(1, 10).records
    follower = memory_history(ListLog(records), 0)
    follower.catch_up()
    history = follower.history

    with pytest.raises(NotFoldedError):
        history.at(Position(0, len(records)))
    with pytest.raises(NotFoldedError):
        history.at(TimeCut(newest(follower).log_time))
    with pytest.raises(HorizonError):
        history.at(TimeCut(START - 1))
    assert history.is_closed(newest(follower).log_time - 1)
    assert history.position.time_ms == newest(follower).log_time


def write_log(folder: Path, records: Sequence[Record]) -> Any:
    """Write the entries of a ledger into a log of its own, and return a reader."""
    times = iter([records[0].time, *(record.time for record in records)])
    log = LocalLog(
        folder,
        clock=lambda: next(times, records[-1].time),
        deliver=lambda callback: callback(),
        random_bytes=bytes,
        on_fatal=lambda error: None,
        fsync="never",
    )
    for record in records[1:]:
        log.append(0, record.entry, lambda _: None)
    log.close()
    return LocalLog.open_reader(folder)
