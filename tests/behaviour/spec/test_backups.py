"""Backups and restores through boto3."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.behaviour.spec.conftest import WRITERS, Served
from tests.support.subscribed import until
from tests.support.tables import table_request

UNITS = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 6}
PITR = {"PointInTimeRecoveryEnabled": True}
ARN = "arn:aws:dynamodb:us-east-1:000000000000:table/"


@dataclass
class Database:
    """A served database. Names of tables are used once."""

    client: Any
    made: int = 0

    def name(self) -> str:
        self.made += 1
        return f"table-{self.made}"

    def create(self, **settings: Any) -> str:
        name = self.name()
        request = table_request(
            name, "pk:S", "sk:N", gsi={"by-kind": "kind:S sk:N"}, lsi={"by-size": "size:N"}, **settings
        )
        self.client.create_table(**request)
        return name

    def recoverable(self, **settings: Any) -> str:
        """Create a table with point-in-time recovery."""
        name = self.create(**settings)
        self.client.update_continuous_backups(TableName=name, PointInTimeRecoverySpecification=PITR)
        return name

    def put(self, name: str, n: int, value: str = "v") -> None:
        self.client.put_item(
            TableName=name,
            Item={
                "pk": {"S": f"a{n % 7}"},
                "sk": {"N": str(n)},
                "kind": {"S": f"k{n % 3}"},
                "size": {"N": str(n % 5)},
                "v": {"S": value},
            },
        )

    def backup(self, name: str, called: str = "nightly") -> Any:
        return self.client.create_backup(TableName=name, BackupName=called)["BackupDetails"]

    def restore(self, backup: Any, **overrides: Any) -> str:
        target = self.name()
        self.client.restore_table_from_backup(
            TargetTableName=target, BackupArn=backup["BackupArn"], **overrides
        )
        self.wait(target)
        return target

    def restore_to_time(self, source: str, **when: Any) -> str:
        target = self.name()
        self.client.restore_table_to_point_in_time(SourceTableName=source, TargetTableName=target, **when)
        self.wait(target)
        return target

    def wait(self, name: str) -> None:
        until(lambda: self.describe(name)["TableStatus"] == "ACTIVE")

    def describe(self, name: str) -> Any:
        return self.client.describe_table(TableName=name)["Table"]

    def recovery(self, name: str) -> Any:
        answer = self.client.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
        return answer["PointInTimeRecoveryDescription"]

    def items(self, name: str, index: str | None = None) -> dict[tuple[str, str], Any]:
        """Return the items of a table or an index by their key."""
        found: dict[tuple[str, str], Any] = {}
        read = {"TableName": name} | ({} if index is None else {"IndexName": index})
        for page in self.client.get_paginator("scan").paginate(**read):
            found |= {(item["pk"]["S"], item["sk"]["N"]): item for item in page["Items"]}
        return found


@pytest.fixture(scope="module")
def database(each_kind: Served) -> Database:
    return Database(each_kind.client)


@contextmanager
def refused(name: str, text: str = "") -> Iterator[None]:
    with pytest.raises(ClientError) as error:
        yield
    assert (name, text) == (
        error.value.response["Error"]["Code"],
        text and error.value.response["Error"]["Message"],
    )


@pytest.mark.spec("X4")
def test_a_backup_restores_the_items_of_its_moment(database: Database) -> None:
    source = database.create()
    for n in range(30):
        database.put(source, n)
    before = database.items(source)
    backup = database.backup(source)
    for n in range(20, 40):
        database.put(source, n, "later")
    database.client.delete_item(TableName=source, Key={"pk": {"S": "a0"}, "sk": {"N": "0"}})

    restored = database.restore(backup)

    assert before == database.items(restored)
    assert before == database.items(restored, "by-kind") == database.items(restored, "by-size")
    assert 30 == database.describe(restored)["ItemCount"]
    assert database.items(source) != before


@pytest.mark.spec("X4")
def test_a_backup_outlives_its_table(database: Database) -> None:
    source = database.create()
    database.put(source, 1)
    backup = database.backup(source)
    database.client.delete_table(TableName=source)

    restored = database.restore(backup)

    assert 1 == len(database.items(restored))
    summary = database.describe(restored)["RestoreSummary"]
    assert (backup["BackupArn"], ARN + source) == (summary["SourceBackupArn"], summary["SourceTableArn"])
    assert summary["RestoreInProgress"] is False


@pytest.mark.spec("X4")
def test_a_backup_is_described_and_deleted(database: Database) -> None:
    source = database.create(StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"})
    database.client.update_time_to_live(
        TableName=source, TimeToLiveSpecification={"Enabled": True, "AttributeName": "until"}
    )
    database.put(source, 1)
    table = database.describe(source)
    created = database.backup(source, "first.backup")

    described = database.client.describe_backup(BackupArn=created["BackupArn"])["BackupDescription"]
    deleted = database.client.delete_backup(BackupArn=created["BackupArn"])["BackupDescription"]

    assert created == described["BackupDetails"]
    assert created["BackupArn"].startswith(f"{ARN}{source}/backup/0")
    assert ("first.backup", "AVAILABLE", "USER") == (
        created["BackupName"],
        created["BackupStatus"],
        created["BackupType"],
    )
    assert created["BackupSizeBytes"] == described["SourceTableDetails"]["TableSizeBytes"] > 0
    details = described["SourceTableDetails"]
    assert (source, table["TableId"], table["KeySchema"], 1) == (
        details["TableName"],
        details["TableId"],
        details["KeySchema"],
        details["ItemCount"],
    )
    features = described["SourceTableFeatureDetails"]
    assert "NEW_IMAGE" == features["StreamDescription"]["StreamViewType"]
    assert "until" == features["TimeToLiveDescription"]["AttributeName"]
    assert ["by-kind"] == [index["IndexName"] for index in features["GlobalSecondaryIndexes"]]
    assert ["by-size"] == [index["IndexName"] for index in features["LocalSecondaryIndexes"]]
    assert "DELETED" == deleted["BackupDetails"]["BackupStatus"]
    for ask in (database.client.describe_backup, database.client.delete_backup):
        with refused("BackupNotFoundException", f"Backup not found: {created['BackupArn']}"):
            ask(BackupArn=created["BackupArn"])


@pytest.mark.spec("X4")
def test_backups_are_listed_in_pages(database: Database) -> None:
    source, other = database.create(), database.create()
    names = [database.backup(source, f"backup-{n}")["BackupName"] for n in range(5)]
    database.backup(other)

    def listed(**request: Any) -> list[str]:
        return [each["BackupName"] for each in database.client.list_backups(**request)["BackupSummaries"]]

    found: list[str] = []
    page: dict[str, Any] = {}
    while True:
        answer = database.client.list_backups(TableName=source, Limit=2, **page)
        found += [each["BackupName"] for each in answer["BackupSummaries"]]
        if "LastEvaluatedBackupArn" not in answer:
            break
        assert 2 == len(answer["BackupSummaries"])
        page = {"ExclusiveStartBackupArn": answer["LastEvaluatedBackupArn"]}
    tomorrow = datetime.now(UTC) + timedelta(days=1)

    assert names == found == listed(TableName=ARN + source)
    assert {*names, "nightly"} <= set(listed())
    assert names == listed(TableName=source, BackupType="ALL", TimeRangeUpperBound=tomorrow)
    assert [] == listed(TableName=source, BackupType="SYSTEM") == listed(TimeRangeLowerBound=tomorrow)
    assert [] == listed(TableName="no-such-table")


@pytest.mark.spec("X4")
def test_a_restored_table_lacks_stream_ttl_tags_and_recovery(database: Database) -> None:
    source = database.recoverable(
        Tags=[{"Key": "team", "Value": "a"}],
        DeletionProtectionEnabled=True,
        TableClass="STANDARD_INFREQUENT_ACCESS",
        SSESpecification={"Enabled": True, "SSEType": "KMS"},
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
    )
    database.client.update_time_to_live(
        TableName=source, TimeToLiveSpecification={"Enabled": True, "AttributeName": "until"}
    )

    restored = database.restore_to_time(source, UseLatestRestorableTime=True)

    table, was = database.describe(restored), database.describe(source)
    ttl = database.client.describe_time_to_live(TableName=restored)["TimeToLiveDescription"]
    assert ("StreamSpecification" in table, table["DeletionProtectionEnabled"]) == (False, False)
    assert {"TimeToLiveStatus": "DISABLED"} == ttl
    assert [] == database.client.list_tags_of_resource(ResourceArn=table["TableArn"])["Tags"]
    assert {"PointInTimeRecoveryStatus": "DISABLED"} == database.recovery(restored)
    assert (was["KeySchema"], was["SSEDescription"]) == (table["KeySchema"], table["SSEDescription"])
    assert was["TableClassSummary"]["TableClass"] == table["TableClassSummary"]["TableClass"]
    assert was["TableId"] != table["TableId"]


@pytest.mark.spec("X4")
def test_a_restore_overrides_capacity_and_indexes(database: Database) -> None:
    source = database.create()
    database.put(source, 1)
    backup = database.backup(source)
    [index] = database.describe(source)["GlobalSecondaryIndexes"]
    override = {name: index[name] for name in ("IndexName", "KeySchema", "Projection")}

    provisioned = database.restore(
        backup,
        BillingModeOverride="PROVISIONED",
        ProvisionedThroughputOverride=UNITS,
        GlobalSecondaryIndexOverride=[override | {"ProvisionedThroughput": UNITS}],
        LocalSecondaryIndexOverride=[],
    )
    bare = database.restore(
        backup,
        GlobalSecondaryIndexOverride=[],
        OnDemandThroughputOverride={"MaxReadRequestUnits": 7, "MaxWriteRequestUnits": 8},
    )

    table = database.describe(provisioned)
    assert 5 == table["ProvisionedThroughput"]["ReadCapacityUnits"]
    assert 6 == table["GlobalSecondaryIndexes"][0]["ProvisionedThroughput"]["WriteCapacityUnits"]
    assert "LocalSecondaryIndexes" not in table
    assert "GlobalSecondaryIndexes" not in database.describe(bare)
    assert 7 == database.describe(bare)["OnDemandThroughput"]["MaxReadRequestUnits"]
    assert ["pk", "sk", "size"] == [
        each["AttributeName"] for each in database.describe(bare)["AttributeDefinitions"]
    ]
    assert database.items(source) == database.items(provisioned) == database.items(bare)
    other = {**override, "IndexName": "other"}
    with refused("ValidationException"):
        database.restore(backup, GlobalSecondaryIndexOverride=[other])
    with refused("ValidationException"):
        database.restore(backup, BillingModeOverride="PROVISIONED")


@pytest.mark.spec("X4")
def test_a_table_is_restored_to_a_second(database: Database) -> None:
    source = database.recoverable()
    for n in range(10):
        database.put(source, n, "right")
    right = database.items(source)
    second = _next_second()
    for n in range(10):
        database.put(source, n, "wrong")

    restored = database.restore_to_time(source, RestoreDateTime=second)
    latest = database.restore_to_time(source, UseLatestRestorableTime=True)

    assert right == database.items(restored)
    assert database.items(source) == database.items(latest) != right
    summary = database.describe(restored)["RestoreSummary"]
    assert (second, ARN + source) == (summary["RestoreDateTime"], summary["SourceTableArn"])


@pytest.mark.spec("X4")
def test_the_restorable_range_is_true(database: Database) -> None:
    source = database.recoverable()
    first = database.recovery(source)["EarliestRestorableDateTime"]
    # A time is a millisecond, and has all that is written in it.
    until(lambda: datetime.now(UTC) > first + timedelta(milliseconds=2))
    database.put(source, 1)
    last = database.recovery(source)["LatestRestorableDateTime"]

    earliest = database.restore_to_time(source, RestoreDateTime=first)
    database.restore_to_time(source, RestoreDateTime=last)

    assert {} == database.items(earliest)
    for moment in (first - timedelta(seconds=2), last + timedelta(minutes=1)):
        with refused(
            "InvalidRestoreTimeException",
            "An invalid restore time was specified. RestoreDateTime must be between EarliestRestorableDateTime "
            "and LatestRestorableDateTime.",
        ):
            database.restore_to_time(source, RestoreDateTime=moment)


@pytest.mark.spec("X4")
def test_impossible_backups_and_restores_are_refused(database: Database) -> None:
    source, off = database.recoverable(), database.create()
    backup = database.backup(source)
    gone = backup["BackupArn"][:-1] + "x"

    with refused("TableNotFoundException", "Table not found: no-such-table"):
        database.backup("no-such-table")
    with refused("BackupNotFoundException", f"Backup not found: {gone}"):
        database.restore({"BackupArn": gone})
    with refused("TableAlreadyExistsException", f"Table already exists: {off}"):
        database.client.restore_table_from_backup(TargetTableName=off, BackupArn=backup["BackupArn"])
    with refused("TableAlreadyExistsException", f"Table already exists: {off}"):
        database.client.restore_table_to_point_in_time(
            SourceTableName=source, TargetTableName=off, UseLatestRestorableTime=True
        )
    with refused("TableNotFoundException", "Table not found: no-such-table"):
        database.restore_to_time("no-such-table", UseLatestRestorableTime=True)
    with refused(
        "PointInTimeRecoveryUnavailableException",
        f"Point in time recovery is not enabled for table '{off}'",
    ):
        database.restore_to_time(off, UseLatestRestorableTime=True)
    for request in ({}, {"UseLatestRestorableTime": True, "RestoreDateTime": datetime.now(UTC)}):
        with refused("ValidationException"):
            database.restore_to_time(source, **request)
    with refused("ValidationException"):
        database.client.restore_table_to_point_in_time(TargetTableName="new", UseLatestRestorableTime=True)


@pytest.mark.spec("X4")
def test_wrong_values_of_16_writers_are_undone(database: Database) -> None:
    """The table as of the second between the right and the wrong values of sixteen writers has the right ones."""
    source = database.recoverable()

    def write(value: str) -> None:
        def run(writer: int) -> None:
            for n in range(writer, 160, WRITERS):
                database.put(source, n, value)

        threads = [threading.Thread(target=run, args=(writer,)) for writer in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    write("right")
    right = database.items(source)
    second = _next_second()
    write("wrong")

    restored = database.restore_to_time(source, RestoreDateTime=second)

    assert 160 == len(right)
    assert right == database.items(restored)
    assert {"wrong"} == {item["v"]["S"] for item in database.items(source).values()}


def _next_second() -> datetime:
    """Wait until the next second has begun, and return it: boto3 sends whole seconds."""
    second = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
    until(lambda: datetime.now(UTC) > second + timedelta(milliseconds=5))
    return second
