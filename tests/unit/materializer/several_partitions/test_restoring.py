"""The owner of the catalog copies the items of a table at a cut into a new table."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from foldb.log.commands import Load, LoadedItem, Position, Put, RestoreProgress
from foldb.materializer.fold.outcomes import Skipped
from foldb.materializer.owner import copy_sources, restores
from foldb.materializer.partition import Page, ScanRequest
from foldb.model.errors import ServiceUnavailableError
from foldb.model.limits import MODERN
from foldb.model.slots import partition_of_key
from foldb.model.values import dump, item_size
from foldb.server.partitions.past_reads import HistoricalPartition, PastReads
from tests.support.refold_reader import RefoldReader
from tests.unit.materializer.ledger import CONTEXT, define, index_request, table_request
from tests.unit.materializer.several_partitions.database import Database

INDEXES = {"GlobalSecondaryIndexes": [index_request("by-g", "g")]}
DATA = 3
ITEMS = 40


class Away:
    """A partition whose past cannot be read at the moment."""

    def __init__(self, partition: Any) -> None:
        self._partition = partition
        self.refused = 0

    def as_of(self, cut: Any, read: Any, done: Any) -> None:
        self.refused += 1
        done(ServiceUnavailableError("moved"), Position(0, -1))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._partition, name)


class Earlier:
    """A partition on a node of the release before, whose pages have no keys."""

    def __init__(self, partition: Any) -> None:
        self._partition = partition

    def as_of(self, cut: Any, read: Any, done: Any) -> None:
        def on_answer(answer: Any, position: Any) -> None:
            done(replace(answer, keys=None) if isinstance(answer, Page) else answer, position)

        self._partition.as_of(cut, read, on_answer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._partition, name)


class Silent:
    """A partition that answers no Load. It counts the items of Loads, and the pages that are read."""

    def __init__(self, partition: Any) -> None:
        self._partition = partition
        self.items = 0
        self.pages = 0

    def as_of(self, cut: Any, read: Any, done: Any) -> None:
        self.pages += isinstance(read, ScanRequest)
        self._partition.as_of(cut, read, done)

    def submit(self, command: Any, size: int, done: Any) -> None:
        if isinstance(command, Load):
            self.items += len(command.items)
        else:
            self._partition.submit(command, size, done)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._partition, name)


class Deleted:
    """A partition that has deleted the table before each Load. It answers after the catalog has deleted it too."""

    def __init__(self, partition: Any, restoring: "Restoring", delete: Callable[[], None]) -> None:
        self._partition = partition
        self._restoring = restoring
        self._delete = delete

    def submit(self, command: Any, size: int, done: Any) -> None:
        if isinstance(command, Load):
            if "Copy" in self._restoring.catalog.names:
                self._delete()
            self._restoring.loop.call_later(0.5, done, Skipped("no such table"), Position(0, 0))
        else:
            self._partition.submit(command, size, done)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._partition, name)


class Restoring(Database):
    """A source that had ITEMS items at the cut and has other ones now, and a copy of it as of the cut."""

    def __init__(self) -> None:
        super().__init__(DATA)
        reads = PastReads(RefoldReader(self.log), self.loop, self.log, is_shared=False)
        self.partitions[:] = [
            HistoricalPartition(partition, worker, reads)
            for partition, worker in zip(self.partitions, self.workers, strict=True)
        ]
        self.source = self.create("Source").definition.id
        for n in range(ITEMS):
            self.write(n, "then")
        self.cut_ms = max(worker.state.log_time for worker in self.workers)
        self.loop.advance(1)
        for n in range(ITEMS // 2, ITEMS * 2):
            self.write(n, "later")

    def write(self, n: int, value: str) -> None:
        pk = b"k%d" % n
        item = {"pk": {"S": f"k{n}"}, "g": {"S": value}}
        owner = partition_of_key(self.source, pk, DATA + 1)
        self.do(owner, Put(self.source, pk, b"", dump(item), item_size(item, MODERN), CONTEXT))

    def restore(self) -> None:
        """Submit the table command. The copy runs when the loop does."""
        source = {"Id": self.source, "Name": "Source", "Arn": "arn"}
        request = table_request("Copy", "pk:S", **INDEXES)
        request["Restore"] = {"Source": source, "TimeMs": self.cut_ms}
        self.submit(0, define("RestoreTableToPointInTime", 0, request))

    def run(self) -> None:
        for _ in range(200):
            self.loop.advance(0.01)

    def run_to(self, number: int) -> None:
        """Run until the copy needs the past of a partition, which cannot be read."""
        reachable = self.partitions[number]
        self.partitions[number] = Away(reachable)
        self.run()
        self.partitions[number] = reachable

    @property
    def status(self) -> str:
        return self.catalog.tables[self.catalog.names["Copy"]].definition.status

    def values(self, index: bool = False) -> set[bytes]:
        """The items of the copy in all partitions, or the entries of its index."""
        found = set()
        for number in range(1, DATA + 1):
            state = self.state(number)
            table = state.tables[state.names["Copy"]]
            store = table.indexes["by-g"].store if index else table.items
            found |= {stored[0] for _, _, _, stored in store.scan()}
        return found

    def loaded(self) -> list[LoadedItem]:
        """All items of the Loads in the log."""
        return [
            item
            for number in range(DATA + 1)
            for record in self.log.read(number)
            for command in record.entry.commands
            if isinstance(command, Load)
            for item in command.items
        ]


@pytest.fixture
def restoring(monkeypatch: pytest.MonkeyPatch) -> Restoring:
    monkeypatch.setattr(copy_sources, "PAGE_ITEMS", 4)
    return Restoring()


def test_a_copy_has_the_items_of_the_cut(restoring: Restoring) -> None:
    restoring.restore()
    restoring.run()

    then = {dump({"pk": {"S": f"k{n}"}, "g": {"S": "then"}}) for n in range(ITEMS)}
    assert "ACTIVE" == restoring.status
    assert then == restoring.values() == restoring.values(index=True)
    assert ITEMS == len(restoring.loaded())
    assert {} == restoring.catalog.restores


def test_a_copy_from_a_node_of_the_release_before_is_the_same(restoring: Restoring) -> None:
    restoring.partitions[:] = [Earlier(partition) for partition in restoring.partitions]
    restoring.restore()
    restoring.run()

    other = Restoring()
    other.restore()
    other.run()

    assert ITEMS == len(restoring.loaded())
    assert other.loaded() == restoring.loaded()


def test_a_portion_does_not_wait_for_the_answers_of_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restores, "PORTION_ITEMS", 2)
    monkeypatch.setattr(restores, "UNANSWERED_ITEMS", 5)
    restoring = Restoring()
    silent = [Silent(partition) for partition in restoring.partitions]
    restoring.partitions[:] = silent

    restoring.restore()
    restoring.run()

    assert 6 == sum(each.items for each in silent)


def test_the_next_partition_is_read_while_items_are_loaded() -> None:
    restoring = Restoring()
    silent = [Silent(partition) for partition in restoring.partitions]
    restoring.partitions[:] = silent

    restoring.restore()
    restoring.run()

    assert [0, 1, 1, 0] == [each.pages for each in silent]


def test_the_next_owner_continues_after_the_last_progress(restoring: Restoring) -> None:
    restoring.restore()
    restoring.run_to(2)
    restoring.owners[0].close()
    restoring.loop.settle()
    before = len(restoring.loaded())

    restoring.owners[0] = restoring.owner(0)
    restoring.owners[0].start()
    restoring.run()

    assert before < ITEMS
    assert "ACTIVE" == restoring.status
    assert ITEMS == len(restoring.values())
    assert len(restoring.loaded()) <= ITEMS + copy_sources.PAGE_ITEMS


def test_two_owners_copy_the_same_items(restoring: Restoring) -> None:
    restoring.restore()
    other = restoring.owner(0)
    other.start()
    restoring.run()

    assert "ACTIVE" == restoring.status
    assert ITEMS == len(restoring.values()) == len(restoring.values(index=True))
    assert ITEMS < len(restoring.loaded())


def test_a_deleted_table_ends_its_copy(restoring: Restoring) -> None:
    restoring.restore()
    restoring.run_to(2)
    loaded = len(restoring.loaded())
    restoring.submit(0, define("DeleteTable", restoring.catalog.names["Copy"], {"TableName": "Copy"}))
    restoring.run()

    assert "Copy" not in restoring.catalog.names
    assert 0 < loaded == len(restoring.loaded()) < ITEMS
    assert {} == restoring.catalog.restores


def test_a_copy_whose_table_is_deleted_before_a_load_is_no_failure(
    restoring: Restoring, caplog: pytest.LogCaptureFixture
) -> None:
    def delete() -> None:
        restoring.submit(0, define("DeleteTable", restoring.catalog.names["Copy"], {"TableName": "Copy"}))

    restoring.partitions[:] = [Deleted(each, restoring, delete) for each in restoring.partitions]
    restoring.restore()
    restoring.run()

    assert "Copy" not in restoring.catalog.names
    assert {} == restoring.catalog.restores
    assert [] == caplog.messages


def test_a_source_that_cannot_be_read_is_read_again(
    restoring: Restoring, caplog: pytest.LogCaptureFixture
) -> None:
    reachable = restoring.partitions[2]
    away = restoring.partitions[2] = Away(reachable)
    restoring.restore()
    for _ in range(3):
        restoring.loop.advance(1)
    waiting = restoring.status
    restoring.partitions[2] = reachable
    restoring.loop.advance(1)
    restoring.run()

    assert ("CREATING", "ACTIVE") == (waiting, restoring.status)
    assert away.refused > 1
    assert ITEMS == len(restoring.values())
    assert ["cannot continue the restore of table 2: moved; trying again every second"] == [
        record.message for record in caplog.records
    ]


def test_progress_of_a_deleted_table_has_no_effect(restoring: Restoring) -> None:
    [outcome] = restoring.do(0, RestoreProgress(99, b"", True, CONTEXT))

    assert "Skipped" == type(outcome).__name__
