"""Sinks of a killed process: written changes are durable, and duplicates can be detected."""

import json
import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.support.served import killed, served
from tests.support.subscribed import settle, subscribe, until
from tests.unit.streams.sinks.test_contract import messages
from tests.verification.reliability import SOAK, record

pytestmark = [pytest.mark.soak] if SOAK else []

KILLS = 30 if SOAK else 1
WRITES = 60


def written_while_killed(
    folder: Path, kind: str, sink: dict[str, Any], *options: str, begun: Callable[[], int]
) -> Counter[tuple[str, str]]:
    """Deliver in several processes, each killed with kill -9 during a delivery; the last one finishes."""
    dice = random.Random(f"killed {kind}")
    written: Counter[tuple[str, str]] = Counter()
    for life in range(KILLS + 1):
        is_last = life == KILLS
        with (served if is_last else killed)(folder, *options) as url:
            table = boto3.resource("dynamodb", endpoint_url=url).Table("Orders")
            if life == 0:
                _create(url)
                subscribe(url, "sent", "Orders", sink, BatchSize=7, ParallelizationFactor=3)
            before = begun()
            for nth in range(WRITES):
                customer, number = f"customer-{dice.randrange(9)}", f"{life}-{nth}"
                table.put_item(Item={"customer": customer, "state": number})
                written[customer, number] += 1
            if is_last:
                settle(url)
            else:
                until(partial(_more_than, before, begun))
    return written


def _more_than(before: int, count: Callable[[], int]) -> bool:
    return count() > before


def _create(url: str) -> None:
    client = boto3.client("dynamodb", endpoint_url=url)
    client.create_table(
        TableName="Orders",
        KeySchema=[{"AttributeName": "customer", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "customer", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )


def _files(folder: Path) -> list[Path]:
    return list(folder.rglob("*.jsonl"))


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    for path in _files(folder):
        yield from map(json.loads, path.read_bytes().splitlines())


@pytest.mark.guarantee("G43")
def test_each_change_is_in_one_file(tmp_path: Path) -> None:
    lake = tmp_path / "db/files/lake"

    written = written_while_killed(
        tmp_path / "db", "file", {"Kind": "file", "Folder": "lake"}, begun=lambda: len(_files(lake))
    )

    rows = [line["new"] for line in _lines(lake)]
    assert written == Counter((row["customer"]["S"], row["state"]["S"]) for row in rows)
    _record("file sink: server killed while it writes", written, len(rows))


@pytest.mark.guarantee("G43")
def test_each_change_is_in_the_topic_and_duplicates_are_detectable(kafka: str, tmp_path: Path) -> None:
    prefix = f"killed-{uuid.uuid4().hex[:8]}"
    topic = f"{prefix}.orders"
    sink = {"Kind": "kafka", "Topic": "orders"}
    destinations = f"kafka://{kafka}/{prefix}"

    written = written_while_killed(
        tmp_path, "kafka", sink, "--kafka-sink", destinations, begun=lambda: len(messages(kafka, topic))
    )

    reported = messages(kafka, topic)
    by_number = {dict(message.headers)["number"]: json.loads(message.value)["new"] for message in reported}
    assert written == Counter((new["customer"]["S"], new["state"]["S"]) for new in by_number.values())
    for customer in {customer for customer, _ in written}:
        numbers = [int(dict(each.headers)["number"]) for each in reported if customer.encode() in each.key]
        # A reader that skips sequence numbers not above the last has every change, in order.
        passed = [number for place, number in enumerate(numbers) if number > max(numbers[:place], default=0)]
        assert sorted(set(numbers)) == passed
    _record("topics: server killed while it writes", written, len(reported))


def _record(test: str, written: Counter[tuple[str, str]], checked: int) -> None:
    faults = {"server killed": KILLS}
    record(test=test, cycles=KILLS, faults=faults, acknowledged=written.total(), checked=checked)
