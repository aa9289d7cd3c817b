"""The log on Kafka keeps what every log promises, on a real broker."""

import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from foldb.log.kafka import KafkaLog
from foldb.log.log import Log
from tests.contracts.log_contract import LogContract, Loop, entry


def anywhere(kafka: str) -> str:
    """An address that no other test has."""
    return f"kafka://{kafka}/t-{uuid.uuid4().hex[:12]}"


class TestKafkaLog(LogContract):
    @pytest.fixture
    def logs(self, loop: Loop, kafka: str) -> Iterator[Callable[[int, Callable[[], int]], Log]]:
        opened: list[KafkaLog] = []

        def make(partitions: int, clock: Callable[[], int]) -> KafkaLog:
            log = KafkaLog(
                anywhere(kafka),
                deliver=loop.deliver,
                random_bytes=os.urandom,
                partitions=partitions,
                repeat=False,
            )
            opened.append(log)
            return log

        yield make
        for log in opened:
            log.close()

    def time(self, told: int) -> int:
        """The broker's clock tells it."""
        return 1000

    def test_log_time_never_goes_back(self, loop: Loop, logs: Callable[..., Log]) -> None:
        """The clock is the broker's, and an acknowledgement tells the time that stands in the log."""
        log = logs(1, None)
        told: list[Any] = []
        for n in range(4):
            log.append(0, entry(n), told.append)
        loop.turn(until=lambda: len(told) == 4)

        times = [record.time for record in log.read(0)]
        assert sorted(times) == times
        assert times[1:] == [each.time_ms for each in told]
