"""A disk without space: writes are refused, reads go on, and space is all that it takes to write again."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.crash.ledger import Ledger, Writers, create
from tests.crash.process import Process

DISK_BYTES = 2 << 20
ITEM_BYTES = 10_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounting a small disk takes root on Linux")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", tmp_path], check=True)
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def fill(path: Path) -> None:
    """Leave no byte free."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def test_a_full_disk_refuses_writes_until_there_is_space(disk: Path) -> None:
    ledger, ballast = Ledger(), disk / "ballast"
    with Process(disk / "data") as server:
        create(server.url)
        with Writers(ledger, server.url, padding=ITEM_BYTES) as writers:
            writers.wait_for(20)
            fill(ballast)
            writers.wait_for(20, "refused")
            ballast.unlink()
            writers.wait_for(20)
        assert "in doubt" not in ledger.answers
        ledger.check(server.url)
        server.terminate()

    assert "no space left for the log" in server.said
    assert "there is space for the log" in server.said


def test_a_full_disk_is_served_and_read_and_stopped(disk: Path) -> None:
    ledger, ballast = Ledger(), disk / "ballast"
    with Process(disk / "data") as server:
        create(server.url)
        with Writers(ledger, server.url, padding=ITEM_BYTES) as writers:
            writers.wait_for(20)
            fill(ballast)
            writers.wait_for(8, "refused")
        server.kill()

    with Process(disk / "data") as server:
        ledger.check(server.url)
        with Writers(ledger, server.url, run=1, padding=ITEM_BYTES) as writers:
            writers.wait_for(8, "refused")
            ballast.unlink()
            writers.wait_for(20)
        fill(ballast)
        ledger.check(server.url)
        server.terminate()
    with Process(disk / "data") as server:
        ledger.check(server.url)
