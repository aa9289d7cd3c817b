"""A client that creates, splits and deletes tables and indexes beside all other requests.

    create ──► write ──► split ──► add an index ──► write ──► split ──► delete an index ──► write ──► delete

It repeats each request a few times and continues after any answer: the checks are on the final states.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from foldb.log.commands import Command
from foldb.materializer.fold.outcomes import Outcome, TableDefined
from foldb.materializer.partition import ResultPosition
from foldb.model.partition_splits import SPLIT
from tests.verification.simulator.clients import requests
from tests.verification.simulator.network import Asking

if TYPE_CHECKING:
    from tests.verification.simulator.node import Node
    from tests.verification.simulator.world import World

_SIZE = 300
_TRIES = 6


class TableClient:
    """A client with one table at a time, `count` of them."""

    def __init__(self, world: "World", number: int, count: int) -> None:
        self.left = count
        self._world = world
        self._name = f"X{number}"
        self._table = 0
        self._script: list[str] = []

    @property
    def idle(self) -> bool:
        """Whether it has created all its tables."""
        return self.left <= 0

    def start(self) -> None:
        """Begin with the next table."""
        if self.left > 0:
            dice = self._world.dice
            self._name += "x"
            self._table = 0
            self._script = ["write", "split", "add", "write", "split", "drop", "write", "delete"]
            for step in dice.sample(self._script, dice.randint(0, 4)):
                self._script.remove(step)
            indexes = dice.choice(((), ("first",)))
            self._define("CreateTable", requests.new_table(self._name, *indexes))

    def _define(self, operation: str, request: dict[str, Any]) -> None:
        dice = self._world.dice
        uuid, settle = f"{dice.getrandbits(64):x}", dice.random() < 0.3
        self._ask(requests.define(operation, self._table, request, uuid, settle=settle))

    def _next(self) -> None:
        if not self._table or not self._script:
            self.left -= 1
            self._later(self.start)
            return
        step, dice = self._script.pop(0), self._world.dice
        match step:
            case "write":
                self._write(5)
            case "add":
                self._define("UpdateTable", requests.new_index(self._name, "second"))
            case "split":
                self._define(SPLIT, requests.split(dice.getrandbits(64)))
            case "drop":
                self._define("UpdateTable", requests.without_index(self._name, "second"))
            case _:
                self._define("DeleteTable", {"TableName": self._name})

    def _later(self, call: Any) -> None:
        self._world.clients.call_later(self._world.think * 3 * self._world.dice.random(), call)

    def _write(self, items: int) -> None:
        """Write some items at once, without waiting for the answers."""
        dice = self._world.dice
        for _ in range(items):
            put = requests.put(self._table, f"x{dice.randrange(8)}", dice.randrange(1000))
            self._send(put, lambda *_: None)
        self._later(self._next)

    def _ask(self, command: Command, tries: int = _TRIES) -> None:
        def received(outcome: Outcome | None, _: ResultPosition | None) -> None:
            if isinstance(outcome, TableDefined):
                self._table = outcome.definition.id
                self._later(self._next)
            elif tries:
                self._later(partial(self._ask, command, tries - 1))
            else:
                self._later(self._next)

        self._send(command, received)

    def _send(self, command: Command, received: Any) -> None:
        world, node = self._world, self._world.any_node()

        def ask(node: "Node", reply: Any) -> None:
            node.router.submit(command, _SIZE, reply)

        Asking(world.network, world.clients, node.process, partial(ask, node), received, (None, None))
