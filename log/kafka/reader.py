"""The log in a topic as it may be read, beside its writers or without any: for a start, for snapshots, for tools."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import CorruptRecordError, KafkaError, LogTruncationError, OffsetOutOfRangeError

from ...model.errors import CorruptionError, LogError
from ..commands import Genesis, Record
from .client import Clients
from .messages import heard, in_order

FETCH_BYTES: Final = 32 << 20
PARTITION_FETCH_BYTES: Final = 8 << 20
END_TIMEOUT_MS: Final = 10_000
# Without a sign of life for so long a read gives up.
POLL_MS: Final = 1_000
PATIENCE_POLLS: Final = 30
HASH_BYTES: Final = 16


class KafkaReader:
    """Reads a topic that holds a log.

    Args:
        genesis: The first command of each partition.
    """

    def __init__(self, clients: Clients, genesis: Sequence[Genesis]) -> None:
        self._clients = clients
        self._topic = clients.address.topic
        self._genesis = genesis
        self._ends = clients.asker()

    @property
    def log_id(self) -> bytes:
        """What tells this log from any other."""
        return self._genesis[0].log_id

    @property
    def partitions(self) -> int:
        """How many there are."""
        return len(self._genesis)

    def genesis(self, partition: int) -> Genesis:
        """The partition's first command."""
        return self._genesis[partition]

    def end(self, partition: int) -> int:
        """The offset of the next record."""
        place = TopicPartition(self._topic, partition)
        try:
            return int(self._ends.end_offsets([place], timeout_ms=END_TIMEOUT_MS)[place])
        except (KafkaError, KeyError) as error:
            raise LogError(f"Kafka does not say where the log ends ({type(error).__name__})") from None

    def read(self, partition: int, start: int = 0) -> Iterator[Record]:
        """The durable records from offset `start` to the end as it is at the call."""
        messages = self._messages(partition, start, self.end(partition))
        return (heard(message).record() for message in messages)

    def hash_of(self, partition: int, offset: int) -> bytes:
        """What tells a record from any other that might stand at its place."""
        [message] = self._messages(partition, offset, offset + 1)
        return hashlib.blake2b(message.value, digest_size=HASH_BYTES).digest()

    def close(self) -> None:
        """Ask nothing more."""
        self._ends.close()

    def _messages(self, partition: int, start: int, end: int) -> Iterator[Any]:
        if start >= end:
            return
        consumer = self._clients.consumer(
            fetch_max_bytes=FETCH_BYTES, max_partition_fetch_bytes=PARTITION_FETCH_BYTES
        )
        place = TopicPartition(self._topic, partition)
        with closing(consumer):
            consumer.assign([place])
            consumer.seek(place, start)
            while start < end:
                messages = _poll(consumer, place, start)[: end - start]
                yield from in_order(messages, start)
                start += len(messages)


def _poll(consumer: KafkaConsumer, place: TopicPartition, start: int) -> list[Any]:
    """The next messages, of which there are some."""
    for _ in range(PATIENCE_POLLS):
        try:
            fetched = consumer.poll(timeout_ms=POLL_MS)
        except (OffsetOutOfRangeError, CorruptRecordError, LogTruncationError) as error:
            raise CorruptionError(
                f"{place.partition}:{start}",
                f"the topic {place.topic} does not hold it any more ({type(error).__name__})",
            ) from None
        except KafkaError as error:
            raise LogError(f"the topic {place.topic} cannot be read: {error}") from None
        if fetched:
            return list(fetched[place])
    raise LogError(f"no broker serves {place.topic}:{place.partition}")
