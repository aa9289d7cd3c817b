"""The meters of tables and global indexes: which limit a request would exceed.

    Meter of a table ── read:  table's bucket, buckets of its capacity partitions
                     ── write: the same
                     ── indexes: a Meter for each global index; a local index is part of its table

A request is admitted if no bucket that it draws on is empty. Its cost is taken from all of them. A capacity partition
is a model of DynamoDB's physical partitions: an equal range of slots. It serves at most 1,000 write units and 3,000
read units a second, and with borrowing each of them up to that limit while the table has capacity left. Without
borrowing each has an equal share of the table's rate.

Sources: the developer guide on burst and adaptive capacity, on on-demand capacity and on partition keys; M. Elhemali
and others, "Amazon DynamoDB: A Scalable, Predictably Performant, and Fully Managed NoSQL Database Service", USENIX ATC
2022, section 4.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from ...model.capacity_partitions import READ_UNITS_MAX, WRITE_UNITS_MAX
from ...model.keys import SLOTS, Slots
from ...model.limits import Limits
from ...model.tables import IndexDefinition, OnDemand, TableDefinition
from ...model.throughput import readiness, wanted_partitions
from .buckets import HALF_UNIT, Bucket, Peaks

_SECOND_MS: Final = 1_000


NO_SLOT: Final = -1


class Access(Enum):
    """The direction of a request; the value is the word in a throttling reason."""

    READ = "Read"
    WRITE = "Write"


class Limit(Enum):
    """A limit that throttles; the value is the word in a throttling reason."""

    PROVISIONED = "ProvisionedThroughputExceeded"
    KEY_RANGE = "KeyRangeThroughputExceeded"
    MAX_ON_DEMAND = "MaxOnDemandThroughputExceeded"
    ACCOUNT = "AccountLimitExceeded"


@dataclass(frozen=True, slots=True)
class Policy:
    """How tables are throttled.

    Attributes:
        burst_ms: The time for which a provisioned table keeps unused capacity.
        borrows: Whether a capacity partition may use the share of others.
        shares: The number of equal shares of each table's rate, of which these meters have one. The partitions of a
            shared log have their own meters, because each may be on another node.
    """

    burst_ms: int = 300_000
    borrows: bool = True
    shares: int = 1


@dataclass(frozen=True, slots=True)
class Rates:
    """The limits of a table or a global index in one direction, in half units a second.

    Attributes:
        provisioned: None on demand.
        maximum: The bound that the user has set for a table on demand, if there is one.
        initial: The rate of a table on demand without traffic.
        account: The account's bound of a table on demand.
        partition: The bound of a capacity partition.
        partitions: The number of capacity partitions.
    """

    provisioned: int | None
    maximum: int | None
    initial: int
    account: int
    partition: int
    partitions: int


def rates_of(
    definition: TableDefinition, part: TableDefinition | IndexDefinition, access: Access, limits: Limits
) -> Rates:
    """Return the rates of `part`, the table or one of its global indexes."""
    by_request = definition.billing_mode == "PAY_PER_REQUEST"
    warm = readiness(part.throughput, part.warm, by_request=by_request)
    on_demand = part.on_demand or OnDemand()
    if access is Access.READ:
        units, maximum, initial, most = part.throughput.read, on_demand.read, warm.read, READ_UNITS_MAX
    else:
        units, maximum, initial, most = part.throughput.write, on_demand.write, warm.write, WRITE_UNITS_MAX
    return Rates(
        provisioned=None if by_request else 2 * units,
        maximum=None if maximum is None else 2 * maximum,
        initial=2 * initial,
        account=2 * limits.table_capacity_units,
        partition=2 * most,
        partitions=wanted_partitions(definition, part),
    )


class Meter:
    """The buckets of a table or a global index in one direction."""

    def __init__(self, rates: Rates, policy: Policy, now_ms: int) -> None:
        self._policy = policy
        self._rates = rates
        self._since_ms = now_ms
        self._peaks = Peaks(rates.initial // policy.shares)
        self._bucket = Bucket(*self._table_rate(now_ms), now_ms)
        self._maximum: Bucket | None = None
        self._partitions: dict[int, Bucket] = {}
        self._slots: list[Bucket | None] = [None] * SLOTS  # the buckets of `_partitions`, by slot
        self.configure(rates, now_ms)

    def configure(self, rates: Rates, now_ms: int) -> None:
        """Take the rates of a changed definition."""
        if rates.initial != self._rates.initial:
            self._peaks = Peaks(rates.initial // self._policy.shares)
        if rates.partitions != self._rates.partitions:
            self._partitions.clear()
            self._slots = [None] * SLOTS
            self._since_ms = now_ms
        self._rates = rates
        self._bucket.configure(*self._table_rate(now_ms), now_ms)
        for bucket in self._partitions.values():
            bucket.configure(*self._partition_rate(), now_ms)
        self._maximum = None
        if rates.provisioned is None and rates.maximum is not None:
            self._maximum = Bucket(rates.maximum * 1000 // self._policy.shares, _SECOND_MS, now_ms)

    def admits(self, slot: int, now_ms: int) -> bool:
        """Return whether a request at a slot is admitted now; a Scan may read several partitions, so it has NO_SLOT."""
        bucket = self._bucket
        if now_ms != bucket.time_ms:
            bucket.refill(now_ms)
        if bucket.balance <= 0 and not self._may_grow(now_ms):
            return False
        if slot >= 0:
            bucket = self._slots[slot] or self._bucket_at(slot)
            if now_ms != bucket.time_ms:
                bucket.refill(now_ms)
            if bucket.balance <= 0:
                return False
        return self._maximum is None or self._maximum.admits(now_ms)

    def limit_at(self, slot: int, now_ms: int) -> Limit | None:
        """Return the limit that refuses a request at a slot now; None if it is admitted."""
        if self.admits(slot, now_ms):
            return None
        if self._maximum is not None and not self._maximum.admits(now_ms):
            return Limit.MAX_ON_DEMAND
        if not self._bucket.admits(now_ms):
            if self._rates.provisioned is not None:
                return Limit.PROVISIONED
            if self._peaks.rate(now_ms) >= self._rates.account // self._policy.shares:
                return Limit.ACCOUNT
        return Limit.KEY_RANGE

    def take(self, half_units: int, slot: int, now_ms: int) -> None:
        """Take the cost of a request that was admitted; a negative one returns a part of it."""
        amount = half_units * HALF_UNIT
        self._bucket.balance -= amount
        if slot >= 0:
            (self._slots[slot] or self._bucket_at(slot)).balance -= amount
        if self._rates.provisioned is None:
            self._peaks.take(half_units, now_ms)
            if self._maximum is not None:
                self._maximum.balance -= amount

    def _may_grow(self, now_ms: int) -> bool:
        """Return whether a table on demand has capacity by peaks that have become old enough."""
        if self._rates.provisioned is None:
            self._bucket.configure(*self._table_rate(now_ms), now_ms)
        return self._bucket.balance > 0

    def _bucket_at(self, slot: int) -> Bucket:
        number = slot * self._rates.partitions // SLOTS
        bucket = self._partitions.get(number)
        if bucket is None:
            bucket = self._partitions[number] = Bucket(*self._partition_rate(), self._since_ms)
        self._slots[slot] = bucket
        return bucket

    def _table_rate(self, now_ms: int) -> tuple[int, int]:
        rates, policy = self._rates, self._policy
        if rates.provisioned is not None:
            return rates.provisioned * 1000 // policy.shares, max(_SECOND_MS, policy.burst_ms)
        return min(rates.account // policy.shares, self._peaks.rate(now_ms)) * 1000, _SECOND_MS

    def _partition_rate(self) -> tuple[int, int]:
        rates, policy = self._rates, self._policy
        if rates.provisioned is None or policy.borrows:
            return rates.partition * 1000, _SECOND_MS
        share = rates.provisioned * 1000 // rates.partitions
        return min(rates.partition * 1000, share), max(_SECOND_MS, policy.burst_ms)


class PartMeters:
    """The meters of a table, or of one of its global indexes."""

    __slots__ = ("_slots", "partitions", "read", "write")

    def __init__(self, owner_id: int, read: Meter, write: Meter, partitions: int) -> None:
        self.read = read
        self.write = write
        self.partitions = partitions
        self._slots = Slots(owner_id)

    def slot_of(self, pk: bytes) -> int:
        """Return the slot of a partition key; with one capacity partition any slot will do."""
        return 0 if self.partitions == 1 else self._slots.of(pk)


class TableMeters:
    """The meters of a table and its global indexes.

    Attributes:
        definition: The definition that the meters follow.
        own: The meters of the table.
        indexes: Those of each global index, by name.
    """

    def __init__(self, definition: TableDefinition, limits: Limits, policy: Policy, now_ms: int) -> None:
        self.indexes: dict[str, PartMeters] = {}
        self._policy = policy
        self._limits = limits
        self.definition = definition
        self.own = self._part(definition, None, now_ms)
        self.follow(definition, now_ms)

    def follow(self, definition: TableDefinition, now_ms: int) -> None:
        """Take a changed definition; the meters of dropped indexes are dropped."""
        self.definition = definition
        self.own = self._part(definition, self.own, now_ms)
        self.indexes = {
            index.name: self._part(index, self.indexes.get(index.name), now_ms)
            for index in definition.indexes
            if index.kind == "GSI"
        }

    def _part(
        self, part: TableDefinition | IndexDefinition, present: PartMeters | None, now_ms: int
    ) -> PartMeters:
        """Return the meters of a table or an index: the present ones, changed, or new ones."""
        read, write = (rates_of(self.definition, part, access, self._limits) for access in Access)
        if present is None:
            return PartMeters(
                part.id,
                Meter(read, self._policy, now_ms),
                Meter(write, self._policy, now_ms),
                read.partitions,
            )
        present.read.configure(read, now_ms)
        present.write.configure(write, now_ms)
        present.partitions = read.partitions
        return present
