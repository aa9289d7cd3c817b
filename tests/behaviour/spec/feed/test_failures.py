"""What happens to a change that cannot be handled: retries, isolation, dead letters, and how they are mended."""

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
    """The `n` of each dead letter."""
    return [int(letter["Change"]["new"]["n"]["N"]) for letter in database.letters(name)]


@pytest.mark.spec("F16")
def test_a_batch_that_fails_is_halved_until_the_bad_change_stands_alone(
    database: Database, table: Any
) -> None:
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
def test_what_a_lambda_handler_reports_as_failed_is_where_it_goes_on(database: Database, table: Any) -> None:
    """What stands before the lowest is done; the rest comes again, and its attempts are counted on."""
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
    # A poison record comes to an end: three calls, then it is given up.
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
    assert "no such customer" in database.letters(name)[0]["Error"]


@pytest.mark.spec("F18")
def test_a_change_is_tried_as_often_as_the_settings_say(database: Database, table: Any) -> None:
    function = database.function(BAD)
    name = database.subscribe(table, function.sink, MaximumRetryAttempts=4)
    put(table, "a", 1, bad=True)
    database.settle()

    assert [["a", 1]] * 5 == function.notes()
    assert 5 == database.letters(name)[0]["Attempts"]


@pytest.mark.spec("F18")
def test_without_a_bound_a_change_is_tried_until_it_goes_well(database: Database, table: Any) -> None:
    function = database.function(
        "tries = 0\ndef handle(change):\n    global tries\n    tries += 1\n    note(tries)\n    assert tries > 12\n"
    )
    name = database.subscribe(table, function.sink)
    put(table, "a", 1)
    database.settle()

    assert [[n] for n in range(1, 14)] == function.notes()
    assert [] == database.letters(name)


@pytest.mark.spec("F18")
def test_the_pause_between_two_tries_grows(database: Database, table: Any) -> None:
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
def test_the_age_of_a_change_is_bounded_as_lambdas_is(database: Database, table: Any, age: int) -> None:
    request = {
        "Name": "wrong",
        "TableNames": [table.name],
        "Sink": database.function(BAD).sink,
        "MaximumRecordAgeInSeconds": age,
    }
    assert 400 == ask(database.url, "Foldb_20261121.CreateSubscription", request).status


@pytest.mark.spec("F19", "T8")
def test_a_dead_letter_holds_all_that_is_needed_to_understand_and_repeat_it(
    database: Database, table: Any
) -> None:
    function = database.function(BAD)
    name = database.subscribe(table, function.sink, MaximumRetryAttempts=1)
    put(table, "a", 1, bad=True)
    database.settle()
    [letter] = database.letters(name)
    [item] = database.resource.Table(f"{name}.dlq").scan()["Items"]
    [change] = database.changes(table, 1)

    assert change.items() <= letter["Change"].items()
    assert "ValueError: no such customer" in letter["Error"]
    assert "raise ValueError" in letter["Traceback"]
    assert 2 == letter["Attempts"] == item["attempts"]
    assert letter["First"] <= letter["Last"]
    assert letter["Version"]
    assert change["number"] == item["number"]
    assert "payload" in item, "it is a table: any client reads it"


@pytest.mark.spec("F20")
def test_what_follows_a_dead_letter_in_its_key_follows_it_there(database: Database, table: Any) -> None:
    function = database.function(BAD)
    name = database.subscribe(table, function.sink, MaximumRetryAttempts=0, ParallelizationFactor=2)
    put(table, "a", 1, bad=True)
    for n in range(2, 5):
        put(table, "a", n)
        put(table, "b", n)
    database.settle()

    assert [1, 2, 3, 4] == sorted(numbers(database, name))
    assert [["a", 1], ["b", 2], ["b", 3], ["b", 4]] == sorted(function.notes())
    assert any("waits for" in letter["Error"] for letter in database.letters(name))


@pytest.mark.spec("F21", "T8")
def test_letters_of_a_key_are_mended_and_retried_in_their_order(database: Database, table: Any) -> None:
    """One is edited with UpdateItem or the CLI, and what is delivered is what it says then."""
    function = database.function(BAD)
    name = database.subscribe(table, function.sink, MaximumRetryAttempts=0)
    put(table, "a", 1, bad=True)
    put(table, "a", 2)
    put(table, "b", 7, bad=True)
    database.settle()
    count = len(function.notes())
    letters = {int(letter["Change"]["new"]["n"]["N"]): letter for letter in database.letters(name)}
    database.cli("dlq", "edit", name, letters[1]["Number"], "--set", "new.n=100", "--set", "new.bad=false")
    database.operate("RetryDeadLetters", Name=name, Key=letters[1]["Key"])
    until(lambda: len(function.notes()) >= count + 2)
    database.settle()

    assert [["a", 100], ["a", 2]] == function.notes()[count:]
    assert [7] == numbers(database, name), "another key's stays"
    put(table, "a", 3)
    database.settle()
    assert ["a", 3] == function.notes()[-1], "the key is free again"


@pytest.mark.spec("F21", "T8")
def test_letters_can_be_dropped(database: Database, table: Any) -> None:
    function = database.function(BAD)
    name = database.subscribe(table, function.sink, MaximumRetryAttempts=0)
    put(table, "a", 1, bad=True)
    put(table, "a", 2)
    database.settle()
    database.operate("DropDeadLetters", Name=name)
    put(table, "a", 3)
    database.settle()

    assert [] == database.letters(name)
    assert [["a", 1], ["a", 3]] == function.notes()


DEAD = {"isolate": [1], "batch": [0, 1, 2]}
HANDLED = {"isolate": [0, 2], "batch": []}


@pytest.mark.parametrize("policy", ["isolate", "batch", "block"])
@pytest.mark.spec("T13")
def test_a_policy_says_what_poison_takes_with_it(database: Database, table: Any, policy: str) -> None:
    """
    isolate: the change alone is given up. batch: all that were called with it. block: nothing is, and its lane
    stands still until somebody mends the code.
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
        assert [] == database.letters(name)
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


def test_a_batch_that_fails_while_others_go_on_is_not_lost(database: Database, table: Any) -> None:
    """
    The checkpoint does not pass what was not handled: after a pause in the midst of the tries it comes again.
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
    assert [] == database.letters(name)
