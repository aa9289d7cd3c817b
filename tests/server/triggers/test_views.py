"""Files of SQLite as the server has them made: what stands beside each other in one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

import foldb
from tests.raw import ask
from tests.subscribed import subscribe
from tests.tables import table_request

SHOP = {"Kind": "sqlite", "Database": "shop"}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """Of a server with the tables `Orders` and `orders`."""
    with foldb.serve(tmp_path, fsync="never") as server:
        client = boto3.client("dynamodb", **server.boto3)
        for name in ("Orders", "orders"):
            client.create_table(**table_request(name, "pk:S"))
        yield server.endpoint_url
        client.close()


def create(url: str, name: str, sink: dict[str, Any], *tables: str) -> tuple[int, str]:
    request = {"Name": name, "TableNames": tables, "Sink": sink}
    answer = ask(url, "Foldb_20261121.CreateSubscription", request)
    return answer.status, str(answer.body)


def test_tables_that_sqlite_takes_for_one_are_not_kept_in_one_file(url: str) -> None:
    """Whether by one subscription or by two; where no file is named it has the subscription's name."""
    status, says = create(url, "both", SHOP, "Orders", "orders")
    assert 400 == status
    assert "Orders and orders are one name to SQLite" in says
    subscribe(url, "one", "Orders", SHOP)

    assert 400 == create(url, "two", SHOP, "orders")[0]
    assert 400 == create(url, "shop", {"Kind": "sqlite"}, "orders")[0]
    subscribe(url, "two", "orders", {"Kind": "sqlite"})
    subscribe(url, "three", "Orders", SHOP)
