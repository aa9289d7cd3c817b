"""Faults and their times.

Each history has a few kinds of faults, drawn from all: many bugs need one kind again and again, and another at the
wrong moment. A fault ends by itself after a while, and all end when `Faults.end` is called.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.verification.simulator.log import Weather

if TYPE_CHECKING:
    from tests.verification.simulator.node import Node
    from tests.verification.simulator.world import World

ABANDONED_AFTER = 10.0
"""Seconds after which an owner aborts a transaction."""
DETECTED_AFTER = 3.0
"""Seconds, at most, after which the cluster considers a silent node dead."""


class Faults:
    """The faults of one history."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._dice = world.dice
        self._usual = Weather(slow=self._dice.choice((0.0, 0.0, 0.2)), slow_for=0.3)
        every = [kind for kind in _KINDS if kind != "repeat" or not world.few_origins]
        self._kinds = self._dice.sample(every, self._dice.randint(0, 6))
        self._interval = self._dice.choice((0.2, 0.7, 2.0))
        self._left = self._dice.choice((2, 5, 12))
        self._on = True

    def start(self) -> None:
        """Start the first fault."""
        self._calm()
        if self._kinds:
            self._later(self._next, self._interval)

    def end(self) -> None:
        """End all faults and repair their effects."""
        world = self._world
        self._on = False
        _copy(Weather(), world.weather)
        world.network.heal()
        for partition in world.log.partitions:
            partition.silent_until = 0.0
        for node in world.nodes:
            node.process.resume()
            if node.process.dead:
                self._start(node)
        world.clients.resume()
        for number in range(world.partitions):
            world.assign(number, self._dice.choice(world.nodes), slowness=1.0)

    def _later(self, call: Callable[[], None], longest: float) -> None:
        self._world.timeline.after(longest * self._dice.random(), self._world.log.broker, call)

    def _next(self) -> None:
        if self._on and self._left:
            self._left -= 1
            kind = self._dice.choice(self._kinds)
            self._world.say(f"-- {kind}")
            _KINDS[kind](self)
            self._later(self._next, 2 * self._interval)

    def _while_on(self, call: Callable[[], None], longest: float) -> None:
        def unless_over() -> None:
            if self._on:
                call()

        self._later(unless_over, longest)

    # Weather

    def storm(self) -> None:
        """Slow everything down."""
        weather = self._world.weather
        self._world.count("storm")
        weather.slow, weather.slow_for = self._dice.choice(((0.05, 2.0), (0.3, 0.1), (0.9, 0.03)))
        self._while_on(self._calm, 4.0)

    def repeat(self) -> None:
        """Duplicate appends."""
        self._world.weather.duplicated = self._dice.choice((0.1, 0.5))
        self._while_on(self._calm, 4.0)

    def forget(self) -> None:
        """Lose acknowledgements."""
        self._world.weather.unacknowledged = self._dice.choice((0.1, 0.5))
        self._while_on(self._calm, 4.0)

    def lose(self) -> None:
        """Lose messages between processes."""
        self._world.weather.lost = self._dice.choice((0.05, 0.3))
        self._while_on(self._calm, 4.0)

    def _calm(self) -> None:
        _copy(self._usual, self._world.weather)

    # Nodes

    def crash(self) -> None:
        """Crash a node and restart it."""
        self._crash(self._dice.choice(self._world.nodes), 6.0)

    def _crash(self, node: "Node", longest: float) -> None:
        if node.process.dead:
            return
        self._world.count("crash")
        node.crash()
        self._while_on(lambda: self._replace(node), DETECTED_AFTER)
        self._while_on(lambda: self._start(node), longest)

    def _start(self, node: "Node") -> None:
        if not node.process.dead:
            return
        node.start()
        for number in range(self._world.partitions):
            self._world.tell(node, number)

    def _replace(self, node: "Node") -> None:
        """Assign the partitions of a node that is silent for too long to others."""
        others = [other for other in self._world.living() if other is not node]
        for number in range(self._world.partitions):
            if others and self._world.leader(number) is node:
                self._world.assign(number, self._dice.choice(others))

    def _replace_if_paused(self, node: "Node") -> None:
        if node.process.paused:
            self._replace(node)

    def pause(self) -> None:
        """Pause a node, replace it if it takes long, and resume it."""
        node = self._dice.choice(self._world.nodes)
        if node.process.dead or node.process.paused:
            return
        seconds = self._dice.choice((0.1, 5.0, 30.0))
        self._world.count("pause" if seconds < DETECTED_AFTER else "zombie")
        node.process.pause()
        if seconds > DETECTED_AFTER:
            self._while_on(lambda: self._replace_if_paused(node), DETECTED_AFTER)
        self._while_on(node.process.resume, seconds)

    def cut_off(self) -> None:
        """Disconnect a node, perhaps for longer than a transaction may take."""
        node = self._dice.choice(self._world.nodes)
        seconds = self._dice.choice((0.3, 3.0, 1.5 * ABANDONED_AFTER))
        self._world.count("long out of reach" if seconds > ABANDONED_AFTER else "out of reach")
        self._world.network.cut_off(node.process, seconds)
        if self._dice.random() < 0.5:
            self._while_on(lambda: self._replace(node), DETECTED_AFTER)

    def silence(self) -> None:
        """Stop a partition of the log from accepting and delivering entries."""
        seconds = self._dice.choice((0.1, 1.0, 1.5 * ABANDONED_AFTER))
        self._world.count("long silence of the log" if seconds > ABANDONED_AFTER else "silence of the log")
        self._world.log.silence(self._dice.randrange(self._world.partitions), seconds)

    def two(self) -> None:
        """Let a second node lead a partition."""
        node = self._dice.choice(self._world.nodes)
        if not node.process.dead:
            self._world.count("two owners")
            self._world.timeline.after(
                0.0, node.process, node.lead, self._dice.randrange(self._world.partitions)
            )

    def move(self) -> None:
        """Assign a partition to another node; the nodes learn it at different times."""
        living = self._world.living()
        if living:
            self._world.count("partition moved")
            number = self._dice.randrange(self._world.partitions)
            self._world.assign(number, self._dice.choice(living), slowness=self._dice.choice((0.0, 5.0)))

    def jump(self) -> None:
        """Move a node's clock by up to a minute."""
        self._world.count("clock jumped")
        self._dice.choice(self._world.nodes).process.skew_ms = self._dice.randint(-60_000, 60_000)

    def die_idle(self) -> None:
        """Crash a coordinator during its transactions, and pause all clients for a while."""
        world = self._world
        if world.clients.paused:
            return
        world.count("death on an idle log")
        world.clients.pause()
        self._while_on(lambda: self._crash(self._dice.choice(world.nodes), 2.5 * ABANDONED_AFTER), 0.02)
        self._while_on(world.clients.resume, 2.0 * ABANDONED_AFTER)

    def snapshot(self) -> None:
        """Make a snapshot at any moment."""
        self._world.snapshot(
            self._dice.choice(self._world.nodes), self._dice.randrange(self._world.partitions)
        )


_KINDS: dict[str, Callable[[Faults], None]] = {
    "storm": Faults.storm,
    "repeat": Faults.repeat,
    "forget": Faults.forget,
    "lose": Faults.lose,
    "crash": Faults.crash,
    "pause": Faults.pause,
    "cut off": Faults.cut_off,
    "silence": Faults.silence,
    "two": Faults.two,
    "move": Faults.move,
    "jump": Faults.jump,
    "die idle": Faults.die_idle,
    "snapshot": Faults.snapshot,
}


def _copy(source: Weather, target: Weather) -> None:
    for name in Weather.__slots__:
        setattr(target, name, getattr(source, name))
