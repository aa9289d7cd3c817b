"""The seam between `server` and a partition, wherever the partition lives.

The server submits commands and reads items; it never touches a partition's state. Everything that crosses is plain
data, and every answer comes through a callback, because the partition may be in this process (the callback then
runs before the call returns, for a read), in a process beside it, or on another node. Callbacks and not
futures: a future and a task a request would cost a GetItem half its rate.
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
"""What an answer is true of: one position, or several where several partitions answered."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """In place of an item that cannot be read in isolation now: a transaction holds its key, or it has changed."""


Found: TypeAlias = Stored | Conflict | None


class Partition(Protocol):
    """A partition as the server sees it.

    `done` is called exactly once, on the caller's loop. A read that cannot be served is answered with a RequestError.
    A consistent read sees all that was acknowledged before it was asked for, and no item that a transaction has
    decided on but not yet written: it waits.
    """

    def submit(self, command: Command, size: int, done: Callable[[Outcome, Place], None]) -> None:
        """Append `command` (about `size` bytes) and fold it; `done` gets its outcome once it is durable."""
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

        A key that a transaction holds is a Conflict; so is, with `since`, one that was changed or held after that
        position, or may have been: how long a partition remembers that is bounded.
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
        """How the partition is: plain figures (`LocalPartition.status` names them)."""
        ...
