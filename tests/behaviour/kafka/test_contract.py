"""The log on Kafka satisfies the contracts of a log, on a real broker."""

import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from foldb.log.kafka import KafkaLog
from foldb.log.log import SharedLog
from tests.unit.contracts.log_contract import Logs, Loop, Ticking, entry
from tests.unit.contracts.shared_log_contract import Another, SharedLogContract


def anywhere(kafka: str) -> str:
    """An address that no other test has."""
    return f"kafka://{kafka}/t-{uuid.uuid4().hex[:12]}"


def open_log(url: str, loop: Loop, **options: Any) -> KafkaLog:
    return KafkaLog(url, deliver=loop.deliver, random_bytes=os.urandom, **options)


class TestKafkaLog(SharedLogContract):
    @pytest.fixture
    def logs(self, loop: Loop, kafka: str) -> Iterator[Logs]:
        opened: list[KafkaLog] = []

        def make(partitions: int, clock: Callable[[], int]) -> KafkaLog:
            opened.append(open_log(anywhere(kafka), loop, partitions=partitions))
            return opened[-1]

        yield make
        for log in opened:
            log.close()

    @pytest.fixture
    def another(self, loop: Loop) -> Iterator[Another]:
        opened: list[KafkaLog] = []

        def connect(log: SharedLog) -> KafkaLog:
            assert isinstance(log, KafkaLog)
            opened.append(open_log(str(log.clients.address), loop))
            return opened[-1]

        yield connect
        for log in opened:
            log.close()

    def time(self, reported: int) -> int:
        """The time is the broker's."""
        return 1000

    def test_log_time_never_goes_back(self, loop: Loop, logs: Logs) -> None:
        """The clock is the broker's, and an acknowledgement has the log time of the record."""
        log = logs(1, Ticking(1000))
        reported: list[Any] = []
        for n in range(4):
            log.append(0, entry(n), reported.append)
        loop.turn(until=lambda: len(reported) == 4)

        times = [record.time for record in log.read(0)]
        assert sorted(times) == times
        assert times[1:] == [each.time_ms for each in reported]
