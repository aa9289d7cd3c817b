"""Nodes take over from each other, and every request is answered by a node that has folded the partition."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from foldb.model.limits import MODERN
from foldb.model.table_requests import create
from foldb.server.cluster.cluster import Cluster, ClusterRefusedError, NodeConfig
from foldb.server.usage.cluster_heat import handle_heat, heat_of_nodes
from foldb.server.usage.heat import OWN, Heat
from foldb.server.usage.sketch import Layer, Sketch
from foldb.server.usage.usage import Usage
from tests.behaviour.cluster.nodes import Group, Node
from tests.behaviour.cluster.peers import LOG_ID, until
from tests.support.tables import table_request

PARTITIONS = 9


@asynccontextmanager
async def cluster(*names: str) -> AsyncIterator[tuple[Group, list[Node]]]:
    """Start nodes one after the other, and wait until each leads its share."""
    group = Group(PARTITIONS)
    nodes: list[Node] = []
    try:
        for name in names:
            nodes.append(Node(group, name, PARTITIONS))
            await nodes[-1].cluster.start()
        share = PARTITIONS // len(names)
        await until(lambda: all(len(node.leading) >= share for node in nodes))
        await until(
            lambda: all(all(link.is_up for link in node.cluster._links.links.values()) for node in nodes)
        )
        hostings = [node.cluster._hosting for node in nodes]
        await until(lambda: not any(each.opening or each.closing for each in hostings))
        yield group, nodes
    finally:
        for node in nodes:
            await node.cluster.stop()


def owners(nodes: list[Node]) -> list[str]:
    table = nodes[0].cluster.table
    assert table is not None
    names = {node.cluster.address: node.folds.name for node in nodes}
    return [names[route.owner] for route in table.routes]


async def test_any_node_answers_for_any_partition() -> None:
    async with cluster("one", "two", "three") as (_, nodes):
        expected = [(owner.encode(), n) for n, owner in enumerate(owners(nodes))]
        for node in nodes:
            assert expected == [await node.ask(n) for n in range(PARTITIONS)]


async def test_the_heat_of_all_nodes_is_merged() -> None:
    """Each node has measured other requests; one that cannot be asked is named."""
    definition = create(table_request("Cars", "pk:S"), table_id=7, uuid="", time_ms=0, limits=MODERN)
    state: Any = SimpleNamespace(tables={7: SimpleNamespace(definition=definition)})
    async with cluster("one", "two", "three") as (_, nodes):
        for number, node in enumerate(nodes[:2], start=1):
            heat = Heat(state, lambda: 0, every=True)
            handle_heat(node.cluster, heat)
            usage = Usage(heat.observe)[7]
            usage.count_read(None, b"hot", 100 * number)
            usage.count_read(None, b"cold %d" % number, number)

        found, unreachable = await heat_of_nodes(nodes[0].cluster, [7])

        merged = Sketch(7, lambda: 0)
        for [tables] in found:
            merged.merge(tables[OWN])
        assert {b"hot": 300, b"cold 1": 1, b"cold 2": 2} == merged.layers[Layer.READS].keys.counts
        assert [nodes[2].cluster.address] == unreachable


async def test_each_partition_has_an_owner_and_a_standby() -> None:
    async with cluster("one", "two", "three") as (_, nodes):
        led = [number for node in nodes for number in node.leading]
        folded = [number for node in nodes for number in node.folds.hosted]

        assert list(range(PARTITIONS)) == sorted(led)
        assert {0: 3, **dict.fromkeys(range(1, PARTITIONS), 2)} == {n: folded.count(n) for n in set(folded)}


async def test_eventual_reads_are_answered_by_a_local_standby() -> None:
    async with cluster("one", "two") as (_, [one, two]):
        number = two.leading[-1]
        link = one.cluster._links.links[two.cluster.address]
        await until(lambda: link.positions.get(number) == 11)

        assert (b"one", number) == await one.ask(number, consistent=False)
        assert (b"two", number) == await one.ask(number, consistent=True)

        worker = two.folds.hosted[number].worker
        worker.position = replace(worker.position, offset=11)
        await until(lambda: link.positions.get(number) == 12)
        assert (b"two", number) == await one.ask(number, consistent=False), "it has seen more by now"


@pytest.mark.guarantee("G34")
async def test_when_a_node_dies_its_standby_answers_before_the_group_knows() -> None:
    async with cluster("one", "two") as (_, [one, two]):
        theirs = two.leading
        await two.die()

        assert [(b"one", n) for n in theirs] == [await one.ask(n) for n in theirs]
        await until(lambda: one.leading == list(range(PARTITIONS)))


async def test_a_third_node_finds_the_standby_of_one_that_died() -> None:
    async with cluster("one", "two", "three") as (_, nodes):
        table = nodes[0].cluster.table
        assert table is not None
        owner, standby, _ = table.routes[PARTITIONS - 1]
        [first, second, third] = (
            next(node for node in nodes if node.cluster.address == address)
            for address in (owner, standby, *({*table.nodes} - {owner, standby}))
        )
        await first.die()

        assert (second.folds.name.encode(), PARTITIONS - 1) == await third.ask(PARTITIONS - 1)


@pytest.mark.guarantee("G34")
async def test_no_request_fails_when_a_node_leaves() -> None:
    """It answers and forwards until the other nodes have taken over its partitions."""

    async with cluster("one", "two") as (_, [one, two]):
        answers: list[Any] = []
        asking = True

        async def ask(node: Node) -> None:
            while asking:
                for number in range(PARTITIONS):
                    answers.append(await node.ask(number))
                    await asyncio.sleep(0)  # one that answers at once would keep the loop to itself

        crowd = [asyncio.create_task(ask(node)) for node in (one, two, one)]
        await until(lambda: len(answers) > 20)
        await two.cluster.leave()

        assert [] == two.leading
        assert list(range(PARTITIONS)) == one.leading
        assert (b"one", 3) == await two.ask(3), "it forwards"
        asking = False
        await asyncio.gather(*crowd)
        await two.cluster.stop()
        assert {b"one", b"two"} == {found[0] for found in answers}, "and no error among them"


async def test_the_last_node_leaves_without_waiting() -> None:
    async with cluster("one") as (_, [one]), asyncio.timeout(0.5):
        await one.cluster.leave()


async def test_one_that_joins_is_asked_for_nothing_before_it_has_folded_it() -> None:
    async with cluster("one") as (group, [one]):
        two = Node(group, "two", PARTITIONS)
        two.folds.slow = two.folds.hosted[0].slow = True
        starting = asyncio.create_task(two.cluster.start())
        await until(lambda: len(two.folds.hosted) > 4)

        assert {b"one"} == {(await two.ask(n))[0] for n in range(PARTITIONS)}
        assert [] == two.leading
        assert not starting.done(), "it does not know which tables there are"

        two.folds.slow = False  # for those that are opened from here on
        for hosted in two.folds.hosted.values():
            hosted.slow = False
            for done in hosted.catching_up:
                done()
        await starting
        await until(lambda: len(two.leading) == PARTITIONS // 2)
        assert {b"one", b"two"} == {(await one.ask(n))[0] for n in range(PARTITIONS)}
        await two.cluster.stop()


async def test_a_fold_during_a_rebalance_is_announced_at_once() -> None:
    """The assignment still says that the partition moves, and no other event would follow."""

    async with cluster("one", "two") as (group, [one, two]):
        table = two.cluster.table
        assert table is not None
        number = one.leading[-1]
        routes = list(table.routes)
        routes[number] = routes[number]._replace(moving=True)
        before = group.generation
        two.cluster.apply(replace(table, routes=tuple(routes)))

        assert group.generation == before + 1


async def test_a_node_expelled_from_the_group_serves_on_and_rejoins() -> None:
    """A paused node is in this situation: other nodes lead its partitions, and both answer correctly."""

    async with cluster("one", "two") as (group, [one, two]):
        number = two.leading[-1]
        assert two.cluster._group is not None
        group.forget("002")
        await until(lambda: one.leading == list(range(PARTITIONS)))

        assert (b"two", number) == await two.ask(number)
        assert (b"one", number) == await one.ask(number)

        two.cluster._group.start()
        two.cluster._on_pause(60.0)
        await until(lambda: len(two.leading) >= PARTITIONS // 2 and not set(two.leading) & set(one.leading))


async def test_after_a_pause_nothing_is_served_that_is_not_caught_up() -> None:
    async with cluster("one", "two") as (_, [one, two]):
        number = two.leading[-1]
        for hosted in two.folds.hosted.values():
            hosted.slow = True
        two.cluster._on_pause(60.0)

        asked = asyncio.create_task(two.ask(number))
        for _ in range(20):  # turns of the loop, in which it would be answered
            await asyncio.sleep(0)
        assert two.folds.hosted[number].catching_up
        assert [] == two.leading
        assert not asked.done()

        for hosted in two.folds.hosted.values():
            for done in hosted.catching_up:
                done()
        assert (b"two", number) == await asked
        assert number in two.leading
        del one


async def test_a_partition_reassigned_while_it_closes_is_opened_again() -> None:
    async with cluster("one", "two", "three") as (_, [one, *_]):
        table = one.cluster.table
        assert table is not None
        mine = one.cluster.address
        number = one.leading[-1]
        others = [route.owner for route in table.routes if route.owner != mine]
        without = [
            route._replace(owner=others[0], standby=others[-1]) if mine in route[:2] else route
            for route in table.routes
        ]
        before = one.folds.hosted[number]
        one.cluster.apply(replace(table, routes=tuple(without)))
        one.cluster.apply(table)
        await until(lambda: one.folds.hosted.get(number, before) is not before)

        assert (b"one", number) == await one.ask(number)


def place(host: str, secret: bytes | None) -> NodeConfig:
    def join(*_: Any) -> Any:
        raise AssertionError

    return NodeConfig((host, 0), join, secret, LOG_ID, MODERN)


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "node-1", "::"])
async def test_off_this_machine_nodes_need_a_secret(host: str) -> None:
    loop = asyncio.get_running_loop()
    folds: Any = Node(Group(1), "x", 1).folds
    make: Callable[[bytes | None], Cluster] = lambda secret: Cluster(  # noqa: E731
        place(host, secret), folds, lambda *_: None, loop, bytes
    )

    with pytest.raises(ClusterRefusedError, match="same secret"):
        make(None)
    make(b"secret")
