"""Commands about subscriptions, and their checkpoints."""

import random
from typing import Any

import pytest

from foldb.log.commands import Checkpoint
from foldb.materializer.fold.dump import dump
from foldb.materializer.fold.feed import subscriptions
from foldb.materializer.fold.load import load
from foldb.materializer.fold.outcomes import Completed, Refused, Subscribed
from foldb.model.errors import (
    LimitExceededError,
    RequestError,
    ResourceInUseError,
    ResourceNotFoundError,
    ValidationError,
)
from foldb.model.subscriptions import Subscription
from tests.unit.materializer.ledger import START, Ledger, about, define, subscribe

NUMBER = 100000000000001048200030000


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger()
    ledger.create("Cars")
    ledger.create("Bikes")
    return ledger


def done(ledger: Ledger, name: str, operation: Any, **request: Any) -> Subscription:
    outcome = ledger.fold(about(name, operation, **request))
    assert isinstance(outcome, Subscribed), outcome
    return outcome.subscription


def refused(ledger: Ledger, command: Any) -> RequestError:
    outcome = ledger.fold(command)
    assert isinstance(outcome, Refused), outcome
    return outcome.error


def checkpoint(ledger: Ledger, subscription: Subscription, *marks: tuple[int, int], **fields: Any) -> bool:
    """Fold a checkpoint of a subscription; return whether it had an effect."""
    said = {"epoch": subscription.epoch, "version": "v", "handled": 0, "dead": 0, **fields}
    outcome = ledger.fold(Checkpoint(subscription.id, checkpoints=list(marks), **said))
    assert isinstance(outcome, Completed)
    return outcome.progressed


def watched(ledger: Ledger) -> dict[str, bool]:
    return {table.definition.name: table.definition.watched for table in ledger.state.tables.values()}


def test_a_subscription_holds_its_settings_and_its_time(ledger: Ledger) -> None:
    ledger.now += 5
    created = ledger.fold(subscribe("S", "Cars", BatchSize=7))

    expected = ledger.state.subscriptions["S"]
    assert Subscribed(expected) == created
    assert ("S", "uuid", (("Cars", 1),), "ACTIVE", 0, {}) == (
        expected.name,
        expected.uuid,
        expected.tables,
        expected.status,
        expected.epoch,
        expected.checkpoints,
    )
    assert (START + 5, START + 5) == (expected.created_ms, expected.changed_ms)
    assert 7 == expected.settings["BatchSize"]
    assert expected is ledger.state.subscription(expected.id)


def test_a_table_is_watched_while_any_subscription_names_it(ledger: Ledger) -> None:
    ledger.fold(subscribe("S", "Cars"), subscribe("T", "Cars", "Bikes"))
    both = watched(ledger)
    ledger.fold(about("T", "Remove"))
    one = watched(ledger)
    ledger.fold(about("S", "Remove"))

    assert {"Cars": True, "Bikes": True} == both
    assert {"Cars": True, "Bikes": False} == one
    assert {"Cars": False, "Bikes": False} == watched(ledger)
    assert {} == ledger.state.subscriptions


def test_a_subscription_survives_its_table_and_ignores_a_new_one(ledger: Ledger) -> None:
    ledger.fold(subscribe("S", "Cars"))
    ledger.fold(define("DeleteTable", 1, {"TableName": "Cars"}))
    ledger.create("Cars")

    assert {"Cars": False, "Bikes": False} == watched(ledger)
    assert (("Cars", 1),) == ledger.state.subscriptions["S"].tables
    assert "S" == done(ledger, "S", "Remove").name


def test_an_invalid_command_is_refused_and_changes_nothing(ledger: Ledger) -> None:
    ledger.fold(subscribe("S", "Cars"))
    before = ledger.state.subscriptions.copy()

    assert isinstance(refused(ledger, subscribe("S", "Bikes")), ResourceInUseError)
    assert isinstance(refused(ledger, subscribe("T", "Trams")), ResourceNotFoundError)
    assert isinstance(refused(ledger, about("T", "Create", TableNames=["Cars"])), ValidationError)
    assert isinstance(refused(ledger, about("T", "Pause")), ResourceNotFoundError)
    assert isinstance(refused(ledger, about("S", "Update", BatchSize=0)), ValidationError)
    assert isinstance(refused(ledger, about("S", "Update", TableNames=["Bikes"])), ValidationError)
    assert isinstance(refused(ledger, about("S", "Reset")), ValidationError)
    assert before == ledger.state.subscriptions
    assert {"Cars": True, "Bikes": False} == watched(ledger)


def test_a_subscription_to_a_table_in_deletion_is_refused(ledger: Ledger) -> None:
    ledger.fold(define("DeleteTable", 1, {"TableName": "Cars"}, settle=True))

    assert isinstance(refused(ledger, subscribe("S", "Cars")), ResourceNotFoundError)


def test_the_number_of_subscriptions_is_limited(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "SUBSCRIPTIONS_MAX", 1)
    ledger.fold(subscribe("S", "Cars"))

    assert isinstance(refused(ledger, subscribe("T", "Cars")), LimitExceededError)


def test_an_update_changes_the_settings_that_it_names(ledger: Ledger) -> None:
    ledger.fold(subscribe("S", "Cars", BatchSize=7, Events=["INSERT"]))
    before = ledger.state.subscriptions["S"].settings

    after = done(ledger, "S", "Update", BatchSize=8, TableNames=["Cars"]).settings

    assert {**before, "BatchSize": 8} == after


def test_a_subscription_is_paused_goes_on_and_comes_to_its_end(ledger: Ledger) -> None:
    ledger.fold(subscribe("S", "Cars"))

    steps = [
        done(ledger, "S", "Pause", Reason="lunch"),
        done(ledger, "S", "Pause"),
        done(ledger, "S", "Resume"),
        done(ledger, "S", "Stop", Reason="done"),
        done(ledger, "S", "Resume"),
    ]

    assert [
        ("PAUSED", "lunch"),
        ("PAUSED", None),
        ("ACTIVE", None),
        ("STOPPED", "done"),
        ("ACTIVE", None),
    ] == [(each.status, each.reason) for each in steps]


def test_a_reset_begins_another_epoch_without_marks(ledger: Ledger) -> None:
    ledger.fold(subscribe("S", "Cars"))
    before = ledger.state.subscriptions["S"]
    checkpoint(ledger, before, (0, NUMBER), handled=3, dead=1)

    after = done(ledger, "S", "Reset", Start={"At": "HORIZON"})

    assert (1, {}, {"At": "HORIZON"}) == (after.epoch, after.checkpoints, after.settings["Start"])
    assert (3, 1, "v") == (after.handled, after.dead, after.version)
    assert not checkpoint(ledger, before, (0, NUMBER))
    assert after == ledger.state.subscriptions["S"]


def test_a_stop_of_an_older_epoch_has_no_effect(ledger: Ledger) -> None:
    ledger.fold(subscribe("S", "Cars"))
    done(ledger, "S", "Reset", Start={"At": "HORIZON"})

    assert "ACTIVE" == done(ledger, "S", "Stop", Reason="done", Epoch=0).status
    assert "STOPPED" == done(ledger, "S", "Stop", Reason="done", Epoch=1).status


def test_a_checkpoint_is_of_one_subscription_alone(ledger: Ledger) -> None:
    ledger.fold(subscribe("S", "Cars"), subscribe("T", "Cars"))
    other = ledger.state.subscriptions["T"]

    assert checkpoint(ledger, ledger.state.subscriptions["S"], (0, NUMBER), version="w", handled=2, dead=1)

    after = ledger.state.subscriptions["S"]
    assert ({0: NUMBER}, "w", 2, 1) == (after.checkpoints, after.version, after.handled, after.dead)
    assert other == ledger.state.subscriptions["T"]


def test_a_checkpoint_of_a_removed_or_recreated_one_has_no_effect(ledger: Ledger) -> None:
    ledger.fold(subscribe("S", "Cars"))
    before = ledger.state.subscriptions["S"]
    ledger.fold(about("S", "Remove"))

    assert not checkpoint(ledger, before, (0, NUMBER))
    ledger.fold(subscribe("S", "Cars"))
    assert not checkpoint(ledger, before, (0, NUMBER))
    assert {} == ledger.state.subscriptions["S"].checkpoints


@pytest.mark.parametrize("seed", range(10))
def test_marks_are_the_highest_that_was_said_in_the_epoch(seed: int) -> None:
    """Checkpoints arrive late, twice, and from two nodes that both run the subscription."""
    dice = random.Random(seed)
    ledger = Ledger()
    ledger.create("Cars")
    ledger.fold(subscribe("S", "Cars"))
    [subscription] = ledger.state.subscriptions.values()
    epoch, marks, handled = 0, dict[int, int](), 0
    for _ in range(100):
        if dice.random() < 0.1:
            ledger.fold(about("S", "Reset", Start={"At": "NOW"}))
            epoch, marks = epoch + 1, {}
            continue
        said = {partition: NUMBER + dice.randrange(1000) for partition in dice.sample(range(4), 2)}
        of = max(0, epoch - dice.choice([0, 0, 0, 1]))
        assert checkpoint(ledger, subscription, *said.items(), epoch=of, handled=1) == (of == epoch)
        if of == epoch:
            marks |= {each: max(number, marks.get(each, 0)) for each, number in said.items()}
            handled += 1
        found = ledger.state.subscriptions["S"]
        assert (epoch, marks, handled) == (found.epoch, found.checkpoints, found.handled)

    assert ledger.state.subscriptions == load([b"".join(dump(ledger.state))]).subscriptions


def test_a_log_of_an_older_level_knows_no_subscriptions_yet() -> None:
    """The error names the next step."""
    ledger = Ledger(level=2)
    ledger.create("Cars")

    assert "foldb upgrade" in refused(ledger, subscribe("S", "Cars")).message
    assert {} == ledger.state.subscriptions


@pytest.mark.parametrize(("partitions", "home"), [(1, 0), (2, 1), (4, 2)])
def test_a_subscription_has_its_home_where_data_is(partitions: int, home: int) -> None:
    assert home == Subscription(7, "S", "", (), {}, 0, 0).home(partitions)
