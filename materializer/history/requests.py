"""Reads of the past of a partition, and their answers: plain data, like the reads of its present.

A read is of one state: that at a cut. The reader may be in another process or on another node.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from ...model.errors import RequestError
from ...model.tables import TableDefinition
from ..feed_requests import FedPartition
from ..fold.storage import EncodedKey, Stored
from ..partition import Page, QueryRequest, ResultPosition, ScanRequest
from .history import PartitionCut


@dataclass(frozen=True, slots=True)
class GetItems:
    """Read items. The answer has an item or None for each key, in order."""

    keys: Sequence[EncodedKey]


@dataclass(frozen=True, slots=True)
class DescribeTables:
    """Read the definitions of tables. The answer has those of these names that existed at the cut."""

    names: Sequence[str]


PastRead: TypeAlias = GetItems | QueryRequest | ScanRequest | DescribeTables
"""A read of the past. A query or scan is answered with a Page; its consistency is ignored."""


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
    """The answer to DescribeTables."""

    tables: list[PastTable]


PastAnswer: TypeAlias = PastItems | Page | PastTables
OnPast: TypeAlias = Callable[[PastAnswer | RequestError, ResultPosition], None]
"""Called once, on the caller's loop, with the answer and the position of the state that was read."""


class PartitionWithHistory(FedPartition, Protocol):
    """A partition whose past can be read."""

    def as_of(self, cut: PartitionCut, read: PastRead, done: OnPast) -> None:
        """Read the state at a cut. A cut that is not folded yet is waited for, with a deadline."""
        ...
