"""From changes to calls: filters, batches, windows, workers and the order of a key."""

import random
import time
from collections import defaultdict
from typing import Any

import pytest

from tests.behaviour.spec.feed.database import Database, until_gone
from tests.support.raw import ask
from tests.support.subscribed import until

SIZES = "def handle(changes: list[Change]): note(len(changes), [c.keys['pk'] for c in changes])"


@pytest.mark.spec("F12")
def test_a_call_gets_all_waiting_changes_up_to_the_batch_size(database: Database, table: Any) -> None:
    function = database.function(SIZES)
    for n in range(25):
        table.put_item(Item={"pk": f"{n:02}"})
    database.subscribe(table, function.sink, Start={"At": "HORIZON"}, BatchSize=10)
    database.settle()

    assert [10, 10, 5] == [count for count, _ in function.notes()]
    assert [f"{n:02}" for n in range(25)] == [pk for _, keys in function.notes() for pk in keys]


@pytest.mark.parametrize("size", [0, 10_001])
@pytest.mark.spec("F12")
def test_a_batch_has_from_one_to_ten_thousand_changes(database: Database, table: Any, size: int) -> None:
    request = {"Name": "wrong", "TableNames": [table.name], "Sink": database.function(SIZES).sink}
    answer = ask(database.url, "Foldb_20261121.CreateSubscription", request | {"BatchSize": size})

    assert 400 == answer.status
    assert "BatchSize must be an integer from 1 to 10,000" in answer.body["message"]


@pytest.mark.spec("F12")
def test_ten_thousand_changes_can_be_one_call(database: Database, table: Any) -> None:
    function = database.function("def handle(changes: list[Change]): note(len(changes))")
    for start in range(0, 2000, 25):
        puts = [{"PutRequest": {"Item": {"pk": f"{n}"}}} for n in range(start, start + 25)]
        database.client.batch_write_item(RequestItems={table.name: puts})
    database.subscribe(table, function.sink, Start={"At": "HORIZON"}, BatchSize=10_000)
    database.settle()

    assert 2000 == sum(count for (count,) in function.notes())
    assert len(function.notes()) <= 3


@pytest.mark.spec("F13")
def test_a_partial_batch_waits_for_its_window(database: Database, table: Any) -> None:
    function = database.function(SIZES)
    database.subscribe(table, function.sink, BatchSize=100, MaximumBatchingWindowInSeconds="0.5")
    begun = time.monotonic()
    for n in range(5):
        table.put_item(Item={"pk": f"{n}"})
    [[count, _]] = function.wait(1)

    assert 5 == count
    assert time.monotonic() - begun >= 0.4


@pytest.mark.spec("F13")
def test_a_full_batch_does_not_wait(database: Database, table: Any) -> None:
    function = database.function(SIZES)
    database.subscribe(table, function.sink, BatchSize=5, MaximumBatchingWindowInSeconds=300)
    for n in range(5):
        table.put_item(Item={"pk": f"{n}"})

    assert 5 == sum(count for count, _ in function.wait(1))


def orders(table: Any) -> None:
    """Put three orders: small, large and paid."""
    table.put_item(Item={"pk": "small", "amount": 10, "state": "NEW"})
    table.put_item(Item={"pk": "large", "amount": 500, "state": "NEW"})
    table.put_item(Item={"pk": "small", "amount": 10, "state": "PAID"})
    table.delete_item(Key={"pk": "large"})


PAID = {
    "Expression": "NEW.#s = :paid AND OLD.#s <> :paid",
    "ExpressionAttributeNames": {"#s": "state"},
    "ExpressionAttributeValues": {":paid": {"S": "PAID"}},
}
LARGE = '{"dynamodb": {"NewImage": {"amount": {"N": [{"numeric": [">", 100]}]}}}}'
REMOVED = '{"eventName": ["REMOVE"]}'
FILTERS: list[tuple[dict[str, Any], list[list[str]]]] = [
    ({"Filter": PAID}, [["MODIFY", "small"]]),
    (
        {
            "Filter": {
                "Expression": "attribute_exists(NEW.amount) AND NEW.amount > :n",
                "ExpressionAttributeValues": {":n": {"N": "100"}},
            }
        },
        [["INSERT", "large"]],
    ),
    ({"FilterCriteria": {"Filters": [{"Pattern": REMOVED}]}}, [["REMOVE", "large"]]),
    ({"FilterCriteria": {"Filters": [{"Pattern": LARGE}]}}, [["INSERT", "large"]]),
    (
        {"FilterCriteria": {"Filters": [{"Pattern": LARGE}, {"Pattern": REMOVED}]}},
        [["INSERT", "large"], ["REMOVE", "large"]],
    ),
    ({"Events": ["MODIFY"]}, [["MODIFY", "small"]]),
    ({"Events": ["INSERT", "REMOVE"], "Filter": PAID}, []),
]


@pytest.mark.parametrize(("settings", "expected"), FILTERS)
@pytest.mark.spec("F14", "T11")
def test_only_changes_that_pass_the_filter_are_delivered(
    database: Database, table: Any, settings: dict[str, Any], expected: list[list[str]]
) -> None:
    function = database.function("def handle(change): note(change.op, change.keys['pk'])")
    database.subscribe(table, function.sink, **settings)
    orders(table)
    database.settle()

    assert expected == function.notes()


@pytest.mark.spec("F14")
def test_an_invalid_filter_is_refused(database: Database, table: Any) -> None:
    request = {"Name": "wrong", "TableNames": [table.name], "Sink": database.function(SIZES).sink}
    for wrong in (
        {"Filter": {"Expression": "NEW.amount >"}},
        {"FilterCriteria": {"Filters": [{"Pattern": "{"}]}},
        {"FilterCriteria": {"Filters": [{"Pattern": '{"eventName": "REMOVE"}'}]}},
    ):
        answer = ask(database.url, "Foldb_20261121.CreateSubscription", request | wrong)
        assert (400, "ValidationException") == (answer.status, answer.body["__type"].rpartition("#")[2])


@pytest.mark.spec("F15", "T6")
def test_workers_call_concurrently_and_keep_the_order_of_keys(database: Database, table: Any) -> None:
    """Eight workers, of which some calls fail at random; every key stays in order."""
    function = database.function(
        "import random\n"
        "def handle(change):\n"
        "    if random.random() < 0.1: raise RuntimeError('by chance')\n"
        "    note(change.keys['pk'], int(change.new['n']), os.getpid())\n"
    )
    database.subscribe(table, function.sink, ParallelizationFactor=8, BatchSize=7)
    dice = random.Random(1)
    last: dict[str, int] = defaultdict(int)
    for _ in range(300):
        pk = f"key {dice.randrange(12)}"
        last[pk] += 1
        table.put_item(Item={"pk": pk, "n": last[pk]})
    database.settle()
    by_key: dict[str, list[int]] = defaultdict(list)
    for pk, n, _ in function.notes():
        by_key[pk].append(n)

    assert {pk: list(range(1, count + 1)) for pk, count in last.items()} == by_key
    assert len({pid for _, _, pid in function.notes()}) > 1, "one process did it all"


@pytest.mark.spec("F15")
def test_a_blocked_key_does_not_delay_other_lanes(database: Database, table: Any) -> None:
    gate = database.folder / "stuck"
    gate.touch()
    function = database.function(
        f"def handle(change):\n    if change.keys['pk'] == 'stuck':\n        {until_gone(gate)}\n"
        "    note(change.keys['pk'])\n"
    )
    name = database.subscribe(table, function.sink, ParallelizationFactor=8, BatchSize=1)
    table.put_item(Item={"pk": "stuck"})
    for n in range(40):
        table.put_item(Item={"pk": f"{n}"})
    until(lambda: len(function.notes()) >= 30)
    assert ["stuck"] not in function.notes()
    assert database.describe(name)["Status"] == "ACTIVE"
    gate.unlink()
    database.settle()

    assert 41 == len(function.notes())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"Batch": 1}, "a subscription has no setting Batch"),
        ({"TimeoutSeconds": 0}, "TimeoutSeconds must be above 0"),
        ({"Name": ".."}, "a dot is not its first"),
    ],
)
def test_incompatible_settings_are_refused(
    database: Database, table: Any, settings: dict[str, Any], message: str
) -> None:
    request = {"Name": "wrong", "TableNames": [table.name], "Sink": database.function(SIZES).sink, **settings}
    answer = ask(database.url, "Foldb_20261121.CreateSubscription", request)

    assert (400, True) == (answer.status, message in answer.body["message"])
