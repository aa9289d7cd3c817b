"""A history that keeps no versions: each read folds the log up to its cut again.

It is the definition of a cut, in the fewest lines.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from foldb.log.commands import Commit, Decide, Position, Record, Relay
from foldb.log.log import ReadableLog
from foldb.materializer.fold.outcomes import Outcome
from foldb.materializer.fold.read_requests import Page
from foldb.materializer.fold.reads import Request
from foldb.materializer.fold.state import PartitionState, Table
from foldb.materializer.fold.transactions.participant import conclude
from foldb.materializer.fold.transactions.state import TransactionId
from foldb.materializer.history.history import NotFoldedError, PartitionCut, TimeCut
from foldb.materializer.refold import refold, refold_log
from foldb.model.limits import Limits
from tests.support.pages import read_page


@dataclass(frozen=True, slots=True)
class RefoldedState:
    """A `PastState` that was folded for one read."""

    position: Position
    limits: Limits
    tables: Mapping[int, Table]
    names: Mapping[str, int]

    def read_page(self, request: Request, page_bytes: int) -> Page:
        """Read a page of a Query or Scan."""
        return read_page(self.tables[request.table], request, page_bytes)


class RefoldHistory:
    """A `History` over a log."""

    def __init__(self, log: ReadableLog, partition: int) -> None:
        self._log = log
        self._partition = partition
        self._live = PartitionState()
        self._times: list[int] = []  # log time, by offset
        self._prepared: dict[TransactionId, int] = {}  # log time of the Prepare of each undecided transaction

    @property
    def horizon(self) -> Position:
        """The oldest position that can be read."""
        return Position(self._partition, 0)

    @property
    def position(self) -> Position:
        """The end of the log."""
        refold_log(self._live, self._log, self._partition, capture=self)
        return Position(self._partition, self._live.next_offset - 1, time_ms=self._live.log_time)

    def is_closed(self, time_ms: int) -> bool:
        """Return whether the state at a time is final."""
        log_time = self.position.time_ms
        assert log_time is not None
        return log_time > time_ms and all(prepared > time_ms for prepared in self._prepared.values())

    def at(self, cut: PartitionCut) -> RefoldedState:
        """Return the state at a cut.

        Raises:
            NotFoldedError: The log ends before the cut, or the cut is a time that is not closed.
        """
        if isinstance(cut, Position):
            if cut.offset > self.position.offset:
                raise NotFoldedError(f"the log ends before {cut.text()}")
            return self._state(self._folded(cut), cut)
        if not self.is_closed(cut.time_ms):
            raise NotFoldedError(f"log time {cut.time_ms} is not closed")
        last = Position(self._partition, bisect_right(self._times, cut.time_ms) - 1)
        state = self._folded(last)
        self._apply_decisions(state, cut)
        return self._state(state, last)

    def folded(self, _: list[Outcome]) -> None:
        """Note the log time of a folded record, and the transactions that it has prepared and decided."""
        live = self._live
        self._times.append(live.log_time)
        self._prepared = {
            each: self._prepared.get(each, live.log_time) for each in live.transactions.prepared
        }

    def begin_again(self) -> None:
        """Forget everything: the log is folded from the beginning again, without its void records."""
        self._times.clear()
        self._prepared.clear()

    def _folded(self, last: Position) -> PartitionState:
        """Fold up to and including a position; its index may cut an entry short."""
        state = PartitionState()
        refold(state, self._up_to(last), void=frozenset(self._live.voided))
        return state

    def _up_to(self, last: Position) -> Iterator[Record]:
        for record in self._log.read(self._partition):
            if record.offset > last.offset:
                return
            if record.offset == last.offset and last.index is not None:
                commands = record.entry.commands[: last.index + 1]
                record = replace(record, entry=replace(record.entry, commands=commands))
            yield record

    def _apply_decisions(self, state: PartitionState, cut: TimeCut) -> None:
        """Apply the transactions that were prepared here by the cut and decided elsewhere by the cut."""
        void = frozenset(self._live.voided)
        for record in self._log.read(self._partition, state.next_offset):
            if not state.transactions.prepared:
                return
            for index, command in enumerate(record.entry.commands):
                message = command.message if isinstance(command, Relay) else None
                if isinstance(command, Relay) and isinstance(message, Commit | Decide):
                    is_void = not void.isdisjoint(((record.offset, None), (record.offset, index)))
                    commit = isinstance(message, Commit) or message.commit
                    transaction_id = command.sender, message.transaction_number
                    conclude(state, transaction_id, commit and not is_void and command.time <= cut.time_ms, 0)

    def _state(self, state: PartitionState, position: Position) -> RefoldedState:
        position = replace(position, time_ms=state.log_time)
        return RefoldedState(position, state.limits, state.tables, state.names)
