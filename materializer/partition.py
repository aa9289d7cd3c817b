"""The interface between `server` and a partition, in this process or elsewhere.

The server submits commands and reads items; it never accesses a partition's state. All arguments and results are
plain data, and every result comes through a callback, because the partition may be in this process (the callback of
a read then runs before the call returns) or on another node. Callbacks and not futures: a future and a task per
request would halve the rate of GetItem.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from ..log.commands import Command, Cut, Position
from ..model.errors import RequestError
from .fold.outcomes import Outcome
from .fold.read_requests import Page, QueryRequest, ScanRequest
from .fold.storage import Stored

__all__ = ["Conflict", "Found", "Key", "Page", "Partition", "Place", "QueryRequest", "ScanRequest"]

Key: TypeAlias = tuple[int, bytes, bytes]  # table id, partition key, sort key
Place: TypeAlias = Position | Cut
"""The position of a result: one position, or several if several partitions answered."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Replaces an item that cannot be read in isolation now: a transaction holds its key, or it has changed."""


Found: TypeAlias = Stored | Conflict | None


class Partition(Protocol):
    """A partition as the server sees it.

    `done` is called exactly once, on the caller's loop. A read that cannot be served is answered with a
    RequestError. A consistent read sees all writes that were acknowledged before it, and waits for items of decided
    transactions that are not yet written.
    """

    def submit(self, command: Command, size: int, done: Callable[[Outcome, Place], None]) -> None:
        """Append `command` (about `size` bytes) and fold it; call `done` with its outcome once it is durable."""
        ...

    def get(
        self,
        table: int,
        pk: bytes,
        sk: bytes,
        consistent: bool,
        done: Callable[[Stored | RequestError | None, Place], None],
    ) -> None:
        """Read an item."""
        ...

    def get_all(
        self,
        keys: Sequence[Key],
        consistent: bool,
        done: Callable[[list[Stored | None] | RequestError, Place], None],
    ) -> None:
        """Read items at one position of the log."""
        ...

    def get_isolated(
        self,
        keys: Sequence[Key],
        since: Position | None,
        done: Callable[[list[Found] | RequestError, Place], None],
    ) -> None:
        """Read items for TransactGetItems, consistently and at one position of the log.

        A key that a transaction holds is a Conflict. With `since`, so is a key that was changed or held after that
        position, or may have been: a partition remembers a bounded number of changes.
        """
        ...

    def query(self, request: QueryRequest, done: Callable[[Page | RequestError, Place], None]) -> None:
        """Read a page of one item collection."""
        ...

    def scan(self, request: ScanRequest, done: Callable[[Page | RequestError, Place], None]) -> None:
        """Read a page in hash order."""
        ...

    def reach(self, position: Place, done: Callable[[RequestError | None], None]) -> None:
        """Wait until `position` is folded and all messages sent up to there are acknowledged: indexes have them."""
        ...

    def status(self, done: Callable[[dict[str, Any] | RequestError], None]) -> None:
        """Return the status, as plain data (partition_status.py)."""
        ...
