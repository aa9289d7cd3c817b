"""A successful request of every operation, for a database with one table, an item in it and a subscription to it.

Names that only the database creates, such as ARNs and iterators, are placeholders in `<>`, which `Told` fills in.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

STREAMS_API, ADMIN_API = "DynamoDBStreams_20120810.", "Foldb_20261121."
TABLE = "abc"
CREATE: dict[str, Any] = {
    "TableName": TABLE,
    "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "q", "KeyType": "RANGE"}],
    "AttributeDefinitions": [
        {"AttributeName": "p", "AttributeType": "S"},
        {"AttributeName": "q", "AttributeType": "N"},
        {"AttributeName": "r", "AttributeType": "B"},
    ],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "gsi",
            "KeySchema": [{"AttributeName": "r", "KeyType": "HASH"}],
            "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["a"]},
        }
    ],
    "LocalSecondaryIndexes": [
        {
            "IndexName": "lsi",
            "KeySchema": [
                {"AttributeName": "p", "KeyType": "HASH"},
                {"AttributeName": "r", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        }
    ],
    "BillingMode": "PAY_PER_REQUEST",
    "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
}
KEY = {"p": {"S": "a"}, "q": {"N": "1"}}
ITEM: dict[str, Any] = {
    **KEY,
    "r": {"B": "AQ=="},
    "a": {"L": [{"N": "1"}, {"S": "x"}]},
    "b": {"M": {"c": {"NS": ["1", "2"]}}},
}
ARN = f"arn:aws:dynamodb:us-east-1:000000000000:table/{TABLE}"
POLICY = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": {
            "Effect": "Deny",
            "Principal": "*",
            "Action": "dynamodb:Scan",
            "Resource": ARN,
            "Condition": {"ForAnyValue:StringLike": {"dynamodb:Attributes": ["secret*", "${aws:username}"]}},
        },
    }
)
CONDITION = {"ConditionExpression": "a = :v", "ExpressionAttributeValues": {":v": {"N": "1"}}}
ON_TABLE: dict[str, Any] = {"TableName": TABLE}
RECOVERABLE = {**ON_TABLE, "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}}
KINESIS = "arn:aws:kinesis:us-east-1:000000000000:stream/abc"
NAMED = {"Name": "sub"}
IN_BUCKET = {"S3Bucket": "one", "S3KeyPrefix": "in/"}
EXPORTED: dict[str, Any] = {"TableArn": ARN, "S3Bucket": "one", "S3Prefix": "out"}
IMPORTED: dict[str, Any] = {
    "S3BucketSource": IN_BUCKET,
    "InputFormat": "CSV",
    "TableCreationParameters": {
        "TableName": "imported",
        "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "p", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
    },
}
BULK: dict[str, Any] = {
    **ON_TABLE,
    "InputS3Configuration": {**IN_BUCKET, "InputFormat": "ION"},
    "OutputS3Configuration": {"S3Bucket": "one", "OutputType": ["ERROR"]},
}
SUBSCRIBED: dict[str, Any] = {
    **NAMED,
    "TableNames": [TABLE],
    "Sink": {"Kind": "kinesis", "StreamArn": KINESIS},
    "Filter": {"Expression": "NEW.a = :v", "ExpressionAttributeValues": {":v": {"N": "1"}}},
    "BatchSize": 10,
}

ALARM: dict[str, Any] = {
    **ON_TABLE,
    "MetricName": "ThrottledRequests",
    "Operation": "PutItem",
    "Statistic": "Sum",
    "Threshold": 1,
    "ComparisonOperator": "GreaterThanThreshold",
    "Period": 60,
    "EvaluationPeriods": 3,
    "DatapointsToAlarm": 2,
    "TreatMissingData": "notBreaching",
    "States": ["ALARM", "OK"],
    "Subscription": {"Sink": {"Kind": "kinesis", "StreamArn": KINESIS}},
}


# The objects that the samples use, in the order of their creation.
def make_buckets(folder: Path) -> Path:
    """Make the folder of the bucket that the samples use, and return that of all buckets."""
    files = folder / "buckets" / "one" / "in"
    files.mkdir(parents=True)
    (files / "a.csv").write_text("p;q\na;1\nb;x\n")
    (files / "b.ion").write_text('$ion_1_0 {Item:{p:"a",q:1.}}\n{Item:{}}\n')
    return folder / "buckets"


MADE: list[tuple[str, dict[str, Any]]] = [
    ("CreateTable", CREATE),
    ("PutItem", {**ON_TABLE, "Item": ITEM}),
    ("CreateBackup", {**ON_TABLE, "BackupName": "backup"}),
    ("UpdateContinuousBackups", RECOVERABLE),
    (ADMIN_API + "CreateSubscription", SUBSCRIBED),
    (ADMIN_API + "PutAlarm", {**ALARM, "AlarmName": "alarm"}),
]

SCALING: dict[str, Any] = {
    "MinimumUnits": 1,
    "MaximumUnits": 10,
    "AutoScalingRoleArn": "role",
    "ScalingPolicyUpdate": {
        "PolicyName": "policy",
        "TargetTrackingScalingPolicyConfiguration": {"TargetValue": 70.5, "ScaleInCooldown": 60},
    },
}
GLOBAL: dict[str, Any] = {"GlobalTableName": TABLE}

# One of each operation at least. Each succeeds, except on global tables, of which there are none.
SAMPLES: list[tuple[str, dict[str, Any]]] = [
    (
        "BatchExecuteStatement",
        {
            "Statements": [
                {
                    "Statement": "UPDATE abc SET e = ? WHERE p = 'a' AND q = 1 AND size(a) > 1 RETURNING ALL NEW *",
                    "Parameters": [{"NS": ["1", "2"]}],
                    "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                },
                {"Statement": "DELETE FROM abc WHERE p = 'lost' AND q = 2"},
            ],
            "ReturnConsumedCapacity": "TOTAL",
        },
    ),
    ("BatchGetItem", {"RequestItems": {TABLE: {"Keys": [KEY], "ProjectionExpression": "a[0]"}}}),
    (
        "BatchWriteItem",
        {"RequestItems": {TABLE: [{"PutRequest": {"Item": ITEM}}]}, "ReturnItemCollectionMetrics": "SIZE"},
    ),
    ("CancelBulkOperation", {"BulkOperationArn": "<bulk>"}),
    ("CreateBackup", {**ON_TABLE, "BackupName": "nightly"}),
    ("CreateTable", {**CREATE, "TableName": "other"}),
    ("DeleteBackup", {"BackupArn": "<backup>"}),
    ("DeleteItem", {**ON_TABLE, "Key": KEY, "ReturnValues": "ALL_OLD", "Expected": {"c": {"Exists": False}}}),
    ("DeleteTable", ON_TABLE),
    ("DescribeBackup", {"BackupArn": "<backup>"}),
    ("DescribeBulkOperation", {"BulkOperationArn": "<bulk>"}),
    ("DescribeExport", {"ExportArn": "<export>"}),
    ("DescribeImport", {"ImportArn": "<import>"}),
    ("DescribeContinuousBackups", ON_TABLE),
    ("DescribeEndpoints", {}),
    ("DescribeKinesisStreamingDestination", ON_TABLE),
    ("DescribeLimits", {}),
    ("DescribeTable", ON_TABLE),
    ("DescribeTimeToLive", ON_TABLE),
    ("DisableKinesisStreamingDestination", {**ON_TABLE, "StreamArn": KINESIS}),
    (
        "EnableKinesisStreamingDestination",
        {
            **ON_TABLE,
            "StreamArn": KINESIS,
            "EnableKinesisStreamingConfiguration": {"ApproximateCreationDateTimePrecision": "MILLISECOND"},
        },
    ),
    (
        "ExecuteStatement",
        {
            "Statement": 'SELECT a[0], b.c FROM "abc" WHERE p = ? AND q BETWEEN 0 AND ? ORDER BY q DESC',
            "Parameters": [{"S": "a"}, {"N": "2"}],
            "ConsistentRead": True,
            "Limit": 2,
            "ReturnConsumedCapacity": "INDEXES",
        },
    ),
    ("ExecuteStatement", {"Statement": "SELECT * FROM abc.gsi WHERE a IS MISSING OR NOT contains(a, 1)"}),
    (
        "ExecuteStatement",
        {"Statement": "INSERT INTO abc VALUE {'p': 'b', 'q': ?, 'x': <<1, 2>>}", "Parameters": [{"N": "7"}]},
    ),
    (
        "ExecuteTransaction",
        {
            "TransactStatements": [
                {"Statement": "EXISTS(SELECT * FROM abc WHERE p = 'a' AND q = 1 AND b IS NOT MISSING)"},
                {
                    "Statement": "INSERT INTO abc VALUE {'p': 'c', 'q': ?}",
                    "Parameters": [{"N": "1"}],
                },
            ],
            "ClientRequestToken": "statements",
            "ReturnConsumedCapacity": "TOTAL",
        },
    ),
    ("GetItem", {**ON_TABLE, "Key": KEY, "AttributesToGet": ["a"], "ReturnConsumedCapacity": "INDEXES"}),
    ("GetItem", {"TableName": f"{TABLE}@2.0", "Key": KEY, "ReturnConsumedCapacity": "INDEXES"}),
    ("ExportTableToPointInTime", EXPORTED),
    (
        "ImportTable",
        {**IMPORTED, "InputFormatOptions": {"Csv": {"Delimiter": ";", "HeaderList": ["p", "q"]}}},
    ),
    ("ListBulkOperations", {"MaxResults": 1}),
    ("ListExports", {"TableArn": ARN, "MaxResults": 1}),
    ("ListImports", {"TableArn": ARN, "PageSize": 1}),
    ("StartBulkPutItems", {**BULK, "MaxWriteRequestUnits": 2000, "ClientToken": "token"}),
    ("ListBackups", {**ON_TABLE, "Limit": 1, "BackupType": "ALL", "TimeRangeUpperBound": 4_000_000_000}),
    ("ListTables", {"Limit": 1, "ExclusiveStartTableName": "aaa"}),
    ("ListTagsOfResource", {"ResourceArn": ARN}),
    (
        "PutItem",
        {
            **ON_TABLE,
            "Item": ITEM,
            "ConditionExpression": "attribute_exists(#b.c) AND a[0] IN (:v, q)",
            "ExpressionAttributeNames": {"#b": "b"},
            "ExpressionAttributeValues": {":v": {"N": "1"}},
            "ReturnConsumedCapacity": "TOTAL",
        },
    ),
    (
        "Query",
        {
            **ON_TABLE,
            "KeyConditionExpression": "p = :p AND q BETWEEN :a AND :b",
            "FilterExpression": "size(a) > :a",
            "ExpressionAttributeValues": {":p": {"S": "a"}, ":a": {"N": "1"}, ":b": {"N": "2"}},
            "Limit": 1,
            "ExclusiveStartKey": KEY,
        },
    ),
    (
        "Query",
        {
            **ON_TABLE,
            "IndexName": "lsi",
            "KeyConditions": {
                "p": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "a"}]},
                "r": {"ComparisonOperator": "BEGINS_WITH", "AttributeValueList": [{"B": "AQ=="}]},
            },
            "Select": "ALL_ATTRIBUTES",
        },
    ),
    ("RestoreTableFromBackup", {"TargetTableName": "restored", "BackupArn": "<backup>"}),
    (
        "RestoreTableToPointInTime",
        {
            "SourceTableName": TABLE,
            "TargetTableName": "restored",
            "UseLatestRestorableTime": True,
            "GlobalSecondaryIndexOverride": [],
        },
    ),
    ("Scan", {**ON_TABLE, "IndexName": "gsi", "Segment": 0, "TotalSegments": 2, "Select": "COUNT"}),
    (
        "Scan",
        {
            **ON_TABLE,
            "ScanFilter": {"a": {"ComparisonOperator": "NOT_NULL"}},
            "ScanFilter ": None,
            "Limit": 5,
        },
    ),
    ("PutResourcePolicy", {"ResourceArn": ARN, "Policy": POLICY, "ExpectedRevisionId": "NO_POLICY"}),
    ("GetResourcePolicy", {"ResourceArn": ARN}),
    ("DeleteResourcePolicy", {"ResourceArn": ARN}),
    ("DescribeContributorInsights", {**ON_TABLE, "IndexName": "gsi"}),
    ("ListContributorInsights", {"MaxResults": 5, "NextToken": "abc gsi"}),
    ("CreateGlobalTable", {**GLOBAL, "ReplicationGroup": [{"RegionName": "eu-west-1"}]}),
    ("DescribeGlobalTable", GLOBAL),
    ("DescribeGlobalTableSettings", GLOBAL),
    ("DescribeTableReplicaAutoScaling", ON_TABLE),
    ("UpdateGlobalTable", {**GLOBAL, "ReplicaUpdates": [{"Delete": {"RegionName": "eu-west-1"}}]}),
    (
        "UpdateGlobalTableSettings",
        {
            **GLOBAL,
            "GlobalTableBillingMode": "PROVISIONED",
            "GlobalTableProvisionedWriteCapacityAutoScalingSettingsUpdate": SCALING,
            "ReplicaSettingsUpdate": [
                {
                    "RegionName": "eu-west-1",
                    "ReplicaProvisionedReadCapacityAutoScalingSettingsUpdate": SCALING,
                }
            ],
        },
    ),
    (
        "UpdateTableReplicaAutoScaling",
        {**ON_TABLE, "GlobalSecondaryIndexUpdates": [{"ProvisionedWriteCapacityAutoScalingUpdate": SCALING}]},
    ),
    ("ListGlobalTables", {"ExclusiveStartGlobalTableName": "abc", "Limit": 5, "RegionName": "us-east-1"}),
    (
        "UpdateContributorInsights",
        {
            **ON_TABLE,
            "IndexName": "gsi",
            "ContributorInsightsAction": "ENABLE",
            "ContributorInsightsMode": "THROTTLED_KEYS",
        },
    ),
    ("TagResource", {"ResourceArn": ARN, "Tags": [{"Key": "k", "Value": "v"}]}),
    ("TransactGetItems", {"TransactItems": [{"Get": {**ON_TABLE, "Key": KEY, "ProjectionExpression": "a"}}]}),
    (
        "TransactWriteItems",
        {
            "TransactItems": [
                {"Put": {**ON_TABLE, "Item": {**ITEM, "q": {"N": "2"}}}},
                {
                    "Update": {
                        **ON_TABLE,
                        "Key": KEY,
                        "UpdateExpression": "SET a[9] = if_not_exists(c, :v) ADD d :v",
                        "ExpressionAttributeValues": {":v": {"N": "1"}},
                    }
                },
                {"Delete": {**ON_TABLE, "Key": {**KEY, "q": {"N": "3"}}}},
                {
                    "ConditionCheck": {
                        **ON_TABLE,
                        "Key": {**KEY, "q": {"N": "4"}},
                        "ConditionExpression": "attribute_not_exists(p)",
                        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                    }
                },
            ],
            "ClientRequestToken": "token",
        },
    ),
    ("UntagResource", {"ResourceArn": ARN, "TagKeys": ["k"]}),
    ("UpdateContinuousBackups", RECOVERABLE),
    (
        "UpdateItem",
        {
            **ON_TABLE,
            "Key": KEY,
            "UpdateExpression": "SET a = list_append(a, :l), #b.e = b.c REMOVE r ADD f :s DELETE g :s",
            "ExpressionAttributeNames": {"#b": "b"},
            "ExpressionAttributeValues": {":l": {"L": [{"NULL": True}]}, ":s": {"SS": ["x", "y"]}},
            "ReturnValues": "UPDATED_NEW",
        },
    ),
    (
        "UpdateItem",
        {**ON_TABLE, "Key": KEY, "AttributeUpdates": {"n": {"Action": "ADD", "Value": {"N": "1"}}}},
    ),
    (
        "UpdateKinesisStreamingDestination",
        {
            **ON_TABLE,
            "StreamArn": KINESIS,
            "UpdateKinesisStreamingConfiguration": {"ApproximateCreationDateTimePrecision": "MICROSECOND"},
        },
    ),
    (
        "UpdateTable",
        {
            **ON_TABLE,
            "AttributeDefinitions": [{"AttributeName": "t", "AttributeType": "S"}],
            "GlobalSecondaryIndexUpdates": [
                {
                    "Create": {
                        "IndexName": "more",
                        "KeySchema": [{"AttributeName": "t", "KeyType": "HASH"}],
                        "Projection": {"ProjectionType": "ALL"},
                    }
                }
            ],
        },
    ),
    ("UpdateTimeToLive", {**ON_TABLE, "TimeToLiveSpecification": {"Enabled": True, "AttributeName": "t"}}),
    (
        STREAMS_API + "DescribeStream",
        {
            "StreamArn": "<stream>",
            "Limit": 1,
            "ExclusiveStartShardId": "<shard>",
            "ShardFilter": {"Type": "CHILD_SHARDS", "ShardId": "<shard>"},
        },
    ),
    (STREAMS_API + "GetRecords", {"ShardIterator": "<iterator>", "Limit": 1}),
    (
        STREAMS_API + "GetShardIterator",
        {"StreamArn": "<stream>", "ShardId": "<shard>", "ShardIteratorType": "LATEST"},
    ),
    (
        STREAMS_API + "GetShardIterator",
        {
            "StreamArn": "<stream>",
            "ShardId": "<shard>",
            "ShardIteratorType": "AT_SEQUENCE_NUMBER",
            "SequenceNumber": "<number>",
        },
    ),
    (
        STREAMS_API + "GetShardIterator",
        {
            "StreamArn": "<stream>",
            "ShardId": "<shard>",
            "ShardIteratorType": "AT_TIMESTAMP",
            "Timestamp": 1795269600.5,
        },
    ),
    (STREAMS_API + "ListStreams", {**ON_TABLE, "Limit": 1, "ExclusiveStartStreamArn": "<stream>"}),
    (ADMIN_API + "Changes", {"TableNames": [TABLE], "Start": {"At": "HORIZON"}, "Limit": 10, "WaitMs": 0}),
    (ADMIN_API + "CreateSubscription", {**SUBSCRIBED, "Name": "other"}),
    (ADMIN_API + "DescribeSubscription", NAMED),
    (ADMIN_API + "DropDeadLetters", {**NAMED, "Key": "a"}),
    (
        ADMIN_API + "EditDeadLetter",
        {
            **NAMED,
            "Key": "a",
            "Number": "1",
            "Before": {"old": None, "new": {"p": {"S": "a"}}},
            "After": {"old": None, "new": {"p": {"S": "b"}}},
        },
    ),
    (ADMIN_API + "ListDeadLetters", {**NAMED, "Key": "a", "Limit": 1}),
    (ADMIN_API + "ListSubscriptions", {}),
    (ADMIN_API + "PauseSubscription", {**NAMED, "Drain": False}),
    (ADMIN_API + "RemoveSubscription", NAMED),
    (
        ADMIN_API + "ReplaySubscription",
        {**NAMED, "From": {"At": "HORIZON"}, "Key": KEY, "DryRun": True, "SideEffects": False},
    ),
    (ADMIN_API + "ResetSubscription", {**NAMED, "Start": {"At": "NOW"}}),
    (ADMIN_API + "ResumeSubscription", NAMED),
    (ADMIN_API + "RetryDeadLetters", {**NAMED, "Key": "a", "Limit": 1}),
    (ADMIN_API + "WaitForTriggers", {"TimeoutMs": 100}),
    (ADMIN_API + "Streams", ON_TABLE),
    (ADMIN_API + "Upgrade", {}),
    (ADMIN_API + "UpdateSubscription", {**NAMED, "BatchSize": 7}),
    ("Foldb_20261121.Cluster", {}),
    ("Foldb_20261121.Digest", {}),
    ("Foldb_20261121.Fork", {**ON_TABLE, "TargetTableName": "forked"}),
    (
        "Foldb_20261121.ItemHistory",
        {**ON_TABLE, "Key": KEY, "From": "-1h", "To": "-0", "Limit": 2, "Next": "1.1"},
    ),
    ("Foldb_20261121.TableDifferences", {**ON_TABLE, "From": "-0", "To": "-0", "Limit": 2, "Next": "0.0.0"}),
    ("Foldb_20261121.TableDifferences", {**ON_TABLE, "From": "-0", "OtherTable": "other", "Next": "1"}),
    (ADMIN_API + "PutAlarm", {**ALARM, "AlarmName": "other"}),
    (ADMIN_API + "DescribeAlarms", {"AlarmName": "alarm"}),
    (ADMIN_API + "DeleteAlarm", {"AlarmName": "alarm"}),
    (
        ADMIN_API + "Metrics",
        {
            **ON_TABLE,
            "MetricName": "UserErrors",
            "StartTime": 0,
            "EndTime": 1_800_000_000_000,
            "Period": 3600,
        },
    ),
    ("Foldb_20261121.Heat", {**ON_TABLE, "BucketMs": 60_000, "Buckets": 5, "Limit": 2}),
    ("Foldb_20261121.IndexProgress", ON_TABLE),
    ("Foldb_20261121.Partition", {**ON_TABLE, "Key": {"p": {"S": "a"}}}),
    ("Foldb_20261121.CapacityPartitions", {**ON_TABLE, "AsOf": "-0"}),
    ("Foldb_20261121.Rebuild", {**ON_TABLE, "IndexName": "gsi"}),
    ("Foldb_20261121.Status", {}),
    ("Foldb_20261121.Restore", {**ON_TABLE, "AsOf": "-0", "TargetTableName": "restored"}),
    (
        "Foldb_20261121.RestoreItems",
        {**ON_TABLE, "Writes": [{"Key": {**KEY, "q": {"N": "9"}}, "Digest": ""}]},
    ),
    ("Foldb_20261121.TableDifferences", {**ON_TABLE, "From": "1", "To": "-0", "Limit": 2}),
    ("Foldb_20261121.Trim", {"TimeMs": 1}),
    ("Foldb_20261121.Undo", {"Position": "1.0", "SkipConflicts": True, "DryRun": True, "Plan": "a"}),
    ("Foldb_20261121.Undo", {**ON_TABLE, "Principal": "a", "From": "1", "To": "2", "DryRun": True}),
    ("Foldb_20261121.Wait", {"Position": "0"}),
]


class Told:
    """Collect the names of a database's stream; `ask` sends a request and returns the body of the answer."""

    def __init__(self, ask: Callable[[str, dict[str, Any]], Any]) -> None:
        arn = ask("DescribeTable", ON_TABLE)["Table"]["LatestStreamArn"]
        stream = ask(STREAMS_API + "DescribeStream", {"StreamArn": arn})["StreamDescription"]
        shard = stream["Shards"][0]
        backups = ask("ListBackups", {})["BackupSummaries"]
        place = {"StreamArn": arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
        self._known = {
            "<stream>": arn,
            "<backup>": backups[0]["BackupArn"] if backups else f"{ARN}/backup/01700000000000-4e03bb28",
            "<bulk>": self._newest(
                ask, "ListBulkOperations", "BulkOperationsSummaryList", "BulkOperationArn"
            ),
            "<export>": self._newest(ask, "ListExports", "ExportSummaries", "ExportArn"),
            "<import>": self._newest(ask, "ListImports", "ImportSummaryList", "ImportArn"),
            "<shard>": shard["ShardId"],
            "<number>": shard["SequenceNumberRange"]["StartingSequenceNumber"],
            "<iterator>": ask(STREAMS_API + "GetShardIterator", place)["ShardIterator"],
        }

    @staticmethod
    def _newest(ask: Callable[[str, dict[str, Any]], Any], operation: str, member: str, name: str) -> str:
        """Return the ARN of the newest job, or one that no job has."""
        listed = ask(operation, {})[member]
        return str(listed[0][name]) if listed else f"{ARN}/export/01700000000000-4e03bb28"

    def fill(self, data: bytes) -> bytes:
        """Return a request with the collected names filled in."""
        for name, known in self._known.items():
            data = data.replace(name.encode(), json.dumps(known)[1:-1].encode())
        return data
