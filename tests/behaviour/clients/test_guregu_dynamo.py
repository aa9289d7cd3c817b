"""The requests of guregu/dynamo, a client in Go: the bodies that its version 2 sends, and the answers it needs.

The client writes each key condition as KeyConditions, and each filter and projection as an expression. It replaces a
quoted or reserved name by `#s` and the name in base32, and values by `:v0`, `:v1`, ...
"""

import uuid
from typing import Any

import pytest

from tests.support.positions import Positions
from tests.support.raw import ask
from tests.support.tables import MakeTable

pytestmark = pytest.mark.divided

COUNT = {"#sINXXK3TU": "Count"}
TIME = {"#sORUW2ZI": "time"}
DEVICE = {"#sMRSXM2LDMU": "device"}
OF_D1 = {"device": {"AttributeValueList": [{"S": "d1"}], "ComparisonOperator": "EQ"}}
EVEN = {"ExpressionAttributeValues": {":v0": {"S": "even"}}, "FilterExpression": "(kind = :v0)"}
ODD = {"ExpressionAttributeValues": {":v0": {"S": "odd"}}, "FilterExpression": "(kind = :v0)"}


class Go:
    """Sends bodies as the client does and reads its own writes; `error` is the last answer's error, if it was one."""

    def __init__(self, endpoint: str, table: str) -> None:
        self._endpoint = endpoint
        self._positions = Positions()
        self.table = table
        self.error = ""

    def __call__(self, operation: str, **members: Any) -> Any:
        if "RequestItems" not in members and "TransactItems" not in members:
            members["TableName"] = self.table
        answer = ask(self._endpoint, operation, members, x_foldb_position=self._positions.cut)
        self._positions.note(answer.headers["x-foldb-position"] or "")
        self.error = answer.body["__type"].rpartition("#")[2] if answer.status == 400 else ""
        return answer.body

    def times(self, operation: str, **members: Any) -> list[int]:
        """The sort keys of a page's items."""
        return [int(item["time"]["N"]) for item in self(operation, **members)["Items"]]


@pytest.fixture
def go(endpoint: str, make_table: MakeTable) -> Go:
    """A table with six readings of the device d1, of the kinds odd and even."""
    table = make_table("device:S", "time:N", gsi={"ByKind": "kind:S device:S"})
    go = Go(endpoint, table.name)
    for time in range(1, 7):
        assert {} == go(
            "PutItem",
            ConditionExpression="(attribute_not_exists(#sMRSXM2LDMU))",
            ExpressionAttributeNames=DEVICE,
            Item=reading(time),
            ReturnValues="NONE",
        )
    return go


def reading(time: int) -> dict[str, Any]:
    return {
        "device": {"S": "d1"},
        "time": {"N": str(time)},
        "kind": {"S": "odd" if time % 2 else "even"},
        "Count": {"N": str(10 * time)},
        "Tags": {"SS": ["a", "b"]},
        "Meta": {"M": {"room": {"S": str(time)}}},
    }


def key(time: int, device: str = "d1") -> dict[str, Any]:
    return {"device": {"S": device}, "time": {"N": str(time)}}


def test_a_query_filters(go: Go) -> None:
    found = go(
        "Query",
        ExpressionAttributeNames=COUNT,
        ExpressionAttributeValues={":v0": {"N": "20"}, ":v1": {"S": "odd"}},
        FilterExpression="(#sINXXK3TU > :v0) AND (kind = :v1)",
        KeyConditions=OF_D1,
    )

    assert [reading(3), reading(5)] == found["Items"]
    assert (2, 6) == (found["Count"], found["ScannedCount"])


def test_a_query_filters_and_projects(go: Go) -> None:
    between = {"AttributeValueList": [{"N": "2"}, {"N": "5"}], "ComparisonOperator": "BETWEEN"}
    found = go(
        "Query",
        ExpressionAttributeNames=TIME | COUNT,
        ExpressionAttributeValues={":v0": {"S": "3"}},
        FilterExpression="(Meta.room <> :v0)",
        KeyConditions=OF_D1 | {"time": between},
        ProjectionExpression="#sORUW2ZI, #sINXXK3TU",
    )

    assert [{name: reading(n)[name] for name in ("Count", "time")} for n in (2, 4, 5)] == found["Items"]


def test_a_query_filters_an_index(go: Go) -> None:
    begins = {"AttributeValueList": [{"S": "d"}], "ComparisonOperator": "BEGINS_WITH"}
    kind = {"AttributeValueList": [{"S": "even"}], "ComparisonOperator": "EQ"}

    assert [2, 4] == go.times(
        "Query",
        ExpressionAttributeNames=COUNT,
        ExpressionAttributeValues={":v0": {"N": "60"}},
        FilterExpression="(#sINXXK3TU < :v0)",
        IndexName="ByKind",
        KeyConditions={"kind": kind, "device": begins},
    )


def test_a_query_has_an_order_and_a_limit(go: Go) -> None:
    assert [6, 5] == go.times("Query", KeyConditions=OF_D1, Limit=2, ScanIndexForward=False)
    assert [5, 3, 1] == go.times("Query", KeyConditions=OF_D1, ScanIndexForward=False, **ODD)


def test_a_query_counts(go: Go) -> None:
    assert {"Count": 3, "ScannedCount": 6} == go("Query", KeyConditions=OF_D1, Select="COUNT", **EVEN)


def test_a_query_is_paginated(go: Go) -> None:
    first = go("Query", KeyConditions=OF_D1, Limit=3, **EVEN)
    second = go("Query", KeyConditions=OF_D1, Limit=3, ExclusiveStartKey=first["LastEvaluatedKey"], **EVEN)

    assert ([reading(2)], 3, key(3)) == (first["Items"], first["ScannedCount"], first["LastEvaluatedKey"])
    assert ([reading(4), reading(6)], key(6)) == (second["Items"], second["LastEvaluatedKey"])


def test_one_item_is_found_by_a_query_and_by_its_key(go: Go) -> None:
    equals = {"AttributeValueList": [{"N": "3"}], "ComparisonOperator": "EQ"}
    at_three = OF_D1 | {"time": equals}

    assert [3] == go.times("Query", ConsistentRead=True, KeyConditions=at_three, **ODD)
    assert [] == go.times("Query", ConsistentRead=True, KeyConditions=at_three, **EVEN)
    got = go(
        "GetItem",
        ExpressionAttributeNames=COUNT,
        Key=key(3),
        ProjectionExpression="#sINXXK3TU",
        ReturnConsumedCapacity="INDEXES",
    )
    assert ({"Count": {"N": "30"}}, 0.5) == (got["Item"], got["ConsumedCapacity"]["CapacityUnits"])


def test_a_scan_filters_and_projects(go: Go) -> None:
    found = go(
        "Scan",
        ConsistentRead=False,
        ExpressionAttributeNames=COUNT,
        ExpressionAttributeValues={":v0": {"N": "50"}},
        FilterExpression="(#sINXXK3TU >= :v0)",
        ProjectionExpression="kind",
    )

    assert [{"kind": {"S": "odd"}}, {"kind": {"S": "even"}}] == found["Items"]
    assert 2 == go("Scan", ConsistentRead=False, IndexName="ByKind", Limit=2)["Count"]


def test_a_put_has_a_condition(go: Go) -> None:
    go(
        "PutItem",
        ConditionExpression="(attribute_not_exists(#sMRSXM2LDMU))",
        ExpressionAttributeNames=DEVICE,
        Item=key(1),
        ReturnValues="NONE",
    )

    assert go.error == "ConditionalCheckFailedException"
    assert reading(1) == go("GetItem", Key=key(1))["Item"]


def test_an_update_has_all_four_clauses_and_a_condition(go: Go) -> None:
    request = {
        "ConditionExpression": "(#sINXXK3TU = :v3)",
        "ExpressionAttributeNames": COUNT,
        "ExpressionAttributeValues": {
            ":v2": {"SS": ["a"]},
            ":v3": {"N": "10"},
            ":v0": {"S": "prime"},
            ":v1": {"N": "5"},
        },
        "Key": key(1),
        "ReturnValues": "ALL_NEW",
        "UpdateExpression": "SET kind = :v0 ADD #sINXXK3TU :v1 DELETE Tags :v2 REMOVE Meta",
    }
    updated = {**key(1), "kind": {"S": "prime"}, "Count": {"N": "15"}, "Tags": {"SS": ["b"]}}

    assert updated == go("UpdateItem", **request)["Attributes"]
    go("UpdateItem", **request)
    assert go.error == "ConditionalCheckFailedException"


def test_a_delete_has_a_condition(go: Go) -> None:
    deleted = go(
        "DeleteItem",
        ConditionExpression="(kind = :v0)",
        ExpressionAttributeValues={":v0": {"S": "even"}},
        Key=key(6),
        ReturnValues="ALL_OLD",
    )

    assert reading(6) == deleted["Attributes"]
    assert [1, 2, 3, 4, 5] == go.times("Query", KeyConditions=OF_D1)


def test_batches(go: Go) -> None:
    puts = [{"PutRequest": {"Item": {**key(n, "d2"), "Count": {"N": "0"}}}} for n in (1, 2)]
    delete = {"DeleteRequest": {"Key": key(5)}}
    wanted = {
        "ConsistentRead": False,
        "ExpressionAttributeNames": TIME | COUNT,
        "Keys": [key(1, "d2"), key(2), key(5)],
        "ProjectionExpression": "#sORUW2ZI, #sINXXK3TU",
    }

    written = go("BatchWriteItem", RequestItems={go.table: [*puts, delete]})
    got = go("BatchGetItem", RequestItems={go.table: wanted})

    assert {"UnprocessedItems": {}} == written
    found = sorted((item["time"]["N"], item["Count"]["N"]) for item in got["Responses"][go.table])
    assert [("1", "0"), ("2", "20")] == found


def test_transactions(go: Go) -> None:
    on_table = {"TableName": go.table}
    new = {**key(1, "d3"), "kind": {"S": "tx"}, "Count": {"N": "0"}}
    absent = {
        "ConditionExpression": "(attribute_not_exists(#sORUW2ZI))",
        "ExpressionAttributeNames": TIME,
    }
    update = {
        "ExpressionAttributeNames": COUNT,
        "ExpressionAttributeValues": {":v0": {"N": "21"}},
        "UpdateExpression": "SET #sINXXK3TU = :v0",
    }
    present = {
        "ConditionExpression": "(attribute_exists(#sMRSXM2LDMU))",
        "ExpressionAttributeNames": DEVICE,
    }
    request = {
        "ClientRequestToken": uuid.uuid4().hex,
        "TransactItems": [
            {"Put": {**absent, "Item": new, **on_table}},
            {"Update": {**update, "Key": key(2), **on_table}},
            {"Delete": {"Key": key(1), **on_table}},
            {"ConditionCheck": {**present, "Key": key(3), **on_table}},
        ],
    }
    gets = [
        {"Get": {"Key": key(2), **on_table}},
        {"Get": {"Key": key(1, "d3"), "ProjectionExpression": "kind", **on_table}},
        {"Get": {"Key": key(1), **on_table}},
    ]

    assert {} == go("TransactWriteItems", **request) == go("TransactWriteItems", **request)
    got = go("TransactGetItems", TransactItems=gets)["Responses"]
    assert [{"Item": {**reading(2), "Count": {"N": "21"}}}, {"Item": {"kind": {"S": "tx"}}}, {}] == got
