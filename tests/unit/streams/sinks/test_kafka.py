"""Messages in a topic, and results for brokers that refuse messages or do not answer."""

import asyncio
import gc
import json
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient

from foldb.log.kafka import client
from foldb.materializer.fold.outcomes import Tx
from foldb.model.errors import ValidationError
from foldb.model.sequence_numbers import position_of
from foldb.streams.formats import avro, kinesis, plain
from foldb.streams.formats.table_view import Delivery, event_id
from foldb.streams.sinks import kafka as sink_module
from foldb.streams.sinks.sink import DeliveryResult, Failure, PartialFailure, Success
from tests.support.broker import brokers
from tests.unit.streams.deliveries import TIME, delivery, order
from tests.unit.streams.sinks.context import NOW, batch, sink_context
from tests.unit.streams.sinks.contract import expected, history, once
from tests.unit.streams.sinks.test_contract import messages, received_of

ROOT = Path(__file__).resolve().parents[4]
PREFIX = f"shop-{uuid.uuid4().hex[:8]}"
"""Unique topics, because the broker may have topics of an earlier run."""


def deliver(
    server: str,
    settings: dict[str, Any],
    changes: list[Delivery],
    *,
    replay: bool = False,
    timeout_s: float = 30.0,
) -> DeliveryResult:
    async def whole() -> DeliveryResult:
        about = sink_context(Path(), destinations=f"kafka://{server}/{PREFIX}", timeout_s=timeout_s)
        sink = sink_module.make({"Kind": "kafka", **settings}, about)
        await sink.start()
        try:
            return await sink.deliver(batch(changes, replay=replay))
        finally:
            await sink.close()

    return asyncio.run(whole())


def test_a_message_has_the_item_key_and_the_position(kafka: str) -> None:
    change = delivery(order(), None, tx=Tx("10482.0", 1, 2))

    deliver(kafka, {"Topic": "headers"}, [change], replay=True)

    [message] = messages(kafka, f"{PREFIX}.headers")
    assert b'{"customer":{"S":"ann"},"order":{"N":"1"}}' == message.key
    assert plain.plain(change, replay=True) == message.value
    assert TIME == message.timestamp
    assert {
        "id": event_id(change).encode(),
        "number": b"100000000000001048200000000",
        "position": b"10482.0",
        "table": b"Orders",
        "op": b"REMOVE",
        "tx": b'{"id":"10482.0","n":1,"of":2}',
        "replay": b"true",
    } == dict(message.headers)


def test_a_table_has_its_own_topic_with_spread_items(kafka: str) -> None:
    changes = [delivery(None, order(order=nth), offset=nth) for nth in range(50)]

    deliver(kafka, {"Partitions": 3}, changes)

    assert {0, 1, 2} == {message.partition for message in messages(kafka, f"{PREFIX}.feed.Orders")}


@pytest.mark.parametrize("kind", ["kinesis", "debezium", "avro"])
def test_a_value_has_the_format_of_the_settings(kafka: str, kind: str) -> None:
    change = delivery(None, order())

    deliver(kafka, {"Topic": f"as-{kind}", "Format": kind}, [change])

    [message] = messages(kafka, f"{PREFIX}.as-{kind}")
    if kind == "kinesis":
        assert kinesis.record(change) == message.value
    elif kind == "avro":
        assert avro.message(change) == message.value
    else:
        reported = json.loads(message.value)
        assert ("c", NOW, order()) == (reported["op"], reported["ts_ms"], reported["after"])


def test_a_refused_message_is_found_by_halving(kafka: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=kafka)
    admin.create_topics(
        {
            f"{PREFIX}.small": {
                "num_partitions": 1,
                "replication_factor": 1,
                "configs": {"max.message.bytes": "1000"},
            }
        }
    )
    admin.close()
    ann = [
        delivery(None, order(order=nth, text={"S": "x" * size}), nth)
        for nth, size in ((1, 10), (2, 5000), (3, 10))
    ]

    together = deliver(kafka, {"Topic": "small"}, ann)
    alone = [deliver(kafka, {"Topic": "small"}, [each]) for each in ann]

    assert [Failure, Success, Failure, Success] == [type(verdict) for verdict in (together, *alone)]
    assert isinstance(together, Failure)
    assert f"bytes for {PREFIX}.small" in together.error
    there = {json.loads(each.value)["number"] for each in messages(kafka, f"{PREFIX}.small")}
    assert {str(ann[0].change.sequence_number), str(ann[2].change.sequence_number)} == there


def test_a_message_above_the_limit_is_the_one_at_fault(kafka: str) -> None:
    large = [
        delivery(None, order(order=nth, text={"S": "x" * size}), nth)
        for nth, size in ((1, 10), (2, 21 << 20))
    ]

    verdict = deliver(kafka, {"Topic": "large"}, large)

    assert isinstance(verdict, PartialFailure)
    assert (2, 0) == position_of(verdict.sequence_number)
    assert 1 == len(messages(kafka, f"{PREFIX}.large"))


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_an_unreachable_broker_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "BOOTSTRAP_TIMEOUT_MS", 200)

    async def whole() -> None:
        sink = sink_module.make(
            {"Kind": "kafka"}, sink_context(Path(), destinations="kafka://127.0.0.1:1/shop")
        )
        with pytest.raises(Exception, match=r"cannot reach Kafka at 127\.0\.0\.1:1"):
            await sink.start()
        await sink.close()

    asyncio.run(whole())
    for thread in threading.enumerate():
        if thread.name == "sink":
            thread.join()
    gc.collect()  # kafka-python leaves sockets of failed connections to the garbage collector


STOPPED = """
import asyncio
from pathlib import Path
from foldb.streams.sinks import kafka
from tests.unit.streams.sinks.context import sink_context

async def whole():
    sink = kafka.make({"Kind": "kafka"}, sink_context(Path(), destinations="kafka://127.0.0.1:1/shop"))
    started = asyncio.create_task(sink.start())
    await asyncio.sleep(0)
    started.cancel()
    await sink.close()

asyncio.run(whole())
"""


def test_a_process_exits_without_waiting_for_a_broker() -> None:
    subprocess.run(
        [sys.executable, "-c", STOPPED], check=True, timeout=client.BOOTSTRAP_TIMEOUT_MS / 1000 - 5, cwd=ROOT
    )


@pytest.mark.soak
def test_a_paused_broker_loses_and_reorders_no_message() -> None:
    """Messages in flight arrive once or twice; a reader that skips known sequence numbers sees no difference."""

    async def whole(server: str) -> None:
        about = sink_context(Path(), destinations=f"kafka://{server}/{PREFIX}", timeout_s=1.0)
        sink = sink_module.make({"Kind": "kafka", "Topic": "paused", "Partitions": 1}, about)
        await sink.start()
        ann = history("ann", 300)
        while not isinstance(await sink.deliver(batch(ann[:100])), Success):
            pass  # a broker that has just started may take longer than a second
        cluster.pause(1)
        verdict = await sink.deliver(batch(ann[100:]))
        assert isinstance(verdict, Failure)
        cluster.resume(1)
        while not isinstance(verdict, Success):
            verdict = await sink.deliver(batch(ann[100:]))
        await sink.close()
        reported = received_of(
            [json.loads(message.value) for message in messages(server, f"{PREFIX}.paused")]
        )
        assert expected(ann) == once(reported)

    with brokers(1) as cluster:
        asyncio.run(whole(cluster.address))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"Topic": "log"},
            "Sink.Topic must be letters, digits, '.', '_' and '-', at most 200, and not 'log'",
        ),
        (
            {"Topic": "a/b"},
            "Sink.Topic must be letters, digits, '.', '_' and '-', at most 200, and not 'log'",
        ),
        (
            {"Topic": "a" * 201},
            "Sink.Topic must be letters, digits, '.', '_' and '-', at most 200, and not 'log'",
        ),
        ({"Format": "xml"}, "Sink.Format must be one of plain, kinesis, debezium, avro"),
        ({"Partitions": 0}, "Sink.Partitions must be an integer from 1 to 1,000"),
        ({"Servers": "elsewhere:9092"}, "Sink has no member Servers for the kind kafka"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        sink_module.KIND.check({"Kind": "kafka", **settings})

    assert said == refused.value.message


def test_without_brokers_the_sink_is_refused() -> None:
    async def whole() -> None:
        with pytest.raises(ValidationError, match="--kafka-sink"):
            sink_module.make({"Kind": "kafka"}, sink_context(Path()))

    asyncio.run(whole())
