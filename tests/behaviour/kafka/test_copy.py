"""A history moves from a folder into Kafka and back, and is the same history."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest

import foldb
from tests.behaviour.kafka.test_contract import anywhere
from tests.support.tables import table_request

pytestmark = pytest.mark.usefixtures("kafka")


def command(*words: str) -> list[Any]:
    """Return the output of a command, line by line."""
    run = subprocess.run(
        [Path(sys.executable).with_name("foldb"), *words], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def fill(folder: Path, first: int) -> None:
    with foldb.serve(folder, partitions=3) as server:
        client = boto3.client("dynamodb", **server.boto3)
        if not client.list_tables()["TableNames"]:
            client.create_table(**table_request("Cars", "pk:S", gsi={"by-colour": "colour:S"}))
        for n in range(first, first + 30):
            item = {"pk": {"S": f"{n}"}, "colour": {"S": f"{n % 3}"}}
            client.put_item(TableName="Cars", Item=item)


def test_digests_and_positions_are_the_same_there_and_back(kafka: str, tmp_path: Path) -> None:
    here, there, back = str(tmp_path / "here"), anywhere(kafka), str(tmp_path / "back")
    fill(tmp_path / "here", 0)
    [first] = command("log", "copy", here, there)
    fill(tmp_path / "here", 30)
    [second] = command("log", "copy", here, there)
    command("log", "copy", there, back)

    assert min(first["copied"], second["copied"]) > 30
    verified = command("verify", here)
    assert 4 == len(verified)
    assert verified == command("verify", there) == command("verify", back)
