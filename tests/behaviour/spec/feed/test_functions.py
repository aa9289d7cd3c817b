"""Functions that triggers call: Python's and Lambda's, declared in a file, changed while they run."""

from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.spec.feed.database import Database, opened
from tests.support.raw import ask
from tests.support.served import foldb, served
from tests.support.subscribed import until
from tests.support.tables import table_request

ALL = """
def handle(change: Change) -> None:
    note(change.op, change.keys, change.old, change.new, change.table, change.sequence_number, change.position,
         change.time.isoformat(), change.tx, change.principal, change.request_id, change.source, change.replay)
"""
FORMS = {
    "single": "def handle(change: Change) -> None: note(change.keys['pk'])",
    "async": "async def handle(change: Change) -> None: note(change.keys['pk'])",
    "batch": "def handle(changes: list[Change]) -> None:\n    for c in changes: note(c.keys['pk'])",
    "async batch": (
        "async def handle(changes: list[Change]) -> None:\n    for c in changes: note(c.keys['pk'])"
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.spec("F27", "T1")
def test_a_function_takes_one_change_or_a_batch_and_may_be_async(
    database: Database, table: Any, form: str
) -> None:
    function = database.function(FORMS[form])
    database.subscribe(table, function.sink)
    for n in range(12):
        table.put_item(Item={"pk": f"{n}"})
    database.settle()

    assert [[f"{n}"] for n in range(12)] == function.notes()


@pytest.mark.spec("T1")
def test_a_function_gets_a_whole_change_in_python_values(database: Database, table: Any) -> None:
    function = database.function(ALL)
    database.subscribe(table, function.sink)
    table.put_item(Item={"pk": "car", "n": 1, "b": b"\x00", "l": [True, None]})
    database.client.transact_write_items(
        TransactItems=[{"Update": {
            "TableName": table.name, "Key": {"pk": "car"},
            "UpdateExpression": "SET n = :n", "ExpressionAttributeValues": {":n": 2},
        }}]
    )  # fmt: skip
    database.settle()
    put, updated = function.notes()
    changes = database.changes(table, 2)

    assert ["INSERT", {"pk": "car"}, None] == put[:3]
    assert {"pk": "car", "n": "1", "b": "b'\\x00'", "l": [True, None]} == put[3]
    assert [table.name, int(changes[0]["number"]), changes[0]["position"]] == put[4:7]
    assert changes[0]["time"][:19] == put[7][:19]
    assert [None, "key", changes[0]["requestId"], "api", False] == put[8:]
    assert ["MODIFY", put[3], {**put[3], "n": "2"}] == [updated[0], *updated[2:4]]
    assert [0, 1] == updated[8][1:]


@pytest.mark.spec("T2", "S91")
def test_a_lambda_handler_gets_the_event_that_aws_sends(database: Database, table: Any) -> None:
    function = database.function(
        "def lambda_handler(event, context):\n"
        "    note(event, context.function_name, context.aws_request_id, context.get_remaining_time_in_millis())\n",
        name="lambda_handler",
        Kind="lambda",
    )
    database.subscribe(table, function.sink)
    table.put_item(Item={"pk": "car", "n": 1})
    [[event, name, request_id, remaining]] = function.wait(1)
    [record] = event["Records"]
    [streamed] = database.records(table, 1)

    # The members of GetRecords in Lambda's spelling, and the source's ARN.
    assert streamed["eventID"] == record["eventID"]
    assert {
        "eventID": streamed["eventID"],
        "eventName": "INSERT",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1",
        "dynamodb": {
            "ApproximateCreationDateTime": record["dynamodb"]["ApproximateCreationDateTime"],
            "Keys": {"pk": {"S": "car"}},
            "NewImage": {"pk": {"S": "car"}, "n": {"N": "1"}},
            "SequenceNumber": streamed["dynamodb"]["SequenceNumber"],
            "SizeBytes": streamed["dynamodb"]["SizeBytes"],
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
        "eventSourceARN": table.latest_stream_arn,
    } == record
    assert isinstance(record["dynamodb"]["ApproximateCreationDateTime"], int | float)
    assert name
    assert request_id
    assert 0 < remaining <= 60_000


DECLARED = """
@trigger({table!r}, on=["INSERT", "MODIFY"], when="NEW.#s = 'PAID' AND OLD.#s <> 'PAID'", names={{"#s": "state"}},
         batch=100, window=0.05, workers=4, retries=5, backoff="10ms..20ms", max_age="1h", dlq={dlq!r})
def send_receipt_{suffix}(change: Change) -> None:
    note(change.keys["pk"])
"""


@pytest.mark.spec("T1")
def test_a_trigger_is_declared_beside_its_function(database: Database, table: Any) -> None:
    """A saved file suffices: the log then holds the trigger with its settings."""
    suffix = table.name.replace("-", "_")
    function = database.function(DECLARED.format(table=table.name, dlq=f"{table.name}.failed", suffix=suffix))
    name = f"send_receipt_{suffix}"
    declared = until(lambda: next(iter(named(database, name)), None))
    table.put_item(Item={"pk": "one", "state": "NEW"})
    table.put_item(Item={"pk": "one", "state": "PAID"})
    table.put_item(Item={"pk": "one", "state": "PAID", "note": "again"})
    database.settle()

    assert [["one"]] == function.notes()
    settings = database.describe(name)["Settings"]
    assert (100, 4, 5, ["INSERT", "MODIFY"], f"{table.name}.failed") == (
        settings["BatchSize"],
        settings["ParallelizationFactor"],
        settings["MaximumRetryAttempts"],
        settings["Events"],
        settings["DeadLetterTable"],
    )
    assert declared
    function.path.unlink()
    until(lambda: database.describe(name)["Status"] != "ACTIVE" if named(database, name) else True)


def named(database: Database, name: str) -> list[Any]:
    return [each for each in database.operate("ListSubscriptions")["Subscriptions"] if each["Name"] == name]


@pytest.mark.spec("T14")
def test_the_next_batch_runs_a_saved_file_and_its_version(database: Database, table: Any) -> None:
    function = database.function("def handle(change): note('old', change.keys['pk'])")
    name = database.subscribe(table, function.sink)
    table.put_item(Item={"pk": "one"})
    database.settle()
    before = until(lambda: database.describe(name)["Version"])
    function.write("def handle(change): note('new', change.keys['pk'])")
    table.put_item(Item={"pk": "two"})
    database.settle()

    assert [["old", "one"], ["new", "two"]] == function.notes()
    assert until(lambda: database.describe(name)["Version"] != before)


@pytest.mark.spec("T14")
def test_a_file_that_does_not_compile_is_an_error_until_fixed(database: Database, table: Any) -> None:
    function = database.function("def handle(change: note(")
    name = database.subscribe(table, function.sink)
    table.put_item(Item={"pk": "one"})
    until(lambda: "SyntaxError" in str(database.describe(name)["LastError"]))
    function.write("def handle(change): note(change.keys['pk'])")
    database.settle()

    assert [["one"]] == function.notes()


@pytest.mark.guarantee("G44")
def test_a_crashing_or_hanging_function_ends_alone(database: Database, table: Any) -> None:
    """Its process is restarted; the server and other triggers are unaffected."""
    function = database.function(
        "tries = 0\n"
        "def handle(change):\n"
        "    note(change.keys['pk'])\n"
        f"    here = {str(database.folder / 'crashed')!r} + change.keys['pk']\n"
        "    if not os.path.exists(here):\n"
        "        open(here, 'w').close()\n"
        "        if change.keys['pk'] == 'exits': os._exit(3)\n"
        "        while True: pass\n"
    )
    name = database.subscribe(table, function.sink, TimeoutSeconds=1)
    table.put_item(Item={"pk": "exits"})
    table.put_item(Item={"pk": "hangs"})
    database.settle()

    assert ["exits", "hangs"] == sorted({pk for (pk,) in function.notes()})
    assert 2 == function.notes().count(["hangs"])
    assert [] == database.dead_letters(name)


ONCE = """
from foldb import once
failed = set()

def handle(change: Change) -> None:
    with once(change) as writes:
        writes.update(
            TableName={target!r}, Key={{"pk": "count"}},
            UpdateExpression="ADD n :one", ExpressionAttributeValues={{":one": 1}},
        )
    note(change.keys["pk"])
    if change.keys["pk"].endswith("5") and change.sequence_number not in failed:
        failed.add(change.sequence_number)
        raise RuntimeError("after it was written")
"""


@pytest.mark.spec("T7")
def test_once_applies_a_repeated_change_once(database: Database, table: Any) -> None:
    target = database.table(view=None)
    function = database.function(ONCE.format(target=target.name))
    database.subscribe(table, function.sink)
    for n in range(20):
        table.put_item(Item={"pk": f"{n}"})
    database.settle()

    assert 22 == len(function.notes()), "two were called twice"
    assert 20 == target.get_item(Key={"pk": "count"})["Item"]["n"]


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """Return the folder of a stopped database with a table of five items."""
    folder = tmp_path
    with opened(folder) as database:
        table = database.resource.create_table(
            TableName="Orders",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        for n in range(5):
            table.put_item(Item={"pk": f"{n}"})
    (folder / "triggers" / "code.py").write_text(
        f"def handle(change):\n    open({str(folder / 'called')!r}, 'a').write(change.keys['pk'] + ' ')\n"
    )
    return folder


@pytest.mark.parametrize("which", [("--last", "3"), ("--event", "EVENT")])
@pytest.mark.spec("T10")
def test_a_function_is_tested_without_a_server(stopped: Path, which: tuple[str, ...]) -> None:
    file = stopped / "event.json"
    if which[0] == "--event":
        tail = foldb(
            "--db", stopped / "data", "stream", "tail", "--table", "Orders", "-c", "1", "-o", "jsonl"
        )
        file.write_text(tail.stdout)
        which = ("--event", str(file))
    database: list[str | Path] = ["--db", stopped / "data", "--triggers", stopped / "triggers"]
    arguments: list[str | Path] = [
        "trigger",
        "test",
        "code.py:handle",
        *database,
        "--table",
        "Orders",
        *which,
    ]
    shown = foldb(*arguments)
    called = foldb(*arguments, "--call")

    assert (0, 0) == (shown.returncode, called.returncode), shown.stderr + called.stderr
    expected = ["0"] if which[0] == "--event" else ["2", "3", "4"]
    assert expected == (stopped / "called").read_text().split(), (
        "once: without --call the calls are only printed"
    )
    assert all(f'"{pk}"' in shown.stdout for pk in expected)


@pytest.mark.guarantee("SEC22")
def test_without_a_folder_no_code_runs(tmp_path: Path) -> None:
    """The operator of a machine decides which code runs there, not a client of the port."""
    with served(tmp_path) as url:
        ask(url, "CreateTable", table_request("Orders", "pk:S"))
        for sink in (
            {"Kind": "python", "Function": "os:getcwd"},
            {"Kind": "lambda", "Handler": "os.getcwd"},
            {"Kind": "command", "Command": ["/bin/true"]},
        ):
            answer = ask(
                url,
                "Foldb_20261121.CreateSubscription",
                {"Name": "x", "TableNames": ["Orders"], "Sink": sink},
            )
            assert 400 == answer.status
            assert "--triggers" in answer.body["message"]
