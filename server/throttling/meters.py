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

from ...model.keys import SLOTS, Slots
from ...model.limits import Limits
from ...model.tables import IndexDefinition, OnDemand, TableDefinition
from ...model.throughput import readiness
from .buckets import Bucket, Peaks

_READ_UNITS_MAX: Final = 3_000
_WRITE_UNITS_MAX: Final = 1_000
_PARTITION_BYTES: Final = 10 * 1024**3
_SECOND_MS: Final = 1_000


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


def partitions_of(read: int, write: int, size: int) -> int:
    """Return the number of capacity partitions for units a second and bytes: the rule of the guide of 2012."""
    by_rate = -(-(read * _WRITE_UNITS_MAX + write * _READ_UNITS_MAX) // (_READ_UNITS_MAX * _WRITE_UNITS_MAX))
    return min(SLOTS, max(1, by_rate, -(-size // _PARTITION_BYTES)))


def rates_of(
    definition: TableDefinition, part: TableDefinition | IndexDefinition, access: Access, limits: Limits
) -> Rates:
    """Return the rates of `part`, the table or one of its global indexes."""
    by_request = definition.billing_mode == "PAY_PER_REQUEST"
    warm = readiness(part.throughput, part.warm, by_request=by_request)
    on_demand = part.on_demand or OnDemand()
    if access is Access.READ:
        units, maximum, initial, most = part.throughput.read, on_demand.read, warm.read, _READ_UNITS_MAX
    else:
        units, maximum, initial, most = part.throughput.write, on_demand.write, warm.write, _WRITE_UNITS_MAX
    return Rates(
        provisioned=None if by_request else 2 * units,
        maximum=None if maximum is None else 2 * maximum,
        initial=2 * initial,
        account=2 * limits.table_capacity_units,
        partition=2 * most,
        partitions=partitions_of(warm.read, warm.write, 0),
    )


class Meter:
    """The buckets of a table or a global index in one direction.

    Args:
        resource: The ARN of the table or index, for throttling reasons.
    """

    def __init__(self, resource: str, rates: Rates, policy: Policy, now_ms: int) -> None:
        self.resource = resource
        self._policy = policy
        self._rates = rates
        self._since_ms = now_ms
        self._peaks = Peaks(rates.initial // policy.shares)
        self._bucket = Bucket(*self._table_rate(now_ms), now_ms)
        self._maximum: Bucket | None = None
        self._partitions: dict[int, Bucket] = {}
        self.configure(rates, now_ms)

    def configure(self, rates: Rates, now_ms: int) -> None:
        """Take the rates of a changed definition."""
        if rates.initial != self._rates.initial:
            self._peaks = Peaks(rates.initial // self._policy.shares)
        if rates.partitions != self._rates.partitions:
            self._partitions.clear()
            self._since_ms = now_ms
        self._rates = rates
        self._bucket.configure(*self._table_rate(now_ms), now_ms)
        for bucket in self._partitions.values():
            bucket.configure(*self._partition_rate(), now_ms)
        self._maximum = None
        if rates.provisioned is None and rates.maximum is not None:
            self._maximum = Bucket(rates.maximum * 1000 // self._policy.shares, _SECOND_MS, now_ms)

    def limit_at(self, slot: int | None, now_ms: int) -> Limit | None:
        """Return the limit that refuses a request at a slot now; None if it is admitted.

        Without a slot, as for a Scan, no capacity partition refuses it.
        """
        if self._maximum is not None and not self._maximum.admits(now_ms):
            return Limit.MAX_ON_DEMAND
        if self._rates.provisioned is None:
            self._bucket.configure(*self._table_rate(now_ms), now_ms)
        if not self._bucket.admits(now_ms):
            if self._rates.provisioned is not None:
                return Limit.PROVISIONED
            is_account = self._peaks.rate(now_ms) >= self._rates.account // self._policy.shares
            return Limit.ACCOUNT if is_account else Limit.KEY_RANGE
        if slot is not None and not self._partition(slot).admits(now_ms):
            return Limit.KEY_RANGE
        return None

    def take(self, half_units: int, slot: int | None, now_ms: int) -> None:
        """Take the cost of a request."""
        self._bucket.take(half_units, now_ms)
        if self._maximum is not None:
            self._maximum.take(half_units, now_ms)
        if self._rates.provisioned is None:
            self._peaks.take(half_units, now_ms)
        if slot is not None:
            self._partition(slot).take(half_units, now_ms)

    def _partition(self, slot: int) -> Bucket:
        number = slot * self._rates.partitions // SLOTS
        bucket = self._partitions.get(number)
        if bucket is None:
            bucket = self._partitions[number] = Bucket(*self._partition_rate(), self._since_ms)
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


class TableMeters:
    """The meters of a table and its global indexes.

    Attributes:
        definition: The definition that the meters follow.
        meters: By index name, None for the table, and direction.
        slots: Computes the slots of the keys of the table and of each global index, by the same names.
    """

    def __init__(self, definition: TableDefinition, limits: Limits, policy: Policy, now_ms: int) -> None:
        self.definition = definition
        self.meters: dict[tuple[str | None, Access], Meter] = {}
        self.slots: dict[str | None, Slots] = {}
        self._policy = policy
        self.follow(definition, limits, now_ms)

    def follow(self, definition: TableDefinition, limits: Limits, now_ms: int) -> None:
        """Take a changed definition; the meters of dropped indexes are dropped."""
        self.definition = definition
        parts: dict[str | None, TableDefinition | IndexDefinition] = {None: definition}
        parts |= {index.name: index for index in definition.indexes if index.kind == "GSI"}
        meters: dict[tuple[str | None, Access], Meter] = {}
        for name, part in parts.items():
            resource = definition.arn if name is None else f"{definition.arn}/index/{name}"
            for access in Access:
                rates = rates_of(definition, part, access, limits)
                meter = self.meters.get((name, access))
                if meter is None:
                    meter = Meter(resource, rates, self._policy, now_ms)
                else:
                    meter.configure(rates, now_ms)
                meters[name, access] = meter
        self.meters = meters
        self.slots = {name: Slots(part.id) for name, part in parts.items()}
