"""Time to live, tags, settings that are kept, and the wire."""

import time
from collections.abc import Callable
from typing import Any

import boto3
import pytest

import foldb
from tests.support.claims import add_index, invalid, refused
from tests.support.tables import MakeTable, table_request

YEAR = 365 * 24 * 3600


def _with_ttl(resource: Any) -> Any:
    table = resource.create_table(**table_request("Sessions", "pk:S"))
    table.meta.client.update_time_to_live(
        TableName=table.name, TimeToLiveSpecification={"AttributeName": "until", "Enabled": True}
    )
    return table


@pytest.mark.spec("X1")
def test_the_sweep_deletes_exactly_the_expired_items(connect: Callable[[str], Any]) -> None:
    now = int(time.time())
    with foldb.serve(ttl_interval_ms=20) as server:
        table = _with_ttl(connect(server.endpoint_url))
        stay = {"later": now + 3600, "long past": now - 6 * YEAR, "no number": str(now - 60), "none": None}
        for pk, until in stay.items():
            table.put_item(Item={"pk": pk, "until": until})
        table.put_item(Item={"pk": "expired", "until": now - 60})
        while "Item" in table.get_item(Key={"pk": "expired"}):
            pass

        assert sorted(stay) == sorted(item["pk"] for item in table.scan()["Items"])


@pytest.mark.spec("X1")
def test_an_expired_item_is_readable_until_the_sweep(connect: Callable[[str], Any]) -> None:
    with foldb.serve(ttl_interval_ms=0) as server:
        table = _with_ttl(connect(server.endpoint_url))
        table.put_item(Item={"pk": "expired", "until": int(time.time()) - 60})

        assert 1 == table.scan()["Count"]
        assert "Item" in table.get_item(Key={"pk": "expired"}, ConsistentRead=True)


@pytest.mark.spec("X1")
def test_time_to_live_is_described_and_switched_off(make_table: MakeTable, client: Any) -> None:
    table = make_table("pk:S")
    assert {"TimeToLiveStatus": "DISABLED"} == client.describe_time_to_live(TableName=table.name)[
        "TimeToLiveDescription"
    ]
    on = {"AttributeName": "until", "Enabled": True}
    client.update_time_to_live(TableName=table.name, TimeToLiveSpecification=on)
    described = client.describe_time_to_live(TableName=table.name)["TimeToLiveDescription"]

    assert {"TimeToLiveStatus": "ENABLED", "AttributeName": "until"} == described
    with invalid("TimeToLive is already enabled"):
        client.update_time_to_live(TableName=table.name, TimeToLiveSpecification=on)


def _tags(count: int, value: str = "v") -> list[dict[str, str]]:
    return [{"Key": f"tag{n:03}", "Value": value} for n in range(count)]


@pytest.mark.spec("X2")
def test_tags_are_put_listed_and_removed(make_table: MakeTable, client: Any) -> None:
    arn = make_table("pk:S", Tags=_tags(1, "first")).table_arn
    client.tag_resource(ResourceArn=arn, Tags=_tags(3))
    client.untag_resource(ResourceArn=arn, TagKeys=["tag001", "never there"])
    listed = client.list_tags_of_resource(ResourceArn=arn)

    assert [{"Key": "tag000", "Value": "v"}, {"Key": "tag002", "Value": "v"}] == sorted(
        listed["Tags"], key=lambda tag: str(tag["Key"])
    )


@pytest.mark.spec("X2")
def test_a_table_has_at_most_fifty_tags(make_table: MakeTable, client: Any) -> None:
    arn = make_table("pk:S").table_arn
    client.tag_resource(ResourceArn=arn, Tags=_tags(50))

    with invalid("Number of Tags exceed the current limit for the provided ResourceArn"):
        client.tag_resource(ResourceArn=arn, Tags=[{"Key": "one more", "Value": ""}])
    client.tag_resource(ResourceArn=arn, Tags=_tags(50, "another value"))
    found: list[Any] = []
    page = client.list_tags_of_resource(ResourceArn=arn)
    while "NextToken" in page:
        found += page["Tags"]
        page = client.list_tags_of_resource(ResourceArn=arn, NextToken=page["NextToken"])
    assert 50 == len(found + page["Tags"])


@pytest.mark.spec("X2")
def test_tags_belong_to_a_table_that_is_there(make_table: MakeTable, client: Any) -> None:
    arn = make_table("pk:S").table_arn

    with refused("ResourceNotFoundException"):
        client.tag_resource(ResourceArn=f"{arn}-missing", Tags=_tags(1))
    with invalid("Invalid TableArn"):
        client.list_tags_of_resource(ResourceArn="no arn")


INITIAL = {"ReadUnitsPerSecond": 12_000, "WriteUnitsPerSecond": 4_000}
WARM = {"ReadUnitsPerSecond": 13_000, "WriteUnitsPerSecond": 5_000}
BOUNDS = {"MaxReadRequestUnits": 100, "MaxWriteRequestUnits": 50}
UNITS = {"ReadCapacityUnits": 7, "WriteCapacityUnits": 3}

# Members that differ between two descriptions of an unchanged table.
COUNTED = ("CreationDateTime", "TableId", "ItemCount", "TableSizeBytes")


def _described(client: Any, table: Any) -> dict[str, Any]:
    described: dict[str, Any] = client.describe_table(TableName=table.name)["Table"]
    return {name: value for name, value in described.items() if name not in COUNTED}


@pytest.mark.spec("X4")
def test_a_table_with_every_setting_has_no_diff_after_apply(make_table: MakeTable, client: Any) -> None:
    """As Terraform's provider checks it: the description equals the request, and nothing else changes."""
    table = make_table(
        "pk:S",
        gsi={"Index": "g:S"},
        SSESpecification={
            "Enabled": True,
            "SSEType": "KMS",
            "KMSMasterKeyId": "arn:aws:kms:us-east-1:1:key/k",
        },
        OnDemandThroughput=BOUNDS,
        WarmThroughput=WARM,
        TableClass="STANDARD",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
        DeletionProtectionEnabled=True,
    )
    before = _described(client, table)
    assert {
        "SSEDescription": {
            "Status": "ENABLED",
            "SSEType": "KMS",
            "KMSMasterKeyArn": "arn:aws:kms:us-east-1:1:key/k",
        },
        "OnDemandThroughput": BOUNDS,
        "WarmThroughput": WARM | {"Status": "ACTIVE"},
        "TableClassSummary": {"TableClass": "STANDARD"},
        "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
        "DeletionProtectionEnabled": True,
    }.items() <= before.items()

    for change, after in (
        ({"DeletionProtectionEnabled": False}, {"DeletionProtectionEnabled": False}),
        ({"SSESpecification": {"Enabled": False}}, {"SSEDescription": None}),
        ({"StreamSpecification": {"StreamEnabled": False}}, {"StreamSpecification": None}),
        (
            {"WarmThroughput": {"ReadUnitsPerSecond": 14_000}},
            {"WarmThroughput": WARM | {"ReadUnitsPerSecond": 14_000, "Status": "ACTIVE"}},
        ),
        (
            {"OnDemandThroughput": {"MaxReadRequestUnits": -1}},
            {"OnDemandThroughput": {"MaxWriteRequestUnits": 50}},
        ),
        ({"OnDemandThroughput": {"MaxWriteRequestUnits": -1}}, {"OnDemandThroughput": None}),
    ):
        client.update_table(TableName=table.name, **change)
        expected = {k: v for k, v in (before | after).items() if v is not None}
        before = _described(client, table)
        assert expected == before


@pytest.mark.spec("X4")
@pytest.mark.parametrize(
    ("setting", "text"),
    [
        (
            {"WarmThroughput": {"ReadUnitsPerSecond": 11_999}},
            "Requested ReadUnitsPerSecond for WarmThroughput for table is lower than initial throughput for OnDemand",
        ),
        (
            {"OnDemandThroughput": {"MaxWriteRequestUnits": -1}},
            "Requested MaxWriteRequestUnits for OnDemandThroughput for table is outside of valid range",
        ),
        (
            {"OnDemandThroughput": BOUNDS, "BillingMode": "PROVISIONED", "ProvisionedThroughput": UNITS},
            "MaxReadRequestUnits for OnDemandThroughput cannot be specified when table BillingMode is PROVISIONED.",
        ),
        (
            {
                "WarmThroughput": {"WriteUnitsPerSecond": 2},
                "BillingMode": "PROVISIONED",
                "ProvisionedThroughput": UNITS,
            },
            "Requested WriteUnitsPerSecond for WarmThroughput for table is lower than WriteCapacityUnits",
        ),
    ],
    ids=["colder-than-any-table", "no-bound-at-first", "on-demand-provisioned", "colder-than-provisioned"],
)
def test_settings_that_cannot_be_are_refused(resource: Any, setting: dict[str, Any], text: str) -> None:
    request = table_request("no-such-setting", "pk:S", **setting)

    with invalid(text):
        resource.create_table(**request)


@pytest.mark.spec("X4")
def test_a_table_never_cools(make_table: MakeTable, client: Any) -> None:
    """The warm throughput stays, in either billing mode."""
    table = make_table("pk:S", BillingMode="PROVISIONED", ProvisionedThroughput=UNITS)

    def warm_after(**change: Any) -> tuple[int, int]:
        client.update_table(TableName=table.name, **change)
        warm = client.describe_table(TableName=table.name)["Table"]["WarmThroughput"]
        return warm["ReadUnitsPerSecond"], warm["WriteUnitsPerSecond"]

    lower = {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}
    assert (7, 3) == warm_after(ProvisionedThroughput=lower)
    with invalid("is lower than current WarmThroughput, decreasing WarmThroughput is not supported"):
        client.update_table(TableName=table.name, WarmThroughput={"ReadUnitsPerSecond": 6})
    assert (12_000, 4_000) == warm_after(BillingMode="PAY_PER_REQUEST")
    assert (12_000, 4_000) == warm_after(BillingMode="PROVISIONED", ProvisionedThroughput=lower)


@pytest.mark.spec("X4")
def test_a_global_index_has_settings_of_its_own(make_table: MakeTable, client: Any) -> None:
    table = make_table("pk:S", gsi={"Index": "g:S"})

    def described() -> dict[str, Any]:
        index: dict[str, Any] = client.describe_table(TableName=table.name)["Table"][
            "GlobalSecondaryIndexes"
        ][0]
        return {name: index.get(name) for name in ("WarmThroughput", "OnDemandThroughput")}

    def update(**change: Any) -> None:
        updates = [{"Update": {"IndexName": "Index"} | change}]
        client.update_table(TableName=table.name, GlobalSecondaryIndexUpdates=updates)

    assert {"WarmThroughput": INITIAL | {"Status": "ACTIVE"}, "OnDemandThroughput": None} == described()
    update(WarmThroughput=WARM, OnDemandThroughput=BOUNDS)
    changed = {"WarmThroughput": WARM | {"Status": "ACTIVE"}, "OnDemandThroughput": BOUNDS}
    assert changed == described()
    with invalid("Requested WriteUnitsPerSecond for WarmThroughput for index Index is lower than current"):
        update(WarmThroughput={"WriteUnitsPerSecond": 4_999})
    assert changed == described()


@pytest.mark.spec("X4")
def test_continuous_backups_are_switched_on_and_off(make_table: MakeTable, client: Any) -> None:
    table = make_table("pk:S")

    def described() -> dict[str, Any]:
        answer = client.describe_continuous_backups(TableName=table.name)["ContinuousBackupsDescription"]
        assert "ENABLED" == answer["ContinuousBackupsStatus"]
        recovery: dict[str, Any] = answer["PointInTimeRecoveryDescription"]
        return recovery

    def switch(**specification: Any) -> None:
        client.update_continuous_backups(TableName=table.name, PointInTimeRecoverySpecification=specification)

    assert {"PointInTimeRecoveryStatus": "DISABLED"} == described()
    switch(PointInTimeRecoveryEnabled=True)
    on = described()
    assert ("ENABLED", 35) == (on["PointInTimeRecoveryStatus"], on["RecoveryPeriodInDays"])
    assert on["EarliestRestorableDateTime"] <= on["LatestRestorableDateTime"]
    switch(PointInTimeRecoveryEnabled=True, RecoveryPeriodInDays=7)
    assert 7 == described()["RecoveryPeriodInDays"]
    assert on["EarliestRestorableDateTime"] == described()["EarliestRestorableDateTime"]
    switch(PointInTimeRecoveryEnabled=False)
    assert {"PointInTimeRecoveryStatus": "DISABLED"} == described()
    with refused("TableNotFoundException", "Table not found: no-such-table"):
        client.describe_continuous_backups(TableName="no-such-table")


@pytest.mark.spec("X5")
@pytest.mark.parametrize(
    ("region", "key"), [("localhost", "other"), ("eu-central-1", "AKIAIOSFODNN7EXAMPLE")]
)
def test_any_region_and_account_share_one_namespace(
    make_table: MakeTable, endpoint: str, region: str, key: str
) -> None:
    table = make_table("pk:S")
    table.put_item(Item={"pk": "a"})
    other = boto3.client(
        "dynamodb",
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id=key,
        aws_secret_access_key="x",
    )

    assert {"pk": {"S": "a"}} == other.get_item(TableName=table.name, Key={"pk": {"S": "a"}})["Item"]
    other.close()


@pytest.mark.spec("X7")
def test_consumed_capacity_names_the_table_as_the_request_does(make_table: MakeTable, client: Any) -> None:
    table = make_table("pk:S", "sk:S", lsi={"Index": "l:S"})
    arn, key = table.table_arn, {"pk": {"S": "a"}, "sk": {"S": "b"}}
    consumed = {"ReturnConsumedCapacity": "TOTAL"}
    sized = consumed | {"ReturnItemCollectionMetrics": "SIZE"}
    values = {":a": key["pk"]}

    put = client.put_item(TableName=arn, Item=key, **consumed)
    get = client.get_item(TableName=arn, Key=key, **consumed)
    update = client.update_item(TableName=arn, Key=key, UpdateExpression="REMOVE x", **consumed)
    query = client.query(
        TableName=arn, KeyConditionExpression="pk = :a", ExpressionAttributeValues=values, **consumed
    )
    scan = client.scan(TableName=arn, **consumed)
    got = client.batch_get_item(RequestItems={arn: {"Keys": [key]}}, **consumed)
    written = client.batch_write_item(RequestItems={arn: [{"PutRequest": {"Item": key}}]}, **sized)
    read = client.transact_get_items(TransactItems=[{"Get": {"TableName": arn, "Key": key}}], **consumed)
    transact = client.transact_write_items(TransactItems=[{"Put": {"TableName": arn, "Item": key}}], **sized)
    delete = client.delete_item(TableName=arn, Key=key, **consumed)

    assert key == get["Item"] == read["Responses"][0]["Item"]
    assert 1 == query["Count"] == scan["Count"]
    assert [key] == got["Responses"][arn]
    assert [arn] == list(written["ItemCollectionMetrics"]) == list(transact["ItemCollectionMetrics"])
    for one in (put, get, update, query, scan, delete):
        assert arn == one["ConsumedCapacity"]["TableName"]
    for each in (got, written, read, transact):
        assert [arn] == [consumed["TableName"] for consumed in each["ConsumedCapacity"]]


@pytest.mark.spec("X7")
def test_control_operations_take_an_arn_too(make_table: MakeTable, client: Any, resource: Any) -> None:
    name = make_table("pk:S").name + "-arn"
    arn = resource.create_table(
        **table_request(f"arn:aws:dynamodb:us-east-1:000000000000:table/{name}", "pk:S")
    ).table_arn
    assert name == client.describe_table(TableName=arn)["Table"]["TableName"]
    client.update_table(TableName=arn, TableClass="STANDARD_INFREQUENT_ACCESS")
    client.update_time_to_live(
        TableName=arn, TimeToLiveSpecification={"AttributeName": "until", "Enabled": True}
    )
    client.update_continuous_backups(
        TableName=arn, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
    )

    assert "until" == client.describe_time_to_live(TableName=arn)["TimeToLiveDescription"]["AttributeName"]
    backups = client.describe_continuous_backups(TableName=arn)["ContinuousBackupsDescription"]
    assert "ENABLED" == backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"]
    client.delete_table(TableName=arn)
    with refused("ResourceNotFoundException"):
        client.describe_table(TableName=name)


@pytest.mark.spec("X9")
def test_violations_are_reported_together(client: Any) -> None:
    with invalid("2 validation errors detected: ") as refusal:
        client.put_item(
            TableName="no-such-table",
            Item={"pk": {"S": "a"}},
            ReturnValues="SOME",
            ReturnConsumedCapacity="PLENTY",
        )

    assert "[ALL_OLD, UPDATED_OLD, ALL_NEW, UPDATE_NEW, NONE]" in refusal.message
    assert "'PLENTY' at 'returnConsumedCapacity'" in refusal.message


@pytest.mark.spec("X9")
def test_a_request_is_checked_before_its_table_is_looked_for(client: Any) -> None:
    with invalid("Member must have value greater than or equal to 1"):
        client.scan(TableName="no-such-table", Limit=0)
    with refused("ResourceNotFoundException", "Requested resource not found"):
        client.scan(TableName="no-such-table", Limit=1)


@pytest.mark.spec("X11")
def test_an_item_is_named_once_in_a_batch(make_table: MakeTable, client: Any) -> None:
    table = make_table("pk:S")
    key = {"pk": {"S": "a"}}

    with invalid("Provided list of item keys contains duplicates"):
        client.batch_get_item(RequestItems={table.name: {"Keys": [key, key]}})
    with invalid("Provided list of item keys contains duplicates"):
        client.batch_write_item(
            RequestItems={table.name: [{"PutRequest": {"Item": key}}, {"DeleteRequest": {"Key": key}}]}
        )
    assert 0 == client.scan(TableName=table.name)["Count"]


@pytest.mark.spec("X11")
def test_a_batch_get_returns_16_mib_and_lists_unprocessed_keys(make_table: MakeTable) -> None:
    table = make_table("pk:S")
    with table.batch_writer() as batch:
        for n in range(50):
            batch.put_item(Item={"pk": f"k{n}", "d": "x" * 390 * 1024})
    keys = [{"pk": f"k{n}"} for n in range(50)]
    request = {"Keys": keys, "ConsistentRead": True, "ProjectionExpression": "pk"}
    client = table.meta.client
    found = client.batch_get_item(RequestItems={table.name: request}, ReturnConsumedCapacity="TOTAL")
    left = found["UnprocessedKeys"]
    rest = client.batch_get_item(RequestItems=left)

    read, after = ([item["pk"] for item in each["Responses"][table.name]] for each in (found, rest))
    assert 42 == len(read)  # of 390 KiB and some bytes each, in 16 MiB, however little of them is returned
    assert 42 * 98 == found["ConsumedCapacity"][0]["CapacityUnits"]
    assert request | {"Keys": left[table.name]["Keys"]} == left[table.name]
    assert {} == rest["UnprocessedKeys"]
    assert sorted(key["pk"] for key in keys) == sorted(read + after)


@pytest.mark.spec("X11")
def test_one_index_is_made_at_a_time(make_table: MakeTable, client: Any) -> None:
    table = make_table("pk:S")
    two = table_request("x", "a:S", "b:S", gsi={"OfA": "a:S", "OfB": "b:S"})
    creates = [{"Create": index} for index in two["GlobalSecondaryIndexes"]]

    with refused("LimitExceededException", "Only 1 online index can be created"):
        client.update_table(
            TableName=table.name,
            AttributeDefinitions=two["AttributeDefinitions"],
            GlobalSecondaryIndexUpdates=creates,
        )


@pytest.mark.spec("X11", "S22")
def test_a_backfill_skips_unfit_items_and_refuses_later_ones(make_table: MakeTable) -> None:
    table = make_table("pk:S")
    misfit = {"pk": "misfit", "n": "no number"}
    table.put_item(Item=misfit)
    table.put_item(Item={"pk": "fits", "n": 1})
    add_index(table, "ByN", "n:N")

    assert ["fits"] == [item["pk"] for item in table.scan(IndexName="ByN")["Items"]]
    assert 2 == table.scan()["Count"]
    with invalid("Type mismatch for Index Key n Expected: N Actual: S IndexName: ByN"):
        table.put_item(Item=misfit)
