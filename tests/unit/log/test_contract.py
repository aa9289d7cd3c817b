"""Both logs keep the same promises."""

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from foldb.log.local import LocalLog
from foldb.log.local.writer import Fsync
from foldb.log.log import Log
from foldb.log.memory_log import MemoryLog
from tests.unit.contracts.log_contract import LogContract, Logs, Loop


def fail(error: BaseException) -> None:
    raise AssertionError("the disk failed") from error


class TestMemoryLog(LogContract):
    @pytest.fixture
    def logs(self, loop: Loop) -> Logs:
        def make(partitions: int, clock: Callable[[], int]) -> Log:
            return MemoryLog(clock, loop.deliver, partitions=partitions)

        return make


@pytest.mark.parametrize("fsync", get_args(Fsync))
@pytest.mark.parametrize("segment_bytes", [1, 32 << 20])
class TestLocalLog(LogContract):
    """With segments of one byte each record but Genesis begins a segment of its own."""

    @pytest.fixture
    def logs(self, loop: Loop, tmp_path: Path, fsync: Fsync, segment_bytes: int) -> Logs:
        def make(partitions: int, clock: Callable[[], int]) -> Log:
            return LocalLog(
                tmp_path / "data",
                clock=clock,
                deliver=loop.deliver,
                random_bytes=lambda size: b"l" * size,
                on_fatal=fail,
                fsync=fsync,
                segment_bytes=segment_bytes,
                partitions=partitions,
            )

        return make
