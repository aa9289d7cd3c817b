"""`foldb alarm`."""

import pytest

from foldb.cli.lib.errors import ExitCode
from tests.behaviour.cli.conftest import Foldb, lines

ADD = (
    "alarm",
    "add",
    "busy",
    "--table",
    "Cars",
    "--metric",
    "ConsumedWriteCapacityUnits",
    "--threshold",
    "2.5",
)


@pytest.fixture
def cars(cli: Foldb) -> Foldb:
    assert cli("table", "create", "Cars", "id:S").exit_code == 0
    return cli


def test_an_alarm_is_added_listed_described_and_removed(cars: Foldb) -> None:
    target = ("--webhook", "https://example.org/alarms")
    [added] = lines(cars(*ADD, "--period", "5m", "--evaluation-periods", "3", "--datapoints", "2", *target))

    assert [added] == lines(cars("alarm", "list"))
    assert "Sum ConsumedWriteCapacityUnits >= 2.5 in 2 of 3 periods of 300 s" == added["condition"]
    assert "INSUFFICIENT_DATA" == added["state"]
    [described] = lines(cars("alarm", "describe", "busy"))
    assert ("Cars", 300, 2.5) == (described["TableName"], described["Period"], described["Threshold"])
    assert cars("alarm", "remove", "busy", "--dry-run").exit_code == 0
    assert cars("alarm", "remove", "busy", "--yes").exit_code == 0
    assert [] == lines(cars("alarm", "list"))
    assert [] == lines(cars("trigger", "list"))


def test_an_alarm_that_was_edited_into_none_can_be_removed(cars: Foldb) -> None:
    lines(cars(*ADD, "--file", "alarms"))
    assert cars("item", "update", "foldb-alarms", "busy", "--set", "Period = 'often'").exit_code == 0

    described = cars("alarm", "describe", "busy")
    planned = cars("alarm", "remove", "busy", "--dry-run")
    removed = cars("alarm", "remove", "busy", "--yes")

    assert ExitCode.INVALID == described.exit_code
    assert ["foldb: busy is no alarm, because its item was edited: `foldb item get foldb-alarms busy` prints the item, "
            "and `foldb alarm remove busy` removes it"] == described.stderr.splitlines()  # fmt: skip
    assert "which is no alarm because it was edited" in planned.stdout
    assert 0 == removed.exit_code
    assert [] == lines(cars("scan", "foldb-alarms"))
    assert [] == lines(cars("trigger", "list"))
    assert ExitCode.NOT_FOUND == cars("alarm", "remove", "busy", "--yes").exit_code


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (ADD, ExitCode.USAGE, "name the target"),
        ((*ADD, "--comparison", "=", "--file", "x"), ExitCode.USAGE, "write >, >=, < or <="),
        ((*ADD[:-1], "much", "--file", "x"), ExitCode.USAGE, "write a number"),
        ((*ADD, "--statistic", "p99", "--file", "x"), ExitCode.INVALID, "Statistic is one of Sum"),
        (("alarm", "describe", "none"), ExitCode.NOT_FOUND, "`foldb alarm list` lists the alarms."),
    ],
)
def test_a_wrong_alarm_is_refused(cars: Foldb, words: tuple[str, ...], code: ExitCode, says: str) -> None:
    result = cars(*words)

    assert code == result.exit_code
    assert says in result.stderr
