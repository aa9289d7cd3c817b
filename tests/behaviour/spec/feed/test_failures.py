"""Failed calls: retries, isolation, dead letters and their repair."""

from typing import Any

import pytest

from tests.behaviour.spec.feed.database import Database
from tests.support.raw import ask
from tests.support.subscribed import until

BAD = """
def handle(change):
    note(change.keys["pk"], int(change.new["n"]))
    if change.new.get("bad"):
        raise ValueError("no such customer")
"""
REPORTS = """
def handle(event, context):
    records = [(each["dynamodb"]["SequenceNumber"], each["dynamodb"]["NewImage"]) for each in event["Records"]]
    note([int(new["n"]["N"]) for _, new in records])
    failed = [number for number, new in records if new["n"]["N"] in ("3", "5")]
    return {"batchItemFailures": [{"itemIdentifier": number} for number in failed]}
"""
BAD_BATCH = (
    "def handle(changes: list[Change]):\n"
    "    note([int(c.new['n']) for c in changes])\n"
    "    if any(c.new.get('bad') for c in changes): raise ValueError('one of them is bad')\n"
)


def put(table: Any, pk: str, n: int, **more: Any) -> None:
    table.put_item(Item={"pk": pk, "n": n} | more)


def numbers(database: Database, name: str) -> list[int]:
    """Return the `n` of each dead letter."""
    return [int(each["Change"]["new"]["n"]["N"]) for each in database.dead_letters(name)]


@pytest.mark.spec("F16")
def test_a_failed_batch_is_halved_down_to_the_bad_change(database: Database, table: Any) -> None:
    function = database.function(BAD_BATCH)
    for n in range(8):
        put(table, f"{n}", n, **({"bad": True} if n == 5 else {}))
    name = database.subscribe(
        table,
        function.sink,
        Start={"At": "HORIZON"},
        BatchSize=8,
        BisectBatchOnFunctionError=True,
        MaximumRetryAttempts=1,
    )
    database.settle()
    batches = [batch for (batch,) in function.notes()]
    done = [n for batch in batches if 5 not in batch for n in batch]

    assert [0, 1, 2, 3, 4, 5, 6, 7] == batches[0]
    assert 4 == len(batches[1])
    assert [5] in batches
    assert [0, 1, 2, 3, 4, 6, 7] == sorted(done)
    assert [5] == numbers(database, name)


@pytest.mark.spec("F17", "T2")
def test_delivery_continues_at_the_reported_failure(database: Database, table: Any) -> None:
    """Changes before the lowest failure are handled; later ones are delivered again and keep their attempts."""
    function = database.function(
        REPORTS,
        Kind="lambda",
    )
    for n in range(7):
        put(table, f"{n}", n)
    name = database.subscribe(
        table,
        function.sink,
        Start={"At": "HORIZON"},
        FunctionResponseTypes=["ReportBatchItemFailures"],
        MaximumRetryAttempts=2,
    )
    database.settle()
    batches = [batch for (batch,) in function.notes()]

    assert [0, 1, 2, 3, 4, 5, 6] == batches[0]
    assert all(3 not in batch[1:] for batch in batches[1:]), "what was before it is done"
    # A poison record becomes a dead letter after three calls.
    assert 3 == sum(3 in batch for batch in batches)
    assert [3, 5] == sorted(numbers(database, name))


@pytest.mark.spec("F17")
def test_a_raise_can_name_the_change_that_failed(database: Database, table: Any) -> None:
    function = database.function(
        "def handle(changes: list[Change]):\n"
        "    note([int(c.new['n']) for c in changes])\n"
        "    for change in changes:\n"
        "        if change.new.get('bad'): raise ChangeError(change, 'no such customer')\n"
    )
    for n in range(4):
        put(table, f"{n}", n, **({"bad": True} if n == 2 else {}))
    name = database.subscribe(table, function.sink, Start={"At": "HORIZON"}, MaximumRetryAttempts=1)
    database.settle()
    batches = [batch for (batch,) in function.notes()]

    assert [0, 1, 2, 3] == batches[0]
    assert 2 == batches[1][0]
    assert [2] == numbers(database, name)
    assert "no such customer" in database.dead_letters(name)[0]["Error"]


@pytest.mark.spec("F18")
def test_a_change_is_tried_up_to_the_retry_limit(database: Database, table: Any) -> None:
    function = database.function(BAD)
    name = database.subscribe(table, function.sink, MaximumRetryAttempts=4)
    put(table, "a", 1, bad=True)
    database.settle()

    assert [["a", 1]] * 5 == function.notes()
    assert 5 == database.dead_letters(name)[0]["Attempts"]


@pytest.mark.spec("F18")
def test_without_a_limit_a_change_is_retried_until_it_succeeds(database: Database, table: Any) -> None:
    function = database.function(
        "tries = 0\ndef handle(change):\n    global tries\n    tries += 1\n    note(tries)\n    assert tries > 12\n"
    )
    name = database.subscribe(table, function.sink)
    put(table, "a", 1)
    database.settle()

    assert [[n] for n in range(1, 14)] == function.notes()
    assert [] == database.dead_letters(name)


@pytest.mark.spec("F18")
def test_the_pause_between_retries_grows(database: Database, table: Any) -> None:
    function = database.function(
        "tries = []\n"
        "def handle(change):\n"
        "    tries.append(time.monotonic())\n"
        "    note(tries[-1])\n"
        "    assert len(tries) > 4\n"
    )
    database.subscribe(table, function.sink, Backoff={"First": "0.05", "Most": "0.4"})
    put(table, "a", 1)
    database.settle()
    times = [moment for (moment,) in function.notes()]

    assert times[-1] - times[0] >= 0.5 * (0.05 + 0.1 + 0.2 + 0.4)
    assert times[-1] - times[-2] > 0.15


@pytest.mark.parametrize("age", [59, 604_801])
@pytest.mark.spec("F18")
def test_the_age_limit_has_the_bounds_of_lambda(database: Database, table: Any, age: int) -> None:
    request = {
        "Name": "wrong",
        "TableNames": [table.name],
        "Sink": database.function(BAD).sink,
        "MaximumRecordAgeInSeconds": age,
    }
    assert 400 == ask(database.url, "Foldb_20261121.CreateSubscription", request).status


@pytest.mark.spec("F19", "T8")
def test_a_dead_letter_holds_change_error_and_attempts(database: Database, table: Any) -> None:
    function = database.function(BAD)
    name = database.subscribe(table, function.sink, MaximumRetryAttempts=1)
    put(table, "a", 1, bad=True)
    database.settle()
    [dead_letter] = database.dead_letters(name)
    [item] = database.resource.Table(f"{name}.dlq").scan()["Items"]
    [change] = database.changes(table, 1)

    assert change.items() <= dead_letter["Change"].items()
    assert "ValueError: no such customer" in dead_letter["Error"]
    assert "raise ValueError" in dead_letter["Traceback"]
    assert 2 == dead_letter["Attempts"] == item["attempts"]
    assert dead_letter["First"] <= dead_letter["Last"]
    assert dead_letter["Version"]
    assert change["number"] == item["number"]
    assert "payload" in item, "it is a table: any client reads it"


@pytest.mark.spec("F20")
def test_later_changes_of_a_key_follow_its_dead_letter(database: Database, table: Any) -> None:
    function = database.function(BAD)
    name = database.subscribe(table, function.sink, MaximumRetryAttempts=0, ParallelizationFactor=2)
    put(table, "a", 1, bad=True)
    for n in range(2, 5):
        put(table, "a", n)
        put(table, "b", n)
    database.settle()

    assert [1, 2, 3, 4] == sorted(numbers(database, name))
    assert [["a", 1], ["b", 2], ["b", 3], ["b", 4]] == sorted(function.notes())
    assert any("waits for" in each["Error"] for each in database.dead_letters(name))


@pytest.mark.spec("F21", "T8")
def test_dead_letters_of_a_key_are_edited_and_retried_in_order(database: Database, table: Any) -> None:
    """UpdateItem or the CLI edits a dead letter; the retry delivers the edited change."""
    function = database.function(BAD)
    name = database.subscribe(table, function.sink, MaximumRetryAttempts=0)
    put(table, "a", 1, bad=True)
    put(table, "a", 2)
    put(table, "b", 7, bad=True)
    database.settle()
    count = len(function.notes())
    dead_letters = {int(each["Change"]["new"]["n"]["N"]): each for each in database.dead_letters(name)}
    database.cli(
        "dlq", "edit", name, dead_letters[1]["Number"], "--set", "new.n=100", "--set", "new.bad=false"
    )
    database.operate("RetryDeadLetters", Name=name, Key=dead_letters[1]["Key"])
    until(lambda: len(function.notes()) >= count + 2)
    database.settle()

    assert [["a", 100], ["a", 2]] == function.notes()[count:]
    assert [7] == numbers(database, name), "another key's stays"
    put(table, "a", 3)
    database.settle()
    assert ["a", 3] == function.notes()[-1], "the key is free again"


@pytest.mark.spec("F21", "T8")
def test_dead_letters_can_be_dropped(database: Database, table: Any) -> None:
    function = database.function(BAD)
    name = database.subscribe(table, function.sink, MaximumRetryAttempts=0)
    put(table, "a", 1, bad=True)
    put(table, "a", 2)
    database.settle()
    database.operate("DropDeadLetters", Name=name)
    put(table, "a", 3)
    database.settle()

    assert [] == database.dead_letters(name)
    assert [["a", 1], ["a", 3]] == function.notes()


DEAD = {"isolate": [1], "batch": [0, 1, 2]}
HANDLED = {"isolate": [0, 2], "batch": []}


@pytest.mark.parametrize("policy", ["isolate", "batch", "block"])
@pytest.mark.spec("T13")
def test_on_failure_selects_the_dead_letters(database: Database, table: Any, policy: str) -> None:
    """
    isolate: the bad change becomes a dead letter. batch: its whole batch does. block: no change does, and its lane
    waits until the code is corrected.
    """
    function = database.function(BAD_BATCH)
    for n in range(3):
        put(table, f"{n}", n, **({"bad": True} if n == 1 else {}))
    name = database.subscribe(
        table,
        function.sink,
        Start={"At": "HORIZON"},
        BatchSize=3,
        MaximumRetryAttempts=1,
        OnFailure=policy,
    )
    if policy == "block":
        until(lambda: (database.describe(name)["Figures"] or {}).get("Blocked"))  # none before it runs
        assert [] == database.dead_letters(name)
        assert [[[0, 1, 2]]] * 2 == function.notes()
        assert "one of them is bad" in str(database.describe(name)["LastError"])
        function.write("def handle(changes: list[Change]):\n    note([int(c.new['n']) for c in changes])\n")
        database.operate("ResumeSubscription", Name=name)
        database.settle()
        assert [[[0, 1, 2]]] * 3 == function.notes()
        return
    database.settle()
    handled = [n for (batch,) in function.notes() if 1 not in batch for n in batch]

    assert (DEAD[policy], HANDLED[policy]) == (sorted(numbers(database, name)), sorted(handled))


def test_a_failing_batch_holds_the_checkpoint_back(database: Database, table: Any) -> None:
    """
    The checkpoint does not pass an unhandled change: after a pause during its retries the change is delivered again.
    """
    function = database.function(
        "def handle(change):\n"
        "    note(change.keys['pk'])\n"
        f"    assert change.keys['pk'] != 'bad' or os.path.exists({str(database.folder / 'good')!r})\n"
    )
    name = database.subscribe(table, function.sink, ParallelizationFactor=4, BatchSize=1)
    put(table, "bad", 0)
    for n in range(30):
        put(table, f"{n}", n)
    until(lambda: len({pk for (pk,) in function.notes()}) >= 15)
    database.operate("PauseSubscription", Name=name)
    (database.folder / "good").touch()
    database.operate("ResumeSubscription", Name=name)
    database.settle()

    assert {"bad", *(f"{n}" for n in range(30))} == {pk for (pk,) in function.notes()}
    assert [] == database.dead_letters(name)
