"""Dumps of different states differ, dumps of equal states are equal; a loaded state equals the dumped one."""

import random
import struct
from collections.abc import Callable, Iterator
from itertools import permutations

import pytest

from foldb.log.commands import Backfill, Command, Genesis, Level, new_context
from foldb.materializer.fold import fold
from foldb.materializer.fold.dump import digest, digest_of, dump, dump_table
from foldb.materializer.fold.load import load
from foldb.materializer.fold.state import PartitionState, Table
from foldb.materializer.fold.storage import LISTS_UP_TO, MemoryStore
from tests.unit.materializer.ledger import CONTEXT, Ledger, define, delete, index_request, put, table_request
from tests.unit.materializer.random_log import random_log


def framed(data: bytes) -> list[tuple[bytes, bytes]]:
    """Return the (kind, payload) of each frame."""
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
def test_every_fold_changes_the_digest(command: Callable[[Table], Command]) -> None:
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
    """The least recently used origin is dropped first, so its place in the order is state."""
    one, other = PartitionState(), PartitionState()
    one.origins = {b"a" * 16: 1, b"b" * 16: 1}
    other.origins = {b"b" * 16: 1, b"a" * 16: 1}

    assert digest(one) != digest(other)


# Loading


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def reloaded(state: PartitionState, size: int = 1 << 20) -> PartitionState:
    return load(pieces(b"".join(dump(state)), size))


def eventful(seed: int) -> Ledger:
    """Return a random log with a half-filled index, a deleted table and entries of another process."""
    ledger = random_log(seed, length=60)
    table = ledger.state.table_named("T")
    assert table is not None
    gone = ledger.create("Gone")
    ledger.fold(put(gone, {"pk": {"S": "x"}}))
    ledger.fold(define("DeleteTable", gone.definition.id, {"TableName": "Gone"}))
    ledger.origin, ledger.number = b"o" * 16, 0
    attributes = [{"AttributeName": name, "AttributeType": kind} for name, kind in (("s", "S"), ("pk", "S"))]
    create = {"Create": index_request("late", "s", "pk")}
    ledger.fold(
        define(
            "UpdateTable",
            table.definition.id,
            {"TableName": "T", "AttributeDefinitions": attributes, "GlobalSecondaryIndexUpdates": [create]},
        )
    )
    ledger.fold(Backfill(table.definition.id, table.indexes["late"].definition.id, 3, new_context("B")))
    return ledger


@pytest.mark.parametrize("seed", range(8))
def test_a_loaded_dump_dumps_to_the_same_bytes_at_any_piece_size(seed: int) -> None:
    state = eventful(seed).state
    data = b"".join(dump(state))
    assert state.tokens
    assert state.tables[1].indexes["late"].cursor is not None

    for size in (1 << 20, random.Random(seed).randrange(1, 300), 5):
        assert data == b"".join(dump(load(pieces(data, size))))


@pytest.mark.parametrize("seed", range(8))
def test_a_loaded_state_folds_the_rest_of_the_log_alike(seed: int) -> None:
    ledger = eventful(seed)
    dice = random.Random(seed)

    for stop in sorted(dice.sample(range(1, len(ledger.records)), 5)):
        state = PartitionState()
        for record in ledger.records[:stop]:
            fold(state, record)
        state = reloaded(state)
        for record in ledger.records[stop:]:
            fold(state, record)

        assert b"".join(dump(ledger.state)) == b"".join(dump(state))


def test_orders_that_matter_are_kept() -> None:
    state = PartitionState()
    state.origins = {b"z" * 16: 1, b"a" * 16: 7}

    assert [*state.origins.items()] == [*reloaded(state).origins.items()]


@pytest.mark.parametrize("count", [1, 2, 20, LISTS_UP_TO, LISTS_UP_TO + 1, 3 * LISTS_UP_TO])
def test_a_collection_of_any_size_is_one_again_however_it_was_cut(count: int) -> None:
    ledger = Ledger()
    table = ledger.create("T", "pk:S sk:N")
    for number in range(count):
        ledger.fold(put(table, {"pk": {"S": "one"}, "sk": {"N": str(number)}}))
    ledger.fold(put(table, {"pk": {"S": "other"}, "sk": {"N": "1"}}))

    for size in (1 << 20, 5000, 333):
        items = reloaded(ledger.state, size).tables[1].items
        assert list(table.items.scan()) == list(items.scan())
        assert (table.items.count, table.items.size) == (items.count, items.size)
        assert table.items.collection_size(b"one") == items.collection_size(b"one")


@pytest.mark.parametrize("has_sort_key", [False, True])
@pytest.mark.parametrize("count", [1, 10, 1000, 20_000])
def test_every_item_is_found_under_its_key(count: int, has_sort_key: bool) -> None:
    put_one_by_one, extended = MemoryStore(7, has_sort_key), MemoryStore(7, has_sort_key)
    for number in range(count):
        sk = b"%d" % (number % 3) if has_sort_key else b""
        put_one_by_one.put(b"%d" % (number // 2 if has_sort_key else number), sk, (b"%d" % number, number))
    scanned = [(pk, sk, stored) for _, pk, sk, stored in put_one_by_one.scan()]
    for at in range(0, count, 777):
        pks, sks, items = zip(*scanned[at : at + 777], strict=True)
        extended.extend(pks, sks, items)

    assert list(put_one_by_one.scan()) == list(extended.scan())
    assert [*put_one_by_one.scan()] == [*extended.scan()]
    assert all(extended.get(pk, sk) == stored for pk, sk, stored in scanned)
    for pk, sk, _ in scanned:
        extended.remove(pk, sk)
    assert (0, 0, []) == (extended.count, extended.size, [*extended.scan()])


def test_a_loaded_store_can_be_written_to_like_any_other() -> None:
    ledger = Ledger()
    table = ledger.create("T", "pk:S sk:N")
    items = [{"pk": {"S": str(n % 5)}, "sk": {"N": str(n)}} for n in range(100)]
    for item in items[::2]:
        ledger.fold(put(table, item))
    again = reloaded(ledger.state)

    for item in items:
        record = ledger.record(put(table, item))
        fold(ledger.state, record)
        fold(again, record)

    assert b"".join(dump(ledger.state)) == b"".join(dump(again))


def test_an_index_of_everything_holds_no_second_copy_of_an_item() -> None:
    ledger = Ledger()
    table = ledger.create("T", GlobalSecondaryIndexes=[index_request("all", "g")])
    ledger.fold(put(table, {"pk": {"S": "p"}, "g": {"S": "q"}}))

    table = reloaded(ledger.state).tables[1]

    [(_, _, _, item)], [(_, _, _, entry)] = table.items.scan(), table.indexes["all"].store.scan()
    assert item[0] is entry[0]


def test_a_loaded_item_does_not_keep_its_piece_alive() -> None:
    """A slice of bytes that covers all of them is the same object: an item must never be a whole piece."""
    ledger = Ledger()
    table = ledger.create("T")
    ledger.fold(put(table, {"pk": {"S": "p"}}))
    data = b"".join(dump(ledger.state))

    [(_, _, _, (item, _))] = load([data]).tables[1].items.scan()

    assert type(item) is bytes
    assert len(item) < 50


def test_limits_that_were_set_are_the_same_again() -> None:
    ledger = Ledger("2012,global_indexes=7")

    assert ledger.state.limits == reloaded(ledger.state).limits


@pytest.mark.parametrize("seed", range(3))
def test_a_dump_that_is_cut_short_is_no_dump(seed: int) -> None:
    data = b"".join(dump(eventful(seed).state))

    for end in range(0, len(data), 101):
        with pytest.raises(ValueError, match="dump"):
            load([data[:end]])
    with pytest.raises(ValueError, match="dump"):
        load([data + b"\0"])


@pytest.mark.parametrize("seed", range(3))
def test_damage_raises_nothing_but_value_errors(seed: int) -> None:
    """The loader compares the digest only at the end: until then any bytes may come."""
    dice = random.Random(seed)
    data = b"".join(dump(eventful(seed).state))

    for _ in range(400):
        damaged = bytearray(data)
        damaged[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        try:
            load(pieces(bytes(damaged), 1000))
        except ValueError:
            continue
