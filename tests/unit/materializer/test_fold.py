"""The effects of records on a partition."""

from dataclasses import replace

import pytest

from foldb.log.commands import (
    Command,
    Entry,
    Expire,
    Expression,
    Genesis,
    Level,
    Record,
    new_context,
)
from foldb.log.log import HASH
from foldb.materializer.fold import LEVEL, fold
from foldb.materializer.fold.outcomes import Applied, Completed, Refused, Skipped
from foldb.materializer.fold.state import ORIGINS_KEPT, PartitionState
from foldb.materializer.refold import fold_record
from foldb.model.errors import ConditionalCheckFailedError, NewerVersionError, ValidationError
from foldb.model.sequence_numbers import sequence_number
from foldb.model.values import Item, dump
from tests.unit.materializer.ledger import CONTEXT, START, Ledger, define, delete, index_request, put, update

RED: Item = {"pk": {"S": "car"}, "colour": {"S": "red"}}
BLUE: Item = {"pk": {"S": "car"}, "colour": {"S": "blue"}}
CAR: Item = {"pk": {"S": "car"}}


def test_a_put_is_stored_and_its_change_shows_both_images() -> None:
    ledger = Ledger()
    cars = ledger.create("Cars")
    ledger.fold(put(cars, dict(RED)))

    outcome = ledger.fold(put(cars, dict(BLUE), returns="ALL_OLD"))

    assert isinstance(outcome, Applied)
    assert outcome.change is not None
    assert (dump(RED), dump(BLUE)) == (outcome.change.old, outcome.change.new)
    assert dump(RED) == outcome.attributes
    assert sequence_number(3, 0, 0) == outcome.change.sequence_number


def test_a_refused_put_changes_nothing_and_returns_the_item() -> None:
    ledger = Ledger()
    cars = ledger.create("Cars")
    ledger.fold(put(cars, dict(RED)))

    outcome = ledger.fold(put(cars, dict(BLUE), when="attribute_not_exists(pk)", show_refused=True))

    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, ConditionalCheckFailedError)
    assert (dump(RED), 1) == (outcome.error.item, outcome.units)
    stored = cars.items.get(b"car", b"")
    assert stored is not None
    assert dump(RED) == stored[0]


def test_a_write_of_an_equal_item_publishes_no_change() -> None:
    """
    Equality is DynamoDB's, not the text's: 1 and 1.0 are one number, and a set has no order.
    """
    ledger = Ledger()
    cars = ledger.create("Cars")
    ledger.fold(put(cars, {**CAR, "n": {"N": "1"}, "s": {"SS": ["a", "b"]}}))

    again = ledger.fold(put(cars, {**CAR, "n": {"N": "1.0"}, "s": {"SS": ["b", "a"]}}))

    assert isinstance(again, Applied)
    assert again.change is None


def test_an_update_makes_the_item_that_is_not_there() -> None:
    ledger = Ledger()
    cars = ledger.create("Cars")

    outcome = ledger.fold(update(cars, CAR, "ADD n :one", {":one": {"N": "1"}}, returns="UPDATED_NEW"))

    assert isinstance(outcome, Applied)
    assert b'{"n":{"N":"1"}}' == outcome.attributes
    stored = cars.items.get(b"car", b"")
    assert stored is not None
    assert b'{"n":{"N":"1"},"pk":{"S":"car"}}' == stored[0]


def test_removing_from_an_item_that_is_not_there_makes_no_item() -> None:
    ledger = Ledger()
    cars = ledger.create("Cars")

    outcome = ledger.fold(update(cars, CAR, "REMOVE n"))

    assert isinstance(outcome, Applied)
    assert cars.items.get(b"car", b"") is None


def test_an_update_that_cannot_be_computed_is_refused_in_the_log() -> None:
    ledger = Ledger()
    cars = ledger.create("Cars")
    ledger.fold(put(cars, dict(RED)))

    outcome = ledger.fold(update(cars, CAR, "ADD colour :one", {":one": {"N": "1"}}))

    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, ValidationError)
    assert 4 == ledger.state.next_offset


def test_a_refusal_does_not_keep_the_item_in_memory() -> None:
    """The error was raised among frames that hold the decoded item; the cycle of the two would wait for the collector,
    and 300,000 elements are 57 MB.
    """
    ledger = Ledger()
    cars = ledger.create("Cars")
    ledger.fold(put(cars, dict(RED)))

    outcome = ledger.fold(update(cars, CAR, "SET n = missing"))

    assert isinstance(outcome, Refused)
    assert outcome.error.__traceback__ is None


def test_a_condition_of_an_older_log_may_have_a_long_name() -> None:
    ledger = Ledger()
    table = ledger.create("Cars")
    names = {"#a": "é" * 40_000}  # a request with it is refused since names are counted in bytes
    condition = Expression(condition="attribute_not_exists(#a)", names=names)

    ledger.fold(replace(put(table, {"pk": {"S": "a"}}), expression=condition))

    assert 1 == table.items.count


def test_a_delete_of_nothing_is_no_change() -> None:
    ledger = Ledger()
    cars = ledger.create("Cars")

    outcome = ledger.fold(delete(cars, CAR))

    assert isinstance(outcome, Applied)
    assert outcome.change is None


@pytest.mark.guarantee("G15")
def test_a_repeated_entry_is_folded_once() -> None:
    """An append whose fate is unknown is repeated, the same entry, so both copies can be in the log."""
    ledger = Ledger()
    cars = ledger.create("Cars")
    one = {":one": {"N": "1"}}
    record = ledger.record(update(cars, CAR, "ADD n :one", one))
    fold(ledger.state, record)

    repeated = Record(0, record.offset + 1, record.time, record.entry)

    assert [Skipped("a duplicate or stale entry")] == fold(ledger.state, repeated)
    stored = cars.items.get(b"car", b"")
    assert stored is not None
    assert b'"n":{"N":"1"}' in stored[0]


@pytest.mark.guarantee("G15")
def test_an_entry_after_a_gap_or_of_a_forgotten_origin_has_no_effect() -> None:
    ledger = Ledger()
    cars = ledger.create("Cars")
    command = put(cars, dict(RED))
    stranger = bytes([1] * 16)

    for number in (1, 7):
        entry = Entry(stranger, number, [command])
        [outcome] = fold(ledger.state, Record(0, ledger.state.next_offset, START, entry))
        assert isinstance(outcome, Skipped)

    assert cars.items.count == 0


def test_origins_are_forgotten_by_count_the_least_recently_used_first() -> None:
    ledger = Ledger()
    cars = ledger.create("Cars")
    for n in range(ORIGINS_KEPT):
        entry = Entry(b"another origin" + n.to_bytes(2, "big"), 0, [put(cars, dict(RED))])
        fold(ledger.state, Record(0, ledger.state.next_offset, START, entry))

    assert len(ledger.state.origins) == ORIGINS_KEPT
    assert ledger.origin not in ledger.state.origins


@pytest.mark.guarantee("G26")
def test_log_time_never_goes_back() -> None:
    ledger = Ledger()
    cars = ledger.create("Cars")
    ledger.now = START - 60_000

    outcome = ledger.fold(put(cars, dict(RED)))

    assert isinstance(outcome, Applied)
    assert outcome.change is not None
    assert outcome.change.time == START


def test_a_copied_entry_keeps_its_own_time() -> None:
    ledger = Ledger()
    cars = ledger.create("Cars")
    record = ledger.record(put(cars, dict(RED)))
    record.entry.time = START + 5
    record.time = START + 99_000

    fold(ledger.state, record)

    assert START + 5 == ledger.state.log_time


def test_the_first_genesis_wins() -> None:
    ledger = Ledger()

    outcome = ledger.fold(Genesis(bytes([9] * 16), 0, 1, 500, LEVEL, "blake2b-64", "2012"))

    assert Completed(progressed=False) == outcome
    assert ledger.state.genesis is not None
    assert ledger.state.genesis.log_id == bytes(16)


@pytest.mark.guarantee("G18")
@pytest.mark.parametrize(
    ("command", "says"),
    [
        (Genesis(bytes(16), 0, 1, 0, LEVEL + 1, HASH, "modern"), f"this version supports {LEVEL}"),
        (Genesis(bytes(16), 0, 1, 0, LEVEL, "sha4", "modern"), "by sha4"),
        (Genesis(bytes(16), 0, 1, 7, LEVEL, HASH, "modern"), "its first position is 7"),
        (Genesis(bytes(16), 0, 1, 0, LEVEL, HASH, "2099"), "limits are 2099"),
        (Level(LEVEL + 1, CONTEXT), f"this version supports {LEVEL}"),
    ],
)
def test_a_record_of_a_later_release_is_refused(command: Command, says: str) -> None:
    record = Record(0, 0, START, Entry(bytes(16), 0, [command]))
    with pytest.raises(NewerVersionError, match=says):
        fold_record(PartitionState(), record)


@pytest.mark.guarantee("G26")
def test_an_expiry_is_judged_again_at_its_position() -> None:
    """Between the proposal and its position in the log the item's time was postponed: it stays."""
    ledger = Ledger()
    cars = ledger.create("Cars")
    ledger.fold(
        define(
            "UpdateTimeToLive",
            cars.definition.id,
            {"TimeToLiveSpecification": {"Enabled": True, "AttributeName": "exp"}},
        )
    )
    soon, later = str(START // 1000 - 1), str(START // 1000 + 60)
    ttl = new_context(request_id="T", source="ttl")
    expire = Expire(cars.definition.id, b"car", b"", soon, ttl)
    ledger.fold(put(cars, {**CAR, "exp": {"N": later}}))

    assert Completed(progressed=False) == ledger.fold(expire)

    ledger.fold(put(cars, {**CAR, "exp": {"N": soon}}))
    outcome = ledger.fold(expire)

    assert isinstance(outcome, Completed)
    assert outcome.change is not None
    assert "ttl" == outcome.change.context.source
    assert cars.items.count == 0


def test_an_expiry_before_its_hour_has_no_effect() -> None:
    ledger = Ledger()
    cars = ledger.create("Cars")
    ledger.fold(
        define(
            "UpdateTimeToLive",
            cars.definition.id,
            {"TimeToLiveSpecification": {"Enabled": True, "AttributeName": "exp"}},
        )
    )
    at = str(START // 1000 + 60)
    ledger.fold(put(cars, {**CAR, "exp": {"N": at}}))

    assert Completed(progressed=False) == ledger.fold(Expire(cars.definition.id, b"car", b"", at, CONTEXT))


@pytest.mark.guarantee("G25")
def test_an_index_holds_only_items_that_have_its_key_and_follows_them() -> None:
    ledger = Ledger()
    cars = ledger.create(
        "Cars", GlobalSecondaryIndexes=[index_request("by-colour", "colour", projection="KEYS_ONLY")]
    )
    by_colour = cars.indexes["by-colour"].store

    bare = ledger.fold(put(cars, dict(CAR)))
    red = ledger.fold(put(cars, {**RED, "seats": {"N": "4"}}))
    blue = ledger.fold(put(cars, {**BLUE, "seats": {"N": "4"}}))
    seats = ledger.fold(put(cars, {**BLUE, "seats": {"N": "5"}}))

    units = [outcome.units.glob for outcome in (bare, red, blue, seats) if isinstance(outcome, Applied)]
    assert [None, {"by-colour": 1}, {"by-colour": 2}, None] == units
    assert [(b"blue", dump(BLUE))] == [(pk, stored[0]) for _, pk, _, stored in by_colour.scan()]
