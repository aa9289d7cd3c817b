"""Reads at the positions of a live answer show the transactions that were decided there and applied later."""

import random
from dataclasses import dataclass, replace
from typing import Any

import pytest

from foldb.log.commands import Context, Position, Transact
from foldb.materializer.fold.read_requests import Page, QueryRequest, ScanRequest
from foldb.materializer.fold.reads import PageReader
from foldb.materializer.fold.transactions.decided import decided_effect, decided_effects
from foldb.materializer.history.epochs import memory_history
from foldb.materializer.history.history import History, NotFoldedError
from foldb.materializer.history.reads import read_past
from foldb.materializer.history.requests import AtInstant, GetItems, PastItems
from tests.unit.materializer.history.past import ListLog
from tests.unit.materializer.ledger import delete, index_request, put
from tests.unit.materializer.partitions.cluster import Cluster

Read = GetItems | QueryRequest | ScanRequest


@dataclass
class Answer:
    """A live read of one partition at an instant, and the positions of all partitions."""

    partition: int
    read: Read
    found: Page | PastItems
    positions: list[Position]

    def again(self, history: History, index: int | None = None) -> Any:
        """Read the past at the positions."""
        own = replace(self.positions[self.partition], index=index)
        return read_past(history, own, AtInstant(self.read, self.positions), len(self.positions))[0]


def positions(cluster: Cluster) -> list[Position]:
    return [Position(each, len(records) - 1) for each, records in enumerate(cluster.records)]


def page(cluster: Cluster, partition: int, read: QueryRequest | ScanRequest) -> Page:
    """Read a page as server/routing/instant_reads.py does."""
    state = cluster.states[partition]
    reader = PageReader(state.tables[read.table], read)
    for _, effect in decided_effects(cluster.states, partition, read.table):
        reader.lay(effect, state.limits)
    found = reader.read(1 << 62)
    assert found is not None
    return found


def items(cluster: Cluster, partition: int, read: GetItems) -> PastItems:
    state, found = cluster.states[partition], []
    for key in read.keys:
        decided = decided_effect(cluster.states, partition, key)
        if decided is None:
            found.append(state.tables[key[0]].items.get(key[1], key[2]))
        else:
            item = getattr(decided[1], "item", None)
            found.append(None if item is None else (item, decided[1].size))  # type: ignore[union-attr]
    return PastItems(found)


def reads(dice: random.Random, table: int, pk: bytes) -> list[Read]:
    of, forward = dice.choice((None, "by-n")), dice.random() < 0.5
    return [
        ScanRequest(table, of, limit=dice.choice((None, 2)), consistent=True),
        QueryRequest(table, of, pk, b"", None, forward=forward, consistent=True),
        QueryRequest(table, "by-n", pk, b"", None, consistent=True, all_attributes=True),
    ]


def histories(cluster: Cluster, floor: float) -> list[History]:
    found = []
    for partition, records in enumerate(cluster.records):
        epochs = memory_history(ListLog(records), partition, floor=floor)
        epochs.catch_up()
        found.append((epochs, epochs.history))
    return [_Caught(*each) for each in found]


class _Caught:
    """A history that builds an epoch that a read needs."""

    def __init__(self, epochs: Any, history: Any) -> None:
        self.epochs, self.history = epochs, history

    def __getattr__(self, name: str) -> Any:
        return getattr(self.history, name)

    def at(self, cut: Any) -> Any:
        try:
            return self.history.at(cut)
        except NotFoldedError:
            self.epochs.catch_up()
            return self.history.at(cut)


@pytest.mark.parametrize("seed", range(4))
def test_an_instant_is_read_again_at_its_positions(seed: int, floor: float) -> None:
    dice = random.Random(f"instant {seed}")
    cluster = Cluster(data=3)
    by_n = index_request("by-n", "pk", "n", projection="KEYS_ONLY")
    table = cluster.create("T", "pk:S sk:N", LocalSecondaryIndexes=[by_n])
    table_id = table.definition.id
    answers: list[Answer] = []

    def action() -> Any:
        key = {"pk": {"S": dice.choice("abcdef")}, "sk": {"N": str(dice.randrange(2))}}
        if dice.random() < 0.3:
            return delete(table, key)
        return put(table, {**key, "n": {"S": str(dice.randrange(5))}})

    def store() -> None:
        for partition in cluster.data:
            held = list(cluster.states[partition].transactions.held)
            laid = [each for each in held if decided_effect(cluster.states, partition, each)]
            pk = dice.choice(laid)[1] if laid else action().pk
            at = positions(cluster)
            for read in reads(dice, table_id, pk):
                answers.append(Answer(partition, read, page(cluster, partition, read), at))  # type: ignore[arg-type]
            get = GetItems(laid or [(table_id, pk, action().sk)])
            answers.append(Answer(partition, get, items(cluster, partition, get), at))

    for number in range(50):
        if dice.random() < 0.6:
            actions = {(each.pk, each.sk): each for each in (action() for _ in range(3))}
            token = None if dice.random() < 0.7 else f"token {number}"
            transact = Transact(list(actions.values()), Context("T"), token, b"")
            cluster.fold(dice.choice(cluster.data), transact)
        else:
            cluster.write(action())
        for _ in range(dice.randrange(2, 9)):
            cluster.disturb(dice)
            store()
    cluster.settle()

    past = histories(cluster, floor)
    plain = 0
    for answer in answers:
        assert answer.found == answer.again(past[answer.partition]), answer
        own = answer.positions[answer.partition]
        plain += answer.found != read_past(past[answer.partition], own, answer.read, cluster.partitions)[0]
    assert plain > 10, "many differ without the decided transactions"
