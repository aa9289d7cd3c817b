"""`foldb verify kafka://` finds no difference only where it has compared digests."""

import json
from pathlib import Path

import pytest

import foldb
from tests.behaviour.cli.conftest import at
from tests.behaviour.kafka.test_contract import anywhere
from tests.support.served import foldb as run
from tests.support.served import killed

pytestmark = pytest.mark.usefixtures("kafka")


@pytest.fixture
def topic(kafka: str, tmp_path: Path) -> str:
    """A log in Kafka that records no digest: its server was killed."""
    url = anywhere(kafka)
    with killed(tmp_path / "data") as server:
        assert 0 == at(server)("sample", "load", "music").exit_code
    assert 0 == run("log", "copy", tmp_path / "data", url).returncode
    return url


@pytest.mark.guarantee("G12")
def test_a_log_without_digests_is_not_called_equal(topic: str) -> None:
    ran = run("verify", topic)

    assert 1 == ran.returncode, ran.stderr
    assert "nothing was compared for partition 0" in ran.stderr
    assert "no difference" not in ran.stderr


def test_verify_compares_a_topic_with_the_node_of_db(topic: str, tmp_path: Path) -> None:
    with foldb.serve(tmp_path / "node", log=topic) as node:
        ran = run("verify", topic, "--db", node.endpoint_url)
        with foldb.serve() as other:
            refused = run("verify", topic, "--db", other.endpoint_url)

    assert 0 == ran.returncode, ran.stderr
    assert "1 digest compared · no difference" in ran.stderr
    assert 1 == json.loads(ran.stdout)["compared"]
    assert (2, True) == (refused.returncode, "name a server of this log" in refused.stderr)
