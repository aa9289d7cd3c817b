"""Compare one worker on Apache Kafka with the client library that it uses.

Callers run in a closed loop, with one command in flight each. In the raw variant the same client produces the same
bytes, batched in the same way, and callers continue after the acknowledgement, or after a consumer of their own has the
record; nothing is encoded, folded or answered. The variants alternate, so that other load affects all alike.
"""

import asyncio
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from kafka import TopicPartition

from foldb.log.codec import CURRENT, MARKER, encode_entry
from foldb.log.commands import DefineTable, Entry, new_context
from foldb.log.kafka import KafkaLog
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.gc_tuning import short_pauses
from foldb.materializer.replicated.read_index import ReadIndex
from foldb.materializer.replicated.worker import ReplicatedWorker

from . import logs
from .options import Options
from .requests import orders
from .tables import at_least, show

GOAL = 0.6
KAFKA_LOCAL = [sys.executable, str(Path(__file__).resolve().parents[1] / "compose" / "kafka-local")]
WRITES, READS = "kafka: commands appended and folded", "kafka: consistent reads of an idle partition"
_TABLE = {
    "TableName": "T",
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "S"},
    ],
    "KeySchema": [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ],
    "BillingMode": "PAY_PER_REQUEST",
}


@dataclass(frozen=True)
class Figures:
    """The figures of one round. Times are in milliseconds."""

    rate: float
    p50: float
    p99: float


Do = Callable[[Callable[[], None]], None]
"""Begins one operation and calls back at its end."""


def measure(options: Options) -> None:
    """Print commands per second, and the latency of reads."""
    logging.getLogger("foldb.log.kafka").setLevel(logging.ERROR)  # a single broker is intended here
    with broker() as address:
        if address is None:
            for title in (WRITES, READS):
                show(title, ["", "figures"], [["Java 17 and Maven", "not here"]])
            return
        _measure_writes(options, address)
        _measure_reads(options, address)


@contextmanager
def broker() -> Iterator[str | None]:
    """Yield the address of a broker, which runs until the block ends. None if Kafka is not installed."""
    if given := os.environ.get("FOLDB_TEST_KAFKA"):
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="foldb-bench-", ignore_cleanup_errors=True) as folder:
        data = ["--data", f"{folder}/kafka"]
        start = [*KAFKA_LOCAL, "start", *data, "--heap", "512m", "--until-exit-of", str(os.getpid())]
        done = subprocess.run(start, stdout=subprocess.PIPE, text=True)  # noqa: S603  our own
        if done.returncode == os.EX_UNAVAILABLE:
            yield None
            return
        try:
            done.check_returncode()
            yield done.stdout.strip()
        finally:
            subprocess.run([*KAFKA_LOCAL, "stop", *data], check=True)  # noqa: S603


def _measure_writes(options: Options, address: str) -> None:
    rows = []
    for count in options.connections:
        told, heard, ours = [], [], []
        for _ in range(options.rounds):
            told.append(asyncio.run(_raw(address, count, options.seconds, until_heard=False)))
            heard.append(asyncio.run(_raw(address, count, options.seconds, until_heard=True)))
            with short_pauses():  # as in a server
                ours.append(asyncio.run(_worker(address, count, options.seconds)))
        rate = _median(ours, "rate")
        against = (at_least(rate / _median(told, "rate"), GOAL), f"{rate / _median(heard, 'rate'):.2f}")
        rows.append([str(count), *_cells(told), *_cells(heard), *_cells(ours), *against])
    figures = ["p50 ms", "p99 ms"]
    columns = ["in flight", "raw: told /s", *figures, "raw: heard /s", *figures, "worker /s", *figures]
    show(WRITES, [*columns, ": told", ": heard"], rows)


def _measure_reads(options: Options, address: str) -> None:
    rows = []
    for count in options.connections:
        asked, barrier = [], []
        for _ in range(options.rounds):
            asked.append(asyncio.run(_reads(address, count, options.seconds, strict=False)))
            barrier.append(asyncio.run(_reads(address, count, options.seconds, strict=True)))
        rows.append([str(count), *_cells(asked), *_cells(barrier)])
    columns = ["readers", "log's end /s", "p50 ms", "p99 ms", "barrier /s", "p50 ms", "p99 ms"]
    show(READS, columns, rows)


def _cells(rounds: list[Figures]) -> list[str]:
    rate, p50, p99 = (_median(rounds, name) for name in ("rate", "p50", "p99"))
    return [f"{rate:,.0f}", f"{p50:.2f}", f"{p99:.2f}"]


def _median(rounds: list[Figures], name: str) -> float:
    figures: list[float] = [getattr(each, name) for each in rounds]
    return statistics.median(figures)


async def _closed_loop(do: Do, count: int, seconds: float) -> Figures:
    """Run N callers, each with one operation in flight."""
    took: list[float] = []
    live, over = count, asyncio.get_running_loop().create_future()
    start = time.perf_counter()
    end = start + seconds

    def call() -> None:
        began = time.perf_counter()

        def done() -> None:
            nonlocal live
            now = time.perf_counter()
            took.append(now - began)
            if now < end:
                call()
                return
            live -= 1
            if not live:
                over.set_result(None)

        do(done)

    for _ in range(count):
        call()
    await over
    spent = time.perf_counter() - start
    cuts = statistics.quantiles(took, n=100) if len(took) > 1 else took * 99
    return Figures(len(took) / spent, cuts[49] * 1000, cuts[98] * 1000)


async def _worker(address: str, count: int, seconds: float) -> Figures:
    log, worker = await _open(address)
    commands, place = list(logs.puts(orders(20_000, 20))), 0

    def do(done: Callable[[], None]) -> None:
        nonlocal place
        place = (place + 1) % len(commands)
        worker.submit(commands[place], 300, lambda *_: done())

    try:
        return await _closed_loop(do, count, seconds)
    finally:
        log.close()


async def _reads(address: str, count: int, seconds: float, *, strict: bool) -> Figures:
    log, worker = await _open(address)
    index = ReadIndex(worker, clock=_now, scheduler=asyncio.get_running_loop(), deadline=10, strict=strict)
    try:
        return await _closed_loop(lambda done: index.wait(lambda _: done()), count, seconds)
    finally:
        log.close()


async def _open(address: str) -> tuple[KafkaLog, ReplicatedWorker]:
    """Open a worker on a new log with a table."""
    loop = asyncio.get_running_loop()
    log = _log(address)
    worker = ReplicatedWorker(
        log,
        PartitionState(),
        new_origin=lambda: os.urandom(16),
        scheduler=loop,
        draw_salt=lambda: os.urandom(16),
        on_fatal=_fail,
    )
    ready = loop.create_future()
    worker.catch_up(lambda: ready.set_result(None))
    await ready
    made = loop.create_future()
    request = orjson.dumps(_TABLE)
    define = DefineTable("CreateTable", 0, request, str(uuid.uuid4()), new_context("0" * 52, None, "fake"))
    worker.submit(define, len(request), lambda *_: made.set_result(None))
    await made
    return log, worker


async def _raw(address: str, count: int, seconds: float, *, until_heard: bool) -> Figures:
    log = _log(address)
    raw = _Raw(log, until_heard)
    try:
        return await _closed_loop(raw.do, count, seconds)
    finally:
        raw.close()
        log.close()


class _Raw:
    """A producer of the same bytes, batched in the same way: waiting records are the next message."""

    def __init__(self, log: KafkaLog, until_heard: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._topic = log.clients.address.topic
        self._clients = log.clients
        self._producer = log.clients.producer()
        two = list(logs.puts(orders(20, 20)))[:2]
        lengths = [len(encode_entry(Entry(bytes(16), 0, commands))) for commands in (two[:1], two)]
        self._command = bytes(lengths[1] - lengths[0])
        self._waiting: list[Callable[[], None]] = []
        self._under_way: deque[list[Callable[[], None]]] = deque()
        self._awake = self._closed = False
        self._until_heard = until_heard
        self._thread = threading.Thread(target=self._consume, daemon=True)
        if until_heard:
            self._thread.start()

    def do(self, done: Callable[[], None]) -> None:
        self._waiting.append(done)
        if not self._awake:
            self._awake = True
            self._loop.call_soon(self._take)

    def close(self) -> None:
        self._closed = True
        if self._until_heard:
            self._thread.join()
        self._producer.close()

    def _take(self) -> None:
        taken, self._waiting = self._waiting, []
        self._awake = bool(taken)
        if taken:
            self._under_way.append(taken)
            sent = self._producer.send(
                self._topic, MARKER + CURRENT + self._command * len(taken), partition=0
            )
            if not self._until_heard:
                sent.add_callback(lambda _: self._loop.call_soon_threadsafe(self._seen, 1))

    def _consume(self) -> None:
        consumer = self._clients.consumer()
        place = TopicPartition(self._topic, 0)
        consumer.assign([place])
        consumer.seek(place, 1)
        while not self._closed:
            for messages in consumer.poll(timeout_ms=100).values():
                self._loop.call_soon_threadsafe(self._seen, len(messages))
        consumer.close()

    def _seen(self, count: int) -> None:
        for _ in range(count):
            for done in self._under_way.popleft():
                done()
            self._take()


def _log(address: str) -> KafkaLog:
    deliver: Any = asyncio.get_running_loop().call_soon_threadsafe
    url = f"kafka://{address}/bench-{uuid.uuid4().hex[:8]}"
    return KafkaLog(url, deliver=deliver, random_bytes=os.urandom)


def _now() -> int:
    return time.time_ns() // 1_000_000


def _fail(error: BaseException) -> None:
    raise SystemExit(f"benchmarks: the worker stopped: {error}")
