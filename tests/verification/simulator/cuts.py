"""Histories folded again without a worker: up to a cut, and from there to rest.

    prefix of every partition, by log time ──► states ──► every message delivered, every transaction ended ──► at rest

A cut by log time holds no effect without its cause. So the fold alone can complete all messages and transactions
that are open there: deliver unacknowledged messages, abort undecided transactions. The result must be a consistent
database.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from foldb.log.commands import (
    Abandon,
    Backfill,
    Command,
    Entry,
    Record,
    RelayAck,
    Settle,
    new_context,
)
from foldb.materializer.fold import fold
from foldb.materializer.fold.outcomes import Outcome
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.fold.transactions.coordinator import ABANDON_AFTER_MS
from tests.support.versions import Recorder, Version
from tests.verification.simulator.log import SharedLog

_OWNER = new_context("")


class NeverAtRestError(AssertionError):
    """The open messages and transactions at a cut do not end."""


class Folded(NamedTuple):
    """A partition's state, the log time after each of its records, their outcomes, and all versions they wrote."""

    state: PartitionState
    times: list[int]
    records: list[tuple[Record, Sequence[Outcome]]]
    versions: list[Version]


def folded(log: SharedLog, partition: int) -> Folded:
    """Fold a partition."""
    recorder = Recorder()
    all_of_it = Folded(recorder.state, [], [], recorder.versions)
    for record in log.read(partition, 0, log.end(partition)):
        all_of_it.records.append((record, recorder.fold(record)))
        all_of_it.times.append(recorder.state.log_time)
    return all_of_it


def until(log: SharedLog, partition: int, times: list[int], moment: int) -> PartitionState:
    """Return a partition's state at a moment of log time."""
    state = PartitionState()
    for taken in log.partitions[partition].records[: sum(time <= moment for time in times)]:
        fold(state, taken.record())
    return state


def check_causes(states: list[PartitionState]) -> None:
    """Check that no message is folded before it was sent, nor acknowledged before it was folded."""
    for receiver, there in enumerate(states):
        for sender, here in enumerate(states):
            outbox = here.outboxes.get(receiver)
            sent = 0 if outbox is None else outbox.next_message_number
            acknowledged = sent - (0 if outbox is None else len(outbox.unacknowledged))
            arrived = there.received.get(sender, 0)
            found = f"{receiver} has {arrived} of {sent} messages of {sender}, of which {acknowledged} are acknowledged"
            assert acknowledged <= arrived <= sent, found


class Rest:
    """Brings the states of all partitions to rest."""

    def __init__(self, states: list[PartitionState], steps: int = 500) -> None:
        self._states = states
        self._steps = steps
        self._entries = 0

    def come(self) -> None:
        """Continue until no work is left.

        Raises:
            NeverAtRestError: The states do not come to rest.
        """
        for _ in range(self._steps):
            if not self._deliver() and not self._propose():
                return
        raise NeverAtRestError(f"after {self._steps} rounds there is still something under way")

    def _deliver(self) -> bool:
        """Deliver and acknowledge every message; return whether there were any."""
        is_any_sent = False
        for sender, state in enumerate(self._states):
            for receiver, outbox in list(state.outboxes.items()):
                waiting = list(outbox.unacknowledged)
                if waiting:
                    is_any_sent = True
                    self._fold(receiver, waiting)
                    self._fold(
                        sender,
                        [RelayAck(receiver, waiting[-1].message_number, self._states[receiver].log_time)],
                    )
        return is_any_sent

    def _propose(self) -> bool:
        """Propose the commands of an owner; return whether there were any."""
        any_proposed = False
        for number, state in enumerate(self._states):
            commands = list(_proposals(state))
            if commands:
                any_proposed = True
                self._fold(number, commands, ABANDON_AFTER_MS)
        return any_proposed

    def _fold(self, number: int, commands: Sequence[Command], passed_ms: int = 0) -> None:
        state = self._states[number]
        self._entries += 1
        entry = Entry(self._entries.to_bytes(16, "big"), 0, commands)
        fold(state, Record(number, state.next_offset, state.log_time + passed_ms, entry))


def _proposals(state: PartitionState) -> Iterator[Command]:
    for number, _ in state.transactions.undecided():
        yield Abandon(number, _OWNER)
    for table in state.tables.values():
        pending = state.rollout.pending.get(table.definition.id)
        if table.definition.status != "ACTIVE" and (state.partitions == 1 or (pending and pending.delayed)):
            yield Settle(table.definition.id, _OWNER)
        for index in table.indexes.values():
            if index.is_filling and state.slots:
                yield Backfill(table.definition.id, index.definition.id, 1000, _OWNER)
