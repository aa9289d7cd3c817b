"""Capacity partitions cover the key space; the model is a sorted list of boundaries that is searched from its start."""

import random

import pytest

from foldb.model.capacity_partitions import (
    HIGHEST,
    LOWEST,
    PARTITIONS_MAX,
    Boundary,
    PartitionMap,
    Split,
    partitions_for,
)
from foldb.model.errors import ValidationError
from foldb.model.keys import SLOTS, key_hash, slot

Key = tuple[int, bytes, bytes]


def split(partition: int, boundary: Boundary, time_ms: int = 1) -> Split:
    return Split(partition, boundary, "heat", time_ms)


def random_key(dice: random.Random) -> Key:
    pk = b"pk %d" % dice.randrange(12)
    return key_hash(7, pk), pk, b"%d" % dice.randrange(20)


def random_boundary(dice: random.Random) -> Boundary:
    hash_, pk, sk = random_key(dice)
    return dice.choice((Boundary(hash_), Boundary(hash_ + 1), Boundary(hash_, pk, sk)))


@pytest.mark.parametrize("seed", range(30))
def test_random_splits_divide_keys_as_the_model_does(seed: int) -> None:
    dice = random.Random(seed)
    present = PartitionMap(dice.choice((1, 2, 3, 7, 8)))
    ranges = {each.id: (tuple(each.low), tuple(each.high)) for each in present.partitions}
    for step in range(60):
        partition, boundary = dice.choice([*ranges]), random_boundary(dice)
        low, high = ranges[partition]
        if low < tuple(boundary) < high:
            present = present.split(split(partition, boundary, step))
            del ranges[partition]
            first = max(each.id for each in present.partitions) - 1
            ranges |= {first: (low, tuple(boundary)), first + 1: (tuple(boundary), high)}
        else:
            with pytest.raises(ValidationError, match="not inside"):
                present.split(split(partition, boundary, step))
        key = random_key(dice)
        [wanted] = [id_ for id_, (low, high) in ranges.items() if low <= key < high]
        assert wanted == present.of(*key).id
        assert wanted == present.partitions[present.index_of(*key)].id

    assert present == PartitionMap.from_json(present.to_json())
    assert present.partitions == PartitionMap.from_json(present.to_json()).partitions


@pytest.mark.parametrize("seed", range(10))
def test_partitions_have_no_gap_and_ids_are_never_reused(seed: int) -> None:
    dice = random.Random(seed)
    present, used = PartitionMap(3), {0, 1, 2}
    for _ in range(40):
        parent = dice.choice([each for each in present.partitions if each.middle is not None])
        assert parent.middle is not None
        present = present.split(split(parent.id, parent.middle))
        children = [each for each in present.partitions if each.parent == parent.id]
        assert 2 == len(children)
        assert used.isdisjoint(each.id for each in children)
        assert (parent.low, parent.high) == (children[0].low, children[1].high)
        used.update(each.id for each in children)

    assert [LOWEST, *(each.high for each in present.partitions)] == [
        *(each.low for each in present.partitions),
        HIGHEST,
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 100, SLOTS])
def test_a_map_begins_with_equal_ranges_of_slots(count: int) -> None:
    begun = PartitionMap(count)

    for n in range(300):
        hash_ = key_hash(3, b"key %d" % n)
        assert slot(hash_) * count // SLOTS == begun.of(hash_).id


def test_a_boundary_is_never_at_the_edge_of_its_partition() -> None:
    halved = PartitionMap().split(split(0, Boundary(1 << 63)))

    for partition, boundary in ((1, LOWEST), (1, Boundary(1 << 63)), (2, Boundary(1 << 63)), (2, HIGHEST)):
        with pytest.raises(ValidationError, match="not inside"):
            halved.split(split(partition, boundary))


def test_a_partition_that_was_split_is_not_split_again() -> None:
    halved = PartitionMap().split(split(0, Boundary(1 << 63)))

    with pytest.raises(ValidationError, match="no capacity partition 0"):
        halved.split(split(0, Boundary(1 << 62)))


def test_a_single_hash_has_no_middle_but_its_collection_splits() -> None:
    hash_ = key_hash(7, b"hot")
    isolated = PartitionMap().split(split(0, Boundary(hash_))).split(split(2, Boundary(hash_ + 1)))
    collection = isolated.of(hash_, b"hot")

    divided = isolated.split(split(collection.id, Boundary(hash_, b"hot", b"m")))

    assert collection.middle is None
    assert divided.of(hash_, b"hot", b"a") is not divided.of(hash_, b"hot", b"m")


def test_a_map_of_the_maximum_size_is_not_split() -> None:
    with pytest.raises(ValidationError, match="at most 4,096"):
        PartitionMap(PARTITIONS_MAX).split(split(0, Boundary(1)))


def test_the_rule_of_the_guide_counts_reads_and_writes() -> None:
    assert (1, 1, 2, 5, 8) == tuple(
        partitions_for(read, write)
        for read, write in ((1, 1), (1500, 500), (3000, 1000), (10, 4000), (12_000, 4000))
    )
    assert PARTITIONS_MAX == partitions_for(10**9, 10**9)
