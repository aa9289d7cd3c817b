"""Read the log in a topic, for starts, snapshots and tools. Writers may be active."""

import hashlib
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import CorruptRecordError, KafkaError, LogTruncationError, OffsetOutOfRangeError

from ...model.errors import CorruptionError, LogError
from ..commands import Genesis, Record
from ..log import WholeHistory
from .client import Clients
from .messages import in_order, raw_record

FETCH_BYTES: Final = 32 << 20
PARTITION_FETCH_BYTES: Final = 8 << 20
END_TIMEOUT_MS: Final = 10_000
# A read fails after MAX_POLLS polls of POLL_MS without a record.
POLL_MS: Final = 1_000
MAX_POLLS: Final = 30
HASH_BYTES: Final = 16
_TIME_BYTES: Final = 8


class KafkaReader(WholeHistory):
    """Reads a topic that holds a log.

    Args:
        genesis: The first command of each partition.
    """

    def __init__(self, clients: Clients, genesis: Sequence[Genesis]) -> None:
        self._clients = clients
        self._topic = clients.address.topic
        self._genesis = genesis
        self._ends = clients.offsets_consumer()
        self._ends_lock = threading.Lock()  # a consumer is not thread-safe

    @property
    def log_id(self) -> bytes:
        """The random id of this log."""
        return self._genesis[0].log_id

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return len(self._genesis)

    def genesis(self, partition: int) -> Genesis:
        return self._genesis[partition]

    def end(self, partition: int) -> int:
        topic_partition = TopicPartition(self._topic, partition)
        try:
            with self._ends_lock:
                ends = self._ends.end_offsets([topic_partition], timeout_ms=END_TIMEOUT_MS)
            return int(ends[topic_partition])
        except (KafkaError, KeyError) as error:
            raise LogError(f"cannot fetch the log's end from Kafka ({type(error).__name__})") from None

    def read(self, partition: int, start: int = 0) -> Iterator[Record]:
        messages = self._messages(partition, start, self.end(partition))
        return (raw_record(message).record() for message in messages)

    def hash_of(self, partition: int, offset: int) -> bytes:
        """Return a hash of the record at an offset: its log time and its bytes, with the writer's id and number."""
        [message] = self._messages(partition, offset, offset + 1)
        time = message.timestamp.to_bytes(_TIME_BYTES, "big", signed=True)
        return hashlib.blake2b(time + message.value, digest_size=HASH_BYTES).digest()

    def close(self) -> None:
        self._ends.close()

    def _messages(self, partition: int, start: int, end: int) -> Iterator[Any]:
        if start >= end:
            return
        consumer = self._clients.consumer(
            fetch_max_bytes=FETCH_BYTES, max_partition_fetch_bytes=PARTITION_FETCH_BYTES
        )
        topic_partition = TopicPartition(self._topic, partition)
        try:
            consumer.assign([topic_partition])
            consumer.seek(topic_partition, start)
            while start < end:
                messages = _poll(consumer, topic_partition, start)[: end - start]
                yield from in_order(messages, start)
                start += len(messages)
        finally:
            # A read that is not finished when the interpreter ends: the client's thread has ended, and `close` would
            # wait for it without an end.
            if not sys.is_finalizing():
                consumer.close()


def _poll(consumer: KafkaConsumer, topic_partition: TopicPartition, start: int) -> list[Any]:
    """Return the next messages, at least one."""
    topic, partition = topic_partition
    for _ in range(MAX_POLLS):
        try:
            fetched = consumer.poll(timeout_ms=POLL_MS)
        except (OffsetOutOfRangeError, CorruptRecordError, LogTruncationError) as error:
            raise CorruptionError(
                f"{partition}:{start}",
                f"the topic {topic} does not hold this offset ({type(error).__name__})",
            ) from None
        except KafkaError as error:
            raise LogError(f"cannot read the topic {topic}: {error}") from None
        if fetched:
            return list(fetched[topic_partition])
    raise LogError(f"no broker serves partition {partition} of the topic {topic}")
