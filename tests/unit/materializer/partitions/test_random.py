"""Partitions converge after any sequence of events, from a seed."""

import os

import pytest

from tests.unit.materializer.partitions import projection
from tests.unit.materializer.partitions.cluster import Cluster
from tests.unit.materializer.partitions.life import Life
from tests.verification import reliability

SOAK = bool(os.environ.get("FOLDB_SOAK"))
SEEDS, SEEDS_OF_A_SOAK = 40, 2000


def stored(cluster: Cluster) -> dict[tuple[int, bytes, bytes], bytes]:
    """Return the items of all partitions, each in the partition of its key."""
    found = {}
    for partition in cluster.data:
        for table_id, table in cluster.states[partition].tables.items():
            for _, pk, sk, (item, _) in table.items.scan():
                assert partition == cluster.home_of(table_id, pk)
                found[table_id, pk, sk] = item
    return found


def assert_at_rest(cluster: Cluster) -> None:
    """Assert that no message is left or deferred, and that all partitions agree on every table."""
    for sender, receiver in cluster.pairs():
        outbox = cluster.states[sender].outboxes[receiver]
        assert not outbox.unacknowledged
        assert outbox.next_message_number == cluster.states[receiver].received[sender]
    for state in cluster.states:
        assert 0 == state.unacknowledged_bytes
        assert [] == state.deferred
        assert state.transactions.idle
        assert {} == state.rollout.pending
        assert {} == state.rollout.filled
        assert cluster.catalog.names == state.names
        for table_id, table in cluster.catalog.tables.items():
            assert table.definition == state.tables[table_id].definition
            assert {"ACTIVE"} == {table.definition.status, *(one.status for one in table.definition.indexes)}
            assert not any(one.backfilling for one in table.definition.indexes)


def live(seed: int) -> int:
    """Run one life and check its end; return the number of compared index entries."""
    life = Life(seed)
    life.live(steps=150)
    life.rest()

    assert_at_rest(life.cluster)
    assert life.feed() == stored(life.cluster)
    return projection.check(life.cluster)


@pytest.mark.guarantee("G29")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_partitions_converge_under_any_order_and_loss(seed: int) -> None:
    live(seed)


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="long")
def test_partitions_come_to_agree_in_many_lives() -> None:
    checked = sum(live(seed) for seed in range(SEEDS_OF_A_SOAK))

    reliability.record(
        test="folds of several partitions, their messages in any order",
        seeds=f"0-{SEEDS_OF_A_SOAK - 1}",
        cycles=SEEDS_OF_A_SOAK,
        checked=checked,
    )
