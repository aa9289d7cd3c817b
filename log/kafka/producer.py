"""Append entries to the topic, and retry until each is known to be there.

    append ──► producer ──► acknowledged ──► callback(Appended)
                  ▲   └──► failed: written or not? ──► the same entry again, until one copy is known ──┐
                  └───────────────────────────────────────────────────────────────────────────────────┘

The library retries a batch with sequence numbers by which brokers drop a second copy. Its retries may never end, so
an overdue entry is sent again by another producer. If that leaves two copies, the fold drops the second. Sending
never blocks the owner's loop, and callbacks from the library's thread go through `deliver`.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from kafka import KafkaProducer
from kafka.errors import KafkaError, MessageSizeTooLargeError

from ...model.errors import AppendUnknownError, LogError, LogFullError
from ...model.lazy_dataclass import dataclass
from ..codec import message_parts
from ..commands import Entry, Genesis
from ..log import AppendCallback, Appended, Deliver
from .client import Clients, close_now
from .genesis import begin

# A producer with an entry unacknowledged for this long is replaced. Brokers elect a new leader in less time.
ACK_TIMEOUT_SECONDS: Final = 5.0
# The same without repetition: no second producer may send the entry, because later entries are in flight already.
UNREPEATED_ACK_TIMEOUT_SECONDS: Final = 120.0
WATCH_SECONDS: Final = 0.25
BACKOFF_SECONDS: Final = 0.02
BACKOFF_MAX_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 5.0

# The timestamp of every sent message. A record that keeps it was not given a timestamp by the broker.
_NO_TIME: Final = 0

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Append:
    partition: int
    origin: bytes
    head: bytes
    body: bytes
    callback: AppendCallback
    sent: float
    producer: KafkaProducer = None
    failures: int = 0
    superseded: bool = False  # its owner sent a later entry, so this one is not repeated


class AppendProducer:
    """Appends to all partitions of a topic.

    Args:
        on_acknowledged: Called in the library's thread with the partition and offset of each written entry.
        repeat: Whether to repeat an append whose result is unknown, until a copy is known to be in the log or its
            origin appends a later entry. Without it such an append ends with an AppendUnknownError, and no copy
            ever follows a later entry.
    """

    def __init__(
        self,
        clients: Clients,
        deliver: Deliver,
        on_acknowledged: Callable[[int, int], None],
        *,
        repeat: bool = True,
    ) -> None:
        self._clients = clients
        self._topic = clients.address.topic
        self._deliver = deliver
        self._on_acknowledged = on_acknowledged
        self._repeat = repeat
        self._ack_timeout = ACK_TIMEOUT_SECONDS if repeat else UNREPEATED_ACK_TIMEOUT_SECONDS
        self._latest: dict[tuple[int, bytes], _Append] = {}
        self._pending: set[_Append] = set()  # in flight, or waiting for a retry
        self._changed = threading.Condition()
        self._closed = False
        self._over = threading.Event()
        self._producer = clients.producer()
        threading.Thread(target=self._watch, name="kafka-appends", daemon=True).start()

    def begin(self, partitions: int, first: Sequence[Entry]) -> list[Genesis]:
        """Write a Genesis to each empty partition; see genesis.py. Blocks."""
        return begin(self._clients, self._producer, partitions, first)

    def append(self, partition: int, entry: Entry, callback: AppendCallback) -> None:
        """Send an entry. Called on the owner's loop."""
        # `sent` is set before the append is pending, or the watching thread could find it overdue.
        now = time.monotonic()
        append = _Append(partition, entry.origin, *message_parts(entry), callback, now)
        if self._closed:
            self._deliver(lambda: callback(LogError("the log is closed")))
            return
        if self._repeat:
            before = self._latest.get((partition, entry.origin))
            if before is not None:
                before.superseded = True
            self._latest[partition, entry.origin] = append
        with self._changed:
            self._pending.add(append)
        self._send(append)

    def close(self) -> None:
        """Wait at most CLOSE_SECONDS for appends in flight; the others end with AppendUnknownError."""
        self._closed = True
        with self._changed:
            self._changed.wait_for(lambda: not self._pending, CLOSE_SECONDS)
            left, self._pending = self._pending, set()
        self._over.set()
        close_now(self._producer)
        for append in left:
            self._complete(
                append, AppendUnknownError("the log was closed before Kafka acknowledged the entry")
            )

    def _send(self, append: _Append) -> None:
        append.producer, append.sent = self._producer, time.monotonic()
        try:
            future = append.producer.send(
                self._topic,
                append.head + append.body,
                partition=append.partition,
                timestamp_ms=_NO_TIME,
            )
        except (KafkaError, ValueError) as error:
            # The partition's metadata is missing, or the producer was replaced.
            self._failed(append, append.producer, error)
            return
        future.add_callback(self._acknowledged, append)
        future.add_errback(self._failed, append, append.producer)

    def _acknowledged(self, append: _Append, written: Any) -> None:
        """Handle an acknowledgement, in the library's thread."""
        known = written.offset >= 0 and written.timestamp != _NO_TIME
        offset = written.offset if known else -1
        if known:
            self._on_acknowledged(append.partition, offset)
        self._settle(append, Appended(append.partition, offset, written.timestamp, append.body))

    def _failed(self, append: _Append, producer: KafkaProducer, error: Exception) -> None:
        """Handle a failed send, in the library's thread or on the loop."""
        if append not in self._pending or append.producer is not producer:
            return
        if isinstance(error, MessageSizeTooLargeError):
            self._settle(
                append, LogFullError(f"an entry of {len(append.body)} bytes is larger than the topic accepts")
            )
        elif append.superseded or not self._repeat:
            self._settle(append, AppendUnknownError(f"Kafka did not acknowledge an entry: {error}"))
        else:
            append.failures += 1
            logger.warning(
                "an entry of partition %d was not acknowledged: %s; it is sent again", append.partition, error
            )
            delay = min(BACKOFF_SECONDS * 2**append.failures, BACKOFF_MAX_SECONDS)
            append.sent = time.monotonic() - ACK_TIMEOUT_SECONDS + delay

    def _watch(self) -> None:
        """Replace a producer with an overdue entry. Runs in a thread."""
        while not self._over.wait(WATCH_SECONDS):
            try:
                if self._is_late():
                    self._renew()
            except Exception as error:  # the next round may succeed
                logger.warning(
                    "cannot create a producer for the topic %s: %s; the next attempt is in %g s",
                    self._topic,
                    error,
                    WATCH_SECONDS,
                )

    def _is_late(self) -> bool:
        """Return whether an append in flight is older than the acknowledgement timeout."""
        late = time.monotonic() - self._ack_timeout
        return any(append.sent < late for append in list(self._pending))

    def _renew(self) -> None:
        """Send all pending appends by a new producer, and close the old one in any state."""
        if not self._repeat:
            for append in list(self._pending):
                self._settle(append, AppendUnknownError("Kafka does not acknowledge an entry"))
            return
        logger.warning(
            "an entry for the topic %s is not acknowledged in time; a new producer sends it again",
            self._topic,
        )
        old, self._producer = self._producer, self._clients.producer()
        close_now(old)
        for append in list(self._pending):
            if append.superseded:
                self._settle(append, AppendUnknownError("a later entry of its origin was sent"))
            elif append.producer is not self._producer:
                self._send(append)

    def _settle(self, append: _Append, result: Appended | LogError) -> None:
        """End the repetition of an append and call its callback."""
        with self._changed:
            if append not in self._pending:
                return
            self._pending.remove(append)
            self._changed.notify_all()
        self._complete(append, result)

    def _complete(self, append: _Append, result: Appended | LogError) -> None:
        def complete() -> None:
            if self._latest.get((append.partition, append.origin)) is append:
                del self._latest[append.partition, append.origin]
            if not append.superseded or isinstance(result, Appended):
                append.callback(result)

        with suppress(RuntimeError):  # the owner's loop is closed
            self._deliver(complete)
