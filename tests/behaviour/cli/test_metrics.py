"""`foldb metrics`."""

from foldb.cli.lib.errors import ExitCode
from tests.behaviour.cli.conftest import Foldb, lines


def test_metrics_are_printed_over_the_time_and_by_period(cli: Foldb) -> None:
    cli("table", "create", "Cars", "id:S")
    for number in range(3):
        cli("item", "put", "Cars", f'{{"id": "{number}"}}')

    [total] = [
        each for each in lines(cli("metrics", "Cars")) if each["metric"] == "ConsumedWriteCapacityUnits"
    ]
    minutes = lines(cli("metrics", "--metric", "ConsumedWriteCapacityUnits", "--since", "5m"))

    assert (3, 3, 1) == (total["sum"], total["samples"], total["maximum"])
    assert 3 == sum(each["samples"] for each in minutes)
    assert all(each["time"].endswith(":00.000Z") for each in minutes)


def test_an_unknown_metric_is_refused_with_the_known_ones(cli: Foldb) -> None:
    result = cli("metrics", "--metric", "Nothing")

    assert result.exit_code == ExitCode.INVALID
    assert "ConsumedReadCapacityUnits" in result.stderr
