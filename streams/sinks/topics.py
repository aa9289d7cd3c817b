"""Messages into topics of Kafka, each known to stand there before the next call: what runs in a thread of a sink's own.

    write ──► all are sent ──► each is acknowledged ──► returns
                          └──► one is not ──► the producer is left, and TopicError is raised

A producer keeps the order of what it is given for one partition of a topic, also when it repeats (brokers drop a second
copy by the numbers that it gives out), and gives up nothing by itself. So what stands in a topic is a beginning of what
was sent. A producer that fails is left, with all that it has under way, because what went on after a gap would be
out of order. What the next one sends again can come twice, and its number tells.
"""

import re
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Any, Final, NamedTuple

from kafka import KafkaProducer
from kafka.errors import KafkaError, MessageSizeTooLargeError, TopicAlreadyExistsError

from ...log.kafka import Address, Clients, Security
from ...log.kafka.client import MESSAGE_BYTES, close_now
from ...log.kafka.topic import REPLICAS

NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")
AT_ONCE_BYTES: Final = 4 << 20
"""Of one call so much is sent before its acknowledgements are waited for."""
LINGER_MS: Final = 2
_MAKE_MS: Final = 20_000

Headers = list[tuple[str, bytes]]


class Message(NamedTuple):
    """What goes into a topic; `time_ms` is what Kafka shows as its time."""

    topic: str
    key: bytes
    value: bytes
    headers: Headers
    time_ms: int


class TopicError(Exception):
    """Not all of them are known to be there.

    Attributes:
        refused: The place of one that can never be taken, with all before it there. None where nobody knows which it
            is: brokers take and refuse messages in batches.
    """

    def __init__(self, why: str, refused: int | None = None) -> None:
        super().__init__(why)
        self.refused = refused


class Topics:
    """Writes to topics of one namespace. Several threads may, each waiting for its own.

    Args:
        partitions: Of topics that are made.
    """

    def __init__(self, address: Address, security: Security, partitions: int) -> None:
        self._clients = Clients(address, security)
        self._partitions = partitions
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._producer: KafkaProducer | None = None
        self._closed = False

    def open(self) -> None:
        """Reach the brokers.

        Raises:
            LogError: None answers as it should.
        """
        self._connected()

    def write(self, messages: Sequence[Message], timeout_s: float) -> None:
        """Return when all of them stand in their topics; a part that is sent at once has so long to be acknowledged.

        Raises:
            TopicError: One is not known to.
            LogError: No broker answers.
        """
        begin, size = 0, 0
        for place, message in enumerate(messages):
            size += len(message.value)
            if size > AT_ONCE_BYTES:
                self._write(messages, begin, place + 1, timeout_s)
                begin, size = place + 1, 0
        self._write(messages, begin, len(messages), timeout_s)

    def close(self) -> None:
        """Leave the brokers; what is under way fails."""
        self._closed = True
        if self._producer is not None:
            close_now(self._producer)

    def _write(self, messages: Sequence[Message], begin: int, stop: int, timeout_s: float) -> None:
        producer = self._connected()
        sent: list[Any] = []
        refused: KafkaError | ValueError | None = None
        for message in messages[begin:stop]:
            try:
                sent.append(self._send(producer, message))
            except (KafkaError, ValueError) as error:
                refused = error
                break
        until = time.monotonic() + timeout_s
        for place, future in enumerate(sent, begin):
            try:
                future.get(timeout=max(until - time.monotonic(), 0.001))
            except KafkaError as error:
                self._leave(producer)
                raise TopicError(_why(messages[place], error)) from None
        if refused is not None:
            self._leave(producer)
            place = begin + len(sent)
            is_sure = isinstance(refused, MessageSizeTooLargeError)
            raise TopicError(_why(messages[place], refused), place if is_sure else None)

    def _send(self, producer: KafkaProducer, message: Message) -> Any:
        self._ensure(message.topic)
        topic, key, value, headers, time_ms = message
        return producer.send(topic, value, key, headers, timestamp_ms=time_ms)

    def _connected(self) -> KafkaProducer:
        with self._lock:
            if self._closed:
                raise TopicError("the sink was closed")
            if self._producer is None:
                self._producer = self._clients.producer_for_any(LINGER_MS)
                if self._closed:  # meanwhile, and it did not see this one
                    close_now(self._producer)
            return self._producer

    def _leave(self, producer: KafkaProducer | None) -> None:
        with self._lock:
            if producer is None or producer is not self._producer:
                return  # another thread left it
            self._producer = None
            self._known.clear()
        close_now(producer)

    def _ensure(self, topic: str) -> None:
        """See that the topic is there, once; another may be quicker to make it."""
        if topic in self._known:
            return
        with closing(self._clients.admin()) as admin:
            [description] = admin.describe_topics([topic])
            if description["error_code"] or not description["partitions"]:
                replicas = min(REPLICAS, len(admin.describe_cluster()["brokers"]))
                settings = {
                    "max.message.bytes": str(MESSAGE_BYTES),
                    "min.insync.replicas": "2" if replicas >= REPLICAS else "1",
                }
                options = {
                    "num_partitions": self._partitions,
                    "replication_factor": replicas,
                    "configs": settings,
                }
                with suppress(TopicAlreadyExistsError):
                    admin.create_topics({topic: options}, timeout_ms=_MAKE_MS)
                admin.wait_for_topics([topic])
        self._known.add(topic)


def _why(message: Message, error: Exception) -> str:
    return (
        f"Kafka did not take {len(message.value)} bytes for {message.topic}: {error or type(error).__name__}"
    )
