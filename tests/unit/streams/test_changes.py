"""The changes in the outcomes of records."""

import pytest

from foldb.log.commands import Command, Expire, Transact, new_context
from foldb.materializer.fold import fold
from foldb.materializer.fold.outcomes import Change, Tx
from foldb.materializer.fold.state import PartitionState, Table
from foldb.model.values import Item
from foldb.streams.changes import changes
from tests.unit.materializer.ledger import CONTEXT, Ledger, define, delete, put, update
from tests.unit.materializer.random_log import random_log

A: Item = {"pk": {"S": "a"}}
B: Item = {"pk": {"S": "b"}}


def feed_of(seed: int) -> tuple[list[Change], PartitionState]:
    state = PartitionState()
    feed: list[Change] = []
    for record in random_log(seed, length=200).records:
        feed += changes(fold(state, record))
    return feed, state


@pytest.mark.guarantee("G35")
@pytest.mark.parametrize("seed", range(5))
def test_sequence_numbers_rise_from_change_to_change(seed: int) -> None:
    feed, _ = feed_of(seed)

    numbers = [change.sequence_number for change in feed]
    assert len(numbers) > 100
    assert sorted(set(numbers)) == numbers


@pytest.mark.guarantee("G35")
@pytest.mark.parametrize("seed", range(5))
def test_the_images_of_an_item_form_a_chain(seed: int) -> None:
    """The images of an item's changes form a chain without gaps or duplicates, from nothing to the current item."""
    feed, state = feed_of(seed)

    images: dict[tuple[int, bytes, bytes], bytes | None] = {}
    for change in feed:
        key = (change.table, change.pk, change.sk)
        assert images.get(key) == change.old
        assert change.old != change.new
        images[key] = change.new

    images = {key: image for key, image in images.items() if key[0] in state.tables}
    for (table, pk, sk), image in images.items():
        stored = state.tables[table].items.get(pk, sk)
        assert image == (None if stored is None else stored[0])
    assert sum(table.items.count for table in state.tables.values()) == sum(
        image is not None for image in images.values()
    )


def written(ledger: Ledger, *commands: Command, **chosen: object) -> list[Change]:
    """Return the changes of one record with these commands."""
    record = ledger.record(*commands)
    return list(changes(fold(ledger.state, record), **chosen))  # type: ignore[arg-type]


def summary(change: Change) -> tuple[bytes, bool, bool]:
    """Return the key of a change, and whether the item existed before and after."""
    return change.pk, change.old is not None, change.new is not None


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def table(ledger: Ledger) -> Table:
    return ledger.create("T")


def test_every_change_of_an_item_yields_a_change(ledger: Ledger, table: Table) -> None:
    made = written(
        ledger,
        put(table, A),
        update(table, A, "SET n = :n", {":n": {"N": "1"}}),
        delete(table, A),
        Transact([put(table, A), put(table, B)], CONTEXT),
    )

    assert [
        (b"a", False, True),
        (b"a", True, True),
        (b"a", True, False),
        (b"a", False, True),
        (b"b", False, True),
    ] == [summary(change) for change in made]


def test_a_command_without_effect_yields_no_change(ledger: Ledger, table: Table) -> None:
    ledger.fold(put(table, A))

    assert [] == written(
        ledger,
        put(table, A),
        put(table, {**A, "n": {"N": "1"}}, when="attribute_not_exists(pk)"),
        update(table, A, "REMOVE n"),
        delete(table, B),
        Transact([put(table, A), delete(table, B)], CONTEXT),
    )


def test_an_expiry_yields_a_change_with_its_source(ledger: Ledger, table: Table) -> None:
    ttl = {"TimeToLiveSpecification": {"Enabled": True, "AttributeName": "exp"}}
    ledger.fold(define("UpdateTimeToLive", table.definition.id, ttl))
    ledger.fold(put(table, {**A, "exp": {"N": "1600000000"}}))
    sweeper = new_context("", source="ttl", principal="dynamodb.amazonaws.com")

    [change] = written(ledger, Expire(table.definition.id, b"a", b"", "1600000000", sweeper))

    assert (b"a", True, False) == summary(change)
    assert ("ttl", "dynamodb.amazonaws.com") == (change.context.source, change.context.principal)


def test_a_transaction_numbers_its_changes_by_action(ledger: Ledger, table: Table) -> None:
    """An unchanged item has no change, and is not counted."""
    ledger.fold(put(table, A))
    c, d = ({"pk": {"S": name}} for name in "cd")
    transact = Transact([put(table, d), put(table, A), delete(table, c), put(table, B)], CONTEXT)

    made = written(ledger, put(table, c), transact)

    place = f"{ledger.state.next_offset - 1}.1"
    assert [None, Tx(place, 0, 3), Tx(place, 1, 3), Tx(place, 2, 3)] == [change.tx for change in made]
    assert [b"c", b"d", b"c", b"b"] == [change.pk for change in made]


def test_a_repeated_transaction_yields_no_change(ledger: Ledger, table: Table) -> None:
    transact = Transact([put(table, A)], CONTEXT, token="t", fingerprint=b"f")

    assert [Tx("2.0", 0, 1)] == [change.tx for change in written(ledger, transact, transact)]


def test_a_change_counts_its_transaction_in_other_tables(ledger: Ledger, table: Table) -> None:
    """A reader of one table learns that the transaction changed more."""
    other = ledger.create("U")
    transact = Transact([put(other, A), put(table, A)], CONTEXT)

    made = written(ledger, put(other, B), transact, tables={table.definition.id})

    assert [(table.definition.id, Tx("3.1", 1, 2))] == [(change.table, change.tx) for change in made]
