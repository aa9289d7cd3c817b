"""A worker on a shared log, to which other processes append too.

    append ──► acknowledged ──► next in order? ──► fold ──► later, received: the same bytes?
                                  │ no                          ▲
                                  └──► wait to receive it ──────┘

It folds the records that it receives by following the log, and answers its clients when its own entry is among them:
it recognizes it by origin and entry number. An own entry that is acknowledged at the next offset is folded without
waiting to receive it; when it is received, bytes, time and offset are compared, and a difference stops the worker.

The fate of an append is always found out, because the log repeats it until a copy is durable. Clients do not wait
for that: after `silence` seconds they receive an error that leaves the result open. A worker without commands is a
standby: it folds all the same, and can become the owner at any moment.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

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
from ..refold import Capture, FoldError, refold_past
from ..worker import WAITING_BYTES, Cancellable, Queued, Scheduler, Worker

SILENCE_SECONDS: Final = 10.0

# The limits of entries that are folded on acknowledgement and not received yet. Above them entries wait to be received.
UNCONFIRMED_ENTRIES: Final = 1024
UNCONFIRMED_BYTES: Final = 32 * 1024 * 1024

_RETRY_SECONDS: Final = 0.5


class _Waiter(NamedTuple):
    offset: int
    done: Callable[[], None]


class ReplicatedWorker(Worker):
    """See the module. Call `catch_up` instead of `open`.

    Args:
        log: The shared log.
        state: The state after all records before its next offset.
        new_origin: Returns a new origin of 16 random bytes; called again if the log has dropped the origin.
        partition: The partition id.
        waiting_bytes: The limit of queued bytes.
        capture: Receives all outcomes, also those of a refold.
        dispose: Receives the stores of deleted tables and indexes.
        on_fatal: Called when the worker has stopped.
        draw_salt: Draws an entry's salt, from level 5.
        silence: Seconds without an answer of the log after which clients receive an error.
    """

    def __init__(
        self,
        log: SharedLog,
        state: PartitionState,
        *,
        new_origin: Callable[[], bytes],
        scheduler: Scheduler,
        on_fatal: Callable[[BaseException], None],
        partition: int = 0,
        waiting_bytes: int = WAITING_BYTES,
        capture: Capture | None = None,
        dispose: Callable[[list[Store]], None] | None = None,
        draw_salt: Callable[[], bytes] | None = None,
        silence: float = SILENCE_SECONDS,
    ) -> None:
        super().__init__(
            log,
            state,
            origin=new_origin(),
            scheduler=scheduler,
            partition=partition,
            waiting_bytes=waiting_bytes,
            capture=capture,
            dispose=dispose,
            draw_salt=draw_salt,
            on_fatal=on_fatal,
        )
        self._shared = log
        self._new_origin = new_origin
        self._silence = silence
        self._entry_in_flight: Entry | None = None  # the entry in flight
        self._copy: Appended | None = None  # the offset of a copy of it, if it is known
        self._unconfirmed: deque[Appended] = deque()
        self._unconfirmed_bytes = 0
        self._silence_timer: Cancellable | None = None
        self._stop_following: Stop | None = None
        self._waiters: list[_Waiter] = []

    def catch_up(self, done: Callable[[], None]) -> None:
        """Follow the log, and call `done` when all records are folded that it held at some moment after this call.

        A worker that stops before does not call it.
        """
        if self._failure is not None:
            return
        if self._stop_following is None:
            self._stop_following = _nothing  # the log may deliver records before `follow` returns
            stop = self._shared.follow(self._partition, self.state.next_offset, self._receive_all, self._stop)
            self._stop_following = stop
        self.ask_end(lambda end: self._wait_for(end, done))

    def ask_end(self, done: Callable[[int | LogError], None]) -> None:
        """Ask for the log's end (see SharedLog)."""
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
            self._scheduler.call_later(_RETRY_SECONDS, self.catch_up, done)

    def append_entry(self, entry: Entry) -> None:
        """Append the entry in flight, and answer its clients if the log is silent."""
        self._entry_in_flight, self._copy = entry, None
        if self._silence_timer is None:
            self._silence_timer = self._scheduler.call_later(self._silence, self._answer_after_silence)
        super().append_entry(entry)
        if (
            self._entry_in_flight is entry and not self._in_flight
        ):  # it could not be encoded, and its clients are answered
            self._entry_in_flight = None
            self._cancel_silence_timer()

    def entry_appended(self, entry: Entry, result: Appended | LogError) -> None:
        """Fold the entry if it is the next record; otherwise wait to receive it."""
        if entry is not self._entry_in_flight:
            return  # it was received in the meantime
        if isinstance(result, LogError):
            self._entry_in_flight = None
            self._cancel_silence_timer()
            self._refused(result)
        elif result.offset == self.state.next_offset and self._may_be_ahead():
            self._unconfirmed.append(result)
            self._unconfirmed_bytes += len(result.body)
            self._fold_own(Record(self._partition, result.offset, result.time_ms, entry))
        elif 0 <= result.offset < self.state.next_offset:
            self._stop(
                self._corruption(result.offset, "the log acknowledged an entry where another was folded")
            )
        else:
            self._copy = result

    def _may_be_ahead(self) -> bool:
        return len(self._unconfirmed) < UNCONFIRMED_ENTRIES and self._unconfirmed_bytes < UNCONFIRMED_BYTES

    def _receive_all(self, records: Sequence[RawRecord]) -> None:
        for received in records:
            if self._stop_following is None:
                return
            self._receive(received)

    def _receive(self, received: RawRecord) -> None:
        if received.offset == self.state.next_offset:
            self._fold_received(received)
        elif received.offset > self.state.next_offset:
            self._stop(self._corruption(received.offset, "the records before it were not received"))
        elif self._unconfirmed:
            self._compare(received)

    def _compare(self, received: RawRecord) -> None:
        """Compare a received record with the one that was folded on acknowledgement."""
        folded = self._unconfirmed[0]
        if received.offset < folded.offset:
            return  # a record that was received before
        self._unconfirmed.popleft()
        self._unconfirmed_bytes -= len(folded.body)
        if (received.offset, received.time, received.body) != (folded.offset, folded.time_ms, folded.body):
            self._stop(self._corruption(folded.offset, "the log holds another entry than it acknowledged"))

    def _fold_received(self, received: RawRecord) -> None:
        """Fold a received record: of another process, or the entry in flight."""
        entry, copy = self._entry_in_flight, self._copy
        if entry is not None and copy is not None and copy.offset == received.offset:
            # The entry in flight: these bytes need not be decoded.
            if (received.time, received.body) != (copy.time_ms, copy.body):
                self._stop(
                    self._corruption(received.offset, "the log holds another entry than it acknowledged")
                )
            else:
                self._fold_own(Record(self._partition, received.offset, received.time, entry))
            return
        try:
            record = received.record()
        except FoldbError as error:
            self._stop(error)
            return
        except ValueError as damage:
            self._stop(self._corruption(received.offset, str(damage)))
            return
        if (
            entry is not None
            and record.entry.origin == entry.origin
            and record.entry.entry_number == entry.entry_number
        ):
            self._fold_own(record)
        elif self._fold(record, own=False):
            self._call_waiters()

    def _fold_own(self, record: Record) -> None:
        """Fold the entry in flight."""
        entry = self._entry_in_flight
        assert entry is not None
        self._entry_in_flight = self._copy = None
        stale = self.state.origins.get(entry.origin, 0) != entry.entry_number
        if not self._fold(record, own=not stale):
            return
        self._call_waiters()
        if stale:
            # The log has dropped this origin, after a thousand others, so the entry had no effect: append it with a new
            # origin.
            self._origin, self._next_entry_number = self._new_origin(), 0
            self.append_entry(Entry(self._origin, 0, entry.commands, entry.time, entry.salt))
        else:
            self._cancel_silence_timer()
            self._continue()

    def fold_failed(self, error: FoldbError | LateSkipError) -> None:
        """Skip a record that a later Skip declares void. With an entry in flight, stop: a restart skips it."""
        if self._in_flight or not isinstance(error, FoldError | LateSkipError):
            self._stop(error)
            return
        try:
            refold_past(self.state, self._shared, self._partition, error, self._capture)
        except (FoldbError, LateSkipError) as last:
            self._stop(last)
        else:
            self._unconfirmed.clear()
            self._unconfirmed_bytes = 0
            self._call_waiters()

    def _call_waiters(self) -> None:
        if not self._waiters:
            return
        folded = self.state.next_offset
        ready = [waiter for waiter in self._waiters if waiter.offset <= folded]
        self._waiters = [waiter for waiter in self._waiters if waiter.offset > folded]
        for waiter in ready:
            self._scheduler.call_soon(
                waiter.done
            )  # in a later turn: an exception of a waiter must not reach the fold

    def _answer_after_silence(self) -> None:
        """Answer all clients; the entry stays in flight, and keeps its place in the order."""
        self._silence_timer = None
        waiting, self._queue = self._queue, deque()
        self._queued_bytes -= sum(one.size for one in waiting)
        under_way, self._in_flight = (
            self._in_flight,
            [Queued(one.command, one.size, _ignore) for one in self._in_flight],
        )
        self._answer_failed(under_way, InternalServerError())
        self._answer_failed(list(waiting), ServiceUnavailableError())
        if self._on_drained is not None:
            self._entry_in_flight = None
            self._take_in_flight()
            self._continue()
        else:
            self._silence_timer = self._scheduler.call_later(self._silence, self._answer_after_silence)

    def _cancel_silence_timer(self) -> None:
        if self._silence_timer is not None:
            self._silence_timer.cancel()
            self._silence_timer = None

    def release(self) -> None:
        """Stop following the log."""
        self._entry_in_flight = None
        self._cancel_silence_timer()
        if self._stop_following is not None:
            stop, self._stop_following = self._stop_following, None
            stop()

    def _corruption(self, offset: int, reason: str) -> CorruptionError:
        return CorruptionError(Position(self._partition, offset).text(self.state.partitions), reason)


def _nothing() -> None:
    """Placeholder for the stop function until `follow` returns."""


def _ignore(*_: object) -> None:
    """The clients have been answered."""
