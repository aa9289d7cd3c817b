"""Requests to read a page of a table or index, and the page. Plain data: the reader may be on another node."""

from typing import Any

from ...expressions import Plan
from ...model.lazy_dataclass import dataclass
from ...model.values import Value


@dataclass(slots=True)
class QueryRequest:
    """One page of one item collection of a table or index.

    Attributes:
        low: The first sort-key bytes of the range, as the store orders them (composite for an index).
        high: The first sort-key bytes after the range.
        start: The exclusive start: the sort-key bytes after which to begin, in the direction of travel.
        source: The request body that `plan` was compiled from: another node compiles it again.
        fresh: The state must be no older than the request, as for `consistent`, which costs twice as much and is not
            available on a global index.
    """

    table: int
    index: str | None
    pk: bytes
    low: bytes
    high: bytes | None
    forward: bool
    start: bytes | None
    limit: int | None
    consistent: bool
    plan: Plan | None
    values: dict[str, Value] | None
    count_only: bool
    all_attributes: bool  # Select=ALL_ATTRIBUTES: an LSI fetches attributes that it does not project
    source: dict[str, Any] | None
    fresh: bool

    def __init__(
        self,
        table: int,
        index: str | None,
        pk: bytes,
        low: bytes,
        high: bytes | None,
        forward: bool = True,
        start: bytes | None = None,
        limit: int | None = None,
        consistent: bool = False,
        plan: Plan | None = None,
        values: dict[str, Value] | None = None,
        count_only: bool = False,
        all_attributes: bool = False,
        source: dict[str, Any] | None = None,
        fresh: bool = False,
    ) -> None:
        self.table = table
        self.index = index
        self.pk = pk
        self.low = low
        self.high = high
        self.forward = forward
        self.start = start
        self.limit = limit
        self.consistent = consistent
        self.plan = plan
        self.values = values
        self.count_only = count_only
        self.all_attributes = all_attributes
        self.source = source
        self.fresh = fresh


@dataclass(slots=True)
class ScanRequest:
    """One page of a table or index by hash. For `source` and `fresh` see QueryRequest.

    Attributes:
        start: The exclusive start: (partition key, sort key as the store orders it).
        room: For a page that continues from another partition, the bytes that it may still take. None for a page of its
            own, which takes its first entry at any size.
        keyed: Whether the page also has the keys and sizes of its items. They are of a table, and unchanged.
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
    keyed: bool = False


@dataclass(slots=True)
class ItemKeys:
    """The keys and the sizes of the items of a page, in order."""

    pks: list[bytes]
    sks: list[bytes]
    sizes: list[int]


@dataclass(slots=True)
class Page:
    """A page: serialized JSON objects, and the cost of reading it.

    Attributes:
        last: The JSON object of LastEvaluatedKey; None at the end.
        table_half_units: Half read units of the table: its own reads, and the items that an LSI fetches.
        index_half_units: Half read units of the index.
        size: The bytes that the units are computed from.
        weight: The bytes that the page has taken of its megabyte: more than `size` if an LSI fetches.
        tail: The key of the last evaluated entry; with `room` also at the end of the range.
        full: Whether `room` was too small for the first entry of this partition.
        keys: The keys of `items`, if the request is `keyed`.
    """

    items: list[bytes]
    count: int
    scanned: int
    last: bytes | None
    table_half_units: int
    index_half_units: int
    size: int
    weight: int
    tail: bytes | None
    full: bool
    keys: ItemKeys | None

    def __init__(
        self,
        items: list[bytes],
        count: int,
        scanned: int,
        last: bytes | None,
        table_half_units: int,
        index_half_units: int = 0,
        size: int = 0,
        weight: int = 0,
        tail: bytes | None = None,
        full: bool = False,
        keys: ItemKeys | None = None,
    ) -> None:
        self.items = items
        self.count = count
        self.scanned = scanned
        self.last = last
        self.table_half_units = table_half_units
        self.index_half_units = index_half_units
        self.size = size
        self.weight = weight
        self.tail = tail
        self.full = full
        self.keys = keys
