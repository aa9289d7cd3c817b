"""SQLite files that several subscriptions write."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
import pytest

import foldb
from tests.support.raw import ask
from tests.support.subscribed import operate, settle, subscribe
from tests.support.tables import table_request

SHOP = {"Kind": "sqlite", "Database": "shop"}
FROM_SNAPSHOT = {"At": "SNAPSHOT"}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Any]:
    """A client of a server with the tables `Orders` and `orders`."""
    with foldb.serve(tmp_path, fsync="never") as server:
        client = boto3.client("dynamodb", **server.boto3)
        for name in ("Orders", "orders"):
            client.create_table(**table_request(name, "pk:S"))
        yield client
        client.close()


@pytest.fixture
def url(client: Any) -> str:
    return str(client.meta.endpoint_url)


def rows(folder: Path) -> set[str]:
    """Return the keys in the view `Orders`."""
    with closing(sqlite3.connect(folder / "sqlite" / "shop.db")) as connection:
        return {pk for (pk,) in connection.execute("SELECT pk FROM Orders")}


def create(url: str, name: str, sink: dict[str, Any], *tables: str) -> tuple[int, str]:
    request = {"Name": name, "TableNames": tables, "Sink": sink}
    answer = ask(url, "Foldb_20261121.CreateSubscription", request)
    return answer.status, str(answer.body)


def test_tables_that_sqlite_takes_for_one_are_not_kept_in_one_file(url: str) -> None:
    """This holds for one subscription and for two. The default file has the subscription's name."""
    status, says = create(url, "both", SHOP, "Orders", "orders")
    assert 400 == status
    assert "Orders and orders are one name to SQLite" in says
    subscribe(url, "one", "Orders", SHOP)

    assert 400 == create(url, "two", SHOP, "orders")[0]
    assert 400 == create(url, "shop", {"Kind": "sqlite"}, "orders")[0]
    subscribe(url, "two", "orders", {"Kind": "sqlite"})
    subscribe(url, "three", "Orders", SHOP)


def put(client: Any, *keys: str) -> None:
    """Put items, and wait until the file has them."""
    for key in keys:
        client.put_item(TableName="Orders", Item={"pk": {"S": key}})
    settle(client.meta.endpoint_url)


def test_a_trigger_restored_from_a_snapshot_shows_no_removed_setting(
    client: Any, url: str, tmp_path: Path
) -> None:
    subscribe(url, "one", "Orders", SHOP, Start=FROM_SNAPSHOT)
    put(client, "a", "b", "c")
    operate(url, "RemoveSubscription", Name="one")
    client.delete_item(TableName="Orders", Key={"pk": {"S": "b"}})
    subscribe(url, "one", "Orders", SHOP, Start=FROM_SNAPSHOT)
    put(client, "d")
    assert {"a", "c", "d"} == rows(tmp_path)

    operate(url, "PauseSubscription", Name="one")
    operate(url, "ResumeSubscription", Name="one")
    put(client, "e")
    assert {"a", "c", "d", "e"} == rows(tmp_path), "what goes on keeps what is there"


def test_a_view_that_another_trigger_keeps_too_is_not_emptied(client: Any, url: str, tmp_path: Path) -> None:
    """The other trigger does not receive its changes again."""
    subscribe(url, "all", "Orders", SHOP)
    put(client, "a", "b")
    but_b = {"Expression": "NEW.pk <> :b", "ExpressionAttributeValues": {":b": {"S": "b"}}}
    subscribe(url, "some", "Orders", SHOP, Start=FROM_SNAPSHOT, Filter=but_b)
    put(client, "c")

    assert {"a", "b", "c"} == rows(tmp_path)
