"""A restore whose server is killed with SIGKILL, again and again, has the items of its moment in the end."""

import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from foldb.model.values import dump
from tests.support.served import Process
from tests.support.tables import table_request

BATCH = 25


def client_of(url: str) -> Any:
    return boto3.client(
        "dynamodb",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
        config=Config(retries={"total_max_attempts": 1}, read_timeout=20),
    )


def fill(client: Any, items: int, value: str) -> None:
    """Write items of about 500 bytes: a page of the copy has 2,000."""

    def write(first: int) -> None:
        puts = [
            {"PutRequest": {"Item": {"pk": {"S": f"k{n}"}, "g": {"S": f"g{n % 9}"}, "v": {"S": value * 50}}}}
            for n in range(first, first + BATCH)
        ]
        client.batch_write_item(RequestItems={"Source": puts})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(0, items, BATCH)))


def digests(client: Any, table: str, index: str | None = None) -> set[bytes]:
    read = {"TableName": table} | ({} if index is None else {"IndexName": index})
    pages = client.get_paginator("scan").paginate(**read)
    return {blake2b(dump(item), digest_size=16).digest() for page in pages for item in page["Items"]}


def items_of(client: Any, table: str) -> int:
    """Return the number of items, or the most there can be when the table is ACTIVE."""
    described = client.describe_table(TableName=table)["Table"]
    return 1 << 62 if described["TableStatus"] == "ACTIVE" else int(described["ItemCount"])


@pytest.mark.soak
@pytest.mark.parametrize(("partitions", "kills"), [(1, 3), (4, 3)])
def test_a_killed_restore_continues(tmp_path: Path, partitions: int, kills: int) -> None:
    items = 20_000
    options = ("--partitions", str(partitions))
    with Process(tmp_path / "data", *options) as server:
        client = client_of(server.url)
        client.create_table(**table_request("Source", "pk:S", gsi={"by-g": "g:S"}))
        fill(client, items, "right item")
        right = digests(client, "Source")
        backup = client.create_backup(TableName="Source", BackupName="right")["BackupDetails"]["BackupArn"]
        fill(client, items // 2, "wrong item")
        client.restore_table_from_backup(TargetTableName="Restored", BackupArn=backup)
        copied = wait_for_more(client, 0)
    for _ in range(kills):
        with Process(tmp_path / "data") as server:
            copied = wait_for_more(client_of(server.url), copied)

    with Process(tmp_path / "data") as server:
        client = client_of(server.url)
        wait_for_more(client, 1 << 61)
        assert right == digests(client, "Restored") == digests(client, "Restored", "by-g")
        assert len(right) == items
        server.terminate()


def wait_for_more(client: Any, before: int) -> int:
    """Wait until the copy has more items than `before`, and return their number."""
    until = time.monotonic() + 60
    while (found := items_of(client, "Restored")) <= before and found < 1 << 62:
        assert time.monotonic() < until, f"the restore stopped at {found} items"
        time.sleep(0.01)
    return found
