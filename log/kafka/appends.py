"""Puts entries into the topic, and does not rest before each is known to be there.

    append ──► producer ──► acknowledged ──► done(Appended)
                  ▲   └──► failed: there, or not? ──► the same entry again, until the owner knows ──┐
                  └─────────────────────────────────────────────────────────────────────────────────┘

The library repeats a batch by itself, with numbers by which brokers drop a second copy. What fails here has outlived
that; a further copy of it is dropped by the fold. Sending never blocks the owner's loop, and what the library's thread
tells goes through `deliver`.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka import KafkaProducer
from kafka.errors import KafkaError, MessageSizeTooLargeError

from ...model.errors import AppendUnknownError, LogError, LogFullError
from ..codec import encode_entry
from ..commands import Entry, Genesis
from ..log import Appended, Deliver, Done
from .beginning import begin
from .client import Clients
from .messages import HEAD

# As long as the library repeats a batch. Then it, and with it whatever state its producer got into, is left.
DELIVERY_TIMEOUT_MS: Final = 10_000
ATTEMPTS_PER_PRODUCER: Final = 2
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
    body: bytes
    done: Done
    attempts: int = 0
    settled: bool = False


class Appends:
    """Appends to all partitions of a topic.

    Args:
        on_acknowledged: Told in the library's thread which offset of which partition was written.
        repeat: Whether an append whose fate is unknown is repeated, and a later one of its origin settles it. Without,
            it is answered with an AppendUnknownError, and many may be under way in order.
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
        self._latest: dict[tuple[int, bytes], _Append] = {}
        self._renewing = threading.Lock()
        self._pending: set[_Append] = set()  # sent, or to be sent again
        self._changed = threading.Condition()
        self._closed = False
        self._producer = self._new_producer()

    def begin(self, partitions: int, first: Sequence[Entry]) -> list[Genesis]:
        """Give those partitions a Genesis that have none; see `beginning`. It blocks."""
        return begin(self._clients, self._producer, partitions, first)

    def append(self, partition: int, entry: Entry, done: Done) -> None:
        """Send the entry; on the owner's loop."""
        append = _Append(partition, entry.origin, encode_entry(entry), done)
        if self._closed:
            self._deliver(lambda: done(LogError("the log is closed")))
            return
        if self._repeat:
            before = self._latest.get((partition, entry.origin))
            if before is not None and not before.settled:
                self._forget(before)
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
        self._producer.close(timeout=0)
        for append in left:
            self._answer(append, AppendUnknownError("the log was closed before Kafka answered"))

    def _send(self, append: _Append) -> None:
        producer = self._producer
        try:
            future = producer.send(
                self._topic, HEAD + append.body, partition=append.partition, timestamp_ms=_NO_TIME
            )
        except (KafkaError, ValueError) as error:  # the partition is not known, for now
            self._failed(append, producer, error)
            return
        future.add_callback(self._acknowledged, append)
        future.add_errback(self._failed, append, producer)

    def _acknowledged(self, append: _Append, written: Any) -> None:
        """In the library's thread."""
        known = written.timestamp != _NO_TIME
        offset = written.offset if known else -1
        if known:
            self._on_acknowledged(append.partition, offset)
        self._settle(append, Appended(append.partition, offset, written.timestamp, append.body))

    def _failed(self, append: _Append, producer: KafkaProducer, error: Exception) -> None:
        """In the library's thread, or in a timer's."""
        if isinstance(error, MessageSizeTooLargeError):
            self._settle(append, LogFullError(f"the topic takes no entry of {len(append.body)} bytes"))
        elif append.settled or not self._repeat:
            self._settle(append, AppendUnknownError(f"Kafka did not acknowledge an entry: {error}"))
        else:
            append.attempts += 1
            logger.warning(
                "partition %d: Kafka did not acknowledge an entry (%s), it is sent again",
                append.partition,
                type(error).__name__,
            )
            delay = min(BACKOFF_SECONDS * 2**append.attempts, BACKOFF_MAX_SECONDS)
            timer = threading.Timer(delay, self._send_again, [append, producer])
            timer.daemon = True
            timer.start()

    def _send_again(self, append: _Append, producer: KafkaProducer) -> None:
        if append not in self._pending:
            return
        if append.attempts % ATTEMPTS_PER_PRODUCER == 0:
            self._renew(producer)
        self._send(append)

    def _renew(self, used: KafkaProducer) -> None:
        """Begin anew with another producer: one that failed so often may not come out of it."""
        with self._renewing:
            if self._producer is not used:
                return
            try:
                self._producer = self._new_producer()
            except LogError as error:
                logger.warning("%s", error)
                return
        used.close(timeout=0)

    def _new_producer(self) -> KafkaProducer:
        timeout = DELIVERY_TIMEOUT_MS if self._repeat else 12 * DELIVERY_TIMEOUT_MS
        return self._clients.producer(delivery_timeout_ms=timeout)

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
            if not append.settled:
                self._forget(append)
                append.done(result)

        self._deliver(answer)

    def _forget(self, append: _Append) -> None:
        append.settled = True
        if self._latest.get((append.partition, append.origin)) is append:
            del self._latest[append.partition, append.origin]
