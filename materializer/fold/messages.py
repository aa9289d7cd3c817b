"""The effect of a message from another partition.

    Relay number n of a sender:   n is the next  ──► folded; the messages that this causes are in the outboxes
                                  n is lower     ──► a duplicate, no effect
                                  n is higher    ──► ignored: the sender repeats its messages from the oldest on

So every message counts once, in the order of its sender, however often and in whichever order it reaches the log.
"""

from ...log.commands import (
    Commit,
    Decide,
    Decided,
    Defined,
    DefinitionApplied,
    IndexEntry,
    IndexFilled,
    IndexSent,
    Message,
    Prepare,
    Relay,
    RelayAck,
    Vote,
)
from . import definitions, indexes
from .outbox import acknowledge
from .outcomes import Completed, MessageFolded, Outcome
from .state import PartitionState
from .transactions.coordinator import decided, vote
from .transactions.participant import decide, prepare


def relay(state: PartitionState, command: Relay, sequence_number: int) -> MessageFolded:
    """Fold a Relay."""
    if not count_message(state, command):
        return MessageFolded(through_message=state.received.get(command.sender, 0) - 1, time=state.log_time)
    position = command.offset, command.index
    outcome = fold_message(state, command.sender, position, command.message, sequence_number)
    outcome.through_message = command.message_number
    outcome.time = state.log_time
    return outcome


def count_message(state: PartitionState, command: Relay) -> bool:
    """Count a Relay and return True if it is its sender's next message."""
    assert command.sender != state.partition, "a partition sends no message to itself"
    if state.received.get(command.sender, 0) != command.message_number:
        return False
    state.received[command.sender] = command.message_number + 1
    return True


def relay_ack(state: PartitionState, command: RelayAck) -> Outcome:
    """Fold a RelayAck."""
    return Completed(progressed=acknowledge(state, command.receiver, command.through_message))


def fold_message(
    state: PartitionState, sender: int, position: tuple[int, int], message: Message, sequence_number: int
) -> MessageFolded:
    """Fold a message; `position` is the offset and index of the command in the sender's log that sent it."""
    match message:
        case IndexEntry() | IndexSent():
            _fold_index_message(state, sender, message, sequence_number)
        case Prepare():
            return prepare(state, sender, message, sequence_number)
        case Vote():
            return vote(state, sender, message, position, sequence_number)
        case Decide() | Commit():
            return decide(state, sender, message, sequence_number)
        case Decided():
            return decided(state, sender, message, position)
        case Defined():
            definitions.fold_defined(state, message, sequence_number)
            _fold_deferred(state, sequence_number)
        case DefinitionApplied():
            definitions.fold_definition_applied(state, sender, message, sequence_number)
        case IndexFilled():
            definitions.fold_index_filled(state, sender, message, sequence_number)
    return MessageFolded()


def _fold_index_message(
    state: PartitionState, sender: int, message: IndexEntry | IndexSent, sequence_number: int
) -> None:
    if message.index >= state.next_id:
        state.deferred.append((sender, message))
    elif type(message) is IndexEntry:
        indexes.fold_index_entry(state, message)
    else:
        assert type(message) is IndexSent
        indexes.fold_index_sent(state, sender, message, sequence_number)


def _fold_deferred(state: PartitionState, sequence_number: int) -> None:
    """Fold the deferred messages after a definition was installed; those that are still early are deferred again."""
    deferred, state.deferred = state.deferred, []
    for sender, message in deferred:
        _fold_index_message(state, sender, message, sequence_number)
