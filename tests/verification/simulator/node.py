"""A whole node without sockets: workers, owners and a router on a process of the timeline.

Every node folds the catalog. It leads the partitions that it believes are its own, is standby for some others, and
sends requests for the rest to other nodes. It learns assignments (`learn`) with a delay; so a partition may have two
leaders, or none.

A crash loses everything in memory; a start rebuilds it from the log, or from any snapshot of any node.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from foldb.materializer.consistent_partition import ConsistentPartition
from foldb.materializer.fold.load import load
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.lagging_partition import LaggingPartition
from foldb.materializer.long_reads import LongReads
from foldb.materializer.owner import Owner, OwnerSettings
from foldb.materializer.recent_images import RecentImages
from foldb.materializer.replicated import ReplicatedWorker
from foldb.materializer.worker import Worker
from foldb.server.partitions.past_reads import HistoricalPartition, PastReads
from foldb.server.partitions.replica import Replica
from foldb.server.routing import Router
from foldb.streams.feed import Feed
from tests.support.refold_reader import RefoldReader
from tests.verification.simulator.log import LogSeen
from tests.verification.simulator.network import Remote
from tests.verification.simulator.timeline import Process

if TYPE_CHECKING:
    from tests.verification.simulator.world import World


class Node:
    """One node over all its lives."""

    def __init__(self, world: "World", number: int) -> None:
        self.number = number
        self.lives = 0
        self._world = world
        self._skew_ms = world.dice.choice((0, 0, world.dice.randint(-60_000, 60_000)))
        self.start()

    def __repr__(self) -> str:
        return f"node {self.number}"

    def start(self) -> None:
        """Begin a life."""
        world = self._world
        self.lives += 1
        self.process = Process(world.timeline, f"node {self.number}", skew_ms=self._skew_ms)
        self.hosted: dict[int, Replica] = {}
        self._leaders: dict[int, Node] = {}
        self._heard: dict[int, int] = {}  # by partition, the newest assignment that it knows
        self._log = LogSeen(world.log, self.process)
        self._there: list[Any] = [
            Remote(world.network, self.process, number, self._leaders.get)
            for number in range(world.partitions)
        ]
        self._partitions = list(self._there)
        catalog = self._fold(0)
        self.router = Router(self._partitions, catalog.state, self.process, catch_up=catalog.catch_up)

    def crash(self) -> None:
        """End this life and lose everything in memory."""
        self.process.kill()

    def learn(self, number: int, generation: int, leader: "Node") -> None:
        """Learn the leader of a partition."""
        if generation <= self._heard.get(number, 0):
            return
        self._heard[number] = generation
        self._leaders[number] = leader
        if leader is self:
            self.lead(number)
        else:
            self.stand_by(number)

    def lead(self, number: int) -> None:
        """Begin to lead a partition."""
        hosted = self._fold(number)
        self._partitions[number] = hosted.partition
        hosted.lead()

    def stand_by(self, number: int) -> None:
        """Stop leading a partition; keep folding it, or drop it."""
        self._partitions[number] = self._there[number]
        hosted = self.hosted.get(number)
        if hosted is not None and hosted.leading:
            hosted.stand_by()
            if number and self._world.dice.random() < 0.7:
                del self.hosted[number]
                hosted.worker.close(_nothing)

    def leads(self, number: int) -> bool:
        """Whether it believes that it leads the partition."""
        hosted = self.hosted.get(number)
        return hosted is not None and hosted.leading

    def serve(
        self,
        number: int,
        name: str,
        args: tuple[Any, ...],
        silence: tuple[Any, ...],
        reply: Callable[..., None],
    ) -> None:
        """Answer another node."""
        hosted = self.hosted.get(number)
        if hosted is None:
            reply(*silence)
        else:
            getattr(hosted.partition, name)(*args, reply)

    def _fold(self, number: int) -> Replica:
        """Begin to fold a partition, if it is not folded here yet."""
        if number in self.hosted:
            return self.hosted[number]
        world, process = self._world, self.process
        snapshot = world.any_snapshot(number)
        state = PartitionState() if snapshot is None else load([snapshot])
        feed = Feed(state, lambda: worker.position, process)
        worker = ReplicatedWorker(
            self._log,
            state,
            new_origin=lambda: world.dice.randbytes(16),
            scheduler=process,
            partition=number,
            capture=feed,
            draw_salt=lambda: b"salt of an entry",
            on_fatal=world.fatal,
        )
        partition = ConsistentPartition(
            LaggingPartition(
                worker,
                feed.ask,
                long_reads=LongReads(process),
                images=RecentImages(
                    worker, world.lag_ms, lambda: int(world.timeline.now * 1000), process.clock
                ),
                limits_ms=(world.lag_ms, world.lag_ms),
                draw=partial(
                    random.Random(world.seed).randint, 0
                ),  # the dice would be thrown in another order
            ),
            clock=process.clock,
            scheduler=process,
            strict=world.strict_reads,
        )
        reads = PastReads(RefoldReader(self._log), process, self._log, is_shared=True)
        historical = HistoricalPartition(partition, worker, reads)
        hosted = self.hosted[number] = Replica(number, worker, historical, feed, self._owner)
        hosted.catch_up(_nothing)
        return hosted

    def _owner(self, worker: Worker) -> Owner:
        return Owner(
            worker,
            self._partitions,
            OwnerSettings(table_delay=0.5, sweep_interval=None),
            clock=self.process.clock,
            scheduler=self.process,
        )


def _nothing() -> None:
    """No caller waits."""
