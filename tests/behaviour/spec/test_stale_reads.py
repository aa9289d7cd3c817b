"""Stale reads with --read-lag and --index-lag, as boto3 sees them.

The lags are of seconds and the requests take milliseconds, so of several reads after writes one at least is stale.
"""

import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import foldb
from foldb.cli.lib.client import Client
from foldb.embedded import Server
from tests.support.tables import table_request

ROUNDS = 8
LAG_MS = 5_000
INDEX = {"TableName": "Cars", "IndexName": "by-colour"}


@pytest.fixture(scope="module", params=[1, 3], ids=["one partition", "three"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with foldb.serve(read_lag_ms=LAG_MS, index_lag_ms=LAG_MS, partitions=request.param) as server:
        yield server


@pytest.fixture
def client(server: Server, connect: Callable[[str], Any]) -> Iterator[Any]:
    client = connect(server.endpoint_url).meta.client
    client.create_table(**table_request("Cars", "pk:S", gsi={"by-colour": "colour:S"}))
    yield client
    client.delete_table(TableName="Cars")


class Lost(Exception):  # noqa: N818
    """The program did not find its own write."""


def register(client: Any, read: Callable[[Any, str], int]) -> None:
    """Put cars, and read each of them at once: the bug, unless `read` finds every earlier write."""
    for number in range(ROUNDS):
        client.put_item(TableName="Cars", Item={"pk": f"car {number}", "colour": "red"})
        if read(client, f"car {number}") != 1:
            raise Lost


def get(client: Any, key: str, **choices: Any) -> int:
    return len(client.get_item(TableName="Cars", Key={"pk": key}, **choices).keys() & {"Item"})


def batch_get(client: Any, key: str, **choices: Any) -> int:
    request = {"Cars": {"Keys": [{"pk": key}], **choices}}
    return len(client.batch_get_item(RequestItems=request)["Responses"]["Cars"])


def query(client: Any, key: str, **choices: Any) -> int:
    condition = {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": key}}
    return int(client.query(TableName="Cars", **condition, **choices)["Count"])


def scan(client: Any, key: str, **choices: Any) -> int:
    found = client.scan(TableName="Cars", **choices)["Items"]
    return sum(item["pk"] == key for item in found)


def select(client: Any, key: str, **choices: Any) -> int:
    statement = 'SELECT * FROM "Cars" WHERE pk = ?'
    return len(client.execute_statement(Statement=statement, Parameters=[key], **choices)["Items"])


def query_index(client: Any, key: str) -> int:
    condition = {"KeyConditionExpression": "colour = :c", "ExpressionAttributeValues": {":c": "red"}}
    return sum(item["pk"] == key for item in client.query(**INDEX, **condition)["Items"])


def scan_index(client: Any, key: str) -> int:
    return sum(item["pk"] == key for item in client.scan(**INDEX)["Items"])


READS: list[Callable[..., int]] = [get, batch_get, query, scan, select]
INDEX_READS: list[Callable[..., int]] = [query_index, scan_index]


@pytest.mark.guarantee("G32")
@pytest.mark.spec("S23", "S70")
@pytest.mark.parametrize("read", READS + INDEX_READS, ids=lambda read: read.__name__)
def test_a_read_after_a_write_misses_it(client: Any, read: Callable[[Any, str], int]) -> None:
    with pytest.raises(Lost):
        register(client, read)


@pytest.mark.spec("S70")
@pytest.mark.parametrize("read", READS, ids=lambda read: read.__name__)
def test_a_consistent_read_has_every_write(client: Any, read: Callable[..., int]) -> None:
    register(client, lambda client, key: read(client, key, ConsistentRead=True))


@pytest.mark.guarantee("G32")
@pytest.mark.spec("S23", "S70")
@pytest.mark.parametrize("read", READS + INDEX_READS, ids=lambda read: read.__name__)
def test_a_read_with_a_position_has_its_writes(
    client: Any, connect: Callable[[str], Any], server: Server, read: Callable[[Any, str], int]
) -> None:
    def read_at_write(client: Any, key: str) -> int:
        put = client.put_item(TableName="Cars", Item={"pk": key, "colour": "red"})
        position = put["ResponseMetadata"]["HTTPHeaders"]["x-foldb-position"]

        def ask(request: Any, **_: Any) -> None:
            request.headers["x-foldb-position"] = position

        client.meta.events.register("before-send.dynamodb", ask)
        try:
            return read(client, key)
        finally:
            client.meta.events.unregister("before-send.dynamodb", ask)

    register(client, read_at_write)


@pytest.mark.spec("S70")
def test_a_transaction_is_never_stale(client: Any) -> None:
    def transact_get(client: Any, key: str) -> int:
        get = {"Get": {"TableName": "Cars", "Key": {"pk": key}}}
        return sum("Item" in each for each in client.transact_get_items(TransactItems=[get])["Responses"])

    register(client, transact_get)


@pytest.mark.spec("S70")
def test_a_condition_is_never_stale(client: Any) -> None:
    register(client, get_after_update)


def get_after_update(client: Any, key: str) -> int:
    request = {"TableName": "Cars", "Key": {"pk": key}, "ConditionExpression": "colour = :red"}
    update = {"UpdateExpression": "SET seen = :red", "ExpressionAttributeValues": {":red": "red"}}
    return len(client.update_item(**request, **update, ReturnValues="UPDATED_NEW")["Attributes"])


@pytest.mark.guarantee("G32")
@pytest.mark.spec("S23")
def test_after_a_wait_no_read_misses_the_write(connect: Callable[[str], Any]) -> None:
    with foldb.serve(read_lag_ms=300, index_lag_ms=300, partitions=2) as server:
        client = connect(server.endpoint_url).meta.client
        client.create_table(**table_request("Cars", "pk:S", gsi={"by-colour": "colour:S"}))
        put = client.put_item(TableName="Cars", Item={"pk": "car", "colour": "red"})
        position = put["ResponseMetadata"]["HTTPHeaders"]["x-foldb-position"]
        with closing(Client(server.endpoint_url)) as admin:
            admin.admin("Wait", {"Position": position})

        assert [1] * 16 == [read(client, "car") for read in (get, query_index) for _ in range(8)]


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_server_begins_with_the_state_of_its_start(
    tmp_path: Path, connect: Callable[[str], Any], partitions: int
) -> None:
    """The log is folded at the start; its last writes are no older than the lag, and are shown at once."""
    with foldb.serve(tmp_path, partitions=partitions) as server:
        client = connect(server.endpoint_url).meta.client
        client.create_table(**table_request("Cars", "pk:S", gsi={"by-colour": "colour:S"}))
        client.put_item(TableName="Cars", Item={"pk": "car", "colour": "red"})
    with foldb.serve(tmp_path, read_lag_ms=LAG_MS, index_lag_ms=LAG_MS) as server:
        client = connect(server.endpoint_url).meta.client

        assert [1] * ROUNDS == [get(client, "car") for _ in range(ROUNDS)]
        with pytest.raises(Lost):
            register(client, get)


def test_a_new_table_can_be_read_at_once(client: Any, server: Server) -> None:
    name = "Bikes"
    client.create_table(**table_request(name, "pk:S"))
    for _ in range(ROUNDS):
        assert 0 == client.scan(TableName=name)["Count"]
    client.delete_table(TableName=name)


def test_the_lag_is_a_metric(client: Any, server: Server) -> None:
    before = figures(server)
    client.put_item(TableName="Cars", Item={"pk": "a", "colour": "red"})
    for _ in range(ROUNDS):
        get(client, "a")
        query_index(client, "a")
    after = figures(server)

    for of in ("tables", "indexes"):
        assert LAG_MS / 1000 == after["foldb_read_lag_limit_seconds", of]
        assert ROUNDS == after["foldb_lagging_reads_total", of] - before["foldb_lagging_reads_total", of]
        stale = after["foldb_stale_reads_total", of] - before["foldb_stale_reads_total", of]
        lag_s = after["foldb_read_lag_seconds_total", of] - before["foldb_read_lag_seconds_total", of]
        assert 1 <= stale <= ROUNDS
        assert 0 < lag_s <= ROUNDS * LAG_MS / 1000


def figures(server: Server) -> dict[tuple[str, str], float]:
    """Return the metrics of reads with a lag; of counts the sum over partitions."""
    with urllib.request.urlopen(f"{server.endpoint_url}/metrics") as page:
        families = list(text_string_to_metric_families(page.read().decode()))
    found: dict[tuple[str, str], float] = {}
    for sample in (each for family in families for each in family.samples if "of" in each.labels):
        key = sample.name, sample.labels["of"]
        found[key] = sample.value + (0 if key[0].endswith("limit_seconds") else found.get(key, 0))
    return found
