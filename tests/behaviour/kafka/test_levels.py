"""A log in Kafka that an older release wrote stays at its level until an operator says that all nodes are newer."""

import json
from contextlib import closing
from pathlib import Path

import pytest

import foldb
from foldb.cli.lib.client import Client
from foldb.cli.lib.errors import RequestFailedError
from foldb.materializer.fold import LEVEL
from tests.behaviour.kafka.test_contract import anywhere
from tests.support.served import foldb as run
from tests.unit.materializer.partitions.generate_golden import GOLDEN


def test_a_shared_log_comes_to_a_level_when_an_operator_says_so(kafka: str, tmp_path: Path) -> None:
    url = anywhere(kafka)
    assert 0 == run("log", "copy", GOLDEN / "002", url).returncode
    with foldb.serve(tmp_path / "node", log=url) as server, closing(Client(server.endpoint_url)) as client:
        name = client.call("ListTables", {})["TableNames"][0]
        before = client.admin("Status")["Level"]
        with pytest.raises(RequestFailedError, match="foldb upgrade"):
            client.admin("CreateSubscription", {"Name": "S", "TableNames": [name], "Sink": {"Kind": "file"}})
        said = run("upgrade", "--db", server.endpoint_url)
        after = client.admin("Status")["Level"]

    assert (2, LEVEL) == (before, after)
    assert {"from": 2, "level": LEVEL} == json.loads(said.stdout)
