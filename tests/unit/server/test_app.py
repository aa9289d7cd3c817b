"""A node from start to stop, and foldb's own operations."""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import pytest

import foldb
from foldb.log.commands import Digest
from foldb.log.local import LocalLog
from foldb.materializer.fold.dump import digest
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.refold import refold
from foldb.model.errors import LogLockedError
from foldb.server.http.address import AddressRefusedError
from tests.support.raw import ask, send
from tests.support.served import served
from tests.support.tables import table_request


def admin(endpoint: str, operation: str) -> Any:
    answer = ask(endpoint, f"Foldb_20261121.{operation}", {})
    assert 200 == answer.status, answer.data
    return answer.body


def table_of(server: Any) -> Any:
    resource = boto3.resource("dynamodb", **server.boto3)
    return resource.create_table(**table_request("Cars", "pk:S"))


def test_a_served_folder_holds_the_address_until_the_stop(tmp_path: Path) -> None:
    with foldb.serve(tmp_path) as server:
        address = json.loads((tmp_path / "server.json").read_bytes())

    assert {"endpoint_url": server.endpoint_url, "pid": os.getpid()} == address
    assert not (tmp_path / "server.json").exists()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"path": "http://127.0.0.1:8000"}, "http://127.0.0.1:8000 is a URL: pass the folder"),
        ({"triggers": "nowhere"}, "triggers: nowhere is not a folder"),
        ({"webhooks": ("localhost",)}, "webhooks: 'localhost' is not an address or network"),
        (
            {"kafka_sink": "localhost:9092"},
            "kafka_sink: 'localhost:9092' is not an address like kafka://",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_invalid_setting_is_refused_before_files_are_created(
    settings: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ValueError, match=says):
        foldb.serve(**{"path": "data", **settings})

    assert [] == list(tmp_path.iterdir())


def test_a_restart_keeps_every_byte_of_the_state(tmp_path: Path) -> None:
    """A stop appends the digest of the state to the log; without writes the next stop appends nothing."""
    with foldb.serve(tmp_path) as server:
        table = table_of(server)
        for n in range(50):
            table.put_item(Item={"pk": str(n), "n": n})
        before = admin(server.endpoint_url, "Digest")
    with foldb.serve(tmp_path) as server:
        after = admin(server.endpoint_url, "Digest")
    with foldb.serve(tmp_path) as server:
        assert after == admin(server.endpoint_url, "Digest")

    *records, last = LocalLog.open_reader(tmp_path).read(0)
    state = PartitionState()
    refold(state, records)
    assert (before["Position"], before["Digest"]) == (str(records[-1].offset), digest(state))
    assert [Digest(records[-1].offset, before["Digest"])] == last.entry.commands


def test_a_folder_is_served_once_at_a_time(tmp_path: Path) -> None:
    """A second server leaves the address of the first one unchanged."""
    with foldb.serve(tmp_path), pytest.raises(LogLockedError, match="another process"):
        foldb.serve(tmp_path)

    with foldb.serve(tmp_path) as server:
        with pytest.raises(LogLockedError):
            foldb.serve(tmp_path)
        assert server.endpoint_url.encode() in (tmp_path / "server.json").read_bytes()


def test_a_refused_address_leaves_the_folder_unlocked(tmp_path: Path) -> None:
    with pytest.raises(AddressRefusedError):
        foldb.serve(tmp_path, host="0.0.0.0")
    with foldb.serve(tmp_path):
        pass


def test_a_port_that_is_taken_is_an_os_error() -> None:
    with foldb.serve() as server:
        port = int(server.endpoint_url.rpartition(":")[2])
        with pytest.raises(OSError, match="in use"):
            foldb.serve(port=port)


def test_ipv6_is_served_too() -> None:
    with foldb.serve(host="::1") as server:
        assert "http://[::1]:" == server.endpoint_url[:13]
        assert 200 == send(server.endpoint_url, "GET", "/", None, {}).status


def test_a_stop_during_writes_loses_no_answered_write(tmp_path: Path) -> None:
    answered = []
    with foldb.serve(tmp_path) as server, ThreadPoolExecutor(8) as pool:
        table_of(server)
        started = threading.Barrier(9)

        def write(writer: int) -> None:
            started.wait()
            for n in range(1000):
                item = {"pk": {"S": f"{writer}.{n}"}}
                try:
                    put = ask(server.endpoint_url, "PutItem", {"TableName": "Cars", "Item": item})
                except OSError:
                    return
                if put.status != 200:
                    return
                answered.append(item["pk"]["S"])

        for writer in range(8):
            pool.submit(write, writer)
        started.wait()
        while len(answered) < 50:
            os.sched_yield()
        server.stop()
    with foldb.serve(tmp_path) as server:
        scan = ask(server.endpoint_url, "Scan", {"TableName": "Cars"}).body["Items"]

    assert set(answered) <= {item["pk"]["S"] for item in scan}


def test_status_returns_the_position_of_the_node(tmp_path: Path) -> None:
    with foldb.serve(tmp_path, limits="2012") as server:
        table_of(server).put_item(Item={"pk": "car"})
        status = admin(server.endpoint_url, "Status")

    assert {
        "Limits": "2012",
        "Path": str(tmp_path),
        "Tables": 1,
        "Items": 1,
        "ItemBytes": 5,
    }.items() <= status.items()
    assert ("2", 0, False) == (status["Position"], status["Waiting"], status["Stopped"])


def test_sigterm_ends_the_process_in_order(tmp_path: Path) -> None:
    """`served` asserts that the process ends with 0."""
    with served(tmp_path) as url:
        created = ask(url, "CreateTable", table_request("Cars", "pk:S"))
        assert 200 == created.status

    assert not (tmp_path / "server.json").exists()
