"""The items that differ between two cuts, against a comparison of the whole states; the steps are counted."""

import math
import random
from typing import Any

import pytest

from foldb.log.commands import Position
from foldb.materializer.history import differences as differences_module
from foldb.materializer.history.engine import Engine, RowCursor, VersionCursor
from foldb.materializer.history.epoch_storage import EpochMemory
from foldb.materializer.history.epochs import EpochHistory, Epochs, memory_history
from foldb.materializer.history.history import PartitionCut, TimeCut
from foldb.materializer.history.memory_engine import MemoryEngine
from foldb.materializer.history.reads import read_past
from foldb.materializer.history.requests import Difference, PastDifferences, ReadDifferences
from tests.unit.materializer.history.past import ListLog, newest
from tests.unit.materializer.ledger import Ledger, put
from tests.unit.materializer.partitions.life import Life
from tests.unit.materializer.random_log import random_log


def differences(
    history: EpochHistory, table: int, since: PartitionCut, until: PartitionCut, limit: int = 1000
) -> list[Difference]:
    """Return all pages of the differences of a table."""
    found: list[Difference] = []
    start = None
    while True:
        answer, _ = read_past(history, until, ReadDifferences(table, since, start, limit), 1)
        assert isinstance(answer, PastDifferences)
        found += answer.differences
        start = answer.next
        if start is None:
            return found


def compared(history: EpochHistory, table: int, since: PartitionCut, until: PartitionCut) -> dict[Any, Any]:
    """Return the differences of a table by key, from a scan of both states."""
    sides = []
    for cut in (since, until):
        state = history.at(cut)
        items = state.tables[table].items.scan() if table in state.tables else ()
        sides.append({(pk, sk): stored[0] for _, pk, sk, stored in items})
    old, new = sides
    return {
        key: (old.get(key), new.get(key)) for key in old.keys() | new.keys() if old.get(key) != new.get(key)
    }


def assert_equal(history: EpochHistory, since: PartitionCut, until: PartitionCut) -> int:
    """Compare the differences of all tables at the later cut; return their number."""
    count = 0
    for table in history.at(until).tables:
        found = differences(history, table, since, until)
        assert compared(history, table, since, until) == {(e.pk, e.sk): (e.old, e.new) for e in found}
        assert len(found) == len({(each.pk, each.sk) for each in found})
        assert found == differences(history, table, since, until, limit=2)
        count += len(found)
    return count


@pytest.mark.parametrize("seed", range(5))
def test_positions_differ_as_their_states_do(seed: int, floor: float) -> None:
    dice, records = random.Random(seed), random_log(seed, 100).records
    follower = memory_history(ListLog(records), 0, floor=floor)
    follower.catch_up()

    found = 0
    for _ in range(60):
        cuts = [Position(0, dice.randrange(len(records)), dice.choice([None, 0, 1])) for _ in range(2)]
        since, until = sorted(cuts, key=lambda each: (each.offset, 99 if each.index is None else each.index))
        found += assert_equal(follower.history, since, until)
    assert found


@pytest.mark.parametrize("seed", range(8))
def test_times_differ_as_their_states_do(seed: int, floor: float) -> None:
    """Of several partitions: writes that were decided before a time are folded after it."""
    dice, life = random.Random(seed), Life(seed)
    life.live(steps=120)

    found = 0
    for partition, records in enumerate(life.cluster.records):
        follower = memory_history(ListLog(records), partition, floor=floor)
        follower.catch_up()
        history = follower.history
        first = records[0].time
        last = max(first, newest(follower).closed_before - 1)
        for _ in range(40):
            since, until = sorted(dice.randrange(first, last + 1) for _ in range(2))
            found += assert_equal(history, TimeCut(since), TimeCut(until))
    assert found


@pytest.mark.parametrize("limit", [1, 3])
def test_a_page_ends_after_a_number_of_versions(
    monkeypatch: pytest.MonkeyPatch, limit: int, floor: float
) -> None:
    monkeypatch.setattr(differences_module, "PAGE_VERSIONS", limit)
    records = random_log(3, 80).records
    follower = memory_history(ListLog(records), 0, floor=floor)
    follower.catch_up()

    assert assert_equal(follower.history, Position(0, 5), follower.history.position)


class Counted:
    """A cursor that counts its steps in an engine."""

    def __init__(self, cursor: VersionCursor | RowCursor, engine: "CountingEngine") -> None:
        self._cursor = cursor
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        self._engine.steps += name in ("seek", "seek_back", "next")
        return getattr(self._cursor, name)


class CountingEngine(MemoryEngine):
    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def versions(self) -> Any:
        return Counted(super().versions(), self)

    def chains(self) -> Any:
        return Counted(super().chains(), self)

    def rows(self) -> Any:
        return Counted(super().rows(), self)


class CountingMemory(EpochMemory):
    def open(self, number: int) -> Engine:
        return self.engines.setdefault(number, CountingEngine())


def _steps(items: int, changed: int) -> int:
    """Return the steps of a comparison of two cuts with that many changes, in a table with that many items."""
    ledger = Ledger()
    table = ledger.create("T")
    for number in range(items):
        ledger.fold(put(table, {"pk": {"S": str(number)}}))
    since = ledger.records[-1].offset
    for number in range(changed):
        ledger.fold(put(table, {"pk": {"S": str(number)}, "n": {"N": "1"}}))
    storage = CountingMemory()
    follower = Epochs(storage, ListLog(ledger.records), 0, floor=math.inf)
    follower.catch_up()
    [engine] = storage.engines.values()
    assert isinstance(engine, CountingEngine)
    engine.steps = 0
    found = differences(follower.history, table.definition.id, Position(0, since), follower.history.position)
    assert changed == len(found)
    return engine.steps


@pytest.mark.spec("H6", served=False)
def test_the_steps_of_a_diff_depend_on_the_changes_alone() -> None:
    assert _steps(items=100, changed=20) == _steps(items=2000, changed=20)
    assert _steps(items=100, changed=80) < 5 * _steps(items=100, changed=20)
