"""Looks for items whose time to live is up, a little at a time.

A pass goes through every table that has a time-to-live attribute, a few hundred items a step, in the order of a
scan; between steps the loop belongs to the clients. An item is not decoded to be passed over: canonical bytes show
the attribute's number in plain sight. A pass that met writes may miss an item; the next one finds it, and until
then it stays readable, as in DynamoDB.
"""

import re
from collections.abc import Callable
from itertools import islice
from typing import Protocol

import orjson

from ..log.commands import Command, Context, Expire, Position
from ..model import numbers
from ..model.values import load
from .outcomes import Failed, Outcome
from .state import PartitionState, Table
from .worker import Cancellable, Scheduler

STEP_ITEMS = 256
_STEP_PAUSE = 0.002  # seconds: a million items take ten seconds and a tenth of the processor
_FIVE_YEARS = 5 * 365 * 24 * 60 * 60
_PROPOSAL_BYTES = 512
_SWEEPER = Context(request_id="", source="ttl", principal="dynamodb.amazonaws.com")


class Proposing(Protocol):
    """The part of a partition that timers need."""

    def submit(self, command: Command, size: int, done: Callable[[Outcome, Position], None]) -> None: ...


def due(at: str, now: int) -> bool:
    """Whether a time to live (canonical number text) has passed at `now`, but not by more than five years.

    Longer ago is taken for a number that is no time at all.
    """
    if at.isdigit():
        return now - _FIVE_YEARS <= int(at) <= now
    return numbers.compare(at, str(now)) <= 0 <= numbers.compare(at, str(now - _FIVE_YEARS))


class Expired:
    """Tells which items of one table are due at `now`, in seconds since 1970."""

    def __init__(self, attribute: str, now: int) -> None:
        self._attribute = attribute
        self._now = now
        self._shown = re.compile(re.escape(orjson.dumps(attribute) + b':{"N":"') + rb'([^"]+)"').findall

    def at(self, item: bytes) -> str | None:
        """The time to live of an item that is due, as its text; None if it is not."""
        # A map inside the item may have the same name: what is shown is a reason to look, not yet an answer.
        for shown in self._shown(item):
            if due(shown.decode(), self._now):
                at: str | None = load(item).get(self._attribute, {}).get("N")
                return at if at is not None and due(at, self._now) else None
        return None


class Sweep:
    """Passes over all tables, `interval` seconds apart; None for never."""

    def __init__(
        self,
        partition: Proposing,
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
        self._tables: list[int] = []  # what this pass still has to look at, the last one first
        self._cursor: tuple[int, bytes, bytes] | None = None
        self._unanswered = 0
        self._timer: Cancellable | None = None
        self._closed = False

    def start(self) -> None:
        """Set the timer of the first pass."""
        if self._interval is not None:
            self._later(self._interval, self._begin)

    def close(self) -> None:
        """Propose nothing more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        if not self._closed:
            self._timer = self._scheduler.call_later(seconds, call)

    def _begin(self) -> None:
        self._tables = sorted(self._state.tables, reverse=True)
        self._cursor = None
        self._step()

    def _step(self) -> None:
        """Look at the next few items, and go on when all that was proposed is answered."""
        table = self._table()
        if table is None:
            assert self._interval is not None
            self._later(self._interval, self._begin)
            return
        proposals = self._expired(table)
        self._unanswered = len(proposals)
        if not proposals:
            self._later(_STEP_PAUSE, self._step)
        for proposal in proposals:
            self._partition.submit(
                proposal, _PROPOSAL_BYTES + len(proposal.sk), lambda outcome, _: self._answered(outcome)
            )

    def _table(self) -> Table | None:
        """The table this step looks at; None at the end of the pass."""
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
        met = list(islice(table.items.scan(self._cursor), STEP_ITEMS))
        if len(met) < STEP_ITEMS:
            self._next_table()
        else:
            self._cursor = met[-1][:3]
        proposals = []
        for _, pk, sk, stored in met:
            at = expired.at(stored[0])
            if at is not None:
                proposals.append(Expire(table.definition.id, pk, sk, at, _SWEEPER))
        return proposals

    def _answered(self, outcome: Outcome) -> None:
        self._unanswered -= 1
        if isinstance(outcome, Failed):
            self._tables = []  # no room, or no log: the next pass will find the items again
        if self._unanswered == 0:
            self._later(_STEP_PAUSE, self._step)
