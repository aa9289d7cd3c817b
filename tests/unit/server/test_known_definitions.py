"""Definitions that reads of the past have found, against those that a refold of the log has at each cut."""

import random
from typing import Any, cast

import pytest

from foldb.log.commands import Position
from foldb.materializer.history.epochs import Epochs, memory_history
from foldb.materializer.history.history import NotFoldedError, PartitionCut, TimeCut
from foldb.materializer.history.reads import read_past
from foldb.materializer.history.requests import DescribeTables, PastTable, PastTables
from foldb.model.tables import TableDefinition
from foldb.server.partitions.known_definitions import SPANS_KEPT, KnownDefinitions
from tests.unit.materializer.history.past import ListLog, states
from tests.unit.materializer.random_log import random_log

NAMES = ("T", "Bare", "Restored")


def definitions_at(records: Any) -> dict[PartitionCut, dict[str, TableDefinition]]:
    """Return the definitions by name at each position of a log, and at each time that one of its records has."""
    found: dict[PartitionCut, dict[str, TableDefinition]] = {}
    for offset, index, state in states(records):
        tables = {name: state.tables[table_id].definition for name, table_id in state.names.items()}
        found[Position(0, offset, index)] = tables
        found[TimeCut(state.log_time)] = tables
    return found


def read(follower: Epochs, cut: PartitionCut, name: str) -> PastTables | None:
    """Return the answer of a history; None if it has not folded the cut."""
    try:
        answer, _ = read_past(follower.history, cut, DescribeTables([name], is_counted=False), 1)
    except NotFoldedError:
        follower.catch_up()
        return None
    return answer if isinstance(answer, PastTables) else None


@pytest.mark.parametrize("seed", range(8))
def test_known_definitions_are_those_at_the_cut(seed: int) -> None:
    """Cuts in any order, while the log grows: most need no read, and each has the definitions of a refold."""
    records, dice = random_log(seed, 80).records, random.Random(seed)
    expected, known = definitions_at(records), KnownDefinitions()
    log = ListLog(records[:20])
    follower = memory_history(log, 0, floor=3)
    asked = found_known = 0

    for end in range(20, len(records)):
        log.records = records[: end + 1]
        for cut, name in ((dice.choice(list(expected)), dice.choice(NAMES)) for _ in range(50)):
            found = known.find(cut, [name], [])
            asked += 1
            if found is not None:
                found_known += 1
            else:
                found = read(follower, cut, name)
                if found is None:
                    continue
                known.add(cut, [name], found, [])
            definitions = [table.definition for table in found.tables]
            there = [expected[cut][name]] if name in expected[cut] else []
            assert there == definitions, (cut, name)
    assert found_known > asked / 4
    assert len({repr(tables.get("T")) for tables in expected.values()}) > 3


def spans(known: KnownDefinitions, first: int, end: int) -> list[PastTables | None]:
    return [known.find(TimeCut(time_ms), ["T"], []) for time_ms in range(first, end)]


TABLE = PastTable(cast(TableDefinition, None), {})


def test_a_span_has_its_first_cut_and_not_its_end() -> None:
    known, found = KnownDefinitions(), PastTables([TABLE], 5, 8)
    known.add(TimeCut(6), ["T"], found, [])

    assert [None, found, found, found, None] == spans(known, 4, 9)
    assert known.find(Position(0, 0, 6), ["T"], []) is None, "a position is no time"
    assert known.find(TimeCut(6), ["U"], []) is None


def test_a_span_grows_with_the_log() -> None:
    known, longer = KnownDefinitions(), PastTables([TABLE], 5, 8)
    for found in (PastTables([TABLE], 8, 9), PastTables([TABLE], 5, 7), longer):
        known.add(TimeCut(6), ["T"], found, [])

    assert [longer] * 3 == spans(known, 5, 8)


def test_a_table_that_is_missing_is_looked_for_again() -> None:
    """The next read would have refused a cut that a trim has passed."""
    known = KnownDefinitions()
    known.add(TimeCut(6), ["T", "U"], PastTables([TABLE], 5, 8), [])

    assert known.find(TimeCut(6), ["T", "U"], []) is None


def test_nothing_is_known_of_a_history_with_other_void_commands() -> None:
    known, found = KnownDefinitions(), PastTables([TABLE], 5, 8)
    known.add(TimeCut(6), ["T"], found, [])

    assert known.find(TimeCut(6), ["T"], [(3, None)]) is None
    known.add(TimeCut(6), ["T"], found, [])  # a read that began before
    assert known.find(TimeCut(6), ["T"], [(3, None)]) is None


def test_the_spans_that_are_kept_are_bounded() -> None:
    known = KnownDefinitions()
    for nth in range(3 * SPANS_KEPT):
        known.add(TimeCut(nth), [f"T{nth % 7}"], PastTables([TABLE], nth, nth + 1), [])

    kept = [nth for nth in range(3 * SPANS_KEPT) if known.find(TimeCut(nth), [f"T{nth % 7}"], []) is not None]
    assert 0 < len(kept) <= SPANS_KEPT
    assert 3 * SPANS_KEPT - 1 == kept[-1]
