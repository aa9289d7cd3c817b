"""A sink that writes messages to topics of Kafka; kafka.py and kinesis.py make the messages.

    write ──► all are sent ──► each is acknowledged ──► returns
                          └──► one fails ──► the producer is closed, and TopicError is raised

A producer keeps the order of the messages of one topic partition, also when it retries: brokers drop duplicates by the
producer's sequence numbers. It never drops a message by itself. So a topic holds a prefix of the messages that were
sent. A failed producer is closed with all messages in flight, because messages after a gap would be out of order. The
next producer may send some of them again; duplicates have the same sequence number.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import Any, Final, NamedTuple, TypeVar, cast

import orjson
from kafka import KafkaProducer
from kafka.errors import KafkaError, MessageSizeTooLargeError, TopicAlreadyExistsError

from ...log.kafka import Clients, KafkaAddress, Security
from ...log.kafka.client import MESSAGE_BYTES, close_now
from ...log.kafka.topic import REPLICAS
from ...model.errors import LogError, ValidationError
from ..formats.table_view import Delivery, event_id, operation
from .sink import Batch, ConfiguredSink, DeliveryResult, Failure, PartialFailure, SinkContext, Success

AT_ONCE_BYTES: Final = 4 << 20
"""The bytes that one call sends before it waits for acknowledgements."""
LINGER_MS: Final = 2
_CREATE_MS: Final = 20_000

Headers = list[tuple[str, bytes]]
T = TypeVar("T")


class TopicMessage(NamedTuple):
    """A message for a topic; `time_ms` is its timestamp."""

    topic: str
    key: bytes
    value: bytes
    headers: Headers
    time_ms: int


class TopicError(Exception):
    """Some messages may not have been written.

    Attributes:
        refused: The index of a message that brokers can never accept; all messages before it are written. None if the
            message at fault is unknown: brokers accept and refuse messages in batches.
    """

    def __init__(self, reason: str, refused: int | None = None) -> None:
        super().__init__(reason)
        self.refused = refused


class TopicSink(ConfiguredSink):
    """Writes the message that `message` returns for each change of a batch."""

    def __init__(
        self,
        settings: dict[str, Any],
        context: SinkContext,
        message: Callable[..., TopicMessage],
        partitions: int,
    ) -> None:
        super().__init__(settings)
        if context.destinations is None:
            raise ValidationError(
                "no brokers to write to: `foldb serve --kafka-sink kafka://HOST:PORT/PREFIX`"
            )
        address = KafkaAddress.of(context.destinations)
        security = Security.read(context.kafka, context.kafka_variables)
        self._prefix = address.namespace
        self._topics = Topics(address, security, partitions)
        self._message = message
        self._timeout_s = context.timeout_s
        self._loop = context.loop

    async def start(self) -> None:
        await _in_daemon_thread(self._loop, self._topics.open)

    async def deliver(self, batch: Batch) -> DeliveryResult:
        """Write the batch in a thread: neither encoding nor brokers block the loop."""
        return await _in_daemon_thread(self._loop, lambda: self._write(batch))

    async def close(self) -> None:
        await _in_daemon_thread(self._loop, self._topics.close)

    def _write(self, batch: Batch) -> DeliveryResult:
        messages = [self._message(self._prefix, delivery, replay=batch.replay) for delivery in batch.changes]
        try:
            self._topics.write(messages, self._timeout_s)
        except TopicError as error:
            if error.refused is None:
                return Failure(str(error))
            refused = batch.changes[error.refused]
            return PartialFailure(refused.partition, refused.change.sequence_number, str(error))
        except LogError as error:
            return Failure(str(error))
        return Success()


def key(delivery: Delivery) -> bytes:
    """Return a message's key, by which all changes of an item are in one partition of a topic."""
    change, table = delivery.change, delivery.table
    return table.key.write(change.pk, change.sk)


def headers(delivery: Delivery, *, replay: bool) -> Headers:
    """Return the headers of a message, which identify the change in every format of the value."""
    change = delivery.change
    pairs = [
        ("id", event_id(delivery).encode()),
        ("number", b"%d" % delivery.sequence_number),
        ("position", delivery.position.encode()),
        ("table", delivery.table.name.encode()),
        ("op", operation(change).encode()),
    ]
    if change.tx is not None:
        pairs.append(("tx", orjson.dumps(change.tx._asdict())))
    if replay:
        pairs.append(("replay", b"true"))
    return pairs


async def _in_daemon_thread(loop: asyncio.AbstractEventLoop, work: Callable[[], T]) -> T:
    """Return the result of `work`, or raise its error. Cancelling the call does not stop `work`.

    The process does not wait for a daemon thread when it exits, as it would for a thread of a standard pool: a broker
    that is down may block for long.
    """
    future: asyncio.Future[T] = loop.create_future()

    def resolve(result: T | None, error: Exception | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(cast(T, result))
        else:
            future.set_exception(error)

    def run() -> None:
        result, failure = None, None
        try:
            result = work()
        except Exception as error:  # the caller handles every error
            failure = error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(resolve, result, failure)

    threading.Thread(target=run, name="sink", daemon=True).start()
    return await future


class Topics:
    """Writes to topics of one namespace. Threads may write concurrently.

    Args:
        partitions: The number of partitions of topics that this creates.
    """

    def __init__(self, address: KafkaAddress, security: Security, partitions: int) -> None:
        self._clients = Clients(address, security)
        self._partitions = partitions
        self._lock = threading.Lock()
        self._existing: set[str] = set()
        self._producer: KafkaProducer | None = None
        self._closed = False

    def open(self) -> None:
        """Connect to the brokers.

        Raises:
            LogError: No broker can be used.
        """
        self._connect()

    def write(self, messages: Sequence[TopicMessage], timeout_s: float) -> None:
        """Return when all messages are in their topics. `timeout_s` limits the acknowledgement of each part.

        Raises:
            TopicError: A message may not have been written.
            LogError: No broker can be used.
        """
        begin, size = 0, 0
        for index, message in enumerate(messages):
            size += len(message.value)
            if size > AT_ONCE_BYTES:
                self._write(messages, begin, index + 1, timeout_s)
                begin, size = index + 1, 0
        self._write(messages, begin, len(messages), timeout_s)

    def close(self) -> None:
        """Disconnect; writes in progress fail."""
        self._closed = True
        if self._producer is not None:
            close_now(self._producer)

    def _write(self, messages: Sequence[TopicMessage], begin: int, stop: int, timeout_s: float) -> None:
        producer = self._connect()
        sent: list[Any] = []
        refused: KafkaError | ValueError | None = None
        for message in messages[begin:stop]:
            try:
                sent.append(self._send(producer, message))
            except (KafkaError, ValueError) as error:
                refused = error
                break
        until = time.monotonic() + timeout_s
        for index, future in enumerate(sent, begin):
            try:
                future.get(timeout=max(until - time.monotonic(), 0.001))
            except KafkaError as error:
                self._discard(producer)
                raise TopicError(_refusal(messages[index], error)) from None
        if refused is not None:
            self._discard(producer)
            index = begin + len(sent)
            is_permanent = isinstance(refused, MessageSizeTooLargeError)
            raise TopicError(_refusal(messages[index], refused), index if is_permanent else None)

    def _send(self, producer: KafkaProducer, message: TopicMessage) -> Any:
        self._ensure(message.topic)
        topic, key, value, headers, time_ms = message
        return producer.send(topic, value, key, headers, timestamp_ms=time_ms)

    def _connect(self) -> KafkaProducer:
        with self._lock:
            if self._closed:
                raise TopicError("the sink was closed")
            if self._producer is None:
                self._producer = self._clients.producer_for_any(LINGER_MS)
                if self._closed:  # by another thread, while the producer was created
                    close_now(self._producer)
            return self._producer

    def _discard(self, producer: KafkaProducer | None) -> None:
        with self._lock:
            if producer is None or producer is not self._producer:
                return  # another thread discarded it
            self._producer = None
            self._existing.clear()
        close_now(producer)

    def _ensure(self, topic: str) -> None:
        """Create a topic that does not exist; another process may create it first."""
        if topic in self._existing:
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
                    admin.create_topics({topic: options}, timeout_ms=_CREATE_MS)
                admin.wait_for_topics([topic])
        self._existing.add(topic)


def _refusal(message: TopicMessage, error: Exception) -> str:
    return (
        f"Kafka did not take {len(message.value)} bytes for {message.topic}: {error or type(error).__name__}"
    )
