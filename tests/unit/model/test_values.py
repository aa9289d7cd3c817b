"""Validation of values: DynamoDB's errors, and the canonical form."""

import base64
from typing import Any

import pytest

from foldb.model.errors import RequestError, SerializationError, ValidationError
from foldb.model.limits import LIMITS_2012, MODERN, Limits
from foldb.model.values import check_item, check_named_values, check_value, check_values

EMPTY = "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
SEVERAL = (
    "Supplied AttributeValue has more than one datatypes set, "
    "must contain exactly one of the supported datatypes"
)
NESTED = (
    "Nesting Levels have exceeded supported limits: "
    "Attributes in the item have nested levels beyond supported limit"
)
INVALID = "One or more parameter values were invalid: "
MAP = "java.util.Map<java.lang.String, com.amazonaws.dynamodb.v20120810.AttributeValue>"
STARTED = "Start of structure or map found where not expected"


def refusal(value: Any, limits: Limits = MODERN) -> RequestError:
    with pytest.raises(RequestError) as caught:
        check_item({"a": value}, limits)
    return caught.value


def nested(wrappers: int, kind: str = "M") -> Any:
    value: Any = {"S": "x"}
    for _ in range(wrappers):
        value = {"M": {"a": value}} if kind == "M" else {"L": [value]}
    return value


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        ({"S": ""}, {"S": ""}),
        ({"B": ""}, {"B": ""}),
        ({"N": "1.50"}, {"N": "1.5"}),
        ({"SS": ["b", "é", "a", "B"]}, {"SS": ["B", "a", "b", "é"]}),
        ({"SS": ["\U0001f600", "\uffff"]}, {"SS": ["\uffff", "\U0001f600"]}),
        ({"SS": [""]}, {"SS": [""]}),
        ({"NS": ["10", "9.0", "-1", "1E-3"]}, {"NS": ["-1", "0.001", "9", "10"]}),
        ({"BS": ["/w==", "AA==", ""]}, {"BS": ["", "AA==", "/w=="]}),
        ({"L": [{"N": "01"}, {"L": []}, {"M": {}}]}, {"L": [{"N": "1"}, {"L": []}, {"M": {}}]}),
        ({"M": {"x": {"NS": ["2", "1"]}}}, {"M": {"x": {"NS": ["1", "2"]}}}),
        ({"S": "a", "X": "ignored"}, {"S": "a"}),
        ({"S": None, "N": "1.0", "B": None}, {"N": "1"}),
        ({"NULL": True}, {"NULL": True}),
        ({"BOOL": False}, {"BOOL": False}),
    ],
)
def test_a_value_becomes_canonical_in_place(value: Any, canonical: Any) -> None:
    item = {"a": value}
    size = check_item(item, MODERN)

    assert item == {"a": canonical}
    assert item["a"] is value
    assert check_item(item, MODERN) == size
    assert item == {"a": canonical}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, EMPTY),
        ({}, EMPTY),
        ({"X": "a"}, EMPTY),
        ({"S": None}, EMPTY),
        ({"SS": None}, EMPTY),
        ({"M": None}, EMPTY),
        ({"L": [{}]}, EMPTY),
        ({"L": [None]}, EMPTY),
        ({"M": {"b": {}}}, EMPTY),
        ({"S": "a", "N": "1"}, SEVERAL),
        ({"S": "a", "N": "b"}, "The parameter cannot be converted to a numeric value: b"),
        ({"N": ""}, "The parameter cannot be converted to a numeric value: "),
        ({"NS": ["1", "b"]}, "The parameter cannot be converted to a numeric value: b"),
        ({"NULL": False}, INVALID + "Null attribute value types must have the value of true"),
        ({"SS": []}, INVALID + "An string set  may not be empty"),
        ({"NS": []}, INVALID + "An number set  may not be empty"),
        ({"BS": []}, INVALID + "Binary sets should not be empty"),
        ({"M": {"b": {"SS": []}}}, INVALID + "An string set  may not be empty"),
        ({"SS": ["a", "a"]}, INVALID + 'Input collection ["a", "a"] contains duplicates.'),
        ({"NS": ["1", "1.0"]}, INVALID + "Input collection contains duplicates."),
        (
            {"BS": ["YQ==", "YQ=="]},
            INVALID + 'Input collection ["YQ==","YQ=="]of type BS contains duplicates.',
        ),
        ({"M": {"": {"S": "x"}}}, "Empty attribute name"),
    ],
)
def test_an_invalid_value_is_refused_with_dynamodbs_text(value: Any, message: str) -> None:
    error = refusal(value)

    assert isinstance(error, ValidationError)
    assert error.message == message


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("x", "Unexpected value type in payload"),
        (5, "Unexpected value type in payload"),
        ([], "Unrecognized collection type class com.amazonaws.dynamodb.v20120810.AttributeValue"),
        ({"L": ["x"]}, "Unexpected value type in payload"),
        *[
            (value, message)
            for tag in ("S", "N")
            for value, message in [
                ({tag: 5}, "NUMBER_VALUE cannot be converted to String"),
                ({tag: 1.5}, "DECIMAL_VALUE cannot be converted to String"),
                ({tag: True}, "TRUE_VALUE cannot be converted to String"),
                ({tag: False}, "FALSE_VALUE cannot be converted to String"),
                ({tag: []}, "Unrecognized collection type class java.lang.String"),
                ({tag: {}}, STARTED),
                ({tag + "S": [5]}, "NUMBER_VALUE cannot be converted to String"),
                ({tag + "S": "x"}, "Unexpected field type"),
                ({tag + "S": {}}, STARTED),
            ]
        ],
        ({"B": 5}, "only base-64-encoded strings are convertible to bytes"),
        ({"BS": [True]}, "only base-64-encoded strings are convertible to bytes"),
        ({"B": []}, "Unrecognized collection type class java.nio.ByteBuffer"),
        ({"BS": [{}]}, STARTED),
        ({"B": "23456"}, "Base64 encoded length is expected a multiple of 4 bytes but found: 5"),
        ({"B": "=+/="}, "Invalid last non-pad Base64 character dectected"),
        ({"B": "+/+="}, "Invalid last non-pad Base64 character dectected"),
        ({"B": "ab*="}, "Invalid Base64 character: '*'"),
        ({"B": "YWJé"}, "Invalid Base64 character: 'é'"),
        ({"B": "YQ=="[:3] + "\n"}, "Invalid Base64 character: '\n'"),
        ({"BOOL": "true"}, "Unexpected token received from parser"),
        ({"BOOL": 1}, "NUMBER_VALUE cannot be converted to Boolean"),
        ({"NULL": "true"}, "Unexpected token received from parser"),
        ({"NULL": []}, "Unrecognized collection type class java.lang.Boolean"),
        ({"L": {}}, STARTED),
        ({"L": 5}, "Unexpected field type"),
        ({"M": []}, f"Unrecognized collection type {MAP}"),
        ({"M": "x"}, "Unexpected field type"),
    ],
)
def test_a_wrong_kind_of_json_is_a_serialization_error(value: Any, message: str) -> None:
    error = refusal(value)

    assert isinstance(error, SerializationError)
    assert error.message == message


def test_an_item_that_is_no_map_is_refused() -> None:
    with pytest.raises(SerializationError, match="Unexpected field type"):
        check_item("x", MODERN)


@pytest.mark.parametrize("kind", ["M", "L"])
def test_a_value_has_at_most_32_levels(kind: str) -> None:
    check_item({"a": nested(31, kind)}, MODERN)

    for wrappers in (32, 33, 80, 1_000):
        assert refusal(nested(wrappers, kind)).message == NESTED


def test_a_hundred_thousand_levels_are_refused_at_once() -> None:
    value = nested(100_000, "L")
    try:
        assert refusal(value).message == NESTED
    finally:
        # Taken apart from outside in: freeing it in one go would recurse as deep.
        while "L" in value:
            value = value["L"].pop()


def test_an_item_of_400_kb_is_taken_and_one_byte_more_is_not() -> None:
    assert check_item({"a": {"S": "x" * 409_599}}, MODERN) == 409_600
    assert refusal({"S": "x" * 409_600}).message == "Item size has exceeded the maximum allowed size"


def test_in_2012_an_item_was_64_kb() -> None:
    assert check_item({"a": {"S": "x" * 65_535}}, LIMITS_2012) == 65_536
    error = refusal({"S": "x" * 65_536}, LIMITS_2012)
    assert error.message == "Item size has exceeded the maximum allowed size"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"NULL": True}, EMPTY),
        ({"S": ""}, INVALID + "An AttributeValue may not contain an empty string"),
        ({"B": ""}, INVALID + "An AttributeValue may not contain a null or empty binary type."),
        ({"L": [{"S": ""}]}, INVALID + "An AttributeValue may not contain an empty string"),
        ({"SS": [""]}, INVALID + "An string set may not have a empty string as a member"),
        ({"BS": [""]}, INVALID + "Binary sets may not contain null or empty values"),
    ],
)
def test_in_2012_there_was_neither_null_nor_anything_empty(value: Any, message: str) -> None:
    assert refusal(value, LIMITS_2012).message == message


def test_an_attribute_name_has_at_most_65535_bytes_at_any_depth() -> None:
    check_item({"é" * 32_767 + "a": {"S": ""}}, MODERN)
    message = "Attribute name is too large, must be less than 65536 bytes"

    for item in ({"é" * 32_768: {"S": ""}}, {"a": {"M": {"a" * 65_536: {"S": ""}}}}):
        with pytest.raises(ValidationError) as caught:
            check_item(item, MODERN)
        assert caught.value.message == message


INVALID_SETS = [
    (
        {"SS": ["b", "a", "b"]},
        INVALID + 'Input collection ["a", "b", "b"] contains duplicates.',
        INVALID + "Input collection [b, a, b] contains duplicates.",
    ),
    (
        {"SS": ["c", "a", "c", "b", "a"]},
        INVALID + 'Input collection ["a", "c", "c", "b", "a"] contains duplicates.',
        INVALID + "Input collection [c, a, c, b, a] contains duplicates.",
    ),
    (
        {"BS": ["/w==", "AA==", "AA=="]},
        INVALID + 'Input collection ["AA==","/w==","AA=="]of type BS contains duplicates.',
        INVALID + "Input collection [/w==, AA==, AA==]of type BS contains duplicates.",
    ),
    (
        {"NS": ["2", "1", "2"]},
        INVALID + "Input collection contains duplicates.",
        "Input collection contains duplicates",
    ),
    ({"SS": []}, INVALID + "An string set  may not be empty", INVALID + "An string set  may not be empty"),
]


@pytest.mark.parametrize(("value", "message", "older"), INVALID_SETS)
def test_a_repeated_member_has_a_newer_and_an_older_text(value: Any, message: str, older: str) -> None:
    error = refusal(value)

    assert isinstance(error, ValidationError)
    assert (error.message, error.older) == (message, older)


@pytest.mark.parametrize(("value", "message", "older"), INVALID_SETS)
def test_an_error_can_name_the_expressions_value(value: Any, message: str, older: str) -> None:
    values = {":ok": {"S": "x"}, ":bad": value}

    with pytest.raises(ValidationError) as newer:
        check_values(values, MODERN)
    with pytest.raises(ValidationError) as named:
        check_named_values(values, MODERN)

    assert newer.value.message == message
    assert named.value.message == f"ExpressionAttributeValues contains invalid value: {older} for key :bad"


def test_expression_values_are_canonical_and_sized_with_names() -> None:
    values = {":a": {"N": "1.0"}, ":b": {"S": "xyz"}}

    assert check_values(values, MODERN) == 2 + 2 + 2 + 3
    assert values == {":a": {"N": "1"}, ":b": {"S": "xyz"}}


def test_any_bytes_are_taken_in_their_one_base64() -> None:
    for data in (bytes(range(256)), b"\0", b"ab", b"abc"):
        value = {"B": base64.b64encode(data).decode()}
        assert check_value(value, MODERN) == len(data)
