"""A worker whose log others append to as well.

    append ──► acknowledged ──► next in order? ──► fold ──► later, heard: the same bytes?
                                  │ no                          ▲
                                  └──► wait until it is heard ──┘

It folds what it hears by following the log, and answers its senders wherever its own entry turns up there: it knows
it by origin and number. An own entry that is acknowledged at the offset which is next is folded without waiting to be
heard; when it is, bytes, time and place are compared, and a difference is the end.

What became of an append is always found out, because the log repeats it until a copy is there. The senders do not
wait for that: after `silence` seconds they are told that nobody knows. Whoever takes no commands stands by: it folds
all the same, and may take over at any moment.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...log.commands import Entry, Position, Record
from ...log.log import Appended, RawRecord, SharedLog, Stop
from ...model.errors import (
    CorruptionError,
    FoldbError,
    InternalServerError,
    LogError,
    ServiceUnavailableError,
)
from ..fold.fold_record import LateSkipError
from ..fold.state import PartitionState
from ..fold.storage import Store
from ..refold import FoldError, refold_past
from ..worker import WAITING_BYTES, Cancellable, Scheduler, Worker

SILENCE_SECONDS = 10.0

# What was folded on acknowledgement and has not been heard yet. Past it nothing more is folded before it is heard.
UNHEARD_ENTRIES = 1024
UNHEARD_BYTES = 32 * 1024 * 1024

_ASK_AGAIN_SECONDS = 0.5


class _Waiter(NamedTuple):
    offset: int
    done: Callable[[], None]


class ReplicatedWorker(Worker):
    """See the module. `catch_up` takes the place of `open`.

    Args:
        log: Others append to it too.
        state: What the records before its next offset made.
        new_origin: Draws the 16 bytes of an origin; again if the log has forgotten one.
        scheduler: The loop.
        partition: Which.
        waiting_bytes: What may wait.
        dispose: Receives the stores of dropped tables and indexes.
        silence: Seconds after which senders are answered though the log has said nothing.
        on_fatal: Told that this worker cannot go on.
    """

    def __init__(
        self,
        log: SharedLog,
        state: PartitionState,
        *,
        new_origin: Callable[[], bytes],
        scheduler: Scheduler,
        partition: int = 0,
        waiting_bytes: int = WAITING_BYTES,
        dispose: Callable[[list[Store]], None] | None = None,
        silence: float = SILENCE_SECONDS,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        super().__init__(
            log,
            state,
            origin=new_origin(),
            scheduler=scheduler,
            partition=partition,
            waiting_bytes=waiting_bytes,
            dispose=dispose,
            on_fatal=on_fatal,
        )
        self._shared = log
        self._new_origin = new_origin
        self._silence = silence
        self._entry: Entry | None = None  # the one under way
        self._place: Appended | None = None  # where a copy of it stands, if that is known
        self._unheard: deque[Appended] = deque()
        self._unheard_bytes = 0
        self._watch: Cancellable | None = None
        self._stop_following: Stop | None = None
        self._waiters: list[_Waiter] = []

    def catch_up(self, done: Callable[[], None]) -> None:
        """Follow the log, and call `done` when all is folded that it held at some moment after this call.

        A worker that stops before never calls it.
        """
        if self._failure is not None:
            return
        if self._stop_following is None:
            self._stop_following = _nothing  # the log may let hear of records before `follow` returns
            stop = self._shared.follow(self._partition, self.state.next_offset, self._hear_all, self._stop)
            self._stop_following = stop
        self.ask_end(lambda end: self._wait_for(end, done))

    def ask_end(self, done: Callable[[int | LogError], None]) -> None:
        """Ask where the log ends (see SharedLog)."""
        self._shared.ask_end(self._partition, done)

    def when_folded(self, offset: int, done: Callable[[], None]) -> None:
        """Call `done` as soon as every record before `offset` is folded."""
        if self.state.next_offset >= offset:
            done()
        else:
            self._waiters.append(_Waiter(offset, done))

    def _wait_for(self, end: int | LogError, done: Callable[[], None]) -> None:
        if not isinstance(end, LogError):
            self.when_folded(end, done)
        else:
            self._scheduler.call_later(_ASK_AGAIN_SECONDS, self.catch_up, done)

    def _append(self, entry: Entry) -> None:
        self._entry, self._place = entry, None
        if self._watch is None:
            self._watch = self._scheduler.call_later(self._silence, self._fell_silent)
        super()._append(entry)
        if self._entry is entry and not self._under_way:  # it could not be written, and its senders know
            self._entry = None
            self._stop_watching()

    def _appended(self, entry: Entry, result: Appended | LogError) -> None:
        if entry is not self._entry:
            return  # it was heard meanwhile
        if isinstance(result, LogError):
            self._entry = None
            self._stop_watching()
            self._refused(result)
        elif result.offset == self.state.next_offset and self._may_be_ahead():
            self._unheard.append(result)
            self._unheard_bytes += len(result.body)
            self._fold_own(Record(self._partition, result.offset, result.time_ms, entry))
        elif 0 <= result.offset < self.state.next_offset:
            self._stop(self._corruption(result.offset, "an entry is acknowledged where another was folded"))
        else:
            self._place = result

    def _may_be_ahead(self) -> bool:
        return len(self._unheard) < UNHEARD_ENTRIES and self._unheard_bytes < UNHEARD_BYTES

    def _hear_all(self, records: Sequence[RawRecord]) -> None:
        for heard in records:
            if self._stop_following is None:
                return
            self._hear(heard)

    def _hear(self, heard: RawRecord) -> None:
        if heard.offset == self.state.next_offset:
            self._take_in(heard)
        elif heard.offset > self.state.next_offset:
            self._stop(self._corruption(heard.offset, "the records before it were not to be heard"))
        elif self._unheard:
            self._compare(heard)

    def _compare(self, heard: RawRecord) -> None:
        """What was folded on acknowledgement must be what everybody else hears."""
        folded = self._unheard[0]
        if heard.offset < folded.offset:
            return  # it was heard before
        self._unheard.popleft()
        self._unheard_bytes -= len(folded.body)
        if (heard.offset, heard.time, heard.body) != (folded.offset, folded.time_ms, folded.body):
            self._stop(self._corruption(folded.offset, "another entry stands here than was acknowledged"))

    def _take_in(self, heard: RawRecord) -> None:
        """Fold a record that was heard: somebody's, or the entry under way."""
        entry, place = self._entry, self._place
        if entry is not None and place is not None and place.offset == heard.offset:
            # The state learns from it which entry it is; but these bytes need not be decoded.
            if (heard.time, heard.body) != (place.time_ms, place.body):
                self._stop(self._corruption(heard.offset, "another entry stands here than was acknowledged"))
            else:
                self._fold_own(Record(self._partition, heard.offset, heard.time, entry))
            return
        try:
            record = heard.record()
        except FoldbError as error:
            self._stop(error)
            return
        except ValueError as error:
            self._stop(self._corruption(heard.offset, str(error)))
            return
        if (
            entry is not None
            and record.entry.origin == entry.origin
            and record.entry.entry_number == entry.entry_number
        ):
            self._fold_own(record)
        elif self._fold(record, own=False):
            self._wake_waiters()

    def _fold_own(self, record: Record) -> None:
        """Fold the entry under way, wherever it stands."""
        entry = self._entry
        assert entry is not None
        self._entry = self._place = None
        stale = self.state.origins.get(entry.origin, 0) != entry.entry_number
        if not self._fold(record, own=not stale):
            return
        self._wake_waiters()
        if stale:
            # The log has forgotten this origin, after a thousand others: nothing was done. Who begins anew is known.
            self._origin, self._next_number = self._new_origin(), 0
            self._append(Entry(self._origin, 0, entry.commands))
        else:
            self._stop_watching()
            self._go_on()

    def _raised(self, error: FoldbError | LateSkipError) -> None:
        """Pass over what an operator declared void further on. Who has an entry under way leaves that to a restart."""
        if self._under_way or not isinstance(error, FoldError | LateSkipError):
            self._stop(error)
            return
        try:
            refold_past(self.state, self._shared, self._partition, error, self.capture)
        except (FoldbError, LateSkipError) as last:
            self._stop(last)
        else:
            self._unheard.clear()
            self._unheard_bytes = 0
            self._wake_waiters()

    def _wake_waiters(self) -> None:
        if not self._waiters:
            return
        folded = self.state.next_offset
        ready = [waiter for waiter in self._waiters if waiter.offset <= folded]
        self._waiters = [waiter for waiter in self._waiters if waiter.offset > folded]
        for waiter in ready:
            self._scheduler.call_soon(waiter.done)  # their trouble is not the fold's

    def _fell_silent(self) -> None:
        """Answer everybody; the entry stays under way, and so does its place in the order."""
        self._watch = None
        waiting, self._waiting = self._waiting, deque()
        self._waiting_bytes -= sum(one.size for one in waiting)
        under_way, self._under_way = (
            self._under_way,
            [one._replace(done=_ignore) for one in self._under_way],
        )
        self._answer_failed(under_way, InternalServerError())
        self._answer_failed(list(waiting), ServiceUnavailableError())
        if self._on_drained is not None:
            self._entry = None
            self._settle()
            self._go_on()
        else:
            self._watch = self._scheduler.call_later(self._silence, self._fell_silent)

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _stop(self, error: BaseException) -> None:
        self._entry = None
        self._stop_watching()
        self._unfollow()
        super()._stop(error)

    def _drained(self) -> None:
        if self._on_drained is not None and not self._witnessing:
            self._unfollow()
        super()._drained()

    def _unfollow(self) -> None:
        if self._stop_following is not None:
            stop, self._stop_following = self._stop_following, None
            stop()

    def _corruption(self, offset: int, what: str) -> CorruptionError:
        return CorruptionError(Position(self._partition, offset).text(self.state.partitions), what)


def _nothing() -> None:
    """What ends a following that has not begun."""


def _ignore(*_: object) -> None:
    """Whoever waited has been answered."""
