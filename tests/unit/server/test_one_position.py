"""Items that are read together are read at one position, during concurrent writes."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import foldb

READS = 100
KEYS = [{"id": f"account-{number}"} for number in range(5)]


@pytest.mark.guarantee("G23")
def test_a_transaction_reads_all_its_items_as_of_one_moment(connect: Callable[[str], Any]) -> None:
    """One transaction after the other gives all items the same number. A reader never sees two numbers."""
    with foldb.serve() as server:
        dynamodb = connect(server.endpoint_url)
        dynamodb.create_table(
            TableName="Accounts",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
        client = dynamodb.meta.client
        enough = threading.Event()
        write(client, 0)

        def keep_writing() -> int:
            number = 0
            while not enough.is_set():
                number += 1
                write(client, number)
            return number

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(keep_writing)
            try:
                seen = [read(client) for _ in range(READS)]
            finally:
                enough.set()
            written = writing.result()

    assert all(len(set(numbers)) == 1 for numbers in seen), seen
    assert 1 < len({numbers[0] for numbers in seen}) <= written + 1


def write(client: Any, number: int) -> None:
    puts = [{"Put": {"TableName": "Accounts", "Item": {**key, "number": number}}} for key in KEYS]
    client.transact_write_items(TransactItems=puts)


def read(client: Any) -> list[int]:
    gets = [{"Get": {"TableName": "Accounts", "Key": key}} for key in KEYS]
    return [
        response["Item"]["number"] for response in client.transact_get_items(TransactItems=gets)["Responses"]
    ]
