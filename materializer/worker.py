"""Appends a partition's commands to its log, and folds them once they are durable.

    submit ──► queue ──► one entry in flight ──► durable ──► fold ──► callback(outcome, position)
                 ▲                                                        │
                 └──── commands that arrived since are the next entry ◄───┘

Everything happens on one loop, so no lock is needed. The state changes only after an entry is durable: a reader
never sees a change that a crash could undo. Clock, disk and loop are arguments; a simulator passes its own.
"""

from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final, Generic, Protocol, TypeVar, final

from ..log.commands import (
    Backfill,
    Barrier,
    Command,
    Cut,
    DefineTable,
    Delete,
    Digest,
    Entry,
    Genesis,
    Load,
    Position,
    Put,
    Record,
    Transact,
    Update,
)
from ..log.log import Appended, Log
from ..model.errors import (
    FoldbError,
    InternalServerError,
    LogError,
    LogFullError,
    RequestError,
    ServiceUnavailableError,
    ThrottlingError,
)
from ..model.lazy_dataclass import dataclass
from .digest_task import DigestTask, StateDigest, leaves_digest
from .fold.fold_record import LateSkipError
from .fold.outcomes import Failed, MessageFolded, Outcome, TransactionStarted
from .fold.state import HISTORY_LEVEL, PartitionState
from .fold.storage import Store
from .gc_tuning import adding_items
from .partition import OnOutcome
from .portions import steps
from .refold import Capture, fold_record, refold_log

T = TypeVar("T")

# The limits of one entry. More commands would not be faster, and the first of them would wait longer. A transaction
# counts as its actions: folding an entry is one turn of the loop.
ENTRY_STEPS: Final = 512
ENTRY_BYTES: Final = 1024 * 1024

# The limit of queued bytes, the entry in flight included. Above it clients are throttled.
WAITING_BYTES: Final = 64 * 1024 * 1024

# The limit of bytes sent to other partitions and not acknowledged. Above it clients are throttled too.
UNACKNOWLEDGED_BYTES = 64 * 1024 * 1024

# Clients' commands can be refused. Relayed messages and an owner's proposals cannot: they are what frees the room.
_REFUSABLE: Final = frozenset((Put, Update, Delete, Transact, DefineTable, Load))
_THROTTLED: Final = "Rate of requests exceeds the allowed throughput."

_FULL: Final = "The disk is full. Writes succeed again by themselves when there is space."

_FILLING: Final = frozenset((Backfill, Load))

# After these commands alone the log needs no digest.
_STILL: Final = (Genesis, Digest)


class Cancellable(Protocol):
    """The result of `call_later`."""

    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """The part of an event loop that the materializer needs; asyncio's loops have it."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object: ...

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Cancellable: ...


class Observers(Generic[T]):
    """Callbacks of one event of a worker, called in the order in which they were added."""

    __slots__ = ("callbacks",)

    def __init__(self) -> None:
        self.callbacks: tuple[Callable[[T], None], ...] = ()

    def add(self, callback: Callable[[T], None]) -> Callable[[], None]:
        """Add a callback, and return a function that removes it."""
        self.callbacks = (*self.callbacks, callback)

        def remove() -> None:
            self.callbacks = tuple(each for each in self.callbacks if each is not callback)

        return remove


@final
class Queued:
    """A command that waits for its entry or its outcome, and about how many bytes it has."""

    __slots__ = ("command", "done", "size")

    def __init__(self, command: Command, size: int, done: OnOutcome) -> None:
        self.command = command
        self.size = size
        self.done = done


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of a worker.

    Attributes:
        position: The last folded entry.
        log_time: Its log time, in milliseconds.
        waiting: The number of commands that are not folded yet; `waiting_bytes` their size.
        entries: The number of entries that this worker appended; `commands` the number of their commands.
        refolded: The number of other folded commands: at the start, and those of other processes on a shared log.
        items: The number of items of all tables, without index entries; `item_bytes` their size.
    """

    position: Position
    log_time: int
    waiting: int
    waiting_bytes: int
    entries: int
    commands: int
    refolded: int
    tables: int
    items: int
    item_bytes: int
    stopped: bool


class Worker:
    """Appends and folds one partition's commands, in order.

    Attributes:
        state: The state after all folded entries. Only the worker may change it.
        before_answers: Called with the outcomes of each entry, before the clients are answered.
        on_records: Called with each record that is folded after `open`.
        after_answers: Called with each entry, after the clients are answered and `capture` has its outcomes.

    `capture` receives all outcomes, also those of a refold. `dispose` receives the stores of deleted tables and
    indexes (disposer.py). `draw_salt` draws the 16 random bytes of an entry's salt, from level 5.
    """

    def __init__(
        self,
        log: Log,
        state: PartitionState,
        *,
        origin: bytes,
        scheduler: Scheduler,
        partition: int = 0,
        waiting_bytes: int = WAITING_BYTES,
        capture: Capture | None = None,
        dispose: Callable[[list[Store]], None] | None = None,
        draw_salt: Callable[[], bytes] | None = None,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.state = state
        self.before_answers: Observers[list[Outcome]] = Observers()
        self.on_records: Observers[Record] = Observers()
        self.after_answers: Observers[Entry] = Observers()
        self._capture = capture
        self._log = log
        self._origin = origin
        self._scheduler = scheduler
        self._partition = partition
        self._position = Position(partition, -1)
        self._queue_limit = waiting_bytes
        self._dispose = dispose
        self._draw_salt = draw_salt
        self._on_fatal = on_fatal
        self._queue: deque[Queued] = deque()
        self._queued_bytes = 0
        self._in_flight: list[Queued] = []
        # Transactions over partitions, by number, and the callbacks that wait for their outcome.
        self._started: dict[int, OnOutcome] = {}
        self._is_scheduled = False  # an entry is in flight, or `_append_queued` is scheduled
        self._next_entry_number = 0
        self._next_entry_time: int | None = None
        self._commands = 0
        self._refolded = 0
        self._failure: RequestError | None = None
        self._on_drained: Callable[[], None] | None = None
        self._leaves_digest = False  # the stop is to append a digest
        self._has_digest = True  # the log ends with a digest, or has no other commands yet

    @property
    def position(self) -> Position:
        """The last folded entry; the same object between two entries, because every read returns it."""
        if self._position.offset != self.state.next_offset - 1:
            last = self.state.next_offset - 1
            self._position = Position(self._partition, last, time_ms=self.state.log_time)
        return self._position

    @property
    def folded_commands(self) -> int:
        """The number of own commands that are folded."""
        return self._commands

    @property
    def refolded_commands(self) -> int:
        """The number of other folded commands."""
        return self._refolded

    @property
    def is_stopped(self) -> bool:
        """Whether it refuses commands."""
        return self._failure is not None

    @property
    def accepted_commands(self) -> int:
        """The number of own commands that are folded when all that are accepted now are."""
        return self._commands + len(self._in_flight) + len(self._queue)

    def open(self, progress: Callable[[int], None] | None = None) -> None:
        """Fold the log. Call it once, before the first `submit`.

        Raises:
            FoldError: The fold raised on a record.
        """
        self._refolded = refold_log(
            self.state, self._log, self._partition, progress, self._note, capture=self._capture
        )

    def submit(self, command: Command, size: int, done: OnOutcome) -> None:
        """Append `command`, about `size` bytes, and fold it; call `done` exactly once.

        A refused command is answered before this returns.
        """
        if self._failure is not None:
            done(Failed(self._failure), self.position)
            return
        # A command larger than the limit is accepted into an empty queue, or it never would be.
        if (
            self._queued_bytes
            and self._queued_bytes + size > self._queue_limit
            and type(command) in _REFUSABLE
        ):
            done(Failed(ThrottlingError(_THROTTLED)), self.position)
            return
        if self.state.unacknowledged_bytes > UNACKNOWLEDGED_BYTES and type(command) in _REFUSABLE:
            done(Failed(ThrottlingError(_THROTTLED)), self.position)
            return
        self._queue.append(Queued(command, size, done))
        self._queued_bytes += size
        self._schedule()

    def advance_time(self, time_ms: int, done: OnOutcome) -> None:
        """Append a Barrier whose entry takes log time to `time_ms`, although the clock is behind it."""
        self._next_entry_time = time_ms
        self.submit(Barrier(), 0, done)

    def close(self, done: Callable[[], None], *, leave_digest: bool = False) -> None:
        """Refuse new commands; call `done` after every accepted command was answered.

        With `leave_digest`, append the state's digest after that, unless the log ends with it (digest_task.py).
        """
        if self._failure is None:
            self._failure = ServiceUnavailableError()
            self._leaves_digest = leave_digest
        self._on_drained = done
        if not self._is_scheduled:
            self._drained()

    def statistics(self) -> Statistics:
        tables = self.state.tables.values()
        return Statistics(
            position=self.position,
            log_time=self.state.log_time,
            waiting=len(self._queue) + len(self._in_flight) + len(self._started),
            waiting_bytes=self._queued_bytes,
            entries=self._next_entry_number,
            commands=self._commands,
            refolded=self._refolded,
            tables=len(tables),
            items=sum(table.items.count for table in tables),
            item_bytes=sum(table.items.size for table in tables),
            stopped=self._failure is not None,
        )

    def _schedule(self) -> None:
        # In the next turn of the loop: commands that clients send on receiving their answers join the entry.
        if not self._is_scheduled:
            self._is_scheduled = True
            self._scheduler.call_soon(self._append_queued)

    def _append_queued(self) -> None:
        """Make an entry of queued commands, and append it."""
        queue, in_flight, size = self._queue, self._in_flight, 0
        work = 0
        while queue:
            size += queue[0].size
            work += steps(queue[0].command)
            if in_flight and (size > ENTRY_BYTES or work > ENTRY_STEPS):
                break
            in_flight.append(queue.popleft())
        salt = None
        if self._draw_salt is not None and self.state.level >= HISTORY_LEVEL:
            salt = self._draw_salt()
        commands = [one.command for one in in_flight]
        time_ms, self._next_entry_time = self._next_entry_time, None
        self.append_entry(Entry(self._origin, self._next_entry_number, commands, time_ms, salt))

    # The four methods that differ between kinds of logs. A subclass overrides these and no others.

    def append_entry(self, entry: Entry) -> None:
        """Append the entry in flight. The log answers with `entry_appended`, in a later turn of the loop."""
        try:
            self._log.append(self._partition, entry, lambda result: self.entry_appended(entry, result))
        except Exception as error:
            # A command that cannot be encoded is a bug. It is not in the log; the other commands of its entry can be
            # repeated.
            self._scheduler.call_soon(_raise, error)
            self._answer_failed(self._take_in_flight(), InternalServerError())
            self._continue()

    def entry_appended(self, entry: Entry, result: Appended | LogError) -> None:
        """Fold the entry in flight, which is durable; or answer its clients that the log refused it."""
        if isinstance(result, LogError):
            self._refused(result)
        elif self._fold(Record(self._partition, result.offset, result.time_ms, entry), own=True):
            self._continue()

    def fold_failed(self, error: FoldbError | LateSkipError) -> None:
        """Handle a record that cannot be folded: stop."""
        self._stop(error)

    def release(self) -> None:
        """Release resources of the log. It is called when the worker stops, and again before `close` calls back."""

    def _refused(self, error: LogError) -> None:
        """Answer for the entry in flight, which was not appended, or whose fate is unknown."""
        if isinstance(error, LogFullError):
            # It is known not to be in the log, so the next entry takes its entry number.
            self._answer_failed(self._take_in_flight(), ServiceUnavailableError(_FULL))
            self._continue()
        else:
            self._stop(error)

    def _fold(self, record: Record, *, own: bool) -> bool:
        """Fold a record, and pass its outcomes to callbacks and observers; return False if the worker has stopped.

        With `own` it is the entry in flight.
        """
        try:
            with adding_items() if _fills_an_index(record.entry) else nullcontext():
                outcomes = fold_record(self.state, record, dispose=self._dispose)
        except (FoldbError, LateSkipError) as error:
            self.fold_failed(error)
            return False
        try:
            self._publish(record, outcomes, own=own)
        except Exception as bug:
            # Some callbacks have run and others have not. To continue would leave the others waiting forever.
            self._stop(bug)
            return False
        return True

    def _publish(self, record: Record, outcomes: list[Outcome], *, own: bool) -> None:
        for observe_outcomes in self.before_answers.callbacks:
            observe_outcomes(outcomes)
        for observe_record in self.on_records.callbacks:
            observe_record(record)
        self._note(record.entry)
        if own:
            self._next_entry_number = record.entry.entry_number + 1
            self._commands += len(outcomes)
            self._answer(record.offset, outcomes)
        else:
            self._refolded += len(outcomes)
        if self._started:
            self._resolve(record.offset, outcomes)
        if self._capture is not None:
            self._capture.folded(outcomes)
        for observe_entry in self.after_answers.callbacks:
            observe_entry(record.entry)

    def _continue(self) -> None:
        self._is_scheduled = False
        if self._queue:
            self._schedule()
        else:
            self._drained()

    def _answer(self, offset: int, outcomes: list[Outcome]) -> None:
        time_ms = self.state.log_time
        for index, (one, outcome) in enumerate(zip(self._take_in_flight(), outcomes, strict=True)):
            if type(outcome) is TransactionStarted:
                self._started[outcome.transaction_number] = one.done
            else:
                self._reply(one.done, outcome, Position(self._partition, offset, index, time_ms))

    def _resolve(self, offset: int, outcomes: list[Outcome]) -> None:
        """Answer the transactions that have ended.

        The record that ends a transaction has a log time above those of all records that its Relays refer to. So its
        log time is that of the whole cut.
        """
        time_ms = self.state.log_time
        for index, folded in enumerate(outcomes):
            if type(folded) is MessageFolded:
                for transaction_number, outcome, positions in folded.resolved:
                    done = self._started.pop(transaction_number, None)
                    if done is not None:
                        own = Position(self._partition, offset, index, time_ms)
                        cut = Cut(tuple(sorted((own, *positions))), time_ms)
                        self._reply(done, outcome, cut if positions else own)

    def _answer_failed(self, queued: list[Queued], error: RequestError) -> None:
        for one in queued:
            self._reply(one.done, Failed(error), self.position)

    def _reply(self, done: OnOutcome, outcome: Outcome, position: Position | Cut) -> None:
        try:
            done(outcome, position)
        except Exception as error:
            # An exception in one client's callback must not keep the others from their answers. The loop reports it.
            self._scheduler.call_soon(_raise, error)

    def _take_in_flight(self) -> list[Queued]:
        """Return the commands in flight, and remove them from the queue's size."""
        settled, self._in_flight = self._in_flight, []
        self._queued_bytes -= sum(one.size for one in settled)
        return settled

    def _stop(self, error: BaseException) -> None:
        """Stop: the contents of the log or of the state are unknown."""
        self.release()
        self._failure = ServiceUnavailableError()
        self._leaves_digest = self._is_scheduled = False
        self._answer_failed(self._take_in_flight(), InternalServerError())
        waiting, self._queue, self._queued_bytes = list(self._queue), deque(), 0
        self._answer_failed(waiting, self._failure)
        self._on_fatal(error)
        self._drained()

    def _fail_transactions(self) -> None:
        """Fail the callbacks of transactions under way; the transactions end all the same."""
        begun, self._started = self._started, {}
        for done in begun.values():
            self._reply(done, Failed(InternalServerError()), self.position)

    def _drained(self) -> None:
        if self._failure is not None:
            self._fail_transactions()
        if self._on_drained is None:
            return
        if self._leaves_digest:
            self._leaves_digest = False
            if not self._has_digest and leaves_digest(self.state):
                DigestTask(self.state, self._scheduler, self._leave_digest)
                return
        self.release()
        on_drained, self._on_drained = self._on_drained, None
        on_drained()

    def _leave_digest(self, digest: StateDigest) -> None:
        if self._on_drained is None:
            return  # the log has failed since
        self._queue.append(Queued(Digest(self.state.next_offset - 1, digest.whole), 0, lambda *_: None))
        self._schedule()

    def _note(self, entry: Entry) -> None:
        self._has_digest = all(type(command) in _STILL for command in entry.commands)


def status_of(worker: Worker, table_id: int | None = None) -> dict[str, Any]:
    """Return the status of a partition, for `foldb status`, DescribeTable and other nodes: plain data, keys are text.

    With the id of a table only its counts and filled slots, and the position.

    position             the offset of the last folded entry; `log_time` is its log time
    waiting              the number of commands not folded yet; `waiting_bytes` their size
    entries, commands    numbers appended and folded by this worker; `refolded` the number of other folded commands
    counts               items and bytes, by the id of a table or index
    filled_slots         the slots of this partition that are entered, by the id of an index that is being filled
    unacknowledged       the number of messages not acknowledged, by partition id of the receiver
    stopped              whether the worker has stopped
    """
    state = worker.state
    asked = state.tables if table_id is None else [table_id]
    tables = [state.tables[each] for each in asked if each in state.tables]
    stores = {table.definition.id: table.items for table in tables}
    stores |= {index.definition.id: index.store for table in tables for index in table.indexes.values()}
    status: dict[str, Any] = {
        "position": worker.position.offset,
        "log_time": state.log_time,
        "counts": {str(owner): [store.count, store.size] for owner, store in stores.items()},
        "filled_slots": {
            str(index.definition.id): index.filled_slots(state.slots)
            for table in tables
            for index in table.indexes.values()
            if index.definition.backfilling
        },
    }
    if table_id is not None:
        return status
    statistics = worker.statistics()
    return status | {
        "waiting": statistics.waiting,
        "waiting_bytes": statistics.waiting_bytes,
        "entries": statistics.entries,
        "commands": statistics.commands,
        "refolded": statistics.refolded,
        "items": statistics.items,
        "item_bytes": statistics.item_bytes,
        "unacknowledged": {
            str(receiver): len(outbox.unacknowledged) for receiver, outbox in state.outboxes.items()
        },
        "stopped": statistics.stopped,
    }


def _fills_an_index(entry: Entry) -> bool:
    return not _FILLING.isdisjoint(map(type, entry.commands))


def _raise(error: Exception) -> None:
    raise error
