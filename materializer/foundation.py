"""The state and the chain with which a fold of a log begins: those of the base of a trimmed log, or of an empty one.

Every fold that does not begin with a snapshot begins here. A base has the form of a snapshot (snapshot.py), but it is
no cache: if both of its copies are damaged, the log cannot be read.
"""

import logging
from contextlib import suppress
from dataclasses import fields
from typing import Any

from ..log.chain import Chain
from ..log.log import ReadableLog
from ..model.errors import CorruptionError
from .fold.state import PartitionState
from .gc_tuning import no_collections
from .snapshot import SnapshotHead, UnusableError, load_state, read_head

logger = logging.getLogger(__name__)


def initial_state(log: ReadableLog, partition: int) -> PartitionState:
    """Return the state of a partition before the first record that the log has.

    Raises:
        CorruptionError: Both copies of its base are damaged.
    """
    begin = log.begin(partition)
    if not begin:
        return PartitionState()
    faults: list[str] = []
    for name, file in log.bases(partition):
        try:
            with no_collections():
                state = load_state(read_head(file))
            if (state.partition, state.next_offset) != (partition, begin):
                raise UnusableError("it is of another position")
        except (UnusableError, OSError) as error:
            faults.append(f"{name}: {error}")
        else:
            for fault in faults:
                logger.error("the foundation of the log is damaged: %s. Its other copy is used.", fault)
            return state
    raise _lost(log, partition, faults)


def initial_chain(log: ReadableLog, partition: int) -> Chain:
    """Return the chain of a partition before the first record that the log has.

    Raises:
        CorruptionError: Both copies of its base are damaged.
    """
    head = initial_head(log, partition)
    genesis = log.genesis(partition)
    return Chain(genesis) if head is None else Chain(genesis, head.offset + 1, head.chain)


def initial_head(log: ReadableLog, partition: int) -> SnapshotHead | None:
    """Return the head of a partition's base; None if the log begins with Genesis.

    Raises:
        CorruptionError: Both copies of the base are damaged.
    """
    if not log.begin(partition):
        return None
    for _, file in log.bases(partition):
        with suppress(UnusableError, OSError):
            return read_head(file).head
    raise _lost(log, partition, [])


def restart(state: PartitionState, log: ReadableLog, partition: int) -> None:
    """Make `state` the initial state again, for all objects that refer to it."""
    if not log.begin(partition):
        state.reset()
        return
    initial = initial_state(log, partition)
    for each in fields(PartitionState):
        setattr(state, each.name, getattr(initial, each.name))


def _lost(log: Any, partition: int, faults: list[str]) -> CorruptionError:
    """Return the error for a base without an intact copy, with the archive that has the removed records."""
    archive = log.foundation.archive
    step = "Restore a backup with `foldb log restore`."
    return CorruptionError(
        faults[0].partition(":")[0] if faults else "foundation",
        f"no copy of the base of partition {partition} is intact: {'; '.join(faults) or 'both are missing'}",
        step if archive is None else f"{step} The archive {archive} has the removed records.",
    )
