"""The right that each operation needs, with and without it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from foldb.materializer.fold.state import PartitionState
from foldb.model.errors import AccessDeniedError
from foldb.server.api.admin import ADMIN
from foldb.server.api.operations import OPERATIONS
from foldb.server.api.operations.streams import STREAMS
from foldb.server.auth.keyfile import Key
from foldb.server.auth.rights import Demand, Demands, Right, Rights, check, is_pattern, metrics_demands
from tests.behaviour.auth.signed import CREATED

CATALOG = PartitionState()
ARN = "arn:aws:dynamodb:us-east-1:000000000000:table/Cars"
STREAM = {"StreamArn": f"{ARN}/stream/2026-11-21T10:00:00.123"}
CARS = {"TableName": "Cars"}
GLOBAL = {"GlobalTableName": "Cars"}
BACKUP = f"{ARN}/backup/01700000000000-4e03bb28"

# Each operation, the right that it needs on the table Cars, and a request.
TAKES: dict[str, tuple[Right, dict[str, Any]]] = {
    "BatchExecuteStatement": (
        Right.WRITE,
        {"Statements": [{"Statement": "DELETE FROM Cars"}, {"Statement": "?"}]},
    ),
    "BatchGetItem": (Right.READ, {"RequestItems": {"Cars": {"Keys": [{}]}}}),
    "BatchWriteItem": (Right.WRITE, {"RequestItems": {"Cars": [{"DeleteRequest": {}}]}}),
    "CancelBulkOperation": (Right.WRITE, {"BulkOperationArn": f"{ARN}/bulk/01700000000000-4e03bb28"}),
    "CreateBackup": (Right.ADMIN, CARS),
    "CreateGlobalTable": (Right.ADMIN, GLOBAL),
    "CreateTable": (Right.ADMIN, CARS),
    "DeleteBackup": (Right.ADMIN, {"BackupArn": BACKUP}),
    "DeleteResourcePolicy": (Right.ADMIN, {"ResourceArn": ARN}),
    "DeleteItem": (Right.WRITE, CARS),
    "DeleteTable": (Right.ADMIN, CARS),
    "DescribeBackup": (Right.READ, {"BackupArn": BACKUP}),
    "DescribeBulkOperation": (Right.READ, {"BulkOperationArn": f"{ARN}/bulk/01700000000000-4e03bb28"}),
    "DescribeContinuousBackups": (Right.READ, CARS),
    "DescribeContributorInsights": (Right.READ, CARS | {"IndexName": "by-colour"}),
    "DescribeEndpoints": (Right.NONE, {}),
    "DescribeGlobalTable": (Right.READ, GLOBAL),
    "DescribeGlobalTableSettings": (Right.READ, GLOBAL),
    "DescribeExport": (Right.READ, {"ExportArn": f"{ARN}/export/01700000000000-4e03bb28"}),
    "DescribeImport": (Right.READ, {"ImportArn": f"{ARN}/import/01700000000000-4e03bb28"}),
    "DescribeKinesisStreamingDestination": (Right.READ, CARS),
    "DescribeLimits": (Right.NONE, {}),
    "DescribeStream": (Right.READ, STREAM),
    "DescribeTable": (Right.READ, CARS),
    "DescribeTableReplicaAutoScaling": (Right.READ, CARS),
    "DescribeTimeToLive": (Right.READ, CARS),
    "DisableKinesisStreamingDestination": (Right.ADMIN, CARS),
    "EnableKinesisStreamingDestination": (Right.ADMIN, CARS),
    "ExecuteStatement": (Right.READ, {"Statement": "SELECT * FROM Cars.colours"}),
    "ExecuteTransaction": (
        Right.WRITE,
        {
            "TransactStatements": [
                {"Statement": "EXISTS(SELECT * FROM Cars)"},
                {"Statement": "INSERT INTO Cars VALUE {}"},
            ]
        },
    ),
    "ExportTableToPointInTime": (Right.READ, {"TableArn": ARN}),
    "GetItem": (Right.READ, CARS),
    "GetRecords": (Right.READ, {"ShardIterator": f"{STREAM['StreamArn']}|1|AAAA"}),
    "GetResourcePolicy": (Right.ADMIN, {"ResourceArn": ARN}),
    "GetShardIterator": (Right.READ, STREAM),
    "ImportTable": (Right.ADMIN, {"TableCreationParameters": CARS}),
    "ListBackups": (Right.READ, CARS),
    "ListContributorInsights": (Right.READ, CARS),
    "ListGlobalTables": (Right.READ, {}),
    "ListBulkOperations": (Right.READ, {}),
    "ListExports": (Right.READ, {"TableArn": ARN}),
    "ListImports": (Right.READ, {"TableArn": ARN}),
    "ListStreams": (Right.READ, CARS),
    "ListTables": (Right.READ, {}),
    "ListTagsOfResource": (Right.READ, {"ResourceArn": ARN}),
    "PutResourcePolicy": (Right.ADMIN, {"ResourceArn": ARN}),
    "PutItem": (Right.WRITE, CARS),
    "Query": (Right.READ, CARS | {"IndexName": "by-colour"}),
    "RestoreTableFromBackup": (Right.ADMIN, {"TargetTableName": "Cars", "BackupArn": BACKUP}),
    "RestoreTableToPointInTime": (Right.ADMIN, {"TargetTableName": "Cars", "SourceTableArn": ARN}),
    "Scan": (Right.READ, CARS | {"IndexName": "by-colour"}),
    "StartBulkPutItems": (Right.WRITE, CARS),
    "TagResource": (Right.ADMIN, {"ResourceArn": ARN}),
    "TransactGetItems": (Right.READ, {"TransactItems": [{"Get": CARS}]}),
    "TransactWriteItems": (Right.WRITE, {"TransactItems": [{"ConditionCheck": CARS}, {"Delete": CARS}]}),
    "UntagResource": (Right.ADMIN, {"ResourceArn": ARN}),
    "UpdateContinuousBackups": (Right.ADMIN, CARS),
    "UpdateContributorInsights": (Right.ADMIN, CARS | {"IndexName": "by-colour"}),
    "UpdateGlobalTable": (Right.ADMIN, GLOBAL),
    "UpdateGlobalTableSettings": (Right.ADMIN, GLOBAL),
    "UpdateItem": (Right.WRITE, CARS),
    "UpdateKinesisStreamingDestination": (Right.ADMIN, CARS),
    "UpdateTable": (Right.ADMIN, CARS),
    "UpdateTableReplicaAutoScaling": (Right.ADMIN, CARS),
    "UpdateTimeToLive": (Right.ADMIN, CARS),
}


def demands_of(operation: str) -> Demands:
    return {**OPERATIONS, **STREAMS}[operation].demands


def key(right: Right, *patterns: str) -> Key:
    rights = {
        Right.READ: Rights(patterns),
        Right.WRITE: Rights((), patterns),
        Right.ADMIN: Rights((), (), patterns),
    }
    return bearing(rights.get(right, Rights()))


def bearing(rights: Rights) -> Key:
    return Key("FOLDB1", "a secret that is long enough", CREATED, rights=rights)


def allows(bearer: Key, demands: Iterator[Demand] | Any) -> bool:
    try:
        check(bearer, demands, CATALOG)
    except AccessDeniedError:
        return False
    return True


def _statements(member: str, *texts: str) -> dict[str, Any]:
    return {member: [{"Statement": text} for text in texts]}


@pytest.mark.guarantee("SEC5")
def test_a_statement_on_the_past_needs_the_right_to_history() -> None:
    past, present = (
        list(demands_of("ExecuteStatement")({"Statement": f'SELECT * FROM "{name}"'}))
        for name in ("Cars@-1h", "Cars")
    )

    assert not allows(key(Right.ADMIN, "Cars"), past)
    assert allows(bearing(Rights(history=["Cars"])), past)
    assert not allows(bearing(Rights(history=["Cars"])), present)


def needed(demand: Demand) -> Right:
    assert isinstance(demand[1], Right), "the samples do not read the past"
    return demand[1]


@pytest.mark.guarantee("SEC5")
@pytest.mark.parametrize("right", [Right.READ, Right.WRITE, Right.ADMIN])
def test_a_pattern_is_the_short_form_of_a_policy(right: Right) -> None:
    """The document allows the actions whose operations need the right, on the resources of the pattern.

    A restore is left out: its action needs one right on the source and another on the target.
    """
    bodies = {name: body for name, (_, body) in TAKES.items() if not name.startswith("Restore")}
    demanded = [demand for name, body in bodies.items() for demand in demands_of(name)(body)]
    actions = sorted({demand[0] for demand in demanded if Right.NONE < needed(demand) <= right})
    element = {"Effect": "Allow", "Action": actions, "Resource": [ARN, f"{ARN}/*"]}
    policy = Rights(policy=json.dumps({"Statement": element}))

    for demand in demanded:
        assert allows(bearing(policy), [demand]) == allows(key(right, "Cars"), [demand]), demand


def test_no_operation_is_without_a_line() -> None:
    assert sorted((*OPERATIONS, *STREAMS)) == sorted(TAKES)


@pytest.mark.guarantee("SEC5")
@pytest.mark.parametrize("operation", TAKES)
@pytest.mark.parametrize("right", Right)
def test_an_operation_needs_exactly_its_right(operation: str, right: Right) -> None:
    takes, body = TAKES[operation]

    assert (right >= takes) == allows(key(right, "*"), demands_of(operation)(body))


@pytest.mark.parametrize("operation", [name for name, (right, _) in TAKES.items() if right])
def test_the_right_on_another_table_opens_nothing(operation: str) -> None:
    assert not allows(key(Right.ADMIN, "Cars-*", "Car", "cars"), demands_of(operation)(TAKES[operation][1]))


ROLES = {
    "nothing": Rights(),
    "a monitor": Rights(monitor=True),
    "a historian": Rights(history=["*"]),
    "a reader of one table": Rights(read=["Cars"]),
    "a reader": Rights(read=["*"]),
    "a writer of one table": Rights(write=["Cars"]),
    "a writer": Rights(write=["*"]),
    "an administrator of one table": Rights(admin=["Cars"]),
    "an administrator": Rights(admin=["*"]),
}
# Of foldb's own operations, who may use them with the table Cars; all others are an administrator's alone.
ALL = {"a reader", "a writer", "an administrator"}
OWN = {
    "CapacityPartitions": ALL,
    "Changes": {role for role in ROLES if role.startswith(("a reader", "a writer", "an administrator"))},
    "DescribeAlarms": ALL,
    "DescribeSubscription": ALL,
    "Heat": ALL,
    "IndexProgress": ALL,
    "ItemHistory": {"a historian", "an administrator"},
    "ListDeadLetters": ALL,
    "ListSubscriptions": ALL,
    "WaitForTriggers": ALL,
    "RestoreItems": {"a writer", "an administrator"},
    "Metrics": {"a monitor", "an administrator"},
    "Status": {"a monitor", "an administrator"},
    "Streams": ALL,
    "TableDifferences": {"a historian", "an administrator"},
    "Undo": set(ROLES),  # it checks the rights to each table that it would change: test_undo_by_writer.py
    "Wait": {"a monitor", "an administrator"},
}


@pytest.mark.guarantee("SEC5")
@pytest.mark.parametrize("operation", ADMIN)
@pytest.mark.parametrize("role", ROLES)
def test_an_own_operation_opens_to_its_roles_alone(operation: str, role: str) -> None:
    allowed = allows(bearing(ROLES[role]), ADMIN[operation].demands({"TableNames": ["Cars"]}))

    assert (role in OWN.get(operation, {"an administrator"})) == allowed


@pytest.mark.parametrize("operation", TAKES)
@pytest.mark.parametrize("role", ROLES)
def test_an_operation_of_dynamodb_opens_to_its_roles_alone(operation: str, role: str) -> None:
    """A monitor key is like a key without rights: it may use the operations that need none."""
    takes, body = TAKES[operation]
    level = {"reader": Right.READ, "writer": Right.WRITE, "administrator": Right.ADMIN}
    has = next((right for name, right in level.items() if name in role), Right.NONE)
    reaches = bool(body) or takes is Right.NONE or not role.endswith("of one table")

    assert (has >= takes and reaches) == allows(bearing(ROLES[role]), demands_of(operation)(body))


@pytest.mark.guarantee("SEC5")
@pytest.mark.parametrize("role", ROLES)
def test_metrics_open_to_monitors_and_administrators(role: str) -> None:
    """They name every table, so rights on data do not open them."""
    assert (role in ("a monitor", "an administrator")) == allows(bearing(ROLES[role]), metrics_demands())


@pytest.mark.parametrize("name", ["", "None", "node", "*"])
def test_no_name_that_a_request_brings_is_the_node(name: str) -> None:
    monitor = bearing(ROLES["a monitor"])

    assert not allows(monitor, ADMIN["Changes"].demands({"TableNames": [name]}))
    assert not allows(monitor, demands_of("GetRecords")({"ShardIterator": name}))
    assert not allows(monitor, demands_of("GetItem")({"TableName": name}))


def test_changes_need_the_right_to_read_each_table() -> None:
    demands = ADMIN["Changes"].demands

    assert allows(key(Right.READ, "Cars"), demands({"TableNames": ["Cars"]}))
    assert not allows(key(Right.READ, "Cars"), demands({"TableNames": ["Cars", "Secrets"]}))
    assert not allows(key(Right.READ, "Cars"), demands({}))


@pytest.mark.guarantee("SEC5")
@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("BatchGetItem", {"RequestItems": {"Cars": {}, "Secrets": {}}}),
        ("BatchWriteItem", {"RequestItems": {"Secrets": [], "Cars": []}}),
        ("BatchExecuteStatement", _statements("Statements", "SELECT * FROM Cars", "UPDATE Secrets SET a = 1")),
        (
            "ExecuteTransaction",
            _statements("TransactStatements", "FROM Cars REMOVE a", "EXISTS(SELECT * FROM Secrets)"),
        ),
        ("TransactGetItems", {"TransactItems": [{"Get": CARS}, {"Get": {"TableName": "Secrets"}}]}),
        ("TransactWriteItems", {"TransactItems": [{"Put": CARS}, {"Update": {"TableName": "Secrets"}}]}),
        ("TransactWriteItems", {"TransactItems": [{"Put": CARS}, {"ConditionCheck": {"TableName": "Secrets"}}]}),
        ("TransactWriteItems", {"TransactItems": [{"Put": CARS, "Delete": {"TableName": "Secrets"}}]}),
    ],
)  # fmt: skip
def test_a_request_on_several_tables_needs_the_right_on_all(operation: str, body: dict[str, Any]) -> None:
    assert not allows(key(Right.WRITE, "Cars"), demands_of(operation)(body))
    assert allows(key(Right.WRITE, "Cars", "Secrets"), demands_of(operation)(body))


def test_all_streams_are_listed_for_a_key_that_reads_all() -> None:
    assert allows(key(Right.READ, "*"), demands_of("ListStreams")({}))
    assert not allows(key(Right.ADMIN, "Cars"), demands_of("ListStreams")({}))


def test_a_comparison_of_tables_needs_the_right_to_the_past_of_both() -> None:
    demands, historian = ADMIN["TableDifferences"].demands, bearing(Rights(history=["Cars"], write=["*"]))

    assert allows(historian, demands({"TableName": "Cars", "OtherTable": "Cars"}))
    assert not allows(historian, demands({"TableName": "Cars", "OtherTable": "Secrets"}))


def test_a_reader_may_check_conditions_but_not_write() -> None:
    bearer = key(Right.READ, "*")

    assert allows(bearer, demands_of("TransactWriteItems")({"TransactItems": [{"ConditionCheck": CARS}]}))
    assert not allows(bearer, demands_of("TransactWriteItems")({"TransactItems": [{"Delete": CARS}]}))


@pytest.mark.parametrize("name", [ARN, ARN + "/index/by-colour", "Cars"])
def test_a_table_is_the_same_by_name_and_by_arn(name: str) -> None:
    demands = demands_of("Query")({"TableName": name})

    assert allows(key(Right.READ, "Cars"), demands)
    assert not allows(key(Right.READ, "Car"), demands_of("Query")({"TableName": name}))


@pytest.mark.parametrize(
    ("pattern", "matches", "not_these"),
    [
        ("Cars", ["Cars"], ["Car", "Cars2", "cars", "XCars", "Cars\n"]),
        ("Cars*", ["Cars", "Cars-2026"], ["Car", "MyCars"]),
        ("*.log", ["a.log", ".log"], ["alog", "a.log2"]),
        ("a*b*c", ["abc", "a-b-c", "abbc"], ["ab", "abcd"]),
        ("*", ["Cars", "*"], []),
    ],
)
def test_an_asterisk_is_anything_and_all_else_is_itself(
    pattern: str, matches: list[str], not_these: list[str]
) -> None:
    rights = Rights(read=[pattern])

    assert is_pattern(pattern)
    assert {Right.READ} == {rights.on(table) for table in matches}
    assert {Right.NONE} >= {rights.on(table) for table in not_these}


@pytest.mark.parametrize("pattern", ["", "Ca rs", "Cars/", "[a-z]", "C?rs", "Cärs", "x" * 256])
def test_text_that_matches_no_table_is_not_a_pattern(pattern: str) -> None:
    assert not is_pattern(pattern)


def test_the_highest_right_counts() -> None:
    rights = Rights(read=["*"], write=["Cars*"], admin=["Cars-test-*"])

    assert [Right.READ, Right.WRITE, Right.ADMIN] == [
        rights.on(table) for table in ("Boats", "Cars", "Cars-test-1")
    ]


def test_names_that_a_client_makes_up_are_not_kept_without_bound() -> None:
    rights = Rights(read=["Cars"])
    for n in range(5000):
        rights.on(f"table-{n}")

    assert len(rights._cache) <= 1000
    assert Right.READ == rights.on("Cars")


def test_a_missing_right_is_dynamodbs_access_denied() -> None:
    with pytest.raises(AccessDeniedError) as caught:
        check(key(Right.READ, "Cars"), demands_of("PutItem")(CARS), CATALOG)

    assert {
        "__type": "com.amazon.coral.service#AccessDeniedException",
        "Message": "User: arn:aws:iam::000000000000:user/FOLDB1 is not authorized to perform: dynamodb:PutItem "
        f"on resource: {ARN} because no identity-based policy allows the dynamodb:PutItem action",
    } == caught.value.body()
