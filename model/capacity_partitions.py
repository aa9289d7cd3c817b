"""The capacity partitions of a table or a global index: ranges of its key space, in the order of a scan.

A capacity partition is a model of one of DynamoDB's physical partitions. Keys are ordered by the hash of the partition
key, then by partition key and sort key, as in a store. A boundary is a point of this order: keys below it belong to the
partition on its left. A map begins with equal ranges of slots, and each split replaces a partition by two children:

    begun with 2           ├────────── 0 ──────────┼────────── 1 ──────────┤
    split 0, of 1          ├────────── 0 ──────────┼──── 2 ────┼──── 3 ────┤
    split 1, of 0          ├──── 4 ────┼──── 5 ────┼──── 2 ────┼──── 3 ────┤

An id always names the same range: split k of a map that began with n partitions makes n + 2k and n + 2k + 1. So a map
is a value: the number of its initial partitions, and its splits in order.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from .errors import ValidationError
from .keys import SLOTS
from .lazy_dataclass import dataclass

SplitReason: TypeAlias = Literal["throughput", "size", "heat"]

PARTITIONS_MAX: Final = SLOTS
"""The maximum number of capacity partitions of a table or an index, because its definition holds all splits."""

READ_UNITS_MAX: Final = 3_000
WRITE_UNITS_MAX: Final = 1_000
"""The units a second that a capacity partition serves at most."""

_HASHES: Final = 1 << 64


class Boundary(NamedTuple):
    """A point in the order of keys. `pk` and `sk` are empty, or the boundary is inside the item collection of `pk`."""

    hash: int
    pk: bytes = b""
    sk: bytes = b""

    def to_json(self) -> dict[str, str]:
        """Return the boundary with all bytes in hexadecimal; a boundary between collections has only a hash."""
        written = {"hash": f"{self.hash:016x}"}
        return written | ({"pk": self.pk.hex(), "sk": self.sk.hex()} if self.pk else {})

    @classmethod
    def from_json(cls, data: dict[str, str]) -> "Boundary":
        """Return the boundary that `to_json` wrote."""
        return cls(
            int(data["hash"], 16), bytes.fromhex(data.get("pk", "")), bytes.fromhex(data.get("sk", ""))
        )


LOWEST: Final = Boundary(0)
HIGHEST: Final = Boundary(_HASHES)


class Split(NamedTuple):
    """The split of a partition at a boundary, at a log time in milliseconds."""

    partition: int
    boundary: Boundary
    reason: SplitReason
    time_ms: int

    def to_json(self) -> dict[str, Any]:
        """Return every field in canonical form."""
        return {**self._asdict(), "boundary": self.boundary.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Split":
        """Return the split that `to_json` wrote."""
        return cls(**{**data, "boundary": Boundary.from_json(data["boundary"])})


@dataclass(frozen=True, slots=True)
class CapacityPartition:
    """The keys with low <= key < high.

    Attributes:
        parent: The id of the partition whose split made this one; None for an initial partition.
        reason: The reason for that split.
        born_ms: The log time of that split.
    """

    id: int
    low: Boundary
    high: Boundary
    parent: int | None = None
    reason: SplitReason | None = None
    born_ms: int | None = None

    @property
    def middle(self) -> Boundary | None:
        """The boundary that halves the range of hashes; None if the partition has a single hash."""
        middle = Boundary((self.low.hash + self.high.hash) // 2)
        return middle if self.low < middle < self.high else None


@dataclass(frozen=True, slots=True)
class PartitionMap:
    """The capacity partitions of a table or a global index.

    Attributes:
        initial: The number of partitions with which the map began.
        splits: The splits since then, in order.
        partitions: The present partitions, in the order of their keys.
    """

    initial: int = 1
    splits: tuple[Split, ...] = ()
    partitions: tuple[CapacityPartition, ...] = field(init=False, compare=False, repr=False)
    _lows: tuple[Boundary, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        present = _initial_partitions(self.initial)
        lows = [each.low for each in present]
        for number, split in enumerate(self.splits):
            index = bisect_right(lows, split.boundary) - 1
            present[index : index + 1] = _children(present[index], split, self.initial + 2 * number)
            lows.insert(index + 1, split.boundary)
        object.__setattr__(self, "partitions", tuple(present))
        object.__setattr__(self, "_lows", tuple(lows))

    def index_of(self, hash_: int, pk: bytes = b"", sk: bytes = b"") -> int:
        """Return the index in `partitions` of the one with a key, which is the key's hash, partition key and sort key.

        >>> PartitionMap(2).index_of(2**63 - 1), PartitionMap(2).index_of(2**63)
        (0, 1)
        """
        return bisect_right(self._lows, (hash_, pk, sk)) - 1

    def of(self, hash_: int, pk: bytes = b"", sk: bytes = b"") -> CapacityPartition:
        """Return the partition with a key."""
        return self.partitions[bisect_right(self._lows, (hash_, pk, sk)) - 1]

    def partition(self, partition_id: int) -> CapacityPartition | None:
        """Return the present partition with an id; None if there is none, or if it was split."""
        return next((each for each in self.partitions if each.id == partition_id), None)

    def split(self, split: Split) -> "PartitionMap":
        """Return the map after a split.

        Raises:
            ValidationError: The partition was split before or never existed, the boundary is not inside it, or the map
                has the maximum number of partitions.
        """
        partition = self.partition(split.partition)
        if partition is None:
            raise ValidationError(f"There is no capacity partition {split.partition}")
        if not partition.low < split.boundary < partition.high:
            raise ValidationError(f"The boundary is not inside the capacity partition {split.partition}")
        if len(self.partitions) >= PARTITIONS_MAX:
            raise ValidationError(f"A table or an index has at most {PARTITIONS_MAX:,} capacity partitions")
        return PartitionMap(self.initial, (*self.splits, split))

    def to_json(self) -> dict[str, Any]:
        """Return the map in canonical form, for the definition of its table."""
        return {"initial": self.initial, "splits": [split.to_json() for split in self.splits]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "PartitionMap":
        """Return the map that `to_json` wrote."""
        return cls(data["initial"], tuple(Split.from_json(each) for each in data["splits"]))


def partitions_for(read: int, write: int) -> int:
    """Return the number of capacity partitions that serve the units a second: the rule of the guide of 2012.

    >>> partitions_for(12_000, 4_000)
    8
    """
    units = READ_UNITS_MAX * WRITE_UNITS_MAX
    return min(PARTITIONS_MAX, max(1, -(-(read * WRITE_UNITS_MAX + write * READ_UNITS_MAX) // units)))


def first_boundary(slot: int) -> Boundary:
    """Return the boundary below the first key of a slot."""
    return Boundary(slot * (_HASHES // SLOTS))


def _initial_partitions(count: int) -> list[CapacityPartition]:
    """Return equal ranges of slots."""
    lows = [first_boundary(-(-number * SLOTS // count)) for number in range(count)]
    highs: Sequence[Boundary] = [*lows[1:], HIGHEST]
    return [CapacityPartition(id_, *ends) for id_, ends in enumerate(zip(lows, highs, strict=True))]


def _children(parent: CapacityPartition, split: Split, first_id: int) -> tuple[CapacityPartition, ...]:
    ranges = ((parent.low, split.boundary), (split.boundary, parent.high))
    return tuple(
        CapacityPartition(first_id + nth, low, high, parent.id, split.reason, split.time_ms)
        for nth, (low, high) in enumerate(ranges)
    )
