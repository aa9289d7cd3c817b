"""Counters of the requests to this node, by table and global index.

    request ──► samples of the present minute: {value: number of requests} ──close──► Statistics of the minute
                                                                             └──────► totals since the start

A metric of CloudWatch has a sum, a number of samples, a minimum and a maximum for each minute. Few values occur, so one
increment of a dict is all that a request costs, and the statistics follow from it. The size of an item becomes units
when the samples are read.
"""

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final, NamedTuple, Protocol, TypeAlias

from ...materializer.fold.outcomes import Applied, Outcome, Refused, Units
from ...materializer.fold.storage import Stored
from ...model.capacity import read_half_units, write_units
from ...model.errors import (
    ConditionalCheckFailedError,
    ProvisionedThroughputExceededError,
    Reason,
    RequestError,
    RequestLimitExceededError,
    ThrottlingError,
    TransactionConflictError,
)

Samples: TypeAlias = dict[int, int]
"""The number of requests by value."""

_THROTTLED: Final = (ProvisionedThroughputExceededError, RequestLimitExceededError, ThrottlingError)
_THROTTLED_CODES: Final = frozenset(("ProvisionedThroughputExceeded", "ThrottlingError"))


class Statistics(NamedTuple):
    """The statistics of a metric over a time."""

    sum: int
    samples: int
    minimum: int
    maximum: int


def statistics_of(samples: Mapping[int, int]) -> Statistics:
    """Return the statistics of at least one sample."""
    total = sum(value * count for value, count in samples.items())
    return Statistics(total, sum(samples.values()), min(samples), max(samples))


def merged(each: Iterable[Statistics]) -> Statistics | None:
    """Return the statistics over several times or nodes; None if there are none."""
    parts = list(each)
    if not parts:
        return None
    sums, samples, minima, maxima = zip(*parts, strict=True)
    return Statistics(sum(sums), sum(samples), min(minima), max(maxima))


class Counter:
    """A metric of a table, an index or an operation.

    Attributes:
        samples: Those of the present minute.
    """

    __slots__ = ("_closed_samples", "_closed_sum", "samples")

    def __init__(self) -> None:
        self.samples: Samples = {}
        self._closed_samples = 0
        self._closed_sum = 0

    def add(self, value: int, times: int = 1) -> None:
        """Count requests of a value."""
        self.samples[value] = self.samples.get(value, 0) + times

    @property
    def total(self) -> tuple[int, int]:
        """The sum and the number of samples since the start."""
        open_sum = sum(value * count for value, count in self.samples.items())
        return self._closed_sum + open_sum, self._closed_samples + sum(self.samples.values())

    def present(self) -> Statistics | None:
        """Return the statistics of the present minute; None without samples."""
        return statistics_of(self.samples) if self.samples else None

    def close(self) -> Statistics | None:
        """End a minute, and return its statistics; None without samples."""
        closed = self.present()
        if closed is None:
            return None
        self._closed_sum += closed.sum
        self._closed_samples += closed.samples
        self.samples.clear()
        return closed


class KeyObserver(Protocol):
    """Receives the partition keys of the requests to a table.

    `index` names a global index; None is the table, whose units include those of its local indexes.
    """

    def read(self, index: str | None, pk: bytes, half_units: int) -> None:
        """Observe a read of an item, or a page of a Query. A Scan has no partition key."""
        ...

    def wrote(self, pk: bytes, half_units: int, applied: Applied | None) -> None:
        """Observe a write. `applied` has the units of global indexes, and both images for the keys of their entries.

        It is None for a write that was refused, or that a transaction made in another partition.
        """
        ...

    def throttled(self, index: str | None, pk: bytes, is_write: bool) -> None:
        """Observe a request that was refused for lack of throughput."""
        ...


class PartUsage:
    """The counters of a table or a global index.

    Attributes:
        reads: The read half units of each read.
        writes: The write half units of each write.
        read_throttles: 1 for each throttled read of an item or a page.
        write_throttles: 1 for each throttled write of an item.
    """

    __slots__ = ("read_throttles", "reads", "write_throttles", "writes")

    def __init__(self) -> None:
        self.reads = Counter()
        self.writes = Counter()
        self.read_throttles = Counter()
        self.write_throttles = Counter()


class TableUsage(PartUsage):
    """The counters of a table.

    Attributes:
        indexes: Those of its global indexes, by name.
        failed_conditions: 1 for each write whose condition did not hold.
        conflicts: 1 for each read or write of an item that met a transaction.
        queried, scanned: The items that each page of a Query or a Scan returned.
        observer: Receives partition keys; None if nothing observes the table.
    """

    __slots__ = (
        "_read_sizes",
        "_written_sizes",
        "conflicts",
        "failed_conditions",
        "indexes",
        "observer",
        "queried",
        "scanned",
    )

    def __init__(self, observer: KeyObserver | None = None) -> None:
        super().__init__()
        self.indexes: dict[str, PartUsage] = {}
        self.failed_conditions = Counter()
        self.conflicts = Counter()
        self.queried = Counter()
        self.scanned = Counter()
        self.observer = observer
        # The number of requests by size in bytes: of eventual and of consistent reads, and of writes.
        self._read_sizes = defaultdict[int, int](int), defaultdict[int, int](int)
        self._written_sizes = defaultdict[int, int](int)

    def part(self, index: str | None) -> PartUsage:
        """Return the counters of a global index, or those of the table itself."""
        if index is None:
            return self
        part = self.indexes.get(index)
        if part is None:
            part = self.indexes[index] = PartUsage()
        return part

    def count_get(self, pk: bytes, found: Stored | RequestError | None, consistent: bool) -> None:
        """Count the read of an item, or its error."""
        if found is None or type(found) is tuple:
            size = found[1] if found else 0
            self._read_sizes[consistent][size] += 1
            if self.observer is not None:
                self.observer.read(None, pk, read_half_units(size, consistent))
        elif isinstance(found, RequestError):
            self.count_error(pk, found)

    def count_read(self, index: str | None, pk: bytes | None, half_units: int) -> None:
        """Count a read, or a page of a table or index."""
        self.part(index).reads.add(half_units)
        if self.observer is not None and pk is not None:
            self.observer.read(index, pk, half_units)

    def count_outcome(self, pk: bytes, outcome: Outcome) -> None:
        """Count the write of an item by itself, or its error."""
        if type(outcome) is Applied:
            if outcome.local is None and outcome.glob is None:
                before, after = outcome.old, outcome.new
                size = after[1] if after else 0
                if before and before[1] > size:
                    size = before[1]
                self._written_sizes[size] += 1
                if self.observer is not None:
                    self.observer.wrote(pk, 2 * write_units(size), outcome)
            else:
                self.count_write(pk, outcome.units, outcome)
            return
        if isinstance(outcome, Refused) and outcome.units:
            self.count_write(pk, Units(outcome.units))
        error = getattr(outcome, "error", None)  # of Refused and Failed
        if isinstance(error, RequestError):
            self.count_error(pk, error)

    def count_write(self, pk: bytes, units: Units, applied: Applied | None = None) -> None:
        """Count a write with its units; `applied` is as for KeyObserver."""
        self.writes.add(units.half_units)
        for name, count in (units.glob or {}).items():
            self.part(name).writes.add(2 * count)
        if self.observer is not None:
            self.observer.wrote(pk, units.half_units, applied)

    def count_error(self, pk: bytes | None, error: RequestError) -> None:
        """Count an error that CloudWatch has a metric of the table for."""
        if isinstance(error, ConditionalCheckFailedError):
            self.failed_conditions.add(1)
        elif isinstance(error, TransactionConflictError):
            self.conflicts.add(1)
        elif isinstance(error, _THROTTLED):
            for reason in error.reasons:
                index = reason["resource"].partition("/index/")[2] or None
                self._count_throttled(index, pk, is_write="Write" in reason["reason"])

    def count_reason(self, pk: bytes, reason: Reason) -> None:
        """Count the reason for which an action cancelled its write transaction."""
        if reason.code == "ConditionalCheckFailed":
            self.failed_conditions.add(1)
        elif reason.code == "TransactionConflict":
            self.conflicts.add(1)
        elif reason.code in _THROTTLED_CODES:
            self._count_throttled(reason.index, pk, is_write=True)

    def settle(self) -> None:
        """Convert the sizes of items that were read and written to units."""
        for consistent, sizes in enumerate(self._read_sizes):
            for size, count in sizes.items():
                self.reads.add(read_half_units(size, bool(consistent)), count)
            sizes.clear()
        for size, count in self._written_sizes.items():
            self.writes.add(2 * write_units(size), count)
        self._written_sizes.clear()

    def _count_throttled(self, index: str | None, pk: bytes | None, *, is_write: bool) -> None:
        part = self.part(index)
        (part.write_throttles if is_write else part.read_throttles).add(1)
        if self.observer is not None and pk is not None:
            self.observer.throttled(index, pk, is_write)


class Usage(dict[int, TableUsage]):
    """The counters of all tables, by table id. Those of a table begin with its first request."""

    def __init__(self, observe: Callable[[int], KeyObserver | None] = lambda _: None) -> None:
        """`observe` returns the observer of a table's keys."""
        super().__init__()
        self._observe = observe

    def __missing__(self, table_id: int) -> TableUsage:
        usage = self[table_id] = TableUsage(self._observe(table_id))
        return usage

    def settle(self, table_ids: Container[int]) -> None:
        """Convert sizes to units, and drop the counters of all tables but these.

        The number of distinct sizes is not bounded, so it is called every second.
        """
        for table_id in [each for each in self if each not in table_ids]:
            del self[table_id]
        for usage in self.values():
            usage.settle()
