"""A database in this process on virtual time: the same requests always give the same answers."""

import asyncio
import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from foldb.materializer.partition import ResultPosition
from foldb.server.api.dispatch import dispatch
from foldb.server.api.long_answers import Portion, bytes_of
from foldb.server.api.operations.streams import STREAMS
from foldb.server.api.reply import Reply
from foldb.server.history.reader import LazyReader
from foldb.server.history.thread import HistoryThread
from foldb.server.node import Node
from foldb.server.settings import Settings
from foldb.streams.feed.serial_executor import InlineExecutor
from tests.unit.streams.delivery.virtual import run

Request = tuple[str, dict[str, Any]]


_FOLDER = tempfile.TemporaryDirectory(prefix="foldb-buckets-")
BUCKETS = Path(_FOLDER.name)
"""The folder of the buckets `one` and `two`."""

_DESCRIBE = {
    "export": ("DescribeExport", "ExportArn"),
    "import": ("DescribeImport", "ImportArn"),
    "bulk-operation": ("DescribeBulkOperation", "BulkOperationArn"),
}

for _bucket in ("one", "two"):
    _files = BUCKETS / _bucket / "in"
    _files.mkdir(parents=True)
    (_files / "a.json").write_text('{"Item":{"p":{"S":"i"},"q":{"N":"1"},"r":{"S":"x"}}}\n{"Item":{}}\n')
    (_files / "b.csv").write_text("i;1;x\ni,2,y\n")


class Answer(NamedTuple):
    """An answer's status and body."""

    status: int
    body: Any

    @property
    def error(self) -> str:
        """The error's code and message; empty for a success."""
        if self.status == 200:
            return ""
        return (
            f"{self.body['__type'].rpartition('#')[2]}: {self.body.get('message', self.body.get('Message'))}"
        )


class Observation(NamedTuple):
    """Everything that a client can learn of a request: its answers, and then the state of all tables."""

    answers: tuple[Answer, ...]
    tables: tuple[Answer, ...]

    @property
    def error(self) -> str:
        """The first error among the answers; empty if all succeeded."""
        return next((answer.error for answer in self.answers if answer.error), "")


def observe(before: Sequence[Request], *requests: Request) -> Observation:
    """Send `before` and then `requests` to an empty database, and look at the tables.

    Raises:
        AssertionError: A request of `before` fails.
    """
    return run(_observe(before, requests))


async def _observe(before: Sequence[Request], requests: Sequence[Request]) -> Observation:
    loop = asyncio.get_running_loop()
    node = Node(
        Settings(
            path=None,
            buckets=BUCKETS,
            ttl_interval_ms=0,
            shard_age_ms=500,
            kafka_sink="kafka://127.0.0.1:9/never-called",
        ),
        loop=loop,
        clock=lambda: 1_700_000_000_000 + round(loop.time() * 1000),
        random_bytes=random.Random(0).randbytes,
        on_fatal=_raise,
    )
    for hosted in node.partitions.hosted.values():
        hosted.feed.serve(InlineExecutor(), InlineExecutor())
    lazy = node.partitions.past_reads.reader
    assert isinstance(lazy, LazyReader)
    reader = lazy.made
    assert isinstance(reader, HistoryThread)
    reader.executor = node.partitions.job_files.executor = InlineExecutor()
    for operation, body in before:
        made = await _ask(node, operation, body)
        assert not made.error, (operation, body, made.error)
    answers = [await _ask(node, operation, body) for operation, body in requests]
    tables = await _tables(node)
    await (
        node.stop_triggers()
    )  # else the cycle collector would close its files, and the next tests run out of them
    for hosted in node.partitions.hosted.values():
        hosted.feed.close()
    return Observation(tuple(answers), tuple(tables))


async def _tables(node: Node) -> list[Answer]:
    """Describe and read each table and each index, list the backups, and describe the jobs."""
    while any(job.is_running for job in node.state.jobs.values()) or any(
        table.definition.is_restoring for table in node.state.tables.values()
    ):
        await asyncio.sleep(0.001)
    names = (await _ask(node, "ListTables", {})).body["TableNames"]
    found = [await _ask(node, "ListBackups", {})]
    for job in node.state.jobs.values():
        operation, member = _DESCRIBE[job.kind]
        found.append(await _ask(node, operation, {member: job.arn}))
    for name in names:
        table = {"TableName": name}
        found.append(described := await _ask(node, "DescribeTable", table))
        description = described.body["Table"]
        indexes = [
            index["IndexName"]
            for member in ("LocalSecondaryIndexes", "GlobalSecondaryIndexes")
            for index in description.get(member, ())
        ]
        for operation, body in [
            ("DescribeTimeToLive", table),
            ("DescribeContinuousBackups", table),
            ("DescribeKinesisStreamingDestination", table),
            ("ListTagsOfResource", {"ResourceArn": description["TableArn"]}),
            ("GetResourcePolicy", {"ResourceArn": description["TableArn"]}),
            ("Scan", table),
            *(("Scan", {**table, "IndexName": index}) for index in indexes),
        ]:
            found.append(await _ask(node, operation, body))
    return found


async def _ask(node: Node, operation: str, body: dict[str, Any]) -> Answer:
    sink = _Sink()
    api = "DynamoDBStreams_20120810" if operation in STREAMS else "DynamoDB_20120810"
    dispatch(node, f"{api}.{operation}".encode(), json.dumps(body).encode(), Reply(sink, "request"))
    for _ in range(100):
        await asyncio.sleep(0.1)  # virtual time: until timers have completed the request
        if sink.answers:
            break
    assert len(sink.answers) == 1, f"{operation} had {len(sink.answers)} answers"
    assert sink.answers[0].status < 500, (operation, body, sink.answers[0].body)
    return sink.answers[0]


class _Sink:
    def __init__(self) -> None:
        self.answers: list[Answer] = []

    def answer(self, _reply: Reply, status: int, body: bytes, _position: ResultPosition | None) -> None:
        self.answers.append(Answer(status, orjson.loads(body or b"{}")))

    def answer_long(self, reply: Reply, portions: Iterator[Portion], position: ResultPosition) -> None:
        self.answer(reply, 200, b"".join(map(bytes_of, portions)), position)


def _raise(error: BaseException) -> None:
    raise error
