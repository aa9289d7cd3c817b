"""A request of every operation that succeeds, of a database with one table and an item in it."""

from typing import Any

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
}
KEY = {"p": {"S": "a"}, "q": {"N": "1"}}
ITEM: dict[str, Any] = {
    **KEY,
    "r": {"B": "AQ=="},
    "a": {"L": [{"N": "1"}, {"S": "x"}]},
    "b": {"M": {"c": {"NS": ["1", "2"]}}},
}
ARN = f"arn:aws:dynamodb:us-east-1:000000000000:table/{TABLE}"
CONDITION = {"ConditionExpression": "a = :v", "ExpressionAttributeValues": {":v": {"N": "1"}}}
ON_TABLE: dict[str, Any] = {"TableName": TABLE}

# One of each operation at least, each of which succeeds.
SAMPLES: list[tuple[str, dict[str, Any]]] = [
    ("BatchGetItem", {"RequestItems": {TABLE: {"Keys": [KEY], "ProjectionExpression": "a[0]"}}}),
    (
        "BatchWriteItem",
        {"RequestItems": {TABLE: [{"PutRequest": {"Item": ITEM}}]}, "ReturnItemCollectionMetrics": "SIZE"},
    ),
    ("CreateTable", {**CREATE, "TableName": "other"}),
    ("DeleteItem", {**ON_TABLE, "Key": KEY, "ReturnValues": "ALL_OLD", "Expected": {"c": {"Exists": False}}}),
    ("DeleteTable", ON_TABLE),
    ("DescribeContinuousBackups", ON_TABLE),
    ("DescribeEndpoints", {}),
    ("DescribeLimits", {}),
    ("DescribeTable", ON_TABLE),
    ("DescribeTimeToLive", ON_TABLE),
    ("GetItem", {**ON_TABLE, "Key": KEY, "AttributesToGet": ["a"], "ReturnConsumedCapacity": "INDEXES"}),
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
    (
        "UpdateContinuousBackups",
        {**ON_TABLE, "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}},
    ),
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
    ("Foldb_20261121.Cluster", {}),
    ("Foldb_20261121.Digest", {}),
    ("Foldb_20261121.Partition", {**ON_TABLE, "Key": {"p": {"S": "a"}}}),
    ("Foldb_20261121.Rebuild", {**ON_TABLE, "IndexName": "gsi"}),
    ("Foldb_20261121.Status", {}),
    ("Foldb_20261121.Wait", {"Position": "0"}),
]
