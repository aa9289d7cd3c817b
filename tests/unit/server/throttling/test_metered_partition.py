"""A metered partition follows the tables of the catalog, and takes the whole cost of each request."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from foldb.log.commands import Position, Put, Transact, Update, new_context
from foldb.materializer.fold.outcomes import Applied, Failed, Outcome, Refused, TransactionRefused
from foldb.materializer.fold.storage import Stored
from foldb.materializer.partition import Page, QueryRequest
from foldb.model.capacity_partitions import Boundary
from foldb.model.errors import (
    ConditionalCheckFailedError,
    ProvisionedThroughputExceededError,
    RequestError,
    TransactionCanceledError,
)
from foldb.model.keys import key_hash
from foldb.model.values import dump
from foldb.server.throttling.load_sampler import LoadSampler
from foldb.server.throttling.metered_partition import MeteredPartition, item_in
from foldb.server.throttling.meters import Policy
from foldb.server.usage.usage import TableUsage
from tests.support.tables import table_request
from tests.unit.materializer.ledger import Ledger, define
from tests.unit.materializer.splitting import split_command
from tests.unit.server.routing.fake_partitions import FakePartition

KEY = b"pk", b""
CONTEXT = new_context("R")
EMPTY_AT = Position(0, 0)


class Fixed(FakePartition):
    """Answers each request with the same result."""

    item: Stored | RequestError | None = None
    outcome: Outcome

    def get(self, table: int, pk: bytes, sk: bytes, consistent: bool, done: Any) -> None:
        done(self.item, EMPTY_AT)

    def get_all(self, keys: Any, consistent: bool, done: Any) -> None:
        done(self.item if isinstance(self.item, RequestError) else [self.item] * len(keys), EMPTY_AT)

    def submit(self, command: Any, size: int, done: Any) -> None:
        done(self.outcome, EMPTY_AT)


class Metered:
    """A table with ten units a second, whose bucket is full at the start: it has ten units."""

    def __init__(self, **table: Any) -> None:
        self.ledger = Ledger()
        throughput = {"ReadCapacityUnits": 10, "WriteCapacityUnits": 10}
        settings = {"BillingMode": "PROVISIONED", "ProvisionedThroughput": throughput} | table
        self.table = self.ledger.create("T", **settings).definition.id
        self.fixed = Fixed(0, self.ledger.state.tables)
        self.now = 0.0
        self.sampler = LoadSampler(random.Random(1))
        self.partition = metered(self.fixed, self.ledger, lambda: self.now, self.sampler)

    def left(self) -> tuple[int, int]:
        """Return the read and write units that the table has left."""
        own = self.partition._tables[self.table].own
        return own.read.bucket.balance // 2_000_000, own.write.bucket.balance // 2_000_000

    def put(self, size: int, outcome: Outcome) -> None:
        self.fixed.outcome = outcome
        self.partition.submit(Put(self.table, *KEY, b"{}", size, CONTEXT), size, lambda *_: None)

    def update(self, outcome: Outcome) -> None:
        self.fixed.outcome = outcome
        self.partition.submit(Update(self.table, *KEY, CONTEXT), 1, lambda *_: None)

    def query(self, pk: bytes, low: bytes) -> bool:
        """Query from a sort key on, and return whether that is refused."""
        answers: list[Page | RequestError] = []
        request = QueryRequest(self.table, None, pk, low, None)
        self.partition.query(request, lambda page, _: answers.append(page))
        return any(isinstance(answer, RequestError) for answer in answers)

    def applied(self, old: int, new: int) -> Applied:
        before, after = ((b"{}", size) if size else None for size in (old, new))
        return Applied(Update(self.table, *KEY, CONTEXT), before, after, 1, 1)


def metered(
    partition: FakePartition,
    ledger: Ledger,
    seconds: Callable[[], float] = lambda: 0.0,
    sampler: LoadSampler | None = None,
) -> MeteredPartition:
    return MeteredPartition(
        partition,
        ledger.state,
        lambda key: item_in(ledger.state, key),
        sampler or LoadSampler(random.Random(1)),
        policy=Policy(),
        seconds=seconds,
        position=lambda: EMPTY_AT,
    )


def test_the_meters_of_dropped_tables_are_freed() -> None:
    ledger = Ledger()
    partition = metered(FakePartition(0, ledger.state.tables), ledger)

    for _ in range(5):
        table = ledger.create("T").definition.id
        partition.get(table, b"pk", b"", True, lambda *_: None)
        ledger.fold(define("DeleteTable", table, {"TableName": "T"}))
    kept = ledger.create("Kept").definition.id
    partition.get(kept, b"pk", b"", True, lambda *_: None)

    assert [kept] == list(partition._tables)


@pytest.mark.spec("S38", served=False)
@pytest.mark.parametrize(
    ("size", "consistent", "left"),
    [(0, True, 9), (4096, True, 9), (4097, True, 8), (8192, True, 8), (8193, True, 7), (16_384, False, 8)],
)
def test_a_read_takes_a_unit_for_each_block(size: int, consistent: bool, left: int) -> None:
    table = Metered()
    table.fixed.item = (b"{}", size) if size else None
    table.partition.get(table.table, *KEY, consistent, lambda *_: None)
    assert (left, 10) == table.left()


def test_a_failed_read_costs_nothing() -> None:
    table = Metered()
    table.fixed.item = RequestError("The log is closed")
    table.partition.get(table.table, *KEY, True, lambda *_: None)
    table.partition.get_all([(table.table, *KEY)] * 3, True, lambda *_: None)
    assert (10, 10) == table.left()


@pytest.mark.spec("S84", served=False)
def test_reads_of_a_batch_are_admitted_together_or_not() -> None:
    table = Metered()
    table.fixed.item = (b"{}", 5000)
    answers: list[Any] = []
    key = table.table, *KEY
    table.partition.get_all([key] * 11, True, lambda found, _: answers.append(found))
    assert isinstance(answers.pop(), ProvisionedThroughputExceededError)
    assert (10, 10) == table.left()
    table.partition.get_all([key] * 10, True, lambda found, _: answers.append(found))
    assert [[(b"{}", 5000)] * 10] == answers
    assert (-10, 10) == table.left()


@pytest.mark.spec("S38", served=False)
@pytest.mark.parametrize(
    ("old", "new", "left"), [(0, 1024, 9), (0, 1025, 8), (5000, 100, 5), (100, 5000, 5), (3000, 0, 7)]
)
def test_a_write_takes_the_units_of_the_larger_image(old: int, new: int, left: int) -> None:
    table = Metered()
    table.update(table.applied(old, new))
    assert (10, left) == table.left()


def test_a_put_takes_the_units_of_the_larger_image() -> None:
    table = Metered()
    table.put(2000, table.applied(5000, 2000))
    assert (10, 5) == table.left()


def test_a_refused_write_costs_its_units_and_a_failed_one_none() -> None:
    table = Metered()
    table.put(5000, Refused(ConditionalCheckFailedError(), 3))
    assert (10, 7) == table.left()
    table.put(5000, Failed(RequestError("The disk is full")))
    assert (10, 7) == table.left()


class Coloured(Metered):
    """A table with 10,000 write units, and an index of the colours of its items with as many or some other number."""

    def __init__(self, units: int = 10_000, index_units: int = 10_000) -> None:
        request = table_request("T", "pk:S", gsi={"ByColour": "colour:S"})
        own, other = (
            {"ProvisionedThroughput": {"ReadCapacityUnits": 10, "WriteCapacityUnits": each}}
            for each in (units, index_units)
        )
        (index,) = request["GlobalSecondaryIndexes"]
        names = request["AttributeDefinitions"]
        super().__init__(GlobalSecondaryIndexes=[index | other], AttributeDefinitions=names, **own)
        self.number = 0

    def write(self, colour: str | None, index_units: int, *, old: str | None = None) -> str | None:
        """Put an item, or change the colour of one. Return the reason if it is refused."""
        self.number += 1
        pk = b"%d" % self.number
        before, after = (None if each is None else coloured(pk, each) for each in (old, colour))
        image = after or coloured(pk, None)
        put = Put(self.table, pk, b"", image, 100, CONTEXT)
        stored = None if before is None else (before, 100)
        glob = {"ByColour": index_units} if index_units else None
        self.fixed.outcome = Applied(put, stored, (image, 100), 1, 1, glob=glob)
        answers: list[Outcome] = []
        self.partition.submit(put, 100, lambda outcome, _: answers.append(outcome))
        (answer,) = answers
        return answer.error.fields()["ThrottlingReasons"][0]["reason"] if isinstance(answer, Failed) else None


def test_a_transaction_names_the_index_without_capacity() -> None:
    table = Coloured()
    table.write("red", 1001)
    put = Put(table.table, b"new", b"", coloured(b"new", "red"), 100, CONTEXT)
    answers: list[Outcome] = []
    table.partition.submit(Transact([put], CONTEXT), 100, lambda outcome, _: answers.append(outcome))
    usage = TableUsage()

    [refused] = answers
    assert isinstance(refused, TransactionRefused)
    assert isinstance(refused.error, TransactionCanceledError)
    for reason in refused.error.reasons:
        usage.count_reason(b"new", reason)

    assert (0, 0) == usage.write_throttles.total
    assert (1, 1) == usage.part("ByColour").write_throttles.total


def coloured(pk: bytes, colour: str | None) -> bytes:
    attributes = {"pk": {"S": pk.decode()}} | ({} if colour is None else {"colour": {"S": colour}})
    return dump(attributes)


@pytest.mark.spec("S24", "S64", served=False)
def test_a_hot_key_of_an_index_refuses_writes_of_its_table() -> None:
    table = Coloured()
    assert table.write("red", 999) is None
    assert table.write("red", 2) is None  # 1,001 units of one capacity partition
    assert "IndexWriteKeyRangeThroughputExceeded" == table.write("red", 1)
    assert table.write("blue", 1) is None
    assert table.write(None, 0) is None


def test_an_entry_that_leaves_an_index_costs_its_old_key() -> None:
    table = Coloured()
    assert table.write(None, 1001, old="red") is None
    assert "IndexWriteKeyRangeThroughputExceeded" == table.write("red", 1)


def test_a_capacity_partition_of_an_index_refills() -> None:
    table = Coloured()
    table.write("red", 1100)
    table.now = 0.1
    assert "IndexWriteKeyRangeThroughputExceeded" == table.write("red", 1)
    table.now = 0.11
    assert table.write("red", 1) is None


def test_an_idle_partition_of_an_index_has_the_units_of_a_second() -> None:
    """A refill after the writes would add the units of the idle time to those that they took."""
    table = Coloured()
    table.write("red", 1)
    table.now = 10.0
    assert 10 == sum(table.write("red", 100) is None for _ in range(20))


def test_a_query_draws_on_the_partition_of_its_first_key() -> None:
    """So a collection that is divided by sort key serves more queries than one capacity partition."""
    request = table_request("T", "pk:S", "sk:S")
    table = Metered(**{name: request[name] for name in ("KeySchema", "AttributeDefinitions")})
    hash_ = key_hash(table.table, b"day")
    definition = table.ledger.state.tables[table.table].definition
    table.ledger.fold(split_command(definition, 0, Boundary(hash_, b"day", b"m")))
    table.now = 1.0
    table.partition.get(table.table, b"day", b"a", True, lambda *_: None)
    own = table.partition._tables[table.table].own
    low, high = own.at(b"day", b"a").read, own.at(b"day", b"x").read
    low.balance = 0

    refused = [table.query(b"day", first) for first in (b"", b"l", b"m", b"x")]

    assert high.balance > 0
    assert [True, True, False, False] == refused
