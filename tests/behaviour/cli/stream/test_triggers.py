"""`foldb trigger`: add, change, pause, reset, replay and remove triggers."""

import json
from pathlib import Path
from typing import Any

import pytest

import foldb
from tests.behaviour.cli.conftest import Foldb, at, lines
from tests.behaviour.cli.stream.conftest import Shop
from tests.behaviour.cli.test_refusals import check

SEND = ("--table", "Orders", "--python", "receipts.py:send")


def one(shop: Shop, *arguments: str) -> dict[str, Any]:
    """Return the only row that a command prints."""
    [row] = lines(shop.run(*arguments))
    return dict(row)


def test_a_command_reads_the_changes_on_its_stdin(shop: Shop) -> None:
    """Without --table the trigger's name is the table's."""
    notes = shop.folder / "notes"
    notes.unlink(missing_ok=True)
    added = one(shop, "trigger", "add", "Orders", "--run", "./notify.sh 'two words' three")
    shop.put('{"id": "a", "n": 1}')

    assert "./notify.sh 'two words' three" == added["target"]
    assert (["Orders"], "ACTIVE") == (added["tables"], added["status"])
    [change] = [json.loads(line) for line in notes.read_text().splitlines()]
    assert ("INSERT", {"id": {"S": "a"}}) == (change["op"], change["keys"])


def test_add_reports_a_function_that_does_not_exist(shop: Shop) -> None:
    added = shop.run("trigger", "add", "receipts", "--table", "Orders", "--python", "receipts.py:sent")

    assert 10 == added.exit_code
    assert (
        "receipts is added, but its target cannot be loaded: receipts:sent cannot be loaded" in added.stderr
    )
    assert "`foldb trigger show receipts` prints its state." in added.stderr
    row = json.loads(added.stdout)
    assert ("receipts", "ACTIVE") == (row["trigger"], row["status"])


def test_only_changes_that_pass_the_filter_are_delivered(shop: Shop) -> None:
    shop.run(
        "trigger", "add", "receipts", *SEND, "--on", "MODIFY", "--when", "NEW.n > 1 AND OLD.n <= 1",
        "--pattern", '{"dynamodb": {"Keys": {"id": {"S": [{"prefix": "o"}]}}}}', "--batch", "10", "--window", "50ms",
    )  # fmt: skip
    shop.put('{"id": "o1", "n": 1}', '{"id": "o1", "n": 2}', '{"id": "o1", "n": 3}', '{"id": "x", "n": 2}')

    assert ["MODIFY o1 False"] == shop.notes()


def test_replace_removes_limits(shop: Shop) -> None:
    shop.run("trigger", "add", "receipts", *SEND, "--window", "5s", "--max-age", "1h", "--tumbling", "1m")
    changed = shop.run(
        "trigger", "add", "receipts", "--replace", "--window", "0s", "--max-age", "never", "--tumbling", "0s",
        "--backoff", "0s..1s", "--table", "Orders",
    )  # fmt: skip
    assert 0 == changed.exit_code, changed.output

    settings = one(shop, "trigger", "show", "receipts")["Settings"]
    assert (0, -1, 0) == (
        settings["MaximumBatchingWindowInSeconds"],
        settings["MaximumRecordAgeInSeconds"],
        settings["TumblingWindowInSeconds"],
    )
    assert {"First": 0, "Most": 1} == settings["Backoff"]


def test_every_option_is_a_setting(shop: Shop) -> None:
    shop.run(
        "trigger", "add", "receipts", *SEND, "--batch", "7", "--window", "250ms", "--workers", "4", "--retries", "5",
        "--backoff", "500ms..2m", "--max-age", "1h", "--bisect", "--on-failure", "batch", "--dlq", "failed",
        "--timeout", "5s", "--max-lag", "1000", "--partial", "--from", "horizon", "--sink", '{"MemorySize": 512}',
    )  # fmt: skip
    settings = one(shop, "trigger", "show", "receipts")["Settings"]

    expected = {
        "BatchSize": 7,
        "MaximumBatchingWindowInSeconds": "0.25",
        "ParallelizationFactor": 4,
        "MaximumRetryAttempts": 5,
        "Backoff": {"First": "0.5", "Most": 120},
        "MaximumRecordAgeInSeconds": 3600,
        "BisectBatchOnFunctionError": True,
        "OnFailure": "batch",
        "DeadLetterTable": "failed",
        "TimeoutSeconds": 5,
        "MaximumLag": 1000,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "Start": {"At": "HORIZON"},
        "Sink": {"Kind": "python", "Function": "receipts:send", "MemorySize": 512},
    }
    assert expected == {name: settings[name] for name in expected}


def test_replace_changes_only_the_given_settings(shop: Shop) -> None:
    shop.run("trigger", "add", "receipts", *SEND, "--batch", "7", "--retries", "3")
    shop.run("trigger", "add", "receipts", "--replace", "--batch", "9", "--tumbling", "1m")
    settings = one(shop, "trigger", "show", "receipts")["Settings"]

    assert (9, 3, 60) == (
        settings["BatchSize"],
        settings["MaximumRetryAttempts"],
        settings["TumblingWindowInSeconds"],
    )
    assert "receipts:send" == settings["Sink"]["Function"]


def test_a_resumed_trigger_continues_from_its_checkpoint(shop: Shop) -> None:
    shop.run("trigger", "add", "receipts", *SEND)
    shop.put('{"id": "a"}')
    assert "PAUSED" == one(shop, "trigger", "pause", "receipts", "--drain")["status"]
    shop.run("item", "put", "Orders", '{"id": "b"}')
    assert ["INSERT a False"] == shop.notes()

    assert 1 == one(shop, "trigger", "lag", "receipts")["changes"]
    again = shop.run("trigger", "pause", "receipts", "--drain")
    check(
        again, 7, "receipts is PAUSED already, and its changes were not delivered: resume it, then drain it"
    )
    assert "PAUSED" == one(shop, "trigger", "pause", "receipts")["status"]
    waited = shop.run("wait", "--triggers", "--timeout", "5s")
    check(waited, 8, "receipts is PAUSED, 1 change behind. `foldb trigger list` shows more.")
    assert "ACTIVE" == one(shop, "trigger", "resume", "receipts")["status"]
    shop.settle()
    assert ["INSERT b False"] == shop.notes()
    assert 0 == one(shop, "trigger", "lag")["changes"]


def test_a_wait_without_time_returns_the_current_state(shop: Shop) -> None:
    shop.run("trigger", "add", "receipts", *SEND)
    shop.put('{"id": "a"}')

    waited = shop.run("wait", "--triggers", "--timeout", "0s")
    assert (0, "every trigger has handled all changes\n") == (waited.exit_code, waited.stderr)


def test_a_reset_moves_a_trigger_after_confirmation(shop: Shop) -> None:
    shop.run("trigger", "add", "receipts", *SEND)
    shop.put('{"id": "a"}', '{"id": "b"}')
    shop.notes()
    second = lines(shop.run("stream", "tail", "--table", "Orders"))[1]
    reset = ("trigger", "reset", "receipts", "--from", f"@{second['position']}")

    check(shop.run(*reset, "--no-input"), 2, "Nothing was done: give --yes.")
    assert "nothing was done" in shop.run(*reset, stdin="no\n").stderr
    shop.settle()
    assert [] == shop.notes()
    assert 0 == shop.run(*reset, stdin="yes\n").exit_code
    shop.settle()
    assert ["INSERT b False"] == shop.notes()


def test_a_replay_is_counted_before_the_first_call(shop: Shop) -> None:
    shop.run("trigger", "add", "receipts", *SEND, "--batch", "2")
    shop.put('{"id": "a"}', '{"id": "b"}', '{"id": "a", "n": 1}')
    shop.notes()
    replay = ("trigger", "replay", "receipts", "--from", "horizon")

    counts = {"trigger": "receipts", "calls": 3, "changes": 3, "keys": 2, "side_effects": False}
    assert counts == one(shop, *replay, "--dry-run")
    asked = shop.run(*replay)
    assert 2 == asked.exit_code
    assert asked.stderr.startswith("Call receipts 3 times again, for 3 changes of 2 keys? [y/N]")
    shop.settle()
    assert [] == shop.notes()

    begun = one(shop, *replay, "--yes")
    assert ["INSERT a True", "INSERT b True", "MODIFY a True"] == shop.notes()
    assert ("done", 0) == (begun["status"], begun["dead_letters"])
    assert "STOPPED" == one(shop, "trigger", "show", begun["replay"])["Status"]
    shop.run(*replay, "--key", "b", "--yes", "--no-wait")
    shop.settle()
    assert ["INSERT b True"] == shop.notes()


@pytest.mark.spec("T9")
@pytest.mark.parametrize("target", [("--run", "./notify.sh"), ("--lambda", "receipts.py:lambda_handler")])
def test_a_replay_has_side_effects_only_if_asked_for(shop: Shop, target: tuple[str, str]) -> None:
    """A command and a Lambda handler act outside the database, and may not know that they are called again."""
    shop.run("trigger", "add", "sends", "--table", "Orders", *target)
    shop.put('{"id": "a"}', '{"id": "b"}')
    files = [shop.folder / "notes", shop.folder / "receipts.notes"]
    for file in files:
        file.unlink(missing_ok=True)
    replay = ("trigger", "replay", "sends", "--from", "horizon", "--yes")

    assert one(shop, *replay, "--dry-run")["side_effects"]
    check(shop.run(*replay), 2, "Give --side-effects to make them")
    assert ["sends"] == [each["trigger"] for each in lines(shop.run("trigger", "list"))]
    assert not any(file.exists() for file in files)
    assert 2 == one(shop, *replay, "--side-effects")["changes"]
    assert any(file.exists() for file in files)


def test_a_replay_ends_at_its_end(shop: Shop) -> None:
    """The change at the position, or with the sequence number, is the last."""
    shop.run("trigger", "add", "receipts", *SEND)
    shop.put('{"id": "a"}', '{"id": "b"}', '{"id": "c"}')
    second = lines(shop.run("stream", "tail", "--table", "Orders"))[1]

    for end in (f"@{second['position']}", second["number"], f"0:{second['number']}"):
        counted = one(shop, "trigger", "replay", "receipts", "--from", "start", "--to", end, "--dry-run")
        assert 2 == counted["changes"], end


def test_a_replay_with_dead_letters_exits_with_partly(shop: Shop) -> None:
    shop.run("trigger", "add", "receipts", *SEND, "--retries", "0", "--backoff", "1ms..1ms")
    shop.put('{"id": "a", "bad": true}', '{"id": "b"}')

    result = shop.run("trigger", "replay", "receipts", "--from", "horizon", "--yes")
    assert 10 == result.exit_code
    begun = json.loads(result.stdout)
    assert ("done", 1) == (begun["status"], begun["dead_letters"])
    assert result.stderr.endswith(
        f"foldb: 1 dead letter: `foldb dlq show {begun['replay']}` prints the errors\n"
    )


def test_a_removed_trigger_is_not_called(shop: Shop) -> None:
    shop.run("trigger", "add", "receipts", *SEND)
    check(shop.run("trigger", "remove", "receipts", "--no-input"), 2, "give --yes")
    assert 0 == shop.run("trigger", "remove", "receipts", "--yes").exit_code
    shop.put('{"id": "a"}')

    assert [] == shop.notes()
    assert [] == lines(shop.run("trigger", "list"))


def test_a_stream_lists_the_triggers_of_its_table(shop: Shop) -> None:
    shop.run("trigger", "add", "receipts", *SEND)

    streams = lines(shop.run("stream", "list"))
    assert [("Orders", "ENABLED", ["receipts"])] == [
        (each["TableName"], each["Status"], each["Subscriptions"]) for each in streams
    ]
    [described] = lines(shop.run("stream", "describe", "Orders"))
    assert [0] == [each["Partition"] for each in described["Partitions"]]
    assert 1 == len(described["Partitions"][0]["Shards"])
    shop.run("table", "update", "Orders", "--no-stream")
    statuses = [each["Status"] for each in lines(shop.run("stream", "list"))]
    assert ["DISABLED", "WATCHED"] == sorted(statuses)


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory, triggers: Path) -> Any:
    """Yield the command on a database with the trigger `receipts`, which no test changes."""
    with foldb.serve(
        tmp_path_factory.mktemp("refusing") / "data", fsync="never", triggers=triggers
    ) as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Orders", "id:S")
        cli("trigger", "add", "receipts", *SEND)
        yield cli


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (
            "add x --table Orders",
            2,
            "name the target: --python, --lambda, --run, --webhook, --kafka, --file",
        ),
        ("add x --run a --webhook http://b", 2, "--run and --webhook: a trigger calls one of them"),
        ("add x --run 'a", 2, "--run 'a: No closing quotation: close the quotes"),
        ("add x --run=", 2, "--run is empty: write a file and its arguments"),
        (
            "add x --python send",
            2,
            "--python send: write a file in the server's --triggers folder and a name in it",
        ),
        (
            "add x --python ../a.py:send",
            2,
            "--python ../a.py:send: write a file in the server's --triggers folder",
        ),
        ("add x --lambda a.sh:send", 2, "--lambda a.sh:send: write a file"),
        ("add Orders --python nowhere.py:send", 7, "there is no nowhere.py in the folder of triggers"),
        ("add Orders --lambda nowhere.py:send", 7, "there is no nowhere.py in the folder of triggers"),
        ("add Orders --sink {", 2, "--sink is not JSON"),
        ("add Orders --sink []", 2, "--sink is not a JSON object"),
        (
            "add Orders --sink @/nowhere/sink",
            2,
            "cannot read /nowhere/sink: No such file or directory. Write --sink",
        ),
        ('add Orders --sink {"Kind":"pigeon"}', 7, "Sink.Kind must be one of"),
        (
            "add Orders --run ./notify.sh --on-failure hope",
            2,
            "--on-failure hope: one of isolate, batch, block",
        ),
        (
            "add Orders --run ./notify.sh --window soon",
            2,
            "--window: `soon` is not a duration: write a number",
        ),
        (
            "add Orders --run ./notify.sh --backoff 1s",
            2,
            "--backoff: `1s` is not written as the first and the longest pause, like 1s..60s",
        ),
        ("add Orders --run ./notify.sh --backoff 9s..1s", 7, "Backoff.First must not be above Backoff.Most"),
        ("add Orders --run ./notify.sh --batch 0", 2, "--batch"),
        ("add Orders --run ./notify.sh --workers -1", 2, "--workers"),
        ("add Orders --run ./notify.sh --retries -2", 2, "--retries"),
        (
            "add Orders --run ./notify.sh --max-age 1s",
            7,
            "MaximumRecordAgeInSeconds must be from 60 to 604,800",
        ),
        (
            "add Orders --run ./notify.sh --from whenever",
            2,
            "--from whenever: write start, horizon, end, snap",
        ),
        ("add Orders --run ./notify.sh --on CREATE", 2, "write one of INSERT, MODIFY, REMOVE, READ"),
        ("add Orders --run ./notify.sh --when (", 2, "--when (: Syntax error"),
        ("add Orders --run ./notify.sh --when Total>100", 2, "write NEW.Total or OLD.Total"),
        ("add Orders --run ./notify.sh --pattern {", 2, "--pattern is not JSON"),
        ('add Orders --run ./notify.sh --pattern {"a":1}', 7, "Invalid filter pattern definition"),
        ("add Nope --run ./notify.sh", 3, "`foldb table list` lists the tables."),
        ("add a/b --table Orders --run ./notify.sh", 7, "the name of a subscription is"),
        (
            "add receipts --table Orders --run ./notify.sh",
            7,
            "Subscription already exists: receipts. Change it with",
        ),
        ("add receipts --replace", 2, "nothing to change: see `foldb trigger add --help`"),
        (
            "add receipts --replace --from start",
            2,
            "--from: `foldb trigger reset receipts --from start` moves an existing trigger",
        ),
        (
            'add receipts --replace --sink {"Mode":"binary"}',
            2,
            "--sink: a target is replaced as a whole: give its Kind",
        ),
        ("add receipts --replace --table Other", 7, "TableNames cannot be changed. Remove it with"),
        ("add nope --replace --batch 1", 3, "`foldb trigger list` lists the triggers."),
        ("add Orders --webhook ftp://example.com", 7, "Url"),
        ("show nope", 3, "`foldb trigger list` lists the triggers."),
        ("pause nope", 3, "`foldb trigger list` lists the triggers."),
        ("resume nope", 3, "`foldb trigger list` lists the triggers."),
        ("lag nope", 3, "`foldb trigger list` lists the triggers."),
        ("remove nope --yes", 3, "`foldb trigger list` lists the triggers."),
        ("reset nope --from end --yes", 3, "`foldb trigger list` lists the triggers."),
        ("reset receipts", 2, "missing option '--from'"),
        ("replay nope --from start", 3, "`foldb trigger list` lists the triggers."),
        ("replay receipts --from end", 2, "--from end: a replay begins in the past"),
        ("replay receipts --from start --to end", 2, "--to end: write -1h, a time such as"),
        ("replay receipts --from start --to @x", 2, "a position such as @2, or a sequence number"),
        ("replay receipts --from -1h --to -2h", 2, "--to -2h is before --from -1h"),
        ("replay receipts --from -1h --to 2026-11-01", 2, "--to 2026-11-01 is before --from -1h"),
        ("replay receipts --from @3 --to @2", 2, "--to @2 is before --from @3"),
        ("replay receipts --from @3.1 --to @3.0", 2, "--to @3.0 is before --from @3.1"),
        (f"replay receipts --from {2 * 10**26} --to {10**26}", 2, "is before --from"),
        ("replay receipts --from start --key {", 2, "--key is not JSON"),
        ("test nope", 3, "`foldb trigger list` lists the triggers."),
        ("test receipts --last 0", 2, "--last"),
        ("test receipts --event /nowhere/event", 2, "cannot read /nowhere/event: No such file or directory"),
        ("test receipts --event /dev/null --last 1", 2, "--event and --last: give one of them"),
        ("explain nope", 3, "`foldb trigger list` lists the triggers."),
        ("explain receipts --last 1 --from end", 2, "--event, --last and --from: give one of them"),
        ("list --db http://127.0.0.1:1", 8, "cannot reach http://127.0.0.1:1."),
        ("list --db /nowhere/data", 8, "there is no database in /nowhere/data."),
        ("test receipts --db /nowhere/data", 8, "there is no database in /nowhere/data."),
    ],
)
def test_an_invalid_command_fails_with_one_sentence(
    refusing: Foldb, arguments: str, code: int, says: str
) -> None:
    check(refusing("trigger", *arguments.split(" ")), code, says)
    assert ["receipts"] == [each["trigger"] for each in lines(refusing("trigger", "list"))]


def test_code_runs_only_on_a_server_with_a_folder_of_triggers(cli: Foldb) -> None:
    cli("table", "create", "Orders", "id:S")

    check(
        cli("trigger", "add", "Orders", "--run", "./notify.sh"),
        7,
        "which comes from the folder of --triggers alone",
    )
    check(cli("trigger", "add", "x", *SEND), 7, "which comes from the folder of --triggers alone")


def test_without_a_server_no_trigger_is_called(folder: Path, triggers: Path) -> None:
    with foldb.serve(folder, fsync="never", triggers=triggers) as server:
        shop = Shop(server.endpoint_url, triggers)
        shop.run("table", "create", "Orders", "id:S")
        shop.run("trigger", "add", "receipts", *SEND)
        shop.run("trigger", "pause", "receipts")
        shop.run("item", "put", "Orders", '{"id": "a"}')
        shop.notes()

    cli = at(folder)
    check(cli("wait", "--triggers"), 8, "receipts is PAUSED, 1 change behind.")
    assert "ACTIVE" == lines(cli("trigger", "resume", "receipts"))[0]["status"]
    refusal = (
        f"no server runs on {folder}, so no trigger is called: receipts is 1 change behind. `foldb serve --db"
    )
    check(cli("wait", "--triggers"), 8, refusal)
    check(cli("trigger", "pause", "receipts", "--drain"), 8, refusal)
    check(
        cli("trigger", "replay", "receipts", "--from", "start", "--yes"),
        8,
        f"no server runs on {folder}, so no",
    )
    assert 0 == cli("trigger", "replay", "receipts", "--from", "start", "--dry-run").exit_code
    assert 0 == cli("item", "put", "Orders", '{"id": "b"}').exit_code
    assert [] == shop.notes()
    assert 2 == lines(cli("trigger", "list"))[0]["behind"]


def test_a_start_beyond_the_end_of_the_log_is_refused(shop: Shop) -> None:
    """The trigger would deliver nothing until the log reached the start, without any error."""
    shop.run("trigger", "add", "receipts", *SEND)
    add, reset = ("trigger", "add", "other", *SEND), ("trigger", "reset", "receipts", "--yes")
    for place in ("@999999", "100000000000999999000000000000"):
        for command in (add, reset):
            check(
                shop.run(*command, "--from", place), 7, "Start, in partition 0, is beyond the end of the log"
            )
    shop.put('{"id": "a"}')
    assert ["INSERT a False"] == shop.notes()
    assert ["receipts"] == [row["trigger"] for row in lines(shop.run("trigger", "list"))]

    [last] = lines(shop.run("stream", "tail", "--table", "Orders"))
    assert 0 == shop.run(*reset, "--from", last["number"]).exit_code
    shop.settle()
    assert ["INSERT a False"] == shop.notes()
