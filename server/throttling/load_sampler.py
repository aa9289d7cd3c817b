"""A sample of the requests to tables and global indexes: the load of each capacity partition, and its keys.

    each request ──► half units of its capacity partition ──► now and then: a key, with all units since the last sample

Refused requests count too, because they are the demand that a split has to serve. The half units between two samples
of a capacity partition are random, 64 on average: a key is sampled as often as its part of the units. The sampler keeps
the units of all samples since the last look, and the keys of at most 1,024 of them, chosen with equal chances.
"""

import random
from collections.abc import Iterator
from dataclasses import field
from typing import Final, TypeAlias

from ...model.keys import key_hash
from ...model.lazy_dataclass import dataclass
from ...model.partition_splits import WeightedKey
from .buckets import PartitionBucket
from .meters import Access

_BITS: Final = 7
_SAMPLES: Final = 1024

Owner: TypeAlias = tuple[int, str | None, Access]
"""The id of a table, a global index of it or None, and the direction of requests."""


@dataclass(slots=True)
class PartLoad:
    """The requests to a table or a global index in one direction.

    Attributes:
        half_units: Half units of all requests.
        samples: The number of samples.
        keys: The keys of some of them.
    """

    half_units: int = 0
    samples: int = 0
    keys: list[tuple[bytes, bytes, int]] = field(default_factory=list)


class LoadSampler:
    """Samples requests at random, in proportion to their units."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._loads: dict[Owner, PartLoad] = {}

    def count(self, bucket: PartitionBucket, half_units: int) -> int:
        """Count the half units of a request. Return those since the last sample if one is due, or else 0."""
        bucket.unsampled += half_units
        if bucket.unsampled < bucket.sampled_at:
            return 0
        counted, bucket.unsampled = bucket.unsampled, 0
        bucket.sampled_at = 1 + self._dice.getrandbits(_BITS)
        return counted

    def note(
        self, table: int, index: str | None, access: Access, pk: bytes, sk: bytes, half_units: int
    ) -> None:
        """Add a sampled key, with the half units of all requests that it is a sample of."""
        load = self._loads.get((table, index, access))
        if load is None:
            load = self._loads[table, index, access] = PartLoad()
        load.half_units += half_units
        load.samples += 1
        if len(load.keys) < _SAMPLES:
            load.keys.append((pk, sk, half_units))
        else:
            place = self._dice.randrange(load.samples)
            if place < _SAMPLES:
                load.keys[place] = (pk, sk, half_units)

    def take(self) -> dict[Owner, PartLoad]:
        """Return the load since the last call, by table, index and direction."""
        taken, self._loads = self._loads, {}
        return taken


def loaded_keys(load: PartLoad, owner_id: int) -> Iterator[WeightedKey]:
    """Yield the sampled keys of a table or an index with its id, each with its part of all half units."""
    sampled = sum(weight for _, _, weight in load.keys) or 1
    for pk, sk, weight in load.keys:
        yield WeightedKey(key_hash(owner_id, pk), pk, sk, weight * load.half_units // sampled)
