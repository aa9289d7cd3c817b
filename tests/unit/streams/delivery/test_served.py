"""Subscriptions of a server, end to end: functions in worker processes, dead letters in a table, restarts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

import foldb
from foldb.embedded import Server
from tests.support.subscribed import operate, settle, subscribe, until

FUNCTIONS = """
from foldb import Change

def picky(change: Change):
    if "bad" in change.new:
        raise ValueError("a bad one")

def slow(change: Change):
    raise RuntimeError("not now")
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("functions")
    (folder / "functions.py").write_text(FUNCTIONS)
    with foldb.serve(triggers=folder) as server:
        yield server


def function(name: str) -> dict[str, Any]:
    return {"Kind": "python", "Function": f"functions:{name}"}


def table_of(server: Server, name: str) -> Any:
    return boto3.resource("dynamodb", **server.boto3).create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )


def test_an_edited_dead_letter_is_delivered_with_followers(server: Server) -> None:
    table = table_of(server, "Picked")
    url = server.endpoint_url
    subscribe(url, "picky", "Picked", function("picky"), MaximumRetryAttempts=0)
    table.put_item(Item={"pk": "a", "bad": True})
    table.put_item(Item={"pk": "a", "n": 2})
    table.put_item(Item={"pk": "b"})
    settle(url)
    dead_letters = operate(url, "ListDeadLetters", Name="picky")["DeadLetters"]
    assert ["ValueError: a bad one", f"waits for sequence number {dead_letters[0]['Number']}"] == [
        letter["Error"] for letter in dead_letters
    ]

    assert 1 == operate(url, "RetryDeadLetters", Name="picky")["Failed"]
    boto3.resource("dynamodb", **server.boto3).Table("picky.dlq").update_item(
        Key={"key": dead_letters[0]["Key"], "number": dead_letters[0]["Number"]},
        UpdateExpression="REMOVE payload.#new.bad",
        ExpressionAttributeNames={"#new": "new"},
    )
    assert 2 == operate(url, "RetryDeadLetters", Name="picky")["Delivered"]

    assert [] == operate(url, "ListDeadLetters", Name="picky")["DeadLetters"]
    operate(url, "RemoveSubscription", Name="picky")


def test_a_maximum_lag_throttles_writes_until_it_is_removed(
    server: Server,
) -> None:
    table = table_of(server, "Bounded")
    url = server.endpoint_url
    client = boto3.client("dynamodb", **server.boto3, config=Config(retries={"max_attempts": 0}))
    subscribe(url, "slow", "Bounded", function("slow"), MaximumLag=3)

    def is_throttled() -> bool:
        try:
            client.put_item(TableName="Bounded", Item={"pk": {"S": "a"}, "n": {"N": str(next(numbers))}})
        except client.exceptions.ClientError as error:
            return bool(error.response["Error"]["Code"] == "ThrottlingException")
        return False

    numbers = iter(range(10**9))
    until(is_throttled)
    assert table.get_item(Key={"pk": "a"})["Item"]  # reads are not throttled

    operate(url, "RemoveSubscription", Name="slow")
    until(lambda: not is_throttled())


def test_a_restart_continues_from_the_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "functions").mkdir()
    notes = tmp_path / "notes"
    (tmp_path / "functions" / "functions.py").write_text(
        f"def note(change):\n    with open({str(notes)!r}, 'a') as file:\n        print(change.keys['pk'], file=file)\n"
    )
    for life in range(3):
        with foldb.serve(tmp_path / "db", triggers=tmp_path / "functions") as server:
            if not life:
                table_of(server, "Noted")
                subscribe(server.endpoint_url, "note", "Noted", function("note"))
            table = boto3.resource("dynamodb", **server.boto3).Table("Noted")
            for nth in range(5):
                table.put_item(Item={"pk": f"{life}.{nth}"})
            settle(server.endpoint_url)

    assert [f"{life}.{nth}" for life in range(3) for nth in range(5)] == notes.read_text().split()
