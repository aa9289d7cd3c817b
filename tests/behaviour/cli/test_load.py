"""`foldb load`: the requests follow from the seed, and a latency counts from the time at which a request was due."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from foldb.cli.lib.errors import ExitCode, NoAnswerError, RequestFailedError
from foldb.cli.lib.key_arguments import KeyArguments
from foldb.cli.lib.load_generator import Due, Load, Workload
from tests.behaviour.cli.conftest import Foldb, lines
from tests.behaviour.cli.test_refusals import check

ORDERS = KeyArguments(
    {
        "TableName": "Orders",
        "KeySchema": [
            {"AttributeName": "id", "KeyType": "HASH"},
            {"AttributeName": "at", "KeyType": "RANGE"},
        ],
        "AttributeDefinitions": [
            {"AttributeName": "id", "AttributeType": "S"},
            {"AttributeName": "at", "AttributeType": "N"},
        ],
    }
)


def workload(**changes: Any) -> Workload:
    values: dict[str, Any] = {
        "rate": 1000.0,
        "seconds": 2.0,
        "mix": {"get": 3, "put": 1},
        "keys": 50,
        "zipf": 1.0,
    }
    return Workload(**(values | {"sort_keys": 4, "sizes": (10, 20), "seed": 7} | changes))


class Server:
    """A server that takes a time of its own for each request, on a clock of the test's."""

    def __init__(self, answers: Iterator[float | Exception]) -> None:
        self.now = 0.0
        self._answers = answers

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def call_once(self, _: str, __: Mapping[str, Any]) -> dict[str, Any]:
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        self.now += answer
        return {"ConsumedCapacity": {"CapacityUnits": 0.5}}

    def close(self) -> None:
        """Close nothing."""


def run(times: list[float], answers: list[float | Exception], seconds: float) -> dict[str, Any]:
    """Return the row of a load of gets that are due at these times, over one connection."""
    server = Server(iter(answers))
    requests = iter([Due(each, "get", "GetItem", {}) for each in times])
    load = Load(requests, seconds, clock=server.clock, sleep=server.sleep)
    load.run(server)
    return load.measured()["get"].row("get", load.seconds)


def test_equal_seeds_send_equal_requests() -> None:
    first = [*workload().requests(ORDERS)]

    assert first == [*workload().requests(ORDERS)]
    assert first != [*workload(seed=8).requests(ORDERS)]


def test_arrivals_have_the_rate_and_the_mix() -> None:
    due = [*workload().requests(ORDERS)]
    kinds = Counter(each.name for each in due)

    assert 1850 < len(due) < 2150
    assert sorted(due, key=lambda each: each.at_s) == due
    assert 2.5 < kinds["get"] / kinds["put"] < 3.5
    assert {"id", "at"} == due[0].body["Key" if due[0].name == "get" else "Item"].keys() - {"payload"}


@pytest.mark.parametrize(("zipf", "least", "most"), [(0.0, 0.01, 0.03), (1.0, 0.20, 0.25), (2.0, 0.58, 0.66)])
def test_keys_follow_the_zipf_distribution(zipf: float, least: float, most: float) -> None:
    """The share of the first of 50 keys is 1 / sum(1 / r^s): 2 %, 22 % and 62 %."""
    due = [*workload(zipf=zipf, seconds=10.0, mix={"get": 1}).requests(ORDERS)]
    first = sum(each.body["Key"]["id"]["S"] == "key-00000000" for each in due)

    assert least < first / len(due) < most


def test_a_stall_is_measured_for_every_request_that_it_delays() -> None:
    """A closed loop would have measured one slow request."""
    row = run([0.0, 0.1, 0.2, 0.3], [1.0, 0.0, 0.0, 0.0], seconds=1.0)

    assert (800.0, 1000.0) == (row["p50_ms"], row["max_ms"])


def test_requests_without_a_connection_count_as_unsent() -> None:
    row = run([0.0, 0.1, 0.2], [5.0], seconds=1.0)

    assert (3, 2, 5000.0) == (row["requests"], row["unsent"], row["max_ms"])
    assert 4900.0 == row["p50_ms"]


def test_errors_are_counted_by_type_and_throttles_apart() -> None:
    throttled = RequestFailedError("ProvisionedThroughputExceededException", 400, {})
    row = run(
        [0.0] * 5,
        [
            0.0,
            throttled,
            throttled,
            RequestFailedError("ValidationException", 400, {}),
            NoAnswerError("no", ExitCode.UNREACHABLE),
        ],
        seconds=1.0,
    )

    assert {"ProvisionedThroughputExceededException": 2, "ValidationException": 1, "no answer": 1} == row[
        "errors"
    ]
    assert (5, 2, 0.5) == (row["requests"], row["throttled"], row["read_units"])


def test_a_load_prints_a_row_for_each_operation_and_all(cli: Foldb) -> None:
    cli("table", "create", "Orders", "id:B", "at:N")
    rows = lines(
        cli("load", "Orders", "--rps", "300", "--duration", "500ms", "--size", "10..1KB", "--keys", "20")
    )

    assert ["put", "get", "update", "query", "all"] == [row["operation"] for row in rows]
    total = rows[-1]
    assert 100 < total["requests"] < 200
    assert total["requests"] == sum(row["requests"] for row in rows[:-1])
    assert total["p50_ms"] <= total["p95_ms"] <= total["p99_ms"] <= total["max_ms"]
    assert not total["errors"]
    assert total["read_units"] > 0
    assert total["write_units"] > 0
    assert 0 < len(lines(cli("scan", "Orders", "--all"))) <= 200


def test_a_load_with_refused_requests_exits_with_partly(cli: Foldb) -> None:
    """The payload is a string, and the index needs a number."""
    cli("table", "create", "Orders", "id:S", "--gsi", "Payloads=payload:N")
    result = cli("load", "Orders", "--rps", "200", "--duration", "100ms", "--mix", "put=1,get=1")

    assert 10 == result.exit_code, result.output
    assert "ValidationException" in result.stderr
    errors = {row["operation"]: row["errors"] for row in map(json.loads, result.stdout.splitlines())}
    assert not errors["get"]
    assert errors["put"] == errors["all"]


def test_a_load_of_a_table_with_items_asks_first(cli: Foldb) -> None:
    cli("table", "create", "Orders", "id:S")
    cli("item", "put", "Orders", '{"id": "a"}')

    check(cli("load", "Orders", "--no-input"), 2, "Write to Orders, which has 1 item?")
    assert 1 == len(lines(cli("scan", "Orders")))
    only_reads = ("load", "Orders", "--no-input", "--mix", "get=1", "--duration", "100ms")
    assert 0 == cli(*only_reads).exit_code


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--mix", "puts=1"), "--mix puts=1: write weights of put, get, update, query"),
        (("--mix", "put=0"), "one weight must be above 0"),
        (("--size", "2KB..1KB"), "the first size is the larger one"),
        (("--duration", "0"), "give a time such as 10s"),
    ],
)
def test_a_malformed_load_is_refused(cli: Foldb, flags: tuple[str, str], sentence: str) -> None:
    check(cli("load", "Orders", *flags), 2, sentence)
