"""Splits of capacity partitions for tests of the fold, valid and invalid ones."""

import random
from typing import Any

from foldb.log.commands import DefineTable
from foldb.model.capacity_partitions import Boundary
from foldb.model.keys import key_hash
from foldb.model.partition_splits import SPLIT, parts_of
from foldb.model.tables import TableDefinition
from foldb.model.throughput import partition_map
from tests.unit.materializer.ledger import define


def split_command(
    definition: TableDefinition,
    partition: int,
    boundary: Boundary,
    *,
    index: str | None = None,
    minimum_age_ms: int = 0,
) -> DefineTable:
    """Return the command that splits a capacity partition of a table, or of an index of it."""
    request: dict[str, Any] = {
        "Partition": partition,
        "Boundary": boundary.to_json(),
        "Reason": "heat",
        "MinimumAgeMs": minimum_age_ms,
    }
    return define(SPLIT, definition.id, request | ({} if index is None else {"IndexName": index}))


def random_split(dice: random.Random, definition: TableDefinition) -> DefineTable:
    """Return a split of a present partition, of a table or a global index of it; one in four is invalid."""
    part = dice.choice(list(parts_of(definition)))
    index = None if part is definition else part.name
    present = partition_map(definition, part)
    partition = dice.choice(present.partitions)
    pk = b"%d" % dice.randrange(12)
    hash_ = key_hash(part.id, pk)
    boundary = dice.choice(
        [Boundary(hash_), Boundary(hash_ + 1), Boundary(hash_, pk, b"m"), partition.middle]
    )
    if dice.random() < 0.75 and boundary is not None:
        partition = present.of(*boundary)
    return split_command(
        definition,
        partition.id,
        boundary or partition.low,
        index=index,
        minimum_age_ms=dice.choice([0, 0, 5000]),
    )
