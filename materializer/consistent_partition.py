"""A partition in this process whose reads may have to wait.

    consistent read ──► the log's end is folded ──► no transaction holds the keys ──► answer from the current state
                          (shared log)                (several partitions)

A decided transaction over partitions may be written in one partition and not yet in another. A client that has seen
it in the one must see it in the other: so a read waits for the transactions that held its items when it arrived.
Later transactions need no wait, because no client has seen them. Each wait has a deadline.

Isolated reads of several partitions, of which some are on other nodes or on a shared log, read each partition twice:

    first read    no transaction holds the keys ──► new writes are kept back ──► earlier ones are folded ──► read
    second read   the log's end is folded ──► has a key changed since? ──► release the writes
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from ..log.commands import Entry, Position
from ..model.errors import InternalServerError, RequestError
from ..model.lazy_dataclass import dataclass
from .fold.outcomes import Outcome
from .fold.state import Table
from .fold.transactions.state import TransactionId
from .local_partition import LocalPartition, offset_in
from .partition import (
    Conflict,
    EncodedKey,
    Found,
    OnFound,
    OnItem,
    OnItems,
    OnPage,
    OnReached,
    QueryRequest,
    ResultPosition,
    ScanRequest,
    Since,
)
from .recent_writes import RecentWrites
from .replicated import ReadIndex, ReplicatedWorker
from .worker import Cancellable, Scheduler
from .write_holds import WriteHolds

DEADLINE_SECONDS: Final = 5.0
STALE_MS: Final = 5_000

# Called with an error or with the result; the result is of the state at that position.
ReadCallback: TypeAlias = Callable[[Any, Position], None]


@dataclass(slots=True, eq=False)
class _Wait:
    """A read that waits until `is_over`, or until its timer expires."""

    is_over: Callable[[], bool]
    go_on: Callable[[], None]
    timer: Cancellable


class ConsistentPartition:
    """A `Partition` whose state others change too: one of several partitions, or on a shared log.

    Args:
        local: Reads the state, which is that of the latest record that is folded.
        strict: Whether to find the end of a shared log by appending an entry.
        deadline: Seconds that a read may wait for the log's end, and again for transactions.
        stale_ms: The maximum age of the state for a read that need not be consistent.
    """

    def __init__(
        self,
        local: LocalPartition,
        *,
        clock: Callable[[], int],
        scheduler: Scheduler,
        strict: bool = False,
        deadline: float = DEADLINE_SECONDS,
        stale_ms: int = STALE_MS,
    ) -> None:
        self._local = local
        self._worker = worker = local.worker
        self._state = worker.state
        self._holds = WriteHolds(worker.submit, scheduler)
        # Other partitions of a log that only this process appends to are read at one instant: nothing is kept back.
        is_shared = isinstance(worker, ReplicatedWorker)
        self.submit = self._holds.submit if is_shared else self._local.submit
        self.status = self._local.status
        self.feed = self._local.feed
        self._scheduler = scheduler
        self._deadline = deadline
        self._read_index: ReadIndex | None = None
        if isinstance(worker, ReplicatedWorker):
            self._read_index = ReadIndex(
                worker, clock=clock, scheduler=scheduler, deadline=deadline, strict=strict
            )
        self._stale_ms = stale_ms
        self._waits: list[_Wait] = []
        self._recent: RecentWrites | None = None  # from the first isolated read on
        self._noted = -1  # the offset of the last entry whose writes are in it
        worker.after_answers.add(self._folded)

    @property
    def position(self) -> Position:
        """The position of reads: they see all entries up to and including this one."""
        return self._worker.position

    def get(self, table: int, pk: bytes, sk: bytes, consistent: bool, done: OnItem) -> None:
        if self._read_index is None and not self._held:
            self._local.get(table, pk, sk, consistent, done)
            return
        serve = partial(self._local.get, table, pk, sk, consistent, done)
        self._read(consistent, lambda: self._holders([(table, pk, sk)]), serve, done)

    def get_all(self, keys: Sequence[EncodedKey], consistent: bool, done: OnItems) -> None:
        serve = partial(self._local.get_all, keys, consistent, done)
        self._read(consistent, lambda: self._holders(keys), serve, done)

    def get_isolated(self, keys: Sequence[EncodedKey], since: Since, done: OnFound) -> None:
        """See Partition."""
        if self._recent is None:
            self._recent = RecentWrites(self._state.next_offset)
            self._noted = self._state.next_offset - 1
            self._worker.before_answers.add(self._note_writes)
        if isinstance(since, Position):
            self._second_read(keys, since, done)
        elif since is None:
            self._read(
                True,
                lambda: self._holders(keys),
                lambda: done(self._isolated(keys, None), self.position),
                done,
            )
        else:
            held_by = self._holders(keys)
            self._wait(
                lambda: held_by.isdisjoint(self._state.transactions.prepared),
                lambda: self._first_read(keys, done),
                lambda error: done(error, self.position),
            )

    def _first_read(self, keys: Sequence[EncodedKey], done: OnFound) -> None:
        """Keep back new writes of the keys, and read them when the writes before are folded.

        The end of a shared log is not asked for: if this state is behind it, the second read finds the change.
        """
        hold = self._holds.begin(keys)
        accepted = self._worker.accepted_commands

        def read() -> None:
            found = self._isolated(keys, None)
            if any(isinstance(each, Conflict) for each in found):
                self._holds.end(hold)  # there will be no second read
            hold.offset = self.position.offset
            done(found, self.position)

        def refuse(error: RequestError) -> None:
            self._holds.end(hold)
            done(error, self.position)

        self._wait(lambda: self._worker.folded_commands >= accepted, read, refuse)

    def _second_read(self, keys: Sequence[EncodedKey], since: Position, done: OnFound) -> None:
        """Read the keys, compare with the first read, and release the writes that it keeps back."""

        def read() -> None:
            self._holds.end_of(keys, since.offset)
            done(self._isolated(keys, since), self.position)

        def refuse(error: RequestError, position: Position) -> None:
            self._holds.end_of(keys, since.offset)
            done(error, position)

        self._read(True, set, read, refuse)

    def query(self, request: QueryRequest, done: OnPage) -> None:
        serve = partial(self._local.query, request, done)
        self._read(
            request.consistent,
            lambda: self._holders(
                [key for key in self._held if key[0] == request.table and key[1] == request.pk]
            ),
            serve,
            done,
            fresh=request.fresh,
        )

    def scan(self, request: ScanRequest, done: OnPage) -> None:
        serve = partial(self._local.scan, request, done)
        self._read(
            request.consistent,
            lambda: self._holders([key for key in self._held if key[0] == request.table]),
            serve,
            done,
            fresh=request.fresh,
        )

    def reach(self, position: ResultPosition, done: OnReached) -> None:
        """See Partition; of several positions, the one in this partition counts."""
        offset = offset_in(self.position.partition, position)
        self._wait(lambda: self._has_reached(offset), lambda: done(None), done)

    def _read(
        self,
        consistent: bool,
        holders: Callable[[], set[TransactionId]],
        serve: Callable[[], None],
        done: ReadCallback,
        *,
        fresh: bool = False,
    ) -> None:
        def refuse(error: RequestError) -> None:
            done(error, self.position)

        def fold_is_current(error: RequestError | None) -> None:
            if error is not None:
                refuse(error)
            elif consistent and self._held and (transactions := holders()):
                self._wait(lambda: transactions.isdisjoint(self._state.transactions.prepared), serve, refuse)
            else:
                serve()

        index = self._read_index
        if index is None or (not consistent and not fresh and index.is_fresh(self._stale_ms)):
            fold_is_current(None)
        else:
            index.wait(fold_is_current)

    @property
    def _held(self) -> dict[EncodedKey, TransactionId]:
        return self._state.transactions.held

    def _holders(self, keys: Iterable[EncodedKey]) -> set[TransactionId]:
        """Return the transactions that hold some of the keys."""
        held = self._held
        return {held[key] for key in keys if key in held}

    def _isolated(self, keys: Sequence[EncodedKey], since: Position | None) -> list[Found]:
        held, tables, recent = self._held, self._state.tables, self._recent
        assert recent is not None, "writes are noted from the first isolated read on"
        is_noted = self._noted == self._state.next_offset - 1

        def find(key: EncodedKey) -> Found:
            if key in held:
                return Conflict()
            if since is not None and (not is_noted or recent.changed(key, since.offset)):
                return Conflict()
            table: Table | None = tables.get(key[0])
            return None if table is None else table.items.get(key[1], key[2])

        return [find(key) for key in keys]

    def _has_reached(self, offset: int) -> bool:
        """Whether all records up to `offset` are folded here, and their messages are folded by their receivers."""
        if self._state.next_offset <= offset:
            return False
        outboxes = self._state.outboxes.values()
        return all(
            not outbox.unacknowledged or outbox.unacknowledged[0].offset > offset for outbox in outboxes
        )

    def _wait(
        self,
        is_over: Callable[[], bool],
        go_on: Callable[[], None],
        refuse: Callable[[RequestError], None],
    ) -> None:
        if is_over():
            go_on()
            return

        def expire() -> None:
            self._waits.remove(wait)
            refuse(InternalServerError())

        wait = _Wait(is_over, go_on, self._scheduler.call_later(self._deadline, expire))
        self._waits.append(wait)

    def _note_writes(self, outcomes: list[Outcome]) -> None:
        offset = self._state.next_offset - 1
        if self._recent is None or self._noted != offset - 1:
            self._recent = RecentWrites(offset)  # entries before a void record are folded without outcomes
        self._recent.note(offset, outcomes)
        self._noted = offset

    def _folded(self, _: Entry) -> None:
        if self._waits:
            # In a later turn of the loop: an exception of a reader must not reach the fold.
            over: list[_Wait] = []
            waiting: list[_Wait] = []
            for wait in self._waits:
                (over if wait.is_over() else waiting).append(wait)
            self._waits = waiting
            for wait in over:
                wait.timer.cancel()
                self._scheduler.call_soon(wait.go_on)
