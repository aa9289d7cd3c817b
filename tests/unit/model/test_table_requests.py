"""CreateTable, UpdateTable and the smaller table commands, as functions from definition to definition."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from foldb.model import table_requests
from foldb.model.errors import LimitExceededError, RequestError, ResourceInUseError, ResourceNotFoundError
from foldb.model.limits import LIMITS_2012, MODERN
from foldb.model.tables import OnDemand, Recovery, Stream, TableDefinition, Throughput, Warm, settled
from tests.support.tables import table_request

NOW = 1_700_000_000_123
DAY = 24 * 60 * 60 * 1000
INVALID = "One or more parameter values were invalid: "
UNITS: dict[str, Any] = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 5}
ALL = {"ProjectionType": "ALL"}


def key(*names: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ("HASH", "RANGE"), strict=False)
    ]


def index(name: str, *names: str, **settings: Any) -> dict[str, Any]:
    return {"IndexName": name, "KeySchema": key(*names), "Projection": ALL} | settings


def create(*keys: str, limits: Any = MODERN, tables: int = 0, **settings: Any) -> TableDefinition:
    request = table_request("Music", *(keys or ("a:S", "b:S")), **settings)
    request = {name: value for name, value in request.items() if value is not None}
    return table_requests.create(request, table_id=1, uuid="uuid", time_ms=NOW, limits=limits, tables=tables)


def active(definition: TableDefinition) -> TableDefinition:
    after = settled(definition)
    assert after is not None
    return after


def update(definition: TableDefinition, time_ms: int = NOW + 1, **request: Any) -> TableDefinition:
    changed = table_requests.update(definition, request, next_id=20, time_ms=time_ms, limits=MODERN)
    assert "UPDATING" == changed.status
    return active(changed)


def update_indexes(definition: TableDefinition, *updates: Any, **request: Any) -> TableDefinition:
    return update(definition, GlobalSecondaryIndexUpdates=list(updates), **request)


def message_of(act: Callable[[], Any], error: type[RequestError] = RequestError) -> str:
    with pytest.raises(error) as caught:
        act()
    return caught.value.message


def define(*attributes: str) -> list[dict[str, str]]:
    return [{"AttributeName": a.split(":")[0], "AttributeType": a.split(":")[1]} for a in attributes]


ABC = define("a:S", "b:S", "c:S")
PROVISIONED: dict[str, Any] = {"BillingMode": "PROVISIONED", "ProvisionedThroughput": UNITS}

REFUSED = [
    (
        {"KeySchema": [{"AttributeName": "a", "KeyType": "RANGE"}]},
        "Invalid KeySchema: The first KeySchemaElement is not a HASH key type",
    ),
    (
        {"KeySchema": [{"AttributeName": name, "KeyType": "HASH"} for name in "ab"]},
        "Invalid KeySchema: The second KeySchemaElement is not a RANGE key type",
    ),
    ({"KeySchema": key("a", "a")}, "Invalid KeySchema: Some index key attribute have no definition"),
    ({"AttributeDefinitions": []}, "Invalid KeySchema: Some index key attribute have no definition"),
    (
        {"KeySchema": key("c")},
        f"{INVALID}Some index key attributes are not defined in AttributeDefinitions. "
        "Keys: [c], AttributeDefinitions: [a, b]",
    ),
    (
        {"AttributeDefinitions": ABC},
        f"{INVALID}Number of attributes in KeySchema does not exactly match "
        "number of attributes defined in AttributeDefinitions",
    ),
    (
        {"AttributeDefinitions": [*ABC, *define("d:S")], "GlobalSecondaryIndexes": [index("Gsi", "c")]},
        f"{INVALID}Some AttributeDefinitions are not used. "
        "AttributeDefinitions: [a, b, c, d], keys used: [a, b, c]",
    ),
    (
        {"BillingMode": "PROVISIONED"},
        f"{INVALID}ReadCapacityUnits and WriteCapacityUnits must both be specified "
        "when BillingMode is PROVISIONED",
    ),
    (
        {"ProvisionedThroughput": UNITS},
        f"{INVALID}Neither ReadCapacityUnits nor WriteCapacityUnits can be specified "
        "when BillingMode is PAY_PER_REQUEST",
    ),
    (
        PROVISIONED | {"ProvisionedThroughput": UNITS | {"ReadCapacityUnits": 10**12 + 1}},
        "Given value 1000000000001 for ReadCapacityUnits is out of bounds",
    ),
    ({"LocalSecondaryIndexes": []}, f"{INVALID}List of LocalSecondaryIndexes is empty"),
    ({"GlobalSecondaryIndexes": []}, f"{INVALID}List of GlobalSecondaryIndexes is empty"),
    (
        {"AttributeDefinitions": ABC, "LocalSecondaryIndexes": [index("Lsi", "a")]},
        f"{INVALID}Index KeySchema does not have a range key for index: Lsi",
    ),
    (
        {"AttributeDefinitions": ABC, "LocalSecondaryIndexes": [index("Lsi", "b", "c")]},
        f"{INVALID}Index KeySchema does not have the same leading hash key as table KeySchema for index: Lsi. "
        "index hash key: b, table hash key: a",
    ),
    (
        {
            "AttributeDefinitions": ABC,
            "LocalSecondaryIndexes": [index(f"Lsi{n}", "a", "c") for n in range(6)],
        },
        f"{INVALID}Number of LocalSecondaryIndexes exceeds per-table limit of 5",
    ),
    (
        {"AttributeDefinitions": ABC, "GlobalSecondaryIndexes": [index(f"Gsi{n}", "c") for n in range(21)]},
        f"{INVALID}GlobalSecondaryIndex count exceeds the per-table limit of 20",
    ),
    (
        {
            "AttributeDefinitions": ABC,
            "GlobalSecondaryIndexes": [index("Same", "c")],
            "LocalSecondaryIndexes": [index("Same", "a", "c")],
        },
        f"{INVALID}Duplicate index name: Same",
    ),
    (
        {"GlobalSecondaryIndexes": [index("Gsi", "b", "b")]},
        "Both the Hash Key and the Range Key element in the KeySchema have the same name",
    ),
    (
        {"GlobalSecondaryIndexes": [index("Gsi", "b", Projection={})]},
        f"{INVALID}Unknown ProjectionType: null",
    ),
    (
        {"GlobalSecondaryIndexes": [index("Gsi", "b", Projection={"ProjectionType": "INCLUDE"})]},
        f"{INVALID}ProjectionType is INCLUDE, but NonKeyAttributes is not specified",
    ),
    (
        {"GlobalSecondaryIndexes": [index("Gsi", "b", Projection=ALL | {"NonKeyAttributes": ["c"]})]},
        f"{INVALID}ProjectionType is ALL, but NonKeyAttributes is specified",
    ),
    (
        {"GlobalSecondaryIndexes": [index("Gsi", "b", ProvisionedThroughput=UNITS)]},
        f"{INVALID}ProvisionedThroughput should not be specified for index: Gsi "
        "when BillingMode is PAY_PER_REQUEST",
    ),
    (
        PROVISIONED | {"GlobalSecondaryIndexes": [index("Gsi", "b")]},
        f"{INVALID}ProvisionedThroughput is not specified for index: Gsi",
    ),
    (
        {"StreamSpecification": {"StreamEnabled": False, "StreamViewType": "NEW_IMAGE"}},
        f"{INVALID}Table is being created with a stream disabled, UpdateViewType should not be specified",
    ),
    (
        PROVISIONED | {"OnDemandThroughput": {"MaxReadRequestUnits": 5}},
        f"{INVALID}MaxReadRequestUnits for OnDemandThroughput cannot be specified "
        "when table BillingMode is PROVISIONED.",
    ),
    (
        {"Tags": [{"Key": "aws:x", "Value": "y"}]},
        "Tag Key cannot be prefixed with aws:, Key: aws:x",
    ),
    (
        {"Tags": [{"Key": "k", "Value": "y"}] * 2},
        "Duplicate Tag Keys provided as input: Duplicate Tag Key found k",
    ),
    (
        {"Tags": [{"Key": f"k{n}", "Value": "y"} for n in range(51)]},
        "Number of Tags exceed the current limit for the provided ResourceArn",
    ),
]


@pytest.mark.spec("S85")
@pytest.mark.parametrize(("settings", "message"), REFUSED)
def test_a_table_that_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    assert message == message_of(lambda: create(**settings))


@pytest.mark.spec("S19")
def test_a_local_index_needs_a_table_with_a_sort_key() -> None:
    request: dict[str, Any] = {
        "AttributeDefinitions": define("a:S", "c:S"),
        "LocalSecondaryIndexes": [index("Lsi", "a", "c")],
    }
    message = (
        "Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex"
    )

    assert INVALID + message == message_of(lambda: create("a:S", **request))


@pytest.mark.spec("X10")
def test_a_global_index_key_has_up_to_four_attributes_a_kind() -> None:
    names = "abcdefgh"
    kinds = ["HASH"] * 4 + ["RANGE"] * 4
    elements = [{"AttributeName": n, "KeyType": kind} for n, kind in zip(names, kinds, strict=True)]
    definitions = define(*(f"{name}:S" for name in names))

    gsi = create(
        AttributeDefinitions=definitions, GlobalSecondaryIndexes=[index("Gsi", KeySchema=elements)]
    ).gsis[0]

    assert tuple("abcd") == tuple(attribute.name for attribute in gsi.key.partition)
    assert tuple("efgh") == tuple(attribute.name for attribute in gsi.key.sort)
    elements[4]["KeyType"] = "HASH"
    request: dict[str, Any] = {
        "AttributeDefinitions": definitions,
        "GlobalSecondaryIndexes": [index("Gsi", KeySchema=elements)],
    }
    assert "The KeySchema exceeds the maximum allowed number of HASH key attributes" in message_of(
        lambda: create(**request)
    )


def test_the_limits_of_2012_allow_five_global_indexes() -> None:
    request: dict[str, Any] = {
        "AttributeDefinitions": ABC,
        "GlobalSecondaryIndexes": [index(f"Gsi{n}", "c") for n in range(6)],
    }

    assert "per-table limit of 5" in message_of(lambda: create(limits=LIMITS_2012, **request))


@pytest.mark.spec("S104")
def test_an_account_has_a_maximum_of_tables_and_of_units() -> None:
    units = {"ReadCapacityUnits": 40_001, "WriteCapacityUnits": 1}
    too_many = message_of(lambda: create(tables=2500), LimitExceededError)
    too_much = message_of(
        lambda: create(BillingMode="PROVISIONED", ProvisionedThroughput=units), LimitExceededError
    )
    table = active(create(**PROVISIONED))
    above: dict[str, Any] = UNITS | {"WriteCapacityUnits": 100}
    together = message_of(
        lambda: table_requests.update(
            table,
            {"ProvisionedThroughput": above},
            next_id=20,
            time_ms=NOW,
            limits=MODERN,
            units=(0, 79_950),
        ),
        LimitExceededError,
    )

    assert "Subscriber limit exceeded: There is a limit of 2500 tables per subscriber" == too_many
    assert "The requested ReadCapacityUnits, 40001, is above the per table maximum" in too_much
    assert "Current WriteCapacityUnits reserved by the account: 79950. Limit: 80000." in together


@pytest.mark.spec("X4")
def test_settings_are_kept() -> None:
    definition = create(
        OnDemandThroughput={"MaxReadRequestUnits": 5},
        WarmThroughput={"ReadUnitsPerSecond": 13_000, "WriteUnitsPerSecond": 5_000},
        SSESpecification={"Enabled": True},
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
        TableClass="STANDARD_INFREQUENT_ACCESS",
        DeletionProtectionEnabled=True,
        Tags=[{"Key": "k", "Value": "v"}],
    )

    assert OnDemand(5) == definition.on_demand
    assert Warm(13_000, 5_000) == definition.warm
    assert "arn:aws:kms:us-east-1:000000000000:key/uuid" == definition.kms_key
    assert Stream("KEYS_ONLY", NOW) == definition.stream
    assert "STANDARD_INFREQUENT_ACCESS" == definition.table_class
    assert definition.deletion_protection
    assert {"k": "v"} == definition.tags


@pytest.mark.parametrize("name", ["ReplicaUpdates", "VectorIndexUpdates", "MultiRegionConsistency"])
def test_unsupported_members_are_refused_and_not_ignored(name: str) -> None:
    table = active(create())

    request: dict[str, Any] = {name: ["x"]}
    text = f"{INVALID}{name} is not supported by foldb: see docs/limitations.md"
    assert text == message_of(lambda: update(table, **request))


# UpdateTable


@pytest.mark.spec("S58", "S86")
def test_throughput_is_raised_and_lowered() -> None:
    table = active(create(**PROVISIONED))
    table = update(table, ProvisionedThroughput={"ReadCapacityUnits": 10, "WriteCapacityUnits": 5})
    assert Throughput(10, 5, increased_ms=NOW + 1) == table.throughput
    for nth in range(2):
        lower = {"ReadCapacityUnits": 9 - nth, "WriteCapacityUnits": 5}
        table = update(table, ProvisionedThroughput=lower)
    assert 2 == table.throughput.decreases_today

    table = update(table, NOW + DAY, ProvisionedThroughput={"ReadCapacityUnits": 1, "WriteCapacityUnits": 1})

    assert 1 == table.throughput.decreases_today


def test_throughput_that_does_not_change_is_refused() -> None:
    message = message_of(lambda: update(active(create(**PROVISIONED)), ProvisionedThroughput=UNITS))

    assert message == (
        "The provisioned throughput for the table will not change. The requested value equals the current value. "
        "Current ReadCapacityUnits provisioned for the table: 5. Requested ReadCapacityUnits: 5. "
        "Current WriteCapacityUnits provisioned for the table: 5. Requested WriteCapacityUnits: 5. "
        "Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits."
    )


def test_billing_goes_there_and_back() -> None:
    table = active(create(**PROVISIONED, AttributeDefinitions=ABC, GlobalSecondaryIndexes=[
        index("Gsi", "c", ProvisionedThroughput=UNITS)
    ]))  # fmt: skip
    by_request = update(table, BillingMode="PAY_PER_REQUEST")
    assert ("PAY_PER_REQUEST", NOW + 1) == (by_request.billing_mode, by_request.billed_by_request_ms)
    assert [0, 0] == [by_request.throughput.read, by_request.gsis[0].throughput.read]
    assert by_request == update(by_request, BillingMode="PAY_PER_REQUEST")

    without = message_of(lambda: update(by_request, **PROVISIONED))
    back = update_indexes(
        by_request, {"Update": {"IndexName": "Gsi", "ProvisionedThroughput": UNITS}}, **PROVISIONED
    )

    assert f"{INVALID}ProvisionedThroughput must be specified for index: Gsi" == without
    assert ("PROVISIONED", 5, 5) == (back.billing_mode, back.throughput.read, back.gsis[0].throughput.write)


def test_an_update_must_ask_for_something() -> None:
    nothings: list[dict[str, Any]] = [{}, {"GlobalSecondaryIndexUpdates": []}]
    for nothing in nothings:
        assert message_of(lambda n=nothing: update(active(create()), **n)).startswith(  # type: ignore[misc]
            "At least one of ProvisionedThroughput, BillingMode"
        )


@pytest.mark.parametrize(
    ("status", "passive"), [("CREATING", "created"), ("UPDATING", "updated"), ("DELETING", "deleted")]
)
def test_a_table_that_is_not_active_is_in_use(status: Any, passive: str) -> None:
    table = replace(create(), status=status)

    message = message_of(lambda: update(table, DeletionProtectionEnabled=True), ResourceInUseError)

    assert f"Attempt to change a resource which is still in use: Table is being {passive}: Music" == message


@pytest.fixture
def indexed() -> TableDefinition:
    return active(create(AttributeDefinitions=ABC, GlobalSecondaryIndexes=[index("Gsi", "c")]))


@pytest.mark.spec("S22")
def test_an_index_is_added_and_removed(indexed: TableDefinition) -> None:
    added = update_indexes(indexed, {"Create": index("New", "d")}, AttributeDefinitions=define("d:N"))
    new = added.index("New")
    assert new is not None
    assert (20, True, "CREATING") == (new.id, new.backfilling, new.status)
    assert {"a": "S", "b": "S", "c": "S", "d": "N"} == added.attribute_types

    removed = update_indexes(added, {"Delete": {"IndexName": "Gsi"}})

    assert {"a": "S", "b": "S", "d": "N"} == removed.attribute_types
    assert ["New"] == [index.name for index in removed.indexes]


@pytest.mark.spec("X11")
def test_one_request_creates_or_deletes_one_index(indexed: TableDefinition) -> None:
    two = ({"Create": index("One", "c")}, {"Create": index("Two", "c")})
    message = (
        "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table"
    )

    assert message == message_of(lambda: update_indexes(indexed, *two), LimitExceededError)
    filling = update_indexes(indexed, two[0])
    assert message == message_of(lambda: update_indexes(filling, two[1]), LimitExceededError)


INDEX_UPDATES = [
    (
        [{"Create": index("Gsi", "c")}],
        "Attempting to create an index which already exists",
    ),
    (
        [{"Create": index("New", "d")}],
        f"{INVALID}Some index key attributes are not defined in AttributeDefinitions. "
        "Keys: [d], AttributeDefinitions: [a, b, c]",
    ),
    (
        [{"Update": {"IndexName": "Gsi"}}, {"Delete": {"IndexName": "Gsi"}}],
        f"{INVALID}Only one global secondary index update per index is allowed simultaneously. Index: Gsi",
    ),
    (
        [{}],
        f"{INVALID}One of GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create, "
        "GlobalSecondaryIndexUpdate.Delete must not be null",
    ),
    (
        [{"Update": {"IndexName": "Gsi", "ProvisionedThroughput": UNITS}}],
        f"{INVALID}ProvisionedThroughput should not be specified for index: Gsi "
        "when BillingMode is PAY_PER_REQUEST",
    ),
]


@pytest.mark.parametrize(("updates", "message"), INDEX_UPDATES)
def test_an_index_update_that_cannot_be_is_refused(
    indexed: TableDefinition, updates: list[Any], message: str
) -> None:
    assert message == message_of(lambda: update_indexes(indexed, *updates))


@pytest.mark.parametrize("action", ["Update", "Delete"])
def test_an_index_must_be_there(indexed: TableDefinition, action: str) -> None:
    act = {action: {"IndexName": "Nope"}}

    message_of(lambda: update_indexes(indexed, act), ResourceNotFoundError)


def test_a_stream_is_switched_on_and_off() -> None:
    table = active(create())
    on = update(table, StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"})
    assert Stream("NEW_IMAGE", NOW + 1) == on.stream
    again = {"StreamEnabled": True, "StreamViewType": "OLD_IMAGE"}
    assert "already has an enabled stream" in message_of(lambda: update(on, StreamSpecification=again))

    off = update(on, StreamSpecification={"StreamEnabled": False})

    assert Stream("NEW_IMAGE", NOW + 1, enabled=False) == off.stream
    off_again = {"StreamEnabled": False}
    assert "Table has no stream to disable" in message_of(lambda: update(off, StreamSpecification=off_again))


# The smaller commands


def test_a_protected_table_is_not_deleted() -> None:
    table = active(create(DeletionProtectionEnabled=True))

    assert message_of(lambda: table_requests.delete(table)) == (
        "Resource cannot be deleted as it is currently protected against deletion. "
        "Disable deletion protection first."
    )
    assert "DELETING" == table_requests.delete(update(table, DeletionProtectionEnabled=False)).status


def test_a_table_that_is_being_deleted_may_be_deleted_again() -> None:
    table = table_requests.delete(active(create()))

    assert table == table_requests.delete(table)


def time_to_live(table: TableDefinition, enabled: bool, name: str) -> TableDefinition:
    request = {"TimeToLiveSpecification": {"Enabled": enabled, "AttributeName": name}}
    return table_requests.update_time_to_live(table, request)


@pytest.mark.spec("X1")
def test_time_to_live_is_switched_on_and_off() -> None:
    off = active(create())
    on = time_to_live(off, True, "expires")

    assert "expires" == on.ttl_attribute
    assert off == time_to_live(on, False, "expires")
    assert "TimeToLive is already enabled" == message_of(lambda: time_to_live(on, True, "expires"))
    assert "TimeToLive is already disabled" == message_of(lambda: time_to_live(off, False, "expires"))
    assert (
        "TimeToLive is active on a different AttributeName: current AttributeName is expires"
        == message_of(lambda: time_to_live(on, True, "other"))
    )


@pytest.mark.spec("X2")
def test_tags_are_set_and_removed() -> None:
    table = create(Tags=[{"Key": "env", "Value": "test"}])
    tags = [{"Key": "env", "Value": "live"}, {"Key": "team", "Value": "x"}]

    table = table_requests.tag(table, {"Tags": tags}, MODERN)
    assert {"env": "live", "team": "x"} == table.tags
    table = table_requests.untag(table, {"TagKeys": ["env", "nope"]})

    assert {"team": "x"} == table.tags


@pytest.mark.spec("X4")
def test_continuous_backups_keep_the_time_since_when() -> None:
    def backups(table: TableDefinition, time_ms: int, **specification: Any) -> TableDefinition:
        request = {"PointInTimeRecoverySpecification": specification}
        return table_requests.update_continuous_backups(table, request, time_ms=time_ms)

    on = backups(create(), NOW, PointInTimeRecoveryEnabled=True)
    shorter = backups(on, NOW + 1, PointInTimeRecoveryEnabled=True, RecoveryPeriodInDays=7)

    assert Recovery(NOW, 35) == on.recovery
    assert Recovery(NOW, 7) == shorter.recovery
    assert backups(shorter, NOW + 2, PointInTimeRecoveryEnabled=False).recovery is None
