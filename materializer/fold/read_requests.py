"""What a reader asks of a table or index, and the page it gets. Plain data: the reader may sit on another node."""

from dataclasses import dataclass
from typing import Any

from ...expressions import Plan
from ...model.values import Value


@dataclass(slots=True)
class QueryRequest:
    """One page of one item collection of a table or index.

    `low` and `high` are a half-open range of sort-key bytes as the store orders them (composite for an index);
    `start` is exclusive: the sort-key bytes after which to begin, in the direction of travel. `source` is the request
    body that `plan` was compiled from: plans do not travel, another node compiles it again. `fresh` means that the
    state must be no older than the request, as for `consistent`, which costs twice as much and no global index has.
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
    source: dict[str, Any] | None = None
    fresh: bool = False


@dataclass(slots=True)
class ScanRequest:
    """One page of a table or index by hash; `start` is exclusive: (partition key, sort key as the store orders it).

    `room` is what a page that goes on from another partition may still take, in bytes; None for a page of its own,
    which takes its first entry whatever its size. For `source` and `fresh` see QueryRequest.
    """

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
    source: dict[str, Any] | None = None
    fresh: bool = False
    room: int | None = None


@dataclass(slots=True)
class Page:
    """What a page holds: JSON objects ready to be spliced, and what reading it cost.

    `last` is the JSON object of LastEvaluatedKey, or None at the end. Units are half read units: the table's arm
    (its own reads and an LSI's fetches) and the index's. `size` is the bytes that they are counted from, `weight` what
    the page has taken of its megabyte (more, where an LSI fetches). `tail` is the key of the last entry that was
    looked at, also at the end if `room` was given: the next partition may be `full`, with room not even for its first.
    """

    items: list[bytes]
    count: int
    scanned: int
    last: bytes | None
    table_half_units: int
    index_half_units: int = 0
    size: int = 0
    weight: int = 0
    tail: bytes | None = None
    full: bool = False
