"""`foldb metrics`."""

from collections.abc import Callable
from typing import Any

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


def test_each_table_of_a_batch_counts_its_own_consistency(
    cli: Foldb, url: str, connect: Callable[[str], Any]
) -> None:
    for table in ("Cars", "Vans"):
        cli("table", "create", table, "id:S")
        cli("item", "put", table, '{"id": "a"}')

    answer = connect(url).meta.client.batch_get_item(
        RequestItems={
            "Cars": {"Keys": [{"id": "a"}, {"id": "b"}], "ConsistentRead": True},
            "Vans": {"Keys": [{"id": "a"}, {"id": "b"}]},
        },
        ReturnConsumedCapacity="TOTAL",
    )

    read = lines(cli("metrics", "--metric", "ConsumedReadCapacityUnits"))
    assert {"Cars": 2, "Vans": 1} == {each["table"]: each["sum"] for each in read}
    assert [2, 1] == [each["CapacityUnits"] for each in answer["ConsumedCapacity"]]
    assert {"Cars": [{"id": "a"}], "Vans": [{"id": "a"}]} == answer["Responses"]


def test_an_unknown_metric_is_refused_with_the_known_ones(cli: Foldb) -> None:
    result = cli("metrics", "--metric", "Nothing")

    assert result.exit_code == ExitCode.INVALID
    assert "ConsumedReadCapacityUnits" in result.stderr
