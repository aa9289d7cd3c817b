"""Restores, forks and backups: their commands, in one partition and in several."""

from typing import Any, cast

import pytest

from foldb.log.commands import (
    DefineTable,
    Load,
    LoadedItem,
    Position,
    RestoreProgress,
    Settle,
    Transact,
    new_context,
)
from foldb.materializer.fold.dump import dump
from foldb.materializer.fold.load import load
from foldb.materializer.fold.outcomes import BackupDefined, Completed, Loaded, Outcome, Refused, Skipped
from foldb.materializer.fold.read_requests import Page
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.history.history import PartitionCut
from foldb.materializer.history.requests import OnPast, PastRead
from foldb.materializer.owner.copy_sources import PastSource
from foldb.model.descriptions import describe
from foldb.model.tables import TableDefinition
from foldb.model.values import dump as dump_item
from foldb.streams.changes import changes
from tests.unit.materializer.ledger import CONTEXT, START, Ledger, define, index_request, put, table_request
from tests.unit.materializer.partitions import projection
from tests.unit.materializer.partitions.cluster import Cluster

RESTORING = new_context("R", source="restore")
SOURCE = {"Id": 1, "Name": "T", "Arn": "arn:aws:dynamodb:us-east-1:000000000000:table/T"}
INDEXES = {"GlobalSecondaryIndexes": [index_request("by-g", "g")]}


def request(operation: str = "RestoreTableToPointInTime", **origin: Any) -> DefineTable:
    table = table_request("Restored", "pk:S", **INDEXES)
    return define(operation, 0, {**table, "Restore": {"Source": SOURCE, "TimeMs": START, **origin}})


def loads(table: int, *keys: str) -> Load:
    items = [{"pk": {"S": key}, "g": {"S": f"g{key}"}} for key in keys]
    return Load(
        table, [LoadedItem(item["pk"]["S"].encode(), b"", dump_item(item), 6) for item in items], RESTORING
    )


def done(table: int, *, cursor: bytes | None = None) -> RestoreProgress:
    return RestoreProgress(table, cursor or b"", cursor is None, RESTORING)


class Restoring:
    """A ledger with a table that is being restored."""

    def __init__(self, operation: str = "RestoreTableToPointInTime") -> None:
        self.ledger = Ledger()
        self.ledger.create("T")
        self.ledger.fold(request(operation))
        self.table = self.ledger.state.tables[self.ledger.state.names["Restored"]]
        self.id = self.definition.id

    @property
    def definition(self) -> TableDefinition:
        return self.table.definition

    def fold(self, *commands: Any) -> Outcome:
        return self.ledger.fold(*commands)


def test_a_restored_table_is_creating_until_it_is_done() -> None:
    restoring = Restoring()
    settled = restoring.fold(Settle(restoring.id, CONTEXT))
    statuses = [restoring.definition.status]

    outcomes = [
        restoring.fold(loads(restoring.id, "a", "b")),
        restoring.fold(done(restoring.id, cursor=b"b")),
    ]
    statuses.append(restoring.definition.status)
    outcomes.append(restoring.fold(done(restoring.id)))

    assert Completed(progressed=False) == settled
    assert ["CREATING", "CREATING"] == statuses
    assert "ACTIVE" == restoring.definition.status
    assert [Loaded(2), Completed(progressed=True), Completed(progressed=True)] == outcomes
    assert ["ACTIVE"] == [index.status for index in restoring.definition.indexes]
    assert {} == restoring.ledger.state.restores


def test_loaded_items_have_index_entries_and_numbers_of_their_own() -> None:
    restoring = Restoring()

    outcome = restoring.fold(loads(restoring.id, "a", "b"))

    made = list(changes([outcome]))
    index = restoring.table.indexes["by-g"]
    assert 2 == restoring.table.items.count == index.store.count
    assert 1 == made[1].sequence_number - made[0].sequence_number
    assert [None, None] == [change.tx for change in made]


def test_an_item_can_be_loaded_twice() -> None:
    restoring = Restoring()
    restoring.fold(loads(restoring.id, "a"))

    again = restoring.fold(loads(restoring.id, "a"))

    assert Loaded(1) == again
    assert [] == list(changes([again]))
    assert 1 == restoring.table.items.count


def test_a_table_that_is_not_being_restored_takes_no_loads() -> None:
    restoring = Restoring()
    restoring.fold(done(restoring.id))
    skipped = Skipped("the table is not being restored")

    assert skipped == restoring.fold(loads(restoring.id, "a"))
    assert skipped == restoring.fold(done(restoring.id))
    assert skipped == restoring.fold(loads(1, "a"))
    assert skipped == restoring.fold(loads(99, "a"))


def test_a_restore_that_cannot_end_can_be_deleted() -> None:
    restoring = Restoring()
    restoring.fold(done(restoring.id, cursor=b"a"))

    restoring.fold(define("DeleteTable", restoring.id, {"TableName": "Restored"}))

    assert "Restored" not in restoring.ledger.state.names
    assert {} == restoring.ledger.state.restores


@pytest.mark.parametrize("operation", ["RestoreTableToPointInTime", "RestoreTableFromBackup", "ForkTable"])
def test_a_name_in_use_is_refused(operation: str) -> None:
    restoring = Restoring()

    again = restoring.fold(request(operation))

    assert isinstance(again, Refused)
    assert "TableAlreadyExistsException" == again.error.wire_name


def test_a_restored_table_describes_its_origin() -> None:
    restoring, fork = Restoring(), Restoring("ForkTable")
    before = describe(restoring.definition)["RestoreSummary"]
    restoring.fold(done(restoring.id))
    after = describe(restoring.definition)["RestoreSummary"]

    assert (True, False) == (before["RestoreInProgress"], after["RestoreInProgress"])
    assert SOURCE["Arn"] == after["SourceTableArn"]
    assert fork.definition.restore is not None
    assert fork.definition.restore.is_fork


def test_a_restore_and_backups_survive_a_dump() -> None:
    restoring = Restoring()
    restoring.fold(loads(restoring.id, "a"))
    restoring.fold(done(restoring.id, cursor=b"\x00a"))
    restoring.fold(backup_of(1))
    data = b"".join(dump(restoring.ledger.state))

    loaded = load([data])

    assert data == b"".join(dump(loaded))
    assert {restoring.id: b"\x00a"} == loaded.restores
    assert restoring.ledger.state.backups == loaded.backups


# Several partitions


def test_a_restore_over_partitions_ends_when_all_have_it() -> None:
    cluster = Cluster(data=3)
    cluster.create("T")
    cluster.define(request())
    cluster.settle()
    [table] = [each for each in cluster.catalog.tables.values() if each.definition.name == "Restored"]
    table_id, keys = table.definition.id, list(map(str, range(30)))
    for partition in cluster.data:
        here = [key for key in keys if cluster.home_of(table_id, key.encode()) == partition]
        assert Loaded(len(here)) == cluster.fold(partition, loads(table_id, *here))

    statuses = {state.tables[table_id].definition.status for state in cluster.states}
    cluster.fold(0, done(table_id))
    assert "CREATING" == table.definition.status
    cluster.settle()

    assert {"CREATING"} == statuses
    assert {"ACTIVE"} == {state.tables[table_id].definition.status for state in cluster.states}
    assert 30 == sum(state.tables[table_id].items.count for state in cluster.states)
    assert 30 == projection.check(cluster)


def test_a_load_for_another_partition_has_no_effect() -> None:
    cluster = Cluster(data=2)
    cluster.define(request())
    cluster.settle()
    home = cluster.home_of(1, b"a")

    outcome = cluster.fold(3 - home, loads(1, "a"))

    assert Skipped("not of this partition") == outcome


def test_a_load_leaves_keys_of_a_transaction_alone() -> None:
    """A server refuses writes to such a table; a stale one might not."""
    cluster = Cluster(data=2)
    cluster.define(request())
    cluster.settle()
    table = cluster.catalog.tables[1]
    here, there = (
        next(k for k in map(str, range(99)) if cluster.home_of(1, k.encode()) == n) for n in (1, 2)
    )
    actions = [put(table, {"pk": {"S": key}}) for key in (here, there)]
    cluster.fold(1, Transact(actions, CONTEXT))

    outcome = cluster.fold(1, loads(1, here))

    assert isinstance(outcome, Refused)
    assert "TransactionConflictException" == outcome.error.wire_name


# Backups


def backup_of(table: int, time_ms: int = 0) -> DefineTable:
    return define(
        "CreateBackup", table, {"BackupName": "nightly", "TimeMs": time_ms, "Items": 3, "Bytes": 99}
    )


def test_a_backup_outlives_its_table() -> None:
    ledger = Ledger()
    definition = ledger.create("T").definition

    created = ledger.fold(backup_of(1))
    ledger.fold(define("DeleteTable", 1, {"TableName": "T"}))

    assert isinstance(created, BackupDefined)
    backup = created.backup
    assert {backup.arn: backup} == ledger.state.backups
    assert ("nightly", definition, START, 3, 99) == (
        backup.name,
        backup.definition,
        backup.cut_ms,
        backup.items,
        backup.size,
    )
    assert f"{SOURCE['Arn']}/backup/0{START}-uuid" == backup.arn


def test_a_backup_is_not_before_the_writes_that_its_server_knew() -> None:
    """The catalog's clock may be behind that of another partition."""
    ledger = Ledger()
    ledger.create("T")

    later, earlier = ledger.fold(backup_of(1, START + 50)), ledger.fold(backup_of(1, START - 50))

    assert isinstance(later, BackupDefined)
    assert isinstance(earlier, BackupDefined)
    assert (START + 50, START) == (later.backup.cut_ms, earlier.backup.cut_ms)


def test_a_deleted_backup_is_gone() -> None:
    ledger = Ledger()
    ledger.create("T")
    created = ledger.fold(backup_of(1))
    assert isinstance(created, BackupDefined)
    delete = define("DeleteBackup", 0, {"BackupArn": created.backup.arn})

    deleted, again = ledger.fold(delete), ledger.fold(delete)

    assert BackupDefined(created.backup) == deleted
    assert isinstance(again, Refused)
    assert "BackupNotFoundException" == again.error.wire_name
    assert {} == ledger.state.backups


def test_a_table_is_not_restored_from_a_missing_backup() -> None:
    ledger = Ledger()
    ledger.create("T")
    created = ledger.fold(backup_of(1))
    assert isinstance(created, BackupDefined)

    missing = ledger.fold(request("RestoreTableFromBackup", BackupArn="arn:other"))
    found = ledger.fold(request("RestoreTableFromBackup", BackupArn=created.backup.arn))

    assert isinstance(missing, Refused)
    assert "BackupNotFoundException" == missing.error.wire_name
    restored = ledger.state.tables[ledger.state.names["Restored"]].definition
    assert created.backup.arn == describe(restored)["RestoreSummary"]["SourceBackupArn"]
    assert not isinstance(found, Refused)


class Reads:
    """A partition that keeps the reads of its past."""

    def __init__(self) -> None:
        self.reads: list[tuple[PastRead, OnPast]] = []

    def as_of(self, _: PartitionCut, read: PastRead, done: OnPast) -> None:
        self.reads.append((read, done))


def test_the_next_history_is_folded_while_items_are_copied() -> None:
    state = PartitionState()
    state.partitions = 4
    partitions = [Reads() for _ in range(4)]
    source = PastSource(state, cast(Any, partitions), Restoring().definition)
    pages: list[Any] = []

    source.read(source.cursor, pages.append)
    before = [len(each.reads) for each in partitions]
    _, answer = partitions[1].reads[0]
    answer(Page([b'{"pk":{"S":"a"}}'], 1, 1, b'{"pk":{"S":"a"}}', 1), Position(1, 9))

    assert [0, 1, 0, 0] == before
    assert [0, 1, 1, 0] == [len(each.reads) for each in partitions]
    source.read(pages[0].following, pages.append)
    _, answer = partitions[1].reads[1]
    answer(Page([], 0, 0, None, 0), Position(1, 9))
    assert [0, 2, 1, 0] == [len(each.reads) for each in partitions]
