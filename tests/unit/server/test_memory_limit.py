"""A database that may not outgrow its memory."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

import foldb
from foldb.cli.lib.client import Client
from foldb.log.commands import Delete, Position, Put, new_context
from foldb.materializer.fold.outcomes import Failed, Outcome
from foldb.materializer.fold.state import PartitionState, Table
from foldb.model.key_schema import KeyAttribute, KeySchema
from foldb.model.tables import TableDefinition
from foldb.server.partitions.memory_limit import ITEM_OVERHEAD, BoundedPartition, MemoryLimit, bytes_in
from tests.support.tables import table_request
from tests.unit.materializer.fake_loop import FakeLoop
from tests.verification.fuzz.inside import Inside


class Taken:
    """A partition that records its commands."""

    def __init__(self) -> None:
        self.commands: list[object] = []

    def submit(self, command: object, size: int, done: object) -> None:
        self.commands.append(command)

    get = get_all = get_isolated = query = scan = reach = status = feed = as_of = submit


def state_of(count: int) -> tuple[PartitionState, Table]:
    key = KeySchema((KeyAttribute("pk", "S"),))
    table = Table(TableDefinition(1, "Cars", "uuid", key, {"pk": "S"}, created_ms=0))
    for n in range(count):
        table.items.put(b"%d" % n, b"", (b"{}", 100))
    return PartitionState(tables={1: table}, names={"Cars": 1}), table


def test_counts_include_the_overhead_of_items_and_entries() -> None:
    stores = [state_of(3)[1].items, state_of(2)[1].items]

    assert 5 * (100 + ITEM_OVERHEAD) == bytes_in(stores)


@pytest.mark.guarantee("G49")
def test_past_the_limit_puts_are_refused_until_deletes_make_room() -> None:
    _, table = state_of(3)
    loop, taken = FakeLoop(), Taken()
    memory = MemoryLimit(1000, lambda: bytes_in([table.items]), loop)
    bounded = BoundedPartition(taken, memory, lambda: Position(0, 7))  # type: ignore[arg-type]
    memory.start()
    put = Put(1, b"x", b"", b"{}", 2, new_context("R"))
    delete = Delete(1, b"0", b"", new_context("R"))
    outcomes: list[Outcome] = []

    bounded.submit(put, 2, lambda outcome, _: outcomes.append(outcome))
    bounded.submit(delete, 2, lambda outcome, _: outcomes.append(outcome))

    (refused,) = outcomes
    assert isinstance(refused, Failed)
    assert "RequestLimitExceeded" == refused.error.wire_name
    assert [delete] == taken.commands

    table.items.remove(b"0", b"")
    loop.advance(1.0)
    bounded.submit(put, 2, lambda outcome, _: outcomes.append(outcome))
    assert [delete, put] == taken.commands


@pytest.mark.spec("S102")
def test_a_full_database_refuses_writes_and_goes_on_reading(connect: Callable[[str], Any]) -> None:
    with foldb.serve(memory_limit_bytes=1) as server:
        resource = connect(server.endpoint_url)
        table = resource.create_table(**table_request("Full", "pk:S"))
        table.put_item(Item={"pk": "a"})  # it is looked at once a second, so this one still goes in
        client = Client(server.endpoint_url)
        while client.admin("Status")["Refusing"] is False:
            pass
        with pytest.raises(ClientError, match="its limit: delete items") as refused:
            table.put_item(Item={"pk": "b"})
        status = client.admin("Status")
        client.close()

        assert "RequestLimitExceeded" == refused.value.response["Error"]["Code"]
        assert 1 == status["MemoryLimit"]
        assert status["MemoryBytes"] > 1
        assert {"pk": "a"} == table.get_item(Key={"pk": "a"})["Item"]


def test_replaced_images_take_no_memory_after_the_lag() -> None:
    inside = Inside(read_lag_ms=3000, memory_limit_bytes=5000)
    inside.ask("CreateTable", table_request("Cars", "pk:S"))
    item = {"pk": {"S": "1"}, "x": {"S": "x" * 500}}

    def put() -> int:
        return inside.ask("PutItem", {"TableName": "Cars", "Item": item})[0]

    assert [200] * 9 == [put() for _ in range(9)]
    inside.loop.advance(1)
    assert put() == 400
    inside.loop.advance(3)
    assert put() == 200
