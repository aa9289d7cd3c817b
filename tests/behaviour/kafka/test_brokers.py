"""Brokers that die and that fall silent, while callers count."""

import asyncio
import gc
import os
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from kafka import TopicPartition

from tests.behaviour.kafka.counting import Node, Told, check, copies, count
from tests.support.broker import Brokers, brokers
from tests.support.subscribed import until
from tests.verification.reliability import record

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [
    # kafka-python leaves the socket of a connection that was not made to the collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    *([pytest.mark.soak] if SOAK else []),
]

ROUNDS = 12 if SOAK else 1
PREFERRED = 0
# Longer than the time after which brokers miss one of theirs.
PAUSE_SECONDS = 6.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Brokers]:
    with brokers(3) as started:
        yield started


def kill_one(cluster: Brokers, number: int) -> None:
    cluster.kill(number)
    cluster.restart()


def pause_one(cluster: Brokers, number: int) -> None:
    cluster.pause(number)
    threading.Event().wait(PAUSE_SECONDS)
    cluster.resume(number)


@pytest.mark.guarantee("G27")
@pytest.mark.parametrize("fault", [kill_one, pause_one])
def test_a_dead_or_silent_broker_loses_no_write(
    cluster: Brokers, fault: Callable[[Brokers, int], None]
) -> None:
    """Each broker in turn, so that the leader of the log is among them."""

    async def run() -> None:
        node, reported = await Node.start(f"kafka://{cluster.address}/t-{uuid.uuid4().hex[:12]}"), Told()
        try:
            await node.create_table()
            order = [number for _ in range(ROUNDS) for number in random.Random(1).sample((1, 2, 3), 3)]
            silences = []
            for number in order if SOAK else [leader(node)]:
                done, reported.longest_silence = threading.Event(), 0.0

                def harm(number: int = number, done: threading.Event = done) -> None:
                    fault(cluster, number)
                    done.set()

                threading.Thread(target=harm, daemon=True).start()
                await count(node, reported, until=done.is_set)
                silences.append(reported.longest_silence)
            await node.folded()
            assert not node.fatal
            check(node, reported)
            record(
                test=f"kafka: {fault.__name__.replace('_', ' ')} broker of three",
                cycles=len(silences),
                faults={fault.__name__: len(silences)},
                acknowledged=reported.total,
                checked=reported.total,
                figures={"longest silence s": round(max(silences), 2), "copies": copies(node.log)},
            )
        finally:
            node.log.close()

    asyncio.run(run())
    gc.collect()


def test_a_leader_that_moves_while_every_broker_lives_is_found(cluster: Brokers) -> None:
    """No connection breaks: the old leader responds that it is no longer the leader."""

    async def run() -> None:
        node = await Node.start(f"kafka://{cluster.address}/t-{uuid.uuid4().hex[:12]}")
        try:
            await node.create_table()
            assert 2 == node.log.end(0)
            move_leader(node)
            assert 2 == node.log.end(0)
            await node.folded()
            assert not node.fatal
        finally:
            node.log.close()

    asyncio.run(run())
    gc.collect()


def leader(node: Node) -> int:
    """Who leads the log's partition."""
    with closing(node.log.clients.admin()) as admin:
        [topic] = admin.describe_topics([node.log.clients.address.topic])
        return int(topic["partitions"][0]["leader_id"])


def move_leader(node: Node) -> None:
    """Give the log's partition the next broker as leader."""
    before, topic = leader(node), node.log.clients.address.topic
    others = [number for number in (1, 2, 3) if number != before]
    with closing(node.log.clients.admin()) as admin:
        admin.alter_partition_reassignments({TopicPartition(topic, 0): [*others, before]})
        admin.elect_leaders(PREFERRED, {topic: [0]})
    until(lambda: leader(node) == others[0])
