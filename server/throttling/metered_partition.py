"""A partition whose requests are admitted by the meters of their tables.

    request ──► lease ──► partition ──► outcome ──► the rest of its cost is taken
                  └─ used up: admitted? ──► yes: a new lease (meters.py), and a sample of the load (load_sampler.py)
                                  └── no: DynamoDB's throttling error; nothing is appended to the log

While the lease of a capacity partition has units, `get` and `submit` only subtract from it.

A write reserves the least that it can cost, and the rest is taken after it: so writes that wait for the log are not
admitted for nothing. Deletions by time to live and copies of a restore are not throttled, as in DynamoDB.
"""

# Without this each request would evaluate the annotations of its callback.
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeAlias

from ...log.commands import Action, Check, Command, Delete, Position, Put, Transact, Update
from ...materializer.fold.index_entries import EntryKey, entry_key
from ...materializer.fold.outcomes import (
    Applied,
    CostOnly,
    Failed,
    Outcome,
    Refused,
    Transacted,
    TransactionRefused,
)
from ...materializer.fold.state import PartitionState, Table
from ...materializer.fold.storage import UNKNOWN, Stored
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
from ...model.capacity import READ_BLOCK, WRITE_BLOCK
from ...model.errors import (
    ProvisionedThroughputExceededError,
    Reason,
    RequestError,
    RequestLimitExceededError,
    ThrottlingError,
    TransactionCanceledError,
)
from ...model.values import load
from ..settings import Settings
from .buckets import HALF_UNIT, PartitionBucket
from .load_sampler import LoadSampler
from .meters import Access, Limit, PartMeters, Policy, TableMeters

_UNIT: Final = 2
_UPDATES: Final = (Update, Delete)

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
Throttled: TypeAlias = ProvisionedThroughputExceededError | RequestLimitExceededError | ThrottlingError

FindItem: TypeAlias = Callable[[EncodedKey], Stored | None]
"""Returns the present item at a key; UNKNOWN if the partition is not in this process."""


class MeteredPartition:
    """A partition that refuses requests beyond the throughput of their tables.

    Args:
        partition: The wrapped partition, or the router over all of them.
        state: The catalog, for the definitions of tables.
        find: Returns the present item at a key.
        sampler: Samples the load of capacity partitions.
        seconds: Returns the seconds since any moment.
        position: Returns the position of a refusal.
    """

    def __init__(
        self,
        partition: Partition,
        state: PartitionState,
        find: FindItem,
        sampler: LoadSampler,
        *,
        policy: Policy,
        seconds: Callable[[], float],
        position: Callable[[], Position],
    ) -> None:
        self._partition = partition
        self._state = state
        self._find = find
        self._sampler = sampler
        self._policy = policy
        self._seconds = seconds
        self._position = position
        self._tables: dict[int, TableMeters] = {}
        self.reach = partition.reach
        self.status = partition.status

    def submit(self, command: Command, size: int, done: OnOutcome) -> None:
        """Submit a command if the tables and indexes that it writes to have capacity."""
        # The least that the write can cost.
        if isinstance(command, Put):
            units = 1 if command.size <= WRITE_BLOCK else -(-command.size // WRITE_BLOCK)
        elif isinstance(command, _UPDATES):
            units = 1
        else:
            if isinstance(command, Transact):
                self._transact(command, size, done)
            else:
                self._partition.submit(command, size, done)
            return
        meters, table = self._tables.get(command.table), self._state.tables.get(command.table)
        if meters is None or table is None or meters.definition is not table.definition:
            meters = self._meters(command.table)
            if meters is None:
                self._partition.submit(command, size, done)
                return
        own = meters.own
        pk = command.pk
        bucket = (own.only or own.recent.get(pk) or own.at(pk, command.sk)).write
        left = bucket.left - units * _UNIT
        if left >= 0:
            bucket.left = left
        elif (error := self._admit_write(meters, bucket, command, units * _UNIT)) is not None:
            done(Failed(error), self._position())
            return
        self._partition.submit(command, size, partial(self._on_outcome, meters, bucket, units, command, done))

    def get(self, table: int, pk: bytes, sk: bytes, consistent: bool, done: OnItem) -> None:
        """Read an item, which costs at least one block."""
        meters, catalog = self._tables.get(table), self._state.tables.get(table)
        if meters is None or catalog is None or meters.definition is not catalog.definition:
            meters = self._meters(table)
            if meters is None:
                self._partition.get(table, pk, sk, consistent, done)
                return
        own = meters.own
        bucket = (own.only or own.recent.get(pk) or own.at(pk, sk)).read
        block = _UNIT if consistent else 1
        left = bucket.left - block
        if left >= 0:
            bucket.left = left
        elif (limit := self._admit(own, Access.READ, bucket, (pk, sk), block)) is not None:
            done(_error(meters, Access.READ, None, limit), self._position())
            return
        self._partition.get(
            table, pk, sk, consistent, partial(self._on_item, own, bucket, pk, sk, block, done)
        )

    def get_all(self, keys: Sequence[EncodedKey], consistent: bool, done: OnItems) -> None:
        """Read items: all of them or none. BatchGetItem then reads each by itself."""
        block = _UNIT if consistent else 1
        error = self._take_blocks(keys, block)
        if error is not None:
            done(error, self._position())
            return

        def on_items(found: list[Stored | None] | RequestError, position: ResultPosition) -> None:
            sizes = None
            if isinstance(found, list):
                sizes = [0 if stored is None else stored[1] for stored in found]
            self._take_rest(keys, block, sizes)
            done(found, position)

        self._partition.get_all(keys, consistent, on_items)

    def get_isolated(self, keys: Sequence[EncodedKey], since: Since, done: OnFound) -> None:
        """Read items in isolation: all of them or none. The second of two reads costs nothing."""
        if isinstance(since, Position):
            self._partition.get_isolated(keys, since, done)
            return
        error = self._take_blocks(keys, 2 * _UNIT)
        if error is not None:
            done(error, self._position())
            return

        def on_found(found: list[Found] | RequestError, position: ResultPosition) -> None:
            sizes = None
            if isinstance(found, list):
                sizes = [stored[1] if isinstance(stored, tuple) else 0 for stored in found]
            self._take_rest(keys, 2 * _UNIT, sizes)
            done(found, position)

        self._partition.get_isolated(keys, since, on_found)

    def query(self, request: QueryRequest, done: OnPage) -> None:
        """Read a page of one item collection."""
        metered = self._metered(request, (request.pk, request.low), done)
        if metered is not None:
            self._partition.query(request, metered)

    def scan(self, request: ScanRequest, done: OnPage) -> None:
        """Read a page in hash order. It draws on no capacity partition, because it may read several."""
        metered = self._metered(request, None, done)
        if metered is not None:
            self._partition.scan(request, metered)

    def _metered(
        self, request: QueryRequest | ScanRequest, first: EntryKey | None, done: OnPage
    ) -> OnPage | None:
        """Return the callback that takes the cost of a page; None if the page is refused."""
        meters = self._meters(request.table)
        if meters is None:
            return done
        index = request.index if request.index in meters.indexes else None
        part = meters.own if index is None else meters.indexes[index]
        bucket = None if first is None else part.at(*first).read
        limit = None
        if bucket is None:
            limit = part.read.limit_at(None, self._now_ms())
        elif not bucket.left:
            limit = part.read.next_limit_at(bucket, self._now_ms())
            if limit is None:
                part.read.lease(bucket)
        if limit is None:
            # Of a local index the key's second part is no sort key of the table.
            is_local = first is not None and index is None and request.index is not None
            return partial(
                self._on_page, part, bucket, (first[0], b"") if first and is_local else first, done
            )
        if first is not None and bucket is not None:
            self._count(part, Access.READ, bucket, first, 1)
        done(_error(meters, Access.READ, index, limit), self._position())
        return None

    def _on_page(
        self,
        part: PartMeters,
        bucket: PartitionBucket | None,
        first: EntryKey | None,
        done: OnPage,
        page: Page | RequestError,
        position: ResultPosition,
    ) -> None:
        """Take the cost of a page."""
        if not isinstance(page, RequestError):
            self._take(part, Access.READ, bucket, first, page.table_half_units + page.index_half_units)
        done(page, position)

    def _on_item(
        self,
        part: PartMeters,
        bucket: PartitionBucket,
        pk: bytes,
        sk: bytes,
        block: int,
        done: OnItem,
        found: Stored | RequestError | None,
        position: ResultPosition,
    ) -> None:
        """Take the cost of an item beyond one block; return that block if nothing was read."""
        if type(found) is tuple:
            if found[1] > READ_BLOCK:
                blocks = (found[1] - 1) // READ_BLOCK
                self._take(part, Access.READ, bucket, (pk, sk), block * blocks)
        elif found is not None:
            self._take(part, Access.READ, bucket, (pk, sk), -block)
        done(found, position)

    def _on_outcome(
        self,
        meters: TableMeters,
        bucket: PartitionBucket,
        units: int,
        command: Put | Update | Delete,
        done: OnOutcome,
        outcome: Outcome,
        position: ResultPosition,
    ) -> None:
        """Take the cost of a write beyond the units that were taken before; return those of a failed one."""
        if isinstance(outcome, Applied):
            paid = units * WRITE_BLOCK
            old, new = outcome.old, outcome.new
            if (
                (old is not None and old[1] > paid)
                or (new is not None and new[1] > paid)
                or outcome.local is not None
                or outcome.glob is not None
            ):
                self._take_write(meters, bucket, (command.pk, command.sk), outcome, units)
        else:
            cost = outcome.units if isinstance(outcome, Refused) else 0
            if cost != units:
                key = command.pk, command.sk
                self._take(meters.own, Access.WRITE, bucket, key, (cost - units) * _UNIT)
        done(outcome, position)

    def _transact(self, command: Transact, size: int, done: OnOutcome) -> None:
        errors = [self._write_refusal(action) for action in command.actions]
        if any(errors):
            for action in command.actions:
                meters = self._meters(action.table)
                if meters is not None:
                    key = action.pk, action.sk
                    self._count(meters.own, Access.WRITE, meters.own.at(*key).write, key, 2 * _UNIT)
            reasons = [_reason(error) for error in errors]
            outcome = TransactionRefused(TransactionCanceledError(reasons), [0] * len(errors))
            done(outcome, self._position())
            return

        def on_outcome(outcome: Outcome, position: ResultPosition) -> None:
            costs: Sequence[Applied | CostOnly | int] = ()
            if isinstance(outcome, Transacted):
                costs = outcome.actions
            elif isinstance(outcome, TransactionRefused):
                costs = outcome.units
            for action, cost in zip(command.actions, costs, strict=False):  # none if nothing was appended
                meters = self._meters(action.table)
                if meters is None:
                    continue
                key = action.pk, action.sk
                bucket = meters.own.at(*key).write
                if isinstance(cost, int):
                    self._take(meters.own, Access.WRITE, bucket, key, cost * _UNIT)
                else:
                    self._take_write(meters, bucket, key, cost)
            done(outcome, position)

        self._partition.submit(command, size, on_outcome)

    def _admit(
        self,
        part: PartMeters,
        access: Access,
        bucket: PartitionBucket,
        key: EntryKey,
        half_units: int,
        *,
        leases: bool = True,
    ) -> Limit | None:
        """Take the cost of a request for which no lease is left, and lease more unless `leases` is False.

        Return the limit that refuses the request, if one does.
        """
        meter = part.meter(access)
        limit = meter.next_limit_at(bucket, self._now_ms())
        if limit is None:
            meter.take(half_units * HALF_UNIT, bucket)
        self._count(part, access, bucket, key, half_units)
        if limit is None and leases:
            meter.lease(bucket)
        return limit

    def _admit_write(
        self, meters: TableMeters, bucket: PartitionBucket, command: Put | Update | Delete, half_units: int
    ) -> RequestError | None:
        """Take the least cost of a write for which no lease is left. Return the error that refuses it, if one does."""
        key = command.pk, command.sk
        error = self._index_refusal(meters, command, self._now_ms())
        if error is not None:
            self._count(meters.own, Access.WRITE, bucket, key, half_units)
            return error
        leases = not any(part.lacks_capacity for part in meters.indexes.values())
        limit = self._admit(meters.own, Access.WRITE, bucket, key, half_units, leases=leases)
        return None if limit is None else _error(meters, Access.WRITE, None, limit)

    def _take(
        self,
        part: PartMeters,
        access: Access,
        bucket: PartitionBucket | None,
        key: EntryKey | None,
        half_units: int,
    ) -> None:
        """Take half units of a request that was admitted; a negative number returns a part of them."""
        if bucket is not None and 0 <= half_units <= bucket.left:
            bucket.left -= half_units
            return
        meter, now_ms = part.meter(access), self._now_ms()
        meter.refill(now_ms)
        if bucket is not None:
            bucket.refill(now_ms)
            meter.end_lease(bucket)
        meter.take(half_units * HALF_UNIT, bucket)
        if bucket is not None and key is not None:
            self._count(part, access, bucket, key, half_units)

    def _count(
        self, part: PartMeters, access: Access, bucket: PartitionBucket, key: EntryKey, half_units: int
    ) -> None:
        """Count the load of a request, admitted or refused."""
        sampled = self._sampler.count(bucket, half_units)
        if sampled:
            self._sampler.note(part.table_id, part.index, access, key[0], key[1] or b"", sampled)

    def _meters(self, table_id: int) -> TableMeters | None:
        """Return the meters of a table; None if it does not exist."""
        table = self._state.tables.get(table_id)
        meters = self._tables.get(table_id)
        if table is None:
            if meters is not None:
                del self._tables[table_id]
            return None
        if meters is None:
            if len(self._tables) >= len(self._state.tables):  # some of them are of dropped tables
                self._tables = {id_: each for id_, each in self._tables.items() if id_ in self._state.tables}
            meters = TableMeters(table.definition, self._state.limits, self._policy, self._now_ms())
            self._tables[table_id] = meters
        elif meters.definition is not table.definition:
            meters.follow(table.definition, self._now_ms())
        return meters

    def _now_ms(self) -> int:
        return int(self._seconds() * 1000)

    def _take_blocks(self, keys: Sequence[EncodedKey], block: int) -> RequestError | None:
        """Take the cost of one block of each item; none if a limit refuses one, whose error is returned."""
        now_ms = self._now_ms()
        for number, (table, pk, sk) in enumerate(keys):
            meters = self._meters(table)
            if meters is None:
                continue
            bucket = meters.own.at(pk, sk).read
            limit = meters.own.read.limit_at(bucket, now_ms)
            if limit is not None:
                self._count(meters.own, Access.READ, bucket, (pk, sk), block)
                self._take_rest(keys[:number], block, None)
                return _error(meters, Access.READ, None, limit)
            self._take(meters.own, Access.READ, bucket, (pk, sk), block)
        return None

    def _take_rest(self, keys: Sequence[EncodedKey], block: int, sizes: Iterable[int] | None) -> None:
        """Take the cost of items beyond one block each, or return that block if nothing was read."""
        for (table, pk, sk), size in zip(
            keys, itertools.repeat(-1) if sizes is None else sizes, strict=False
        ):
            meters = self._meters(table)
            blocks = -1 if size < 0 else (size - 1) // READ_BLOCK if size else 0
            if meters is not None and blocks:
                own = meters.own
                self._take(own, Access.READ, own.at(pk, sk).read, (pk, sk), block * blocks)

    def _write_refusal(self, action: Action) -> Throttled | None:
        """Return the error of an action whose table, or a global index that it may change, has no capacity."""
        meters = self._meters(action.table)
        if meters is None:
            return None
        now_ms = self._now_ms()
        limit = meters.own.write.limit_at(meters.own.at(action.pk, action.sk).write, now_ms)
        if limit is not None:
            return _error(meters, Access.WRITE, None, limit)
        return None if isinstance(action, Check) else self._index_refusal(meters, action, now_ms)

    def _index_refusal(
        self, meters: TableMeters, action: Put | Update | Delete, now_ms: int
    ) -> Throttled | None:
        """Return the error of a write that may change a global index, or capacity partition of it, without capacity."""
        for name, part in meters.indexes.items():
            limit = part.write.limit_at(None, now_ms)
            if limit is None and not part.has_debts(now_ms):
                continue
            keys = self._entry_keys(name, action)
            if limit is None and keys is not None and any(part.at(*key).write.balance <= 0 for key in keys):
                limit = Limit.KEY_RANGE
            if limit is not None and (keys is None or keys):
                return _error(meters, Access.WRITE, name, limit)
        return None

    def _entry_keys(self, name: str, action: Put | Update | Delete) -> list[EntryKey] | None:
        """Return the keys of the entries that a write may change in an index; None if they are not known before it."""
        key = action.table, action.pk, action.sk
        present = self._find(key)
        if isinstance(action, Update) or present == UNKNOWN:
            return None
        images = [] if present is None else [load(present[0])]
        if isinstance(action, Put):
            images.append(load(action.item))
        index = self._state.tables[action.table].indexes[name]
        return [found for image in images if (found := entry_key(index, image, *key[1:])) is not None]

    def _take_write(
        self,
        meters: TableMeters,
        bucket: PartitionBucket,
        key: EntryKey,
        outcome: Applied | CostOnly,
        reserved: int = 0,
    ) -> None:
        """Take the cost of an applied write beyond the reserved units, and that of its index entries.

        An entry that moves costs its new capacity partition alone.
        """
        units = outcome.units
        own = units.table + sum((units.local or {}).values()) - reserved
        self._take(meters.own, Access.WRITE, bucket, key, own * _UNIT)
        for name, count in (units.glob or {}).items():
            part = meters.indexes.get(name)
            if part is not None:
                self._take_entry(part, name, count * _UNIT, outcome)
                if part.lacks_capacity:
                    meters.own.write.refill(self._now_ms())
                    meters.own.write.end_leases()

    def _take_entry(self, part: PartMeters, name: str, half_units: int, outcome: Applied | CostOnly) -> None:
        """Take the cost of an index entry that a write has changed."""
        if part.only is not None:
            # The key of the entry, which takes longer to find than all the rest, is needed for a sample alone.
            part.take_entry(None, half_units * HALF_UNIT, self._now_ms())
            sampled = self._sampler.count(part.only.write, half_units)
            key = self._changed_entry(name, outcome) if sampled else None
        else:
            key = self._changed_entry(name, outcome)
            bucket = None if key is None else part.at(*key).write
            part.take_entry(bucket, half_units * HALF_UNIT, self._now_ms())
            sampled = 0 if bucket is None else self._sampler.count(bucket, half_units)
        if sampled and key is not None:
            self._sampler.note(part.table_id, name, Access.WRITE, *key, sampled)

    def _changed_entry(self, name: str, outcome: Applied | CostOnly) -> EntryKey | None:
        """Return the key of an entry after a write, or before it; None if it is not known."""
        if not isinstance(outcome, Applied):
            return None
        action = outcome.action
        table = self._state.tables.get(action.table)
        if table is None or name not in table.indexes:
            return None
        for image in (outcome.new, outcome.old):
            if image is not None and image != UNKNOWN:
                found = entry_key(table.indexes[name], load(image[0]), action.pk, action.sk)
                if found is not None:
                    return found
        return None


class MeteredReplica(MeteredPartition):
    """A metered partition of a shared log. Other nodes send requests to it, and it has a share of each table's rate."""

    def __init__(
        self,
        partition: PartitionWithHistory,
        state: PartitionState,
        find: FindItem,
        sampler: LoadSampler,
        *,
        policy: Policy,
        seconds: Callable[[], float],
        position: Callable[[], Position],
    ) -> None:
        super().__init__(partition, state, find, sampler, policy=policy, seconds=seconds, position=position)
        self.feed = partition.feed
        self.as_of = partition.as_of


def policy_of(settings: Settings, *, shares: int = 1) -> Policy:
    """Return the policy of the settings, for meters that have one of a number of equal shares of each table's rate."""
    return Policy(settings.throttle_burst_ms, not settings.throttle_equally, max(1, shares))


def item_in(state: PartitionState, key: EncodedKey) -> Stored | None:
    """Return the item at a key of a partition."""
    table: Table | None = state.tables.get(key[0])
    return None if table is None else table.items.get(key[1], key[2])


def _error(meters: TableMeters, access: Access, index: str | None, limit: Limit) -> Throttled:
    """Return DynamoDB's error for a request that a limit refuses."""
    kind, resource = "Table", meters.definition.arn
    if index is not None:
        kind, resource = "Index", f"{resource}/index/{index}"
    reasons = [{"reason": f"{kind}{access.value}{limit.value}", "resource": resource}]
    if limit is Limit.ACCOUNT:
        return RequestLimitExceededError(_ACCOUNT, reasons)
    if limit is Limit.MAX_ON_DEMAND:
        return ThrottlingError(_MAX_ON_DEMAND, reasons)
    if meters.definition.billing_mode == "PAY_PER_REQUEST":
        return ThrottlingError(_KEY_RANGE, reasons)
    is_of_index = index is not None and access is Access.WRITE
    return ProvisionedThroughputExceededError(_INDEX_PROVISIONED if is_of_index else None, reasons)


def _reason(error: Throttled | None) -> Reason:
    """Return the cancellation reason of an action."""
    if error is None:
        return Reason("None")
    is_provisioned = isinstance(error, ProvisionedThroughputExceededError)
    code = "ProvisionedThroughputExceeded" if is_provisioned else "ThrottlingError"
    return Reason(code, error.message, index=error.reasons[0]["resource"].partition("/index/")[2] or None)
