"""A partition whose requests are admitted by the meters of their tables.

    request ──► admitted? ──► partition ──► outcome ──► its cost is taken
                   └── no: DynamoDB's throttling error; nothing is appended to the log

A write reserves the least that it can cost, and the rest is taken after it: so writes that wait for the log are not
admitted for nothing. Deletions by time to live and copies of a restore are not throttled, as in DynamoDB.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from ...log.commands import Action, Check, Command, Delete, Position, Put, Transact, Update
from ...materializer.fold.outcomes import (
    Applied,
    Failed,
    Outcome,
    Refused,
    Transacted,
    TransactionRefused,
    Units,
)
from ...materializer.fold.state import PartitionState, Table
from ...materializer.fold.storage import Stored
from ...materializer.history.requests import PartitionWithHistory
from ...materializer.partition import (
    EncodedKey,
    Found,
    OnFound,
    OnItem,
    OnItems,
    OnOutcome,
    OnPage,
    Page,
    Partition,
    QueryRequest,
    ResultPosition,
    ScanRequest,
    Since,
)
from ...model.capacity import read_half_units, transaction_read_half_units, write_units
from ...model.errors import (
    ProvisionedThroughputExceededError,
    Reason,
    RequestError,
    RequestLimitExceededError,
    ThrottlingError,
    TransactionCanceledError,
)
from ...model.tables import IndexDefinition
from ...model.values import load
from ..settings import Settings
from .meters import Access, Limit, Meter, Policy, TableMeters

_INDEX_PROVISIONED: Final = (
    "The level of configured provisioned throughput for one or more global secondary indexes of the table was "
    "exceeded. Consider increasing your provisioning level for the under-provisioned global secondary indexes with the "
    "UpdateTable API"
)
_KEY_RANGE: Final = (
    "Throughput exceeds the current capacity of your table or index. DynamoDB is automatically scaling your table or "
    "index so please try again shortly. If exceptions persist, check if you have a hot key: "
    "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html"
)
_MAX_ON_DEMAND: Final = "Throughput exceeds the maximum OnDemandThroughput configured on table or index"
_ACCOUNT: Final = (
    "Throughput exceeds the current throughput limit for your account. Please contact AWS Support at "
    "https://aws.amazon.com/support to request a limit increase"
)
_UNTHROTTLED_SOURCES: Final = frozenset(("ttl", "restore"))

FindItem: TypeAlias = Callable[[EncodedKey], Stored | None]
"""Returns the present item at a key, of a partition in this process."""


class MeteredPartition:
    """A partition that refuses requests beyond the throughput of their tables.

    Args:
        partition: The wrapped partition, or the router over all of them.
        state: The catalog, for the definitions of tables.
        find: Returns the present item at a key.
        clock: Returns milliseconds since 1970.
        position: Returns the position of a refusal.
    """

    def __init__(
        self,
        partition: Partition,
        state: PartitionState,
        find: FindItem,
        *,
        policy: Policy,
        clock: Callable[[], int],
        position: Callable[[], Position],
    ) -> None:
        self._partition = partition
        self._state = state
        self._find = find
        self._policy = policy
        self._clock = clock
        self._position = position
        self._tables: dict[int, TableMeters] = {}
        self.reach = partition.reach
        self.status = partition.status

    def submit(self, command: Command, size: int, done: OnOutcome) -> None:
        """Submit a command if the tables and indexes that it writes to have capacity."""
        if isinstance(command, Put | Update | Delete):
            if command.context.source in _UNTHROTTLED_SOURCES:
                self._partition.submit(command, size, done)
                return
            error = self._refusal(command)
            if error is not None:
                done(Failed(error), self._position())
                return
            reserved = self._reserve(command, 1)
            self._partition.submit(command, size, partial(self._written, command, reserved, done))
        elif isinstance(command, Transact):
            errors = [self._refusal(action) for action in command.actions]
            if any(errors):
                reasons = [_reason(error) for error in errors]
                outcome = TransactionRefused(TransactionCanceledError(reasons), [0] * len(errors))
                done(outcome, self._position())
                return
            reservations = [self._reserve(action, 2) for action in command.actions]
            self._partition.submit(command, size, partial(self._transacted, command, reservations, done))
        else:
            self._partition.submit(command, size, done)

    def get(self, table: int, pk: bytes, sk: bytes, consistent: bool, done: OnItem) -> None:
        """Read an item."""
        meters = self._meters(table)
        if meters is None:
            self._partition.get(table, pk, sk, consistent, done)
            return
        slot = meters.slots[None].of(pk)
        meter = meters.meters[None, Access.READ]
        limit = meter.limit_at(slot, self._clock())
        if limit is not None:
            done(_error(meters, meter, Access.READ, None, limit), self._position())
            return

        def on_item(found: Stored | RequestError | None, position: ResultPosition) -> None:
            if not isinstance(found, RequestError):
                size = 0 if found is None else found[1]
                meter.take(read_half_units(size, consistent), slot, self._clock())
            done(found, position)

        self._partition.get(table, pk, sk, consistent, on_item)

    def get_all(self, keys: Sequence[EncodedKey], consistent: bool, done: OnItems) -> None:
        """Read items: all of them or none. BatchGetItem then reads each by itself."""
        error = next(filter(None, map(self._read_refusal, keys)), None)
        if error is not None:
            done(error, self._position())
            return

        def on_items(found: list[Stored | None] | RequestError, position: ResultPosition) -> None:
            if not isinstance(found, RequestError):
                for key, stored in zip(keys, found, strict=True):
                    self._take_read(key, read_half_units(0 if stored is None else stored[1], consistent))
            done(found, position)

        self._partition.get_all(keys, consistent, on_items)

    def get_isolated(self, keys: Sequence[EncodedKey], since: Since, done: OnFound) -> None:
        """Read items in isolation: all of them or none."""
        error = next(filter(None, map(self._read_refusal, keys)), None)
        is_second = isinstance(since, Position)
        if error is not None and not is_second:
            done(error, self._position())
            return

        def on_found(found: list[Found] | RequestError, position: ResultPosition) -> None:
            if not is_second and not isinstance(found, RequestError):
                for key, stored in zip(keys, found, strict=True):
                    size = stored[1] if isinstance(stored, tuple) else 0
                    self._take_read(key, transaction_read_half_units(size))
            done(found, position)

        self._partition.get_isolated(keys, since, on_found)

    def query(self, request: QueryRequest, done: OnPage) -> None:
        """Read a page of one item collection."""
        self._read_page(request, request.pk, done, lambda answer: self._partition.query(request, answer))

    def scan(self, request: ScanRequest, done: OnPage) -> None:
        """Read a page in hash order. It draws on no capacity partition, because it may read several."""
        self._read_page(request, None, done, lambda answer: self._partition.scan(request, answer))

    def _read_page(
        self,
        request: QueryRequest | ScanRequest,
        pk: bytes | None,
        done: OnPage,
        read: Callable[[OnPage], None],
    ) -> None:
        meters = self._meters(request.table)
        if meters is None:
            read(done)
            return
        index = request.index if (request.index, Access.READ) in meters.meters else None
        meter = meters.meters[index, Access.READ]
        slot = None if pk is None else meters.slots[index].of(pk)
        limit = meter.limit_at(slot, self._clock())
        if limit is not None:
            done(_error(meters, meter, Access.READ, index, limit), self._position())
            return

        def on_page(page: Page | RequestError, position: ResultPosition) -> None:
            if not isinstance(page, RequestError):
                meter.take(page.table_half_units + page.index_half_units, slot, self._clock())
            done(page, position)

        read(on_page)

    def _meters(self, table_id: int) -> TableMeters | None:
        """Return the meters of a table; None if it does not exist."""
        table = self._state.tables.get(table_id)
        meters = self._tables.get(table_id)
        if table is None:
            if meters is not None:
                del self._tables[table_id]
            return None
        if meters is None:
            meters = TableMeters(table.definition, self._state.limits, self._policy, self._clock())
            self._tables[table_id] = meters
        elif meters.definition is not table.definition:
            meters.follow(table.definition, self._state.limits, self._clock())
        return meters

    def _read_refusal(self, key: EncodedKey) -> RequestError | None:
        meters = self._meters(key[0])
        if meters is None:
            return None
        meter = meters.meters[None, Access.READ]
        limit = meter.limit_at(meters.slots[None].of(key[1]), self._clock())
        return None if limit is None else _error(meters, meter, Access.READ, None, limit)

    def _take_read(self, key: EncodedKey, half_units: int) -> None:
        meters = self._meters(key[0])
        if meters is not None:
            meter = meters.meters[None, Access.READ]
            meter.take(half_units, meters.slots[None].of(key[1]), self._clock())

    def _refusal(self, action: Action) -> RequestError | None:
        """Return the error of a write whose table, or a global index that it may change, has no capacity."""
        meters = self._meters(action.table)
        if meters is None:
            return None
        now_ms = self._clock()
        meter = meters.meters[None, Access.WRITE]
        limit = meter.limit_at(meters.slots[None].of(action.pk), now_ms)
        if limit is not None:
            return _error(meters, meter, Access.WRITE, None, limit)
        if isinstance(action, Check):
            return None
        for index in meters.definition.indexes:
            if index.kind == "GSI":
                meter = meters.meters[index.name, Access.WRITE]
                limit = meter.limit_at(None, now_ms)
                if limit is not None and self._may_change(index, action):
                    return _error(meters, meter, Access.WRITE, index.name, limit)
        return None

    def _may_change(self, index: IndexDefinition, action: Action) -> bool:
        """Return whether a write may change entries of an index: the item has one, or gets one."""
        if isinstance(action, Update):
            return True
        present = self._find((action.table, action.pk, action.sk))
        items = [] if present is None else [load(present[0])]
        if isinstance(action, Put):
            items.append(load(action.item))
        return any(index.key.pk(item) is not None and index.key.sort_part(item) is not None for item in items)

    def _reserve(self, action: Action, factor: int) -> int:
        """Take the least cost of a write; return it in half units."""
        meters = self._meters(action.table)
        if meters is None:
            return 0
        half_units = 2 * factor * write_units(action.size if isinstance(action, Put) else 0)
        self._take_write(meters, action, Units(0), half_units)
        return half_units

    def _take_write(self, meters: TableMeters, action: Action, units: Units, extra: int) -> None:
        """Take the units of a write, and `extra` half units of its table."""
        now_ms = self._clock()
        own = 2 * (units.table + sum((units.local or {}).values())) + extra
        meters.meters[None, Access.WRITE].take(own, meters.slots[None].of(action.pk), now_ms)
        for name, count in (units.glob or {}).items():
            meter = meters.meters.get((name, Access.WRITE))
            if meter is not None:
                meter.take(2 * count, None, now_ms)

    def _settle(self, action: Action, units: Units, reserved: int) -> None:
        meters = self._meters(action.table)
        if meters is not None:
            self._take_write(meters, action, units, -reserved)

    def _written(
        self, action: Action, reserved: int, done: OnOutcome, outcome: Outcome, position: ResultPosition
    ) -> None:
        if isinstance(outcome, Applied):
            units = outcome.units
        else:
            units = Units(outcome.units if isinstance(outcome, Refused) else 0)
        self._settle(action, units, reserved)
        done(outcome, position)

    def _transacted(
        self,
        command: Transact,
        reservations: Sequence[int],
        done: OnOutcome,
        outcome: Outcome,
        position: ResultPosition,
    ) -> None:
        costs = [Units(0)] * len(reservations)
        if isinstance(outcome, Transacted):
            costs = [each.units for each in outcome.actions]
        elif isinstance(outcome, TransactionRefused):
            costs = [Units(units) for units in outcome.units]
        for action, units, reserved in zip(command.actions, costs, reservations, strict=True):
            self._settle(action, units, reserved)
        done(outcome, position)


class MeteredReplica(MeteredPartition):
    """A metered partition of a shared log. Other nodes send requests to it, and it has a share of each table's rate."""

    def __init__(
        self,
        partition: PartitionWithHistory,
        state: PartitionState,
        *,
        policy: Policy,
        clock: Callable[[], int],
        position: Callable[[], Position],
    ) -> None:
        super().__init__(
            partition, state, partial(item_in, state), policy=policy, clock=clock, position=position
        )
        self.feed = partition.feed
        self.as_of = partition.as_of


def policy_of(settings: Settings, *, shares: int = 1) -> Policy:
    """Return the policy of the settings, for meters that have one of a number of equal shares of each table's rate."""
    return Policy(settings.throttle_burst_ms, not settings.throttle_equally, max(1, shares))


def item_in(state: PartitionState, key: EncodedKey) -> Stored | None:
    """Return the item at a key of a partition."""
    table: Table | None = state.tables.get(key[0])
    return None if table is None else table.items.get(key[1], key[2])


def _error(
    meters: TableMeters, meter: Meter, access: Access, index: str | None, limit: Limit
) -> RequestError:
    """Return DynamoDB's error for a request that a limit refuses."""
    kind = "Table" if index is None else "Index"
    reasons = [{"reason": f"{kind}{access.value}{limit.value}", "resource": meter.resource}]
    if limit is Limit.ACCOUNT:
        return RequestLimitExceededError(_ACCOUNT, reasons)
    if limit is Limit.MAX_ON_DEMAND:
        return ThrottlingError(_MAX_ON_DEMAND, reasons)
    if meters.definition.billing_mode == "PAY_PER_REQUEST":
        return ThrottlingError(_KEY_RANGE, reasons)
    is_of_index = index is not None and access is Access.WRITE
    return ProvisionedThroughputExceededError(_INDEX_PROVISIONED if is_of_index else None, reasons)


def _reason(error: RequestError | None) -> Reason:
    """Return the cancellation reason of an action."""
    if error is None:
        return Reason("None")
    is_provisioned = isinstance(error, ProvisionedThroughputExceededError)
    return Reason("ProvisionedThroughputExceeded" if is_provisioned else "ThrottlingError", error.message)
