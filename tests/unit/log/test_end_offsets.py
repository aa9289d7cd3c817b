"""Callers that wait for the end of a log in Kafka share requests to the broker."""

import threading
from contextlib import closing
from types import SimpleNamespace
from typing import Any

from kafka import TopicPartition

from foldb.log.kafka.end_offsets import EndOffsets
from foldb.model.errors import LogError

WAIT_SECONDS = 30


class _Consumer:
    """A consumer whose first request is answered when the test allows it."""

    def __init__(self) -> None:
        self.requests: list[list[int]] = []
        self.requested, self.answer = threading.Event(), threading.Event()

    def end_offsets(self, partitions: list[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        self.requests.append([each.partition for each in partitions])
        self.requested.set()
        assert self.answer.wait(WAIT_SECONDS)
        return dict.fromkeys(partitions, len(self.requests))

    def close(self) -> None:
        """Nothing is open."""


def test_callers_during_a_request_share_the_next_one() -> None:
    consumer, ends, over = _Consumer(), list[int | LogError](), threading.Event()
    clients: Any = SimpleNamespace(address=SimpleNamespace(topic="t.log"), offsets_consumer=lambda: consumer)

    def received(end: int | LogError) -> None:
        ends.append(end)
        if len(ends) == 101:
            over.set()

    with closing(EndOffsets(clients, lambda callback: callback(), lambda *_: None)) as offsets:
        offsets.ask(0, received)
        assert consumer.requested.wait(WAIT_SECONDS)
        for number in range(100):
            offsets.ask(number % 2, received)
        consumer.answer.set()
        assert over.wait(WAIT_SECONDS)

    assert consumer.requests == [[0], [0, 1]]
    assert ends == [1] + [2] * 100
