"""The seam between `server` and a partition, wherever the partition lives.

The server submits commands and reads items; it never touches a partition's state. Everything that crosses is plain
data, and every answer comes through a callback, because the partition may be in this process (the callback then
runs before the call returns, for a read), in a process beside it, or on another node. Callbacks and not
futures: a future and a task a request would cost a GetItem half its rate.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from ..log.commands import Command, Position
from ..model.errors import RequestError
from .fold.outcomes import Outcome
from .fold.pages import Page, QueryRequest, ScanRequest
from .fold.storage import Stored

__all__ = ["Key", "Page", "Partition", "QueryRequest", "ScanRequest"]

Key: TypeAlias = tuple[int, bytes, bytes]  # table id, partition key, sort key


class Partition(Protocol):
    """A partition as the server sees it.

    `done` is called exactly once, on the caller's loop. A read that cannot be served is answered with a RequestError.
    """

    def submit(self, command: Command, size: int, done: Callable[[Outcome, Position], None]) -> None:
        """Append `command` (about `size` bytes) and fold it; `done` gets its outcome once it is durable."""
        ...

    def get(
        self,
        table: int,
        pk: bytes,
        sk: bytes,
        consistent: bool,
        done: Callable[[Stored | None, Position], None],
    ) -> None:
        """Read an item."""
        ...

    def get_all(
        self, keys: Sequence[Key], consistent: bool, done: Callable[[list[Stored | None], Position], None]
    ) -> None:
        """Read items at one position of the log."""
        ...

    def query(self, request: QueryRequest, done: Callable[[Page | RequestError, Position], None]) -> None:
        """Read a page of one item collection."""
        ...

    def scan(self, request: ScanRequest, done: Callable[[Page | RequestError, Position], None]) -> None:
        """Read a page in hash order."""
        ...
