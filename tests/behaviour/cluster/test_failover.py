"""The owner of the catalog is killed, on a real broker: its splits, counters and alarms go on at another node."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.cluster.clocked_node import SharedClock
from tests.behaviour.cluster.processes import Nodes
from tests.behaviour.spec.test_alarms import webhook
from tests.support.raw import Answer, ask
from tests.support.subscribed import until
from tests.support.tables import table_request

CARS = {"TableName": "Cars"}
MINUTE_MS = 60_000
_OWN = "Foldb_20261121."


def units(read: int, write: int) -> dict[str, Any]:
    return {"ProvisionedThroughput": {"ReadCapacityUnits": read, "WriteCapacityUnits": write}}


def described(url: str) -> dict[str, Any]:
    return dict(ask(url, "DescribeTable", CARS).body["Table"])


def lowered(url: str) -> dict[str, Any]:
    """Return the throughput with the number and the time of its decreases."""
    return dict(described(url)["ProvisionedThroughput"])


def is_active(url: str) -> bool:
    return bool(described(url)["TableStatus"] == "ACTIVE")


def update(url: str, read: int, write: int) -> Answer:
    """Change the throughput, once the last change is done: the catalog of a node may be behind."""
    body = CARS | units(read, write)
    return answered(lambda: ask(url, "UpdateTable", body), lambda answer: b"ResourceInUse" not in answer.data)


def owner_and_other(nodes: Nodes) -> tuple[int, int]:
    """Return the number of the node that owns the catalog, and that of the other one."""
    address = catalog_owner(nodes.urls[0])
    [owner] = [number for number in range(2) if address == cluster_address(nodes.url_of(number))]
    return owner, 1 - owner


def catalog_owner(url: str) -> str | None:
    """Return the address of the catalog's owner, as a node has it; None if the node does not answer."""
    partitions = ask(url, f"{_OWN}Cluster", {}).body.get("Partitions", ())
    return next((each["Owner"] for each in partitions if each["Partition"] == 0), None)


def cluster_address(url: str) -> str:
    return str(ask(url, f"{_OWN}Cluster", {}).body["Address"])


def answered(call: Callable[[], Answer], is_final: Callable[[Answer], bool] = lambda _: True) -> Answer:
    """Repeat a request until a node answers it, as an SDK does."""
    answers: list[Answer] = []

    def is_answered() -> bool:
        answers.append(call())
        return answers[-1].status < 500 and is_final(answers[-1])

    until(is_answered)
    return answers[-1]


@pytest.mark.guarantee("G33")
@pytest.mark.spec("S62")
def test_splits_and_decreases_survive_the_catalogs_owner(kafka: str, tmp_path: Path) -> None:
    """Both are in the log, so the next owner refuses the fifth decrease of a day and splits further."""
    with Nodes(tmp_path, kafka, 2, "--throttle", "--split-delay", "0s") as nodes:
        nodes.settle()
        one = nodes.urls[0]
        request = table_request("Cars", "pk:S", BillingMode="PROVISIONED", **units(10, 10))
        assert 200 == ask(one, "CreateTable", request).status
        until(lambda: is_active(one))
        update(one, 10, 1500)
        maps = until(lambda: split(one))
        for write in (1000, 900, 800, 700):
            assert 200 == update(one, 10, write).status
        owner, other = owner_and_other(nodes)
        url = nodes.url_of(other)
        until(lambda: is_active(url) and lowered(url)["NumberOfDecreasesToday"] == 4)
        before = lowered(url)

        nodes.kill(owner)

        fifth = update(url, 10, 600)
        assert "LimitExceededException" in fifth.body["__type"]
        assert before == lowered(url)
        assert maps == split(url)
        assert 200 == update(url, 10, 4000).status
        assert until(lambda: len(split(url)) > len(maps))


def split(url: str) -> list[dict[str, Any]]:
    """Return the capacity partitions that come from splits."""
    found = ask(url, f"{_OWN}CapacityPartitions", CARS).body["Partitions"]
    return [each for each in found if each["Parent"] is not None]


@pytest.mark.spec("S71")
def test_an_alarm_goes_on_after_its_evaluator_is_killed(kafka: str, tmp_path: Path) -> None:
    """The node is lost in the minute that breaches, and the other one evaluates that minute, once.

    A killed node would be replaced within a second. So it is paused first: the minute ends while the other node is
    still a standby, which evaluates nothing.
    """
    clock = SharedClock(tmp_path / "clock")
    begin_ms = (clock() // MINUTE_MS + 1) * MINUTE_MS
    clock.move_to(begin_ms)  # so the test has a whole minute
    options = ("--webhooks", "127.0.0.1")
    with (
        webhook(failures=0) as (target, received),
        Nodes(tmp_path, kafka, 2, *options, clock=tmp_path / "clock") as nodes,
    ):
        nodes.settle()
        owner, other = owner_and_other(nodes)
        url = nodes.url_of(other)
        alarm = {
            "AlarmName": "errors",
            "MetricName": "UserErrors",
            "Threshold": 3,
            "Subscription": {"Sink": {"Kind": "webhook", "Url": target}},
        }
        assert 200 == answered(lambda: ask(url, f"{_OWN}PutAlarm", alarm)).status
        for _ in range(3):
            assert 400 == ask(url, "DescribeTable", {"TableName": "Nowhere"}).status

        nodes._processes[owner].signal(signal.SIGSTOP)
        clock.move_to(begin_ms + MINUTE_MS + 3_000)
        until(lambda: catalog_owner(url) == cluster_address(url))
        nodes.kill(owner)

        call = received.get(timeout=30)
        assert "ALARM" == call["data"]["new"]["StateValue"]["S"]
        key = {"TableName": "foldb-alarms", "Key": {"AlarmName": {"S": "errors"}}}
        read = answered(lambda: ask(url, "GetItem", key | {"ConsistentRead": True}))
        # Log time is that of the broker, whose clock is not moved, so the end is a position.
        past = key | {"To": read.headers["x-foldb-position"]}
        history = answered(lambda: ask(url, f"{_OWN}ItemHistory", past)).body["Versions"]
        assert ["ALARM", "INSUFFICIENT_DATA"] == [each["Item"]["StateValue"]["S"] for each in history]
        until(lambda: lags(url) == {0})
        assert received.empty()


def lags(url: str) -> set[int]:
    """Return the numbers of changes that the alarm's trigger has not handled, in all partitions."""
    described = answered(lambda: ask(url, f"{_OWN}DescribeSubscription", {"Name": "alarm-errors"}))
    return {each["Changes"] for each in described.body["Lag"].values()}
