"""The interface of a history: the states of one partition at its cuts.

A *cut* is a point of history: a position, or a time. The state at a position is the state after the command there.
The state at a time T has, of each item, the newest version whose effective time is at most T. The *effective time* of
a version is the log time of the record that wrote it; if the write belongs to a transaction over several partitions, it
is the log time of the decision at the coordinator, so a read at T has all writes of a transaction or none.
"""

from collections.abc import Mapping
from typing import Final, Protocol, TypeAlias

from ...log.commands import Position
from ...model.errors import FoldbError
from ...model.lazy_dataclass import dataclass
from ...model.limits import Limits
from ..fold.read_requests import Page
from ..fold.reads import Request
from ..fold.state import Table

FOLDER: Final = "history"
"""The folder of the histories on disk, in the folder of the database."""


@dataclass(frozen=True, slots=True)
class TimeCut:
    """A point of log time, in milliseconds since 1970."""

    time_ms: int


PartitionCut: TypeAlias = Position | TimeCut
"""A cut of one partition. A position without an index is the end of its entry."""


class NotFoldedError(FoldbError):
    """The history has not folded the log up to the cut yet; it will."""


class PastState(Protocol):
    """The state of a partition at a cut, to be read only. `fold/reads.py` reads its tables like live ones.

    Attributes:
        position: The newest position that the state includes; its time is the log time there.
        limits: The limits of the log.
        tables: The tables that existed at the cut, by id.
        names: The ids of these tables, by name.
    """

    @property
    def position(self) -> Position: ...

    @property
    def limits(self) -> Limits: ...

    @property
    def tables(self) -> Mapping[int, Table]: ...

    @property
    def names(self) -> Mapping[str, int]: ...

    def read_page(self, request: Request, page_bytes: int) -> Page:
        """Read a page of a Query or Scan, of at most `page_bytes` by DynamoDB's count.

        Raises:
            KeyError: The table did not exist.
            ValidationError: The index does not exist or is being backfilled, or `start` belongs to another segment.
        """
        ...


class History(Protocol):
    """The past of one partition."""

    @property
    def horizon(self) -> Position:
        """The oldest position that can be read."""
        ...

    @property
    def position(self) -> Position:
        """The newest position that can be read, with its log time."""
        ...

    def is_closed(self, time_ms: int) -> bool:
        """Return whether the state at a time is final: the log time is above it, and no transaction that was prepared
        at or before it is undecided here.
        """
        ...

    def at(self, cut: PartitionCut) -> PastState:
        """Return the state at a cut.

        Raises:
            HorizonError: The cut is older than the horizon.
            NotFoldedError: The cut is newer than `position`, or is a time that is not closed.
        """
        ...
