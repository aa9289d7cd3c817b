"""The operations on tables, through boto3."""

import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

import foldb
from foldb.model.throughput import partition_map
from tests.support.raw import ask
from tests.support.served import served
from tests.support.tables import MakeTable, table_request
from tests.verification.fuzz.inside import Inside

UNITS = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 5}
ARN = "arn:aws:dynamodb:us-east-1:000000000000:table/"


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


def code_of(error: pytest.ExceptionInfo[ClientError]) -> str:
    code: str = error.value.response["Error"]["Code"]
    return code


@pytest.mark.spec("S85", "S88", "S31")
def test_a_created_table_is_described(client: Any, name: str) -> None:
    request = table_request(
        name,
        "Artist:S",
        "Song:S",
        gsi={"Genres": "Genre:S Album:S KEYS_ONLY"},
        lsi={"Years": "Year:N Album,Label"},
    )
    created = client.create_table(**request)["TableDescription"]
    described = client.describe_table(TableName=name)["Table"]
    client.delete_table(TableName=name)

    assert ["CREATING", "ACTIVE"] == [created["TableStatus"], described["TableStatus"]]
    assert request["AttributeDefinitions"] == described["AttributeDefinitions"]
    assert request["KeySchema"] == described["KeySchema"]
    assert (ARN + name, 0, 0) == (described["TableArn"], described["ItemCount"], described["TableSizeBytes"])
    assert abs(described["CreationDateTime"] - datetime.now(UTC)) < timedelta(minutes=1)
    assert 4 == uuid.UUID(described["TableId"]).version
    assert "PAY_PER_REQUEST" == described["BillingModeSummary"]["BillingMode"]
    (genres,), (years,) = described["GlobalSecondaryIndexes"], described["LocalSecondaryIndexes"]
    assert ("Genres", "ACTIVE", False) == (
        genres["IndexName"],
        genres["IndexStatus"],
        genres.get("Backfilling", False),
    )
    assert {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["Album", "Label"]} == years["Projection"]
    assert f"{ARN}{name}/index/Years" == years["IndexArn"]


@pytest.mark.spec("S88")
def test_counts_are_exact(client: Any, make_table: MakeTable) -> None:
    table = make_table("pk:S", gsi={"Genres": "Genre:S KEYS_ONLY"})
    table.put_item(Item={"pk": "a", "Genre": "Rock"})
    table.put_item(Item={"pk": "b"})

    described = client.describe_table(TableName=table.name)["Table"]

    assert (2, 200 + 15) == (described["ItemCount"], described["TableSizeBytes"])
    (genres,) = described["GlobalSecondaryIndexes"]
    assert (1, 100 + 12) == (genres["ItemCount"], genres["IndexSizeBytes"])


def test_a_table_may_be_meant_by_its_arn(client: Any, make_table: MakeTable) -> None:
    table = make_table("pk:S")

    assert table.name == client.describe_table(TableName=ARN + table.name)["Table"]["TableName"]


@pytest.mark.spec("S85")
def test_a_name_is_taken_once(client: Any, make_table: MakeTable) -> None:
    table = make_table("pk:S")
    with pytest.raises(ClientError) as error:
        client.create_table(**table_request(table.name, "pk:S"))

    assert "ResourceInUseException" == code_of(error)
    assert f"Table already exists: {table.name}" == error.value.response["Error"]["Message"]


@pytest.mark.spec("S85")
@pytest.mark.parametrize("kind", ["S", "N"])
def test_an_attribute_is_defined_once(client: Any, name: str, kind: str) -> None:
    request = table_request(name, "Artist:S")
    request["AttributeDefinitions"].append({"AttributeName": "Artist", "AttributeType": kind})
    with pytest.raises(ClientError) as refused:
        client.create_table(**request)
    error = refused.value.response["Error"]
    assert ("ValidationException", "Attribute Name is duplicated: Artist") == (
        error["Code"],
        error["Message"],
    )


def index_on(name: str, attribute: str, **projection: Any) -> dict[str, Any]:
    return {
        "IndexName": name,
        "KeySchema": [{"AttributeName": attribute, "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL", **projection},
    }


@pytest.mark.spec("S86")
@pytest.mark.parametrize(
    ("definitions", "text"),
    [
        ({}, "AttributeDefinitions is not specified for index: more"),
        (
            {"AttributeDefinitions": [{"AttributeName": "other", "AttributeType": "S"}]},
            "Some index key attributes are not defined in AttributeDefinitions. "
            "Keys: [Genre], AttributeDefinitions: [other]",
        ),
    ],
)
def test_a_new_index_needs_its_key_definitions_in_the_request(
    client: Any, make_table: MakeTable, definitions: dict[str, Any], text: str
) -> None:
    """Also where the attribute is a key elsewhere in the table."""
    table = make_table("Artist:S", gsi={"Genres": "Genre:S"})
    with pytest.raises(ClientError) as refused:
        client.update_table(
            TableName=table.name,
            GlobalSecondaryIndexUpdates=[{"Create": index_on("more", "Genre")}],
            **definitions,
        )

    assert {
        "Code": "ValidationException",
        "Message": f"One or more parameter values were invalid: {text}",
    } == refused.value.response["Error"]


@pytest.mark.spec("S86")
def test_definitions_that_no_new_index_uses_are_dropped(client: Any, make_table: MakeTable) -> None:
    """Also one that would change the type of a key: the table's own stays."""
    table = make_table("Artist:S")
    client.update_table(
        TableName=table.name,
        AttributeDefinitions=[
            {"AttributeName": "Artist", "AttributeType": "N"},
            {"AttributeName": "Genre", "AttributeType": "S"},
            {"AttributeName": "unused", "AttributeType": "S"},
        ],
        GlobalSecondaryIndexUpdates=[{"Create": index_on("Genres", "Genre")}],
    )

    described = client.describe_table(TableName=table.name)["Table"]
    assert {"Artist": "S", "Genre": "S"} == {
        each["AttributeName"]: each["AttributeType"] for each in described["AttributeDefinitions"]
    }


@pytest.mark.spec("S86")
def test_an_index_names_an_attribute_of_its_projection_once(client: Any, make_table: MakeTable) -> None:
    table = make_table("Artist:S", "Song:S")
    twice = {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["a", "b", "a"]}
    local = index_on("local", "Artist", **twice)
    local["KeySchema"] = [*local["KeySchema"], {"AttributeName": "Year", "KeyType": "RANGE"}]
    request = table_request("Refused", "Artist:S", "Song:S")
    request["AttributeDefinitions"].append({"AttributeName": "Year", "AttributeType": "N"})
    message = "One or more parameter values were invalid: Duplicate element in NonKeyAttributes: a"
    with pytest.raises(ClientError) as refused:
        client.update_table(
            TableName=table.name,
            AttributeDefinitions=[{"AttributeName": "Genre", "AttributeType": "S"}],
            GlobalSecondaryIndexUpdates=[{"Create": index_on("more", "Genre", **twice)}],
        )
    assert {"Code": "ValidationException", "Message": message} == refused.value.response["Error"]
    with pytest.raises(ClientError) as refused:
        client.create_table(**request, LocalSecondaryIndexes=[local])
    assert {"Code": "ValidationException", "Message": message} == refused.value.response["Error"]


@pytest.mark.spec("S85")
def test_a_deleted_table_is_described_without_keys_and_indexes(client: Any, name: str) -> None:
    client.create_table(
        **table_request(name, "Artist:S", "Song:S", gsi={"Genres": "Genre:S"}, lsi={"Years": "Year:N"})
    )
    client.get_waiter("table_exists").wait(TableName=name)
    before = client.describe_table(TableName=name)["Table"]
    deleted = client.delete_table(TableName=name)["TableDescription"]

    omitted = {"AttributeDefinitions", "CreationDateTime", "KeySchema"}
    omitted |= {"GlobalSecondaryIndexes", "LocalSecondaryIndexes"}
    assert omitted == set(before) - set(deleted)
    assert ("DELETING", before["TableId"]) == (deleted["TableStatus"], deleted["TableId"])


@pytest.mark.spec("S86")
def test_an_attribute_keeps_its_type(client: Any, make_table: MakeTable) -> None:
    table = make_table("Artist:S", gsi={"Genres": "Genre:S"})
    create = {
        "IndexName": "Numbers",
        "KeySchema": [{"AttributeName": "Genre", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL"},
    }
    request = {"TableName": table.name, "GlobalSecondaryIndexUpdates": [{"Create": create}]}
    with pytest.raises(ClientError) as refused:
        client.update_table(
            **request, AttributeDefinitions=[{"AttributeName": "Genre", "AttributeType": "N"}]
        )
    error = refused.value.response["Error"]
    assert "ValidationException" == error["Code"]
    assert error["Message"].startswith(
        "One or more parameter values were invalid: Attributes cannot be redefined. "
    )
    # To repeat a definition is not to change it.
    client.update_table(**request, AttributeDefinitions=[{"AttributeName": "Genre", "AttributeType": "S"}])


@pytest.mark.spec("S87")
def test_tables_are_listed_in_pages(client: Any, make_table: MakeTable) -> None:
    made = {make_table("pk:S").name for _ in range(3)}

    listed = []
    page = client.list_tables(Limit=1)
    while True:
        assert 1 == len(page["TableNames"])
        listed += page["TableNames"]
        if "LastEvaluatedTableName" not in page:
            break
        page = client.list_tables(Limit=1, ExclusiveStartTableName=page["LastEvaluatedTableName"])

    assert sorted(listed) == listed == client.list_tables()["TableNames"]
    assert made <= set(listed)


@pytest.mark.spec("S86", "S58")
def test_throughput_and_billing_are_updated(client: Any, make_table: MakeTable) -> None:
    table = make_table("pk:S", BillingMode="PROVISIONED", ProvisionedThroughput=UNITS)
    more = {"ReadCapacityUnits": 20, "WriteCapacityUnits": 15}
    updated = client.update_table(TableName=table.name, ProvisionedThroughput=more)["TableDescription"]
    described = client.describe_table(TableName=table.name)["Table"]
    assert ["UPDATING", "ACTIVE"] == [updated["TableStatus"], described["TableStatus"]]
    assert more.items() <= described["ProvisionedThroughput"].items()
    assert "LastIncreaseDateTime" in described["ProvisionedThroughput"]

    client.update_table(TableName=table.name, BillingMode="PAY_PER_REQUEST")
    described = client.describe_table(TableName=table.name)["Table"]

    assert "PAY_PER_REQUEST" == described["BillingModeSummary"]["BillingMode"]
    assert 0 == described["ProvisionedThroughput"]["ReadCapacityUnits"]


@pytest.mark.spec("S22")
def test_an_index_is_added_filled_and_removed(client: Any, make_table: MakeTable) -> None:
    table = make_table("pk:S")
    for n in range(30):
        table.put_item(Item={"pk": f"k{n}", "Genre": "Rock" if n % 3 else "Electronic"})
    create = {
        "IndexName": "Genres",
        "KeySchema": [{"AttributeName": "Genre", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL"},
    }
    updated = client.update_table(
        TableName=table.name,
        AttributeDefinitions=[{"AttributeName": "Genre", "AttributeType": "S"}],
        GlobalSecondaryIndexUpdates=[{"Create": create}],
    )["TableDescription"]
    assert "CREATING" == updated["GlobalSecondaryIndexes"][0]["IndexStatus"]

    while (index := table_index(client, table.name))["IndexStatus"] != "ACTIVE":
        assert index["Backfilling"]
    found = client.query(
        TableName=table.name,
        IndexName="Genres",
        KeyConditionExpression="Genre = :g",
        ExpressionAttributeValues={":g": {"S": "Electronic"}},
    )
    assert (10, 30) == (found["Count"], index["ItemCount"])

    client.update_table(
        TableName=table.name, GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "Genres"}}]
    )
    described = client.describe_table(TableName=table.name)["Table"]

    assert "GlobalSecondaryIndexes" not in described
    assert [{"AttributeName": "pk", "AttributeType": "S"}] == described["AttributeDefinitions"]


def table_index(client: Any, name: str) -> Any:
    return client.describe_table(TableName=name)["Table"]["GlobalSecondaryIndexes"][0]


@pytest.mark.spec("X4")
def test_settings_are_kept_and_described(client: Any, make_table: MakeTable) -> None:
    table = make_table(
        "pk:S",
        SSESpecification={"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": "mine"},
        WarmThroughput={"ReadUnitsPerSecond": 13000, "WriteUnitsPerSecond": 5000},
        OnDemandThroughput={"MaxReadRequestUnits": 100},
        TableClass="STANDARD_INFREQUENT_ACCESS",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        DeletionProtectionEnabled=True,
    )

    described = client.describe_table(TableName=table.name)["Table"]
    with pytest.raises(ClientError, match="currently protected against deletion"):
        client.delete_table(TableName=table.name)
    client.update_table(TableName=table.name, DeletionProtectionEnabled=False)
    client.update_table(TableName=table.name, TableClass="STANDARD")
    updated = client.describe_table(TableName=table.name)["Table"]

    assert {
        "Status": "ENABLED",
        "SSEType": "KMS",
        "KMSMasterKeyArn": "arn:aws:kms:us-east-1:000000000000:key/mine",
    } == described["SSEDescription"]
    assert {"ReadUnitsPerSecond": 13000, "WriteUnitsPerSecond": 5000, "Status": "ACTIVE"} == described[
        "WarmThroughput"
    ]
    assert {"MaxReadRequestUnits": 100} == described["OnDemandThroughput"]
    assert "STANDARD_INFREQUENT_ACCESS" == described["TableClassSummary"]["TableClass"]
    assert {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"} == described["StreamSpecification"]
    assert f"{ARN}{table.name}/stream/{described['LatestStreamLabel']}" == described["LatestStreamArn"]
    assert [True, False] == [described["DeletionProtectionEnabled"], updated["DeletionProtectionEnabled"]]
    assert "STANDARD" == updated["TableClassSummary"]["TableClass"]


@pytest.mark.spec("X4")
def test_continuous_backups_are_kept_and_described(client: Any, make_table: MakeTable, name: str) -> None:
    table = make_table("pk:S")
    before = client.describe_continuous_backups(TableName=table.name)["ContinuousBackupsDescription"]
    on = {"PointInTimeRecoveryEnabled": True, "RecoveryPeriodInDays": 7}
    client.update_continuous_backups(TableName=table.name, PointInTimeRecoverySpecification=on)
    after = client.describe_continuous_backups(TableName=table.name)["ContinuousBackupsDescription"]

    assert {"PointInTimeRecoveryStatus": "DISABLED"} == before["PointInTimeRecoveryDescription"]
    recovery = after["PointInTimeRecoveryDescription"]
    assert ("ENABLED", 7) == (recovery["PointInTimeRecoveryStatus"], recovery["RecoveryPeriodInDays"])
    assert recovery["EarliestRestorableDateTime"] <= recovery["LatestRestorableDateTime"]
    with pytest.raises(ClientError) as error:
        client.describe_continuous_backups(TableName=name)
    assert "TableNotFoundException" == code_of(error)


@pytest.mark.spec("X1")
def test_time_to_live_is_described(client: Any, make_table: MakeTable) -> None:
    table = make_table("pk:S")
    described = client.describe_time_to_live(TableName=table.name)["TimeToLiveDescription"]
    assert {"TimeToLiveStatus": "DISABLED"} == described

    specification = {"Enabled": True, "AttributeName": "expires"}
    answered = client.update_time_to_live(TableName=table.name, TimeToLiveSpecification=specification)

    assert specification == answered["TimeToLiveSpecification"]
    described = client.describe_time_to_live(TableName=table.name)["TimeToLiveDescription"]
    assert {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires"} == described
    with pytest.raises(ClientError, match="TimeToLive is already enabled"):
        client.update_time_to_live(TableName=table.name, TimeToLiveSpecification=specification)


@pytest.mark.spec("X2")
def test_tags_are_listed_in_pages(client: Any, make_table: MakeTable) -> None:
    table = make_table("pk:S", Tags=[{"Key": f"k{n:02}", "Value": "x"} for n in range(12)])
    arn = ARN + table.name
    client.tag_resource(ResourceArn=arn, Tags=[{"Key": "k00", "Value": "y"}])
    client.untag_resource(ResourceArn=arn, TagKeys=["k01", "nope"])

    first = client.list_tags_of_resource(ResourceArn=arn)
    second = client.list_tags_of_resource(ResourceArn=arn, NextToken=first["NextToken"])

    assert {"Key": "k00", "Value": "y"} == first["Tags"][0]
    assert [10, 1] == [len(first["Tags"]), len(second["Tags"])]
    assert "NextToken" not in second


@pytest.mark.spec("X2")
@pytest.mark.parametrize(
    ("operation", "more"), [("Tag", {"Tags": [{"Key": "k", "Value": "v"}]}), ("Untag", {"TagKeys": ["k"]})]
)
def test_tagging_is_answered_with_an_empty_body(
    endpoint: str, make_table: MakeTable, operation: str, more: dict[str, Any]
) -> None:
    answer = ask(endpoint, f"{operation}Resource", {"ResourceArn": ARN + make_table("pk:S").name, **more})

    assert (200, b"") == (answer.status, answer.data)
    assert ("0", "0") == (answer.headers["Content-Length"], answer.headers["x-amz-crc32"])


@pytest.mark.spec("X2")
@pytest.mark.parametrize("text", ["a#b", "100%", "a,b", "it's", "~a", "\U0001f511", "a\tb"])
def test_a_tag_has_letters_digits_spaces_and_a_few_signs(
    client: Any, make_table: MakeTable, text: str
) -> None:
    table = make_table("pk:S")
    for tag, member in (
        ({"Key": text, "Value": "v"}, "Key"),
        ({"Key": "good", "Value": text}, "Value"),
    ):
        with pytest.raises(ClientError) as refused:
            client.tag_resource(ResourceArn=ARN + table.name, Tags=[{"Key": "ok", "Value": "v"}, tag])
        assert {
            "Code": "ValidationException",
            "Message": f"The Tag {member} provided is invalid, {member}: {text}",
        } == refused.value.response["Error"]
        with pytest.raises(ClientError, match="provided is invalid"):
            client.create_table(**table_request("Refused", "pk:S", Tags=[tag]))

    assert [] == client.list_tags_of_resource(ResourceArn=ARN + table.name)["Tags"]


@pytest.mark.spec("X2")
def test_a_tag_may_be_of_any_script(client: Any, make_table: MakeTable) -> None:
    tags = [{"Key": "ключ 表", "Value": "a+b-c=d.e_f:g/h@i\u00a0\u3000"}, {"Key": "empty", "Value": ""}]
    table = make_table("pk:S", Tags=tags)

    assert tags == client.list_tags_of_resource(ResourceArn=ARN + table.name)["Tags"][::-1]


@pytest.mark.spec("X2")
def test_tags_of_an_arn_that_is_no_table_are_refused(client: Any, name: str) -> None:
    tags = [{"Key": "k", "Value": "v"}]
    with pytest.raises(ClientError) as error:
        client.tag_resource(ResourceArn="not-an-arn", Tags=tags)
    assert "ValidationException" == code_of(error)
    with pytest.raises(ClientError) as error:
        client.tag_resource(ResourceArn=ARN + name, Tags=tags)
    assert "ResourceNotFoundException" == code_of(error)
    with pytest.raises(ClientError) as error:
        client.list_tags_of_resource(ResourceArn=ARN + name)
    assert "AccessDeniedException" == code_of(error)


@pytest.mark.spec("S104")
def test_the_limits_are_enforced(client: Any, name: str) -> None:
    limits = client.describe_limits()
    assert (80_000, 40_000) == (limits["AccountMaxReadCapacityUnits"], limits["TableMaxWriteCapacityUnits"])

    units = {"ReadCapacityUnits": 1, "WriteCapacityUnits": limits["TableMaxWriteCapacityUnits"] + 1}
    with pytest.raises(ClientError) as error:
        client.create_table(
            **table_request(name, "pk:S", BillingMode="PROVISIONED", ProvisionedThroughput=units)
        )

    assert "LimitExceededException" == code_of(error)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_describe_endpoints_returns_the_address_of_the_server(host: str) -> None:
    with foldb.serve(host=host) as server:
        answer = ask(server.endpoint_url, "DescribeEndpoints", {})

    (described,) = answer.body["Endpoints"]
    assert server.endpoint_url == f"http://{described['Address']}"


@pytest.mark.parametrize(
    "operation", ["describe_table", "delete_table", "update_table", "describe_time_to_live"]
)
def test_a_table_must_be_there(client: Any, name: str, operation: str) -> None:
    more = {"DeletionProtectionEnabled": True} if operation == "update_table" else {}
    with pytest.raises(ClientError) as error:
        getattr(client, operation)(TableName=name, **more)

    assert "ResourceNotFoundException" == code_of(error)
    assert (
        f"Requested resource not found: Table: {name} not found" == error.value.response["Error"]["Message"]
    )


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Any]:
    """A client of a server whose tables take their time."""
    with served(tmp_path, "--table-delay", "1s") as url:
        client = boto3.client("dynamodb", endpoint_url=url)
        yield client
        client.close()


@pytest.mark.spec("S85", "S86")
def test_with_a_delay_a_table_goes_through_its_states(slow: Any) -> None:
    slow.create_table(**table_request("Slow", "pk:S"))
    assert "CREATING" == slow.describe_table(TableName="Slow")["Table"]["TableStatus"]
    with pytest.raises(ClientError) as error:
        slow.delete_table(TableName="Slow")
    assert "ResourceInUseException" == code_of(error)
    slow.get_waiter("table_exists").wait(TableName="Slow", WaiterConfig={"Delay": 0.05, "MaxAttempts": 100})

    slow.update_table(TableName="Slow", TableClass="STANDARD")
    assert "UPDATING" == slow.describe_table(TableName="Slow")["Table"]["TableStatus"]
    slow.put_item(TableName="Slow", Item={"pk": {"S": "a"}})
    slow.get_waiter("table_exists").wait(TableName="Slow", WaiterConfig={"Delay": 0.05, "MaxAttempts": 100})

    slow.delete_table(TableName="Slow")
    assert "DELETING" == slow.describe_table(TableName="Slow")["Table"]["TableStatus"]
    slow.get_waiter("table_not_exists").wait(
        TableName="Slow", WaiterConfig={"Delay": 0.05, "MaxAttempts": 100}
    )


@pytest.mark.parametrize("delay_ms", [0, 1000])
def test_a_clock_behind_log_time_hides_no_table(delay_ms: int) -> None:
    """A log may have been written by a clock that was ahead of the present one."""
    inside = Inside()
    inside.node.settings = replace(inside.node.settings, control_plane_delay_ms=delay_ms)
    inside.ask("CreateTable", table_request("Early", "pk:S"))
    inside.node.clock = lambda: inside.node.state.log_time - 41_000

    status, answer = inside.ask("DescribeTable", {"TableName": "Early"})
    inside.close()
    assert (200, "ACTIVE") == (status, answer["Table"]["TableStatus"])


@pytest.mark.spec("S89")
def test_a_delayed_control_plane_hides_a_new_table_at_first(tmp_path: Path) -> None:
    with served(tmp_path, "--control-plane-delay", "300ms") as url:
        late = boto3.client("dynamodb", endpoint_url=url)
        late.create_table(**table_request("Late", "pk:S"))
        with pytest.raises(late.exceptions.ResourceNotFoundException):
            late.describe_table(TableName="Late")

        late.get_waiter("table_exists").wait(
            TableName="Late", WaiterConfig={"Delay": 0.05, "MaxAttempts": 100}
        )
        late.close()


@pytest.mark.parametrize(("level", "partitions"), [(4, 6), (5, 1)])
def test_partitions_are_kept_in_logs_that_can_have_splits(level: int, partitions: int) -> None:
    """Below level 5 older releases read the log, and fold the request without the member that keeps them."""
    inside = Inside(throttle=True)
    inside.ask(
        "CreateTable",
        table_request("Orders", "pk:S", BillingMode="PROVISIONED", ProvisionedThroughput=UNITS),
    )
    inside.node.state.level = level

    more = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 5500}
    inside.ask("UpdateTable", {"TableName": "Orders", "ProvisionedThroughput": more})

    [table] = inside.node.state.tables.values()
    assert partitions == len(partition_map(table.definition, table.definition).partitions)
