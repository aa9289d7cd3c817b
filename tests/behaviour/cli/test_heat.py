"""`foldb partition heat`, `foldb capacity top`, `foldb capacity report` and `foldb advise keys`."""

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

import foldb
from foldb.cli.commands import capacity
from foldb.cli.lib.heat import Heat, HeatLayer, HeatPart, draw_map, fits
from foldb.embedded import Server
from foldb.server.usage import sketch
from tests.behaviour.cli.conftest import Foldb, at, lines
from tests.behaviour.cli.terminals import on_a_terminal, plain
from tests.support.tables import table_request

HOT = "car-7"
CARS = [f"car-{n}" for n in range(20)]


@pytest.fixture(scope="module")
def server(connect: Callable[[str], Any]) -> Iterator[Server]:
    """Serve a table with eight capacity partitions, after 80 reads of one item, 20 of others, and 20 writes.

    No half-life begins during the tests, and `top` shows ten minutes.
    """
    with pytest.MonkeyPatch.context() as patch, foldb.serve(heat=True, throttle=True) as server:
        patch.setattr(sketch, "HALF_LIFE_MS", 10**12)
        patch.setattr(capacity, "_TOP_BUCKETS", 60)
        client = connect(server.endpoint_url).meta.client
        units = {"ReadCapacityUnits": 12_000, "WriteCapacityUnits": 4_000}
        request = table_request("Cars", "pk:S", gsi={"by-colour": "colour:S"})
        request |= {"BillingMode": "PROVISIONED", "ProvisionedThroughput": units}
        request["GlobalSecondaryIndexes"][0]["ProvisionedThroughput"] = units
        client.create_table(**request)
        for key in CARS:
            client.put_item(TableName="Cars", Item={"pk": key, "colour": "red"})
        for key in [HOT] * 80 + CARS:
            client.get_item(TableName="Cars", Key={"pk": key}, ConsistentRead=True)
        yield server


@pytest.fixture(scope="module")
def cli(server: Server) -> Foldb:
    return at(server.endpoint_url)


@pytest.fixture
def unmeasured() -> Iterator[Foldb]:
    with foldb.serve() as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Bikes", "pk:S")
        yield cli


@pytest.mark.spec("S65")
def test_the_map_of_a_hot_key_has_one_bright_line(cli: Foldb) -> None:
    drawn = cli("partition", "heat", "Cars", "--layer", "reads", "-o", "table").stdout.splitlines()

    head, *table_rows = drawn
    rows = [re.fullmatch(r" *(\d+) ([│├])(.{10,})│( +\d+ %)?", line) for line in table_rows[:16]]
    assert all(rows)
    bright = [row for row in rows if row and "█" in row[3]]
    assert 1 == len(bright)
    assert bright[0][4] is not None
    assert int(bright[0][4].strip(" %")) >= 81
    assert 7 == sum(row is not None and row[2] == "├" for row in rows)
    assert head.startswith("Cars: 100 units of reads; █ is ")
    assert "heaviest keys: car-7 81.0%" in drawn[-1]


def test_a_split_is_marked_at_its_time_and_key_range() -> None:
    layer = HeatLayer("Writes", Decimal(64), Decimal(), [], {590_000: [Decimal(1)] * 64})
    part = HeatPart("Cars", None, {}, [0, 1024, 2048], [(1024, 573_210)], {"Writes": layer})

    drawn = [*draw_map(part, layer, Heat(599_000, 10_000, [part]), width=80, height=24)]

    marked = [line.replace("\x1b[33m", "").replace("\x1b[0m", "") for line in drawn if "┼" in line]
    assert [f" 1024 ├{' ' * 57}┼ █│   6 %"] == marked
    assert 2 == sum("├" in line for line in drawn)


def test_a_map_fits_a_narrow_terminal(server: Server) -> None:
    ended = on_a_terminal("partition", "heat", "Cars", "--db", server.endpoint_url, columns=40)

    assert 0 == ended.code
    map_lines = [line for line in plain(ended.stdout).splitlines() if re.match(r" *\d+ [│├]", line)]
    assert 3 * 64 == len(map_lines)  # the screen is high; the table's reads and writes, the index's writes
    assert all(len(line.rstrip()) <= 40 for line in map_lines)


def test_a_map_in_a_pipe_is_a_row_for_each_time(cli: Foldb) -> None:
    rows = lines(cli("partition", "heat", "Cars"))
    of_index = lines(cli("partition", "heat", "Cars", "--index", "by-colour", "--hour"))

    found: dict[tuple[str, str], float] = {}
    for row in rows:
        assert 64 == len(row["units"])
        name = row["index"], row["layer"]
        found[name] = found.get(name, 0) + sum(row["units"])
    assert {("", "reads"): 100, ("", "writes"): 20, ("by-colour", "writes"): 20} == found
    assert {60} == {row["seconds"] for row in of_index}
    assert 20 == sum(sum(row["units"]) for row in of_index)


def test_a_layer_without_traffic_is_said(cli: Foldb) -> None:
    result = cli("partition", "heat", "Cars", "--layer", "throttles", "-o", "table")

    assert ("", 0) == (result.stdout, result.exit_code)
    assert "there was no such traffic of Cars in the last 10 minutes" in result.stderr


def test_top_has_the_highest_rates_first(cli: Foldb) -> None:
    rows = lines(cli("capacity", "top"))

    assert [("", "reads"), ("", "writes"), ("by-colour", "writes")] == [
        (row["index"], row["layer"]) for row in rows
    ]
    assert {"table": "Cars", "rate": 0.2, "provisioned": 12_000, "key": HOT, "share": 0.81}.items() <= rows[
        0
    ].items()
    assert ("red", 1) == (rows[2]["key"], rows[2]["share"])


def test_top_refreshes_a_terminal(server: Server) -> None:
    ended = on_a_terminal(
        "capacity", "top", "--interval", "0.1", "--rounds", "3", "--db", server.endpoint_url, columns=100
    )

    assert 0 == ended.code
    assert 2 == ended.stdout.count("\x1b[H\x1b[2J")
    assert 3 == ended.stdout.count(HOT)


def test_top_ends_at_once_where_stdout_is_no_terminal(cli: Foldb) -> None:
    assert 3 == len(lines(cli("capacity", "top", "--rounds", "1000000", "--interval", "60")))


def test_top_ends_cleanly_at_ctrl_c(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    result = at(server.endpoint_url)("--color", "always", "capacity", "top")

    assert 0 == result.exit_code
    assert HOT in result.stdout


def test_the_report_has_consumed_provisioned_and_throttled(cli: Foldb) -> None:
    cli("scan", "Cars")
    rows = {(row["index"], row["access"]): row for row in lines(cli("capacity", "report", "Cars"))}

    assert [("", "reads"), ("", "writes"), ("by-colour", "reads"), ("by-colour", "writes")] == [*rows]
    assert rows["", "reads"]["units"] >= 100.5  # the scan is included
    assert {"units": 20, "provisioned": 4_000, "throttled": 0}.items() <= rows["", "writes"].items()
    assert 20 == rows["by-colour", "writes"]["units"]
    assert 0 < rows["", "reads"]["peak_rate"] <= 2


@pytest.mark.spec("S68")
def test_dividing_the_hot_key_lowers_the_hottest_share(cli: Foldb) -> None:
    rows = lines(cli("advise", "keys", "Cars", "--limit", "2"))

    of_hot = {row["shards"]: row for row in rows if row["layer"] == "reads" and row["key"] == HOT}
    assert [1, 2, 3, 5, 10] == [*of_hot]
    assert 0.81 == of_hot[1]["share"]
    assert of_hot[1]["hottest_share"] >= 0.81
    shares = [row["hottest_share"] for row in of_hot.values()]
    assert sorted(shares, reverse=True) == shares
    assert of_hot[5]["hottest_share"] < 0.35
    assert all(row["fits"] for row in rows)
    assert {"reads", "writes"} == {row["layer"] for row in rows}


def test_a_number_of_shards_can_be_given(cli: Foldb) -> None:
    rows = lines(cli("advise", "keys", "Cars", "--shards", "4", "--limit", "1"))

    assert [("", 1), ("", 4), ("", 1), ("", 4), ("by-colour", 1), ("by-colour", 4)] == [
        (row["index"], row["shards"]) for row in rows
    ]


@pytest.mark.spec("S68")
def test_keys_since_a_cut_are_counted_from_the_log(tmp_path: Path, connect: Callable[[str], Any]) -> None:
    """No server measures the table or runs. Local indexes count for the table, and a moved entry at its new key."""
    folder = tmp_path / "db"
    with foldb.serve(folder) as server:
        client = connect(server.endpoint_url).meta.client
        indexes = {"gsi": {"by-colour": "colour:S"}, "lsi": {"sizes": "size:S KEYS_ONLY"}}
        client.create_table(**table_request("Cars", "pk:S", "sk:S", **indexes))

        def item(pk: str, **more: str) -> dict[str, Any]:
            return {"pk": pk, "sk": "1", **more}

        def put(pk: str, **more: str) -> str:
            answer = client.put_item(TableName="Cars", Item=item(pk, **more))
            return str(answer["ResponseMetadata"]["HTTPHeaders"]["x-foldb-position"])

        put("early", colour="blue")
        put("early", colour="red", size="s")
        cut = put("a", colour="red", size="s")  # 1 and 1 of the local index, red 1
        put("a", colour="red", size="s", text="x" * 1100)  # 2, red 2
        put("a", colour="green", size="s")  # 2, green 2 and 1
        client.transact_write_items(TransactItems=[{"Put": {"TableName": "Cars", "Item": item("b")}}])  # 2
        with pytest.raises(ClientError):  # 1
            client.delete_item(TableName="Cars", Key=item("c"), ConditionExpression="attribute_exists(pk)")

    result = at(folder)("advise", "keys", "Cars", "--from", cut, "--shards", "2")

    rows = [row for row in lines(result) if row["shards"] == 1]
    expected = [("", "a", 0.667), ("", "b", 0.222), ("", "c", 0.111)]
    expected += [("by-colour", "green", 0.5), ("by-colour", "red", 0.5)]
    assert expected == [(row["index"], row["key"], row["share"]) for row in rows]
    assert {("writes", "log", True)} == {(row["layer"], row["source"], row["fits"]) for row in rows}
    assert f"Cars: counted from the log, from {cut} on" in result.stderr


def test_the_log_and_the_sketch_agree_on_present_writes(
    tmp_path: Path, connect: Callable[[str], Any]
) -> None:
    """Also with several partitions, whose records are counted in the order of their log times."""
    with foldb.serve(tmp_path / "db", heat=True, partitions=3) as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Cars", "pk:S", "--gsi", "by-colour=colour:S")
        client = connect(server.endpoint_url).meta.client
        for number in range(60):
            car = number % 9 * (number % 5)
            client.put_item(TableName="Cars", Item={"pk": f"car-{car}", "colour": f"{car % 3}"})

        answers = cli("advise", "keys", "Cars"), cli("advise", "keys", "Cars", "--from", "-1h")

    shown = ("index", "key", "share", "shards", "hottest_share", "fits")
    of_sketch, of_log = ([{name: row[name] for name in shown} for row in lines(each)] for each in answers)
    assert len(of_log) > 10
    assert {"sketch"} == {row["source"] for row in lines(answers[0])}
    assert of_sketch == of_log


@pytest.mark.parametrize(
    ("rate", "throttled", "shards", "expected"),
    [(500, [], 1, True), (1001, [], 1, False), (980, [HOT], 1, False), (980, ["car-1"], 1, True),
     (500, [HOT], 1, True), (980, [HOT], 2, True)],
)  # fmt: skip
def test_a_key_that_is_throttled_at_the_limit_does_not_fit(
    rate: int, throttled: list[str], shards: int, expected: bool
) -> None:
    """Its rate is that of the admitted requests, which is always near the limit or below it."""
    writes, throttles = (
        HeatLayer(name, Decimal(1), Decimal(), [(key, Decimal(1), 0) for key in keys], {})
        for name, keys in (("Writes", [HOT]), ("Throttles", throttled))
    )
    part = HeatPart("Cars", None, {}, [0], [], {"Writes": writes, "Throttles": throttles})

    assert expected == fits(part, writes, HOT, Decimal(rate), shards)


def test_throttled_writes_are_reported(server: Server, connect: Callable[[str], Any]) -> None:
    client = connect(server.endpoint_url).meta.client
    units = {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}
    request = table_request("Trucks", "pk:S") | {"BillingMode": "PROVISIONED", "ProvisionedThroughput": units}
    client.create_table(**request)
    throttled = 0
    while not throttled:
        try:
            client.put_item(TableName="Trucks", Item={"pk": HOT})
        except ClientError:
            throttled += 1

    report = lines(at(server.endpoint_url)("capacity", "report", "Trucks"))
    client.delete_table(TableName="Trucks")

    assert [("reads", 0), ("writes", 1)] == [(row["access"], row["throttled"]) for row in report]
    assert {1} == {row["provisioned"] for row in report}


@pytest.mark.parametrize("command", [("partition", "heat", "Bikes"), ("advise", "keys", "Bikes")])
def test_a_table_that_is_not_measured_gets_the_next_step(unmeasured: Foldb, command: tuple[str, ...]) -> None:
    result = unmeasured(*command)

    assert 7 == result.exit_code
    assert "The heat of Bikes is not measured: enable Contributor Insights" in result.stderr


def test_top_without_measured_tables_names_the_next_step(unmeasured: Foldb) -> None:
    result = unmeasured("capacity", "top")

    assert ("", 0) == (result.stdout, result.exit_code)
    assert "serve with --heat" in result.stderr
