"""The changes of a history against those of a refold: the outcomes of the fold, with the capture periods then."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from foldb.log.commands import LEVEL, Action, Check, Position, Record, Skip, Transact, new_context
from foldb.materializer.feed_requests import Changes, ReadChanges
from foldb.materializer.fold import fold
from foldb.materializer.fold.fold_record import Void
from foldb.materializer.fold.outcomes import Change
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.history.epochs import Epochs, memory_history, open_history
from foldb.materializer.history.history import History
from foldb.materializer.history.reads import read_past
from foldb.model.errors import TrimmedDataAccessError
from foldb.model.sequence_numbers import nth_of, number_before, position_of, sequence_number
from foldb.streams.changes import changes
from tests.unit.materializer.history.past import ListLog
from tests.unit.materializer.ledger import Ledger, put
from tests.unit.materializer.partitions.cluster import Cluster
from tests.unit.materializer.partitions.life import Life
from tests.unit.materializer.random_log import random_log


def refolded(records: Sequence[Record], void: Sequence[Void] = ()) -> dict[int, list[Change]]:
    """Return the changes of each table, with the label of the stream that captured each."""
    state, found = PartitionState(), dict[int, list[Change]]()
    for record in records:
        outcomes = fold(state, record, void)
        for change in changes(outcomes, None, state.partition, state.partitions):
            periods = state.periods.get(change.table, ())
            change.stream = max(
                (each.label for each in periods if each.holds(change.sequence_number)), default=0
            )
            found.setdefault(change.table, []).append(change)
    return found


def pages(history: History, partitions: int, until: Position, read: ReadChanges) -> Iterator[Changes]:
    """Yield the pages of a read up to its end."""
    while True:
        page, _ = read_past(history, until, read, partitions)
        assert isinstance(page, Changes)
        assert page.next >= read.after_sequence_number
        assert page.changes or page.is_end
        yield page
        if page.is_end:
            return
        read = replace(read, after_sequence_number=page.next)


def all_changes(history: History, partitions: int, until: Position, read: ReadChanges) -> list[Change]:
    return [change for page in pages(history, partitions, until, read) for change in page.changes]


def assert_equal(follower: Epochs, model: dict[int, list[Change]], dice: random.Random) -> int:
    """Compare all changes, and random ranges of them, with those of a refold. Return the number of changes."""
    history, partitions = follower.history, follower.state.partitions
    for table, expected in model.items():
        assert expected == all_changes(history, partitions, history.position, ReadChanges(table, 0))
        numbers = [0, *(change.sequence_number for change in expected)]
        for _ in range(10):
            after, until = sorted(dice.choice(numbers) + dice.choice([-1, 0, 1]) for _ in range(2))
            after, limit = max(0, after), dice.choice([1, 3, 1000])
            cut = Position(history.position.partition, *position_of(max(until, number_before(1))))
            read = ReadChanges(table, after, until=dice.choice([until, None]), limit=limit)
            last = until if read.until is not None else number_before(cut.offset, (cut.index or 0) + 1)
            part = [change for change in expected if after < change.sequence_number <= last]
            assert part == all_changes(history, partitions, cut, read)
    return sum(map(len, model.values()))


@pytest.mark.parametrize("seed", range(12))
def test_the_changes_of_a_history_are_those_of_a_refold(seed: int, floor: float) -> None:
    """Streams and tables come and go; items expire, are restored, and are written in transactions and by an undo."""
    dice, ledger = random.Random(seed), random_log(seed, 150)
    follower = memory_history(ListLog(ledger.records), 0, floor=floor)
    follower.catch_up()

    assert assert_equal(follower, refolded(ledger.records), dice) > 50


@pytest.mark.parametrize("seed", range(12))
def test_the_changes_of_several_partitions_are_those_of_a_refold(seed: int, floor: float) -> None:
    """Every third log begins at the level before transactions had positions."""
    dice = random.Random(seed)
    life = Life(seed, level=2 if seed % 3 == 0 else LEVEL)
    life.live(steps=150)

    assert sum(compared(life.cluster, dice, floor))


def test_the_changes_of_transactions_are_those_of_a_refold(cluster: Cluster, floor: float) -> None:
    """Its checks, and its actions that change nothing, have numbers but no changes."""
    assert sum(compared(cluster, random.Random(0), floor))


def test_a_transaction_numbers_its_changes_over_two_tables(floor: float) -> None:
    ledger = Ledger()
    one, two = ledger.create("One"), ledger.create("Two")
    a, b, same = ({"pk": {"S": key}} for key in ("a", "b", "same"))
    ledger.fold(put(two, same))
    condition = put(one, same, when="attribute_not_exists(pk)").expression
    check = Check(one.definition.id, b"c", b"", new_context("R"), condition)
    actions: list[Action] = [put(two, a), check, put(two, same), put(one, b), put(two, b)]
    ledger.fold(Transact(actions, new_context("R"), None, b""))
    follower = memory_history(ListLog(ledger.records), 0, floor=floor)
    follower.catch_up()

    model = refolded(ledger.records)
    assert 4 == assert_equal(follower, model, random.Random(0))
    found = [change for table in model.values() for change in table if change.tx is not None]
    assert [(0, 0, 3), (3, 1, 3), (4, 2, 3)] == sorted(
        (nth_of(change.sequence_number), change.tx.n, change.tx.of) for change in found if change.tx
    )


def compared(cluster: Cluster, dice: random.Random, floor: float) -> list[int]:
    """Compare the changes of all partitions; return their numbers."""
    numbers = []
    for partition, records in enumerate(cluster.records):
        follower = memory_history(ListLog(records), partition, floor=floor)
        follower.catch_up()
        numbers.append(assert_equal(follower, refolded(records), dice))
    return numbers


def test_a_history_on_disk_has_the_same_changes(tmp_path: Path) -> None:
    records = random_log(1, 100).records
    follower = open_history(tmp_path, ListLog(records), 0)
    follower.catch_up()

    assert assert_equal(follower, refolded(records), random.Random(1))
    follower.close()


@pytest.mark.parametrize("seed", range(4))
def test_a_trimmed_history_has_the_changes_from_its_horizon_on(seed: int, floor: float) -> None:
    records = random_log(seed, 100).records
    first = 30 + seed
    follower = memory_history(ListLog(records, first), 0, floor=floor)
    follower.catch_up()
    history = follower.history

    for table, expected in refolded(records).items():
        kept = [change for change in expected if change.sequence_number > number_before(first)]
        for after in (0, number_before(first)):
            assert kept == all_changes(history, 1, history.position, ReadChanges(table, after))
        # A reader that stopped inside the last record before the horizon would miss the rest of that record.
        for after in (number_before(first - 1), sequence_number(first - 1, 0, 0)):
            refused, _ = read_past(history, history.position, ReadChanges(table, after), 1)
            assert isinstance(refused, TrimmedDataAccessError)
            assert f"The history of this database begins at position {first}." == refused.message


def test_a_void_command_has_no_change(floor: float) -> None:
    ledger = Ledger()
    table = ledger.create("T")
    for number in range(3):
        ledger.fold(*(put(table, {"pk": {"S": str(key)}, "n": {"N": str(number)}}) for key in range(2)))
    void = [(ledger.records[-2].offset, 1)]
    records = [*ledger.records, ledger.record(Skip(*void[0], new_context("S")))]
    follower = memory_history(ListLog(records), 0, floor=floor)
    follower.catch_up()

    assert 5 == assert_equal(follower, refolded(records, void), random.Random(0))


def test_a_page_ends_after_its_bytes_or_its_changes(floor: float) -> None:
    ledger = Ledger()
    table = ledger.create("T")
    for number in range(5):
        ledger.fold(put(table, {"pk": {"S": "a"}, "v": {"S": f"{number}" * 600}}))
    follower = memory_history(ListLog(ledger.records), 0, floor=floor)
    follower.catch_up()

    def sizes(**bounds: Any) -> list[int]:
        read = ReadChanges(table.definition.id, 0, **bounds)
        found = pages(follower.history, 1, follower.history.position, read)
        return [len(page.changes) for page in found]

    assert [2, 2, 1] == sizes(limit=2)
    assert [1, 1, 1, 1, 1] == sizes(size=1)
    assert [2, 1, 1, 1] == sizes(size=2000)
