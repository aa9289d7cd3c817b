"""`foldb table roll`: one table for each period of a time series."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path

import pytest

import foldb
from foldb.cli.lib.errors import ExitCode
from foldb.cli.lib.table_series import Every, Period, tables_of
from tests.behaviour.cli.conftest import Foldb, at, lines
from tests.support.served import foldb as run_foldb

ROLL = ("table", "roll", "Events", "--on")


@pytest.fixture
def events(cli: Foldb) -> Foldb:
    created = cli(
        *("table", "create", "Events_2026_11", "device:S", "time:N", "--read", "50", "--write", "100"),
        *("--gsi", "kinds=kind:S keys_only 20/30", "--lsi", "sizes=size:N", "--ttl", "expires"),
        *("--stream", "--view", "new"),
    )
    assert 0 == created.exit_code, created.output
    assert 0 == cli("table", "update", "Events_2026_11", "--protect").exit_code
    return cli


def tables(cli: Foldb) -> list[str]:
    return [each["table"] for each in lines(cli("table", "list"))]


def units(cli: Foldb, table: str) -> list[tuple[int, int]]:
    """Return read and write units of a table and its index."""
    [described] = lines(cli("table", "describe", table))
    each = [described, *described["GlobalSecondaryIndexes"]]
    throughputs = [one["ProvisionedThroughput"] for one in each]
    return [(one["ReadCapacityUnits"], one["WriteCapacityUnits"]) for one in throughputs]


@pytest.mark.spec("S99")
def test_the_next_table_has_all_settings_of_the_current_one(events: Foldb) -> None:
    rolled = lines(events(*ROLL, "2026-11-30"))

    assert [{"table": "Events_2026_12", "change": "created", "read": 50, "write": 100}] == rolled
    now, following = (
        lines(events("table", "describe", name))[0] for name in ("Events_2026_11", "Events_2026_12")
    )
    for member in (
        "KeySchema",
        "AttributeDefinitions",
        "StreamSpecification",
        "DeletionProtectionEnabled",
        "TimeToLive",
    ):
        assert now[member] == following[member], member
    for kind in ("LocalSecondaryIndexes", "GlobalSecondaryIndexes"):
        for member in ("IndexName", "KeySchema", "Projection"):
            assert now[kind][0][member] == following[kind][0][member]
    assert [(50, 100), (20, 30)] == units(events, "Events_2026_12")


@pytest.mark.spec("S99")
def test_past_tables_and_their_indexes_are_lowered_once(events: Foldb) -> None:
    events(*ROLL, "2026-11-30")
    rolled = lines(events(*ROLL, "2026-12-01", "--past-read", "30"))

    assert [("Events_2026_11", "lowered"), ("Events_2027_01", "created")] == [
        (each["table"], each["change"]) for each in rolled
    ]
    assert [(30, 1), (20, 1)] == units(events, "Events_2026_11")
    assert [(50, 100), (20, 30)] == units(events, "Events_2026_12") == units(events, "Events_2027_01")
    before = lines(events("log", "cat"))
    assert [] == lines(events(*ROLL, "2026-12-31", "--past-read", "30"))
    assert before == lines(events("log", "cat")), "a second run writes nothing"


def test_a_timer_that_missed_periods_continues_from_the_newest(events: Foldb) -> None:
    rolled = lines(events(*ROLL, "2027-03-05"))

    changes = [(each["table"], each["change"], each["write"]) for each in rolled]
    assert [
        ("Events_2026_11", "lowered", 1),
        ("Events_2027_03", "created", 100),
        ("Events_2027_04", "created", 100),
    ] == changes


def test_two_timers_at_the_same_time_create_each_table_once(tmp_path: Path) -> None:
    with foldb.serve(tmp_path / "data", fsync="never") as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Events_2026_11", "device:S", "--ttl", "expires")

        with ThreadPoolExecutor(2) as pool:
            run = ("--db", server.endpoint_url, *ROLL, "2026-11-01")
            results = [*pool.map(lambda _: run_foldb(*run), range(2))]

        assert [0] * 2 == [each.returncode for each in results], [each.stderr for each in results]
        assert ["Events_2026_11", "Events_2026_12"] == tables(cli)
        [described] = lines(cli("table", "describe", "Events_2026_12"))
        assert "expires" == described["TimeToLive"]["AttributeName"]


def test_tables_on_demand_stay_on_demand(cli: Foldb) -> None:
    cli("table", "create", "Events_2026_W47", "device:S")

    rolled = lines(cli(*ROLL, "2026-12-31", "--every", "week", "--ttl", "gone"))

    assert [("Events_2026_W53", "created", 0), ("Events_2027_W01", "created", 0)] == [
        (each["table"], each["change"], each["write"]) for each in rolled
    ]
    [described] = lines(cli("table", "describe", "Events_2027_W01"))
    assert "PAY_PER_REQUEST" == described["BillingModeSummary"]["BillingMode"]
    assert "gone" == described["TimeToLive"]["AttributeName"]


def test_a_dry_run_of_a_roll_changes_nothing(events: Foldb) -> None:
    [plan] = lines(events(*ROLL, "2026-12-01", "--dry-run"))

    assert {
        "change": "roll",
        "series": "Events",
        "like": "Events_2026_11",
        "create": ["Events_2026_12", "Events_2027_01"],
        "lower": ["Events_2026_11"],
    } == plan
    assert ["Events_2026_11"] == tables(events)
    assert [(50, 100), (20, 30)] == units(events, "Events_2026_11")


@pytest.mark.parametrize("every", ["month", "week", "day"])
def test_periods_follow_each_other_without_a_gap(every: Every) -> None:
    day, last = date(2023, 12, 1), date(2029, 3, 1)
    names = []
    while day < last:
        period = Period(every, day)
        following = Period(every, day + timedelta(days=1)).table("T")
        assert following in (period.table("T"), period.next().table("T"))
        names.append(period.table("T"))
        day += timedelta(days=1)

    assert sorted(names) == names
    assert sorted(set(names)) == tables_of("T", every, [*set(names), "T", "T_x", "Tx_2026_01"])


@pytest.mark.parametrize(
    ("words", "step"),
    [
        (("Events_2026_11",), "give the name before the period, `foldb table roll Events --every month`"),
        (("Events", "--every", "day"), "its tables are by month: give --every month"),
        (
            ("Others", "--on", "2026-11-30"),
            "create the first one, `foldb table create Others_2026_11 KEY:TYPE`",
        ),
    ],
)
def test_a_series_without_tables_names_the_next_step(
    events: Foldb, words: tuple[str, ...], step: str
) -> None:
    refused = events("table", "roll", *words)

    assert (ExitCode.NOT_FOUND, True) == (refused.exit_code, step in refused.stderr)
