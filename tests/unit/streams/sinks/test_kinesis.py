"""A Kinesis data stream as a topic or a folder."""

import asyncio
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from foldb.model.errors import ValidationError
from foldb.streams.formats import avro
from foldb.streams.formats.kinesis import record
from foldb.streams.sinks import kinesis
from foldb.streams.sinks.sink import Success
from tests.unit.streams.deliveries import ORDERS, delivery, order
from tests.unit.streams.sinks.context import batch, sink_context
from tests.unit.streams.sinks.test_contract import messages

ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/orders"
CHANGE = delivery(None, order())


def deliver(
    folder: Path, settings: dict[str, Any], *subscriptions: str, destinations: str | None = None
) -> None:
    async def whole() -> None:
        for nth, name in enumerate(subscriptions or ("kinesis-7",)):
            about = sink_context(folder, data=folder, destinations=destinations, subscription=name)
            sink = kinesis.make({"Kind": "kinesis", "StreamArn": ARN, **settings}, about)
            await sink.start()
            table = replace(ORDERS, id=nth, name=f"Orders{nth or ''}")
            changes = [CHANGE, delivery(None, order(), 10483, table=table)][nth:][:1]
            assert Success() == await sink.deliver(batch(changes))
            await sink.close()

    asyncio.run(whole())


@pytest.mark.parametrize(
    ("settings", "value"),
    [
        ({}, record(CHANGE)),
        ({"ApproximateCreationDateTimePrecision": "MICROSECOND"}, record(CHANGE, "MICROSECOND")),
        ({"Format": "avro"}, avro.message(CHANGE)),
    ],
)
def test_with_brokers_a_stream_is_a_topic(
    kafka: str, tmp_path: Path, settings: dict[str, Any], value: bytes
) -> None:
    prefix = f"shop-{uuid.uuid4().hex}"

    deliver(tmp_path, settings, destinations=f"kafka://{kafka}/{prefix}")

    [message] = messages(kafka, f"{prefix}.kinesis.orders")
    assert (value, b'{"customer":{"S":"ann"},"order":{"N":"1"}}') == (message.value, message.key)


def test_without_brokers_a_stream_is_a_folder(tmp_path: Path) -> None:
    deliver(tmp_path, {"ApproximateCreationDateTimePrecision": "MICROSECOND"})

    [path] = tmp_path.glob("kinesis/orders/date=2023-11-14/*.jsonl")
    assert record(CHANGE, "MICROSECOND") + b"\n" == path.read_bytes()


def test_several_tables_share_a_stream(tmp_path: Path) -> None:
    deliver(tmp_path, {}, "kinesis-0", "kinesis-1")

    assert 2 == len(list(tmp_path.glob("kinesis/orders/date=2023-11-14/*.jsonl")))


@pytest.mark.parametrize(
    "arn",
    [
        "orders",
        "arn:aws:dynamodb:us-east-1:000000000000:table/orders",
        "arn:aws:kinesis:us-east-1:000000000000:stream/../../etc",
        "arn:aws:kinesis:us-east-1:000000000000:stream/..",
        "arn:aws:kinesis:us-east-1:000000000000:stream/" + "x" * 129,
    ],
)
def test_an_arn_of_no_stream_is_refused(arn: str) -> None:
    with pytest.raises(ValidationError, match=r"^Sink\.StreamArn must be like"):
        kinesis.KIND.check({"Kind": "kinesis", "StreamArn": arn})


def test_arns_of_other_aws_partitions_are_accepted() -> None:
    assert "a.b" == kinesis.stream_name("arn:aws-cn:kinesis:cn-north-1:123456789012:stream/a.b")
