"""Nodes of a cluster in one event loop: real links and assignments, fake partitions."""

import asyncio
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from foldb.log.commands import Position
from foldb.model.limits import MODERN
from foldb.server.cluster.assignment import assign
from foldb.server.cluster.cluster import Cluster, NodeConfig
from foldb.server.cluster.link import PeerAddress
from foldb.server.cluster.routes import Member, RoutingTable
from tests.behaviour.cluster.peers import LOG_ID, QUICK, SECRET, Told

FoldedSoFar = Callable[[], tuple[list[int], list[int]]]


class Hosted:
    """A folded partition. Its answers name its node."""

    def __init__(self, number: int, whose: str) -> None:
        self.partition = Told((whose.encode(), number))
        self.worker = SimpleNamespace(position=Position(number, 10))
        self.leading = False
        self.catching_up: list[Callable[[], None]] = []
        self.slow = False

    def catch_up(self, done: Callable[[], None]) -> None:
        if self.slow:
            self.catching_up.append(done)
        else:
            done()

    def lead(self) -> None:
        self.leading = True

    def stand_by(self) -> None:
        self.leading = False


class Folds:
    """The partitions of one node."""

    def __init__(self, count: int, name: str) -> None:
        self.count = count
        self.name = name
        self.hosted = {0: Hosted(0, name)}
        self.slow = False

    def snapshots(self, number: int) -> None:
        return None

    def newest_snapshots(self) -> list[Position]:
        return []

    def restore(self, number: int) -> Any:
        return SimpleNamespace(has_snapshot=False)

    def open(self, number: int, found: Any) -> Hosted:
        hosted = self.hosted[number] = Hosted(number, self.name)
        hosted.slow = self.slow
        return hosted

    async def close(self, number: int) -> None:
        await asyncio.sleep(0)
        del self.hosted[number]


class Group:
    """A group without a broker. Its members receive a new table at every change."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._members: dict[str, tuple[PeerAddress, FoldedSoFar, Callable[[RoutingTable], None]]] = {}
        self.generation = 0
        self._joined = 0

    def join(
        self, address: PeerAddress, folded: FoldedSoFar, reported: Callable[[RoutingTable], None]
    ) -> Any:
        self._joined += 1
        name = f"{self._joined:03}"
        return SimpleNamespace(
            start=lambda: self._change(lambda: self._members.update({name: (address, folded, reported)})),
            join_again=self.decide,
            leave=lambda: self.forget(name),
            close=lambda _: self.forget(name),
            name=name,
        )

    def forget(self, name: str) -> None:
        """Remove a member, as when it leaves or its session expires."""
        if name in self._members:
            self._change(lambda: self._members.pop(name))

    def _change(self, change: Callable[[], object]) -> None:
        change()
        self.decide()

    def decide(self) -> None:
        """Assign, and send the table to all members."""
        self.generation += 1
        members = [
            Member(name, address, *map(frozenset, folded()))
            for name, (address, folded, _) in self._members.items()
        ]
        if members:
            table = RoutingTable(self.generation, tuple(assign(members, self._partitions)))
            for _, _, reported in self._members.values():
                reported(table)


class Node:
    """One node."""

    def __init__(
        self, group: Group, name: str, partitions: int, address: PeerAddress = ("127.0.0.1", 0)
    ) -> None:
        folds: Any = Folds(partitions, name)
        self.folds: Folds = folds
        self.routed: list[Any] = [None] * partitions
        place = NodeConfig(address, group.join, SECRET, LOG_ID, MODERN, timeouts=QUICK)
        self.cluster = Cluster(place, folds, self.routed.__setitem__, asyncio.get_running_loop(), os.urandom)

    @property
    def leading(self) -> list[int]:
        return sorted(number for number, hosted in self.folds.hosted.items() if hosted.leading)

    async def ask(self, number: int, *, consistent: bool = True) -> Any:
        """Return the answer of a partition, which names its node."""
        reported: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.routed[number].get(7, b"pk", b"", consistent, lambda found, _: reported.set_result(found))
        async with asyncio.timeout(5):
            return await reported

    async def die(self) -> None:
        """Stop without leaving the group."""
        await self.cluster._listener.close()
        for link in self.cluster._links.links.values():
            await link.close()
        assert self.cluster._timer is not None
        self.cluster._timer.cancel()
