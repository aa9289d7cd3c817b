"""`foldb trigger test` and `explain`, with a server and without one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import foldb
from tests.behaviour.cli.conftest import Foldb, at, lines
from tests.behaviour.cli.stream.conftest import Shop
from tests.behaviour.cli.test_refusals import check


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory, triggers: Path) -> Path:
    """A database without a running server, with a trigger on paid orders."""
    folder = tmp_path_factory.mktemp("stopped") / "data"
    with foldb.serve(folder, fsync="never", triggers=triggers) as server:
        shop = Shop(server.endpoint_url, triggers)
        shop.run("table", "create", "Orders", "id:S", "line:N")
        shop.run(
            "trigger", "add", "receipts", "--table", "Orders", "--python", "receipts.py:send", "--batch", "2",
            "--on", "INSERT,MODIFY", "--when", "NEW.status = 'PAID'",
        )  # fmt: skip
        for number in range(5):
            status = "PAID" if number % 2 == 0 else "OPEN"
            shop.run(
                "item", "put", "Orders", f'{{"id": "o{number}", "line": {number}, "status": "{status}"}}'
            )
        shop.run("item", "delete", "Orders", "o0", "0")
        shop.settle()
    return folder


@pytest.fixture
def quiet(triggers: Path) -> Iterator[Path]:
    """Yield the file in which the functions record their calls; it does not exist yet."""
    notes = triggers / "receipts.notes"
    notes.unlink(missing_ok=True)
    yield notes
    notes.unlink(missing_ok=True)


def test_the_latest_changes_that_pass_are_printed_as_calls(stopped: Path, quiet: Path) -> None:
    result = at(stopped)("trigger", "test", "receipts")

    calls = lines(result)
    assert [["o0", "o2"], ["o4"]] == [[change["keys"]["id"] for change in call["changes"]] for call in calls]
    assert ["receipts:send"] * 2 == [call["target"] for call in calls]
    assert result.stderr.endswith("2 calls · 3 changes · nothing was called: use --call\n")
    [last] = lines(at(stopped)("trigger", "test", "receipts", "--last", "1"))
    assert ["o4"] == [change["keys"]["id"] for change in last["changes"]]
    assert not quiet.exists()


def test_call_makes_the_calls_and_writes_no_state(stopped: Path, triggers: Path, quiet: Path) -> None:
    calls = lines(at(stopped)("trigger", "test", "receipts", "--call", "--triggers", str(triggers)))

    assert ["success", "success"] == [call["result"] for call in calls]
    assert ["INSERT o0 False", "INSERT o2 False", "INSERT o4 False"] == quiet.read_text().splitlines()
    [described] = lines(at(stopped)("trigger", "list"))
    assert (3 + 2 + 1, 0) == (described["handled"], described["dead_letters"])


def test_a_function_without_a_trigger_is_tested(stopped: Path, triggers: Path, quiet: Path) -> None:
    tried = (
        "trigger", "test", "receipts.py:send", "--table", "Orders", "--on", "REMOVE", "--triggers", str(triggers)
    )  # fmt: skip

    [call] = lines(at(stopped)(*tried))
    assert ["o0"] == [change["keys"]["id"] for change in call["changes"]]
    [call] = lines(at(stopped)(*tried, "--call"))
    assert "success" == call["result"]
    assert ["REMOVE o0 False"] == quiet.read_text().splitlines()


def test_the_declaration_of_a_function_applies(stopped: Path, tmp_path: Path) -> None:
    """Options of the command line override it."""
    (tmp_path / "paid.py").write_text(
        "from foldb import trigger\n\n\n"
        "@trigger('Orders', on='INSERT', when=\"NEW.status = 'PAID'\", batch=2)\n"
        "def send(changes): ...\n"
    )
    (tmp_path / "other.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')  # foldb's trigger\n")
    tried = ("trigger", "test", "paid.py:send", "--triggers", str(tmp_path))

    calls = lines(at(stopped)(*tried))
    assert [["o0", "o2"], ["o4"]] == [[change["keys"]["id"] for change in call["changes"]] for call in calls]
    calls = lines(at(stopped)(*tried, "--batch", "9", "--when", "NEW.line > 0", "--last", "9"))
    assert [["o1", "o2", "o3", "o4"]] == [[each["keys"]["id"] for each in call["changes"]] for call in calls]
    assert not (tmp_path / "imported").exists()  # no other file is run for it

    (tmp_path / "paid.py").write_text("import nowhere\nfrom foldb import trigger\n")
    check(
        at(stopped)(*tried), 10, "paid.py cannot be imported: ModuleNotFoundError: No module named 'nowhere'"
    )


@pytest.mark.parametrize("package", ["", "billing/"], ids=["a module", "a module of a package"])
def test_a_path_names_folder_and_function(
    stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    (tmp_path / "my-triggers" / "billing").mkdir(parents=True)
    (tmp_path / "my-triggers" / "billing" / "__init__.py").touch()
    (tmp_path / "my-triggers" / package / "paid.py").write_text(
        "from foldb import trigger\n\n\n@trigger('Orders', on='REMOVE')\ndef send(change): ...\n"
    )
    monkeypatch.chdir(tmp_path)

    for place in ("my-triggers", "./my-triggers", tmp_path / "my-triggers"):
        [call] = lines(at(stopped)("trigger", "test", f"{place}/{package}paid.py:send", "--call"))
        assert ["REMOVE"] == [change["op"] for change in call["changes"]]
        assert "success" == call["result"]


def test_without_passing_changes_explain_is_suggested(stopped: Path, triggers: Path, quiet: Path) -> None:
    none = ("--when", "NEW.line > 99")

    said = at(stopped)("trigger", "test", "receipts", *none).stderr
    assert "no change passes the filter: `foldb trigger explain receipts` prints the reason\n" == said
    said = at(stopped)("trigger", "test", "receipts.py:send", "--triggers", str(triggers), *none).stderr
    assert "no change passes the filter\n" == said


def test_call_neither_writes_files_nor_signs_with_hidden_secrets(folder: Path, tmp_path: Path) -> None:
    """A server hides secrets; the placeholders must not be sent."""
    secret = "whsec_" + "c2VjcmV0" * 4
    (tmp_path / "event").write_text('{"table": "Orders", "new": {"id": "a"}}')
    called = ("--call", "--event", str(tmp_path / "event"))
    with foldb.serve(folder, fsync="never", webhooks=("127.0.0.1",)) as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Orders", "id:S")
        for name, *sink in (
            ("signed", "--webhook", "http://127.0.0.1:1", "--sink", f'{{"Secrets": ["{secret}"]}}'),
            ("lake", "--file", "orders"),
        ):
            added = cli("trigger", "add", name, "--table", "Orders", *sink)
            assert 0 == added.exit_code, added.output

        check(
            cli("trigger", "test", "signed", *called),
            2,
            "the server does not show Secrets of signed: stop it, and name its folder with --db",
        )
        check(cli("trigger", "test", "lake", *called), 2, "--call writes no files: omit --call to see")

    refused = at(folder)("trigger", "test", "signed", *called)
    check(refused, 2, "`--webhooks ADDRESS` of `foldb serve`, or of `foldb trigger test`, allows it")
    stopped = at(folder)("trigger", "test", "signed", *called, "--webhooks", "127.0.0.1")
    assert "failure" == json.loads(stopped.stdout)["result"]  # no server is there: the call was made


def test_the_event_of_a_lambda_handler_is_printed(stopped: Path, triggers: Path, quiet: Path) -> None:
    tried = (
        "trigger", "test", "receipts.py:lambda_handler", "--lambda", "--table", "Orders", "--batch", "4",
        "--triggers", str(triggers),
    )  # fmt: skip

    first, second = lines(at(stopped)(*tried))
    assert (4, 2) == (len(first["event"]["Records"]), len(second["event"]["Records"]))
    assert {"id": {"S": "o0"}, "line": {"N": "0"}} == first["event"]["Records"][0]["dynamodb"]["Keys"]
    lines(at(stopped)(*tried, "--call"))
    assert ["4 records", "2 records"] == quiet.read_text().splitlines()


def test_a_failed_call_has_its_error(stopped: Path, triggers: Path, tmp_path: Path, quiet: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text('{"table": "Orders", "new": {"id": "a", "line": 1, "status": "PAID", "bad": true}}')
    result = at(stopped)(
        "trigger", "test", "receipts", "--event", str(event), "--call", "--triggers", str(triggers)
    )

    assert 10 == result.exit_code
    call = json.loads(result.stdout)
    assert ("failure", "ValueError: no such customer") == (call["result"], call["error"])
    assert "receipts.py" in call["traceback"]
    assert result.stderr.endswith("foldb: 1 of 1 calls failed\n")


@pytest.mark.parametrize(
    "text",
    [
        '{"keys": {"id": "a", "line": 1}, "old": null, "new": {"id": "a", "line": 1, "status": "PAID"}, "table": "x"}',
        '[{"table": "Orders", "new": {"id": "a", "line": 1, "status": "PAID"}}]',
        '{"table": "Orders", "new": {"id": "a", "line": 1, "status": "PAID"}}\n'
        '{"table": "Orders", "new": {"id": "b", "line": 1, "status": "OPEN"}}\n',
        '{"Records": [{"eventName": "INSERT", "eventSourceARN": "arn:aws:dynamodb:us-east-1:1:table/Orders/stream/x",'
        ' "dynamodb": {"Keys": {"id": {"S": "a"}, "line": {"N": "1"}}, "SequenceNumber": "12",'
        ' "NewImage": {"id": {"S": "a"}, "line": {"N": "1"}, "status": {"S": "PAID"}}}}]}',
    ],
    ids=["as tail prints it", "a list", "lines", "of Lambda"],
)
def test_changes_are_read_from_a_file(stopped: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "event.json").write_text(text)
    [call] = lines(at(stopped)("trigger", "test", "receipts", "--event", str(tmp_path / "event.json")))

    [change] = call["changes"]
    assert ("INSERT", {"id": "a", "line": 1}) == (change["op"], change["keys"])


def test_the_output_of_tail_is_an_event_file(stopped: Path, tmp_path: Path) -> None:
    for flags in ((), ("--typed",)):
        (tmp_path / "event").write_text(at(stopped)("stream", "tail", *flags).stdout)
        calls = lines(at(stopped)("trigger", "test", "receipts", "--event", str(tmp_path / "event"), *flags))
        assert 3 == sum(len(call["changes"]) for call in calls)


def test_step_asks_after_each_change(stopped: Path) -> None:
    stepping = ("trigger", "test", "receipts", "--step")

    assert [1, 2, 3] == [call["call"] for call in lines(at(stopped)(*stepping, stdin="\n\n\n"))]
    assert [1, 2] == [call["call"] for call in lines(at(stopped)(*stepping, stdin="\nq\n"))]
    assert 1 == len(lines(at(stopped)(*stepping)))


def test_explain_prints_the_result_of_each_rule(stopped: Path) -> None:
    result = at(stopped)("trigger", "explain", "receipts", "--last", "3")
    third, fourth, removed = lines(result)

    assert [False, True, False] == [each["delivered"] for each in (third, fourth, removed)]
    assert {"rule": "Filter", "holds": False, "says": 'NEW.status = "PAID"'} == third["why"][1]
    assert [True, True] == [rule["holds"] for rule in fourth["why"]]
    assert {"rule": "Events", "holds": False, "says": "REMOVE of INSERT, MODIFY"} == removed["why"][0]
    assert result.stderr.endswith("1 of 3 changes would be delivered\n")
    [one] = lines(at(stopped)("trigger", "explain", "receipts", "--from", fourth["number"], "-c", "1"))
    assert fourth == one


def test_a_running_server_is_used(shop: Shop, quiet: Path) -> None:
    shop.run(
        "trigger",
        "add",
        "receipts",
        "--table",
        "Orders",
        "--python",
        "receipts.py:send",
        "--when",
        "NEW.n > 1",
    )
    shop.put('{"id": "a", "n": 1}', '{"id": "b", "n": 2}')
    shop.notes()

    [call] = lines(shop.run("trigger", "test", "receipts"))
    assert ["b"] == [change["keys"]["id"] for change in call["changes"]]
    assert [False, True] == [each["delivered"] for each in lines(shop.run("trigger", "explain", "receipts"))]
    assert [] == shop.notes()


def test_changes_before_the_trigger_are_read_from_the_log(shop: Shop, quiet: Path) -> None:
    shop.put('{"id": "a", "n": 1}', '{"id": "b", "n": 2}')
    shop.run("trigger", "add", "late", "--table", "Orders", "--python", "receipts.py:send")
    shop.put('{"id": "c", "n": 3}')

    explained = lines(shop.run("trigger", "explain", "late"))
    assert ["a", "b", "c"] == [each["keys"]["id"] for each in explained]
    [call] = lines(shop.run("trigger", "test", "late", "--last", "2"))
    assert ["b", "c"] == [change["keys"]["id"] for change in call["changes"]]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ("test nope", 3, "there is no trigger nope in"),
        ("explain nope", 3, "there is no trigger nope in"),
        ("test receipts --when (", 2, "--when (: Syntax error"),
        ("test receipts --when Total>100", 2, "write NEW.Total or OLD.Total"),
        ("test receipts --pattern {", 2, "--pattern is not JSON"),
        ("test receipts --table Nope", 3, "this log has never had a table Nope"),
        (
            "test receipts --triggers nowhere",
            2,
            "'--triggers': there is no folder 'nowhere'. See `foldb trigger",
        ),
        ("test receipts --triggers=", 2, "'--triggers': there is no folder ''. See"),
        ("test receipts --triggers paid.py", 2, "'--triggers': paid.py is a file: give the folder that it"),
        ("test paid.py:nope --table Orders", 2, "there is no nope in paid.py: name a function of it"),
        ("test paid.py:nope --table Orders --lambda", 2, "there is no nope in paid.py"),
        ("test broken.py:send --lambda --table Orders", 10, "broken.py cannot be imported: SyntaxError: "),
        ("test nothing.py:send --table Orders --last 1", 2, "there is no nothing.py in /"),
        (
            "test receipts --webhooks localhost",
            2,
            "webhooks: 'localhost' is not an address or network. Write one",
        ),
        ("explain receipts -c 1", 2, "-c requires --from; use --last for the latest changes"),
    ],
)
def test_an_invalid_command_fails_with_one_sentence(
    stopped: Path, arguments: str, code: int, says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paid.py").write_text("def send(changes): ...  # nope, says foldb's trigger\n")
    (tmp_path / "broken.py").write_text("def send(:\n")
    check(at(stopped)("trigger", *arguments.split(" ")), code, says)


def test_a_database_in_memory_is_tested(triggers: Path) -> None:
    with foldb.serve(triggers=triggers) as server:
        cli: Foldb = at(server.endpoint_url)
        cli("table", "create", "Orders", "id:S")
        cli(
            "trigger",
            "add",
            "receipts",
            "--table",
            "Orders",
            "--python",
            "receipts.py:send",
            "--on",
            "REMOVE",
        )
        cli("item", "put", "Orders", '{"id": "a"}')

        assert "nothing was called" not in cli("trigger", "test", "receipts").stderr
        assert [False] == [each["delivered"] for each in lines(cli("trigger", "explain", "receipts"))]
