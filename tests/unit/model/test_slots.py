"""Every slot has one owner, and a scan in the order of slots goes from partition to partition."""

import pytest

from foldb.model.keys import SLOTS, key_hash, slot
from foldb.model.slots import CATALOG, data_partitions, partition_of, partition_of_key, slots_of

NUMBERS = [1, 2, 3, 4, 5, 9, 17, 100, 257]


@pytest.mark.parametrize("partitions", NUMBERS)
def test_each_slot_is_owned_once_in_the_order_of_partitions(partitions: int) -> None:
    owned = [number for partition in range(partitions) for number in slots_of(partition, partitions)]

    assert list(range(SLOTS)) == owned


@pytest.mark.parametrize("partitions", NUMBERS)
def test_the_owner_of_a_slot_has_it_in_its_range(partitions: int) -> None:
    for number in range(SLOTS):
        assert number in slots_of(partition_of(number, partitions), partitions)


@pytest.mark.parametrize("partitions", NUMBERS[1:])
def test_partitions_own_about_the_same_and_the_catalog_nothing(partitions: int) -> None:
    sizes = [len(slots_of(partition, partitions)) for partition in data_partitions(partitions)]

    assert partitions - 1 == len(sizes)
    assert max(sizes) - min(sizes) <= 1
    assert 0 == len(slots_of(CATALOG, partitions))


def test_these_places_are_in_every_log() -> None:
    """They may never change: the items of a log would be elsewhere than its commands."""
    keys = [b"", b"car", b"\x00\xff", "é".encode()]

    assert [4, 7, 4, 2] == [partition_of_key(7, pk, 9) for pk in keys]
    assert [(0, 511), (1536, 2047), (3584, 4095)] == [
        (slots[0], slots[-1]) for slots in (slots_of(1, 9), slots_of(4, 9), slots_of(8, 9))
    ]


@pytest.mark.parametrize("partitions", NUMBERS)
def test_a_key_lives_where_its_slot_does(partitions: int) -> None:
    for n in range(200):
        pk = b"key %d" % n
        assert partition_of(slot(key_hash(3, pk)), partitions) == partition_of_key(3, pk, partitions)
