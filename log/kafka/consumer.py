"""Tells what came to stand in partitions, whoever wrote it.

    poll ──► heard, in portions of 256 KB ──► deliver ──► on_records     the next when that was taken

One consumer and one thread for all partitions that are followed. What this process wrote itself it learns from the
acknowledgement; while nothing else comes, it is fetched a little later and many entries at a time, because every fetch
costs as much as a hundred commands.
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
from .messages import heard, in_order

FETCH_BYTES: Final = 16 << 20
PARTITION_FETCH_BYTES: Final = 4 << 20
# Folding a portion is one turn of the loop: some 2,000 small puts.
PORTION_BYTES: Final = 256 * 1024
OWN_PAUSE_SECONDS: Final = 0.1
ERROR_PAUSE_SECONDS: Final = 0.5
# A consumer that finds nothing for so long where there is something is left.
PATIENCE_SECONDS: Final = 5.0
CLOSE_SECONDS: Final = 1.0

logger = logging.getLogger(__name__)


class _Follower:
    """Who follows a partition, and the offset of what it hears next."""

    def __init__(self, partition: int, start: int, on_records: OnRecords, on_failure: OnFailure) -> None:
        self.partition = partition
        self.next = start
        self.ended = False
        self._on_records = on_records
        self._on_failure = on_failure

    def hear(self, portion: Sequence[RawRecord]) -> None:
        if not self.ended:
            self._on_records(portion)

    def fail(self, error: Exception) -> None:
        if not self.ended:
            self.ended = True
            self._on_failure(error)


class LogConsumers:
    """All that follow partitions of a topic."""

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
        """Begin to tell; on the owner's loop, as all that is told."""
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
        """An entry of this process stands there; from any thread."""
        self.expect(partition, offset)
        self._acknowledged[partition] = offset
        self._expected[partition] = offset + 1

    def expect(self, partition: int, end: int) -> None:
        """The log has records before this offset; from any thread. Those that nobody here knows are fetched at once."""
        follower = self._followed.get(partition)
        if follower is not None and end > max(follower.next, self._acknowledged.get(partition, -1) + 1):
            self._expected[partition] = end
            self._awake.set()

    def close(self) -> None:
        """Tell nothing more."""
        self._closed = True
        with self._lock:
            for follower in self._wanted.values():
                follower.ended = True
        self._awake.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    # What follows runs in the thread.

    def _run(self) -> None:
        while not self._closed:
            try:
                with closing(self._consumer()) as consumer:
                    self._followed, self._progress = {}, time.monotonic()
                    while not self._closed:
                        self._round(consumer)
            except Exception as error:  # whatever it is, another consumer begins where each follower stands
                logger.warning("%s is followed anew: %s", self._topic, error or type(error).__name__)
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
        self._look_for_progress(bool(fetched))
        own = bool(fetched)
        for place, messages in fetched.items():
            own &= messages[-1].offset <= self._acknowledged.get(place.partition, -1)
            follower = self._followed.get(place.partition)
            if follower is not None:
                self._tell(follower, messages)
        if own:
            self._awake.wait(OWN_PAUSE_SECONDS)

    def _look_for_progress(self, fetched: bool) -> None:
        now = time.monotonic()
        behind = any(self._expected.get(each.partition, 0) > each.next for each in self._followed.values())
        if fetched or not behind:
            self._progress = now
        elif now - self._progress > PATIENCE_SECONDS:
            raise LogError("the consumer finds nothing where there is something")

    def _assign(self, consumer: KafkaConsumer) -> None:
        with self._lock:
            wanted = dict(self._wanted)
        if wanted == self._followed:
            return
        consumer.assign([TopicPartition(self._topic, partition) for partition in wanted])
        for partition, follower in wanted.items():
            if self._followed.get(partition) is not follower:
                consumer.seek(TopicPartition(self._topic, partition), follower.next)
        self._followed = wanted

    def _tell(self, follower: _Follower, messages: Sequence[Any]) -> None:
        try:
            for portion in _portions(messages, follower.next):
                self._hand(follower, portion)
                follower.next = portion[-1].offset + 1
        except CorruptionError as error:
            self._fail(follower, error)

    def _hand(self, follower: _Follower, portion: list[RawRecord]) -> None:
        taken = threading.Event()

        def take() -> None:
            try:
                follower.hear(portion)
            finally:
                taken.set()

        self._call(take)
        while not taken.wait(0.5):
            if self._closed:
                return

    def _fail_broken(self, error: KafkaError) -> None:
        """End those whose position the error names; all, if it names none."""
        places = error.args[0] if error.args and isinstance(error.args[0], dict) else None
        for partition, follower in list(self._followed.items()):
            if places is None or TopicPartition(self._topic, partition) in places:
                what = (
                    f"the topic {self._topic} does not hold it any more, or not yet ({type(error).__name__})"
                )
                self._fail(follower, CorruptionError(f"{partition}:{follower.next}", what))

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
    """What the loop takes at a time."""
    portion: list[RawRecord] = []
    size = 0
    try:
        for message in in_order(messages, start):
            record = heard(message)
            if portion and size + len(record.body) > PORTION_BYTES:
                yield portion
                portion, size = [], 0
            portion.append(record)
            size += len(record.body)
    except CorruptionError:
        if portion:
            yield portion  # what stands before is as it was written
        raise
    if portion:
        yield portion
