"""Counters on a real Kafka: callers that add one repeatedly, and the check of the results.

An acknowledged addition is counted once. An addition of unknown fate is counted once or not at all. A counter
outside of these bounds has lost a write or took one twice.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import orjson

from foldb.log.commands import Command, Expression, Update
from foldb.log.kafka import KafkaLog
from foldb.materializer.fold.dump import digest
from foldb.materializer.fold.outcomes import Applied, Failed, Outcome
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.refold import refold
from foldb.materializer.replicated.worker import ReplicatedWorker
from tests.unit.materializer.ledger import CONTEXT, define, table_request

CALLERS = 16
TABLE = 1


@dataclass
class Node:
    """A worker on a log, on a loop that runs.

    Attributes:
        fatal: What it stopped with, if it did.
    """

    log: KafkaLog
    worker: ReplicatedWorker
    fatal: list[BaseException] = field(default_factory=list)

    @classmethod
    async def start(cls, url: str, **options: Any) -> "Node":
        """Open the log and fold its records."""
        loop = asyncio.get_running_loop()
        deliver: Any = loop.call_soon_threadsafe
        log = KafkaLog(url, deliver=deliver, random_bytes=os.urandom, **options)
        fatal: list[BaseException] = []
        worker = ReplicatedWorker(
            log,
            PartitionState(),
            new_origin=lambda: os.urandom(16),
            scheduler=loop,
            on_fatal=fatal.append,
        )
        node = cls(log, worker, fatal)
        await node.folded()
        return node

    async def folded(self) -> None:
        """Return when the log is folded up to its end, or the worker stopped."""
        caught_up = asyncio.Event()
        self.worker.catch_up(caught_up.set)
        while not caught_up.is_set() and not self.fatal:
            await asyncio.wait([asyncio.ensure_future(caught_up.wait())], timeout=0.1)

    async def do(self, command: Command) -> Outcome:
        """Submit a command, and wait for its outcome."""
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.worker.submit(command, 200, lambda result, _: outcome.set_result(result))
        return await outcome

    async def create_table(self) -> None:
        await self.do(define("CreateTable", 0, table_request("Counters")))


def add_one(key: str) -> Update:
    expression = Expression(update="ADD n :one", values={":one": {"N": "1"}})
    return Update(TABLE, key.encode(), b"", CONTEXT, expression)


@dataclass
class Told:
    """The outcomes that callers received, by counter."""

    done: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    longest_silence: float = 0.0
    _last: float = field(default_factory=time.monotonic)

    def note(self, key: str, outcome: Outcome) -> None:
        now = time.monotonic()
        if isinstance(outcome, Applied):
            self.done[key] += 1
            self.longest_silence = max(self.longest_silence, now - self._last)
            self._last = now
        else:
            assert isinstance(outcome, Failed), outcome
            self.unknown[key] += 1

    @property
    def total(self) -> int:
        return self.done.total()


async def count(node: Node, reported: Told, until: Callable[[], bool]) -> None:
    """Let callers count until something holds, and then each two times more."""

    async def caller(number: int) -> None:
        key, after = f"counter-{number}", 0
        while after < 2 and not node.fatal:
            reported.note(key, await node.do(add_one(key)))
            after += until()

    await asyncio.gather(*(caller(number) for number in range(CALLERS)))


def copies(log: KafkaLog) -> int:
    """Return the number of entries that are in the log more than once."""
    entries = Counter((record.entry.origin, record.entry.entry_number) for record in log.read(0))
    return sum(number - 1 for number in entries.values())


def check(node: Node, reported: Told) -> None:
    """Fold the log again, and compare it with the outcomes and with the served state.

    A copy of an entry may still come to the log after the state was looked at; it is not of this comparison. And a
    broker that was paused may still believe that it leads, and tell where the log ended then.
    """
    end, patience = node.worker.state.next_offset, time.monotonic() + 60
    state = PartitionState()
    while state.next_offset != end and time.monotonic() < patience:
        state = PartitionState()
        refold(state, takewhile(lambda record: record.offset < end, node.log.read(0)))
    assert end == state.next_offset
    assert digest(node.worker.state) == digest(state)
    for number in range(CALLERS):
        key = f"counter-{number}"
        found = value_of(state, key)
        assert reported.done[key] <= found <= reported.done[key] + reported.unknown[key], (key, found)


def value_of(state: PartitionState, key: str) -> int:
    stored = state.tables[TABLE].items.get(key.encode(), b"")
    return 0 if stored is None else int(orjson.loads(stored[0])["n"]["N"])
