"""How a partition's changes get from memory into segments, and out of them again when their time is over.

    enough has come together ──► a segment           every some seconds ──► synced, marked, what is over removed

Files are written and read by threads (work.py) and their bookkeeping is done here, on the loop. A disk that takes
nothing more keeps nobody from writing: past a bound the oldest changes are let go of, which those who read them are
told by `kept_after`, and they are there again after the next start.
"""

import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

from ...materializer.fold.outcomes import sequence_number
from ...materializer.fold.state import PartitionState
from ...materializer.worker import Cancellable, Scheduler
from ...model.errors import FoldbError
from .change_codec import DamagedError
from .change_store import ChangeStore, NotThereError, Whole
from .repairs import Remake, Repairs
from .segments import SegmentDamagedError, Segments
from .serial_executor import AtOnce, Work
from .table_changes import TableChanges

# So much at a time: while a thread encodes, the loop waits for the interpreter.
SEND_BYTES: Final = 128 << 10
CHANNEL_BYTES: Final = 4 << 20
LEAST_BYTES: Final = 512 << 10
MARK_S: Final = 10.0
# A page seldom touches more than two segments: a read that meets more damage gets an error and is repeated.
REPAIRS: Final = 4

# What a disk refuses may be so many times what else would be in memory; what it only has not taken yet, so much.
_LOSE_TIMES: Final = 16
MOST_BYTES: Final = 512 << 20

logger = logging.getLogger(__name__)

T = TypeVar("T")


class ChangeWriter:
    """The channels of a partition, and where they are kept.

    Attributes:
        channels: By table.
        through: Changes of records before this offset are known: there is nothing to take from them.
        floor: What has this number or a lower one was not taken, of no table.
        repairs: Damaged segments on their way to be replaced.
    """

    def __init__(
        self,
        keeping: ChangeStore,
        scheduler: Scheduler,
        state: PartitionState,
        *,
        retention_ms: int,
        recent_bytes: int,
        remake: Remake | None = None,
    ) -> None:
        self.floor = 0
        self.repairs = Repairs(remake, scheduler)
        self._writing: Work = AtOnce()
        self._reading: Work = AtOnce()
        self._keeping = keeping
        self._scheduler = scheduler
        self._state = state
        self._retention_ms = retention_ms
        self._recent_bytes = recent_bytes
        if keeping.through < state.next_offset:
            # What was found ends before the state begins; then none of it is to be served any more.
            keeping.forget()
            base = 0 if state.genesis is None else state.genesis.base
            self.floor = sequence_number(base + state.next_offset, 0, 0) - 1 if state.next_offset else 0
        self.through = keeping.through
        self.channels = {table: TableChanges(table, segments) for table, segments in keeping.found.items()}
        self._timer: Cancellable | None = None
        self._next_offset = state.next_offset
        self._gap_ms: int | None = None  # log time when changes were let go of
        self._is_serving = self._is_refused = self._is_told = False

    def serve(self, writing: Work, reading: Work) -> None:
        """Have files written and read beside those who are served."""
        self._writing, self._reading, self._is_serving = writing, reading, True
        if self._state.periods:
            self.come_again(self._next_offset)

    def close(self, next_offset: int) -> None:
        """Leave on the disk what is to be found by the next start: all that has been folded."""
        if self._timer is not None:
            self._timer.cancel()
        self.repairs.close()
        self._next_offset, self._is_serving = next_offset, False
        if self._keeping.is_lasting and (self.channels or self._is_wanted):
            self._mark()
        channels = self._segments()
        self._writing.do(lambda: self._keeping.close(channels), self._done)

    def begin_again(self) -> None:
        """Forget all; if the mark of it cannot be removed, that is no state to start from."""
        segments = self._segments()
        self.channels.clear()
        self.through = self.floor = 0
        self._gap_ms = None
        self._writing.do(self._keeping.unmark, _raise)
        for each in segments.values():
            self._writing.do(each.remove_all, self._done)

    def channel(self, table: int) -> TableChanges:
        """The channel of a table that had none."""
        channel = self.channels[table] = TableChanges(table, self._keeping.segments(table, self.floor))
        return channel

    # Writing

    def look(self, channel: TableChanges) -> None:
        """See whether enough has come together. What need not last is written when there is no room for it."""
        if channel.unsent_bytes >= SEND_BYTES:
            if self._keeping.is_lasting or channel.recent_bytes > self._bound:
                self._send(channel, SEND_BYTES)
            most = _LOSE_TIMES * self._bound if self._is_refused else MOST_BYTES
            if channel.recent_bytes > most:
                self._lose(channel)

    def come_again(self, next_offset: int) -> None:
        """All before that offset has been taken: mark that in a while, also if it was nothing.

        Else a start could not use a snapshot that is newer than the last change.
        """
        self._next_offset = next_offset
        if self._timer is None and self._is_serving:
            self._timer = self._scheduler.call_later(MARK_S, self._come)

    @property
    def _bound(self) -> int:
        """The memory that the newest changes of one table may take."""
        return max(LEAST_BYTES, min(CHANNEL_BYTES, self._recent_bytes // max(1, len(self.channels))))

    def _send(self, channel: TableChanges, size: int) -> None:
        after, batches = channel.sent, channel.send(size)
        through, segments = channel.sent, channel.segments

        def write() -> None:
            if segments.last == after:
                segments.append(after, batches)
            else:
                raise NotThereError  # what comes before was not written; so this is sent again as well

        self._writing.do(write, lambda error: self._sent(channel, segments, through, error))

    def _sent(self, channel: TableChanges, segments: Segments, through: int, error: Exception | None) -> None:
        if channel.segments is not segments:
            return  # what these were about was let go of
        channel.stored = segments.last
        if error is None:
            channel.stored = max(channel.stored, through)
            if channel.sent < channel.stored:  # it was sent again, after something before it had failed
                channel.send_again()
            channel.shrink(self._bound)
            self._is_refused = self._is_told = False
            return
        self._is_refused = True
        channel.send_again()
        self._failed(error)

    def _failed(self, error: Exception) -> None:
        """Something was not written, or not synced."""
        self._report(error)
        for channel in self.channels.values():
            if channel.segments.is_doubtful:
                self._give_up(channel)

    def _lose(self, channel: TableChanges) -> None:
        """Let go of what the disk would not have."""
        channel.lose(self._bound)
        self._give_up(channel)

    def _give_up(self, channel: TableChanges) -> None:
        """Go on in new segments, which what is in memory is written to; readers are told that the rest is over.

        Until its time is over indeed, nothing is marked any more: so the next start makes it anew.
        """
        logger.error("the feed of table %d lets go of its oldest changes until the next start", channel.table)
        self._gap_ms = self._state.log_time
        old = channel.segments
        channel.go_on_in(self._keeping.segments(channel.table, channel.recent_after))
        self._writing.do(self._keeping.unmark, self._done)
        self._writing.do(old.remove_all, self._done)

    # Marking, and what is over

    def _come(self) -> None:
        self._timer = None
        ended = self._drop_ended()
        if self.channels or ended or self._is_wanted:
            self._mark()
        for segments in ended:  # of which the mark does not speak any more
            self._writing.do(segments.remove_all, self._done)

    def _mark(self) -> None:
        """Write what there is, have it synced and marked, and what is over removed."""
        if self._keeping.is_lasting:
            for channel in self.channels.values():
                while channel.sent < channel.last:
                    self._send(channel, SEND_BYTES)
        segments = self._segments()
        lasts = {table: channel.sent for table, channel in self.channels.items()}
        whole = Whole(self._next_offset, lasts, self.horizon)
        if self._has_gap:
            return
        self._writing.do(lambda: self._keeping.mark(segments, whole), self._marked)

    def _marked(self, firsts: dict[int, int] | Exception) -> None:
        if isinstance(firsts, Exception):
            self._failed(firsts)
            self.come_again(self._next_offset)
            return
        for table, after in firsts.items():
            if table in self.channels:
                self.channels[table].trim(after)

    def _drop_ended(self) -> list[Segments]:
        """Let go of tables of which nobody takes changes any more, and none is served."""
        over = [
            table
            for table in self.channels
            if all(each.is_over(self.horizon) for each in self._state.periods.get(table, ()))
        ]
        return [self.channels.pop(table).segments for table in over]

    @property
    def _has_gap(self) -> bool:
        """Whether changes were let go of that a start would still have to serve."""
        return self._gap_ms is not None and self.horizon <= self._gap_ms

    @property
    def _is_wanted(self) -> bool:
        """Whether there is a window of which changes are still to be served."""
        return any(
            not each.is_over(self.horizon) for windows in self._state.periods.values() for each in windows
        )

    @property
    def horizon(self) -> int:
        """The log time before which changes are over."""
        return self._state.log_time - self._retention_ms if self._retention_ms else 0

    def trim(self, channel: TableChanges, then: Callable[[], None]) -> None:
        """Find what is over, if some time has passed since the last look, and go on."""
        horizon = self.horizon
        if horizon < channel.trim_at_ms or horizon <= 0:
            then()
            return
        channel.trim_at_ms = horizon + max(1, self._retention_ms // 1000)
        number = channel.find(horizon)
        if number is not None:
            channel.trim(number)
            then()
            return

        def found(number: int | None) -> None:
            if number is not None:
                channel.trim(number)
            then()

        self.read(channel, lambda segments: segments.find(horizon), found, repairs=0)

    # Reading

    def read(
        self,
        channel: TableChanges,
        read: Callable[[Segments], T],
        found: Callable[[T | None], None],
        *,
        repairs: int = REPAIRS,
    ) -> None:
        """Read what is in segments; None is found where they cannot be read now.

        A read that meets a damaged segment has it made again, and is repeated then, after at most so many `repairs`;
        with 0 it does not wait.
        """
        segments = channel.segments

        def done(outcome: T | Exception) -> None:
            if not isinstance(outcome, Exception):
                found(outcome)
            elif isinstance(outcome, SegmentDamagedError) and channel.segments is segments:
                then = repaired if repairs else _ignore
                self.repairs.repair(channel.table, segments, outcome, self._writing, then)
                if not repairs:
                    found(None)
            else:
                self._report(outcome)
                found(None)

        def repaired(is_made: bool) -> None:
            if is_made:
                self.come_again(self._next_offset)  # the mark has the size of the newest segment
                self.read(channel, read, found, repairs=repairs - 1)
            else:
                found(None)

        self._reading.do(lambda: read(segments), done)

    def _segments(self) -> dict[int, Segments]:
        return {table: channel.segments for table, channel in self.channels.items()}

    def _done(self, outcome: Any) -> None:
        if isinstance(outcome, Exception):
            self._report(outcome)

    def _report(self, error: Exception) -> None:
        """Say that files cannot be written or read; once, until they can."""
        if not isinstance(error, OSError | DamagedError | NotThereError | FoldbError):
            raise error
        if not self._is_told:
            self._is_told = True
            logger.warning("changes of partition %d: %s", self._state.partition, error or "not written yet")


def _ignore(_: bool) -> None:
    """Nobody waits for it."""


def _raise(outcome: Any) -> None:
    if isinstance(outcome, Exception):
        raise outcome
