"""Sends a partition's messages to their receivers, and records acknowledgements.

    outbox in the state ──► Relay ──► the receiver's log ──► MessageFolded ──► RelayAck ──► own log: removed
         ▲                                   │
         └── after any doubt: again, from the oldest unacknowledged message

The fold orders messages and counts each once (fold/outbox.py, fold/messages.py). So a message that is sent twice, by
two owners or by one in doubt, is harmless, and a message that is not sent remains for the next owner. Only the
messages in flight are remembered here.
"""

from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Final

from ...log.commands import Relay, RelayAck
from ..fold.outbox import size_of
from ..fold.outcomes import Completed, MessageFolded, Outcome
from ..fold.state import Outbox, PartitionState
from ..partition import Partition, ResultPosition
from ..worker import Cancellable, Scheduler
from .timers import Proposer

# The limits of messages in flight to one receiver. Acknowledgements make room.
WINDOW_MESSAGES: Final = 512
WINDOW_BYTES: Final = 1024 * 1024

# The pause after a doubt; it doubles with each further one.
RETRY_SECONDS: Final = 0.05
RETRY_SECONDS_MAX: Final = 2.0

_RELAY_BYTES: Final = 32
_ACK_BYTES: Final = 32


class Relays:
    """Sends all messages of one partition.

    Args:
        own: The sender, which receives acknowledgements.
        state: The sender's state.
        partitions: All partitions, by id; looked up at each send.
    """

    def __init__(
        self,
        own: Proposer,
        state: PartitionState,
        partitions: Sequence[Partition],
        scheduler: Scheduler,
    ) -> None:
        self._state = state
        self._make_queue = partial(ReceiverQueue, own, partitions, scheduler)
        self._queues: dict[int, ReceiverQueue] = {}

    def send(self) -> None:
        """Send the new messages."""
        if not self._state.unacknowledged_bytes:
            return
        for receiver, outbox in self._state.outboxes.items():
            if outbox.unacknowledged:
                queue = self._queues.get(receiver)
                if queue is None:
                    queue = self._queues[receiver] = self._make_queue(receiver, outbox)
                queue.send()

    def close(self) -> None:
        for queue in self._queues.values():
            queue.close()


class ReceiverQueue:
    """The messages to one receiver.

    `_through` is the last message known to be folded by the receiver. Later messages that were sent are in flight.
    """

    def __init__(
        self,
        own: Proposer,
        partitions: Sequence[Partition],
        scheduler: Scheduler,
        receiver: int,
        outbox: Outbox,
    ) -> None:
        self._own = own
        self._partitions = partitions
        self._receiver = receiver
        self._outbox = outbox
        self._scheduler = scheduler
        self._acknowledged_through = -1
        self._time = 0
        self._next = 0  # number of the next message to send
        self._in_flight: deque[tuple[int, int]] = deque()  # number and size
        self._bytes = 0
        self._attempt = 0  # messages sent before the last doubt belong to an earlier attempt
        self._pause = RETRY_SECONDS
        self._timer: Cancellable | None = None  # while it is set nothing is sent
        self._acknowledging = False
        self._closed = False

    def send(self) -> None:
        """Send messages, up to the limits."""
        if self._timer is None and not self._closed:
            self._acknowledge()  # messages of another owner may be acknowledged in this state only now
        if self._next >= self._outbox.next_message_number or self._timer is not None or self._closed:
            return
        attempt = self._attempt
        for relay, size in self._ready():
            self._next = relay.message_number + 1
            self._in_flight.append((relay.message_number, size))
            self._bytes += size
            self._partitions[self._receiver].submit(
                relay, size, partial(self._answered, attempt, relay.message_number)
            )
            if attempt != self._attempt:
                return

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _ready(self) -> list[tuple[Relay, int]]:
        """Return the next messages that fit the limits, with their sizes."""
        waiting = self._outbox.unacknowledged
        if not waiting:
            return []
        self._next = max(self._next, waiting[0].message_number)
        room, size = WINDOW_MESSAGES - len(self._in_flight), self._bytes
        start = self._next - waiting[0].message_number
        ready: list[tuple[Relay, int]] = []
        for relay in islice(waiting, start, start + max(0, room)):
            if size >= WINDOW_BYTES:
                break
            relay_size = size_of(relay.message) + _RELAY_BYTES
            size += relay_size
            ready.append((relay, relay_size))
        return ready

    def _answered(self, attempt: int, message_number: int, outcome: Outcome, _: ResultPosition) -> None:
        if self._closed:
            return
        if isinstance(outcome, MessageFolded):
            self._record_progress(outcome.through_message, outcome.time)
            if outcome.through_message >= message_number:
                self._pause = RETRY_SECONDS
                self.send()
                return
        if attempt == self._attempt:
            self._retry_later()

    def _record_progress(self, through_message: int, time: int) -> None:
        """Record that the receiver has folded all messages up to number `through`, and its log time."""
        self._acknowledged_through = max(self._acknowledged_through, through_message)
        self._time = max(self._time, time)
        self._next = max(self._next, self._acknowledged_through + 1)
        while self._in_flight and self._in_flight[0][0] <= self._acknowledged_through:
            self._bytes -= self._in_flight.popleft()[1]
        self._acknowledge()

    def _retry_later(self) -> None:
        """Forget the messages in flight, and send them again after a pause."""
        self._attempt += 1
        self._in_flight.clear()
        self._bytes = 0
        self._next = self._acknowledged_through + 1
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._scheduler.call_later(self._pause, self._resume)
        self._pause = min(self._pause * 2, RETRY_SECONDS_MAX)

    def _resume(self) -> None:
        self._timer = None
        self.send()

    def _acknowledge(self) -> None:
        """Append the acknowledgement to the own log, one command at a time."""
        waiting = self._outbox.unacknowledged
        if self._acknowledging or not waiting or waiting[0].message_number > self._acknowledged_through:
            return
        self._acknowledging = True
        command = RelayAck(self._receiver, self._acknowledged_through, self._time)
        self._own.submit(command, _ACK_BYTES, self._acknowledged)

    def _acknowledged(self, outcome: Outcome, _: ResultPosition) -> None:
        self._acknowledging = False
        if self._closed:
            return
        if isinstance(outcome, Completed):
            self._acknowledge()
        elif self._timer is None:
            self._timer = self._scheduler.call_later(self._pause, self._resume)
