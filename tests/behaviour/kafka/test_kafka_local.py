"""compose/kafka-local: a broker answers while it runs, and nothing is left when it ends."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker import KAFKA_LOCAL, brokers


def connect(address: str) -> int:
    """How many brokers a client finds there."""
    from kafka.admin import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=address)
    try:
        return len(admin.describe_cluster()["brokers"])
    finally:
        admin.close()


def runs(pid: int) -> bool:
    """A process that ended has no command line, even before its parent has waited for it."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except FileNotFoundError:
        return False


def test_the_shared_broker_answers(kafka: str) -> None:
    assert connect(kafka) >= 1


@pytest.mark.soak
def test_three_brokers_form_a_cluster_and_end_with_their_starter() -> None:
    with brokers(3) as cluster:
        assert 3 == connect(cluster.address)
        pids = [cluster.pid(number) for number in (1, 2, 3)]
        cluster.kill(2)
        cluster.restart()
        assert 3 == connect(cluster.address)

    assert not [pid for pid in pids if runs(pid)]


def test_a_machine_without_java_gets_an_error_that_names_it() -> None:
    environment = {"PATH": os.path.dirname(sys.executable) + ":/nowhere", "HOME": os.environ["HOME"]}

    done = subprocess.run(
        [sys.executable, KAFKA_LOCAL, "run"], env=environment, capture_output=True, text=True
    )

    assert os.EX_UNAVAILABLE == done.returncode
    assert "install Java 17" in done.stderr or "Maven is missing" in done.stderr
