"""Bringing a state up to its log: how a partition starts, and how `foldb verify` looks at one."""

import gc
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import fields
from typing import Protocol

from ..log.commands import Entry, Position, Record
from ..model.errors import FoldbError, NewerVersionError
from .disposer import dropped, may_drop, stores_of
from .fold import fold
from .fold.fold_record import LateSkipError, Void, voids
from .fold.outcomes import Outcome
from .fold.state import PartitionState
from .fold.storage import Store
from .gc_tuning import no_collections

# Progress is told every so many commands. From as many on, what was folded is put out of the collector's sight.
_STRETCH = 100_000


class Recorded(Protocol):
    """The part of a log that a refold needs; whoever reads beside its writer has it too."""

    def read(self, partition: int, start: int = 0) -> Iterator[Record]: ...


class Capture(Protocol):
    """Who wants to know what a refold comes to, besides the state."""

    def folded(self, outcomes: list[Outcome]) -> None:
        """This is what the record that was folded last came to."""
        ...

    def begin_again(self) -> None:
        """All of it counts for nothing: the state was made anew, and what was folded is folded otherwise."""
        ...


class FoldError(FoldbError):
    """The fold raised: a bug, never the log's or the caller's fault. The partition stops here, nothing is skipped.

    Operator action: report it with the record; a release that folds it starts from the same log. `foldb log skip`
    declares the record void, for good and for everybody.
    """

    def __init__(self, position: Position) -> None:
        super().__init__(f"the fold failed at position {position.text()}")
        self.position = position


def refold_log(
    state: PartitionState,
    log: Recorded,
    partition: int,
    progress: Callable[[int], None] | None = None,
    note: Callable[[Entry], None] = lambda _: None,
    void: frozenset[Void] = frozenset(),
    capture: Capture | None = None,
) -> int:
    """Fold what the log holds from the state's next offset on, and return how many commands that was.

    What an operator declared void is passed over. That is learnt where the fold raises, by searching the rest of the
    log, or from the Skip itself; the state is then made anew from the beginning, because nobody knows how far the fold
    got before it raised.

    Args:
        state: What the records before these made.
        log: Where they are.
        partition: Of which partition.
        progress: Called now and then with the commands folded so far.
        note: Called with each entry before it is folded.
        void: What is known to be void.
        capture: Told what each record came to.

    Raises:
        FoldError: The fold raised on a record that is not void.
    """
    while True:
        try:
            records = _noted(log.read(partition, state.next_offset), note)
            return refold(state, records, progress, void, capture)
        except (FoldError, LateSkipError) as error:
            void = more_void(void, error, log, partition)
            _begin_again(state, capture)


def refold_past(
    state: PartitionState,
    log: Recorded,
    partition: int,
    error: FoldError | LateSkipError,
    capture: Capture | None = None,
) -> None:
    """Bring a state to which `error` happened up to the log all the same, if an operator has said how.

    Raises:
        FoldError, LateSkipError: Nothing there is void; the state is not to be used any more.
    """
    void = more_void(frozenset(), error, log, partition)
    _begin_again(state, capture)
    refold_log(state, log, partition, void=void, capture=capture)


def more_void(
    void: frozenset[Void], error: FoldError | LateSkipError, log: Recorded, partition: int
) -> frozenset[Void]:
    """What is void, with what is learnt from an error; raises it if that is nothing."""
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


def _begin_again(state: PartitionState, capture: Capture | None) -> None:
    fresh = PartitionState()
    for each in fields(PartitionState):
        setattr(state, each.name, getattr(fresh, each.name))
    if capture is not None:
        capture.begin_again()


def fold_record(
    state: PartitionState,
    record: Record,
    void: Collection[Void] = (),
    dispose: Callable[[list[Store]], None] | None = None,
) -> list[Outcome]:
    """Fold one record; an exception of the fold is raised with the record's position.

    Args:
        state: The state before the record.
        record: The next record.
        void: The commands that later records declare void.
        dispose: Receives the stores that the state has dropped; without it Python frees them at once.

    Raises:
        FoldError: The fold raised. The state is not to be used any more.
        LateSkipError: The record declares void what was folded. Nor is it then.
        NewerVersionError: A later release wrote the record.
    """
    before = stores_of(state) if dispose is not None and may_drop(record.entry) else []
    try:
        outcomes = fold(state, record, void)
    except (NewerVersionError, LateSkipError):
        raise
    except Exception as error:
        raise FoldError(Position(record.partition, record.offset)) from error
    if dispose is not None and before:
        dispose(dropped(before, state))
    return outcomes


def refold(
    state: PartitionState,
    records: Iterable[Record],
    progress: Callable[[int], None] | None = None,
    void: Collection[Void] = (),
    capture: Capture | None = None,
) -> int:
    """Fold `records` into `state` and return how many commands they held.

    Args:
        state: What the records before these made; a new one for offset 0.
        records: What the log holds from the state's next offset on.
        progress: Called now and then with the commands folded so far.
        void: What is passed over.
        capture: Told what each record came to.
    """
    folded = told = 0
    with no_collections():
        for record in records:
            outcomes = fold_record(state, record, void)
            if capture is not None:
                capture.folded(outcomes)
            folded += len(record.entry.commands)
            if progress is not None and folded - told >= _STRETCH:
                told = folded
                progress(folded)
        if folded >= _STRETCH:
            gc.freeze()  # else each full collection would walk through every collection of items
    return folded
