"""Everything of one history: time, log, network, nodes, clients, and the recorded results."""

import random
from collections import Counter
from collections.abc import Callable

from foldb.materializer.fold.dump import dump
from foldb.materializer.fold.outcomes import Outcome, TableDefined
from foldb.materializer.partition import ResultPosition
from tests.verification.histories.history import History, Operation
from tests.verification.histories.workload import Workload
from tests.verification.simulator.checks import is_at_rest
from tests.verification.simulator.clients import Client, IndexReader, Subscriber, TableClient, requests
from tests.verification.simulator.log import SharedLog, Weather
from tests.verification.simulator.network import Network
from tests.verification.simulator.node import Node
from tests.verification.simulator.timeline import Process, Timeline


class World:
    """See the module.

    Attributes:
        dice: The only random source.
        faults: The number of each fault, by name.
        think: The maximum of seconds between two requests of a client.
        strict_reads: Whether nodes find the log's end by entries of their own.
        lag_ms: The maximum lag of reads that need not be current.
        few_origins: Whether origins are soon dropped. Then no entry is duplicated, or it might be folded twice.
        few_messages: Whether writes are refused above a few unacknowledged messages.
        table: The id of the history's table.
        captured: The ends of the logs, each time that a subscription was acknowledged.
        contended: Whether six clients read and write the same few items, mostly in transactions.
    """

    def __init__(
        self, seed: int, say: Callable[[str], None] | None = None, *, contended: bool = False
    ) -> None:
        self.dice = random.Random(seed)
        self.seed = seed
        self._say = say
        self.partitions = self.dice.choice((1, 3, 3, 3, 3, 4))
        self.timeline = Timeline(self.dice)
        self.weather = Weather()
        self.faults: Counter[str] = Counter()
        self.log = SharedLog(self.timeline, self.dice, self.weather, self, self.partitions)
        self.network = Network(self.timeline, self.dice, self.weather, self.count)
        self.clients = Process(self.timeline, "clients")
        self.history = History()
        self.acknowledged = self.index_reads = 0
        self.think = self.dice.choice((0.02, 0.2, 2.0))
        self.strict_reads = self.dice.random() < 0.2
        self.lag_ms = self.dice.choice((0, 0, 0, 800))
        self.few_origins, self.few_messages = self.dice.random() < 0.15, self.dice.random() < 0.15
        self.table = 0
        self.captured: list[list[int]] = []
        self.contended = contended
        self.ready_ms = 0
        self._askers: list[Client | TableClient | IndexReader | Subscriber] = []
        self._snapshots: dict[int, list[bytes]] = {}
        self._generation = 0
        self._leaders: dict[int, Node] = {}
        self.nodes = [Node(self, number) for number in range(self.dice.choice((1, 2, 2, 3)))]
        for number in range(self.partitions):
            self.assign(number, self.dice.choice(self.nodes))

    def prepare(self) -> None:
        """Create the history's table."""

        def created(outcome: Outcome, _: ResultPosition) -> None:
            assert isinstance(outcome, TableDefined), outcome
            self.table = outcome.definition.id

        request = requests.define("CreateTable", 0, requests.new_table("T", requests.INDEX), "uuid")
        self.nodes[0].process.call_later(1.0, self.nodes[0].router.submit, request, 300, created)

    @property
    def is_ready(self) -> bool:
        """Whether the table is active."""
        self.ready_ms = max(node.hosted[0].state.log_time for node in self.nodes)
        return bool(self.table) and self.is_at_rest

    def ask(self, operations: int) -> None:
        """Start clients with this number of requests together."""
        workload = Workload(self.history, self.dice, keys=6, transactions=self.dice.choice((0.2, 0.5, 0.9)))
        count = self.dice.choice((1, 3, 6))
        if self.contended:
            count, self.think = 6, 0.02
        self._askers += [Client(self, number, workload, operations // count) for number in range(count)]
        self._askers += [TableClient(self, number, 1) for number in range(self.dice.choice((0, 0, 1)))]
        self._askers += [IndexReader(self, number, 3) for number in range(self.dice.choice((0, 0, 1)))]
        self._askers += [Subscriber(self, 8) for _ in range(self.dice.choice((0, 0, 1)))]
        for client in self._askers:
            client.start()

    def ask_no_more(self) -> None:
        """Let the clients end after their current requests."""
        for client in self._askers:
            client.left = min(client.left, 2)

    @property
    def is_idle(self) -> bool:
        """Whether no client waits for an answer."""
        return all(client.idle for client in self._askers)

    @property
    def ends(self) -> list[int]:
        """Return the number of records of each partition."""
        return [self.log.end(number) for number in range(self.partitions)]

    @property
    def is_at_rest(self) -> bool:
        """Whether all nodes have folded all records, no work is open, and all partitions have leaders."""
        ends = self.ends
        return all(self._leaders[number].leads(number) for number in range(self.partitions)) and all(
            hosted.state.next_offset == ends[number] and is_at_rest(hosted.state)
            for node in self.nodes
            for number, hosted in node.hosted.items()
        )

    def situation(self) -> str:
        """Return a description of all nodes, to explain a failure."""
        lines = [f"ends {self.ends}; clients have {[client.left for client in self._askers]} left"]
        for node in self.nodes:
            for number, hosted in sorted(node.hosted.items()):
                state = hosted.state
                lines.append(
                    f"{node} {'leads' if node.leads(number) else 'follows'} {number} at {state.next_offset}: "
                    f"{state.unacknowledged_bytes} bytes unacknowledged, {state.transactions}"
                )
        return "\n  ".join(lines)

    @property
    def now_us(self) -> int:
        """Return the microseconds since the history began."""
        return int(self.timeline.now * 1_000_000)

    def count(self, fault: str) -> None:
        """Count a fault."""
        self.faults[fault] += 1
        self.say(fault)

    def say(self, what: object) -> None:
        """Report an event."""
        if self._say is not None:
            self._say(f"{self.timeline.now:10.4f}  {what}")

    def ended(self, operation: Operation) -> None:
        """Record the result of an operation."""
        self.history.operations.append(operation)
        self.say(operation)

    def fatal(self, error: BaseException) -> None:
        """Fail: no worker may stop in a simulation."""
        raise error

    def any_node(self) -> Node:
        """Return any node, running or not: a client does not know."""
        return self.dice.choice(self.nodes)

    def living(self) -> list[Node]:
        """Return the nodes that are not crashed."""
        return [node for node in self.nodes if not node.process.dead]

    def assign(self, number: int, leader: Node, slowness: float = 0.0) -> None:
        """Assign a partition to a node; running nodes learn it with different delays."""
        self._generation += 1
        self._leaders[number] = leader
        for node in self.living():
            self.tell(node, number, slowness)

    def tell(self, node: Node, number: int, slowness: float = 0.0) -> None:
        """Let a node learn the leader of a partition."""
        delay = self.dice.random() * (0.01 + slowness)
        self.timeline.after(delay, node.process, node.learn, number, self._generation, self._leaders[number])

    def leader(self, number: int) -> Node:
        """Return the leader in the current assignment."""
        return self._leaders[number]

    def snapshot(self, node: Node, number: int) -> None:
        """Make a snapshot of a node's state of a partition, if it has one."""
        hosted = node.hosted.get(number)
        if hosted is not None:
            self.count("snapshot")
            self._snapshots.setdefault(number, []).append(b"".join(dump(hosted.state)))

    def any_snapshot(self, number: int) -> bytes | None:
        """Return any snapshot of a partition, or None."""
        made = self._snapshots.get(number, [])
        return self.dice.choice([None, *made]) if made else None

    def wait(self, seconds: float) -> None:
        """Advance the time."""
        self.timeline.run(self.timeline.now + seconds)
