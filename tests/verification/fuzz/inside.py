"""A database in this process on a loop of ours: no byte leaves, and the clock moves only for requests that wait."""

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from foldb.log.commands import Position
from foldb.materializer.partition import ResultPosition
from foldb.server.api.dispatch import dispatch
from foldb.server.api.long_answers import Portion, bytes_of
from foldb.server.api.reply import Reply
from foldb.server.history.reader import LazyReader
from foldb.server.history.thread import HistoryThread
from foldb.server.node import Node
from foldb.server.settings import Settings
from foldb.streams.feed.serial_executor import InlineExecutor
from tests.unit.materializer.fake_loop import FakeLoop

API = b"DynamoDB_20120810."


class Inside:
    """A node in memory. Errors that would stop a process raise here."""

    def __init__(self, **settings: Any) -> None:
        self.loop = FakeLoop()
        self.node = Node(
            Settings(path=None, ttl_interval_ms=0, **settings),
            loop=self.loop,  # type: ignore[arg-type]  # as much of a loop as a node needs
            clock=self.loop.clock,
            random_bytes=random.Random(0).randbytes,
            on_fatal=raise_it,
        )
        for hosted in self.node.partitions.hosted.values():
            hosted.feed.serve(InlineExecutor(), InlineExecutor())
        reader = self.node.partitions.past_reads.reader
        assert isinstance(reader, LazyReader)
        history = reader.made
        assert isinstance(history, HistoryThread), "the log is in memory"
        history.executor = InlineExecutor()

    def ask(self, operation: str, body: Any) -> tuple[int, Any]:
        """Return the response to a request, after all scheduled work is done; check that there is exactly one."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        target = operation.encode() if "." in operation else API + operation.encode()
        sink = _Sink()
        asyncio._set_running_loop(self.loop)  # type: ignore[arg-type]  # coroutines ask for their loop
        try:
            dispatch(self.node, target, data, Reply(sink, "request"))
            self.loop.settle()
            if not sink.answers:  # a backup waits for the next millisecond
                self.loop.advance(0.01)
        finally:
            asyncio._set_running_loop(None)
        assert len(sink.answers) == 1, f"{len(sink.answers)} answers"
        return sink.answers[0]

    def close(self) -> None:
        """Release the resources of the node other than memory."""
        for hosted in self.node.partitions.hosted.values():
            hosted.feed.close()


class Untouched:
    """Makes a database for each input: the one before, if that input wrote nothing."""

    def __init__(self, make: Callable[[], Inside]) -> None:
        self._make = make
        self._made: tuple[Inside, Position] | None = None

    def __call__(self) -> Inside:
        if self._made is not None:
            inside, position = self._made
            if inside.node.position == position and inside.node.rebuilds.job is None:
                return inside
            inside.close()
        inside = self._make()
        self._made = inside, inside.node.position
        return inside


class _Sink:
    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []

    def answer(self, _reply: Reply, status: int, body: bytes, _position: ResultPosition | None) -> None:
        self.answers.append((status, orjson.loads(body) if body else None))

    def answer_long(self, reply: Reply, portions: Iterator[Portion], position: ResultPosition | None) -> None:
        self.answer(reply, 200, b"".join(map(bytes_of, portions)), position)


def raise_it(error: BaseException) -> None:
    raise error
