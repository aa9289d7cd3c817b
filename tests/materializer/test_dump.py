"""A dump tells two states apart, and only two states."""

import struct
from collections.abc import Callable
from itertools import permutations

import pytest

from foldb.log.commands import Command, Genesis, Level
from foldb.materializer.fold import fold
from foldb.materializer.fold.dump import digest, digest_of, dump, dump_table
from foldb.materializer.fold.state import PartitionState, Table

from .ledger import CONTEXT, Ledger, define, delete, index_request, put, table_request


def framed(data: bytes) -> list[tuple[bytes, bytes]]:
    """Read (kind, payload) back."""
    frames, at = [], 0
    while at < len(data):
        kind, length = struct.unpack_from(">cI", data, at)
        frames.append((kind, data[at + 5 : at + 5 + length]))
        at += 5 + length
    return frames


def busy() -> tuple[Ledger, Table]:
    ledger = Ledger()
    table = ledger.create(
        "Orders",
        "pk:S sk:S",
        LocalSecondaryIndexes=[index_request("local", "pk", "l")],
        GlobalSecondaryIndexes=[index_request("global", "l", "sk")],
    )
    for number in range(30):
        ledger.fold(put(table, order(number)))
    return ledger, table


def order(number: int) -> dict[str, dict[str, str]]:
    return {"pk": {"S": f"o-{number % 7}"}, "sk": {"S": f"{number}"}, "l": {"S": f"{number % 3}"}}


def test_a_dump_can_be_read_back_frame_by_frame() -> None:
    ledger, _ = busy()

    frames = framed(b"".join(dump(ledger.state)))

    assert b"SO" + b"T" + b"I" * 30 + b"X" + b"I" * 30 + b"X" + b"I" * 30 + b"." == b"".join(
        kind for kind, _ in frames
    )
    lengths = struct.unpack_from(">IIII", frames[3][1])
    assert sum(lengths[:3]) + 16 == len(frames[3][1])


def test_the_same_log_makes_the_same_digest() -> None:
    ledger, _ = busy()
    again = PartitionState()
    for record in ledger.records:
        fold(again, record)

    assert digest(ledger.state) == digest(again)
    assert len(digest(again)) == 64


def test_the_order_in_which_items_came_does_not_show() -> None:
    seen = set()
    for numbers in permutations((0, 7, 14, 3)):
        ledger = Ledger()
        table = ledger.create("Orders", "pk:S sk:S")
        for number in numbers:
            ledger.fold(put(table, order(number)))
        seen.add(digest_of(dump_table(table)))

    assert len(seen) == 1


def test_items_that_came_and_went_do_not_show() -> None:
    ledger, table = busy()
    before = digest_of(dump_table(table))

    for number in range(30, 60):
        ledger.fold(put(table, order(number)))
    for number in range(30, 60):
        item = order(number)
        ledger.fold(delete(table, {"pk": item["pk"], "sk": item["sk"]}))

    assert before == digest_of(dump_table(table))


@pytest.mark.parametrize(
    "command",
    [
        lambda table: put(table, order(99)),
        lambda table: put(table, {**order(1), "new": {"S": "x"}}),
        lambda table: define("DeleteTable", table.definition.id, {"TableName": "Orders"}),
        lambda _: define("CreateTable", 0, table_request("Other")),
        lambda _: Level(1, CONTEXT),
    ],
)
def test_whatever_is_folded_shows(command: Callable[[Table], Command]) -> None:
    ledger, table = busy()
    before = digest(ledger.state)

    ledger.fold(command(table))

    assert before != digest(ledger.state)


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.origins.update({b"x" * 16: 1}),
        lambda state: setattr(state, "log_time", state.log_time + 1),
        lambda state: setattr(state, "next_id", state.next_id + 1),
        lambda state: setattr(state, "level", 9),
        lambda state: state.names.update(Alias=1),
        lambda state: next(iter(state.tables.values())).indexes["global"].store.remove(b"1", b""),
        lambda state: setattr(next(iter(state.tables.values())).indexes["global"], "cursor", (1, b"", b"")),
        lambda state: state.begin(Genesis(b"y" * 16, 0, 1, 0, 1, "blake2b-64", "modern")),
    ],
)
def test_every_part_of_the_state_is_in_the_digest(change: Callable[[PartitionState], object]) -> None:
    ledger, table = busy()
    index = table.indexes["global"].store
    index.put(b"1", b"", (b"{}", 2))
    before = digest(ledger.state)

    change(ledger.state)

    assert before != digest(ledger.state)


def test_an_order_that_matters_shows() -> None:
    """The least recently used origin is forgotten first, so its place in the order is state."""
    one, other = PartitionState(), PartitionState()
    one.origins = {b"a" * 16: 1, b"b" * 16: 1}
    other.origins = {b"b" * 16: 1, b"a" * 16: 1}

    assert digest(one) != digest(other)
