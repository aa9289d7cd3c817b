"""The interface between `server` and a partition, in this process or elsewhere.

The server submits commands and reads items; it never accesses a partition's state. All arguments and results are
plain data, and every result comes through a callback, because the partition may be in this process (the callback of
a read then runs before the call returns) or on another node. Callbacks and not futures: a future and a task per
request would halve the rate of GetItem.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

from ..log.commands import Command, Cut, Position
from ..model.errors import RequestError
from ..model.lazy_dataclass import dataclass
from .fold.outcomes import Outcome
from .fold.read_requests import Page, QueryRequest, ScanRequest
from .fold.storage import EncodedKey, Stored

__all__ = [
    "FIRST_READ",
    "Conflict",
    "EncodedKey",
    "FirstRead",
    "Found",
    "OnFound",
    "OnItem",
    "OnItems",
    "OnOutcome",
    "OnPage",
    "OnReached",
    "OnStatus",
    "Page",
    "Partition",
    "QueryRequest",
    "ResultPosition",
    "ScanRequest",
    "Since",
]

ResultPosition: TypeAlias = Position | Cut
"""The position of a result: one position, or several if several partitions answered."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Replaces an item that cannot be read in isolation now: a transaction holds its key, or it has changed."""


Found: TypeAlias = Stored | Conflict | None


@dataclass(frozen=True, slots=True)
class FirstRead:
    """Replaces the position of an earlier read in the first of two reads."""


FIRST_READ: Final = FirstRead()

Since: TypeAlias = Position | FirstRead | None
"""Which read of a key it is: the only one, the first of two, or the second, after the position of the first."""

OnOutcome: TypeAlias = Callable[[Outcome, ResultPosition], None]
OnItem: TypeAlias = Callable[[Stored | RequestError | None, ResultPosition], None]
OnItems: TypeAlias = Callable[[list[Stored | None] | RequestError, ResultPosition], None]
OnFound: TypeAlias = Callable[[list[Found] | RequestError, ResultPosition], None]
OnPage: TypeAlias = Callable[[Page | RequestError, ResultPosition], None]
OnReached: TypeAlias = Callable[[RequestError | None], None]
OnStatus: TypeAlias = Callable[[dict[str, Any] | RequestError], None]


class Partition(Protocol):
    """A partition as the server sees it.

    `done` is called exactly once, on the caller's loop. A read that cannot be served is answered with a
    RequestError. A consistent read sees all writes that were acknowledged before it, and waits for items of decided
    transactions that are not yet written.
    """

    def submit(self, command: Command, size: int, done: OnOutcome) -> None:
        """Append `command` (about `size` bytes) and fold it; call `done` with its outcome once it is durable."""
        ...

    def get(self, table: int, pk: bytes, sk: bytes, consistent: bool, done: OnItem) -> None:
        """Read an item."""
        ...

    def get_all(self, keys: Sequence[EncodedKey], consistent: bool, done: OnItems) -> None:
        """Read items at one position of the log."""
        ...

    def get_isolated(self, keys: Sequence[EncodedKey], since: Since, done: OnFound) -> None:
        """Read items for TransactGetItems, consistently and at one position of the log.

        It waits for the transactions that hold the keys; a key that is held nevertheless is a Conflict. With FIRST_READ
        the partition delays new writes of the keys for a moment, until the second read. In that, a key that was changed
        or held after the position `since` is a Conflict, or may be: a partition remembers a bounded number of changes.
        """
        ...

    def query(self, request: QueryRequest, done: OnPage) -> None:
        """Read a page of one item collection."""
        ...

    def scan(self, request: ScanRequest, done: OnPage) -> None:
        """Read a page in hash order."""
        ...

    def reach(self, position: ResultPosition, done: OnReached) -> None:
        """Wait until `position` is folded and all messages sent up to there are acknowledged: indexes have them."""
        ...

    def status(self, table: int | None, done: OnStatus) -> None:
        """Return the status of a table or, with None, of the partition, as plain data (`worker.status_of`)."""
        ...
