"""A client that changes the capture of a table, and writes checkpoints of its subscriptions.

It sends each request once and continues after any answer. The checks are on the final states, and that a
subscription that was acknowledged is captured in every partition from then on.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from foldb.log.commands import Checkpoint, Command
from foldb.materializer.fold.outcomes import Outcome, Subscribed
from foldb.materializer.partition import ResultPosition
from tests.verification.simulator.clients import requests
from tests.verification.simulator.network import Asking

if TYPE_CHECKING:
    from tests.verification.simulator.node import Node
    from tests.verification.simulator.world import World

_SIZE = 300
_NAMES = ("one", "two")
NUMBER = 10**26


class Subscriber:
    """A client that sends `count` requests."""

    def __init__(self, world: "World", count: int) -> None:
        self.left = count
        self._world = world
        self._ids = [0]

    @property
    def idle(self) -> bool:
        """Whether it has sent all its requests."""
        return self.left <= 0

    def start(self) -> None:
        """Send the next request."""
        if self.left > 0:
            self._send(self._command())

    def _command(self) -> Command:
        dice = self._world.dice
        name = dice.choice(_NAMES)
        match dice.randrange(8):
            case 0 | 1:
                request = requests.stream("T", on=dice.random() < 0.6)
                return requests.define("UpdateTable", self._world.table, request, "")
            case 2 | 3:
                return requests.subscribe(name, "T")
            case 4:
                return requests.about(name, dice.choice(("Remove", "Pause", "Resume")))
            case 5:
                return requests.about(name, "Reset", Start={"At": "HORIZON"})
            case _:
                marks = [
                    (partition, NUMBER + dice.randrange(1000)) for partition in range(self._world.partitions)
                ]
                return Checkpoint(dice.choice(self._ids), dice.choice((0, 0, 1)), marks, "v", 1, 0)

    def _send(self, command: Command) -> None:
        world, node = self._world, self._world.any_node()

        def received(outcome: Outcome | None, _: ResultPosition | None) -> None:
            if isinstance(outcome, Subscribed):
                self._ids.append(outcome.subscription.id)
                if outcome.version:
                    world.captured.append(world.ends)
            self.left -= 1
            world.clients.call_later(world.think * world.dice.random(), self.start)

        def ask(node: "Node", reply: Any) -> None:
            node.router.submit(command, _SIZE, reply)

        Asking(world.network, world.clients, node.process, partial(ask, node), received, (None, None))
