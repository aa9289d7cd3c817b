"""Requests that together have every member that foldb accepts, and other values for these members.

Every member of a sample matters: another value of it alone, or its absence, changes the answer or the tables.
"""

import json
from functools import cache
from typing import Any, NamedTuple

from tests.behaviour.members.world import Request, observe

ARN = "arn:aws:dynamodb:us-east-1:000000000000:table/"
KINESIS = "arn:aws:kinesis:us-east-1:000000000000:stream/"
MAIN: dict[str, Any] = {"TableName": "main"}
SPARE: dict[str, Any] = {"TableName": "spare"}
UNITS = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 6}
WARM = {"ReadUnitsPerSecond": 13_000, "WriteUnitsPerSecond": 5_000}
ON_DEMAND = {"MaxReadRequestUnits": 7, "MaxWriteRequestUnits": 8}
COUNTED = {"ReturnConsumedCapacity": "INDEXES"}
MEASURED = {**COUNTED, "ReturnItemCollectionMetrics": "SIZE"}
STREAM = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
ENCRYPTED = {"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": "mine"}
FAILURE_SHOWN = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


def policy(*actions: str) -> str:
    """A document that denies these actions to all keys."""
    element = {"Effect": "Deny", "Principal": "*", "Action": list(actions), "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [element]})


PUT_POLICY = ("PutResourcePolicy", {"ResourceArn": f"{ARN}main", "Policy": policy("dynamodb:Query")})


class Sample(NamedTuple):
    """A request that succeeds.

    Attributes:
        operation: Its operation.
        body: The request.
        before: Requests that are sent first, after those that make the tables.
        times: How often the request is sent.
        about: The names of the members that the sample is about; None for all that it has. Where it has some, the
            request may also fail on a condition.
    """

    operation: str
    body: dict[str, Any]
    before: tuple[Request, ...] = ()
    times: int = 1
    about: tuple[str, ...] | None = None


def definitions(**types: str) -> list[dict[str, str]]:
    return [{"AttributeName": name, "AttributeType": kind} for name, kind in types.items()]


def key_schema(*names: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ("HASH", "RANGE"), strict=False)
    ]


def index(name: str, *key: str, **more: Any) -> dict[str, Any]:
    return {
        "IndexName": name,
        "KeySchema": key_schema(*key),
        "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["a"]},
        **more,
    }


def table(name: str, **more: Any) -> dict[str, Any]:
    return {
        "TableName": name,
        "AttributeDefinitions": definitions(p="S", q="N", r="S"),
        "KeySchema": key_schema("p", "q"),
        "LocalSecondaryIndexes": [index("lsi", "p", "r")],
        "GlobalSecondaryIndexes": [index("gsi", "r", "q")],
        "BillingMode": "PAY_PER_REQUEST",
        "StreamSpecification": STREAM,
        **more,
    }


def key(number: int, partition: str = "a") -> dict[str, Any]:
    return {"p": {"S": partition}, "q": {"N": str(number)}}


def item(number: int, partition: str = "a", times: int = 10) -> dict[str, Any]:
    return {
        **key(number, partition),
        "r": {"S": "xy"[number % 2]},
        "a": {"N": str(times * number)},
        "b": {"M": {"c": {"N": str(number)}}},
    }


BEFORE: list[Request] = [
    ("CreateTable", table("main", Tags=[{"Key": f"k{n}", "Value": str(n)} for n in range(3)])),
    ("CreateTable", table("spare")),
    (
        "CreateTable",
        table(
            "units",
            BillingMode="PROVISIONED",
            ProvisionedThroughput=UNITS,
            GlobalSecondaryIndexes=[index("gsi", "r", "q", ProvisionedThroughput=UNITS)],
        ),
    ),
    ("UpdateTimeToLive", {**SPARE, "TimeToLiveSpecification": {"Enabled": True, "AttributeName": "t"}}),
    (
        "UpdateContinuousBackups",
        {**SPARE, "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}},
    ),
    ("EnableKinesisStreamingDestination", {**SPARE, "StreamArn": f"{KINESIS}spare"}),
    *(("PutItem", {**MAIN, "Item": item(n)}) for n in range(1, 6)),
    *(("PutItem", {**MAIN, "Item": item(n, partition)}) for n in (1, 2) for partition in "bcdef"),
    *(("PutItem", {**SPARE, "Item": item(n, times=11)}) for n in range(1, 6)),
]

INSIGHTS_OF_TABLE: Request = ("UpdateContributorInsights", {**MAIN, "ContributorInsightsAction": "ENABLE"})
INSIGHTS: Request = (
    "UpdateContributorInsights",
    {
        **MAIN,
        "IndexName": "gsi",
        "ContributorInsightsAction": "ENABLE",
        "ContributorInsightsMode": "THROTTLED_KEYS",
    },
)

CONDITION = {
    "ConditionExpression": "#a = :ten",
    "ExpressionAttributeNames": {"#a": "a"},
    "ExpressionAttributeValues": {":ten": {"N": "10"}},
}
FAILING = {**CONDITION, "ConditionExpression": "#a <> :ten", **FAILURE_SHOWN}
EXPECTED = {
    "Expected": {
        "a": {"Value": {"N": "10"}, "Exists": True},
        "r": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "y"}]},
    },
}
EITHER = {
    "Expected": {"a": {"Value": {"N": "10"}}, "r": {"Value": {"S": "other"}}},
    "ConditionalOperator": "OR",
}
OF_A = {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "a"}]}
ABOVE_THREE = {"ComparisonOperator": "GT", "AttributeValueList": [{"N": "3"}]}


def filters(most: int) -> dict[str, Any]:
    return {
        "a": {"ComparisonOperator": "LT", "AttributeValueList": [{"N": str(most)}]},
        "lost": {"ComparisonOperator": "NOT_NULL", "AttributeValueList": []},
    }


FILTER = {
    "FilterExpression": "#a < :most",
    "ProjectionExpression": "q, #a",
    "ExpressionAttributeNames": {"#a": "a"},
}
PROJECTED = {"ProjectionExpression": "q, #a", "ExpressionAttributeNames": {"#a": "a"}}
TRANSACTION: list[dict[str, Any]] = [
    {"ConditionCheck": {**MAIN, "Key": key(1), **CONDITION}},
    {"Put": {**MAIN, "Item": {**key(1, "b"), "r": {"S": "z"}}, **CONDITION}},
    {"Delete": {**MAIN, "Key": key(1, "c"), **CONDITION}},
    {
        "Update": {
            **MAIN,
            "Key": key(1, "d"),
            **CONDITION,
            "UpdateExpression": "SET d = :ten",
        }
    },
]
UPDATE = {
    "UpdateExpression": "SET d = :d",
    **CONDITION,
    "ExpressionAttributeValues": {":ten": {"N": "10"}, ":d": {"S": "d"}},
}
UPDATES = {
    "AttributeUpdates": {
        "a": {"Action": "ADD", "Value": {"N": "1"}},
        "d": {"Action": "PUT", "Value": {"S": "d"}},
    }
}

ITEMS = [
    Sample("GetItem", {**MAIN, "Key": key(1), **COUNTED}),
    Sample("BatchGetItem", {"RequestItems": {"main": {"Keys": [key(1)]}}, **COUNTED}),
    Sample("PutItem", {**MAIN, "Item": item(1, times=7)}),
    Sample("DeleteItem", {**MAIN, "Key": key(1)}),
    Sample("UpdateItem", {**MAIN, "Key": key(9)}),
    Sample("GetItem", {**MAIN, "Key": key(1), **PROJECTED, "ConsistentRead": True, **COUNTED}),
    Sample(
        "GetItem", {**MAIN, "Key": key(1), "AttributesToGet": ["q", "a"], "ConsistentRead": True, **COUNTED}
    ),
    Sample(
        "BatchGetItem",
        {
            "RequestItems": {"main": {"Keys": [key(1), key(2)], **PROJECTED, "ConsistentRead": True}},
            **COUNTED,
        },
    ),
    Sample(
        "BatchGetItem",
        {"RequestItems": {"main": {"Keys": [key(1), key(2)], "AttributesToGet": ["q", "a"]}}, **COUNTED},
    ),
    Sample(
        "BatchWriteItem",
        {
            "RequestItems": {"main": [{"PutRequest": {"Item": item(9)}}, {"DeleteRequest": {"Key": key(1)}}]},
            **MEASURED,
        },
    ),
    Sample("PutItem", {**MAIN, "Item": item(1, times=7), **CONDITION, "ReturnValues": "ALL_OLD", **MEASURED}),
    Sample("PutItem", {**MAIN, "Item": item(1, times=7), **FAILING}, about=tuple(FAILURE_SHOWN)),
    Sample("PutItem", {**MAIN, "Item": item(1, times=7), **EXPECTED, "ReturnValues": "ALL_OLD", **MEASURED}),
    Sample("PutItem", {**MAIN, "Item": item(1, times=7), **EITHER}, about=("ConditionalOperator",)),
    Sample("DeleteItem", {**MAIN, "Key": key(1), **CONDITION, "ReturnValues": "ALL_OLD", **MEASURED}),
    Sample("DeleteItem", {**MAIN, "Key": key(1), **FAILING}, about=tuple(FAILURE_SHOWN)),
    Sample("DeleteItem", {**MAIN, "Key": key(1), **EXPECTED, "ReturnValues": "ALL_OLD", **MEASURED}),
    Sample("DeleteItem", {**MAIN, "Key": key(1), **EITHER}, about=("ConditionalOperator",)),
    Sample("UpdateItem", {**MAIN, "Key": key(1), **UPDATE, "ReturnValues": "ALL_NEW", **MEASURED}),
    Sample(
        "UpdateItem",
        {**MAIN, "Key": key(1), **FAILING, "UpdateExpression": "SET d = :ten"},
        about=tuple(FAILURE_SHOWN),
    ),
    Sample(
        "UpdateItem", {**MAIN, "Key": key(1), **UPDATES, **EXPECTED, "ReturnValues": "ALL_NEW", **MEASURED}
    ),
    Sample("UpdateItem", {**MAIN, "Key": key(1), **UPDATES, **EITHER}, about=("ConditionalOperator",)),
    Sample(
        "TransactGetItems",
        {
            "TransactItems": [
                {"Get": {**MAIN, "Key": key(1), **PROJECTED}},
                {"Get": {**MAIN, "Key": key(2)}},
            ],
            **COUNTED,
        },
    ),
    Sample("TransactWriteItems", {"TransactItems": TRANSACTION, **MEASURED}),
    *(
        Sample(
            "TransactWriteItems",
            {"TransactItems": [{kind: {**request, **FAILING}}]},
            about=tuple(FAILURE_SHOWN),
        )
        for action in TRANSACTION
        for kind, request in action.items()
    ),
    Sample(
        "TransactWriteItems",
        {
            "ClientRequestToken": "token",
            "TransactItems": [
                {
                    "Update": {
                        **MAIN,
                        "Key": key(1),
                        "UpdateExpression": "ADD a :one",
                        "ExpressionAttributeValues": {":one": {"N": "1"}},
                    }
                }
            ],
        },
        times=2,
        about=("ClientRequestToken",),
    ),
]

OF_KEY = "p = 'a' AND q = 1"
UPDATE_ONE = {"Statement": f"UPDATE main SET e = ? WHERE {OF_KEY}", "Parameters": [{"S": "x"}]}
FAILING_UPDATE = {"Statement": f"UPDATE main SET e = 1 WHERE {OF_KEY} AND a <> 10", **FAILURE_SHOWN}
SELECT_PAGE = {
    "Statement": "SELECT q FROM main WHERE p = 'a' AND a > ?",
    "Parameters": [{"N": "3"}],
    "Limit": 2,
}
STATEMENTS = [
    Sample("ExecuteStatement", {**SELECT_PAGE, "ConsistentRead": True, **COUNTED}),
    Sample("ExecuteStatement", FAILING_UPDATE, about=("ReturnValuesOnConditionCheckFailure",)),
    Sample(
        "BatchExecuteStatement",
        {
            "Statements": [
                {
                    "Statement": "SELECT q FROM main WHERE p = ? AND q = 1",
                    "Parameters": [{"S": "a"}],
                    "ConsistentRead": True,
                }
            ],
            **COUNTED,
        },
    ),
    Sample(
        "BatchExecuteStatement",
        {"Statements": [FAILING_UPDATE]},
        about=("ReturnValuesOnConditionCheckFailure",),
    ),
    Sample("ExecuteTransaction", {"TransactStatements": [UPDATE_ONE], **COUNTED}),
    Sample(
        "ExecuteTransaction",
        {"TransactStatements": [FAILING_UPDATE]},
        about=("ReturnValuesOnConditionCheckFailure",),
    ),
    Sample(
        "ExecuteTransaction",
        {
            "ClientRequestToken": "token",
            "TransactStatements": [{"Statement": f"UPDATE main SET a = a + 1 WHERE {OF_KEY}"}],
        },
        times=2,
        about=("ClientRequestToken",),
    ),
]


def of_statements() -> list[Sample]:
    first = observe(BEFORE, ("ExecuteStatement", SELECT_PAGE)).answers[0].body
    second = {**SELECT_PAGE, "NextToken": first["NextToken"]}
    return [*STATEMENTS, Sample("ExecuteStatement", second, about=("NextToken",))]


READ = {**MAIN, "ConsistentRead": True, **COUNTED}
BACKWARD = {"ScanIndexForward": False, "Limit": 2, "ExclusiveStartKey": key(5)}
PAGES = [
    Sample("Query", {**MAIN, **COUNTED, "KeyConditions": {"p": OF_A}}),
    Sample(
        "Query",
        {
            **MAIN,
            **COUNTED,
            "KeyConditionExpression": "p = :p",
            "ExpressionAttributeValues": {":p": {"S": "a"}},
        },
    ),
    Sample("Scan", {**MAIN, **COUNTED}),
    Sample(
        "Query",
        {
            **READ,
            **BACKWARD,
            **FILTER,
            "KeyConditionExpression": "p = :p AND q > :q",
            "ExpressionAttributeValues": {":p": {"S": "a"}, ":q": {"N": "3"}, ":most": {"N": "41"}},
        },
    ),
    Sample(
        "Query",
        {
            **READ,
            **BACKWARD,
            "KeyConditions": {"p": OF_A, "q": ABOVE_THREE},
            "QueryFilter": filters(41),
            "ConditionalOperator": "OR",
            "AttributesToGet": ["q", "a"],
        },
    ),
    Sample(
        "Query",
        {
            **READ,
            **BACKWARD,
            **FILTER,
            "KeyConditions": {"p": OF_A, "q": ABOVE_THREE},
            "ExpressionAttributeValues": {":most": {"N": "41"}},
        },
    ),
    Sample("Query", {**READ, "IndexName": "lsi", "KeyConditions": {"p": OF_A}, "Select": "ALL_ATTRIBUTES"}),
    Sample(
        "Scan",
        {
            **READ,
            **FILTER,
            "ExpressionAttributeValues": {":most": {"N": "41"}},
            "Limit": 3,
            "ExclusiveStartKey": key(2),
        },
    ),
    Sample(
        "Scan",
        {
            **READ,
            "ScanFilter": filters(21),
            "ConditionalOperator": "OR",
            "AttributesToGet": ["q", "a"],
            "Segment": 0,
            "TotalSegments": 2,
        },
    ),
    Sample("Scan", {**READ, "IndexName": "lsi", "Select": "ALL_ATTRIBUTES"}),
]

STOP_STREAM: Request = ("UpdateTable", {**MAIN, "StreamSpecification": {"StreamEnabled": False}})
START_STREAM: Request = ("UpdateTable", {**MAIN, "StreamSpecification": STREAM})
KEYED = {"AttributeDefinitions": definitions(p="S", q="N", r="S"), "KeySchema": key_schema("p", "q")}
TABLES = [
    Sample(
        "CreateTable",
        {
            "TableName": "new",
            "AttributeDefinitions": definitions(p="S", q="N"),
            "KeySchema": key_schema("p", "q"),
            "BillingMode": "PAY_PER_REQUEST",
            "StreamSpecification": {"StreamEnabled": False},
            "SSESpecification": {"Enabled": False},
        },
    ),
    Sample(
        "CreateTable",
        {
            "TableName": "new",
            **KEYED,
            "LocalSecondaryIndexes": [index("lsi", "p", "r")],
            "GlobalSecondaryIndexes": [
                index("gsi", "r", "q", OnDemandThroughput=ON_DEMAND, WarmThroughput=WARM),
                index("other", "p", Projection={"ProjectionType": "KEYS_ONLY"}),
            ],
            "BillingMode": "PAY_PER_REQUEST",
            "OnDemandThroughput": ON_DEMAND,
            "WarmThroughput": WARM,
            "StreamSpecification": STREAM,
            "SSESpecification": ENCRYPTED,
            "Tags": [{"Key": "k", "Value": "v"}, {"Key": "l", "Value": "w"}],
            "TableClass": "STANDARD_INFREQUENT_ACCESS",
            "DeletionProtectionEnabled": True,
            "ResourcePolicy": policy("dynamodb:Scan"),
        },
    ),
    Sample(
        "CreateTable",
        {
            "TableName": "new",
            **KEYED,
            "GlobalSecondaryIndexes": [
                index("gsi", "r", "q", ProvisionedThroughput=UNITS),
                index("other", "p", ProvisionedThroughput=UNITS),
            ],
            "ProvisionedThroughput": UNITS,
        },
    ),
    Sample("DeleteTable", MAIN),
    Sample("DescribeContinuousBackups", MAIN),
    Sample("DescribeContributorInsights", {**MAIN, "IndexName": "gsi"}, (INSIGHTS,)),
    Sample("DescribeEndpoints", {}),
    Sample("DescribeKinesisStreamingDestination", MAIN),
    Sample("DescribeLimits", {}),
    Sample("DescribeTable", MAIN),
    Sample("DescribeTimeToLive", MAIN),
    Sample("ListContributorInsights", {**MAIN, "MaxResults": 1}, (INSIGHTS, INSIGHTS_OF_TABLE)),
    Sample("ListContributorInsights", {**MAIN, "NextToken": "main "}, (INSIGHTS, INSIGHTS_OF_TABLE)),
    Sample("ListTables", {"ExclusiveStartTableName": "main", "Limit": 1}),
    Sample("ListTagsOfResource", {"ResourceArn": f"{ARN}main", "NextToken": "k0"}),
    Sample("GetResourcePolicy", {"ResourceArn": f"{ARN}main"}, (PUT_POLICY,)),
    Sample(
        "PutResourcePolicy",
        {
            "ResourceArn": f"{ARN}main",
            "Policy": policy("dynamodb:PutResourcePolicy"),
            "ExpectedRevisionId": "NO_POLICY",
            "ConfirmRemoveSelfResourceAccess": True,
        },
    ),
    Sample("DeleteResourcePolicy", {"ResourceArn": f"{ARN}main"}, (PUT_POLICY,)),
    Sample(
        "DeleteResourcePolicy",
        {"ResourceArn": f"{ARN}main", "ExpectedRevisionId": "NO_POLICY"},
        about=("ExpectedRevisionId",),
    ),
    Sample(
        "TagResource",
        {"ResourceArn": f"{ARN}main", "Tags": [{"Key": "k1", "Value": "v"}, {"Key": "n", "Value": "w"}]},
    ),
    Sample("UntagResource", {"ResourceArn": f"{ARN}main", "TagKeys": ["k1", "k2"]}),
    Sample(
        "UpdateContinuousBackups",
        {
            **MAIN,
            "PointInTimeRecoverySpecification": {
                "PointInTimeRecoveryEnabled": True,
                "RecoveryPeriodInDays": 7,
            },
        },
    ),
    Sample(
        "UpdateContinuousBackups",
        {**MAIN, "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}},
    ),
    Sample(*INSIGHTS),
    Sample("UpdateTimeToLive", {**MAIN, "TimeToLiveSpecification": {"Enabled": True, "AttributeName": "t"}}),
    Sample(
        "UpdateTable",
        {
            **MAIN,
            "BillingMode": "PROVISIONED",
            "ProvisionedThroughput": UNITS,
            "GlobalSecondaryIndexUpdates": [{"Update": {"IndexName": "gsi", "ProvisionedThroughput": UNITS}}],
        },
    ),
    Sample("UpdateTable", {"TableName": "units", "BillingMode": "PAY_PER_REQUEST"}),
    Sample("UpdateTable", {**MAIN, "OnDemandThroughput": ON_DEMAND}),
    Sample("UpdateTable", {**MAIN, "WarmThroughput": WARM}),
    Sample(*STOP_STREAM),
    Sample("UpdateTable", {**MAIN, "SSESpecification": ENCRYPTED}),
    Sample(
        "UpdateTable",
        {**MAIN, "SSESpecification": {"Enabled": False}},
        before=(("UpdateTable", {**MAIN, "SSESpecification": ENCRYPTED}),),
    ),
    Sample("UpdateTable", {**MAIN, "TableClass": "STANDARD_INFREQUENT_ACCESS"}),
    Sample("UpdateTable", {**MAIN, "DeletionProtectionEnabled": True}),
    Sample(
        "UpdateTable",
        {
            **MAIN,
            "GlobalSecondaryIndexUpdates": [
                {"Update": {"IndexName": "gsi", "OnDemandThroughput": ON_DEMAND, "WarmThroughput": WARM}}
            ],
        },
    ),
    Sample(
        "UpdateTable",
        {
            **MAIN,
            "AttributeDefinitions": definitions(p="S", q="N", r="S", d="S"),
            "GlobalSecondaryIndexUpdates": [
                {"Create": index("new", "d", "q", OnDemandThroughput=ON_DEMAND, WarmThroughput=WARM)}
            ],
        },
    ),
    Sample(
        "UpdateTable",
        {
            "TableName": "units",
            "AttributeDefinitions": definitions(p="S", q="N", r="S"),
            "GlobalSecondaryIndexUpdates": [{"Create": index("new", "q", "r", ProvisionedThroughput=UNITS)}],
        },
    ),
    Sample("UpdateTable", {**MAIN, "GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "gsi"}}]}),
    Sample(*START_STREAM, before=(STOP_STREAM,)),
]

ENABLE: Request = ("EnableKinesisStreamingDestination", {**MAIN, "StreamArn": f"{KINESIS}main"})
FINER = {"ApproximateCreationDateTimePrecision": "MICROSECOND"}
DESTINATIONS = [
    Sample(ENABLE[0], {**ENABLE[1], "EnableKinesisStreamingConfiguration": FINER}),
    Sample("DisableKinesisStreamingDestination", ENABLE[1], before=(ENABLE,)),
    Sample(
        "UpdateKinesisStreamingDestination",
        {**ENABLE[1], "UpdateKinesisStreamingConfiguration": FINER},
        before=(ENABLE,),
    ),
]


class Streams(NamedTuple):
    """The streams of the tables main and spare, and shards, numbers and iterators of the first."""

    main: str
    spare: str
    shards: list[dict[str, Any]]
    iterators: list[str]


@cache
def streams() -> Streams:
    """Ask a database for its streams: each database of these tests has the same."""
    listed = observe(BEFORE, ("ListStreams", {})).answers[0].body["Streams"]
    arns = {each["TableName"]: each["StreamArn"] for each in listed}
    described = observe(BEFORE, ("DescribeStream", {"StreamArn": arns["main"]})).answers[0]
    shards = described.body["StreamDescription"]["Shards"]
    kinds = ("TRIM_HORIZON", "LATEST")
    asked = [
        (
            "GetShardIterator",
            {"StreamArn": arns["main"], "ShardId": shards[1]["ShardId"], "ShardIteratorType": kind},
        )
        for kind in kinds
    ]
    iterators = [answer.body["ShardIterator"] for answer in observe(BEFORE, *asked).answers]
    return Streams(arns["main"], arns["spare"], shards, iterators)


def of_streams() -> list[Sample]:
    main, _, shards, iterators = streams()
    second = {"StreamArn": main, "ShardId": shards[1]["ShardId"]}
    numbers = shards[1]["SequenceNumberRange"]
    return [
        Sample("ListStreams", MAIN, before=(STOP_STREAM, START_STREAM)),
        Sample("ListStreams", {"ExclusiveStartStreamArn": main, "Limit": 1}),
        Sample(
            "DescribeStream", {"StreamArn": main, "ExclusiveStartShardId": shards[0]["ShardId"], "Limit": 1}
        ),
        Sample(
            "DescribeStream",
            {"StreamArn": main, "ShardFilter": {"Type": "CHILD_SHARDS", "ShardId": shards[0]["ShardId"]}},
        ),
        Sample("GetRecords", {"ShardIterator": iterators[0], "Limit": 2}),
        Sample("GetShardIterator", {**second, "ShardIteratorType": "TRIM_HORIZON"}),
        Sample(
            "GetShardIterator",
            {
                **second,
                "ShardIteratorType": "AT_SEQUENCE_NUMBER",
                "SequenceNumber": numbers["EndingSequenceNumber"],
            },
        ),
        Sample(
            "GetShardIterator", {**second, "ShardIteratorType": "AT_TIMESTAMP", "Timestamp": 1_700_000_001}
        ),
    ]


BACKED_UP: tuple[Request, ...] = tuple(
    ("CreateBackup", {**table, "BackupName": f"backup-{n}"})
    for n, table in enumerate((MAIN, MAIN, SPARE, MAIN))
)
NEW = {"TargetTableName": "new"}


@cache
def backups() -> list[str]:
    """The ARNs of the backups: each database of these tests has the same."""
    answers = observe([*BEFORE, *BACKED_UP], ("ListBackups", {})).answers
    return [each["BackupArn"] for each in answers[0].body["BackupSummaries"]]


def of_backups() -> list[Sample]:
    arns = backups()
    from_backup = {**NEW, "BackupArn": arns[0]}
    to_time = {**NEW, "SourceTableName": "spare", "RestoreDateTime": 1_700_000_000}
    latest = {**NEW, "SourceTableArn": f"{ARN}spare", "UseLatestRestorableTime": True}
    provisioned = {
        "BillingModeOverride": "PROVISIONED",
        "ProvisionedThroughputOverride": UNITS,
        "SSESpecificationOverride": ENCRYPTED,
    }
    global_index = {"GlobalSecondaryIndexOverride": [index("gsi", "r", "q", ProvisionedThroughput=UNITS)]}
    on_demand = {
        "OnDemandThroughputOverride": ON_DEMAND,
        "GlobalSecondaryIndexOverride": [
            index("gsi", "r", "q", OnDemandThroughput=ON_DEMAND, WarmThroughput=WARM)
        ],
        "LocalSecondaryIndexOverride": [index("lsi", "p", "r")],
    }
    during = {"TimeRangeLowerBound": 1_600_000_000, "TimeRangeUpperBound": 1_800_000_000}
    paged = {"TableName": "main", "BackupType": "ALL", "ExclusiveStartBackupArn": arns[0], "Limit": 1}
    return [
        Sample("CreateBackup", {**MAIN, "BackupName": "first"}),
        Sample("DescribeBackup", {"BackupArn": arns[0]}, before=BACKED_UP),
        Sample("DeleteBackup", {"BackupArn": arns[0]}, before=BACKED_UP),
        Sample("ListBackups", {**paged, **during}, before=BACKED_UP),
        Sample("RestoreTableFromBackup", {**from_backup, **provisioned, **global_index}, before=BACKED_UP),
        Sample("RestoreTableFromBackup", {**from_backup, **on_demand}, before=BACKED_UP),
        Sample("RestoreTableToPointInTime", {**to_time, **provisioned, **global_index}),
        Sample("RestoreTableToPointInTime", {**latest, **on_demand}),
    ]


TO_BUCKET: dict[str, Any] = {"TableArn": f"{ARN}spare", "S3Bucket": "one"}
WRITTEN = {
    "S3BucketOwner": "123456789012",
    "S3Prefix": "a/b",
    "S3SseAlgorithm": "KMS",
    "S3SseKmsKeyId": "key",
    "ClientToken": "token",
}
FROM_BUCKET: dict[str, Any] = {
    "S3BucketSource": {"S3Bucket": "one", "S3KeyPrefix": "in/a", "S3BucketOwner": "123456789012"},
    "InputFormat": "DYNAMODB_JSON",
    "ClientToken": "token",
}
PUTS: dict[str, Any] = {
    **MAIN,
    "InputS3Configuration": {
        "S3Bucket": "one",
        "S3BucketOwner": "123456789012",
        "S3KeyPrefix": "in/a",
        "InputFormat": "DYNAMODB_JSON",
        "InputCompressionType": "NONE",
    },
    "OutputS3Configuration": {
        "S3Bucket": "one",
        "S3BucketOwner": "123456789012",
        "S3KeyPrefix": "out",
        "S3SseAlgorithm": "KMS",
        "S3SseKmsKeyId": "key",
        "OutputType": ["ERROR"],
    },
    "ClientToken": "token",
    "MaxWriteRequestUnits": 2000,
    "PerformanceTier": "ACCELERATED",
}
IMPORTED: dict[str, Any] = {
    **FROM_BUCKET,
    "TableCreationParameters": {
        "TableName": "new",
        **KEYED,
        "GlobalSecondaryIndexes": [index("gsi", "r", "q")],
        "BillingMode": "PAY_PER_REQUEST",
    },
}
RAN: tuple[Request, ...] = (
    ("ExportTableToPointInTime", TO_BUCKET),
    ("ExportTableToPointInTime", {**TO_BUCKET, "S3Prefix": "c"}),
    ("ImportTable", IMPORTED),
    (
        "ImportTable",
        {
            **IMPORTED,
            "ClientToken": "other",
            "TableCreationParameters": {**IMPORTED["TableCreationParameters"], "TableName": "newer"},
        },
    ),
    ("StartBulkPutItems", PUTS),
    ("StartBulkPutItems", {**PUTS, "ClientToken": "other"}),
)


class JobNames(NamedTuple):
    """The ARNs of the jobs of `RAN`, the newest first, and the tokens of the second pages of their lists."""

    exports: list[str]
    imports: list[str]
    bulk_operations: list[str]
    tokens: list[str]


@cache
def jobs() -> JobNames:
    """The names of the jobs: each database of these tests has the same."""
    lists: list[Request] = [("ListExports", {}), ("ListImports", {}), ("ListBulkOperations", {})]
    firsts: list[Request] = [
        ("ListExports", {"MaxResults": 1}),
        ("ListImports", {"PageSize": 1}),
        ("ListBulkOperations", {"MaxResults": 1}),
    ]
    bodies = [answer.body for answer in observe([*BEFORE, *RAN], *lists, *firsts).answers]
    return JobNames(
        [each["ExportArn"] for each in bodies[0]["ExportSummaries"]],
        [each["ImportArn"] for each in bodies[1]["ImportSummaryList"]],
        [each["BulkOperationArn"] for each in bodies[2]["BulkOperationsSummaryList"]],
        [body["NextToken"] for body in bodies[3:]],
    )


def of_jobs() -> list[Sample]:
    known = jobs()
    incremental = {
        "ExportType": "INCREMENTAL_EXPORT",
        "IncrementalExportSpecification": {
            "ExportFromTime": 1_700_000_000,
            "ExportToTime": 1_700_000_002,
            "ExportViewType": "NEW_IMAGE",
        },
    }
    parameters = IMPORTED["TableCreationParameters"]
    provisioned = {
        **parameters,
        "GlobalSecondaryIndexes": [index("gsi", "r", "q", ProvisionedThroughput=UNITS)],
        "BillingMode": "PROVISIONED",
        "ProvisionedThroughput": UNITS,
        "SSESpecification": ENCRYPTED,
    }
    limited = {
        **parameters,
        "GlobalSecondaryIndexes": [index("gsi", "r", "q", OnDemandThroughput=ON_DEMAND, WarmThroughput=WARM)],
        "OnDemandThroughput": ON_DEMAND,
    }
    csv = {"Csv": {"Delimiter": ";", "HeaderList": ["p", "q", "r"]}}
    bucket = {"S3Bucket": "one", "S3KeyPrefix": "in/b"}
    return [
        Sample(
            "ExportTableToPointInTime",
            {**TO_BUCKET, **WRITTEN, "ExportFormat": "ION", "ExportTime": 1_700_000_000},
        ),
        Sample("ExportTableToPointInTime", {**TO_BUCKET, **WRITTEN, **incremental}),
        Sample("DescribeExport", {"ExportArn": known.exports[0]}, before=RAN),
        Sample("ListExports", {"TableArn": f"{ARN}spare", "MaxResults": 1}, before=RAN),
        Sample("ListExports", {"NextToken": known.tokens[0]}, before=RAN, about=("NextToken",)),
        Sample("ImportTable", {**FROM_BUCKET, "TableCreationParameters": provisioned}),
        Sample(
            "ImportTable", {**FROM_BUCKET, "InputCompressionType": "NONE", "TableCreationParameters": limited}
        ),
        Sample(
            "ImportTable",
            {
                **IMPORTED,
                "S3BucketSource": bucket,
                "InputFormat": "CSV",
                "InputFormatOptions": csv,
                "InputCompressionType": "NONE",
            },
        ),
        Sample("DescribeImport", {"ImportArn": known.imports[0]}, before=RAN),
        Sample("ListImports", {"TableArn": f"{ARN}new"}, before=RAN, about=("TableArn",)),
        Sample("ListImports", {"PageSize": 1}, before=RAN),
        Sample("ListImports", {"NextToken": known.tokens[1]}, before=RAN, about=("NextToken",)),
        Sample("StartBulkPutItems", PUTS),
        Sample("DescribeBulkOperation", {"BulkOperationArn": known.bulk_operations[0]}, before=RAN),
        Sample("ListBulkOperations", {"MaxResults": 1}, before=RAN),
        Sample("ListBulkOperations", {"NextToken": known.tokens[2]}, before=RAN, about=("NextToken",)),
        Sample("CancelBulkOperation", {"BulkOperationArn": known.bulk_operations[0]}, before=RAN),
    ]


@cache
def samples() -> tuple[Sample, ...]:
    """All samples."""
    return (
        *ITEMS,
        *of_statements(),
        *PAGES,
        *TABLES,
        *DESTINATIONS,
        *of_streams(),
        *of_backups(),
        *of_jobs(),
    )
