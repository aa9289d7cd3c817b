"""What an owner proposes because time has passed.

    a table's delay is over       Settle
    a new index is not filled     Backfill, chunk after chunk
    an item's time to live is up  Expire

A timer decides nothing. It looks at the state, proposes a command like any client, and the fold judges it where
it stands in the log; so two owners at once, or one that looked too early, do no harm. Timers look at what *is*
(which tables are unsettled, which indexes have a cursor) and not at what happened: a restart needs no memory.
"""

from collections.abc import Callable

from ..log.commands import Backfill, Context, DefineTable, Entry, Settle
from .outcomes import Done, Failed, Outcome
from .state import PartitionState
from .sweep import Proposing, Sweep
from .worker import Cancellable, Scheduler

BACKFILL_ITEMS = 1000

# After a proposal that could not be appended.
_RETRY_SECONDS = 1.0

# What a proposal counts for in the admission bound; it is small.
_PROPOSAL_BYTES = 256

_UNSETTLED = ("CREATING", "UPDATING", "DELETING")
_OWNER = Context(request_id="")


class Timers:
    """One partition's timers. `look` after the start; `folded` after each entry.

    Args:
        partition: Where proposals go.
        state: What they are made from.
        clock: Milliseconds since 1970.
        scheduler: The loop.
        table_delay: Seconds that a table stays CREATING, UPDATING or DELETING.
        sweep_interval: Seconds from the end of one look for expired items to the next; None for never.
    """

    def __init__(
        self,
        partition: Proposing,
        state: PartitionState,
        *,
        clock: Callable[[], int],
        scheduler: Scheduler,
        table_delay: float = 0.0,
        sweep_interval: float | None = 60.0,
    ) -> None:
        self._partition = partition
        self._state = state
        self._scheduler = scheduler
        self._table_delay = table_delay
        self._settling: dict[int, Cancellable] = {}
        self._filling: dict[int, int] = {}  # index id -> table id, with a proposal on its way
        self._retry: Cancellable | None = None
        self._closed = False
        self._sweep = Sweep(partition, state, clock=clock, scheduler=scheduler, interval=sweep_interval)

    def start(self) -> None:
        """Begin with the state as it was refolded."""
        self.look()
        self._sweep.start()

    def folded(self, entry: Entry) -> None:
        """Look again if the entry may have left something to do."""
        if any(type(command) is DefineTable for command in entry.commands):
            self.look()

    def look(self) -> None:
        """Set a timer for each table that is to be settled, and go on with each index that is to be filled."""
        if self._closed:
            return
        for table in self._state.tables.values():
            definition = table.definition
            if definition.status in _UNSETTLED and definition.id not in self._settling:
                self._settling[definition.id] = self._scheduler.call_later(
                    self._table_delay, self._settle, definition.id
                )
            for index in definition.indexes:
                if index.backfilling and index.id not in self._filling:
                    self._fill(definition.id, index.id)

    def close(self) -> None:
        """Propose nothing more."""
        self._closed = True
        self._sweep.close()
        for handle in self._settling.values():
            handle.cancel()
        if self._retry is not None:
            self._retry.cancel()

    def _settle(self, table_id: int) -> None:
        self._partition.submit(
            Settle(table_id, _OWNER),
            _PROPOSAL_BYTES,
            lambda outcome, _: self._settled(table_id, outcome),
        )

    def _settled(self, table_id: int, outcome: Outcome) -> None:
        self._settling.pop(table_id, None)
        self._go_on(outcome)

    def _fill(self, table_id: int, index_id: int) -> None:
        self._filling[index_id] = table_id
        self._partition.submit(
            Backfill(table_id, index_id, BACKFILL_ITEMS, _OWNER),
            _PROPOSAL_BYTES,
            lambda outcome, _: self._filled(index_id, outcome),
        )

    def _filled(self, index_id: int, outcome: Outcome) -> None:
        self._filling.pop(index_id, None)
        self._go_on(outcome)

    def _go_on(self, outcome: Outcome) -> None:
        if isinstance(outcome, Failed):
            self._look_later()
        elif isinstance(outcome, Done) and outcome.progressed:
            self.look()

    def _look_later(self) -> None:
        if self._retry is None and not self._closed:
            self._retry = self._scheduler.call_later(_RETRY_SECONDS, self._look_again)

    def _look_again(self) -> None:
        self._retry = None
        self.look()
