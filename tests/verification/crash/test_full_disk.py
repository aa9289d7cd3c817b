"""A full disk: writes are refused and reads continue until there is space again."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.served import Process
from tests.support.write_ledger import Ledger, Writers, create
from tests.verification.crash.programs import with_limit

DISK_BYTES = 4 << 20
BALLAST_BYTES = 3 << 20
DISK_FILES = 30
ITEM_BYTES = 10_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk."""
    with mounted(tmp_path, f"size={DISK_BYTES}"):
        yield tmp_path


@contextmanager
def mounted(path: Path, options: str) -> Iterator[None]:
    """Mount a disk in memory at `path`."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounting a small disk takes root on Linux")
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", path], check=True)


def load(path: Path) -> None:
    """Take most of the disk, so that the writers fill the rest at any speed."""
    path.write_bytes(bytes(BALLAST_BYTES))


def fill(path: Path) -> None:
    """Fill the disk."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def remove(files: list[Path]) -> None:
    """Remove the files."""
    for file in files:
        file.unlink()


@pytest.mark.guarantee("G5")
def test_a_full_disk_refuses_writes_until_there_is_space(disk: Path) -> None:
    ledger, ballast = Ledger(), disk / "ballast"
    load(ballast)
    with Process(disk / "data") as server:
        create(server.url)
        with Writers(ledger, server.url, padding=ITEM_BYTES) as writers:
            writers.wait_for(20, "refused")
            writers.wait_for(20, after=ballast.unlink)
        assert "in doubt" not in ledger.answers
        ledger.check(server.url)
        server.terminate()

    assert "no space left for the log" in server.said
    assert "there is space for the log" in server.said


@pytest.mark.guarantee("G5")
def test_a_full_disk_is_served_and_read_and_stopped(disk: Path) -> None:
    ledger, ballast = Ledger(), disk / "ballast"
    load(ballast)
    with Process(disk / "data") as server:
        create(server.url)
        with Writers(ledger, server.url, padding=ITEM_BYTES) as writers:
            writers.wait_for(8, "refused")
        server.kill()

    with Process(disk / "data") as server:
        ledger.check(server.url)
        with Writers(ledger, server.url, run=1, padding=ITEM_BYTES) as writers:
            writers.wait_for(8, "refused")
            writers.wait_for(20, after=ballast.unlink)
        fill(ballast)
        ledger.check(server.url)
        server.terminate()
    with Process(disk / "data") as server:
        ledger.check(server.url)


def test_a_disk_without_inodes_refuses_writes_until_it_has_some(tmp_path: Path) -> None:
    """There are free bytes, but there is no inode for the log's next segment."""
    ledger, ballast = Ledger(), [tmp_path / f"ballast-{n}" for n in range(DISK_FILES // 2)]
    with mounted(tmp_path, f"nr_inodes={DISK_FILES}"):
        for file in ballast:
            file.touch()
        with Process(tmp_path / "data", "--segment-bytes", "20000") as server:
            create(server.url)
            with Writers(ledger, server.url, padding=ITEM_BYTES) as writers:
                writers.wait_for(20, "refused")
                writers.wait_for(10, after=lambda: remove(ballast))
                writers.wait_for(20, "refused")
            assert "in doubt" not in ledger.answers
            ledger.check(server.url)
            server.kill()
        with Process(tmp_path / "data") as server:
            ledger.check(server.url)


def test_a_file_size_limit_refuses_writes_until_it_is_raised(tmp_path: Path) -> None:
    """With `ulimit -f`, writes beyond the limit are refused as a whole, and the server continues."""
    ledger = Ledger()
    with Process(tmp_path, program=with_limit(resource.RLIMIT_FSIZE, 500_000, 1 << 30)) as server:
        create(server.url)
        with Writers(ledger, server.url, padding=ITEM_BYTES) as writers:
            writers.wait_for(20, "refused")
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
            writers.wait_for(20)
        assert "in doubt" not in ledger.answers
        ledger.check(server.url)
        server.kill()
    with Process(tmp_path) as server:
        ledger.check(server.url)
