"""Values that nest too deep, and numbers that are none: refused in every member that takes a value."""

from typing import Any

import orjson
import pytest

from tests.verification.fuzz.inside import Inside
from tests.verification.fuzz.steps import bounded
from tests.verification.hostile.samples import CREATE, ITEM, KEY, ON_TABLE

HERE = "HERE"
CONDITION = {"ConditionExpression": "a = :v", "ExpressionAttributeValues": {":v": HERE}}
EQUAL = {"ComparisonOperator": "EQ", "AttributeValueList": [HERE]}
PLACES: dict[str, tuple[str, dict[str, Any]]] = {
    "item": ("PutItem", {**ON_TABLE, "Item": {**KEY, "a": HERE}}),
    "key": ("GetItem", {**ON_TABLE, "Key": {**KEY, "q": HERE}}),
    "condition": ("DeleteItem", {**ON_TABLE, "Key": KEY, **CONDITION}),
    "update": (
        "UpdateItem",
        {**ON_TABLE, "Key": KEY, "UpdateExpression": "SET c = :v", "ExpressionAttributeValues": {":v": HERE}},
    ),
    "expected value": ("PutItem", {**ON_TABLE, "Item": ITEM, "Expected": {"a": {"Value": HERE}}}),
    "expected list": ("PutItem", {**ON_TABLE, "Item": ITEM, "Expected": {"a": EQUAL}}),
    "attribute updates": ("UpdateItem", {**ON_TABLE, "Key": KEY, "AttributeUpdates": {"c": {"Value": HERE}}}),
    "filter": (
        "Scan",
        {**ON_TABLE, "FilterExpression": "a = :v", "ExpressionAttributeValues": {":v": HERE}},
    ),
    "scan filter": ("Scan", {**ON_TABLE, "ScanFilter": {"a": EQUAL}}),
    "key conditions": ("Query", {**ON_TABLE, "KeyConditions": {"p": EQUAL}}),
    "start key": ("Scan", {**ON_TABLE, "ExclusiveStartKey": {**KEY, "q": HERE}}),
    "batch put": (
        "BatchWriteItem",
        {"RequestItems": {"abc": [{"PutRequest": {"Item": {**KEY, "a": HERE}}}]}},
    ),
    "batch delete": ("BatchWriteItem", {"RequestItems": {"abc": [{"DeleteRequest": {"Key": {"p": HERE}}}]}}),
    "batch key": ("BatchGetItem", {"RequestItems": {"abc": {"Keys": [{"p": HERE}]}}}),
    "transact put": (
        "TransactWriteItems",
        {"TransactItems": [{"Put": {**ON_TABLE, "Item": {**KEY, "a": HERE}}}]},
    ),
    "transact condition": (
        "TransactWriteItems",
        {"TransactItems": [{"ConditionCheck": {**ON_TABLE, "Key": KEY, **CONDITION}}]},
    ),
    "transact key": ("TransactGetItems", {"TransactItems": [{"Get": {**ON_TABLE, "Key": {"p": HERE}}}]}),
}
# Where a value may be of any type, and one of 32 levels is an ordinary one.
ANY_VALUE = {"item", "update", "attribute updates", "filter", "batch put", "transact put"}
STEPS = 60_000


@pytest.fixture(scope="module")
def inside() -> Inside:
    inside = Inside()
    assert inside.ask("CreateTable", CREATE)[0] == 200
    assert inside.ask("PutItem", {**ON_TABLE, "Item": ITEM})[0] == 200
    return inside


def answer(inside: Inside, place: str, value: bytes) -> tuple[int, str]:
    operation, body = PLACES[place]
    data = orjson.dumps(body).replace(b'"HERE"', value)
    (status, reported), _ = bounded(STEPS, inside.ask, operation, data)
    return status, reported.get("__type", "").rpartition("#")[2]


def nested(levels: int, kind: str) -> bytes:
    """Return a value with this many levels, including the scalar."""
    opening, closing = (b'{"M":{"a":', b"}}") if kind == "M" else (b'{"L":[', b"]}")
    return opening * (levels - 1) + b'{"S":"a"}' + closing * (levels - 1)


@pytest.mark.parametrize("kind", ["M", "L"])
@pytest.mark.parametrize("place", PLACES)
def test_a_value_of_more_than_32_levels_is_refused_everywhere(inside: Inside, place: str, kind: str) -> None:
    if place in ANY_VALUE:
        assert (200, "") == answer(inside, place, nested(32, kind))
    for levels in (33, 34, 80, 250, 1000, 5000, 100_000):
        status, error = answer(inside, place, nested(levels, kind))
        assert (status, error) in ((400, "ValidationException"), (400, "SerializationException"))


NO_NUMBERS = [
    *("", " ", "1 ", " 1", "+", "-", ".", "e1", "1e", "--1", "1_0", "0x1", "1,5", "NaN", "Infinity", "-inf"),
    *("1E126", "-1E126", "1E-131", "1e999999999", "1e-999999999", "1e99999999999999999999"),
    *("9" * 39, "0." + "1" * 39, "1" * 100_000, "1e" + "9" * 100_000, "\uff11", "\u0661", "1\u0000"),
]


@pytest.mark.parametrize("place", PLACES)
def test_a_malformed_number_is_refused_everywhere(inside: Inside, place: str) -> None:
    for text in NO_NUMBERS:
        assert (400, "ValidationException") == answer(inside, place, orjson.dumps({"N": text}))
        assert (400, "ValidationException") == answer(inside, place, orjson.dumps({"NS": ["1", text]}))


@pytest.mark.parametrize("text", ["0." + "0" * 100_000 + "1", "1" + "0" * 100_000, "0" * 100_000 + "1"])
def test_a_number_of_many_zeros_takes_no_longer_than_reading_it(inside: Inside, text: str) -> None:
    for place in PLACES:
        assert answer(inside, place, orjson.dumps({"N": text}))[0] in (200, 400)
