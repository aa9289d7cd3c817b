"""Proposals of an owner that are due by the clock.

    the log's level is older      Level
    a table's delay is over       Settle
    a new index is not filled     Backfill, chunk after chunk
    an item's time to live is up  Expire

With several partitions the catalog's owner proposes Settle, and the others' owners propose commands about their
items. Each raises the level of its own partition, unless nodes of an older release may share the log: then an
operator does.

A timer decides nothing. It reads the state and proposes a command like any client, and the fold judges the command
at its position in the log; so two owners at once, or an early proposal, are harmless. Timers depend on the current
state (tables that are unsettled, indexes that are not filled) and not on past events: a restart needs no memory.
"""

import re
from collections.abc import Callable
from typing import Protocol

import orjson

from ...log.commands import (
    Backfill,
    Command,
    Defined,
    DefineTable,
    DefinitionApplied,
    Entry,
    Expire,
    IndexFilled,
    Level,
    Relay,
    RelayAck,
    Settle,
    new_context,
)
from ...model import numbers
from ...model.tables import TableDefinition
from ...model.values import load
from ..fold import LEVEL
from ..fold.outcomes import Completed, Failed, Outcome
from ..fold.state import Index, PartitionState, Table
from ..partition import OnOutcome
from ..portions import Pace, Traffic, portion
from ..worker import Cancellable, Scheduler

# Items per step; a step of large items has fewer (portions.py). A backfill decodes and writes each item, in about ten
# microseconds. While requests arrive its steps are as long as a few gets; else the sync of each step would take longer.
BACKFILL_LEAST_ITEMS = 16
BACKFILL_MOST_ITEMS = 512
SWEEP_ITEMS = 256

# The limit of unacknowledged bytes above which nothing is proposed that would add to them.
HELD_BACK_BYTES = 8 * 1024 * 1024
_HELD_BACK_SECONDS = 1.0

# Seconds between two steps of a sweep: a million items take ten seconds and a tenth of the processor.
_SWEEP_PAUSE = 0.002

# Seconds after a proposal that could not be appended.
_RETRY_SECONDS = 1.0

# The size of a proposal in the queue's limit, without its key.
_PROPOSAL_BYTES = 256

_FIVE_YEARS = 5 * 365 * 24 * 60 * 60
_LEAVING_WORK = frozenset((DefineTable, Relay, RelayAck))
_OF_TABLES = (Defined, DefinitionApplied, IndexFilled)
_UNSETTLED = ("CREATING", "UPDATING", "DELETING")
_OWNER = new_context(request_id="")
_SWEEPER = new_context(request_id="", source="ttl", principal="dynamodb.amazonaws.com")


class Proposer(Protocol):
    """The part of a partition that timers need."""

    def submit(self, command: Command, size: int, done: OnOutcome) -> None: ...


class Timers:
    """One partition's timers. Call `look` after the start, and `folded` after each entry.

    Args:
        partition: Receives the proposals.
        state: The state from which they are derived.
        raises_level: Whether to raise the log to this release's level.
        table_delay: Seconds that a table stays CREATING, UPDATING or DELETING.
        sweep_interval: Seconds from the end of one sweep for expired items to the next; None disables sweeps.
        restore: Called with the id of each table that is being restored.
        traffic: Counts the requests beside a backfill.
    """

    def __init__(
        self,
        partition: Proposer,
        state: PartitionState,
        *,
        clock: Callable[[], int],
        scheduler: Scheduler,
        raises_level: bool = True,
        table_delay: float = 0.0,
        sweep_interval: float | None = 60.0,
        restore: Callable[[int], None] = lambda _: None,
        traffic: Traffic | None = None,
    ) -> None:
        self._partition = partition
        self._state = state
        self._scheduler = scheduler
        self._restore = restore
        self._table_delay = table_delay
        self._settle_timers: dict[int, Cancellable] = {}
        self._filling: dict[int, int] = {}  # index id -> table id, with a proposal in flight
        self._pace = Pace(traffic or Traffic(), BACKFILL_LEAST_ITEMS, BACKFILL_MOST_ITEMS)
        self._retry: Cancellable | None = None
        self._closed = False
        self._is_held_back = False
        self._raises_level = raises_level
        self._is_raising = False
        self._sweep = Sweep(partition, state, clock=clock, scheduler=scheduler, interval=sweep_interval)

    def start(self) -> None:
        """Begin with the refolded state."""
        self.schedule()
        self._sweep.start()

    def folded(self, entry: Entry) -> None:
        """Propose again if the entry may have left something to do."""
        kinds = map(type, entry.commands)
        if not _LEAVING_WORK.isdisjoint(kinds) and any(map(self._leaves_work, entry.commands)):
            self.schedule()

    def _leaves_work(self, command: Command) -> bool:
        if type(command) is Relay:
            return type(command.message) in _OF_TABLES
        # An acknowledgement makes room for more.
        return type(command) is DefineTable or (type(command) is RelayAck and self._is_held_back)

    def schedule(self) -> None:
        """Set a timer for each unsettled table, and continue each unfilled index and each restore."""
        if self._closed:
            return
        self._is_held_back = False
        if self._state.level < LEVEL and self._raises_level and not self._is_raising:
            self._is_raising = True
            self._partition.submit(
                Level(LEVEL, _OWNER), _PROPOSAL_BYTES, lambda outcome, _: self._level_raised(outcome)
            )
        for table_id in sorted(self._state.unsettled):
            table = self._state.tables[table_id]
            definition = table.definition
            if self._is_unsettled(definition) and definition.id not in self._settle_timers:
                self._settle_timers[definition.id] = self._scheduler.call_later(
                    self._table_delay, self._settle, definition.id
                )
            if definition.is_restoring:
                self._restore(definition.id)
            for index in table.indexes.values():
                if index.is_filling and index.definition.id not in self._filling and self._state.slots:
                    self._fill(table, index)

    def _is_unsettled(self, definition: TableDefinition) -> bool:
        """Whether a table waits for its delay, and this partition ends the wait."""
        if self._state.partitions == 1:
            return definition.status in _UNSETTLED and not definition.is_restoring
        pending = self._state.rollout.pending.get(definition.id)
        return pending is not None and pending.delayed

    def close(self) -> None:
        self._closed = True
        self._sweep.close()
        for handle in self._settle_timers.values():
            handle.cancel()
        if self._retry is not None:
            self._retry.cancel()

    def _level_raised(self, outcome: Outcome) -> None:
        self._is_raising = False
        self._go_on(outcome)

    def _settle(self, table_id: int) -> None:
        self._partition.submit(
            Settle(table_id, _OWNER),
            _PROPOSAL_BYTES,
            lambda outcome, _: self._settled(table_id, outcome),
        )

    def _settled(self, table_id: int, outcome: Outcome) -> None:
        self._settle_timers.pop(table_id, None)
        self._go_on(outcome)

    def _fill(self, table: Table, index: Index) -> None:
        if self._state.unacknowledged_bytes > HELD_BACK_BYTES:
            self._is_held_back = True
            return
        table_id, index_id = table.definition.id, index.definition.id
        self._filling[index_id] = table_id
        items = self._pace.next_items()
        entries, more = portion(table.items.scan(index.cursor), items)
        self._partition.submit(
            Backfill(table_id, index_id, len(entries) if more else items, _OWNER),
            _PROPOSAL_BYTES,
            lambda outcome, _: self._filled(index_id, outcome),
        )

    def _filled(self, index_id: int, outcome: Outcome) -> None:
        self._filling.pop(index_id, None)
        self._go_on(outcome)

    def _go_on(self, outcome: Outcome) -> None:
        if isinstance(outcome, Failed):
            self._retry_later()
        elif isinstance(outcome, Completed) and outcome.progressed:
            self.schedule()

    def _retry_later(self) -> None:
        if self._retry is None and not self._closed:
            self._retry = self._scheduler.call_later(_RETRY_SECONDS, self._retry_now)

    def _retry_now(self) -> None:
        self._retry = None
        self.schedule()


def due(at: str, now: int) -> bool:
    """Whether a time to live (canonical number text) has passed at `now`, but not by more than five years.

    A number from longer ago is taken not to be a time.
    """
    if at.isdigit():
        return now - _FIVE_YEARS <= int(at) <= now
    return numbers.compare(at, str(now)) <= 0 <= numbers.compare(at, str(now - _FIVE_YEARS))


class Expired:
    """Finds the items of one table that are due at `now`, in seconds since 1970.

    Items that are not due are not decoded: the attribute's number is visible in the canonical bytes.
    """

    def __init__(self, attribute: str, now: int) -> None:
        self._attribute = attribute
        self._now = now
        self._shown = re.compile(re.escape(orjson.dumps(attribute) + b':{"N":"') + rb'([^"]+)"').findall

    def at(self, item: bytes) -> str | None:
        """Return the time to live of an item that is due, as its text; None if it is not due."""
        # A map inside the item may have an attribute of the same name: a match is verified on the decoded item.
        for text in self._shown(item):
            if due(text.decode(), self._now):
                at: str | None = load(item).get(self._attribute, {}).get("N")
                return at if at is not None and due(at, self._now) else None
        return None


class Sweep:
    """Searches for items whose time to live is up, a portion at a time.

    A sweep scans every table that has a time-to-live attribute, a few hundred items a step; between steps the loop
    serves clients. A sweep may miss an item that is written while it runs; the next one finds it, and until then the
    item stays readable, as in DynamoDB. `interval` is the seconds between two sweeps; None disables them.
    """

    def __init__(
        self,
        partition: Proposer,
        state: PartitionState,
        *,
        clock: Callable[[], int],
        scheduler: Scheduler,
        interval: float | None,
    ) -> None:
        self._partition = partition
        self._state = state
        self._clock = clock
        self._scheduler = scheduler
        self._interval = interval
        self._tables: list[int] = []  # the tables left in this sweep, in reverse order
        self._cursor: tuple[int, bytes, bytes] | None = None
        self._unanswered = 0
        self._timer: Cancellable | None = None
        self._closed = False

    def start(self) -> None:
        """Set the timer of the first sweep."""
        if self._interval is not None:
            self._later(self._interval, self._begin)

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        if not self._closed:
            self._timer = self._scheduler.call_later(seconds, call)

    def _begin(self) -> None:
        self._tables = sorted(self._state.expiring, reverse=True)
        self._cursor = None
        self._step()

    def _step(self) -> None:
        """Scan the next items, and continue when all proposals are answered."""
        table = self._table()
        if table is None:
            assert self._interval is not None
            self._later(self._interval, self._begin)
            return
        if self._state.unacknowledged_bytes > HELD_BACK_BYTES:
            self._later(_HELD_BACK_SECONDS, self._step)
            return
        proposals = self._expired(table)
        self._unanswered = len(proposals)
        if not proposals:
            self._later(_SWEEP_PAUSE, self._step)
        for proposal in proposals:
            self._partition.submit(
                proposal,
                _PROPOSAL_BYTES + len(proposal.pk) + len(proposal.sk),
                lambda outcome, _: self._answered(outcome),
            )

    def _table(self) -> Table | None:
        """Return the table of this step; None at the end of the sweep."""
        while self._tables:
            table = self._state.tables.get(self._tables[-1])
            if table is not None and table.definition.ttl_attribute is not None:
                return table
            self._next_table()
        return None

    def _next_table(self) -> None:
        self._tables.pop()
        self._cursor = None

    def _expired(self, table: Table) -> list[Expire]:
        attribute = table.definition.ttl_attribute
        assert attribute is not None
        expired = Expired(attribute, self._clock() // 1000)
        entries, more = portion(table.items.scan(self._cursor), SWEEP_ITEMS)
        if more:
            self._cursor = entries[-1][:3]
        else:
            self._next_table()
        proposals = []
        for _, pk, sk, stored in entries:
            at = expired.at(stored[0])
            if at is not None:
                proposals.append(Expire(table.definition.id, pk, sk, at, _SWEEPER))
        return proposals

    def _answered(self, outcome: Outcome) -> None:
        self._unanswered -= 1
        if isinstance(outcome, Failed):
            self._tables = []  # no room, or no log: the next sweep will find the items again
        if self._unanswered == 0:
            self._later(_SWEEP_PAUSE, self._step)
