"""Fetch the end offsets of partitions. One request is in flight at a time, for all calls before its start."""

import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeAlias

from kafka import KafkaConsumer, TopicPartition

from ...model.errors import LogError
from ..log import Deliver
from .client import Clients

TIMEOUT_MS: Final = 3_000
CLOSE_SECONDS: Final = 1.0

EndCallback: TypeAlias = Callable[[int | LogError], None]


class EndOffsets:
    """Fetches a topic's end offsets.

    Args:
        on_end: Called in the thread with each partition and its end, before the callbacks of `ask`.
    """

    def __init__(self, clients: Clients, deliver: Deliver, on_end: Callable[[int, int], None]) -> None:
        self._clients = clients
        self._topic = clients.address.topic
        self._deliver = deliver
        self._on_end = on_end
        self._waiting: dict[int, list[EndCallback]] = defaultdict(list)
        self._lock = threading.Lock()
        self._requested = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def ask(self, partition: int, callback: EndCallback) -> None:
        """Call `callback` with the partition's end at some moment after this call."""
        with self._lock:
            self._waiting[partition].append(callback)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kafka-ends", daemon=True)
            self._thread.start()
        self._requested.set()

    def close(self) -> None:
        """Stop the thread. Pending callbacks receive a LogError."""
        self._closed = True
        self._requested.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    # The methods below run in the thread.

    def _run(self) -> None:
        consumer: KafkaConsumer | None = None
        while not self._closed:
            self._requested.wait()
            self._requested.clear()
            with self._lock:
                waiting, self._waiting = self._waiting, defaultdict(list)
            if not waiting:
                continue
            try:
                consumer = consumer or self._clients.offsets_consumer()
                topic_partitions = [TopicPartition(self._topic, partition) for partition in waiting]
                ends = consumer.end_offsets(topic_partitions, timeout_ms=TIMEOUT_MS)
                results: dict[int, int | LogError] = {each.partition: end for each, end in ends.items()}
            except Exception as error:
                failure = LogError(f"cannot fetch the log's end from Kafka ({type(error).__name__})")
                results = dict.fromkeys(waiting, failure)
                if consumer is not None:
                    consumer.close()
                    consumer = None
            self._complete(waiting, results)
        if consumer is not None:
            consumer.close()
        self._complete(self._waiting, dict.fromkeys(self._waiting, LogError("the log is closed")))

    def _complete(self, waiting: dict[int, list[EndCallback]], results: dict[int, int | LogError]) -> None:
        for partition, result in results.items():
            if isinstance(result, int):
                self._on_end(partition, result)

        def call_all() -> None:
            for partition, callbacks in waiting.items():
                for callback in callbacks:
                    callback(results[partition])

        with suppress(RuntimeError):  # the owner's loop is closed
            self._deliver(call_all)
