"""Injected conflicts, which an application on DynamoDB has to expect."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

import foldb
from foldb.log.commands import Command, Delete, Position, new_context
from foldb.materializer.fold.outcomes import Outcome, Refused
from foldb.server.partitions.partition_chain import ConflictingPartition
from tests.support.tables import table_request


class Partition:
    """A partition that counts its commands."""

    def __init__(self) -> None:
        self.commands = 0

    def submit(self, command: Command, size: int, done: object) -> None:
        self.commands += 1

    get = get_all = get_isolated = query = scan = reach = status = submit


@pytest.fixture
def client(connect: Callable[[str], Any]) -> Iterator[Any]:
    with foldb.serve(transaction_conflicts=1.0) as server:
        resource = connect(server.endpoint_url)
        resource.create_table(**table_request("Things", "pk:S"))
        yield resource.meta.client


def test_a_write_meets_a_conflict(client: Any) -> None:
    with pytest.raises(client.exceptions.TransactionConflictException):
        client.put_item(TableName="Things", Item={"pk": "a"})

    assert [] == client.scan(TableName="Things")["Items"]


@pytest.mark.spec("S81")
def test_a_transaction_meets_a_conflict_at_one_of_its_items(client: Any) -> None:
    puts = [{"Put": {"TableName": "Things", "Item": {"pk": key}}} for key in "abc"]
    gets = [{"Get": {"TableName": "Things", "Key": {"pk": key}}} for key in "abc"]

    for transact, items in ((client.transact_write_items, puts), (client.transact_get_items, gets)):
        with pytest.raises(client.exceptions.TransactionCanceledException) as cancelled:
            transact(TransactItems=items)
        assert ["None", "None", "TransactionConflict"] == sorted(codes(cancelled.value))
    assert [] == client.scan(TableName="Things")["Items"]


def test_a_batch_returns_conflicting_writes_as_unprocessed(client: Any) -> None:
    """Also if all of them conflict: SDKs do not know a conflict as an error of this operation."""
    requests = {"Things": [{"PutRequest": {"Item": {"pk": key}}} for key in "ab"]}

    assert requests == client.batch_write_item(RequestItems=requests)["UnprocessedItems"]
    assert [] == client.scan(TableName="Things")["Items"]


@pytest.mark.parametrize(("drawn", "refused"), [(b"\x3f\xff\xff\xff", True), (b"\x40\0\0\0", False)])
def test_chance_decides_by_the_rate(drawn: bytes, refused: bool) -> None:
    outcomes: list[Outcome] = []
    partition = Partition()
    conflicting = ConflictingPartition(partition, 0.25, lambda _: drawn, lambda: Position(0, 7))  # type: ignore[arg-type]

    conflicting.submit(Delete(1, b"a", b"", new_context("R")), 0, lambda outcome, _: outcomes.append(outcome))

    assert refused == bool(outcomes)
    assert refused != bool(partition.commands)
    assert all(isinstance(outcome, Refused) for outcome in outcomes)


def codes(error: ClientError) -> list[str]:
    return [reason["Code"] for reason in error.response["CancellationReasons"]]
