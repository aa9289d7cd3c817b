"""`foldb stream tail`: changes from any start, as rows or formatted lines."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

import foldb
from tests.behaviour.cli.conftest import Foldb, at, lines
from tests.behaviour.cli.terminals import on_a_terminal
from tests.behaviour.cli.test_processes import heeding_interrupts
from tests.behaviour.cli.test_refusals import check
from tests.support.served import FOLDB, served


def what(cli: Foldb, *arguments: str) -> list[str]:
    """Return the operations and keys that `tail` prints."""
    result = cli("stream", "tail", "--format", "%op %k", *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


ALL = ["INSERT o0", "INSERT o1", "INSERT o2", "INSERT o3", "INSERT o4", "MODIFY o1", "REMOVE o2"]


def test_a_pipe_gets_one_json_line_per_change(orders: Foldb) -> None:
    changes = lines(orders("stream", "tail"))

    assert [
        "table", "op", "keys", "old", "new", "number", "position", "time", "tx", "principal", "requestId",
        "source", "depth", "replay",
    ] == list(changes[0])  # fmt: skip
    modified = changes[5]
    assert ("Orders", "MODIFY", {"id": "o1"}) == (modified["table"], modified["op"], modified["keys"])
    assert {"id": "o1", "price": 50} == modified["old"]
    assert {"id": "o1", "price": 70} == modified["new"]
    assert None is changes[6]["new"]


def test_typed_items_are_dynamodb_json(orders: Foldb) -> None:
    assert {"id": {"S": "o1"}, "price": {"N": "70"}} == lines(orders("stream", "tail", "--typed"))[5]["new"]


def test_each_change_is_printed_once_and_in_order(orders: Foldb) -> None:
    assert ALL == what(orders)
    numbers = [change["number"] for change in lines(orders("stream", "tail"))]
    assert sorted(numbers) == numbers
    assert 7 == len(set(numbers))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--from", "horizon"], ALL),
        (["--from", "start", "--table", "Orders"], ALL),
        (["Orders"], ALL),
        (["Notes", "--table", "Orders", "--from", "start"], [*ALL, "INSERT n"]),
        (["--from", "-1h"], ALL),
        (["--from", "-100000d"], ALL),
        (["--from", "2020-01-01", "-c", "2"], ALL[:2]),
        (["--from", "2020-01-01T00:00:00Z", "--count", "1"], ALL[:1]),
        (["--from", "9999-01-01"], []),
        (["--from", "end"], []),
        (["--on", "REMOVE"], ALL[6:]),
        (["--on", "insert,remove", "-e"], [*ALL[:5], ALL[6]]),
        (["--on", "MODIFY", "--on", "REMOVE"], ALL[5:]),
        (["--when", "NEW.price >= 100"], ALL[2:5]),
        (["--when", "OLD.price < NEW.price"], ALL[5:6]),
        (["--when", "attribute_not_exists(NEW.id)"], ALL[6:]),
        (["--when", "NEW.#t = :t", "--name", "#t=price", "--value", ":t=70"], ALL[5:6]),
        (["--pattern", '{"eventName": ["REMOVE"]}'], ALL[6:]),
        (["--pattern", '{"dynamodb": {"NewImage": {"price": {"N": ["150"]}}}}'], ALL[3:4]),
    ],
    ids=" ".join,
)
def test_options_select_the_changes(orders: Foldb, arguments: list[str], expected: list[str]) -> None:
    assert expected == what(orders, *arguments)


def test_tail_continues_from_a_sequence_number(orders: Foldb) -> None:
    third = lines(orders("stream", "tail", "-c", "3"))[-1]

    assert ALL[2:] == what(orders, "--from", third["number"])
    assert ALL[2:] == what(orders, "--from", f"@{third['position']}")


def test_a_line_holds_the_fields_that_its_format_names(orders: Foldb) -> None:
    change = lines(orders("stream", "tail"))[5]

    reported = orders(
        "stream",
        "tail",
        "--on",
        "MODIFY",
        "--format",
        r"%t\t%T %K %old.price->%new.price %new.no %tx %src %d %p %n 5%%",
    )

    assert (
        f'Orders\t{change["time"]} {{"id":"o1"}} 50->70 - - api 0 {change["position"]} {change["number"]} 5%\n'
        == reported.stdout
    )
    assert change == json.loads(orders("stream", "tail", "--on", "MODIFY", "--format", "%j").stdout)


def test_a_field_ends_where_its_word_ends(folder: Path) -> None:
    with foldb.serve(folder, fsync="never") as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Orders", "id:S", "--stream")
        cli("item", "put", "Orders", '{"id": "o", "a-b": 1, "a": 2}')

        reported = cli("stream", "tail", "--format", "%op:%t,%k-%d %new.a-b %new.a->%%t")
        assert "INSERT:Orders,o-0 1 2->%t\n" == reported.stdout


def test_items_of_a_snapshot_count(orders: Foldb) -> None:
    [counts] = lines(orders("stream", "stats", "--from", "snapshot"))

    assert (4, 4, 0) == (counts["changes"], counts["READ"], counts["INSERT"])


def test_a_table_that_the_feed_does_not_keep_is_read_from_the_log(orders: Foldb) -> None:
    assert ["INSERT n"] == what(orders, "--table", "Notes")


def test_a_deleted_table_is_read_from_the_log(folder: Path, url: str) -> None:
    cli = at(url)
    cli("table", "create", "Gone", "id:S", "--stream")
    cli("item", "put", "Gone", '{"id": "x"}')
    cli("table", "delete", "Gone", "--yes")

    for db in (url, folder):
        assert ["INSERT x"] == what(at(db), "--table", "Gone", "--from", "start")
        check(at(db)("stream", "tail", "--table", "Nope"), 3, "this log has never had a table Nope")


def test_a_folder_without_a_server_is_read_from_its_log(folder: Path) -> None:
    with foldb.serve(folder, fsync="never") as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Gone", "id:S")
        cli("item", "put", "Gone", '{"id": "x"}')
        cli("item", "put", "Gone", '{"id": "x"}')
        cli("table", "delete", "Gone", "--yes")

    cli = at(folder)
    assert ["INSERT x"] == what(cli)
    assert ["INSERT x"] == what(cli, "--table", "Gone", "--from", "-1h")
    assert [] == what(cli, "--from", "end")
    assert [] == what(cli, "--from", "snapshot")
    check(cli("stream", "tail", "--table", "Nope"), 3, "this log has never had a table Nope")


def test_without_a_stream_there_is_nothing_to_read(url: str) -> None:
    for begin in ("horizon", "start", "end", "-1h"):
        assert [] == what(at(url), "--from", begin)
    assert [] == what(at(url), "--from", "snapshot")
    nothing = at(url)("stream", "tail")
    assert "0 changes · no table has a stream or a trigger: give a table with --table\n" == nothing.stderr
    assert [] == lines(at(url)("stream", "list"))
    assert [] == lines(at(url)("stream", "stats"))


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_server_reads_older_changes_from_its_log(partitions: int) -> None:
    """The log is in memory, so no other process can read it."""
    with foldb.serve(partitions=partitions) as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Orders", "id:N")
        items = "".join(f'{{"id": {number}}}\n' for number in range(1500))
        cli("item", "put", "Orders", "-", stdin=items)
        check(
            cli("stream", "tail", "--table", "Orders"),
            7,
            "The changes of a table are kept while it has a stream",
        )
        cli("table", "update", "Orders", "--stream")
        cli("item", "put", "Orders", '{"id": 1500}')

        assert ["INSERT 1500"] == what(cli, "--table", "Orders")
        assert [f"INSERT {number}" for number in range(1501)] == sorted(
            what(cli, "--table", "Orders", "--from", "start"), key=lambda line: int(line.split()[1])
        )
        changes = lines(cli("stream", "tail", "--table", "Orders", "--from", "-1h"))
        assert 1501 == len({change["number"] + change["position"] for change in changes})
        assert sorted(change["time"] for change in changes) == [change["time"] for change in changes]
        place = changes[-3]["position"]
        partition = place.partition(":")[0] if partitions > 1 else ""
        after = [
            each
            for each in changes
            if each["position"].startswith(partition) and each["number"] >= changes[-3]["number"]
        ]
        assert after == lines(cli("stream", "tail", "--table", "Orders", "--from", f"@{place}"))


def test_a_snapshot_has_every_current_item(folder: Path, orders: Foldb) -> None:
    assert ["READ o0", "READ o1", "READ o3", "READ o4"] == sorted(
        what(orders, "--table", "Orders", "--from", "snapshot")
    )


def test_a_snapshot_of_all_has_the_tables_of_the_feed(orders: Foldb) -> None:
    """Other tables, such as those of dead letters, are left out."""
    assert ["READ o0", "READ o1", "READ o3", "READ o4"] == sorted(what(orders, "--from", "snapshot"))


def test_following_an_empty_feed_prints_a_notice(url: str) -> None:
    tail = heeding_interrupts(str(FOLDB), "stream", "tail", "-f", "--db", url)
    with subprocess.Popen(tail, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("no table has a stream or a trigger: give a table")
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert (130, "foldb: interrupted\n") == (process.returncode, said)


def test_partitions_are_merged_in_order_of_log_time() -> None:
    with foldb.serve(partitions=4) as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Orders", "id:S", "--stream")
        for number in range(12):
            cli("item", "put", "Orders", f'{{"id": "o{number}"}}')

        changes = lines(cli("stream", "tail", "--table", "Orders"))
        one = changes[5]
        partition = one["position"].partition(":")[0]

        assert [f"o{number}" for number in range(12)] == [change["keys"]["id"] for change in changes]
        of_one = [each for each in changes if each["position"].startswith(f"{partition}:")]
        after = [each["keys"]["id"] for each in of_one if each["number"] >= one["number"]]
        assert after == [line.split()[1] for line in what(cli, "--from", f"{partition}:{one['number']}")]
        assert after == [line.split()[1] for line in what(cli, "--from", f"@{one['position']}")]


def test_follow_prints_changes_up_to_the_count(folder: Path) -> None:
    with served(folder) as url:
        at(url)("table", "create", "Orders", "id:N", "--stream")
        tail = [
            str(FOLDB),
            "stream",
            "tail",
            "-f",
            "-c",
            "2",
            "--format",
            "%k",
            "--from",
            "horizon",
            "--db",
            url,
        ]
        with subprocess.Popen(tail, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            at(url)("item", "put", "Orders", '{"id": 1}')
            assert "1\n" == process.stdout.readline()
            at(url)("item", "put", "Orders", '{"id": 2}')
            assert "2\n" == process.stdout.readline()
            assert process.stderr is not None
            assert "2 changes" in process.stderr.read()
        assert 0 == process.returncode


@pytest.mark.parametrize("where", ["a server", "a folder"])
def test_an_interrupt_exits_with_130(folder: Path, where: str) -> None:
    with foldb.serve(folder, fsync="never") as server:
        at(server.endpoint_url)("table", "create", "Orders", "id:N", "--stream")
        at(server.endpoint_url)("item", "put", "Orders", '{"id": 1}')
        if where == "a server":
            reported = interrupted("stream", "tail", "-f", "--from", "horizon", "--db", server.endpoint_url)
    if where == "a folder":
        reported = interrupted("stream", "tail", "-f", "--from", "start", "--db", str(folder))

    assert (130, "foldb: interrupted\n") == reported


def interrupted(*arguments: str) -> tuple[int, str]:
    """Interrupt a command after its first line; return its exit code and stderr."""
    with subprocess.Popen(
        heeding_interrupts(str(FOLDB), *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    return process.returncode, said


def test_a_closed_pipe_is_no_error(folder: Path) -> None:
    with foldb.serve(folder, fsync="never") as server:
        at(server.endpoint_url)("table", "create", "Orders", "id:N", "--stream")
        items = "".join(f'{{"id": {number}}}\n' for number in range(2000))
        at(server.endpoint_url)("item", "put", "Orders", "-", stdin=items)
        tail = [str(FOLDB), "stream", "tail", "--db", server.endpoint_url]
        with subprocess.Popen(tail, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            said = process.stderr.read()

    assert (0, "") == (process.returncode, said)


def test_a_terminal_gets_coloured_lines_without_control_codes(
    folder: Path,
) -> None:
    with foldb.serve(folder, fsync="never") as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Orders", "id:S", "--stream")
        cli("item", "put", "Orders", '{"id": "a", "price": 1, "note": "\\u001b[31m\\u009b31m"}')
        cli("item", "update", "Orders", "a", "--set", "price = 2")

        shown = on_a_terminal("stream", "tail", "--db", server.endpoint_url).stdout

    inserted, modified = shown.replace("\r", "").splitlines()
    assert "\x1b[32mINSERT" in inserted
    assert r"\u001b[31m\u009b31m" in inserted
    assert "\x1b[33mMODIFY" in modified
    assert modified.endswith('{"id":"a"} price: 1 → 2')


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ("--from yesterday", 2, "--from yesterday: write start, horizon, end, snapshot, -1h, a time such as"),
        ("--from -5", 2, "--from -5: write start, horizon, end"),
        ("--from @x", 2, "--from @x: write start"),
        ("--from @7:3", 7, "`7:3` is not a position of this log"),
        ("-c 0", 2, "-c"),
        ("-c many", 2, "-c"),
        ("-f -e", 2, "-e stops at the end and -f continues: give one of them"),
        ("-f -o json", 2, "-f needs -o jsonl or raw: json is one document, which -f never completes"),
        ("-f -o csv", 2, "-f needs -o jsonl or raw: csv is one document"),
        ("-f -o table", 2, "-f needs -o jsonl or raw: table is one document"),
        ("--format %total", 2, "--format: `%total` is not a field; the fields are"),
        ("--format %name", 2, "--format: `%name` is not a field; the fields are"),
        ("--format %z", 2, "--format: `%z` is not a field; the fields are"),
        ("--on CREATE", 2, "--on CREATE: write one of INSERT, MODIFY, REMOVE, READ"),
        ("--when (", 2, '--when (: Syntax error; token: "<EOF>"'),
        ("--when PRICE>1", 2, "--when PRICE>1: write NEW.PRICE or OLD.PRICE, and strings in quotes"),
        ("--when NEW.state=PAID", 2, "write NEW.PAID or OLD.PAID, and strings in quotes"),
        ("--when size(Total)>1", 2, "write NEW.Total or OLD.Total, and strings in quotes"),
        ("--pattern {", 2, "--pattern is not JSON"),
        ("--pattern []", 2, "--pattern []: a pattern is a JSON object"),
        ('--pattern {"a":1}', 7, "attern"),
        ("--name #n=a", 2, "--name and --value need --when"),
        ("--table Nope", 3, "this log has never had a table Nope"),
        ("--db http://127.0.0.1:1", 8, "cannot reach http://127.0.0.1:1. Start a server with `foldb serve`"),
        ("--db /nowhere/data", 8, "there is no database in /nowhere/data."),
    ],
)
def test_an_invalid_command_fails_with_one_sentence(
    orders: Foldb, arguments: str, code: int, says: str
) -> None:
    check(orders("stream", "tail", *arguments.split(" ")), code, says)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--when (", "Syntax error"),
        ('--pattern {"a":1}', "attern"),
        ("--from @7:3", "`7:3` is not a position of this log, which has 1 partition: write"),
    ],
)
def test_an_invalid_command_on_a_folder_fails(folder: Path, arguments: str, says: str) -> None:
    with foldb.serve(folder, fsync="never"):
        pass
    result = at(folder)("stream", "tail", *arguments.split(" "))
    assert result.exit_code in (2, 7)
    assert says in result.stderr
