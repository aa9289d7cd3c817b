"""The table command SplitPartition: which splits of a capacity partition are valid, and how they change a definition.

    SplitPartition   {"IndexName"?, "Partition", "Boundary", "Reason", "MinimumAgeMs"}

A definition has no map of its partitions until the first split: its throughput alone determines them. An UpdateTable
that changes their number stores the present map first if its request has the member `KeepPartitions`, which a server
with --throttle adds; so the new partitions come from splits. Restored and recreated tables begin without a map.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any, Final, NamedTuple

from .capacity_partitions import Boundary, CapacityPartition, PartitionMap, Split
from .errors import ResourceNotFoundError, ValidationError
from .keys import key_hash
from .tables import IndexDefinition, TableDefinition
from .throughput import partition_map, wanted_partitions

SPLIT: Final = "SplitPartition"
KEEP_PARTITIONS: Final = "KeepPartitions"


class WeightedKey(NamedTuple):
    """A key with its hash, and its weight: the half units of its requests, or the bytes of items from this key on."""

    hash: int
    pk: bytes
    sk: bytes
    weight: int


def dividing_boundary(
    keys: Iterable[WeightedKey], partition: CapacityPartition, *, divides_collections: bool
) -> Boundary | None:
    """Return the boundary inside a partition that divides the weight of its keys most evenly; None if there is none.

    A boundary between two collections is preferred, unless it leaves more than three quarters on one side. So a hot
    key gets a partition of its own in two splits, and a hot collection is divided by sort key where that is allowed.
    """
    ordered = sorted(keys)
    total = sum(key.weight for key in ordered)
    between: list[tuple[int, Boundary]] = []  # with the weight of the heavier side
    inside: list[tuple[int, Boundary]] = []
    below = 0
    for hash_, collection in groupby(ordered, key=lambda key: key.hash):
        between.append((max(below, total - below), Boundary(hash_)))
        first = True
        for (_, pk, sk), repeated in groupby(collection, key=lambda key: key[:3]):
            if divides_collections and sk and not first:
                inside.append((max(below, total - below), Boundary(hash_, pk, sk)))
            below += sum(key.weight for key in repeated)
            first = False
        between.append((max(below, total - below), Boundary(hash_ + 1)))
    found = [each for each in between if partition.low < each[1] < partition.high]
    if not found or 4 * min(found)[0] > 3 * total:
        found += [each for each in inside if partition.low < each[1] < partition.high]
    return min(found)[1] if found else None


def split_partition(definition: TableDefinition, request: dict[str, Any], *, time_ms: int) -> TableDefinition:
    """Apply SplitPartition.

    Raises:
        ResourceNotFoundError: The table has no such global index.
        ValidationError: The boundary is not inside a present partition, divides an item collection of a table with a
            local index, or the partition is younger than MinimumAgeMs.
    """
    part = part_named(definition, request.get("IndexName"))
    boundary = Boundary.from_json(request["Boundary"])
    _check_collection(definition, part, boundary)
    present = partition_map(definition, part)
    parent = present.partition(request["Partition"])
    age_ms = None if parent is None or parent.born_ms is None else time_ms - parent.born_ms
    if age_ms is not None and age_ms < request["MinimumAgeMs"]:
        raise ValidationError(f"The capacity partition {request['Partition']} is {age_ms} ms old")
    split = Split(request["Partition"], boundary, request["Reason"], time_ms)
    return _with_map(definition, part, present.split(split))


def keep_partitions(before: TableDefinition, after: TableDefinition) -> TableDefinition:
    """Return `after` with the maps of `before`, of the table and each index, where the number of partitions changes."""
    for part in parts_of(before):
        kept = part_with_id(after, part.id)
        if kept is not None and wanted_partitions(before, part) != wanted_partitions(after, kept):
            after = _with_map(after, kept, partition_map(before, part))
    return after


def parts_of(definition: TableDefinition) -> Iterator[TableDefinition | IndexDefinition]:
    """Yield the parts of a table that have capacity partitions: the table itself and its global indexes."""
    yield definition
    yield from definition.gsis


def part_named(definition: TableDefinition, index: str | None) -> TableDefinition | IndexDefinition:
    """Return the table, or its global index with a name.

    Raises:
        ResourceNotFoundError: The table has no such global index.
    """
    for part in parts_of(definition):
        if (None if part is definition else part.name) == index:
            return part
    raise ResourceNotFoundError(f"The table {definition.name} has no global index {index}")


def part_with_id(definition: TableDefinition, part_id: int) -> TableDefinition | IndexDefinition | None:
    """Return the table or its global index with an id; None if there is none."""
    return next((part for part in parts_of(definition) if part.id == part_id), None)


def _check_collection(
    definition: TableDefinition, part: TableDefinition | IndexDefinition, boundary: Boundary
) -> None:
    """Refuse a boundary inside an item collection if its key is wrong, or if a local index keeps collections together.

    A boundary between two collections is a hash alone.
    """
    if not boundary.pk and not boundary.sk:
        return
    if not (boundary.pk and boundary.sk) or boundary.hash != key_hash(part.id, boundary.pk):
        raise ValidationError("The boundary is not the key of an item")
    if part is definition and definition.lsis:
        raise ValidationError("An item collection of a table with a local index is in one capacity partition")


def _with_map(
    definition: TableDefinition, part: TableDefinition | IndexDefinition, partitions: PartitionMap
) -> TableDefinition:
    if part is definition:
        return replace(definition, capacity_partitions=partitions)
    indexes = tuple(
        replace(index, capacity_partitions=partitions) if index.id == part.id else index
        for index in definition.indexes
    )
    return replace(definition, indexes=indexes)
