"""The sketch of a table's traffic, against exact counts."""

import tracemalloc
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from itertools import accumulate
from random import Random

import pytest

from foldb.model.keys import SLOTS, Slots
from foldb.server.usage import sketch
from foldb.server.usage.sketch import (
    BUCKETS_MS,
    COLUMNS,
    HALF_LIFE_MS,
    ROWS,
    HeavyKeys,
    Layer,
    LayerSketch,
    Sketch,
)

TABLE = 7
KEYS = [b"customer-%06d" % n for n in range(100_000)]


class Clock:
    """A clock that a test sets."""

    def __init__(self, now_ms: int = 1_763_900_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def counted(keys: Iterable[bytes], value: int = 2, clock: Clock | None = None) -> LayerSketch:
    clock = clock or Clock()
    layer = LayerSketch(TABLE, clock)
    for key in keys:
        layer.count(key, value)
    layer.flush(clock())
    return layer


def row_of(key: bytes) -> int:
    return Slots(TABLE).of(key) * ROWS // SLOTS


def zipf(operations: int, seed: int) -> list[bytes]:
    """Return operations on 100,000 keys, of which number n has a share proportional to n ** -1.1."""
    weights = list(accumulate(rank**-1.1 for rank in range(1, len(KEYS) + 1)))
    keys = KEYS.copy()
    Random(seed).shuffle(keys)
    return Random(seed).choices(keys, cum_weights=weights, k=operations)


def rows_of(layer: LayerSketch) -> list[int]:
    """Return the sum of each row of the first grid."""
    return [sum(column) for column in zip(*layer.grids[0].cells.values(), strict=True)]


def test_the_ten_heaviest_of_a_million_operations_are_found() -> None:
    operations = zipf(1_000_000, seed=1)
    exact = Counter(operations)

    keys = counted(operations, value=2).keys

    found = keys.heaviest(10)
    assert [key for key, _ in exact.most_common(10)] == [key for key, _ in found]
    assert all(2 * exact[key] - keys.error <= count <= 2 * exact[key] for key, count in found)
    assert 2_000_000 == keys.total
    assert 0 < keys.error < keys.total // 1_000


@pytest.mark.parametrize("seed", range(20))
def test_a_count_lacks_at_most_the_error(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after half-lives and merges. The model has exact fractions."""
    monkeypatch.setattr(sketch, "_COUNTER_BYTES", 20 * (sketch._ENTRY_BYTES + 15))
    random, now_ms = Random(seed), 0
    nodes = [HeavyKeys(now_ms) for _ in range(3)]
    exact: dict[bytes, Fraction] = {}
    halvings = 0
    for _ in range(200):
        if random.random() < 0.05:
            halved = random.choice((1, 1, 1, 2, 5))
            now_ms += halved * HALF_LIFE_MS
            halvings += 1
            exact = {key: value / 2**halved for key, value in exact.items()}
            for node in nodes:
                node.decay(now_ms)
        values = {KEYS[int(random.paretovariate(0.8)) % 300]: random.randrange(1, 50) for _ in range(15)}
        random.choice(nodes).add(values)
        for key, value in values.items():
            exact[key] = exact.get(key, Fraction()) + value
    merged, *others = nodes
    for each in others:
        merged.merge(each)

    assert all(exact[key] >= count for key, count in merged.counts.items())
    assert all(value - merged.counts.get(key, 0) <= merged.error for key, value in exact.items())
    assert abs(sum(exact.values(), Fraction()) - merged.total) <= Fraction(len(nodes) * halvings)
    assert merged.error <= merged.total / 20 + 2 * len(nodes) * (halvings + 1)


def test_merged_nodes_have_the_counts_of_one() -> None:
    operations, clock = zipf(20_000, seed=2), Clock()
    whole, parts = Sketch(TABLE, clock), [Sketch(TABLE, clock) for _ in range(3)]
    for nth, key in enumerate(operations):
        for layer, value in zip(Layer, (1, 2, 3), strict=True):
            whole.layers[layer].count(key, value)
            parts[nth % 3].layers[layer].count(key, value)

    merged = Sketch(TABLE, clock)
    for part in parts:
        merged.merge(part.encode())

    exact = Counter(operations)
    for layer, value in zip(Layer, (1, 2, 3), strict=True):
        keys = merged.layers[layer].keys
        top = [key for key, _ in keys.heaviest(5)]
        assert value * len(operations) == keys.total == sum(rows_of(merged.layers[layer]))
        assert all(value * exact[key] - keys.counts[key] in range(keys.error + 1) for key in top)
        assert top == [key for key, _ in whole.layers[layer].keys.heaviest(5)]


def test_old_traffic_loses_half_its_weight() -> None:
    clock = Clock(HALF_LIFE_MS)
    layer = counted([b"old"] * 64, 2, clock)
    weights = []
    for _ in range(4):
        clock.now_ms += HALF_LIFE_MS
        layer.flush(clock())
        weights.append((layer.keys.counts[b"old"], layer.keys.total))
    clock.now_ms += 100 * HALF_LIFE_MS
    layer.count(b"new", 2)
    layer.flush(clock())

    assert [(64, 64), (32, 32), (16, 16), (8, 8)] == weights
    assert {b"new": 2} == layer.keys.counts
    assert layer.keys.error <= 2


def test_a_hot_key_is_one_bright_row() -> None:
    """Row S65 of the specification: all reads are of one item, so all of them are in one key range."""
    random = Random(3)
    layer = counted([b"hot" if random.random() < 0.9 else random.choice(KEYS) for _ in range(50_000)])

    rows = rows_of(layer)

    assert max(rows) == rows[row_of(b"hot")]
    assert rows[row_of(b"hot")] > 0.9 * sum(rows)
    assert max(rows[: row_of(b"hot")] + rows[row_of(b"hot") + 1 :]) < 0.01 * sum(rows)


def test_rows_of_many_keys_are_near_their_exact_sums() -> None:
    """A full dict of pending keys is sampled; no value is lost, and none counts twice."""
    operations = Random(4).choices(KEYS, k=100_000)
    exact = Counter(map(row_of, operations))

    rows = rows_of(counted(operations, value=2))

    assert 2 * len(operations) == sum(rows)
    assert all(abs(found - 2 * exact[row]) < 0.25 * 2 * exact[row] for row, found in enumerate(rows))


def test_few_keys_are_counted_exactly_by_row() -> None:
    keys = KEYS[:200]

    rows = rows_of(counted(keys, value=3))

    assert [3 * count for _, count in sorted(Counter(map(row_of, keys)).items())] == [n for n in rows if n]


def test_grids_have_the_newest_time_buckets() -> None:
    clock = Clock(0)
    layer = LayerSketch(TABLE, clock)
    for minute in range(200):
        clock.now_ms = minute * 60_000
        layer.count(b"key", 1)
        layer.flush(clock())

    found = [sorted(grid.cells) for grid in layer.grids]

    last_ms = 199 * 60_000
    assert [
        [n for n in range(last_ms // 10_000 - COLUMNS + 1, 1195) if n % 6 == 0],
        [*range(140, 200)],
    ] == found
    assert all(
        sum(map(sum, grid.cells.values())) == len(grid.cells) and grid.bucket_ms == bucket_ms
        for grid, bucket_ms in zip(layer.grids, BUCKETS_MS, strict=True)
    )


def test_a_clock_that_is_set_back_loses_nothing() -> None:
    clock = Clock(100 * HALF_LIFE_MS)
    layer = counted([b"key"] * 10, 1, clock)
    clock.now_ms -= 50 * HALF_LIFE_MS
    layer.count(b"key", 1)
    layer.flush(clock())
    clock.now_ms += 50 * HALF_LIFE_MS
    layer.flush(clock())

    assert {b"key": 11} == layer.keys.counts
    assert all(len(grid.cells) <= COLUMNS for grid in layer.grids)


@pytest.mark.parametrize("length", [12, 60, 2048])
def test_a_sketch_takes_at_most_a_megabyte(length: int) -> None:
    """With all time buckets, and then with a different key in each request."""
    clock = Clock(0)
    tracemalloc.start()
    try:
        full = Sketch(TABLE, clock)
        for layer in full.layers.values():
            for step in range(2 * COLUMNS):
                clock.now_ms = 60_000 * min(step, COLUMNS) + 10_000 * max(0, step - COLUMNS)
                layer.count(b"first", 1)
                layer.flush(clock())
            for n in range(3_000):
                layer.count((b"%012d" % n) + bytes(length - 12), 1_000 + n)
        files = [tracemalloc.Filter(True, name) for name in (__file__, sketch.__file__)]  # no other threads
        used = sum(each.size for each in tracemalloc.take_snapshot().filter_traces(files).traces)
    finally:
        tracemalloc.stop()

    assert 300_000 < used < 1_000_000
