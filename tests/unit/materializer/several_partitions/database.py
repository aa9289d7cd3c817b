"""A database of several partitions on one log in memory, with a clock that the test controls."""

from collections.abc import Callable
from typing import Any

from foldb.log.commands import Action, Command, Transact
from foldb.log.memory_log import MemoryLog
from foldb.materializer.consistent_partition import ConsistentPartition
from foldb.materializer.fold.outcomes import Failed, Outcome
from foldb.materializer.fold.state import PartitionState, Table
from foldb.materializer.local_partition import LocalPartition
from foldb.materializer.long_reads import LongReads
from foldb.materializer.owner import Owner, OwnerSettings
from foldb.materializer.partition import ResultPosition
from foldb.materializer.worker import Worker
from foldb.model.errors import ServiceUnavailableError
from foldb.model.slots import partition_of_key
from foldb.model.values import Item
from tests.unit.materializer.fake_loop import FakeLoop
from tests.unit.materializer.ledger import CONTEXT, define, table_request

Answers = list[tuple[Outcome, ResultPosition]]


class Nowhere:
    """A partition that cannot be reached."""

    def submit(self, command: Command, size: int, done: Callable[[Outcome, ResultPosition], None]) -> None:
        done(Failed(ServiceUnavailableError()), None)  # type: ignore[arg-type]


class Database:
    """Partition 0 is the catalog; each partition has a worker, a `ConsistentPartition` and an owner."""

    def __init__(self, data: int = 2, *, log: MemoryLog | None = None, **owner: Any) -> None:
        self.loop = FakeLoop()
        self.log = log or MemoryLog(self.loop.clock, partitions=data + 1)
        self.owner_settings = {"sweep_interval": None, **owner}
        self.workers = [self._worker(number) for number in range(data + 1)]
        self.partitions: list[Any] = [
            ConsistentPartition(
                LocalPartition(worker, long_reads=LongReads(self.loop)),
                clock=self.loop.clock,
                scheduler=self.loop,
            )
            for worker in self.workers
        ]
        self.owners = [self.owner(number) for number in range(data + 1)]
        for owner_of in self.owners:
            owner_of.start()

    def _worker(self, number: int) -> Worker:
        worker = Worker(
            self.log,
            PartitionState(),
            origin=b"%016d" % self.log.end(number),
            scheduler=self.loop,
            partition=number,
            on_fatal=_fail,
        )
        worker.open()
        return worker

    def owner(self, number: int) -> Owner:
        """Return another owner of a partition."""
        return Owner(
            self.workers[number],
            self.partitions,
            OwnerSettings(**self.owner_settings),
            clock=self.loop.clock,
            scheduler=self.loop,
        )

    @property
    def catalog(self) -> PartitionState:
        return self.workers[0].state

    def state(self, number: int) -> PartitionState:
        return self.workers[number].state

    def ends(self) -> list[int]:
        return [self.log.end(number) for number in range(len(self.workers))]

    def submit(self, number: int, command: Command) -> Answers:
        """Submit to a partition, and return the list that receives the answer."""
        answers: Answers = []
        self.partitions[number].submit(command, 100, lambda outcome, at: answers.append((outcome, at)))
        return answers

    def do(self, number: int, *commands: Command) -> list[Outcome]:
        """Submit, run until all is at rest, and return the outcomes."""
        answers = [self.submit(number, command) for command in commands]
        self.loop.settle()
        return [outcome for each in answers for outcome, _ in each]

    def create(self, name: str = "Orders", **settings: Any) -> Table:
        """Create a table, and return the catalog's."""
        self.do(0, define("CreateTable", 0, table_request(name, **settings)))
        return self.catalog.tables[self.catalog.names[name]]

    def key_in(self, number: int, table: Table, nth: int = 0) -> Item:
        """Return the nth key of the table in a partition."""
        found = (
            {"pk": {"S": f"k{n}"}}
            for n in range(100_000)
            if partition_of_key(table.definition.id, b"k%d" % n, len(self.workers)) == number
        )
        for _ in range(nth):
            next(found)
        return next(found)

    def items(self, number: int, table: Table) -> int:
        """Return the number of the table's items in a partition."""
        return self.state(number).tables[table.definition.id].items.count


def transact(*actions: Action, token: str | None = None) -> Transact:
    return Transact(list(actions), CONTEXT, token, b"fingerprint" if token else b"")


def _fail(error: BaseException) -> None:
    raise error
