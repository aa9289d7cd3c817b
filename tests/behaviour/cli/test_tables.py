"""Tables on the command line, and the capacity that they need."""

import json
from pathlib import Path

import pytest

import foldb
from foldb.cli.lib.definitions import table_request
from foldb.cli.lib.errors import CommandError, ExitCode
from tests.behaviour.cli.conftest import Foldb, at, lines
from tests.support.served import served


def test_the_short_notation_says_keys_indexes_and_projections() -> None:
    request = table_request(
        "Music",
        ["Artist:S", "Song:S"],
        ["Genres=Genre:S,Album:S keys_only", "Places=Country:S+City:S,Year:N include Label,Cover"],
        ["Years=Year:N"],
        (5, 10),
    )

    throughput = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 10}
    assert {
        "TableName": "Music",
        "KeySchema": [
            {"AttributeName": "Artist", "KeyType": "HASH"},
            {"AttributeName": "Song", "KeyType": "RANGE"},
        ],
        "GlobalSecondaryIndexes": [
            {
                "IndexName": "Genres",
                "KeySchema": [
                    {"AttributeName": "Genre", "KeyType": "HASH"},
                    {"AttributeName": "Album", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
                "ProvisionedThroughput": throughput,
            },
            {
                "IndexName": "Places",
                "KeySchema": [
                    {"AttributeName": "Country", "KeyType": "HASH"},
                    {"AttributeName": "City", "KeyType": "HASH"},
                    {"AttributeName": "Year", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["Label", "Cover"]},
                "ProvisionedThroughput": throughput,
            },
        ],
        "LocalSecondaryIndexes": [
            {
                "IndexName": "Years",
                "KeySchema": [
                    {"AttributeName": "Artist", "KeyType": "HASH"},
                    {"AttributeName": "Year", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
        "AttributeDefinitions": [
            {"AttributeName": "Artist", "AttributeType": "S"},
            {"AttributeName": "Song", "AttributeType": "S"},
            {"AttributeName": "Genre", "AttributeType": "S"},
            {"AttributeName": "Album", "AttributeType": "S"},
            {"AttributeName": "Country", "AttributeType": "S"},
            {"AttributeName": "City", "AttributeType": "S"},
            {"AttributeName": "Year", "AttributeType": "N"},
        ],
        "BillingMode": "PROVISIONED",
        "ProvisionedThroughput": throughput,
    } == request


@pytest.mark.parametrize(
    ("keys", "gsis"),
    [(["a"], []), (["a:X"], []), (["a:S", "b:S", "c:S"], []), (["a:S"], ["x"]), (["a:S"], ["x=b:S some"])],
)
def test_text_outside_the_notation_is_refused(keys: list[str], gsis: list[str]) -> None:
    with pytest.raises(CommandError):
        table_request("T", keys, gsis, [], None)


@pytest.mark.spec("S85", "S87", "S88", "X1")
def test_a_table_from_its_creation_to_its_end(cli: Foldb) -> None:
    created = cli("table", "create", "Orders", "id:N", "--gsi", "days=day:S", "--ttl", "expires")
    assert ("Orders: ACTIVE\n", "") == (created.stderr, created.stdout)

    [described] = lines(cli("table", "describe", "Orders"))
    assert "PAY_PER_REQUEST" == described["BillingModeSummary"]["BillingMode"]
    assert {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires"} == described["TimeToLive"]

    assert [{"table": "Orders"}] == lines(cli("table", "list"))
    assert 0 == cli("table", "delete", "Orders", "--yes").exit_code
    assert 0 == cli("table", "wait", "Orders", "--gone").exit_code
    assert [] == lines(cli("table", "list"))


@pytest.mark.spec("S58", "S86")
def test_a_table_is_changed_in_all_that_can_be_changed(cli: Foldb) -> None:
    cli("table", "create", "Orders", "id:N")
    for change in (
        ["--read", "5", "--write", "2"],
        ["--gsi", "days=day:S,hour:N", "--read", "1", "--write", "1"],
        ["--ttl", "expires", "--protect"],
    ):
        assert "Orders: ACTIVE\n" == cli("table", "update", "Orders", *change).stderr

    [described] = lines(cli("table", "describe", "Orders"))
    assert ["days"] == [index["IndexName"] for index in described["GlobalSecondaryIndexes"]]
    assert described["DeletionProtectionEnabled"]

    for change in (["--drop-gsi", "days"], ["--no-ttl", "--no-protect"], ["--on-demand"]):
        assert 0 == cli("table", "update", "Orders", *change).exit_code
    [described] = lines(cli("table", "describe", "Orders"))
    assert "GlobalSecondaryIndexes" not in described
    assert "DISABLED" == described["TimeToLive"]["TimeToLiveStatus"]


def units(cli: Foldb, table: str = "Orders") -> dict[str, tuple[int, int]]:
    """Return read and write units, of the table under its own name and of each global index."""
    [described] = lines(cli("table", "describe", table))
    throughputs = {table: described["ProvisionedThroughput"]}
    throughputs |= {
        index["IndexName"]: index["ProvisionedThroughput"]
        for index in described.get("GlobalSecondaryIndexes", ())
    }
    return {
        name: (each["ReadCapacityUnits"], each["WriteCapacityUnits"]) for name, each in throughputs.items()
    }


@pytest.mark.spec("S58")
def test_an_index_has_its_own_units(cli: Foldb) -> None:
    created = cli(
        *("table", "create", "Orders", "id:N", "--read", "5", "--write", "2"),
        *("--gsi", "days=day:S keys_only 10/4", "--gsi", "kinds=kind:S"),
    )
    assert 0 == created.exit_code, created.output
    assert {"Orders": (5, 2), "days": (10, 4), "kinds": (5, 2)} == units(cli)

    assert 0 == cli("table", "update", "Orders", "--index", "days=20/8", "--index", "kinds=1/1").exit_code
    assert {"Orders": (5, 2), "days": (20, 8), "kinds": (1, 1)} == units(cli)
    assert (
        0 == cli("table", "update", "Orders", "--read", "6", "--write", "3", "--index", "days=1/1").exit_code
    )
    assert {"Orders": (6, 3), "days": (1, 1), "kinds": (1, 1)} == units(cli)


def test_an_index_is_added_to_a_provisioned_table(cli: Foldb) -> None:
    """Without --read and --write, which would be of the table, and may not name the units that it has."""
    cli("table", "create", "Orders", "id:N", "--read", "5", "--write", "2")

    for index in ("days=day:S", "kinds=kind:S include x,y 3/1"):
        added = cli("table", "update", "Orders", "--gsi", index)
        assert 0 == added.exit_code, added.output
    assert {"Orders": (5, 2), "days": (5, 2), "kinds": (3, 1)} == units(cli)


def test_a_table_on_demand_is_provisioned_with_its_indexes(cli: Foldb) -> None:
    cli("table", "create", "Orders", "id:N", "--gsi", "days=day:S", "--gsi", "kinds=kind:S")

    changed = cli("table", "update", "Orders", "--read", "5", "--write", "2", "--index", "days=9/3")
    assert 0 == changed.exit_code, changed.output
    assert {"Orders": (5, 2), "days": (9, 3), "kinds": (5, 2)} == units(cli)
    assert 0 == cli("table", "update", "Orders", "--on-demand").exit_code
    assert {"Orders": (0, 0), "days": (0, 0), "kinds": (0, 0)} == units(cli)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("create New id:S --gsi days=day:S_10/4", "an index of an on-demand table has no units"),
        ("create New id:S n:N --read 1 --write 1 --lsi days=day:S_10/4", "a local index has no units"),
        ("update Orders --index days", "write NAME=READ/WRITE, such as Genres=10/5"),
        ("update Orders --index days=10", "write NAME=READ/WRITE, such as Genres=10/5"),
        ("update Orders --index =1/1", "write NAME=READ/WRITE, such as Genres=10/5"),
        ("update Orders --on-demand --read 1 --write 1", "--on-demand has no units"),
        ("update Orders --on-demand --index days=1/1", "--on-demand has no units"),
    ],
)
def test_units_that_cannot_be_are_wrong_usage(cli: Foldb, arguments: str, says: str) -> None:
    cli("table", "create", "Orders", "id:S", "--gsi", "days=day:S")

    result = cli("table", *(word.replace("_", " ") for word in arguments.split()))

    assert 2 == result.exit_code
    assert says in result.stderr


@pytest.mark.parametrize(
    ("index", "code", "says"),
    [
        ("nope=1/1", 3, "Index: nope not found"),
        ("days=1/1", 7, "should not be specified for index: days when BillingMode is PAY_PER_REQUEST"),
    ],
)
def test_the_server_refuses_units_of_other_indexes(cli: Foldb, index: str, code: int, says: str) -> None:
    cli("table", "create", "Orders", "id:S", "--gsi", "days=day:S")

    result = cli("table", "update", "Orders", "--index", index)

    assert code == result.exit_code
    assert says in result.stderr


def test_a_table_with_a_delay_is_waited_for(folder: Path) -> None:
    with foldb.serve(folder, fsync="never", table_delay_ms=60) as server:
        cli = at(server.endpoint_url)
        assert "Slow: CREATING\n" == cli("table", "create", "Slow", "id:S", "--no-wait").stderr
        assert 10 == cli("table", "wait", "Slow", "--timeout", "0s").exit_code
        assert "Slow: ACTIVE\n" == cli("table", "wait", "Slow").stderr


def test_a_delete_asks_and_without_an_answer_refuses(cli: Foldb) -> None:
    cli("table", "create", "Orders", "id:N")

    assert 2 == cli("table", "delete", "Orders", "--no-input").exit_code
    no = cli("table", "delete", "Orders", stdin="n\n")
    assert (130, "") == (no.exit_code, no.stdout)
    assert no.stderr.startswith("Delete the table Orders and its 0 items? [y/N] ")
    assert 0 == cli("table", "delete", "Orders", stdin="y\n").exit_code


@pytest.mark.spec("S39", "S40", served=False)
def test_the_planning_tables_of_the_developer_guide(cli: Foldb) -> None:
    rows = lines(cli("capacity", "plan"))

    assert [
        ("read", "4KB", "strong", 50),
        ("read", "8KB", "strong", 100),
        ("read", "4KB", "eventual", 25),
        ("read", "8KB", "eventual", 50),
        ("write", "1KB", "", 50),
        ("write", "2KB", "", 100),
    ] == [(row["operation"], row["item_size"], row["consistency"], row["units"]) for row in rows]


@pytest.mark.spec("S38", "S41", "S42", served=False)
@pytest.mark.parametrize(
    ("arguments", "units"),
    [
        (["--reads", "--item-size", "3500", "--rate", "10", "--consistency", "strong"], [10]),
        (["--reads", "--item-size", "8KB", "--rate", "5", "--consistency", "strong"], [10]),
        (["--reads", "--item-size", "4KB", "--rate", "20", "--consistency", "eventual"], [10]),
        (["--reads", "--item-size", "10KB", "--rate", "1"], [3, 2]),
        (["--writes", "--item-size", "500", "--rate", "1"], [1]),
        (["--writes", "--item-size", "1.6KB", "--rate", "1"], [2]),
    ],
)
def test_sizes_are_rounded_before_they_are_planned_with(
    cli: Foldb, arguments: list[str], units: list[int]
) -> None:
    assert units == [row["units"] for row in lines(cli("capacity", "plan", *arguments))]


def test_status_and_settings_for_other_clients_name_the_endpoint(cli: Foldb, url: str, folder: Path) -> None:
    [status] = lines(cli("status"))

    assert (url, str(folder), "modern") == (status["Endpoint"], status["Path"], status["Limits"])
    assert f'"endpoint_url": "{url}"' in cli("aws-config").stdout
    assert json.dumps(url) in cli("aws-config").stdout


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        (("scan", "Countres"), "Counters"),
        (("item", "get", "counters", "x"), "Counters"),
        (("item", "put", "ORDERS", '{"id": "x"}'), "Orders"),
        (("table", "describe", "Order"), "Orders"),
        (("table", "delete", "Oders", "--yes"), "Orders"),
        (("rebuild", "Ordres"), "Orders"),
        (("stream", "tail", "--table", "Ordrs"), "Orders"),
    ],
    ids=lambda words: " ".join(words[:2]) if isinstance(words, tuple) else words,
)
def test_a_mistyped_table_gets_a_suggestion(cli: Foldb, command: tuple[str, ...], meant: str) -> None:
    cli("table", "create", "Counters", "id:S")
    cli("table", "create", "Orders", "id:S")

    result = cli(*command)

    assert (3, "") == (result.exit_code, result.stdout)
    assert result.stderr.lower().endswith(f"did you mean {meant.lower()}?\n")


def test_several_changes_are_made_one_after_the_other(cli: Foldb) -> None:
    """DynamoDB refuses them in one request."""
    cli("table", "create", "Counters", "id:S")

    result = cli(
        *("table", "update", "Counters", "--read", "5", "--write", "6", "--gsi", "kinds=kind:S"),
        *("--stream", "--protect", "--ttl", "until"),
    )

    assert (0, "Counters: ACTIVE\n") == (result.exit_code, result.stderr)
    [described] = lines(cli("table", "describe", "Counters"))
    assert 6 == described["ProvisionedThroughput"]["WriteCapacityUnits"]
    assert ["ACTIVE"] == [index["IndexStatus"] for index in described["GlobalSecondaryIndexes"]]
    assert described["StreamSpecification"]["StreamEnabled"]
    assert described["DeletionProtectionEnabled"]
    assert "ENABLED" == described["TimeToLive"]["TimeToLiveStatus"]


def test_a_name_that_is_close_to_no_table_gets_no_suggestion(cli: Foldb) -> None:
    cli("table", "create", "Counters", "id:S")

    assert cli("scan", "Music").stderr.endswith("not found. `foldb table list` lists the tables.\n")


def test_commands_wait_for_tables_of_a_late_control_plane(tmp_path: Path) -> None:
    """CreateTable has succeeded, and DescribeTable does not find the table yet."""
    with served(tmp_path, "--control-plane-delay", "400ms") as url:
        cli = at(url)
        created = cli("table", "create", "Notes", "id:N")
        assert (0, "Notes: ACTIVE") == (created.exit_code, created.stderr.strip())
        assert 0 == cli("item", "put", "Notes", '{"id": 1}').exit_code
        at_once = cli("table", "create", "Later", "id:N", "--no-wait")
        assert (0, True) == (at_once.exit_code, at_once.stderr.startswith("Later: "))
        assert 0 == cli("table", "wait", "Later").exit_code
        assert 0 == cli("restore", "Notes", "--as-of", "-0", "--into", "Copied", "--log", url).exit_code
        assert 0 == cli("sample", "load", "music").exit_code

        missing = cli("table", "wait", "Absent")
        assert ExitCode.NOT_FOUND == missing.exit_code
