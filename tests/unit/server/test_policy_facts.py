"""The facts of requests that conditions of policies test, in both dialects."""

from typing import Any

import pytest

from foldb.model.errors import SerializationError, ValidationError
from foldb.model.key_schema import KeyAttribute, KeySchema
from foldb.model.limits import MODERN
from foldb.model.tables import IndexDefinition, Projection, TableDefinition
from foldb.server.api.operations import OPERATIONS
from foldb.server.auth.rights import ItemDemand

INDEX = IndexDefinition(
    2,
    "by-colour",
    "GSI",
    KeySchema((KeyAttribute("colour", "S"), KeyAttribute("year", "N")), (KeyAttribute("pk", "S"),)),
    Projection("ALL"),
)
TABLE = TableDefinition(
    1,
    "Cars",
    "uuid",
    KeySchema((KeyAttribute("pk", "S"),), (KeyAttribute("sk", "N"),)),
    {"pk": "S", "sk": "N", "colour": "S", "year": "N"},
    0,
    indexes=(INDEX,),
    status="ACTIVE",
)
CARS: dict[str, Any] = {"TableName": "Cars"}
KEY = {"pk": {"S": "a"}, "sk": {"N": "1"}}
VALUES = {":a": {"S": "a"}, ":n": {"N": "1.50"}}


def facts(operation: str, body: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """The facts of the only demand, without those that each request has."""
    (demand,) = OPERATIONS[operation].demands(body)
    assert isinstance(demand, ItemDemand)
    found = demand.facts(demand, TABLE, MODERN)
    names = {name.removeprefix("dynamodb:"): tuple(sorted(values)) for name, values in found.items()}
    assert names.pop("firstpartitionkeyvalues", None) == names.get("leadingkeys")
    return {
        name: values
        for name, values in names.items()
        if (name, values) != ("returnconsumedcapacity", ("NONE",))
    }


CASES: dict[str, tuple[str, dict[str, Any], dict[str, tuple[str, ...]]]] = {
    "a get": (
        "GetItem",
        {**CARS, "Key": KEY, "ReturnConsumedCapacity": "TOTAL"},
        {
            "leadingkeys": ("a",),
            "attributes": ("pk", "sk"),
            "select": ("ALL_ATTRIBUTES",),
            "returnconsumedcapacity": ("TOTAL",),
        },
    ),
    "a projection": (
        "GetItem",
        {
            **CARS,
            "Key": KEY,
            "ProjectionExpression": "#n.street, b[0]",
            "ExpressionAttributeNames": {"#n": "home"},
        },
        {"leadingkeys": ("a",), "attributes": ("b", "home", "pk", "sk"), "select": ("SPECIFIC_ATTRIBUTES",)},
    ),
    "a legacy projection": (
        "GetItem",
        {**CARS, "Key": KEY, "AttributesToGet": ["b"]},
        {"leadingkeys": ("a",), "attributes": ("b", "pk", "sk"), "select": ("SPECIFIC_ATTRIBUTES",)},
    ),
    "a put": (
        "PutItem",
        {**CARS, "Item": {**KEY, "b": {"S": "x"}}, "ConditionExpression": "attribute_not_exists(c)"},
        {"leadingkeys": ("a",), "attributes": ("b", "c", "pk", "sk"), "returnvalues": ("NONE",)},
    ),
    "a legacy put": (
        "PutItem",
        {**CARS, "Item": KEY, "Expected": {"c": {"Exists": False}}, "ReturnValues": "ALL_OLD"},
        {"leadingkeys": ("a",), "attributes": ("c", "pk", "sk"), "returnvalues": ("ALL_OLD",)},
    ),
    "an update": (
        "UpdateItem",
        {
            **CARS,
            "Key": KEY,
            "UpdateExpression": "SET b = if_not_exists(c, :n) REMOVE d.e ADD f :n",
            "ConditionExpression": "g = :a",
            "ExpressionAttributeValues": VALUES,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        },
        {
            "leadingkeys": ("a",),
            "attributes": ("b", "c", "d", "f", "g", "pk", "sk"),
            "returnvalues": ("ALL_OLD", "NONE"),
        },
    ),
    "a query": (
        "Query",
        {
            **CARS,
            "KeyConditionExpression": "sk > :n AND pk = :a",
            "FilterExpression": "b = :a",
            "ExpressionAttributeValues": VALUES,
            "Select": "COUNT",
        },
        {"leadingkeys": ("a",), "attributes": ("b", "pk", "sk"), "select": ("COUNT",)},
    ),
    "a legacy query": (
        "Query",
        {
            **CARS,
            "KeyConditions": {"pk": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "a"}]}},
            "QueryFilter": {"b": {"ComparisonOperator": "NULL"}},
        },
        {"leadingkeys": ("a",), "attributes": ("b", "pk"), "select": ("ALL_ATTRIBUTES",)},
    ),
    "a query of an index": (
        "Query",
        {
            **CARS,
            "IndexName": "by-colour",
            "KeyConditionExpression": "colour = :a AND #y = :n",
            "ExpressionAttributeNames": {"#y": "year"},
            "ExpressionAttributeValues": VALUES,
        },
        {
            "leadingkeys": ("a",),
            "secondpartitionkeyvalues": ("1.5",),
            "attributes": ("colour", "year"),
            "select": ("ALL_PROJECTED_ATTRIBUTES",),
        },
    ),
    "a scan": (
        "Scan",
        {**CARS, "ScanFilter": {"b": {"ComparisonOperator": "NULL"}}},
        {"attributes": ("b",), "select": ("ALL_ATTRIBUTES",)},
    ),
    "a batch of gets": (
        "BatchGetItem",
        {"RequestItems": {"Cars": {"Keys": [KEY, {**KEY, "pk": {"S": "b"}}], "ProjectionExpression": "c"}}},
        {"leadingkeys": ("a", "b"), "attributes": ("c", "pk", "sk"), "select": ("SPECIFIC_ATTRIBUTES",)},
    ),
    "a batch of writes": (
        "BatchWriteItem",
        {
            "RequestItems": {
                "Cars": [
                    {"PutRequest": {"Item": {**KEY, "b": {"S": "x"}}}},
                    {"DeleteRequest": {"Key": {**KEY, "pk": {"S": "b"}}}},
                ]
            },
            "ReturnConsumedCapacity": "TOTAL",
        },
        {"leadingkeys": ("a", "b"), "attributes": ("b", "pk", "sk"), "returnconsumedcapacity": ("TOTAL",)},
    ),
    "a transaction": (
        "TransactWriteItems",
        {
            "TransactItems": [
                {"ConditionCheck": {**CARS, "Key": KEY, "ConditionExpression": "attribute_exists(b)"}}
            ]
        },
        {
            "leadingkeys": ("a",),
            "attributes": ("b", "pk", "sk"),
            "returnvalues": ("NONE",),
            "enclosingoperation": ("TransactWriteItems",),
        },
    ),
    "a statement": (
        "ExecuteStatement",
        {"Statement": "SELECT b.c FROM Cars WHERE pk IN ['a', ?] AND d = 1", "Parameters": [{"S": "b"}]},
        {
            "leadingkeys": ("a", "b"),
            "attributes": ("b", "d", "pk"),
            "select": ("SPECIFIC_ATTRIBUTES",),
            "fulltablescan": ("false",),
        },
    ),
    "a statement that writes": (
        "ExecuteTransaction",
        {"TransactStatements": [{"Statement": "UPDATE Cars SET b = 1 WHERE pk = 'a' AND sk = 1 AND c = 2"}]},
        {
            "leadingkeys": ("a",),
            "attributes": ("b", "c", "pk", "sk"),
            "returnvalues": ("NONE",),
            "enclosingoperation": ("ExecuteTransaction",),
        },
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_request_has_these_facts(case: str) -> None:
    operation, body, expected = CASES[case]

    assert expected == facts(operation, body)


def test_a_key_is_compared_in_canonical_form() -> None:
    table = {**CARS, "IndexName": "by-colour", "KeyConditionExpression": "colour = :a AND #y = :n"}
    for written in ("1.50", "0.15e1", "1.5"):
        body = {
            **table,
            "ExpressionAttributeNames": {"#y": "year"},
            "ExpressionAttributeValues": {":a": {"S": "a"}, ":n": {"N": written}},
        }
        assert facts("Query", body)["secondpartitionkeyvalues"] == ("1.5",)


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("GetItem", {**CARS, "Key": {"pk": {"S": 5}}}),
        ("Scan", {**CARS, "FilterExpression": "a = "}),
        ("Scan", {**CARS, "FilterExpression": "a = :v", "ExpressionAttributeValues": {":v": 1}}),
        ("ExecuteStatement", {"Statement": "SELECT * FROM Cars WHERE pk = ?"}),
    ],
)
def test_a_malformed_request_has_no_facts(operation: str, body: dict[str, Any]) -> None:
    with pytest.raises((ValidationError, SerializationError)):
        facts(operation, body)
