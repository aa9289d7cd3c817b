"""The seam between `server` and a partition, wherever the partition lives.

The server submits commands and reads items; it never touches a partition's state. Everything that crosses is plain
data, and every answer comes through a callback, because the partition may be in this process (the callback then
runs before the call returns, for a read), in a process beside it, or on another node. Callbacks and not
futures: a future and a task a request would cost a GetItem half its rate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ..expressions import Plan
from ..log.commands import Command, Position
from ..model.errors import RequestError
from ..model.values import Value
from .outcomes import Outcome
from .storage import Stored

Key: TypeAlias = tuple[int, bytes, bytes]  # table id, partition key, sort key


@dataclass(slots=True)
class QueryRequest:
    """One page of one item collection of a table or index.

    `low` and `high` are a half-open range of sort-key bytes as the store orders them (composite for an index);
    `start` is exclusive: the sort-key bytes after which to begin, in the direction of travel.
    """

    table: int
    index: str | None
    pk: bytes
    low: bytes
    high: bytes | None
    forward: bool = True
    start: bytes | None = None
    limit: int | None = None
    consistent: bool = False
    plan: Plan | None = None
    values: dict[str, Value] | None = None
    count_only: bool = False
    all_attributes: bool = False  # Select=ALL_ATTRIBUTES: an LSI fetches what it does not project


@dataclass(slots=True)
class ScanRequest:
    """One page of a table or index by hash; `start` is exclusive: (partition key, sort key as the store orders it)."""

    table: int
    index: str | None
    segment: int = 0
    segments: int = 1
    start: tuple[bytes, bytes] | None = None
    limit: int | None = None
    consistent: bool = False
    plan: Plan | None = None
    values: dict[str, Value] | None = None
    count_only: bool = False
    all_attributes: bool = False


@dataclass(slots=True)
class Page:
    """What a page holds: JSON objects ready to be spliced, and what reading it cost.

    `last` is the JSON object of LastEvaluatedKey, or None at the end. Units are half read units: the table's arm
    (its own reads and an LSI's fetches) and the index's.
    """

    items: list[bytes]
    count: int
    scanned: int
    last: bytes | None
    table_half_units: int
    index_half_units: int = 0


class Partition(Protocol):
    """A partition as the server sees it.

    `done` is called exactly once, on the caller's loop. A read that cannot be served is answered with a RequestError.
    """

    def submit(self, command: Command, size: int, done: Callable[[Outcome, Position], None]) -> None:
        """Append `command` (about `size` bytes) and fold it; `done` gets its outcome once it is durable."""
        ...

    def get(
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
