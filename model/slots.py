"""The mapping of the key space to partitions.

    a key ──► its slot, one of 4096 (keys.py) ──► partition

    1 partition       owns all slots, and is the catalog
    N + 1 partitions  0 is only the catalog and owns no slot; 1 to N own N ranges of slots of nearly equal size

Slots have the order of a scan and ranges are contiguous, so a scan reads one partition after the other. The ranges
follow from the number of partitions in the Genesis, which never changes. Every log depends on this mapping: never
change it.
"""

from typing import Final

from . import keys
from .keys import SLOTS

CATALOG: Final = 0
"""The partition that creates, changes and deletes tables."""


def slots_of(partition: int, partitions: int) -> range:
    """Return the slots of a partition. `partitions` is the number of partitions of the log.

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
    """Return the partition that owns `slot`. `partitions` is the number of partitions of the log.

    >>> partition_of(1364, 4), partition_of(1365, 4)
    (1, 2)
    """
    if partitions == 1:
        return 0
    return ((slot + 1) * (partitions - 1) - 1) // SLOTS + 1


def partition_of_key(owner_id: int, pk: bytes, partitions: int) -> int:
    """Return the partition that owns a partition key of a table or an index."""
    return 0 if partitions == 1 else partition_of(keys.slot(keys.key_hash(owner_id, pk)), partitions)


def data_partitions(partitions: int) -> range:
    """Return the partitions that own slots."""
    return range(1) if partitions == 1 else range(1, partitions)
