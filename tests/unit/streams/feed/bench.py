"""A partition with its feed, on a log in memory and a loop that the test advances."""

from typing import Any

from foldb.log.commands import Command
from foldb.log.memory_log import MemoryLog
from foldb.materializer.feed_requests import Changes, FeedRequest, ReadChanges
from foldb.materializer.fold.outcomes import Outcome
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.local_partition import LocalPartition
from foldb.materializer.long_reads import LongReads
from foldb.materializer.worker import Worker
from foldb.model.errors import RequestError
from foldb.streams.feed import Feed
from tests.unit.materializer.fake_loop import FakeLoop
from tests.unit.materializer.ledger import define, delete, put, table_request

SHARD_MS = 1000
STREAM: dict[str, Any] = {
    "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    "ShardAgeMs": SHARD_MS,
}
NO_STREAM: dict[str, Any] = {"StreamSpecification": {"StreamEnabled": False}}


class Bench:
    """One partition; a submitted command is folded before `submit` returns."""

    def __init__(self, log: MemoryLog | None = None) -> None:
        self.loop = FakeLoop()
        self.log = log or MemoryLog(self.loop.clock, level=3)
        state = PartitionState()
        self.feed = Feed(state, lambda: self.worker.position, self.loop)
        self.worker = Worker(
            self.log,
            state,
            origin=b"%016d" % self.log.end(0),
            scheduler=self.loop,
            capture=self.feed,
            on_fatal=_raise,
        )
        self.partition = LocalPartition(self.worker, self.feed.ask, long_reads=LongReads(self.loop))
        self.worker.open()

    def submit(self, *commands: Command) -> list[Outcome]:
        """Fold commands in one entry."""
        outcomes: list[Outcome] = []
        for command in commands:
            self.worker.submit(command, 100, lambda outcome, _: outcomes.append(outcome))
        self.loop.settle()
        return outcomes

    def create(self, name: str = "Orders", **settings: Any) -> int:
        """Create a table, with a stream by default. Return its id."""
        self.submit(define("CreateTable", 0, table_request(name, **(settings or STREAM))))
        return self.worker.state.names[name]

    def define(self, table: int, settings: dict[str, Any]) -> None:
        """Update a table's definition."""
        name = self.worker.state.tables[table].definition.name
        self.submit(define("UpdateTable", table, {"TableName": name, **settings}))

    def put(self, table: int, key: str, **attributes: Any) -> None:
        """Put an item."""
        self.submit(put(self.worker.state.tables[table], {"pk": {"S": key}, **attributes}))

    def delete(self, table: int, key: str) -> None:
        """Delete an item."""
        self.submit(delete(self.worker.state.tables[table], {"pk": {"S": key}}))

    def label(self, table: int) -> int:
        """Return the label of the newest stream."""
        stream = self.worker.state.tables[table].definition.stream
        assert stream is not None
        return stream.created_ms

    def ask(self, request: FeedRequest) -> list[Any]:
        """Send a request. Return the list that will receive the answer."""
        answers: list[Any] = []
        self.partition.feed(request, lambda answer, _: answers.append(answer))
        return answers

    def answer(self, request: FeedRequest) -> Any:
        """Send a request and return its answer."""
        [answer] = self.ask(request)
        assert not isinstance(answer, RequestError)
        return answer

    def read(self, table: int, after: int = 0, **more: Any) -> Changes:
        """Return a page of changes."""
        page: Changes = self.answer(ReadChanges(table, after, **more))
        return page


def _raise(error: BaseException) -> None:
    raise error
