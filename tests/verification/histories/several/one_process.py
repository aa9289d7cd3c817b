"""Clients of several partitions in one process, on virtual time: histories of reads at one instant, from a seed.

    clients ──► Router ──► partitions, each reached after a random delay ──► one log in memory
                  └── reads at an instant, in portions of a few items

Relays take a random time too. So many reads meet a transaction that is decided and not applied everywhere.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from foldb.log.commands import Command
from foldb.materializer.long_reads import LongReads
from foldb.materializer.partition import (
    Conflict,
    OnOutcome,
    Page,
    Partition,
    ResultPosition,
    ScanRequest,
    Since,
)
from foldb.model.values import load
from foldb.server.routing import InstantReads, Router, instant_reads
from tests.unit.materializer.several_partitions.database import Database
from tests.verification.histories.history import History, Operation, Step, apart
from tests.verification.histories.model import initial
from tests.verification.histories.workload import Workload
from tests.verification.simulator.clients import requests
from tests.verification.simulator.clients.requests import NotDoneError, UnclearError

PARTITIONS = 4
_DELAY_S = 0.01
_SIZE = 100
_PORTION_BYTES = 400  # three items


class Distant:
    """A partition that a random delay separates from its callers."""

    def __init__(self, partition: Partition, later: Callable[..., object]) -> None:
        self._partition = partition
        self._later = later
        self.reach, self.status, self.feed = partition.reach, partition.status, None

    def submit(self, command: Command, size: int, done: OnOutcome) -> None:
        self._later(self._partition.submit, command, size, done)

    def get(self, *arguments: Any) -> None:
        self._later(self._partition.get, *arguments)

    def get_isolated(self, keys: Any, since: Since, done: Any) -> None:
        self._later(self._partition.get_isolated, keys, since, done)


class OneProcess:
    """A database in one process and its clients.

    Attributes:
        history: The operations so far.
        cancelled: The number of isolated reads that were answered with a conflict.
    """

    def __init__(self, seed: int, *, instant: bool = True, clients: int = 8, scans: float = 0.1) -> None:
        self.history = History(several=True)
        self.history.begin(0, 0)
        self.cancelled = 0
        self._dice = random.Random(seed)
        self._workload = Workload(self.history, self._dice, keys=20, transactions=0.7)
        self._scans = scans
        self._clients = clients
        self._now = 0
        self._left = 0
        self._database = database = Database(PARTITIONS)
        self._table = database.create().definition.id
        for number, near in enumerate(database.partitions):
            database.partitions[number] = Distant(near, self._later)
        reads = InstantReads(database.workers, LongReads(self)) if instant else None
        self._router = Router(database.partitions, database.catalog, database.loop, instant=reads)

    def run(self, operations: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the clients send requests, each after its answer, until this number has ended."""
        monkeypatch.setattr(instant_reads, "PORTION_BYTES", _PORTION_BYTES)
        self._left = operations
        for client in range(self._clients):
            self._later(self._next, client)
        while len(self.history.operations) < operations:
            self._database.loop.advance(1)
        self._left = 0
        self._database.loop.advance(60)

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Schedule the next portion of a long read: other requests are served before it."""
        self._later(callback, *arguments)

    def call_later(self, delay: float, callback: Callable[..., object], *arguments: Any) -> Any:
        return self._database.loop.call_later(delay, callback, *arguments)

    def _later(self, callback: Callable[..., object], *arguments: Any) -> None:
        self._database.loop.call_later(_DELAY_S * self._dice.random(), callback, *arguments)

    def _moment(self) -> int:
        self._now += 1
        return self._now

    def _next(self, client: int) -> None:
        if not self._left:
            return
        self._left -= 1
        called = self._moment()
        if self._dice.random() < self._scans:
            steps = self._workload.read_all()
            request = ScanRequest(self._table, None, consistent=True)
            self._router.scan(request, partial(self._scanned, client, called, steps))
            return
        steps = self._workload.draw()
        answered = partial(self._answered, client, called, steps)
        keys = [(self._table, requests.pk_of(step.key), b"") for step in steps]
        if {step.verb for step in steps} != {"get"}:
            # An append to one list is a plain update, so that reads of several lists meet plain writes too.
            token = None if len(steps) == 1 else f"t{called}"
            self._router.submit(requests.command(self._table, steps, token), _SIZE, answered)
        elif len(steps) > 1:
            self._router.get_isolated(keys, None, answered)
        else:
            self._router.get(*keys[0], True, lambda found, position: answered([found], position))

    def _answered(
        self, client: int, called: int, steps: tuple[Step, ...], answer: Any, _: ResultPosition
    ) -> None:
        reported: tuple[Any, ...] | None = None
        try:
            if not isinstance(answer, list):
                reported = requests.reported(steps, answer)
            elif not any(isinstance(each, Conflict) for each in answer):
                items = [None if each is None else each[0] for each in answer]
                reported = tuple(
                    requests.state(step.key, item) for step, item in zip(steps, items, strict=True)
                )
            else:
                self.cancelled += 1
        except NotDoneError:
            pass
        except UnclearError as error:
            raise AssertionError("there are no faults") from error
        self._end(Operation(client, called, self._moment(), steps, reported))

    def _scanned(
        self, client: int, called: int, steps: tuple[Step, ...], page: Any, _: ResultPosition
    ) -> None:
        assert isinstance(page, Page), page
        assert page.last is None, "the table fits into a page"
        found = {load(item)["pk"]["S"]: item for item in page.items}
        reported = tuple(
            requests.state(step.key, found[step.key]) if step.key in found else initial(step.key)
            for step in steps
        )
        self._end(Operation(client, called, self._moment(), steps, reported))

    def _end(self, operation: Operation) -> None:
        self.history.operations += apart(operation)
        self._workload.saw(operation)
        self._later(self._next, operation.client)
