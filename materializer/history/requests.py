"""Reads of the past of a partition, and their answers: plain data, like the reads of its present.

A read is of one state: that at a cut. The reader may be in another process or on another node.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeAlias

from ...log.commands import Position
from ...model.errors import RequestError
from ...model.lazy_dataclass import dataclass
from ...model.tables import TableDefinition
from ..feed_requests import Changes, FedPartition, ReadChanges
from ..fold.storage import EncodedKey, Stored
from ..partition import Page, QueryRequest, ResultPosition, ScanRequest
from .history import PartitionCut, TimeCut


@dataclass(frozen=True, slots=True)
class GetItems:
    """Read items. The answer has an item or None for each key, in order."""

    keys: Sequence[EncodedKey]


@dataclass(frozen=True, slots=True)
class DescribeTables:
    """Read the definitions of tables. The answer has those of these names that existed at the cut.

    Attributes:
        is_counted: Whether the counts are wanted, and the position of the cut. Without, the answer has any position.
    """

    names: Sequence[str]
    is_counted: bool = True


@dataclass(frozen=True, slots=True)
class ReadVersions:
    """Read the versions of an item up to the cut, and the writes to it that were refused, the newest first.

    Attributes:
        since: Read only what was written after this cut; None for everything.
        before: Log time and packed position of the last entry of the page before: read only older entries.
        limit: The most entries of the page.
    """

    table: int
    pk: bytes
    sk: bytes
    since: PartitionCut | None = None
    before: tuple[int, int] | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True)
class ReadDifferences:
    """Read the items of a table that differ between `since` and the cut, in the order of their last changes.

    Attributes:
        start: The `next` of the page before.
        limit: The most items of the page.
        since_positions: The positions that the state at `since` includes in all partitions, as those of AtInstant.
    """

    table: int
    since: PartitionCut
    start: tuple[int, int] | None = None
    limit: int = 100
    since_positions: Sequence[Position] = ()


@dataclass(frozen=True, slots=True)
class ReadMembers:
    """Read the actions that transactions applied in this partition.

    Attributes:
        transactions: Each by the partition of its coordinator, the packed position of its Transact there, and two
            times in milliseconds: its versions have an effective time from the first to the second.
    """

    transactions: Sequence[tuple[int, int, int, int]]


@dataclass(frozen=True, slots=True)
class AtInstant:
    """Read items, a page or differences at the positions of an answer, as a live read at one instant does
    (decided_parts.py).

    Attributes:
        positions: The positions that the read includes in all partitions. That of this partition is the cut.
    """

    read: "GetItems | QueryRequest | ScanRequest | ReadDifferences"
    positions: Sequence[Position]


PastRead: TypeAlias = (
    GetItems
    | QueryRequest
    | ScanRequest
    | DescribeTables
    | ReadVersions
    | ReadDifferences
    | ReadMembers
    | ReadChanges
    | AtInstant
)
"""A read of the past. A query or scan is answered with a Page; its consistency is ignored.

ReadChanges is answered with Changes, those up to the cut, whether the feed captured them or not. The `trim_horizon` is
the start of the page. `wait_ms` is ignored.
"""


@dataclass(frozen=True, slots=True)
class Cuts:
    """The cut of each partition: its position if that is named, otherwise a time."""

    positions: dict[int, Position]
    time_ms: int

    def of(self, partition_id: int) -> PartitionCut:
        return self.positions.get(partition_id) or TimeCut(self.time_ms)

    def instant(self, partition_id: int) -> Sequence[Position]:
        """Return the positions of a live answer, which may have been read at one instant (AtInstant).

        There are none for a partition that is read at a time, or for a cut of one position.
        """
        is_answer = len(self.positions) > 1 and partition_id in self.positions
        return list(self.positions.values()) if is_answer else ()


def at_instant(
    read: "GetItems | QueryRequest | ScanRequest | ReadDifferences", positions: Sequence[Position]
) -> PastRead:
    """Return a read at the positions of an answer; without positions, the read as it is."""
    return AtInstant(read, positions) if positions else read


def at_own_positions(read: PastRead) -> PastRead:
    """Return a read that shows in each partition only the transactions that are applied there.

    On a shared log a live page has one position in each partition, and no instant.
    """
    if isinstance(read, AtInstant):
        read = read.read
    return replace(read, since_positions=()) if isinstance(read, ReadDifferences) else read


@dataclass(frozen=True, slots=True)
class PastTable:
    """A table at a cut.

    Attributes:
        definition: The definition in this partition.
        counts: The number and the bytes of the entries in this partition, by the id of the table and of each index.
    """

    definition: TableDefinition
    counts: dict[int, tuple[int, int]]


class PastItems(NamedTuple):
    """The answer to GetItems."""

    items: list[Stored | None]


class PastTables(NamedTuple):
    """The answer to DescribeTables.

    Attributes:
        since: Without counts, the first cut that has these definitions, in milliseconds or as a packed position, as the
            cut of the read.
        until: The cut from which on they are not known to be the same.
    """

    tables: list[PastTable]
    since: int = 0
    until: int = 0


class ItemVersion(NamedTuple):
    """A version of an item, or a refused write to it. All members are plain data.

    Attributes:
        position: The position of its command, packed (version_keys.py).
        log_time: The log time of the record, in milliseconds.
        effective_time: The time at which it counts as written, in milliseconds.
        item: The item; None for a tombstone or a refused write.
        context: The context of the command; None if its record was trimmed.
        transaction: The transaction by coordinator and packed position; None if the write is part of none.
        refused: The fields of a RefusedWrite (attribution.py); None for a version.
    """

    position: int
    log_time: int
    effective_time: int
    item: bytes | None
    context: bytes | None
    transaction: Sequence[int] | None
    refused: Sequence[Any] | None


class PastVersions(NamedTuple):
    """The answer to ReadVersions. `before` is that of the next page; None at the end."""

    versions: list[ItemVersion]
    before: tuple[int, int] | None


class Difference(NamedTuple):
    """An item that differs: before and after, each None if there was no item; and position and log time of its last
    change, the position packed.
    """

    pk: bytes
    sk: bytes
    old: bytes | None
    new: bytes | None
    position: int
    log_time: int


class PastDifferences(NamedTuple):
    """The answer to ReadDifferences. `next` is the start of the next page; None at the end."""

    differences: list[Difference]
    next: tuple[int, int] | None


class PastMember(NamedTuple):
    """An action of a transaction.

    Attributes:
        table: The name of its table.
        key: The key, as canonical bytes of an item.
        kind: `put`, `update`, `delete` or `check`. An update in a transaction over partitions is a put or a delete.
    """

    table: str
    key: bytes
    kind: str


class PastMembers(NamedTuple):
    """The answer to ReadMembers: the actions of each transaction."""

    members: list[list[PastMember]]


PastAnswer: TypeAlias = PastItems | Page | PastTables | PastVersions | PastDifferences | PastMembers | Changes
OnPast: TypeAlias = Callable[[PastAnswer | RequestError, ResultPosition], None]
"""Called once, on the caller's loop, with the answer and the position of the state that was read."""

ReadPast: TypeAlias = Callable[[PartitionCut, PastRead, OnPast], None]
"""Reads the past of a partition; see `PartitionWithHistory.as_of`."""


class LogPast(NamedTuple):
    """The past of a partition, and the offset from which its log has it."""

    read: ReadPast
    begin: Callable[[], int]


class PartitionWithHistory(FedPartition, Protocol):
    """A partition whose past can be read."""

    def as_of(self, cut: PartitionCut, read: PastRead, done: OnPast) -> None:
        """Read the state at a cut. A cut that is not folded yet is waited for, with a deadline."""
        ...
