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


def effective_time(command: Relay, log_time: int) -> int:
    """Return the effective time of the items that a Relay writes, folded at `log_time`.

    It is the time at which a version counts as written: a read of the past at T has, of each key, the newest version
    whose effective time is at most T. Items that other commands write have log time. An entry of a local index has the
    time of its item, so a past read of the index finds what the table has. An entry of a global index has log time: a
    backfill may enter an item, at its log time, between the decision of a transaction and the record that applies it.

    A Commit that names the changes of all partitions has the time of its decision, which is the same at all
    participants. That is later than the log time p of this participant's Prepare. Proof: the coordinator decided after
    the votes of all participants. The vote from here was sent in the step that folded the Prepare, so its Relay has the
    time p, and the coordinator's record with that Relay has a log time above p (`fold_record._latest_cause_time`). The
    decision was folded in that record or a later one. Other writes of the held keys are refused from the Prepare
    until this Relay, whose record has a log time above the decision. So effective time never falls along a key, and
    the state need not keep p.

    A Commit without these changes was sent together with its Prepare, to the only participant: no other partition has
    to agree with it, and its decision may be earlier than p. It has the log time here, as a Decide has: that may be of
    either kind, at levels below 3.
    """
    message = command.message
    is_agreed = type(message) is Commit and message.changing is not None
    return command.time if is_agreed else log_time


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
