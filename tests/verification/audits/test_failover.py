"""The feed and triggers of a cluster whose nodes are killed: another node continues, from the log alone.

At the end every node has the same stream, which agrees with the writers' ledger, and the trigger has handled every
change.
"""

import random
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.behaviour.cluster.processes import Nodes
from tests.support.broker import kafka
from tests.support.failing_servers import Addresses
from tests.support.raw import ask
from tests.support.subscribed import described, settle, subscribe
from tests.verification.audits.deliveries import Checkpoints, Recorder, judge_calls
from tests.verification.audits.judge import judge
from tests.verification.audits.ledger import TABLE, Ledger
from tests.verification.audits.readers import FORGETFUL, STEADY, Reader
from tests.verification.audits.refolded import by_partition
from tests.verification.audits.test_feed import disable
from tests.verification.audits.writers import Writers, create, expired
from tests.verification.reliability import record

__all__ = ["kafka"]

SEEDS = range(3)
KILLS, WRITES, WRITERS, BATCHES = 12, 800, 6, 6
OPTIONS = ("--shard-age", "20s", "--ttl-interval", "100ms")
NAME = "recorder"
pytestmark = [pytest.mark.soak]  # nodes and a broker start slowly


@pytest.mark.guarantee("G35")
@pytest.mark.parametrize("seed", SEEDS)
def test_another_node_continues_the_feed_and_the_trigger(seed: int, kafka: str, tmp_path: Path) -> None:
    dice, ledger, failures, checked = random.Random(seed), Ledger(), 1, 0
    recorder, checkpoints = Recorder(tmp_path), list[tuple[int, Checkpoints]]()
    try:
        with ExitStack() as stack:
            nodes = stack.enter_context(Nodes(tmp_path, kafka, 2, *OPTIONS, *recorder.options))
            addresses = Addresses(nodes.urls)
            nodes.settle()
            arn = create(nodes.urls[0])
            subscribe(nodes.urls[0], NAME, TABLE, recorder.sink, ParallelizationFactor=8)
            readers = [
                stack.enter_context(Reader(addresses, arn, habits, seed=place))
                for place, habits in enumerate((STEADY, FORGETFUL))
            ]
            with Writers(ledger, addresses, writers=WRITERS, batches=BATCHES, seed=seed) as writers:
                for _ in range(KILLS):
                    writers.wait_for(dice.randrange(WRITES // 2, WRITES))
                    killed = dice.randrange(2)
                    survivor = nodes.url_of(1 - killed)
                    checkpoints.append(checkpoint(recorder, survivor))
                    nodes.kill(killed)
                    writers.wait_for(WRITES // 2)
                    nodes.start(killed)
                    nodes.settle()
            for url in nodes.urls:
                expired(url)
                settle(url, 120)
            disable(nodes.urls[0])
            for reader in readers:
                reader.join(600)
            others = [stack.enter_context(Reader(Addresses([url]), arn)) for url in nodes.urls]
            for other in others:
                other.join(600)
            letters = ask(nodes.urls[0], "Foldb_20261121.ListDeadLetters", {"Name": NAME}).body["DeadLetters"]
        whole = readers[0].shards
        checked = sum(map(len, whole.values())) + recorder.count()
        for reader in (*readers, *others):
            found = judge(reader.shards, ledger)
            assert {} == found.counts, found
            assert by_partition(whole) == by_partition(reader.shards), "readers of two nodes differ"
        called = judge_calls(recorder.calls(), by_partition(whole), checkpoints)
        assert {} == called.counts, called
        assert [] == letters
        failures = 0
    finally:
        record(
            test="feed and triggers: nodes killed, on Kafka",
            seeds=str(seed),
            cycles=KILLS,
            faults={"node killed": KILLS},
            acknowledged=ledger.changes(),
            checked=checked,
            failures=failures,
        )


def checkpoint(recorder: Recorder, url: str) -> tuple[int, Checkpoints]:
    """Return the number of recorded calls, and a checkpoint read before that."""
    marks = {int(partition): int(number) for partition, number in described(url, NAME)["Checkpoints"].items()}
    return recorder.count(), marks
