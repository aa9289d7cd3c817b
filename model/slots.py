"""Which partition owns which part of the key space.

    a key ──► its slot, one of 4096 (keys.py) ──► partition

    one partition     it owns all slots, and is the catalog
    N + 1 of them     0 is the catalog alone and owns no slot; 1 to N own them in N ranges, as even as can be

Slots are in the order of a scan, and ranges are contiguous: so a scan goes from partition to partition. The ranges
follow from the number of partitions in the Genesis, which stays. This is in every log ever written: never change.
"""

from typing import Final

from . import keys
from .keys import SLOTS

CATALOG: Final = 0
"""The partition that decides which tables exist."""


def slots_of(partition: int, partitions: int) -> range:
    """The slots that `partition`, one of `partitions`, owns.

    >>> slots_of(0, 1), slots_of(0, 4), slots_of(2, 4)
    (range(0, 4096), range(0, 0), range(1365, 2730))
    """
    if partitions == 1:
        return range(SLOTS)
    if partition == 0:
        return range(0)
    data = partitions - 1
    return range((partition - 1) * SLOTS // data, partition * SLOTS // data)


def partition_of(slot: int, partitions: int) -> int:
    """The partition, one of `partitions`, that owns `slot`.

    >>> partition_of(1364, 4), partition_of(1365, 4)
    (1, 2)
    """
    if partitions == 1:
        return 0
    return ((slot + 1) * (partitions - 1) - 1) // SLOTS + 1


def partition_of_key(owner_id: int, pk: bytes, partitions: int) -> int:
    """The partition where a partition key of a table or an index (by its id) lives."""
    return 0 if partitions == 1 else partition_of(keys.slot(keys.key_hash(owner_id, pk)), partitions)


def data_partitions(partitions: int) -> range:
    """The partitions that own slots."""
    return range(1) if partitions == 1 else range(1, partitions)
