"""Deliver the records of followed partitions, including those of other processes.

    poll ──► raw records, in portions of 256 KB ──► deliver ──► on_records     the next when that returned

One consumer and one thread serve all followed partitions. The offsets of own entries are known from their
acknowledgements. While only own entries arrive, the thread fetches less often and more entries at a time, because a
fetch costs as much as a hundred commands.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import CorruptRecordError, KafkaError, LogTruncationError, OffsetOutOfRangeError

from ...model.errors import CorruptionError, LogError
from ..log import Deliver, OnFailure, OnRecords, RawRecord, Stop
from .client import FETCH_MAX_WAIT_MS, Clients
from .messages import in_order, raw_record

FETCH_BYTES: Final = 16 << 20
PARTITION_FETCH_BYTES: Final = 4 << 20
# Folding a portion is one turn of the loop: some 2,000 small puts.
PORTION_BYTES: Final = 256 * 1024
OWN_PAUSE_SECONDS: Final = 0.1
ERROR_PAUSE_SECONDS: Final = 0.5
# A consumer that returns no records for this long although the log has more is replaced.
PROGRESS_TIMEOUT_SECONDS: Final = 5.0
CLOSE_SECONDS: Final = 1.0

logger = logging.getLogger(__name__)


class _Follower:
    """A follower of one partition, and the offset of its next record."""

    def __init__(self, partition: int, start: int, on_records: OnRecords, on_failure: OnFailure) -> None:
        self.partition = partition
        self.next_offset = start
        self.ended = False
        self._on_records = on_records
        self._on_failure = on_failure

    def receive(self, portion: Sequence[RawRecord]) -> None:
        if not self.ended:
            self._on_records(portion)

    def fail(self, error: Exception) -> None:
        if not self.ended:
            self.ended = True
            self._on_failure(error)


class LogConsumers:
    """The followers of a topic's partitions."""

    def __init__(self, clients: Clients, deliver: Deliver) -> None:
        self._clients = clients
        self._topic = clients.address.topic
        self._deliver = deliver
        self._wanted: dict[int, _Follower] = {}
        self._followed: dict[int, _Follower] = {}
        self._acknowledged: dict[int, int] = {}
        self._expected: dict[int, int] = {}
        self._progress = 0.0
        self._lock = threading.Lock()
        self._awake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def follow(self, partition: int, start: int, on_records: OnRecords, on_failure: OnFailure) -> Stop:
        """Deliver the records of a partition from offset `start`, on the owner's loop."""
        follower = _Follower(partition, start, on_records, on_failure)

        def stop() -> None:
            follower.ended = True
            with self._lock:
                if self._wanted.get(partition) is follower:
                    del self._wanted[partition]
            self._awake.set()

        with self._lock:
            assert partition not in self._wanted, "a partition is followed once"
            self._wanted[partition] = follower
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kafka-follow", daemon=True)
            self._thread.start()
        self._awake.set()
        return stop

    def acknowledged(self, partition: int, offset: int) -> None:
        """Record that this process wrote the entry at an offset. May be called from any thread."""
        self.expect(partition, offset)
        self._acknowledged[partition] = offset
        self._expected[partition] = offset + 1

    def expect(self, partition: int, end: int) -> None:
        """Record that the log has entries up to `end`. May be called from any thread.

        If some of them are not from this process, the thread fetches at once.
        """
        follower = self._followed.get(partition)
        if follower is not None and end > max(
            follower.next_offset, self._acknowledged.get(partition, -1) + 1
        ):
            self._expected[partition] = end
            self._awake.set()

    def close(self) -> None:
        self._closed = True
        with self._lock:
            for follower in self._wanted.values():
                follower.ended = True
        self._awake.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    # The methods below run in the thread.

    def _run(self) -> None:
        while not self._closed:
            try:
                with closing(self._consumer()) as consumer:
                    self._followed, self._progress = {}, time.monotonic()
                    while not self._closed:
                        self._round(consumer)
            except Exception as error:  # a new consumer continues at each follower's offset
                logger.warning(
                    "cannot read the topic %s: %s; it is read by a new consumer",
                    self._topic,
                    error or type(error).__name__,
                )
                self._awake.wait(ERROR_PAUSE_SECONDS)

    def _consumer(self) -> KafkaConsumer:
        return self._clients.consumer(
            fetch_max_bytes=FETCH_BYTES, max_partition_fetch_bytes=PARTITION_FETCH_BYTES
        )

    def _round(self, consumer: KafkaConsumer) -> None:
        self._awake.clear()
        self._assign(consumer)
        if not self._followed:
            self._awake.wait()
            return
        try:
            fetched = consumer.poll(timeout_ms=FETCH_MAX_WAIT_MS)
        except (OffsetOutOfRangeError, LogTruncationError, CorruptRecordError) as error:
            self._fail_broken(error)
            return
        self._check_progress(bool(fetched))
        own = bool(fetched)
        for topic_partition, messages in fetched.items():
            own &= messages[-1].offset <= self._acknowledged.get(topic_partition.partition, -1)
            follower = self._followed.get(topic_partition.partition)
            if follower is not None:
                self._deliver_messages(follower, messages)
        if own:
            self._awake.wait(OWN_PAUSE_SECONDS)

    def _check_progress(self, fetched: bool) -> None:
        now = time.monotonic()
        behind = any(
            self._expected.get(each.partition, 0) > each.next_offset for each in self._followed.values()
        )
        if fetched or not behind:
            self._progress = now
        elif now - self._progress > PROGRESS_TIMEOUT_SECONDS:
            raise LogError("the consumer returns no records although the log has more")

    def _assign(self, consumer: KafkaConsumer) -> None:
        with self._lock:
            wanted = dict(self._wanted)
        if wanted == self._followed:
            return
        consumer.assign([TopicPartition(self._topic, partition) for partition in wanted])
        for partition, follower in wanted.items():
            if self._followed.get(partition) is not follower:
                consumer.seek(TopicPartition(self._topic, partition), follower.next_offset)
        self._followed = wanted

    def _deliver_messages(self, follower: _Follower, messages: Sequence[Any]) -> None:
        try:
            for portion in _portions(messages, follower.next_offset):
                self._deliver_portion(follower, portion)
                follower.next_offset = portion[-1].offset + 1
        except CorruptionError as error:
            self._fail(follower, error)

    def _deliver_portion(self, follower: _Follower, portion: list[RawRecord]) -> None:
        received = threading.Event()

        def receive() -> None:
            try:
                follower.receive(portion)
            finally:
                received.set()

        self._call(receive)
        while not received.wait(0.5):
            if self._closed:
                return

    def _fail_broken(self, error: KafkaError) -> None:
        """End the followers of the partitions that the error names, or all if it names none."""
        broken = error.args[0] if error.args and isinstance(error.args[0], dict) else None
        for partition, follower in list(self._followed.items()):
            if broken is None or TopicPartition(self._topic, partition) in broken:
                reason = f"the topic {self._topic} does not hold this offset ({type(error).__name__})"
                self._fail(follower, CorruptionError(f"{partition}:{follower.next_offset}", reason))

    def _fail(self, follower: _Follower, error: Exception) -> None:
        with self._lock:
            if self._wanted.get(follower.partition) is follower:
                del self._wanted[follower.partition]
        self._call(lambda: follower.fail(error))

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            self._deliver(callback)
        except RuntimeError:  # the owner's loop is closed
            self._closed = True


def _portions(messages: Sequence[Any], start: int) -> Iterator[list[RawRecord]]:
    """Split messages into portions, each folded in one turn of the loop."""
    portion: list[RawRecord] = []
    size = 0
    try:
        for message in in_order(messages, start):
            record = raw_record(message)
            if portion and size + len(record.body) > PORTION_BYTES:
                yield portion
                portion, size = [], 0
            portion.append(record)
            size += len(record.body)
    except CorruptionError:
        if portion:
            yield portion  # the records before the damaged one are valid
        raise
    if portion:
        yield portion
