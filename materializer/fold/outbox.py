"""Messages to other partitions, kept until they are acknowledged.

    send ──► Outbox ──► Relay in the receiver's log ──► RelayAck in this log ──► removed
               │  ▲
               └──┘ sent again, from the oldest on, after any doubt

Messages to one receiver are numbered from 0 without a gap. They are part of the state and of its snapshots: the
partition's next owner finds them there, and no process has to remember them.
"""

from typing import Final

from ...log.binary import encode_message
from ...log.commands import IndexEntry, Message, Relay
from ...model.sequence_numbers import position_of
from .state import Outbox, PartitionState

# Bytes that a message counts in addition to its content.
_MESSAGE_BYTES: Final = 64


def send(state: PartitionState, receiver: int, message: Message, sequence_number: int) -> None:
    """Send a message; `sequence_number` is that of a change of the command that is being folded."""
    genesis = state.genesis
    assert genesis is not None, "the log does not begin with a Genesis"
    assert receiver != genesis.partition, "a partition sends no message to itself"
    outbox = state.outboxes.get(receiver)
    if outbox is None:
        outbox = state.outboxes[receiver] = Outbox()
    offset, index = position_of(sequence_number)
    outbox.unacknowledged.append(
        Relay(
            genesis.partition,
            outbox.next_message_number,
            offset,
            index,
            state.log_time,
            message,
        )
    )
    outbox.next_message_number += 1
    state.unacknowledged_bytes += size_of(message)


def acknowledge(state: PartitionState, receiver: int, through: int) -> bool:
    """Remove the messages that `receiver` has folded, up to number `through`; return whether there were any."""
    outbox = state.outboxes.get(receiver)
    if outbox is None:
        return False
    waiting, before = outbox.unacknowledged, len(outbox.unacknowledged)
    while waiting and waiting[0].message_number <= through:
        state.unacknowledged_bytes -= size_of(waiting.popleft().message)
    return len(waiting) < before


def oldest_entry_time(state: PartitionState) -> int | None:
    """Return the log time of the oldest unacknowledged message with an index entry; None if there is none."""
    times = [
        next((relay.time for relay in outbox.unacknowledged if type(relay.message) is IndexEntry), None)
        for outbox in state.outboxes.values()
    ]
    return min((time for time in times if time is not None), default=None)


def size_of(message: Message) -> int:
    """Return the approximate size of a message, in memory and in a log."""
    if type(message) is IndexEntry:
        item = message.item
        return _MESSAGE_BYTES + len(message.pk) + len(message.sk) + (0 if item is None else len(item))
    return _MESSAGE_BYTES + len(encode_message(message))
