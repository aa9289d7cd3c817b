"""Bringing a state up to its log: how a partition starts, and how `foldb verify` looks at one."""

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from ..log.commands import Position, Record
from ..model.errors import FoldbError, NewerVersionError
from .fold import fold
from .fold.outcomes import Outcome
from .fold.state import PartitionState

# Progress is told every so many commands. From as many on, what was folded is put out of the collector's sight.
_STRETCH = 100_000


class FoldError(FoldbError):
    """The fold raised: a bug, never the log's or the caller's fault. The partition stops here, nothing is skipped.

    Operator action: report it with the record; a release that folds it starts from the same log.
    """

    def __init__(self, position: Position) -> None:
        super().__init__(f"the fold failed at position {position.text()}")
        self.position = position


def fold_record(state: PartitionState, record: Record) -> list[Outcome]:
    """Fold one record; what the fold raises comes out with the record's position.

    Raises:
        FoldError: The fold raised. The state is not to be used any more.
        NewerVersionError: A later release wrote the record.
    """
    try:
        return fold(state, record)
    except NewerVersionError:
        raise
    except Exception as error:
        raise FoldError(Position(record.partition, record.offset)) from error


def refold(
    state: PartitionState, records: Iterable[Record], progress: Callable[[int], None] | None = None
) -> int:
    """Fold `records` into `state` and return how many commands they held.

    Args:
        state: What the records before these made; a new one for offset 0.
        records: What the log holds from the state's next offset on.
        progress: Called now and then with the commands folded so far.
    """
    folded = told = 0
    with no_collections():
        for record in records:
            fold_record(state, record)
            folded += len(record.entry.commands)
            if progress is not None and folded - told >= _STRETCH:
                told = folded
                progress(folded)
        if folded >= _STRETCH:
            gc.freeze()  # else each full collection would walk through every collection of items
    return folded


@contextmanager
def no_collections() -> Iterator[None]:
    """Keep Python's cycle collector out: a refold makes no garbage of its kind, and would lose a third to it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
