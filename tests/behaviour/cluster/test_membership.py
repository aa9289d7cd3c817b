"""The broker tracks the members, and every member receives the assignment."""

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from foldb.log.kafka import topic
from foldb.log.kafka.client import Clients
from foldb.log.kafka.settings import KafkaAddress, Security
from foldb.server.cluster.membership import Membership
from foldb.server.cluster.routes import RoutingTable
from tests.support.subscribed import until

PARTITIONS = 8


class Node:
    """A member and its routing tables."""

    def __init__(self, clients: Clients, number: int) -> None:
        self.address = ("127.0.0.1", 7000 + number)
        self.folded: tuple[list[int], list[int]] = ([], [])
        self.tables: list[RoutingTable] = []
        self._told = threading.Condition()
        self.membership = Membership(
            clients.consumer,
            clients.address.topic,
            clients.address.group,
            PARTITIONS,
            self.address,
            folded=lambda: self.folded,
            on_table=self._tell,
            session_timeout_ms=6000,
        )
        self.membership.start()

    def _tell(self, table: RoutingTable) -> None:
        with self._told:
            self.tables.append(table)
            self.fold(table)
            self._told.notify_all()

    def fold(self, table: RoutingTable) -> None:
        """Fold all assigned partitions."""
        owned = [n for n, route in enumerate(table.routes) if route.owner == self.address]
        warm = [n for n, route in enumerate(table.routes) if self.address in route[:2]]
        self.folded = owned, warm

    def wait_for(self, holds: Callable[[RoutingTable], Any], seconds: float = 20) -> RoutingTable:
        with self._told:
            assert self._told.wait_for(lambda: self.tables and holds(self.tables[-1]), seconds), self.tables[
                -1:
            ]
            return self.tables[-1]


@contextmanager
def members(kafka: str) -> Iterator[Callable[[int], Node]]:
    """Members of a group on a new topic. They leave at the end of the block."""
    clients = Clients(KafkaAddress.of(f"kafka://{kafka}/{uuid.uuid4().hex}"), Security())
    topic.create(clients.admin(), clients.address.topic, PARTITIONS)
    nodes: list[Node] = []

    def join(number: int) -> Node:
        nodes.append(Node(clients, number))
        return nodes[-1]

    try:
        yield join
    finally:
        for node in nodes:
            node.membership.leave()
        for node in nodes:
            node.membership.close(10)


def shares(table: RoutingTable) -> dict[int, int]:
    owners = [route.owner[1] - 7000 for route in table.routes]
    return {number: owners.count(number) for number in sorted(set(owners))}


def test_nodes_come_and_go_and_everybody_has_the_same_table(kafka: str) -> None:
    with members(kafka) as join:
        one = join(1)
        assert {1: PARTITIONS} == shares(one.wait_for(lambda _: True))

        two = join(2)
        first = two.wait_for(lambda table: len(table.nodes) == 2)
        assert {1: PARTITIONS} == shares(first), "it has folded nothing yet"
        two.membership.join_again()

        # A member that is slow makes the group decide once more.
        until(lambda: one.tables[-1] == two.tables[-1] and shares(one.tables[-1]) == {1: 4, 2: 4})
        assert not any(route.moving for route in two.tables[-1].routes)

        one.membership.leave()
        alone = two.wait_for(lambda table: len(table.nodes) == 1, seconds=3)
        assert {2: PARTITIONS} == shares(alone)


def test_without_a_broker_a_node_serves_by_its_last_assignment(caplog: pytest.LogCaptureFixture) -> None:
    def none(**_: Any) -> Any:
        raise Clients(KafkaAddress.of("kafka://127.0.0.1:1/x"), Security()).unreachable(OSError())

    reported: list[RoutingTable] = []
    member = Membership(
        none,
        "x.log",
        "x.nodes",
        1,
        ("127.0.0.1", 1),
        folded=lambda: ([], []),
        on_table=reported.append,
        session_timeout_ms=6000,
    )
    with caplog.at_level(logging.WARNING):
        member.start()
        member.close(5)

    assert [] == reported
