"""Running subscriptions: checkpoints, lag, pause, replay, windows, throttling, loops, and waiting."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import foldb
from tests.behaviour.spec.feed.database import Database, connected, until_gone
from tests.support.claims import refused
from tests.support.raw import send
from tests.support.served import foldb as run_foldb
from tests.support.subscribed import until

ROOT = Path(__file__).parents[4]
KEYS = "def handle(change): note(change.keys['pk'], change.replay)"


@pytest.mark.spec("F23")
def test_a_checkpoint_is_in_the_log_and_can_be_reset(open_database: Callable[..., Any]) -> None:
    with open_database() as database:
        table, function = database.table(), database.function(KEYS)
        name = database.subscribe(table, function.sink)
        for n in range(3):
            table.put_item(Item={"pk": f"{n}"})
        database.settle()
        last = database.changes(table, 3)[-1]
        mark = until(lambda: int(database.describe(name)["Checkpoints"].get("0", 0)) >= int(last["number"]))
        assert mark
        assert name in database.cli("trigger", "list")
    with open_database() as database:
        table = database.resource.Table(table.name)
        table.put_item(Item={"pk": "after a start"})
        database.settle()
        assert ["0", "1", "2", "after a start"] == [pk for pk, _ in function.notes()]
        database.operate("ResetSubscription", Name=name, Start={"At": "HORIZON"})
        database.settle()

    assert ["0", "1", "2", "after a start"] * 2 == [pk for pk, _ in function.notes()]


@pytest.mark.spec("F24", "T12")
def test_lag_has_changes_and_time_per_partition(divided: Database) -> None:
    table = divided.table()
    gate = divided.folder / "gate"
    gate.touch()
    function = divided.function(f"def handle(change):\n    {until_gone(gate)}\n    note(change.keys['pk'])\n")
    name = divided.subscribe(table, function.sink)
    for n in range(20):
        table.put_item(Item={"pk": f"{n}"})
    lag = until(lambda: lag_of(divided, name) == 20 and divided.describe(name)["Lag"])
    metrics = send(divided.url, "GET", "/metrics", None, {}).data.decode()
    gate.unlink()
    divided.settle()
    until(lambda: lag_of(divided, name) == 0)

    assert {"1", "2", "3"} == set(lag)
    assert all(each["Milliseconds"] >= 0 for each in lag.values())
    assert any("lag" in line and name in line for line in metrics.splitlines())


def lag_of(database: Database, name: str) -> int:
    return sum(each["Changes"] for each in database.describe(name)["Lag"].values())


@pytest.mark.spec("T8", "T12")
def test_figures_have_rates_and_errors(database: Database, table: Any) -> None:
    function = database.function(
        "def handle(change):\n    if change.new.get('bad'): raise ValueError('no such customer')\n"
    )
    name = database.subscribe(table, function.sink, MaximumRetryAttempts=0)
    for n in range(9):
        table.put_item(Item={"pk": f"{n}"} | ({"bad": True} if n == 4 else {}))
    database.settle()
    described = database.describe(name)
    metrics = send(database.url, "GET", "/metrics", None, {}).data.decode()

    figures = described["Figures"]
    assert until(lambda: database.describe(name)["Dead"] == 1), "it is in the checkpoint too"
    assert (8, 1) == (figures["Delivered"], figures["DeadLetters"])
    assert "no such customer" in described["LastError"]
    assert figures["FailedCalls"] >= 1
    assert figures["CallMilliseconds"]["P95"] > 0
    assert figures["ChangesPerSecond"] > 0
    assert f'foldb_subscription_dead_letters_total{{subscription="{name}"}} 1.0' in metrics.splitlines()
    assert f'foldb_dead_letters{{table="{name}.dlq"}} 1.0' in metrics.splitlines()


@pytest.mark.spec("T8", "T12")
def test_every_metric_of_an_alarm_is_exported(open_database: Callable[..., Any]) -> None:
    with open_database("--memory-limit", "1000") as database:
        name = database.subscribe(database.table(), database.function(KEYS).sink)
        check_alarms(database)
        database.operate("PauseSubscription", Name=name)
        figures = figures_of(database)
        assert f'foldb_subscription_status{{status="PAUSED",subscription="{name}"}} 1.0' in figures
        assert f'foldb_subscription_lag_changes{{partition="0",subscription="{name}"}} 0.0' in figures


def check_alarms(database: Database) -> None:
    until(lambda: "foldb_subscription_lag_seconds{" in figures_of(database))

    rules = (ROOT / "compose" / "alerts.yaml").read_text()
    expressions = re.findall(r"expr: (.*)", rules)
    named = {name for expression in expressions for name in re.findall(r"foldb_[a-z_]+", expression)}
    assert len(named) >= len(expressions) > 3
    assert set() == {
        name for name in named if f"# TYPE {name.removesuffix('_total')}" not in figures_of(database)
    }


def figures_of(database: Database) -> str:
    return send(database.url, "GET", "/metrics", None, {}).data.decode()


@pytest.mark.spec("F26")
def test_a_resumed_trigger_continues_where_it_was_paused(database: Database, table: Any) -> None:
    function = database.function(KEYS)
    name = database.subscribe(table, function.sink)
    table.put_item(Item={"pk": "one"})
    database.settle()
    database.operate("PauseSubscription", Name=name)
    table.put_item(Item={"pk": "two"})
    assert "PAUSED" == database.describe(name)["Status"]
    other = database.function(KEYS)
    database.subscribe(table, other.sink, Start={"At": "HORIZON"})
    other.wait(2)
    assert [["one", False]] == function.notes()
    database.operate("ResumeSubscription", Name=name)
    database.settle()

    assert [["one", False], ["two", False]] == function.notes()


@pytest.mark.spec("F26")
def test_a_pause_can_drain_first(database: Database, table: Any) -> None:
    """Earlier changes are handled, later ones are not."""
    gate = database.folder / "drained"
    gate.touch()
    function = database.function(
        f"def handle(change):\n    {until_gone(gate)}\n    note(change.keys['pk'])\n"
    )
    name = database.subscribe(table, function.sink, BatchSize=1)
    for n in range(5):
        table.put_item(Item={"pk": f"{n}"})
    with ThreadPoolExecutor(1) as pool:
        paused = pool.submit(database.operate, "PauseSubscription", Name=name, Drain=True)
        gate.unlink()
        paused.result()
    assert "PAUSED" == database.describe(name)["Status"]
    table.put_item(Item={"pk": "after"})

    assert [[f"{n}"] for n in range(5)] == function.wait(5)
    assert lag_of(database, name) == 1


@pytest.mark.spec("F25", "T9")
def test_a_replay_counts_its_calls_and_marks_them(database: Database, table: Any) -> None:
    function = database.function(KEYS)
    name = database.subscribe(table, function.sink, BatchSize=4)
    for n in range(10):
        table.put_item(Item={"pk": f"{n % 5}", "n": n})
    database.settle()
    changes = database.changes(table, 10)
    dry = database.operate("ReplaySubscription", Name=name, From={"At": "HORIZON"}, DryRun=True)
    assert (10, 5) == (dry["Changes"], dry["Keys"])
    assert 10 == dry["Calls"], "the function takes one change at a time"
    assert 10 == len(function.notes()), "a dry run calls nobody"

    first = {"At": "NUMBERS", "Numbers": {"0": changes[3]["number"]}}
    last = {"Numbers": {"0": changes[7]["number"]}}
    replay = database.operate("ReplaySubscription", Name=name, From=first, To=last, DryRun=False)["Replay"]
    function.wait(14)
    until(lambda: database.describe(replay)["Status"] == "STOPPED")

    assert [[f"{n % 5}", True] for n in range(4, 8)] == function.notes()[10:]
    table.put_item(Item={"pk": "new"})
    database.settle()
    assert ["new", False] == function.notes()[-1], "its own checkpoint is where it was"
    replay = database.operate(
        "ReplaySubscription", Name=name, From={"At": "HORIZON"}, Key={"pk": {"S": "3"}}, DryRun=False
    )
    count = len(function.notes())
    function.wait(count + 2)
    until(lambda: database.describe(replay["Replay"])["Status"] == "STOPPED")
    assert [["3", True]] * 2 == function.notes()[count:]
    tables = database.client.list_tables()["TableNames"]
    assert not [each for each in tables if ".replay-" in each], "no dead letter, no dead-letter table"


@pytest.mark.spec("T9")
def test_a_replay_has_at_least_one_call_per_worker(database: Database, table: Any) -> None:
    function = database.function(
        "import os\n"
        "def handle(changes: list[Change]):\n"
        "    note(os.environ['AWS_SDK_UA_APP_ID'].rpartition('.')[2])\n"
    )
    name = database.subscribe(table, function.sink, BatchSize=100, ParallelizationFactor=4)
    for n in range(20):
        table.put_item(Item={"pk": f"{n}"})
    database.settle()
    counts = database.operate("ReplaySubscription", Name=name, From={"At": "HORIZON"}, DryRun=True)

    workers = {worker for [worker] in function.notes()}
    assert len(workers) > 1
    assert len(workers) == counts["Calls"]


@pytest.mark.spec("T9")
def test_a_replay_to_a_broken_function_is_refused(
    open_database: Callable[..., Any],
) -> None:
    with open_database() as database:
        table, function = database.table(), database.function(KEYS)
        name = database.subscribe(table, function.sink)
        table.put_item(Item={"pk": "a"})
        database.settle()
        function.write("import no_such_module")
        refusal = run_foldb("--db", database.url, "trigger", "replay", name, "--from", "horizon", "--yes")

        assert 7 == refusal.returncode, refusal.stderr
        assert "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'" in refusal.stderr
        assert [name] == [each["Name"] for each in database.operate("ListSubscriptions")["Subscriptions"]]


@pytest.mark.spec("F25", "T9")
def test_the_command_line_counts_a_replay(database: Database, table: Any) -> None:
    function = database.function(KEYS)
    name = database.subscribe(table, function.sink)
    for n in range(4):
        table.put_item(Item={"pk": f"{n}"})
    database.settle()
    output = database.cli("trigger", "replay", name, "--from", "horizon", "--dry-run", "-o", "jsonl")

    counts = {"trigger": name, "calls": 4, "changes": 4, "keys": 4, "side_effects": False}
    assert counts == json.loads(output)
    assert 4 == len(function.notes())


@pytest.mark.spec("F22", "T16")
def test_a_tumbling_window_keeps_its_state_in_the_log(
    open_database: Callable[..., Any],
) -> None:
    """A window has one final call with the state of its earlier calls, also after a restart in between."""
    source = (
        "def handle(changes: list[Change], window: Window):\n"
        "    state = window.state\n"
        "    state['count'] = state.get('count', 0) + len(changes)\n"
        "    if window.is_final: note(str(window.start), str(window.end), state['count'])\n"
    )
    with open_database() as database:
        table, function = database.table(), database.function(source)
        database.subscribe(table, function.sink, TumblingWindowInSeconds=1)
        for n in range(10):
            table.put_item(Item={"pk": f"{n}"})
    with open_database() as database:
        table = database.resource.Table(table.name)
        for n in range(10):
            table.put_item(Item={"pk": f"later {n}"})
        until(lambda: sum(count for *_, count in function.notes()) == 20)
        changes = database.changes(table, 20)
    counts = Counter(change["time"][:19] for change in changes)
    reported = {start[:19].replace(" ", "T"): count for start, _, count in function.notes() if count}

    assert counts == reported


@pytest.mark.spec("T15")
def test_a_slow_trigger_throttles_writes_only_with_max_lag(database: Database, table: Any) -> None:
    gate = database.folder / "slow"
    gate.touch()
    function = database.function(f"def handle(change):\n    {until_gone(gate)}\n")
    database.subscribe(table, function.sink)
    for n in range(500):
        table.put_item(Item={"pk": f"{n}"})

    bounded = database.table()
    database.subscribe(bounded, function.sink, MaximumLag=50)
    with refused("ThrottlingException", "further behind than its MaximumLag"):
        put_for_ever(bounded)
    table.put_item(Item={"pk": "another table is free"})
    gate.unlink()
    database.settle()
    until(lambda: is_taken(bounded))


def is_taken(table: Any) -> bool:
    """Return whether a put succeeds without throttling."""
    try:
        table.put_item(Item={"pk": "again"})
    except table.meta.client.exceptions.ThrottlingException:
        return False
    return True


def put_for_ever(table: Any) -> None:
    for n in itertools.count():
        table.put_item(Item={"pk": f"{n}"})


@pytest.mark.guarantee("SEC28")
@pytest.mark.spec("T17")
def test_a_loop_of_triggers_is_stopped_at_depth_sixteen(database: Database, table: Any) -> None:
    function = database.function(
        "import boto3\n"
        "client = boto3.client('dynamodb')\n"
        "def handle(change):\n"
        "    note(change.depth, change.source)\n"
        f"    client.update_item(TableName={table.name!r}, Key={{'pk': {{'S': 'loop'}}}},\n"
        "        UpdateExpression='ADD n :one', ExpressionAttributeValues={':one': {'N': '1'}})\n"
    )
    name = database.subscribe(table, function.sink)
    table.put_item(Item={"pk": "loop"})
    [letter] = until(lambda: database.dead_letters(name))

    assert [[0, "api"], *([depth, "trigger"] for depth in range(1, 16))] == function.notes()
    assert 16 == letter["Change"]["depth"]
    assert "16" in letter["Error"]
    assert "loop" in letter["Error"]


@pytest.mark.spec("T18")
def test_a_test_waits_for_its_triggers_without_sleeping(tmp_path: Any) -> None:
    triggers = tmp_path / "triggers"
    triggers.mkdir()
    notes = tmp_path / "notes"
    (triggers / "orders.py").write_text(
        "from foldb import Change, trigger\n"
        "@trigger('Orders')\n"
        "def handle(change: Change) -> None:\n"
        f"    with open({str(notes)!r}, 'a') as file: file.write(change.keys['pk'] + chr(10))\n"
    )
    with foldb.serve(triggers=triggers) as server:
        database = connected(tmp_path, server.endpoint_url)
        database.client.create_table(
            TableName="Orders",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        for n in range(50):
            database.client.put_item(TableName="Orders", Item={"pk": f"{n}"})
        server.wait_for_triggers(timeout=30)
        assert [f"{n}" for n in range(50)] == notes.read_text().split()


@pytest.mark.spec("T11")
def test_explain_prints_the_rules_of_a_filter(database: Database, table: Any) -> None:
    function = database.function(KEYS)
    name = database.subscribe(
        table,
        function.sink,
        Filter={"Expression": "NEW.amount > :n", "ExpressionAttributeValues": {":n": {"N": "100"}}},
    )
    table.put_item(Item={"pk": "small", "amount": 10})
    table.put_item(Item={"pk": "large", "amount": 500})
    database.settle()
    output = database.cli("trigger", "explain", name, "--last", "2", "-o", "jsonl")

    assert ["large"] == [pk for pk, _ in function.notes()]
    small, large = map(json.loads, output.splitlines())
    assert ("small", False) == (small["new"]["pk"], small["delivered"])
    assert ("large", True) == (large["new"]["pk"], large["delivered"])
    assert [False] == [rule["holds"] for rule in small["why"] if "NEW.amount" in str(rule)]
