"""Folds a log into a state: the start of a partition, and `foldb verify`."""

import gc
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Protocol

from ..log.commands import Entry, Position, Record
from ..log.log import ReadableLog
from ..model.errors import FoldbError, NewerVersionError
from .fold import fold
from .fold.fold_record import LateSkipError, Void, voids
from .fold.outcomes import Outcome
from .fold.state import PartitionState
from .fold.storage import Store
from .foundation import restart
from .gc_tuning import no_collections

# The number of commands between two reports of progress. Refolds of at least this size freeze their objects
# (gc_tuning.py).
_REPORT_COMMANDS = 100_000


class Capture(Protocol):
    """Receives the outcomes of all records, in addition to the state."""

    def folded(self, outcomes: list[Outcome]) -> None:
        """Receive the outcomes of the record that was folded last."""
        ...

    def begin_again(self) -> None:
        """Discard everything received: the state was reset, and the log is folded from the beginning."""
        ...


class FoldError(FoldbError):
    """The fold raised an exception: a bug, never the log's or the caller's fault. The partition stops, nothing is
    skipped.

    Operator action: report it with the record; a release that folds the record starts from the same log. `foldb log
    skip` declares the record void, permanently and for all nodes.
    """

    def __init__(self, position: Position) -> None:
        super().__init__(f"the fold failed at position {position.text()}")
        self.position = position


def refold_log(
    state: PartitionState,
    log: ReadableLog,
    partition: int,
    progress: Callable[[int], None] | None = None,
    note: Callable[[Entry], None] = lambda _: None,
    void: frozenset[Void] = frozenset(),
    capture: Capture | None = None,
) -> int:
    """Fold the log from the state's next offset on, and return the number of commands.

    Void commands are skipped. They are found by searching the rest of the log after the fold raised, or from the
    Skip itself. The state is then refolded from the beginning of the log, because a failed fold leaves it undefined.

    Args:
        state: The state after all earlier records.
        log: The log to read.
        progress: Called every 100,000 commands with the number folded so far.
        note: Called with each entry before it is folded.
        void: The commands known to be void.
        capture: Receives the outcomes of each record.

    Raises:
        FoldError: The fold raised on a record that is not void.
    """
    while True:
        try:
            records = _noted(log.read(partition, state.next_offset), note)
            return refold(state, records, progress, void, capture)
        except (FoldError, LateSkipError) as error:
            void = more_void(void, error, log, partition)
            _begin_again(state, log, partition, capture)


def refold_past(
    state: PartitionState,
    log: ReadableLog,
    partition: int,
    error: FoldError | LateSkipError,
    capture: Capture | None = None,
) -> None:
    """Refold a state after `error`, if a later Skip declares the failed record void.

    Raises:
        FoldError, LateSkipError: No Skip declares the record void; the state is unusable.
    """
    void = more_void(frozenset(), error, log, partition)
    _begin_again(state, log, partition, capture)
    refold_log(state, log, partition, void=void, capture=capture)


def more_void(
    void: frozenset[Void], error: FoldError | LateSkipError, log: ReadableLog, partition: int
) -> frozenset[Void]:
    """Return the void commands including those implied by an error; raise the error if it implies no new ones."""
    if isinstance(error, LateSkipError):
        more = void | {error.void}
    else:
        more = void.union(voids(log.read(partition, error.position.offset + 1)))
    if more == void:
        raise error
    return more


def _noted(records: Iterable[Record], note: Callable[[Entry], None]) -> Iterator[Record]:
    for record in records:
        note(record.entry)
        yield record


def _begin_again(state: PartitionState, log: ReadableLog, partition: int, capture: Capture | None) -> None:
    restart(state, log, partition)
    if capture is not None:
        capture.begin_again()


def fold_record(
    state: PartitionState,
    record: Record,
    void: Collection[Void] = (),
    dispose: Callable[[list[Store]], None] | None = None,
) -> list[Outcome]:
    """Fold one record; raise an exception of the fold with the record's position.

    Args:
        state: The state before the record.
        record: The next record.
        void: The commands that later records declare void.
        dispose: Receives the stores that the state no longer has; without it Python frees them at once.

    Raises:
        FoldError: The fold raised. The state is unusable.
        LateSkipError: The record declares void a command that is folded already. The state is unusable.
        NewerVersionError: A later release wrote the record.
    """
    try:
        outcomes = fold(state, record, void)
    except (NewerVersionError, LateSkipError):
        raise
    except Exception as error:
        raise FoldError(Position(record.partition, record.offset)) from error
    if dispose is not None and state.dropped:
        dispose([*state.dropped])
    return outcomes


def refold(
    state: PartitionState,
    records: Iterable[Record],
    progress: Callable[[int], None] | None = None,
    void: Collection[Void] = (),
    capture: Capture | None = None,
) -> int:
    """Fold `records` into `state` and return the number of commands.

    Args:
        state: The state after all earlier records.
        records: The records of the log from the state's next offset on.
        progress: Called every 100,000 commands with the number folded so far.
        void: The commands to skip.
        capture: Receives the outcomes of each record.
    """
    folded = reported = 0
    with no_collections():
        for record in records:
            outcomes = fold_record(state, record, void)
            if capture is not None:
                capture.folded(outcomes)
            folded += len(record.entry.commands)
            if progress is not None and folded - reported >= _REPORT_COMMANDS:
                reported = folded
                progress(folded)
        if folded >= _REPORT_COMMANDS:
            gc.freeze()  # otherwise each full collection would traverse every collection of items
    return folded
