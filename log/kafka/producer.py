"""Puts entries into the topic, and does not rest before each is known to be there.

    append ──► producer ──► acknowledged ──► done(Appended)
                  ▲   └──► failed: there, or not? ──► the same entry again, until the owner knows ──┐
                  └─────────────────────────────────────────────────────────────────────────────────┘

The library repeats a batch by itself, with numbers by which brokers drop a second copy. It is not trusted to come to
an end: whoever waits too long is sent again by another producer, and a copy that this leaves is dropped by the fold.
Sending never blocks the owner's loop, and what the library's thread tells goes through `deliver`.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from kafka import KafkaProducer
from kafka.errors import KafkaError, MessageSizeTooLargeError

from ...model.errors import AppendUnknownError, LogError, LogFullError
from ..codec import encode_entry, head_of
from ..commands import Entry, Genesis
from ..log import Appended, Deliver, Done
from .client import Clients, end
from .genesis import begin

# A producer that does not get an entry acknowledged for so long is left. Brokers need less to agree on a new leader.
PATIENCE_SECONDS: Final = 5.0
# Where nothing may be sent by a second producer, because what follows is on its way already.
UNREPEATED_PATIENCE_SECONDS: Final = 120.0
WATCH_SECONDS: Final = 0.25
BACKOFF_SECONDS: Final = 0.02
BACKOFF_MAX_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 5.0

# No client's clock comes so low: with this as its time, a record was not given one by the broker.
_NO_TIME: Final = 0

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Append:
    partition: int
    origin: bytes
    head: bytes
    body: bytes
    done: Done
    sent: float
    producer: KafkaProducer = None
    failures: int = 0
    passed: bool = False  # its owner went on, and it is not sent again


class AppendProducer:
    """Appends to all partitions of a topic.

    Args:
        on_acknowledged: Told in the library's thread which offset of which partition was written.
        repeat: Whether an append whose fate is unknown is repeated, until it is known or a later one of its origin
            says so. Without, it is answered with an AppendUnknownError, and no copy ever gets behind a later one.
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
        self._patience = PATIENCE_SECONDS if repeat else UNREPEATED_PATIENCE_SECONDS
        self._latest: dict[tuple[int, bytes], _Append] = {}
        self._pending: set[_Append] = set()  # sent, or to be sent again
        self._changed = threading.Condition()
        self._closed = False
        self._over = threading.Event()
        self._producer = clients.producer()
        threading.Thread(target=self._watch, name="kafka-appends", daemon=True).start()

    def begin(self, partitions: int, first: Sequence[Entry]) -> list[Genesis]:
        """Give those partitions a Genesis that have none; see `beginning`. It blocks."""
        return begin(self._clients, self._producer, partitions, first)

    def append(self, partition: int, entry: Entry, done: Done) -> None:
        """Send the entry; on the owner's loop."""
        # When it was sent is known before it is pending: or whoever looks in between finds it long overdue.
        head, body, now = head_of(entry), encode_entry(entry), time.monotonic()
        append = _Append(partition, entry.origin, head, body, done, now)
        if self._closed:
            self._deliver(lambda: done(LogError("the log is closed")))
            return
        if self._repeat:
            before = self._latest.get((partition, entry.origin))
            if before is not None:
                before.passed = True
            self._latest[partition, entry.origin] = append
        with self._changed:
            self._pending.add(append)
        self._send(append)

    def close(self) -> None:
        """Wait for what is under way, for a while; then answer it all the same, and send nothing more."""
        self._closed = True
        with self._changed:
            self._changed.wait_for(lambda: not self._pending, CLOSE_SECONDS)
            left, self._pending = self._pending, set()
        self._over.set()
        end(self._producer)
        for append in left:
            self._answer(append, AppendUnknownError("the log was closed before Kafka answered"))

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
            # The partition is not known for now, or the producer was left.
            self._failed(append, append.producer, error)
            return
        future.add_callback(self._acknowledged, append)
        future.add_errback(self._failed, append, append.producer)

    def _acknowledged(self, append: _Append, written: Any) -> None:
        """In the library's thread."""
        known = written.offset >= 0 and written.timestamp != _NO_TIME
        offset = written.offset if known else -1
        if known:
            self._on_acknowledged(append.partition, offset)
        self._settle(append, Appended(append.partition, offset, written.timestamp, append.body))

    def _failed(self, append: _Append, producer: KafkaProducer, error: Exception) -> None:
        """In the library's thread, or on the loop."""
        if append not in self._pending or append.producer is not producer:
            return
        if isinstance(error, MessageSizeTooLargeError):
            self._settle(append, LogFullError(f"the topic takes no entry of {len(append.body)} bytes"))
        elif append.passed or not self._repeat:
            self._settle(append, AppendUnknownError(f"Kafka did not acknowledge an entry: {error}"))
        else:
            append.failures += 1
            logger.warning("partition %d: an entry was not acknowledged: %s", append.partition, error)
            delay = min(BACKOFF_SECONDS * 2**append.failures, BACKOFF_MAX_SECONDS)
            append.sent = time.monotonic() - PATIENCE_SECONDS + delay

    def _watch(self) -> None:
        """In a thread: leave a producer that does not come to an end."""
        while not self._over.wait(WATCH_SECONDS):
            try:
                if self._is_late():
                    self._renew()
            except Exception as error:  # whatever it is, the next look may find it gone
                logger.warning("%s: no producer: %s", self._topic, error)

    def _is_late(self) -> bool:
        """Whether something was sent so long ago that it should be acknowledged."""
        late = time.monotonic() - self._patience
        return any(append.sent < late for append in list(self._pending))

    def _renew(self) -> None:
        """Send what is under way by another producer, in whatever state this one is."""
        if not self._repeat:
            for append in list(self._pending):
                self._settle(append, AppendUnknownError("Kafka does not acknowledge an entry"))
            return
        logger.warning("%s: an entry is not acknowledged, it is sent again by another producer", self._topic)
        left, self._producer = self._producer, self._clients.producer()
        end(left)
        for append in list(self._pending):
            if append.passed:
                self._settle(append, AppendUnknownError("its owner went on"))
            elif append.producer is not self._producer:
                self._send(append)

    def _settle(self, append: _Append, result: Appended | LogError) -> None:
        """It needs no more repeating; tell its owner, who may know already."""
        with self._changed:
            if append not in self._pending:
                return
            self._pending.remove(append)
            self._changed.notify_all()
        self._answer(append, result)

    def _answer(self, append: _Append, result: Appended | LogError) -> None:
        def answer() -> None:
            if self._latest.get((append.partition, append.origin)) is append:
                del self._latest[append.partition, append.origin]
            if not append.passed or isinstance(result, Appended):
                append.done(result)

        with suppress(RuntimeError):  # the owner's loop is closed
            self._deliver(answer)
