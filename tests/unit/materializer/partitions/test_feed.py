"""Captured changes of several partitions, and the transactions in them, from a seed."""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache

import orjson
import pytest

from foldb.log.commands import Defined as DefinedMessage
from foldb.log.commands import Relay, Transact
from foldb.materializer.fold import LEVEL, fold
from foldb.materializer.fold.outcomes import Change, Tx
from foldb.materializer.fold.state import PartitionState
from foldb.streams.changes import changes
from tests.unit.materializer.partitions.life import Life

SEEDS = 16

Labels = dict[int, set[int]]


@cache
def life_of(seed: int) -> Life:
    """Return a completed life; every other one began at an older level."""
    life = Life(seed, level=2 if seed % 2 else LEVEL)
    life.live(steps=250)
    life.rest()
    return life


def walked(life: Life, partition: int) -> Iterator[tuple[Change, set[int]]]:
    """Yield the changes of a partition, each with the labels of the captures that its definitions require."""
    state, on, received = PartitionState(), Labels(), 0
    for record in life.cluster.records[partition]:
        for change in changes(fold(state, record), None, partition, life.cluster.partitions):
            yield change, on.get(change.table, set())
        for command in record.entry.commands:
            if isinstance(command, Relay) and command.sender == 0 and command.message_number == received:
                received += 1
                if isinstance(command.message, DefinedMessage):
                    on[command.message.table] = _labels(command.message)


def _labels(message: DefinedMessage) -> set[int]:
    definition = {} if message.definition is None else orjson.loads(message.definition)
    stream = definition.get("stream") or {}
    watched = {0} if definition.get("watched") else set()
    return watched | ({stream["created_ms"]} if stream.get("enabled") and "shard_ms" in stream else set())


@pytest.mark.parametrize("seed", range(SEEDS))
def test_each_partition_captures_by_the_definitions_in_its_own_log(seed: int) -> None:
    life = life_of(seed)
    for partition in life.cluster.data:
        state = life.cluster.states[partition]
        for change, labels in walked(life, partition):
            windows = state.capture_periods(change.table)
            assert labels == {window.label for window in windows if window.holds(change.sequence_number)}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_open_capture_periods_are_those_that_the_tables_require(seed: int) -> None:
    """At rest all partitions agree, the catalog too, and all remember former names of tables."""
    life = life_of(seed)
    windows = [
        sorted((each.table, each.label, each.view, each.shard_ms, each.is_open) for each in of_one)
        for of_one in (
            [one for each in state.periods.values() for one in each] for state in life.cluster.states
        )
    ]

    assert all(windows[1] == each for each in windows[2:])
    assert [each for each in windows[0] if each[-1]] == [each for each in windows[1] if each[-1]]
    for table_id, table in life.cluster.catalog.tables.items():
        named = [one for one in life.cluster.catalog.subscriptions.values() if table_id in one.table_ids]
        assert bool(named) == table.definition.watched


@pytest.mark.parametrize("seed", range(SEEDS))
def test_changes_of_a_transaction_share_its_id_in_all_partitions(seed: int) -> None:
    """The id is the Transact's position; the changes are numbered from 0 without a gap, in the order of its actions."""
    life = life_of(seed)
    asked = {
        f"{partition}:{record.offset}.{index}": command
        for partition, records in enumerate(life.cluster.records)
        for record in records
        for index, command in enumerate(record.entry.commands)
        if isinstance(command, Transact)
    }
    made: dict[str, dict[Tx, Change]] = defaultdict(dict)
    for change in (change for partition in life.cluster.data for change, _ in walked(life, partition)):
        if change.tx is not None:
            made[change.tx.id][change.tx] = change

    for name, parts in made.items():
        keys = [(action.table, action.pk) for action in asked[name].actions]
        places = [keys.index((parts[tx].table, parts[tx].pk)) for tx in sorted(parts)]
        assert sorted(places) == places
        whole = {Tx(name, n, next(iter(parts)).of) for n in range(next(iter(parts)).of)}
        # A table that is deleted between a vote and its commit removes its part of the changes.
        gone = any(action.table not in life.cluster.catalog.tables for action in asked[name].actions)
        assert parts.keys() == whole or (gone and parts.keys() < whole)


def test_random_runs_have_the_cases_that_are_checked() -> None:
    lives = [life_of(seed) for seed in range(4)]
    walks = [each for life in lives for partition in life.cluster.data for each in walked(life, partition)]

    assert {True, False} == {bool(labels) for _, labels in walks}
    assert {True, False} == {change.tx is None for change, _ in walks}
    assert {1, 2} == {change.tx.of for change, _ in walks if change.tx is not None}
