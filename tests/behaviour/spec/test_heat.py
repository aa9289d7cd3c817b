"""The heat of tables: the operation Heat of a served process, after requests through boto3."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

import foldb
from foldb.embedded import Server
from foldb.server.usage import sketch
from tests.support.raw import ask
from tests.support.tables import table_request

HOT, COLD = "hot", [f"cold-{n}" for n in range(20)]


@pytest.fixture(scope="module", params=[1, 3], ids=["one partition", "three"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with foldb.serve(heat=True, throttle=True, partitions=request.param) as server:
        yield server


@pytest.fixture(autouse=True)
def endless_half_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sketch, "HALF_LIFE_MS", 10**12)


@pytest.fixture(scope="module")
def unmeasured() -> Iterator[Server]:
    with foldb.serve() as server:
        yield server


@pytest.fixture
def client(server: Server, connect: Callable[[str], Any]) -> Iterator[Any]:
    client = connect(server.endpoint_url).meta.client
    yield client
    for name in client.list_tables()["TableNames"]:
        client.delete_table(TableName=name)


def heat(server: Server, **body: Any) -> dict[str, Any]:
    answer = ask(server.endpoint_url, "Foldb_20261121.Heat", body)
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.body
    return found


def parts(server: Server, **body: Any) -> dict[str, Any]:
    """Return the parts of the answer by the name of the index."""
    return {part.get("IndexName", ""): part for part in heat(server, **body)["Parts"]}


def counts(layer: dict[str, Any]) -> dict[str, Any]:
    """Return the counts by the value of the partition key."""
    return {next(iter(next(iter(key["Key"].values())).values())): key["Count"] for key in layer["Keys"]}


def rows(layer: dict[str, Any]) -> list[float]:
    """Return the sums of the rows that have traffic."""
    return [
        total for total in map(sum, zip(*(each["Rows"] for each in layer["Buckets"]), strict=True)) if total
    ]


@pytest.mark.spec("S65", "S68")
def test_one_hot_item_is_one_row_of_reads(server: Server, client: Any) -> None:
    client.create_table(**table_request("Cars", "pk:S"))
    for key in [HOT] * 100 + COLD:
        client.get_item(TableName="Cars", Key={"pk": key}, ConsistentRead=True)
    for key in COLD:
        client.get_item(TableName="Cars", Key={"pk": key})

    reads = parts(server, TableName="Cars")[""]["Reads"]

    assert 100 + 20 + 10 == reads["Total"] == sum(rows(reads))
    assert {HOT: 100, **dict.fromkeys(sorted(COLD)[:9], 1.5)} == counts(reads)
    assert 0 == reads["Error"]
    assert max(rows(reads)) >= 100 > 10 * sorted(rows(reads))[-2]


def test_every_kind_of_request_is_measured(server: Server, client: Any) -> None:
    client.create_table(**table_request("Cars", "pk:S", "sk:S", gsi={"by-g": "g:S"}))
    item = {"pk": "a", "sk": "1", "g": "red"}
    client.put_item(TableName="Cars", Item=item | {"x": "y" * 1500})  # 2 units, and of the index
    client.update_item(  # 2 units; the index has an entry removed and another put
        TableName="Cars",
        Key={"pk": "a", "sk": "1"},
        UpdateExpression="SET g = :blue",
        ExpressionAttributeValues={":blue": "blue"},
    )
    client.delete_item(TableName="Cars", Key={"pk": "b", "sk": "1"})  # 1 unit
    with pytest.raises(ClientError):  # 1 unit
        client.put_item(TableName="Cars", Item=item | {"pk": "c"}, ConditionExpression="attribute_exists(pk)")
    client.batch_write_item(RequestItems={"Cars": [{"PutRequest": {"Item": {"pk": "d", "sk": "1"}}}]})
    client.transact_write_items(
        TransactItems=[{"Put": {"TableName": "Cars", "Item": {"pk": "e", "sk": "1"}}}]
    )
    client.query(
        TableName="Cars",
        KeyConditionExpression="pk = :a",
        ExpressionAttributeValues={":a": "a"},
        ConsistentRead=True,
    )
    client.query(
        TableName="Cars",
        IndexName="by-g",
        KeyConditionExpression="g = :blue",
        ExpressionAttributeValues={":blue": "blue"},
    )
    client.batch_get_item(RequestItems={"Cars": {"Keys": [{"pk": "d", "sk": "1"}]}})
    client.transact_get_items(TransactItems=[{"Get": {"TableName": "Cars", "Key": {"pk": "e", "sk": "1"}}}])
    client.scan(TableName="Cars")  # has no partition key

    table, index = (parts(server, TableName="Cars")[name] for name in ("", "by-g"))

    assert {"a": 4, "b": 1, "c": 1, "d": 1, "e": 2} == counts(table["Writes"])
    assert {"a": 1, "d": 0.5, "e": 2} == counts(table["Reads"])
    assert {"red": 4, "blue": 2} == counts(index["Writes"])
    assert {"blue": 0.5} == counts(index["Reads"])
    assert table["Provisioned"] is None


def test_throttled_requests_are_a_layer_of_their_own(server: Server, client: Any) -> None:
    units = {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}
    request = table_request("Cars", "pk:S") | {"BillingMode": "PROVISIONED", "ProvisionedThroughput": units}
    client.create_table(**request)
    admitted = refused = 0
    while refused < 5:
        try:
            client.put_item(TableName="Cars", Item={"pk": HOT})
            admitted += 1
        except ClientError:
            refused += 1

    found = parts(server, TableName="Cars")[""]

    assert {HOT: 5} == counts(found["Throttles"])
    assert {HOT: admitted} == counts(found["Writes"])
    assert [] == found["Reads"]["Keys"]
    assert {"Reads": 1, "Writes": 1} == found["Provisioned"]
    assert [{"Slot": 0}] == found["CapacityPartitions"]


def test_all_measured_tables_are_returned_without_a_name(server: Server, client: Any) -> None:
    for name in ("Cars", "Bikes"):
        client.create_table(**table_request(name, "pk:S"))

    found = heat(server, Buckets=6, Limit=3)

    assert ["Bikes", "Cars"] == [part["TableName"] for part in found["Parts"]]
    assert [] == found["Unreachable"]


def test_contributor_insights_select_what_is_measured(
    unmeasured: Server, connect: Callable[[str], Any]
) -> None:
    client = connect(unmeasured.endpoint_url).meta.client
    client.create_table(**table_request("Cars", "pk:S", gsi={"by-g": "g:S"}))
    off = ask(unmeasured.endpoint_url, "Foldb_20261121.Heat", {"TableName": "Cars"})
    set_insights = client.update_contributor_insights
    set_insights(TableName="Cars", IndexName="by-g", ContributorInsightsAction="ENABLE")
    names = [*parts(unmeasured, TableName="Cars")]
    client.put_item(TableName="Cars", Item={"pk": "a", "g": "red"})
    of_index = parts(unmeasured, TableName="Cars")
    set_insights(
        TableName="Cars", ContributorInsightsAction="ENABLE", ContributorInsightsMode="THROTTLED_KEYS"
    )
    both = [*parts(unmeasured, TableName="Cars")]
    client.put_item(TableName="Cars", Item={"pk": "a", "g": "red", "h": 1})
    of_both = parts(unmeasured, TableName="Cars")
    for member in ({}, {"IndexName": "by-g"}):
        set_insights(TableName="Cars", ContributorInsightsAction="DISABLE", **member)

    assert 400 == off.status
    assert "The heat of Cars is not measured: enable Contributor Insights" in off.body["message"]
    assert ["by-g"] == names == [*of_index]
    assert {"red": 1} == counts(of_index["by-g"]["Writes"])
    assert ["", "by-g"] == both
    assert [] == of_both[""]["Writes"]["Keys"]
    assert {"red": 2} == counts(of_both["by-g"]["Writes"])
    assert 400 == ask(unmeasured.endpoint_url, "Foldb_20261121.Heat", {"TableName": "Cars"}).status


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"TableName": "None"}, "Requested resource not found: Table: None not found"),
        ({"BucketMs": 1}, "BucketMs must be one of 10000, 60000"),
        ({"Buckets": 61}, "Buckets must be an integer from 1 to 60"),
        ({"Limit": "all"}, "Limit must be an integer from 1 to 1000"),
        ({"TableName": 5}, "NUMBER_VALUE cannot be converted to String"),
    ],
)
def test_bad_requests_are_refused(server: Server, body: dict[str, Any], message: str) -> None:
    answer = ask(server.endpoint_url, "Foldb_20261121.Heat", body)

    assert 400 == answer.status
    assert message in str(answer.body)
