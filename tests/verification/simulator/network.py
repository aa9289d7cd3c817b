"""The network between processes: slow, lossy, and sometimes interrupted.

A `Remote` is a partition on another node, called by messages: it implements `foldb.materializer.partition.Partition`
over a network without guarantees. A missing answer is an answer too: it is unknown whether the request was applied.
"""

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from foldb.log.commands import Command, Position
from foldb.materializer.fold.outcomes import Failed, Outcome
from foldb.materializer.fold.read_requests import Page, QueryRequest, ScanRequest
from foldb.materializer.fold.storage import Stored
from foldb.materializer.partition import EncodedKey, Found, ResultPosition, Since
from foldb.model.errors import InternalServerError, RequestError
from tests.verification.simulator.log import Weather
from tests.verification.simulator.timeline import Process, Timeline

if TYPE_CHECKING:
    from tests.verification.simulator.node import Node

PATIENCE = 6.0
"""Seconds that one process waits for another's answer."""


class Network:
    """Carries calls between processes."""

    def __init__(
        self, timeline: Timeline, dice: random.Random, weather: Weather, count: Callable[[str], None]
    ) -> None:
        self._timeline, self._dice, self._weather, self._count = timeline, dice, weather, count
        self._apart: dict[Process, float] = {}

    def cut_off(self, process: Process, seconds: float) -> None:
        """Disconnect a process from all others for some seconds. It can still reach the log."""
        self._apart[process] = self._timeline.now + seconds

    def send(self, source: Process, target: Process, call: Callable[..., object], *args: Any) -> None:
        """Call a function in another process, unless the message is lost."""
        if self._apart and self._is_cut_off(source, target):
            self._count("message to or from a node out of reach")
            return
        if self._weather.lost and self._dice.random() < self._weather.lost:
            self._count("message between nodes lost")
            return
        self._timeline.after(self._weather.delay(self._dice), target, call, *args)

    def _is_cut_off(self, *processes: Process) -> bool:
        return any(self._apart.get(process, 0.0) > self._timeline.now for process in processes)

    def heal(self) -> None:
        """Connect all processes."""
        self._apart.clear()


class Asking:
    """One request to another process and its one answer: the other's, or `silence` after a timeout."""

    def __init__(
        self,
        network: Network,
        source: Process,
        target: Process,
        call: Callable[[Callable[..., None]], None],
        done: Callable[..., None],
        silence: tuple[Any, ...],
    ) -> None:
        self._done = done
        self._answered = False
        self._deadline = source.call_later(PATIENCE, self._answer, *silence)

        def reply(*result: Any) -> None:
            network.send(target, source, self._answer, *result)

        network.send(source, target, call, reply)

    def _answer(self, *result: Any) -> None:
        if not self._answered:
            self._answered = True
            self._deadline.cancel()
            self._done(*result)


class Remote:
    """A partition that another node folds; `find` returns the node."""

    def __init__(
        self, network: Network, process: Process, number: int, find: Callable[[int], "Node | None"]
    ) -> None:
        self._network, self._process, self._number, self._find = network, process, number, find
        self._nowhere = Position(number, -1)

    def submit(self, command: Command, size: int, done: Callable[[Outcome, ResultPosition], None]) -> None:
        """Append and fold a command."""
        self._ask("submit", (command, size), done, (Failed(InternalServerError()), self._nowhere))

    def get(
        self,
        table: int,
        pk: bytes,
        sk: bytes,
        consistent: bool,
        done: Callable[[Stored | RequestError | None, ResultPosition], None],
    ) -> None:
        """Read an item."""
        self._read("get", (table, pk, sk, consistent), done)

    def get_all(
        self,
        keys: Sequence[EncodedKey],
        consistent: bool,
        done: Callable[[list[Stored | None] | RequestError, ResultPosition], None],
    ) -> None:
        """Read items."""
        self._read("get_all", (keys, consistent), done)

    def get_isolated(
        self,
        keys: Sequence[EncodedKey],
        since: Since,
        done: Callable[[list[Found] | RequestError, ResultPosition], None],
    ) -> None:
        """Read items for TransactGetItems."""
        self._read("get_isolated", (keys, since), done)

    def query(
        self, request: QueryRequest, done: Callable[[Page | RequestError, ResultPosition], None]
    ) -> None:
        """Read a page of one item collection."""
        self._read("query", (request,), done)

    def scan(self, request: ScanRequest, done: Callable[[Page | RequestError, ResultPosition], None]) -> None:
        """Read a page in hash order."""
        self._read("scan", (request,), done)

    def reach(self, position: ResultPosition, done: Callable[[RequestError | None], None]) -> None:
        """Wait for a position."""
        self._ask("reach", (position,), done, (InternalServerError(),))

    def status(self, table: int | None, done: Callable[[dict[str, Any] | RequestError], None]) -> None:
        """Return the status."""
        self._ask("status", (table,), done, (InternalServerError(),))

    def _read(self, name: str, args: tuple[Any, ...], done: Callable[..., None]) -> None:
        self._ask(name, args, done, (InternalServerError(), self._nowhere))

    def _ask(
        self, name: str, args: tuple[Any, ...], done: Callable[..., None], silence: tuple[Any, ...]
    ) -> None:
        node = self._find(self._number)
        if node is None or node.process.dead:
            self._process.call_soon(done, *silence)
            return
        call = partial(node.serve, self._number, name, args, silence)
        Asking(self._network, self._process, node.process, call, done, silence)
