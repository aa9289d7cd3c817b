"""Shards after splits: a consumer that reads parents first gets each change once, and each key's changes in order.

The oracle is a list of boundaries with the number of changes before each, and the times of the changes.
"""

import random
from bisect import bisect_right, insort
from collections import defaultdict
from typing import Any

import pytest

from foldb.materializer.feed_requests import Changes, ListShards, ReadChanges, Shard
from foldb.materializer.fold.feed.capture import CapturePeriod, ShardSplit
from foldb.model.capacity_partitions import Boundary
from foldb.model.key_schema import KeySchema
from foldb.model.keys import key_hash
from foldb.model.throughput import partition_map
from foldb.streams.feed.shards import shard_end
from foldb.streams.feed.table_changes import MAX_FILTERED
from tests.unit.materializer.ledger import put
from tests.unit.materializer.splitting import split_command
from tests.unit.streams.feed.bench import SHARD_MS, Bench
from tests.unit.streams.feed.life import Entry, Life

KEYS = "abcdefgh"
HASHES = 1 << 64


@pytest.fixture
def bench() -> Bench:
    return Bench()


def split(target: Bench | Life, table: int, boundary: Boundary) -> bool:
    """Split the capacity partition of a boundary; return False if it is at the edge of one."""
    definition = target.worker.state.tables[table].definition
    partition = partition_map(definition, definition).of(*boundary)
    if partition.low == boundary:
        return False
    target.submit(split_command(definition, partition.id, boundary))
    return True


def listed(life: Life, table: int) -> list[Shard]:
    found: list[Shard] = life.ask(ListShards(table, life.books.labels[table])).shards
    return found


def read_shard(life: Life, table: int, shard: Shard) -> list[Any]:
    """Read a shard to its end, or to the end of the feed while it is open."""
    found: list[Any] = []
    after = shard.first - 1
    while True:
        limit, size = life.dice.choice([(1, 1 << 20), (3, 1 << 20), (1000, 1), (1000, 1 << 20)])
        label = life.books.labels[table]
        page: Changes = life.ask(
            ReadChanges(table, after, stream=label, limit=limit, size=size, shard=shard.key)
        )
        found += page.changes
        assert page.is_over or after <= page.next
        if page.is_over or page.is_end:
            assert page.is_over == (shard.last is not None)
            return found
        after = page.next


@pytest.mark.spec("F7", served=False)
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(25))
def test_each_change_is_in_the_shard_of_its_key_and_time(seed: int) -> None:
    dice = random.Random(seed)
    life = Life(dice, retention_ms=dice.choice([4000, 10**9, 10**9]))
    table = life.create("T")
    splits: list[tuple[int, Boundary]] = []  # the number of changes before it, and its boundary

    def write() -> None:
        keys = [dice.choice(KEYS) for _ in range(dice.randrange(1, 6))]
        life.write(
            table, *((key, {"n": {"N": str(dice.randrange(99))}, "x": {"S": "x" * 90}}) for key in keys)
        )

    def divide() -> None:
        hash_ = key_hash(table, dice.choice(KEYS).encode())
        boundary = Boundary(dice.choice([hash_, hash_ + 1, dice.randrange(1, HASHES)]))
        if split(life, table, boundary):
            splits.append((len(life.books.changes), boundary))

    def pass_time() -> None:
        life.now += dice.choice([1, 300, SHARD_MS, 5000])

    def work() -> None:
        life.writing.run(dice.randrange(1, 4))

    often = [write] * 12 + [divide] * 2 + [pass_time] * 3 + [work] * 3 + [life.sync]
    for _ in range(60):
        dice.choice([*often, life.snapshot, life.stop, life.kill])()
    life.check()

    shards = listed(life, table)
    read = {shard.key: read_shard(life, table, shard) for shard in shards}
    everything, _ = life.read_all(table, life.books.labels[table])
    numbers = sorted(change.sequence_number for each in read.values() for change in each)
    assert [change.sequence_number for change in everything] == numbers
    assert _groups(life, splits, len(everything)) == {
        tuple(change.sequence_number for change in each) for each in read.values() if each
    }
    _check_lineage(shards, complete=life.retention_ms == 10**9)


def _groups(life: Life, splits: list[tuple[int, Boundary]], kept: int) -> set[tuple[int, ...]]:
    """Return the sequence numbers of the last changes by the range of their key and the period of their time."""
    label = life.books.labels[life.table]
    groups: dict[Any, list[int]] = defaultdict(list)
    boundaries: list[Boundary] = []
    pending = list(splits)
    for nth, entry in enumerate(life.books.changes):
        while pending and pending[0][0] <= nth:
            insort(boundaries, pending.pop(0)[1])
        if nth >= len(life.books.changes) - kept:
            groups[_range_of(entry, boundaries), (entry.time - label) // SHARD_MS].append(entry.number or 0)
    return {tuple(group) for group in groups.values()}


def _range_of(entry: Entry, boundaries: list[Boundary]) -> Any:
    at: int = bisect_right(boundaries, Boundary(key_hash(entry.table, entry.pk), entry.pk))
    return (boundaries[at - 1] if at else None, boundaries[at] if at < len(boundaries) else None)


def _check_lineage(shards: list[Shard], *, complete: bool) -> None:
    """Check that each shard follows a listed one, unless that is trimmed, and that a split has two children."""
    followed: dict[tuple[int, int], list[int]] = defaultdict(list)
    for shard in shards:
        before = [each for each in shards if each.last == shard.first - 1 and each.path[-1] in shard.path]
        assert len(before) == (1 if complete and shard is not shards[0] else len(before)) <= 1
        for each in before:
            followed[each.key].append(shard.path[-1])
    for shard in shards:
        children = followed[shard.key]
        assert children in ([], [shard.path[-1]]) or (
            2 == len(set(children)) and all(child > shard.path[-1] for child in children)
        )
        assert bool(children) == (shard.last is not None)


def test_a_split_closes_a_shard_and_opens_two_children(bench: Bench) -> None:
    table = bench.create()
    bench.put(table, "a")
    hash_ = key_hash(table, b"a")

    assert split(bench, table, Boundary(hash_))
    bench.put(table, "a", n={"N": "1"})

    parent, low, high = bench.answer(ListShards(table, bench.label(table))).shards
    assert parent.last == low.first - 1 == high.first - 1
    assert [[0], [0, 1], [0, 2]] == [each.path for each in (parent, low, high)]
    reads = [
        bench.read(table, each.first - 1, stream=bench.label(table), shard=each.key)
        for each in (parent, low, high)
    ]
    assert [1, 0, 1] == [len(page.changes) for page in reads]
    assert [True, False, False] == [page.is_over for page in reads]


def test_a_shard_of_another_range_stays_open(bench: Bench) -> None:
    table = bench.create()
    split(bench, table, Boundary((1 << 63) + 1))

    split(bench, table, Boundary((1 << 62) + 1))

    shards = bench.answer(ListShards(table, bench.label(table))).shards
    assert [(0, False), (1, False), (2, True), (3, True), (4, True)] == [
        (each.path[-1], each.last is None) for each in shards
    ]


def test_a_stream_begins_with_one_shard_after_splits(bench: Bench) -> None:
    table = bench.create("T", BillingMode="PAY_PER_REQUEST")
    split(bench, table, Boundary(3))
    bench.define(table, {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}})

    [shard] = bench.answer(ListShards(table, bench.label(table))).shards

    assert ([0], None) == (shard.path, shard.last)


def test_the_shards_of_a_disabled_stream_all_end(bench: Bench) -> None:
    table = bench.create()
    split(bench, table, Boundary(3))
    label = bench.label(table)

    bench.define(table, {"StreamSpecification": {"StreamEnabled": False}})

    shards = bench.answer(ListShards(table, label)).shards
    assert 3 == len(shards)
    assert all(bench.read(table, shard.first - 1, stream=label, shard=shard.key).is_over for shard in shards)


def test_a_read_of_a_child_filters_a_bounded_part_of_the_feed(bench: Bench) -> None:
    """Its work is done on the server's loop; the reader continues with the next page."""
    table = bench.create()
    split(bench, table, Boundary(key_hash(table, b"a")))
    item = bench.worker.state.tables[table]
    puts = [put(item, {"pk": {"S": "a"}, "n": {"N": str(nth)}}) for nth in range(MAX_FILTERED + 1)]
    bench.submit(*puts)
    _, low, high = bench.answer(ListShards(table, bench.label(table))).shards

    first = bench.read(table, low.first - 1, stream=bench.label(table), shard=low.key)
    second = bench.read(table, first.next, stream=bench.label(table), shard=low.key)

    assert ([], False, [], True) == (first.changes, first.is_end, second.changes, second.is_end)
    [last] = bench.read(table, first.next, stream=bench.label(table), shard=high.key).changes
    assert b'"n":{"N":"%d"}' % MAX_FILTERED in (last.new or b"")


class CountedBoundary(Boundary):
    """A boundary that counts its comparisons."""

    comparisons = 0

    def __lt__(self, other: Any) -> bool:
        CountedBoundary.comparisons += 1
        return super().__lt__(other)

    def __gt__(self, other: Any) -> bool:
        CountedBoundary.comparisons += 1
        return super().__gt__(other)


def test_the_end_of_a_shard_is_found_among_many_splits() -> None:
    """Each GetRecords asks for it, on the server's loop."""
    dice = random.Random(1)
    splits = [ShardSplit(2 + nth, 0, CountedBoundary(dice.randrange(1, HASHES))) for nth in range(1000)]
    key = KeySchema.from_json([["pk", "S", "HASH"]])
    stream = CapturePeriod(1, 1000, "T", key, None, SHARD_MS, 1, splits=tuple(splits))
    CountedBoundary.comparisons = 0

    assert 1 == shard_end((), stream, (0, 0))[0]

    assert CountedBoundary.comparisons < 20 * len(splits)
