"""The state at every cut of a random log, against a refold of the log up to the cut."""

from pathlib import Path

import pytest

from foldb.log.commands import LEVEL, Position
from foldb.materializer.history.epochs import Epochs, memory_history, open_history
from foldb.materializer.history.history import TimeCut
from tests.unit.materializer.history.past import ListLog, TimeModel, content, newest, states
from tests.unit.materializer.ledger import START
from tests.unit.materializer.partitions.life import Life
from tests.unit.materializer.partitions.test_versions import Held
from tests.unit.materializer.random_log import random_log

# A seed on disk checks the engine, the others the rest. In 8 and 11 a time is between a transaction's decision and the
# global index entries that it writes.
RUNS = [("disk", 0), *(("memory", seed) for seed in (*range(9), 11))]


def follow(engine: str, folder: Path, log: ListLog, floor: float, partition: int = 0) -> Epochs:
    if engine == "memory":
        return memory_history(log, partition, floor=floor)
    return open_history(folder / f"{partition}", log, partition, floor=floor)


@pytest.mark.parametrize(("engine", "seed"), RUNS)
def test_every_position_reads_as_a_refold_up_to_it(
    engine: str, seed: int, tmp_path: Path, floor: float
) -> None:
    records = random_log(seed, 80).records
    follower = follow(engine, tmp_path, ListLog(records), floor)
    follower.catch_up()

    for offset, index, state in states(records):
        past = follower.history.at(Position(0, offset, index))
        assert content(state.tables) == content(past.tables), (offset, index)
        assert state.names == past.names
        assert state.log_time == past.position.time_ms
    follower.close()


@pytest.mark.parametrize(("engine", "seed"), RUNS)
def test_every_position_of_every_partition_reads_as_a_refold(
    engine: str, seed: int, tmp_path: Path, floor: float
) -> None:
    life = Life(seed, level=LEVEL if seed % 3 else 2)
    life.live(steps=120)

    for partition, records in enumerate(life.cluster.records):
        follower = follow(engine, tmp_path, ListLog(records), floor, partition)
        follower.catch_up()
        for offset, index, state in states(records):
            past = follower.history.at(Position(partition, offset, index))
            assert content(state.tables) == content(past.tables), (partition, offset, index)
            assert state.names == past.names
        follower.close()


@pytest.mark.parametrize(("engine", "seed"), RUNS)
def test_every_time_reads_the_versions_by_effective_time(
    engine: str, seed: int, tmp_path: Path, floor: float
) -> None:
    """Of several partitions, whose transactions are decided before they are folded."""
    life = Life(seed, level=LEVEL if seed % 3 else 2)
    life.live(steps=120)

    for partition, records in enumerate(life.cluster.records):
        follower = follow(engine, tmp_path, ListLog(records), floor, partition)
        follower.catch_up()
        history, model = follower.history, TimeModel(records)
        for time_ms in sorted({each + shift for each in model.times for shift in (-1, 0, 1)}):
            if time_ms < model.times[0] or not history.is_closed(time_ms):
                continue
            past = history.at(TimeCut(time_ms))
            assert model.content(time_ms) == content(past.tables), (partition, time_ms)
            assert past.position.time_ms is not None
            assert past.position.time_ms <= time_ms
        follower.close()


@pytest.mark.parametrize("seed", range(8))
def test_a_closed_time_never_changes(seed: int, floor: float) -> None:
    life = Life(seed, level=LEVEL if seed % 3 else 2)
    life.live(steps=120)

    for partition, records in enumerate(life.cluster.records):
        log, model = ListLog(records[:1]), TimeModel(records)
        follower = memory_history(log, partition, floor=floor)
        for end in range(2, len(records)):
            log.records = records[:end]
            follower.catch_up()
            last = newest(follower).closed_before - 1
            if last >= model.times[0]:
                past = follower.history.at(TimeCut(last))
                assert model.content(last) == content(past.tables), (partition, end)


def test_a_local_index_is_read_at_the_time_of_its_item(floor: float) -> None:
    """A transaction is decided at 3000 and applied at 9000: in between both have what it wrote."""
    held = Held()
    held.time = 9000
    held.commit()
    records = held.cluster.records[2]
    follower = memory_history(ListLog(records), 2, floor=floor)
    follower.catch_up()

    model = TimeModel(records)
    for time_ms in (START + 2999, START + 3000, START + 8999):
        assert follower.history.is_closed(time_ms)
        assert model.content(time_ms) == content(follower.history.at(TimeCut(time_ms)).tables), time_ms
    assert model.content(START + 2999) != model.content(START + 3000) == model.content(START + 8999)
