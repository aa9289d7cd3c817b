"""Creating, changing, listing, describing and deleting tables."""

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import foldb
from tests.support.claims import invalid, refused
from tests.support.tables import MakeTable, table_request


@pytest.fixture
def unhurried(connect: Callable[[str], Any]) -> Iterator[Any]:
    """boto3's client of a server whose tables take their time, as DynamoDB's do."""
    with foldb.serve(table_delay_ms=60_000) as server:
        yield connect(server.endpoint_url).meta.client


@pytest.mark.spec("S85")
def test_a_table_is_creating_and_then_active(connect: Callable[[str], Any]) -> None:
    with foldb.serve(table_delay_ms=200) as server:
        client = connect(server.endpoint_url).meta.client
        created = client.create_table(**table_request("Orders", "pk:S"))["TableDescription"]
        with refused("ResourceNotFoundException"):
            client.put_item(TableName="Orders", Item={"pk": "a"})
        client.get_waiter("table_exists").wait(TableName="Orders", WaiterConfig={"Delay": 1})
        client.put_item(TableName="Orders", Item={"pk": "a"})

        assert "CREATING" == created["TableStatus"]
        assert "ACTIVE" == client.describe_table(TableName="Orders")["Table"]["TableStatus"]


@pytest.mark.spec("S85")
def test_a_table_without_delay_is_active_at_once(client: Any) -> None:
    name = f"t-{uuid.uuid4().hex}"
    client.create_table(**table_request(name, "pk:S"))

    assert "ACTIVE" == client.describe_table(TableName=name)["Table"]["TableStatus"]
    client.delete_table(TableName=name)
    with refused("ResourceNotFoundException", f"Requested resource not found: Table: {name} not found"):
        client.describe_table(TableName=name)


@pytest.mark.spec("S85")
def test_a_creating_table_can_be_neither_recreated_nor_changed(unhurried: Any) -> None:
    unhurried.create_table(**table_request("Orders", "pk:S"))

    with refused("ResourceInUseException", "Table already exists: Orders"):
        unhurried.create_table(**table_request("Orders", "pk:S"))
    with refused("ResourceInUseException"):
        unhurried.update_table(TableName="Orders", DeletionProtectionEnabled=True)


@pytest.mark.spec("S85")
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"BillingMode": "PROVISIONED"}, "ReadCapacityUnits and WriteCapacityUnits must both be specified"),
        (
            {"KeySchema": [{"AttributeName": "other", "KeyType": "HASH"}]},
            "Some index key attributes are not defined",
        ),
        (
            {"AttributeDefinitions": [{"AttributeName": n, "AttributeType": "S"} for n in ("pk", "x")]},
            "AttributeDefinitions",
        ),
    ],
    ids=["no-throughput", "a-key-without-a-type", "a-type-without-a-key"],
)
def test_a_request_for_a_table_has_to_make_sense(client: Any, change: dict[str, Any], text: str) -> None:
    with invalid(text):
        client.create_table(**table_request("senseless", "pk:S") | change)


UNITS = {"ReadCapacityUnits": 7, "WriteCapacityUnits": 3}


@pytest.mark.spec("S86")
def test_a_table_is_fully_usable_while_it_is_updating(connect: Callable[[str], Any]) -> None:
    with foldb.serve(table_delay_ms=1000) as server:
        client = connect(server.endpoint_url).meta.client
        wait = client.get_waiter("table_exists").wait
        client.create_table(**table_request("Orders", "pk:S"))
        wait(TableName="Orders", WaiterConfig={"Delay": 1})
        updated = client.update_table(
            TableName="Orders", BillingMode="PROVISIONED", ProvisionedThroughput=UNITS
        )
        client.put_item(TableName="Orders", Item={"pk": "a"})
        found = client.get_item(TableName="Orders", Key={"pk": "a"}, ConsistentRead=True)["Item"]
        status = client.describe_table(TableName="Orders")["Table"]["TableStatus"]
        wait(TableName="Orders", WaiterConfig={"Delay": 1})

        assert ("UPDATING", "UPDATING") == (updated["TableDescription"]["TableStatus"], status)
        assert {"pk": "a"} == found
        assert (
            7
            == client.describe_table(TableName="Orders")["Table"]["ProvisionedThroughput"][
                "ReadCapacityUnits"
            ]
        )


@pytest.mark.spec("S86")
def test_update_table_changes_its_settings(make_table: MakeTable) -> None:
    table = make_table("pk:S")
    client = table.meta.client
    client.update_table(TableName=table.name, BillingMode="PROVISIONED", ProvisionedThroughput=UNITS)
    client.update_table(TableName=table.name, TableClass="STANDARD_INFREQUENT_ACCESS")
    client.update_table(TableName=table.name, DeletionProtectionEnabled=True)
    described = client.describe_table(TableName=table.name)["Table"]

    assert UNITS.items() <= described["ProvisionedThroughput"].items()
    assert "STANDARD_INFREQUENT_ACCESS" == described["TableClassSummary"]["TableClass"]
    with invalid("Resource cannot be deleted as it is currently protected against deletion"):
        table.delete()
    client.update_table(TableName=table.name, DeletionProtectionEnabled=False)


ALONE = "must be the only operation in the request"
CREATED = {
    "AttributeDefinitions": [{"AttributeName": "g", "AttributeType": "S"}],
    "GlobalSecondaryIndexUpdates": [
        {
            "Create": {
                "IndexName": "new",
                "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "ALL"},
                "ProvisionedThroughput": UNITS,
            }
        }
    ],
}
DELETED = {"GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "by-h"}}]}
ENCRYPTION = {"SSESpecification": {"Enabled": True, "SSEType": "KMS"}}
CLASS = {"TableClass": "STANDARD_INFREQUENT_ACCESS"}
PROTECTION = {"DeletionProtectionEnabled": True}
WARM = {"WarmThroughput": {"ReadUnitsPerSecond": 13_000}}
STREAM = {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}}
MAXIMUM = {"OnDemandThroughput": {"MaxReadRequestUnits": 10}}
PROVISION = {"BillingMode": "PROVISIONED", "ProvisionedThroughput": UNITS}


@pytest.mark.spec("S86")
@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (ENCRYPTION, CLASS, f"Server-Side Encryption modification {ALONE}"),
        (PROTECTION, CLASS, f"TableClass modification {ALONE}"),
        (PROTECTION, STREAM, f"DeletionProtection modification {ALONE}"),
        (PROTECTION, CREATED, f"DeletionProtection modification {ALONE}"),
        (WARM, PROTECTION, f"DeletionProtection modification {ALONE}"),
        (WARM, STREAM, f"WarmThroughput {ALONE}"),
        (WARM, CREATED, "Create global secondary index cannot be specified when updating WarmThroughput"),
        (
            MAXIMUM,
            STREAM,
            "OnDemandThroughput can only be combined with BillingMode in an UpdateTable request",
        ),
        (PROVISION, STREAM, "You cannot modify stream status while updating table IOPS"),
        (PROVISION, CREATED, "You cannot create or delete index while updating table IOPS"),
        (PROVISION, DELETED, "You cannot create or delete index while updating table IOPS"),
        (STREAM, CREATED, "You cannot create or delete index while changing stream status"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_changes_that_exclude_each_other_are_refused(
    make_table: MakeTable, first: dict[str, Any], second: dict[str, Any], text: str
) -> None:
    """As measured against DynamoDB in 2026: a refused request changes nothing."""
    table = make_table("pk:S", gsi={"by-h": "h:S"})
    client = table.meta.client
    before = client.describe_table(TableName=table.name)["Table"]

    with invalid(f"One or more parameter values were invalid: {text}"):
        client.update_table(TableName=table.name, **first, **second)

    assert before == client.describe_table(TableName=table.name)["Table"]


@pytest.mark.spec("S86")
def test_a_table_becomes_on_demand_with_a_stream_and_a_maximum(make_table: MakeTable) -> None:
    table = make_table("pk:S", BillingMode="PROVISIONED", ProvisionedThroughput=UNITS)
    client = table.meta.client
    on_demand = {"TableName": table.name, "BillingMode": "PAY_PER_REQUEST"}

    client.update_table(**on_demand, **STREAM)
    client.update_table(**on_demand, **MAXIMUM)
    described = client.describe_table(TableName=table.name)["Table"]

    assert described["StreamSpecification"]["StreamEnabled"]
    assert 10 == described["OnDemandThroughput"]["MaxReadRequestUnits"]


@pytest.mark.spec("S86")
def test_the_same_throughput_again_is_refused(make_table: MakeTable) -> None:
    table = make_table("pk:S", BillingMode="PROVISIONED", ProvisionedThroughput=UNITS)

    with invalid("will not change"):
        table.meta.client.update_table(TableName=table.name, ProvisionedThroughput=UNITS)


@pytest.mark.spec("S87")
def test_tables_are_listed_by_name_a_hundred_at_a_time(connect: Callable[[str], Any]) -> None:
    with foldb.serve() as server:
        client = connect(server.endpoint_url).meta.client
        names = [f"table-{n:03}" for n in range(105)]
        for name in reversed(names):
            client.create_table(**table_request(name, "pk:S"))
        first = client.list_tables()
        second = client.list_tables(ExclusiveStartTableName=first["LastEvaluatedTableName"])
        few = client.list_tables(ExclusiveStartTableName="table-050", Limit=2)

        assert (names[:100], names[99]) == (first["TableNames"], first["LastEvaluatedTableName"])
        assert names[100:] == second["TableNames"]
        assert "LastEvaluatedTableName" not in second
        assert names[51:53] == few["TableNames"]
        with invalid("less than or equal to 100"):
            client.list_tables(Limit=101)


@pytest.mark.spec("S88")
def test_describe_table_returns_every_setting(make_table: MakeTable) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    table = make_table("pk:S", "sk:N", BillingMode="PROVISIONED", ProvisionedThroughput=UNITS)
    table.put_item(Item={"pk": "a", "sk": 1})
    described = table.meta.client.describe_table(TableName=table.name)["Table"]

    assert before < described["CreationDateTime"] < datetime.now(UTC) + timedelta(seconds=2)
    assert [("pk", "HASH"), ("sk", "RANGE")] == [
        (k["AttributeName"], k["KeyType"]) for k in described["KeySchema"]
    ]
    types = {a["AttributeName"]: a["AttributeType"] for a in described["AttributeDefinitions"]}
    assert {"pk": "S", "sk": "N"} == types
    assert UNITS.items() <= described["ProvisionedThroughput"].items()
    assert 0 == described["ProvisionedThroughput"]["NumberOfDecreasesToday"]
    assert (table.name, "ACTIVE") == (described["TableName"], described["TableStatus"])
    assert described["TableArn"].endswith(f":table/{table.name}")
    assert uuid.UUID(described["TableId"])
    assert (1, 100 + 3 + 4) == (described["ItemCount"], described["TableSizeBytes"])


@pytest.mark.spec("S89")
def test_describe_table_may_not_find_a_new_table_yet(connect: Callable[[str], Any]) -> None:
    with foldb.serve(control_plane_delay_ms=1000) as server:
        client = connect(server.endpoint_url).meta.client
        client.create_table(**table_request("Orders", "pk:S"))
        with refused("ResourceNotFoundException"):
            client.describe_table(TableName="Orders")
        client.get_waiter("table_exists").wait(TableName="Orders", WaiterConfig={"Delay": 1})

        assert "ACTIVE" == client.describe_table(TableName="Orders")["Table"]["TableStatus"]


@pytest.mark.spec("S104")
def test_an_account_and_a_table_have_a_largest_throughput(client: Any) -> None:
    limits = client.describe_limits()

    assert (80_000, 80_000) == (limits["AccountMaxReadCapacityUnits"], limits["AccountMaxWriteCapacityUnits"])
    assert (40_000, 40_000) == (limits["TableMaxReadCapacityUnits"], limits["TableMaxWriteCapacityUnits"])


@pytest.mark.spec("S104")
@pytest.mark.parametrize("kind", ["ReadCapacityUnits", "WriteCapacityUnits"])
def test_throughput_above_it_is_refused(make_table: MakeTable, client: Any, kind: str) -> None:
    largest = {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1, kind: 40_000}
    above = largest | {kind: 40_001}
    table = make_table("pk:S", BillingMode="PROVISIONED", ProvisionedThroughput=largest)

    text = f"The requested {kind}, 40001, is above the per table maximum for the account in us-east-1."
    with refused("LimitExceededException", text):
        client.update_table(TableName=table.name, ProvisionedThroughput=above)
    request = table_request("too-fast", "pk:S", BillingMode="PROVISIONED", ProvisionedThroughput=above)
    with refused("LimitExceededException", text):
        client.create_table(**request)
    assert "too-fast" not in client.list_tables()["TableNames"]


@pytest.mark.spec("S104")
def test_the_throughput_of_all_tables_together_is_limited(connect: Callable[[str], Any]) -> None:
    with foldb.serve() as server:
        client = connect(server.endpoint_url).meta.client

        def create(name: str, read: int) -> None:
            units = {"ReadCapacityUnits": read, "WriteCapacityUnits": 1}
            client.create_table(
                **table_request(name, "pk:S", BillingMode="PROVISIONED", ProvisionedThroughput=units)
            )

        create("first", 40_000)
        create("second", 39_999)
        with refused(
            "LimitExceededException",
            "This request would have caused the ReadCapacityUnits limit to be exceeded for the account",
        ):
            create("third", 2)
        create("fourth", 1)


@pytest.mark.spec("S104", "X4")
@pytest.mark.parametrize(
    ("setting", "text"),
    [
        (
            {"OnDemandThroughput": {"MaxReadRequestUnits": 40_001}},
            "MaxReadRequestUnits for OnDemandThroughput",
        ),
        ({"WarmThroughput": {"WriteUnitsPerSecond": 40_001}}, "WriteUnitsPerSecond for WarmThroughput"),
    ],
)
def test_bounds_and_warmth_above_it_are_refused(make_table: MakeTable, setting: Any, text: str) -> None:
    table = make_table("pk:S")

    with refused("LimitExceededException", f"Requested {text} for table exceeds TableMax"):
        table.meta.client.update_table(TableName=table.name, **setting)


@pytest.mark.spec("S100")
def test_a_table_can_be_provisioned_or_on_demand(make_table: MakeTable) -> None:
    status = make_table("deviceid:S", BillingMode="PROVISIONED", ProvisionedThroughput=UNITS)
    activity = make_table("deviceid:S", "timestamp:S")
    status.reload()
    activity.reload()

    assert "PAY_PER_REQUEST" == activity.billing_mode_summary["BillingMode"]
    assert 0 == activity.provisioned_throughput["ReadCapacityUnits"]
    assert status.billing_mode_summary is None
    assert 7 == status.provisioned_throughput["ReadCapacityUnits"]
