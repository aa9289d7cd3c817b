"""A real Apache Kafka for tests: one broker for a whole run, and brokers that a test may kill.

    from tests.support.broker import kafka           # in a folder's conftest.py: the fixture, HOST:PORT
    with brokers(3) as cluster: ...          # a cluster of one test

compose/kafka-local starts them, and stops them when pytest ends, also after a crash. FOLDB_TEST_KAFKA=HOST:PORT
names a broker to use instead of the shared one. Without Java or Maven the tests are skipped, with that reason.
"""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

KAFKA_LOCAL = Path(__file__).resolve().parents[2] / "compose" / "kafka-local"


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of one broker for all tests and workers of this run; topics have random names."""
    if given := os.environ.get("FOLDB_TEST_KAFKA"):
        return given
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # the common folder of all workers
    address = folder / "kafka-address"
    with (folder / "kafka-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not address.exists():
            address.write_text(_start(folder / "kafka", _run_of_pytest()))
    return address.read_text()


def _run_of_pytest() -> int:
    """Return the id of the process that lives as long as the run."""
    return os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()


class Brokers:
    """Brokers that a test may kill, pause and start again, by their numbers from 1."""

    def __init__(self, data: Path, address: str) -> None:
        self._data = data
        self.address = address

    def kill(self, number: int) -> None:
        """Kill a broker as a power cut would, except that the page cache survives."""
        os.kill(self.pid(number), signal.SIGKILL)

    def pause(self, number: int) -> None:
        os.kill(self.pid(number), signal.SIGSTOP)

    def resume(self, number: int) -> None:
        os.kill(self.pid(number), signal.SIGCONT)

    def restart(self) -> None:
        """Start the killed brokers, and wait until all answer."""
        start = [sys.executable, str(KAFKA_LOCAL), "start", "--data", str(self._data)]
        subprocess.run(start, check=True, stdout=subprocess.DEVNULL)

    def pid(self, number: int) -> int:
        return int((self._data / f"broker-{number}" / "pid").read_text())


@contextmanager
def brokers(count: int, *options: str) -> Iterator[Brokers]:
    """Start a cluster for the duration of the block; `options` are those of kafka-local."""
    with tempfile.TemporaryDirectory(prefix="foldb-brokers-", ignore_cleanup_errors=True) as folder:
        data = Path(folder) / "kafka"
        address = _start(data, os.getpid(), "--brokers", str(count), *options)
        cluster = Brokers(data, address)
        try:
            yield cluster
        finally:
            for number in range(1, count + 1):
                with suppress(ProcessLookupError):
                    cluster.kill(number)  # its data is removed too: no orderly end, which takes seconds
            subprocess.run([sys.executable, KAFKA_LOCAL, "stop", "--data", data], check=True)


def _start(data: Path, until_exit_of: int, *options: str) -> str:
    """Start brokers and return their address."""
    command = [
        sys.executable,
        str(KAFKA_LOCAL),
        "start",
        "--data",
        str(data),
        "--until-exit-of",
        str(until_exit_of),
        *options,
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode == os.EX_UNAVAILABLE:
        pytest.skip("no Kafka: Java 17 or Maven is missing, or Maven Central cannot be reached")
    assert done.returncode == 0, "compose/kafka-local could not start Kafka; what it said stands above"
    return done.stdout.strip()
