"""The process that keeps the histories of a served folder: when it runs, and what happens when it does not."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

import foldb
from tests.support.tables import table_request

KEY = {"pk": {"S": "a"}}


def history_processes() -> list[int]:
    """Return the ids of the history processes that this process has started."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            parent = (each / "stat").read_text().rpartition(")")[2].split()[1]
            command = (each / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended
        if int(parent) == os.getpid() and b"foldb.server.history.worker" in command:
            found.append(int(each.name))
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a database whose position 2 is a put."""
    with foldb.serve(tmp_path / "data") as server:
        client = boto3.client("dynamodb", **server.boto3)
        client.create_table(**table_request("Orders", "pk:S"))
        client.put_item(TableName="Orders", Item=KEY)
        client.delete_item(TableName="Orders", Key=KEY)
        client.close()
    return tmp_path / "data"


def reads_the_past(server: Any) -> Iterator[bool]:
    client = boto3.client("dynamodb", **server.boto3)
    while True:
        yield client.get_item(TableName="Orders@2", Key=KEY)["Item"] == KEY


@pytest.mark.spec("H3")
def test_the_first_read_of_the_past_starts_the_process(folder: Path) -> None:
    with foldb.serve(folder) as server:
        client = boto3.client("dynamodb", **server.boto3)
        client.get_item(TableName="Orders", Key=KEY)
        with pytest.raises(ClientError):
            client.get_item(TableName="Orders@x", Key=KEY)
        assert [] == history_processes()
        assert not (folder / "history").exists()

        assert all(next(reads_the_past(server)) for _ in range(2))
        assert 1 == len(history_processes())
        client.close()
    assert [] == history_processes()


def test_a_setting_starts_the_process_with_the_server(folder: Path) -> None:
    with foldb.serve(folder, history=True) as server:
        assert 1 == len(history_processes())
        assert next(reads_the_past(server))


def test_a_killed_process_is_replaced(folder: Path) -> None:
    with foldb.serve(folder) as server:
        past = reads_the_past(server)
        assert next(past)
        for _ in range(2):
            [process] = history_processes()
            os.kill(process, signal.SIGKILL)
            assert next(past)  # boto3 repeats a read that the process did not answer
            assert [process] != history_processes()


def test_a_removed_history_is_folded_again(folder: Path) -> None:
    for _ in range(2):
        with foldb.serve(folder) as server:
            assert next(reads_the_past(server))
        assert (folder / "history").is_dir()
        shutil.rmtree(folder / "history")


def test_a_damaged_history_is_folded_again(folder: Path) -> None:
    with foldb.serve(folder) as server:
        assert next(reads_the_past(server))
    for file in (folder / "history").rglob("*"):
        if file.is_file():
            file.write_bytes(b"damaged")
    with foldb.serve(folder) as server:
        assert next(reads_the_past(server))
