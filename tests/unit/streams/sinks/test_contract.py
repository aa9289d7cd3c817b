"""The sinks that run no user code keep the guarantees of every sink."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet
import pytest
from kafka import KafkaConsumer, TopicPartition

from foldb.model.sequence_numbers import sequence_number
from foldb.streams.sinks import file, kinesis, webhook
from foldb.streams.sinks import kafka as kafka_sink
from foldb.streams.sinks.sink import SinkContext
from tests.unit.streams.sinks.context import sink_context
from tests.unit.streams.sinks.contract import BreakableSinkContract, Received, SinkContract
from tests.unit.streams.sinks.receiver import Receiver, receiver, status


def received_of(changes: list[dict[str, Any]]) -> Received:
    """Return customer and sequence number of changes in the plain format."""
    return [(each["keys"]["customer"]["S"], each["number"]) for each in changes]


@dataclass
class Endpoint:
    settings: dict[str, Any]
    context: SinkContext
    there: Receiver

    async def received(self) -> Received:
        bodies = [request.json() for request in self.there.requests]
        events = [event for body in bodies for event in (body if isinstance(body, list) else [body])]
        return received_of([event["data"] for event in events])

    def fail(self) -> None:
        self.there.answers = [status(503)]

    def repair(self) -> None:
        self.there.answers = []


class TestWebhook(BreakableSinkContract):
    module = webhook
    mode: ClassVar[str] = "structured"

    @asynccontextmanager
    async def target(self, folder: Path) -> AsyncIterator[Endpoint]:
        async with receiver() as there:
            yield Endpoint(
                {"Kind": "webhook", "Url": there.url(), "Mode": self.mode}, sink_context(folder), there
            )


class TestWebhookOfBatches(TestWebhook):
    mode = "batch"


@dataclass
class Topic:
    settings: dict[str, Any]
    context: SinkContext
    server: str
    name: str

    async def received(self) -> Received:
        return received_of([json.loads(message.value) for message in messages(self.server, self.name)])


def messages(server: str, topic: str) -> list[Any]:
    """Return all messages of a topic, partition by partition."""
    consumer = KafkaConsumer(bootstrap_servers=server, auto_offset_reset="earliest", group_id=None)
    try:
        places = [TopicPartition(topic, each) for each in consumer.partitions_for_topic(topic) or ()]
        ends = consumer.end_offsets(places)
        consumer.assign(places)
        found: list[Any] = []
        while any(consumer.position(place) < ends[place] for place in places):
            for more in consumer.poll(timeout_ms=1000).values():
                found += more
        return sorted(found, key=lambda message: (message.partition, message.offset))
    finally:
        consumer.close()


class TestKafka(SinkContract):
    module = kafka_sink

    @pytest.fixture(autouse=True)
    def _broker(self, kafka: str, request: pytest.FixtureRequest) -> None:
        self.server = kafka
        self.name = f"{request.node.name}-{id(request):x}"[-150:]

    @asynccontextmanager
    async def target(self, folder: Path) -> AsyncIterator[Topic]:
        about = sink_context(folder, destinations=f"kafka://{self.server}/contract")
        yield Topic({"Kind": "kafka", "Topic": self.name}, about, self.server, f"contract.{self.name}")


@dataclass
class Folder:
    settings: dict[str, Any]
    context: SinkContext
    root: Path

    async def received(self) -> Received:
        rows = [row for path in self._files() for row in self._rows(path)]
        return sorted(rows, key=lambda row: int(row[1]))

    def fail(self) -> None:
        """Replace the folder by a file."""
        self.root.rename(self.root.with_name("away"))
        self.root.touch()

    def repair(self) -> None:
        self.root.unlink()
        self.root.with_name("away").rename(self.root)

    def _files(self) -> list[Path]:
        return [path for path in self.root.rglob("*") if path.is_file() and path.name[0] != "."]

    def _rows(self, path: Path) -> Received:
        if path.suffix == ".parquet":
            rows = pyarrow.parquet.read_table(path).to_pylist()
            return [(json.loads(row["keys"])["customer"]["S"], row["number"]) for row in rows]
        return received_of([json.loads(line) for line in path.read_bytes().splitlines()])


class TestFile(BreakableSinkContract):
    module = file
    form: ClassVar[str] = "jsonl"

    @asynccontextmanager
    async def target(self, folder: Path) -> AsyncIterator[Folder]:
        settings = {"Kind": "file", "Folder": "lake", "Format": self.form}
        yield Folder(settings, sink_context(folder, data=folder), folder / "files" / "lake")


class TestParquet(TestFile):
    form = "parquet"


class Stream(Folder):
    """A Kinesis folder, whose records have no sequence number: the state of an order replaces it."""

    def _rows(self, path: Path) -> Received:
        records = [json.loads(line)["dynamodb"] for line in path.read_bytes().splitlines()]
        return [
            (
                record["Keys"]["customer"]["S"],
                str(sequence_number(int(record["NewImage"]["state"]["N"]), 0, 0)),
            )
            for record in records
        ]


class TestKinesisWithoutBrokers(BreakableSinkContract):
    module = kinesis

    @asynccontextmanager
    async def target(self, folder: Path) -> AsyncIterator[Folder]:
        settings = {"Kind": "kinesis", "StreamArn": "arn:aws:kinesis:us-east-1:000000000000:stream/orders"}
        yield Stream(settings, sink_context(folder, data=folder), folder / "kinesis" / "orders")
