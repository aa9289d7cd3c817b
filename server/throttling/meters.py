"""The meters of tables and global indexes: which limit a request would exceed.

    Meter of a table ── read:  table's bucket, buckets of its capacity partitions
                     ── write: the same
                     ── indexes: a Meter for each global index; a local index is part of its table

A request is admitted if no bucket that it draws on is empty. Its cost is taken from all of them. A capacity partition
is a model of DynamoDB's physical partitions: a range of keys (model/capacity_partitions.py). It serves at most 1,000
write units and 3,000 read units a second, and with borrowing each of them up to that limit while the table has capacity
left. Without borrowing each has an equal share of the table's rate. When it is split each child begins with half of its
balance.

    exact: both buckets ──► lease of a capacity partition ──► one subtraction for each of the next requests

A lease is capacity that was taken from both buckets before its use. While the buckets have plenty, the requests to a
capacity partition share a lease, and read neither the clock nor a bucket. A bucket without capacity has no leases: a
request that empties it returns the rest of them. Leased capacity counts as part of its bucket until the lease ends, as
if all its requests came then. So a bucket never has more than without leases, and at most a lease less.

Sources: the developer guide on burst and adaptive capacity, on on-demand capacity and on partition keys; M. Elhemali
and others, "Amazon DynamoDB: A Scalable, Predictably Performant, and Fully Managed NoSQL Database Service", USENIX ATC
2022, section 4.
"""

from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple

from ...model.capacity_partitions import READ_UNITS_MAX, WRITE_UNITS_MAX, CapacityPartition, PartitionMap
from ...model.keys import key_hash
from ...model.lazy_dataclass import dataclass
from ...model.limits import Limits
from ...model.tables import IndexDefinition, OnDemand, TableDefinition
from ...model.throughput import partition_map, readiness
from .buckets import HALF_UNIT, Bucket, PartitionBucket, Peaks

_SECOND_MS: Final = 1_000
_LARGEST_LEASE: Final = 128
"""Half units: those between two samples. Writes that returned theirs leave more until the next sample."""
_LEASED_FROM: Final = 2 * _LARGEST_LEASE * HALF_UNIT
"""The balance from which a bucket gives a lease."""
_RECENT_KEYS: Final = 4_096


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
        partitions=len(partition_map(definition, part).partitions),
    )


class DirectionRates(NamedTuple):
    """The limits of a table or a global index in both directions."""

    read: Rates
    write: Rates


def partition_rate(rates: Rates, policy: Policy) -> tuple[int, int]:
    """Return the rate of a capacity partition, and the time for which it keeps unused capacity."""
    if rates.provisioned is None or policy.borrows:
        return rates.partition * 1000, _SECOND_MS
    share = rates.provisioned * 1000 // rates.partitions
    return min(rates.partition * 1000, share), max(_SECOND_MS, policy.burst_ms)


class Meter:
    """The rate of a table or a global index in one direction.

    Attributes:
        bucket: The bucket of the whole table or index.
    """

    __slots__ = ("_leases", "_peaks", "_policy", "_rates", "bucket")

    def __init__(self, rates: Rates, policy: Policy, now_ms: int) -> None:
        self._policy = policy
        self._rates = rates
        self._leases: dict[PartitionBucket, int] = {}
        self._peaks = Peaks(rates.initial // policy.shares)
        self.bucket = Bucket(*self._rate(now_ms), now_ms)

    def configure(self, rates: Rates, now_ms: int) -> None:
        """Take the rates of a changed definition. The balance stays."""
        self.refill(now_ms)
        self.end_leases()
        if rates.initial != self._rates.initial:
            self._peaks = Peaks(rates.initial // self._policy.shares)
        self._rates = rates
        self.bucket.configure(*self._rate(now_ms), now_ms)

    def take(self, amount: int, partition: PartitionBucket | None) -> None:
        """Take millionths of a half unit of a request that was admitted; a negative amount returns a part of it.

        Both buckets have to be refilled before.
        """
        self.bucket.balance -= amount
        if self.bucket.balance <= 0:
            self.end_leases()
        if partition is not None:
            partition.balance -= amount
            if partition.balance <= 0:
                self.end_lease(partition)

    def limit_at(self, partition: PartitionBucket | None, now_ms: int) -> Limit | None:
        """Return the limit that refuses a request now; None if it is admitted. `partition` is None for a Scan."""
        self.refill(now_ms)
        if self.bucket.balance <= 0:
            return self.limit(now_ms)
        if partition is not None:
            partition.refill(now_ms)
            if partition.balance <= 0:
                return Limit.KEY_RANGE
        return None

    def next_limit_at(self, partition: PartitionBucket, now_ms: int) -> Limit | None:
        """End the lease of a capacity partition, and return the limit that refuses a request now."""
        self.refill(now_ms)
        self.end_lease(partition)
        return self.limit_at(partition, now_ms)

    def lease(self, partition: PartitionBucket) -> None:
        """Lease the capacity of the requests until the next sample, unless a bucket is low."""
        half_units = min(_LARGEST_LEASE, partition.sampled_at - partition.unsampled)
        if half_units <= 0 or min(self.bucket.balance, partition.balance) < _LEASED_FROM:
            return
        amount = half_units * HALF_UNIT
        for bucket in (self.bucket, partition):
            bucket.balance -= amount
            bucket.leased += amount
        self._leases[partition] = partition.left = half_units

    def end_lease(self, partition: PartitionBucket) -> None:
        """Return the rest of the lease of a capacity partition, if it has one. Refill the table's bucket before."""
        half_units = self._leases.pop(partition, 0)
        if half_units:
            partition.refill(self.bucket.time_ms)
            for bucket in (self.bucket, partition):
                bucket.leased -= half_units * HALF_UNIT
                bucket.balance += partition.left * HALF_UNIT
            partition.unsampled += half_units - partition.left
            partition.left = 0

    def end_leases(self) -> None:
        """Return the rest of all leases. Refill the table's bucket before."""
        for partition in list(self._leases):
            self.end_lease(partition)

    def refill(self, now_ms: int) -> None:
        """Add the unused capacity. A table on demand has the rate of its former peaks."""
        bucket = self.bucket
        if self._rates.provisioned is not None:
            bucket.refill(now_ms)
            return
        since_ms, consumed = bucket.time_ms, bucket.consumed
        bucket.refill(now_ms)
        self._peaks.take((bucket.consumed - consumed) // HALF_UNIT, since_ms)
        if bucket.balance <= 0:
            bucket.configure(*self._rate(now_ms), now_ms)

    def limit(self, now_ms: int) -> Limit:
        """Return the limit that has refused a request: that of the table or index, or else of a capacity partition."""
        if self.bucket.balance > 0:
            return Limit.KEY_RANGE
        rates, shares = self._rates, self._policy.shares
        if rates.provisioned is not None:
            return Limit.PROVISIONED
        rate = self._peaks.rate(now_ms)
        if rates.maximum is not None and rates.maximum // shares <= min(rate, rates.account // shares):
            return Limit.MAX_ON_DEMAND
        return Limit.ACCOUNT if rate >= rates.account // shares else Limit.KEY_RANGE

    def _rate(self, now_ms: int) -> tuple[int, int]:
        """Return the rate of the bucket, and the time for which it keeps unused capacity."""
        rates, policy = self._rates, self._policy
        if rates.provisioned is not None:
            return rates.provisioned * 1000 // policy.shares, max(_SECOND_MS, policy.burst_ms)
        most = rates.account if rates.maximum is None else min(rates.account, rates.maximum)
        return min(most * 1000 // policy.shares, self._peaks.rate(now_ms) * 1000), _SECOND_MS


class PartitionBuckets:
    """The buckets of a capacity partition."""

    __slots__ = ("read", "write")

    def __init__(self, read: PartitionBucket, write: PartitionBucket) -> None:
        self.read = read
        self.write = write

    def inherit(self, parent: "PartitionBuckets", generations: int) -> None:
        """Take the share of a partition that was split in two so often."""
        self.read.balance = parent.read.balance >> generations
        self.write.balance = parent.write.balance >> generations


class PartMeters:
    """The meters of a table, or of one of its global indexes.

    Attributes:
        table_id: The id of the table.
        index: The name of the index; None for the table itself.
        map: Its capacity partitions.
        only: The buckets of its capacity partition; None if it has several.
        recent: Those of the keys of recent requests. A lookup takes a tenth of the time of a key's hash.
    """

    __slots__ = (
        "_buckets",
        "_debts",
        "_owner_id",
        "_policy",
        "_rates",
        "_since_ms",
        "index",
        "map",
        "only",
        "read",
        "recent",
        "table_id",
        "write",
    )

    def __init__(
        self,
        table_id: int,
        part: TableDefinition | IndexDefinition,
        partitions: PartitionMap,
        rates: DirectionRates,
        policy: Policy,
        now_ms: int,
    ) -> None:
        self.table_id = table_id
        self.index = part.name if isinstance(part, IndexDefinition) else None
        self.map = partitions
        self.read = Meter(rates.read, policy, now_ms)
        self.write = Meter(rates.write, policy, now_ms)
        self.recent: dict[bytes, PartitionBuckets] = {}
        self._owner_id = part.id
        self._policy = policy
        self._rates = rates
        self._buckets: dict[int, PartitionBuckets] = {}
        self._debts: list[PartitionBucket] = []
        self._since_ms = now_ms
        self.only = self._find_only()

    def configure(self, partitions: PartitionMap, rates: DirectionRates, now_ms: int) -> None:
        """Take the capacity partitions and the rates of a changed definition."""
        self.read.configure(rates.read, now_ms)
        self.write.configure(rates.write, now_ms)
        self._rates = rates
        for buckets in self._buckets.values():
            buckets.read.configure(*partition_rate(rates.read, self._policy), now_ms)
            buckets.write.configure(*partition_rate(rates.write, self._policy), now_ms)
        if partitions != self.map:
            self.recent.clear()
            self._debts.clear()
            if partitions.initial != self.map.initial:
                self._buckets.clear()
                self._since_ms = now_ms
            else:
                self._split(partitions, now_ms)
            self.map = partitions
            self.only = self._find_only()

    def at(self, pk: bytes, sk: bytes) -> PartitionBuckets:
        """Return the buckets of the capacity partition with a key."""
        found = self.only or self.recent.get(pk)
        if found is None:
            partition = self.map.of(key_hash(self._owner_id, pk), pk, sk)
            found = self._buckets_of(partition)
            if pk not in (partition.low.pk, partition.high.pk):  # no boundary divides the item collection
                if len(self.recent) >= _RECENT_KEYS:
                    self.recent.clear()
                self.recent[pk] = found
        return found

    def take_entry(self, bucket: PartitionBucket | None, amount: int, now_ms: int) -> None:
        """Take the cost of an index entry that a write of the table has changed, in its capacity partition if known."""
        self.write.refill(now_ms)
        if bucket is not None:
            bucket.refill(now_ms)
        self.write.take(amount, bucket)
        if bucket is not None and bucket.balance <= 0 and bucket not in self._debts:
            self._debts.append(bucket)

    @property
    def lacks_capacity(self) -> bool:
        """Whether the index, or a capacity partition of an entry that a write has changed, has no capacity."""
        return self.write.bucket.balance <= 0 or bool(self._debts)

    def meter(self, access: Access) -> Meter:
        """Return the meter of a direction."""
        return self.read if access is Access.READ else self.write

    def has_debts(self, now_ms: int) -> bool:
        """Return whether a capacity partition has no capacity for index entries now."""
        if self._debts:
            for bucket in self._debts:
                bucket.refill(now_ms)
            self._debts = [bucket for bucket in self._debts if bucket.balance <= 0]
        return bool(self._debts)

    def _split(self, partitions: PartitionMap, now_ms: int) -> None:
        """Give each new capacity partition its share of the balance of the one that was split."""
        present = {}
        for partition in partitions.partitions:
            ancestor, generations = partition.id, 0
            while ancestor not in self._buckets and ancestor >= partitions.initial:
                ancestor = partitions.splits[(ancestor - partitions.initial) // 2].partition
                generations += 1
            found = self._buckets.get(ancestor)
            if found is not None:
                present[partition.id] = found if not generations else self._new_buckets(now_ms)
                if generations:
                    present[partition.id].inherit(found, generations)
        self._buckets = present

    def _find_only(self) -> PartitionBuckets | None:
        partitions = self.map.partitions
        return self._buckets_of(partitions[0]) if len(partitions) == 1 else None

    def _buckets_of(self, partition: CapacityPartition) -> PartitionBuckets:
        """Return the buckets of a capacity partition; new ones at its first request."""
        found = self._buckets.get(partition.id)
        if found is None:
            found = self._buckets[partition.id] = self._new_buckets(self._since_ms)
        return found

    def _new_buckets(self, since_ms: int) -> PartitionBuckets:
        return PartitionBuckets(
            PartitionBucket(*partition_rate(self._rates.read, self._policy), since_ms),
            PartitionBucket(*partition_rate(self._rates.write, self._policy), since_ms),
        )


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
        read, write = [rates_of(self.definition, part, access, self._limits) for access in Access]
        if isinstance(
            part, IndexDefinition
        ):  # its entries are written by items of all partitions of a shared log
            write = replace(write, partition=write.partition // self._policy.shares)
        rates = DirectionRates(read, write)
        partitions = partition_map(self.definition, part)
        if present is None:
            return PartMeters(self.definition.id, part, partitions, rates, self._policy, now_ms)
        present.configure(partitions, rates, now_ms)
        return present
