"""Every write of a fold has a version with its effective time."""

from collections.abc import Iterator

import pytest

from foldb.log.commands import Backfill, Commit, Record, Relay, Transact, new_context
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.fold.transactions.state import TransactionId
from tests.support.versions import Recorder, Version, check_newest, check_order
from tests.unit.materializer.ledger import CONTEXT, START, Ledger, define, index_request, put
from tests.unit.materializer.partitions.cluster import Cluster
from tests.unit.materializer.partitions.life import Life, _update
from tests.unit.materializer.random_log import random_log

SEEDS = 30


def written(records: list[Record]) -> Iterator[tuple[PartitionState, list[Version]]]:
    """Fold a log; yield the state after each record, and all versions so far.

    Check that no version has a time that was closed before: below log time, and below the Prepare of each held part.
    """
    recorder = Recorder()
    state, found = recorder.state, recorder.versions
    prepared: dict[TransactionId, int] = {}
    for record in records:
        _check_decisions(prepared, record)
        closed, count = min([state.log_time, *prepared.values()]) - 1, len(found)
        recorder.fold(record)
        assert all(version.effective_time > closed for version in found[count:])
        held = state.transactions.prepared
        prepared = {part: prepared.get(part, state.log_time) for part in held}
        yield state, found


def _check_decisions(prepared: dict[TransactionId, int], record: Record) -> None:
    """Check that each agreed decision is later than the Prepare of the part that it applies."""
    for command in record.entry.commands:
        if isinstance(command, Relay) and isinstance(command.message, Commit):
            time = prepared.get((command.sender, command.message.transaction_number), -1)
            assert command.message.changing is None or time < command.time


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_newest_versions_of_a_cluster_are_its_state(seed: int) -> None:
    """The claim holds after every record, in any order of the messages. Effective time never falls along a key."""
    life = Life(seed, skew_ms=[0, 1000][seed % 2], level=[5, 2][seed % 3 == 0])
    life.live(steps=100)
    life.rest()

    for records in life.cluster.records:
        for number, (state, found) in enumerate(written(records)):
            if number % 16 == 0 or number == len(records) - 1:
                check_newest(found, state)
        check_order(found)


@pytest.mark.parametrize("seed", range(4))
def test_the_newest_versions_of_one_partition_are_its_state(seed: int) -> None:
    """With local and global indexes, expiries and backfills. Each version has the log time of its record."""
    count = 0
    for state, found in written(random_log(seed, length=150).records):
        assert {state.log_time} >= {version.effective_time for version in found[count:]}
        count = len(found)
    check_newest(found, state)
    check_order(found)


def test_a_write_during_a_backfill_writes_the_missing_entry() -> None:
    """The fold passes a store the entry that a write replaces, but an item may have none before the backfill."""
    ledger = Ledger()
    cars = ledger.create("Cars")
    item = {"pk": {"S": "a"}, "g": {"S": "1"}}
    ledger.fold(put(cars, item))
    create = {"GlobalSecondaryIndexUpdates": [{"Create": index_request("global", "g")}]}
    attributes = [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "g")]
    ledger.fold(define("UpdateTable", cars.definition.id, {**create, "AttributeDefinitions": attributes}))
    [index] = cars.definition.indexes
    ledger.fold(put(cars, {**item, "b": {"S": "2"}}))
    ledger.fold(Backfill(cars.definition.id, index.id, 10, CONTEXT), put(cars, {**item, "b": {"S": "3"}}))

    *_, (_, found) = written(ledger.records)

    assert 2 == len([version for version in found if version.store == index.id])


class Held:
    """A transaction over partitions 1 and 2: prepared in 2 at 2000, decided in 1 at 3000, not applied in 2.

    `b` is an item of partition 2 that exists before, and the transaction replaces it.
    """

    def __init__(self) -> None:
        self.time = 0
        self.cluster = Cluster(data=2, now=lambda _: START + self.time)
        local = index_request("local", "pk", "a", projection="KEYS_ONLY")
        table = self.cluster.create("T", "pk:S sk:S", LocalSecondaryIndexes=[local])
        self.table = table.definition.id
        self.next_index = table.definition.indexes[-1].id + 1
        a, b, g = self._key(self.table, 1), self._key(self.table, 2), self._key(self.next_index, 2)
        before = {"pk": {"S": b}, "sk": {"S": "s"}, "a": {"S": "1"}, "g": {"S": g}}
        self.cluster.write(put(table, before))
        after = put(table, {**before, "a": {"S": "2"}, "c": {"S": "c"}})
        other = put(table, {"pk": {"S": a}, "sk": {"S": "s"}})
        self.time = 1000
        self.cluster.fold(1, Transact([other, after], CONTEXT))
        self.time = 2000
        self.deliver(1, 2)
        self.time = 3000
        self.deliver(2, 1)

    def _key(self, owner: int, partition: int) -> str:
        """Return a partition key of a table or index in that partition."""
        names = map(str, range(99))
        return next(name for name in names if self.cluster.home_of(owner, name.encode()) == partition)

    def deliver(self, sender: int, receiver: int) -> None:
        """Deliver the next messages."""
        expected = self.cluster.states[receiver].received.get(sender, 0)
        for relay in self.cluster.sent[sender, receiver][expected:]:
            self.cluster.deliver(relay, receiver)

    def versions(self) -> list[Version]:
        """Return all versions of partition 2."""
        *_, (_, found) = written(self.cluster.records[2])
        return found

    def commit(self) -> list[Version]:
        """Apply the decision in partition 2; return the versions that it writes."""
        before = len(self.versions())
        self.deliver(1, 2)
        return self.versions()[before:]


def test_a_commit_writes_at_the_time_of_its_decision() -> None:
    """The item and its local entries; the old local entry gets a tombstone."""
    held = Held()
    held.time = 9000

    found = held.commit()

    definition = held.cluster.catalog.tables[held.table].definition
    [local] = definition.indexes
    assert [held.table, local.id, local.id] == [version.store for version in found]
    assert {START + 3000} == {version.effective_time for version in found}
    assert [False, True, False] == [version.stored is None for version in found]


def test_a_global_entry_has_log_time_after_a_backfill() -> None:
    """The backfill enters the old item, later than the decision: an entry at the decision's time would be hidden."""
    held = Held()
    held.time = 5000
    held.cluster.define(define("UpdateTable", held.table, _update(Create=index_request("global", "g"))))
    held.deliver(0, 2)
    index = held.next_index
    held.time = 6000
    held.cluster.fold(2, Backfill(held.table, index, 10, new_context("B")))
    held.time = 9000

    held.commit()

    entries = [version for version in held.versions() if version.store == index]
    check_order(held.versions())
    assert [START + 6000, START + 9000] == [version.effective_time for version in entries]
