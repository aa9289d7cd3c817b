"""Asks where partitions end. One request is under way at a time, and answers all that asked before it began."""

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

EndDone: TypeAlias = Callable[[int | LogError], None]


class EndOffsets:
    """Asks for a topic's ends.

    Args:
        on_end: Told in the thread what each answer was, before whoever asked.
    """

    def __init__(self, clients: Clients, deliver: Deliver, on_end: Callable[[int, int], None]) -> None:
        self._clients = clients
        self._topic = clients.address.topic
        self._deliver = deliver
        self._on_end = on_end
        self._waiting: dict[int, list[EndDone]] = defaultdict(list)
        self._lock = threading.Lock()
        self._asked = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def ask(self, partition: int, done: EndDone) -> None:
        """Tell the end as it is at some moment from now on."""
        with self._lock:
            self._waiting[partition].append(done)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kafka-ends", daemon=True)
            self._thread.start()
        self._asked.set()

    def close(self) -> None:
        """Ask no more; who waits is told so."""
        self._closed = True
        self._asked.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    # What follows runs in the thread.

    def _run(self) -> None:
        consumer: KafkaConsumer | None = None
        while not self._closed:
            self._asked.wait()
            self._asked.clear()
            with self._lock:
                waiting, self._waiting = self._waiting, defaultdict(list)
            if not waiting:
                continue
            try:
                consumer = consumer or self._clients.asker()
                places = [TopicPartition(self._topic, partition) for partition in waiting]
                ends = consumer.end_offsets(places, timeout_ms=TIMEOUT_MS)
                answers: dict[int, int | LogError] = {place.partition: end for place, end in ends.items()}
            except Exception as error:
                refusal = LogError(f"Kafka does not say where the log ends ({type(error).__name__})")
                answers = dict.fromkeys(waiting, refusal)
                if consumer is not None:
                    consumer.close()
                    consumer = None
            self._tell(waiting, answers)
        if consumer is not None:
            consumer.close()
        self._tell(self._waiting, dict.fromkeys(self._waiting, LogError("the log is closed")))

    def _tell(self, waiting: dict[int, list[EndDone]], answers: dict[int, int | LogError]) -> None:
        for partition, answer in answers.items():
            if isinstance(answer, int):
                self._on_end(partition, answer)

        def tell() -> None:
            for partition, all_done in waiting.items():
                for done in all_done:
                    done(answers[partition])

        with suppress(RuntimeError):  # the owner's loop is closed
            self._deliver(tell)
