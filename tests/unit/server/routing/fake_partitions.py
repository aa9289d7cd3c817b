"""Partitions that each serve their slots of one folded state."""

from collections.abc import Callable, Sequence
from typing import Any

from foldb.log.commands import Command, Position
from foldb.materializer.fold.outcomes import Completed, Outcome
from foldb.materializer.fold.state import PartitionState, Table
from foldb.materializer.fold.storage import Store
from foldb.materializer.partition import (
    Conflict,
    EncodedKey,
    Found,
    Page,
    QueryRequest,
    ResultPosition,
    ScanRequest,
    Since,
)
from foldb.model.errors import RequestError
from foldb.model.slots import partition_of_key
from tests.support.pages import read_page


class FakePartition:
    """Answers at once, records its requests, and can be set to refuse them.

    Attributes:
        offset: The offset of its position; tests advance it.
        conflicts: Keys that cannot be read in isolation, by the number of earlier requests.
        error: The answer to every read, if it is set.
    """

    def __init__(self, number: int, tables: dict[int, Table]) -> None:
        self.number = number
        self.tables = tables
        self.offset = 10 * number
        self.asked: list[str] = []
        self.submitted: list[Command] = []
        self.outcomes: list[Outcome] = []
        self.since: list[Since] = []
        self.conflicts: dict[int, set[EncodedKey]] = {}
        self.reached: list[ResultPosition] = []
        self.error: RequestError | None = None

    @property
    def position(self) -> Position:
        return Position(self.number, self.offset)

    def submit(self, command: Command, size: int, done: Callable[[Outcome, ResultPosition], None]) -> None:
        self.submitted.append(command)
        done(self.outcomes.pop(0) if self.outcomes else Completed(progressed=True), self.position)

    def get(
        self, table: int, pk: bytes, sk: bytes, consistent: bool, done: Callable[[Any, ResultPosition], None]
    ) -> None:
        self.asked.append("get")
        done(self.error or self.tables[table].items.get(pk, sk), self.position)

    def get_all(
        self, keys: Sequence[EncodedKey], consistent: bool, done: Callable[[Any, ResultPosition], None]
    ) -> None:
        self.asked.append("get_all")
        done(self.error or [self.tables[table].items.get(pk, sk) for table, pk, sk in keys], self.position)

    def get_isolated(
        self, keys: Sequence[EncodedKey], since: Since, done: Callable[[Any, ResultPosition], None]
    ) -> None:
        held = self.conflicts.get(len(self.since), set())
        self.since.append(since)
        found: list[Found] = [
            Conflict() if key in held else self.tables[key[0]].items.get(*key[1:]) for key in keys
        ]
        done(self.error or found, self.position)

    def query(
        self, request: QueryRequest, done: Callable[[Page | RequestError, ResultPosition], None]
    ) -> None:
        self.asked.append("query")
        done(self.error or read_page(self.tables[request.table], request), self.position)

    def scan(self, request: ScanRequest, done: Callable[[Page | RequestError, ResultPosition], None]) -> None:
        self.asked.append("scan")
        done(self.error or read_page(self.tables[request.table], request), self.position)

    def reach(self, position: ResultPosition, done: Callable[[RequestError | None], None]) -> None:
        self.reached.append(position)
        done(self.error)

    def status(self, table: int | None, done: Callable[[dict[str, Any] | RequestError], None]) -> None:
        done(self.error or {"offset": self.offset})


def spread(state: PartitionState, count: int) -> list[FakePartition]:
    """Return the catalog, and `count` partitions with the items and index entries of `state`."""
    tables = {
        number: {id_: Table(each.definition) for id_, each in state.tables.items()}
        for number in range(count + 1)
    }
    for id_, table in state.tables.items():
        _spread(table.items, [tables[n][id_].items for n in tables], id_)
        for name, index in table.indexes.items():
            owner = index.definition.id if index.definition.kind == "GSI" else id_
            _spread(index.store, [tables[n][id_].indexes[name].store for n in tables], owner)
    return [FakePartition(number, each) for number, each in tables.items()]


def _spread(whole: Store, parts: Sequence[Store], owner: int) -> None:
    for _, pk, sk, stored in whole.scan():
        parts[partition_of_key(owner, pk, len(parts))].put(pk, sk, stored)
