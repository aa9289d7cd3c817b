"""Requests against DynamoDB's description of them; the texts are DynamoDB's."""

import re
import runpy
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from foldb.model.errors import SerializationError, ValidationError
from foldb.model.service import validate

HERE = Path(__file__).parent
SELECT = "[SPECIFIC_ATTRIBUTES, COUNT, ALL_ATTRIBUTES, ALL_PROJECTED_ATTRIBUTES]"
NAME = {"TableName": "Music"}
PATTERN = "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"


def test_the_service_model_equals_botocores() -> None:
    generated = runpy.run_path(str(HERE / "generate_service.py"))["generate"]()
    kept = (HERE.parents[2] / "model" / "service.json").read_text()

    assert kept == generated


def refused(operation: str, body: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        validate(operation, body)
    return caught.value.message


def violation(value: str, path: str, constraint: str) -> str:
    return f"Value {value} at '{path}' failed to satisfy constraint: {constraint}"


def one(value: str, path: str, constraint: str) -> str:
    return f"1 validation error detected: {violation(value, path, constraint)}"


def brief(path: str, bound: str) -> str:
    return (
        f"1 validation error detected: Value at '{path}' failed to satisfy constraint: "
        f"Member must have length {bound}"
    )


ACCEPTED = [
    ("GetItem", NAME | {"Key": {"Artist": {"S": "1000mods"}}, "ConsistentRead": True}),
    ("GetItem", {"TableName": "arn:aws:dynamodb:eu-west-1:123456789012:table/Music", "Key": {}}),
    ("Query", NAME | {"Limit": 1, "Select": "COUNT", "IndexName": "Genres"}),
    ("Scan", NAME | {"Segment": 0, "TotalSegments": 1_000_000}),
    ("BatchWriteItem", {"RequestItems": {"Music": [{"PutRequest": {"Item": {}}}] * 25}}),
    ("ListTables", {}),
    ("PutItem", NAME | {"Item": {}, "NobodyKnows": 1}),
]


@pytest.mark.parametrize(("operation", "body"), ACCEPTED)
def test_well_formed_requests_are_accepted(operation: str, body: dict[str, Any]) -> None:
    validate(operation, body)


def test_an_unknown_member_is_treated_as_absent() -> None:
    body = {
        "NobodyKnows": {"deep": [1]},
        "TransactItems": [{"Put": NAME | {"Item": {}, "Key": 1}, "Putt": {}}],
    }
    validate("TransactWriteItems", body)

    assert body == {"TransactItems": [{"Put": NAME | {"Item": {}}}]}


@pytest.mark.parametrize(
    "body",
    [
        {"TransactItems": [{"Put": NAME | {"Item": "x"}}] * 101},
        {"TransactItems": [{"Put": NAME | {"Item": {}, "ExpressionAttributeNames": {"#a": 1}}}] * 101},
    ],
)
def test_a_wrong_type_inside_a_long_list_is_reported_first(body: dict[str, Any]) -> None:
    with pytest.raises(SerializationError):
        validate("TransactWriteItems", body)


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"S": "leaf"}
    for _ in range(levels):
        value = {"M": {"n": value}}
    return value


def test_a_value_is_shown_however_deep_it_is() -> None:
    body = {"RequestItems": {"no!": [{"PutRequest": {"Item": {"a": nested(300)}}}]}}

    assert "item={a=AttributeValue(...)}" in refused("BatchWriteItem", body)


def test_null_in_a_map_is_reported_with_its_key() -> None:
    body = NAME | {"Key": {}, "ExpressionAttributeNames": {"#a": None}}
    expected = one("null", "expressionAttributeNames.#a.member", "Member must not be null")

    assert expected == refused("GetItem", body)


def test_null_is_the_same_as_absent() -> None:
    body = NAME | {"Item": {}, "ReturnValues": None, "Expected": {"a": {"Exists": None}}}

    validate("PutItem", body)

    assert NAME | {"Item": {}, "Expected": {"a": {}}} == body


def test_violations_are_reported_together_in_the_shapes_order() -> None:
    body = NAME | {"ReturnItemCollectionMetrics": "x", "ReturnConsumedCapacity": "x", "ReturnValues": "x"}
    enums = (
        ("returnConsumedCapacity", "[INDEXES, TOTAL, NONE]"),
        ("returnValues", "[ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW]"),
        ("returnItemCollectionMetrics", "[SIZE, NONE]"),
    )
    expected = [
        violation("'x'", path, f"Member must satisfy enum value set: {values}") for path, values in enums
    ]
    expected.append(violation("null", "item", "Member must not be null"))

    assert f"4 validation errors detected: {'; '.join(expected)}" == refused("PutItem", body)


CAPACITY = violation(
    "'x'", "returnConsumedCapacity", "Member must satisfy enum value set: [INDEXES, TOTAL, NONE]"
)
RETURN_VALUES = (
    "Failed to satisfy constraint: Member must satisfy enum value set: "
    "[ALL_OLD, UPDATED_OLD, ALL_NEW, UPDATE_NEW, NONE]"
)
METRICS = violation("'x'", "returnItemCollectionMetrics", "Member must satisfy enum value set: [SIZE, NONE]")


@pytest.mark.parametrize(
    ("operation", "member", "message"),
    [
        ("PutItem", "Item", f"3 validation errors detected: {CAPACITY}; {RETURN_VALUES}; {METRICS}"),
        ("DeleteItem", "Key", f"3 validation errors detected: {CAPACITY}; {RETURN_VALUES}; {METRICS}"),
        ("UpdateItem", "Key", f"1 validation error detected: {RETURN_VALUES}"),
    ],
)
def test_a_write_with_its_item_or_key_has_texts_of_its_own(operation: str, member: str, message: str) -> None:
    body = {
        "ReturnItemCollectionMetrics": "x",
        "ReturnConsumedCapacity": "x",
        "ReturnValues": "x",
        member: {},
    }

    assert message == refused(operation, NAME | body)


@pytest.mark.parametrize(("operation", "member"), [("PutItem", "Item"), ("UpdateItem", "Key")])
def test_a_wrong_enum_alone_has_a_text_of_a_write(operation: str, member: str) -> None:
    metrics = "1 validation error detected: ReturnItemCollectionMetrics can only be SIZE or NONE"
    operator = f"1 validation error detected: {OPERATORS}"

    assert metrics == refused(operation, NAME | {member: {}, "ReturnItemCollectionMetrics": "x"})
    assert operator == refused(operation, NAME | {member: {}, "ConditionalOperator": "XOR"})


OPERATORS = "Failed to satisfy constraint: Member must satisfy enum value set: [ALL, OR]"
OLDER_OPERATORS = one("'XOR'", "conditionalOperator", "Member must satisfy enum value set: [OR, AND]")


def test_a_query_reports_an_unknown_operator_alone_and_first() -> None:
    assert refused("Query", NAME | {"ConditionalOperator": "XOR", "Select": "x"}) == OPERATORS
    assert refused("Scan", NAME | {"ConditionalOperator": "XOR"}) == OLDER_OPERATORS


@pytest.mark.parametrize(
    ("levels", "text"), [(61, f"1 validation error detected: {OPERATORS}"), (63, OLDER_OPERATORS)]
)
def test_a_deep_write_has_the_older_texts(levels: int, text: str) -> None:
    body = NAME | {"Item": {"a": nested(levels)}, "ConditionalOperator": "XOR"}

    assert text == refused("PutItem", body)


BUCKET_PATTERN = r"^[a-z0-9A-Z]+[\.\-\w]*[a-z0-9A-Z]+$"
"""DynamoDB's. Java's `\\w` is ASCII."""


def test_a_name_of_a_bucket_matches_dynamodbs_pattern() -> None:
    names = ["".join(letters) for length in range(6) for letters in product("aZ0._-é/", repeat=length)]
    pattern = re.compile(BUCKET_PATTERN, re.ASCII)

    assert [name for name in names if pattern.fullmatch(name)] == [name for name in names if is_bucket(name)]


def is_bucket(name: str) -> bool:
    try:
        validate("ExportTableToPointInTime", {"TableArn": "Music", "S3Bucket": name})
    except ValidationError:
        return False
    return True


def test_a_long_name_of_a_bucket_is_read_once() -> None:
    name = "a" * 100_000 + "!"  # DynamoDB's pattern tries a cube of divisions
    shown = f"'{'a' * 256}...'"
    expected = [
        violation(shown, "s3Bucket", f"Member must satisfy regular expression pattern: {BUCKET_PATTERN}"),
        violation(shown, "s3Bucket", "Member must have length less than or equal to 255"),
    ]

    text = refused("ExportTableToPointInTime", {"TableArn": "Music", "S3Bucket": name})

    assert f"2 validation errors detected: {'; '.join(expected)}" == text


def test_violations_of_an_update_without_key_have_their_order() -> None:
    name = violation("''", "tableName", "Member must have length greater than or equal to 1")
    returns = "Member must satisfy enum value set: [ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW]"
    expected = [CAPACITY, name, violation("'x'", "returnValues", returns)]
    expected.append(violation("null", "key", "Member must not be null"))
    body = {"TableName": "", "ReturnConsumedCapacity": "x", "ReturnValues": "x"}

    assert f"4 validation errors detected: {'; '.join(expected)}" == refused("UpdateItem", body)


MAP_KEYS = (
    "Map keys must satisfy constraint: [Member must have length less than or equal to 255, "
    f"Member must have length greater than or equal to 3, {PATTERN}]"
)


def test_a_malformed_table_name_is_shown_with_its_map() -> None:
    read = {"RequestItems": {"no!": {"Keys": [{"pk": {"S": "a"}}]}}}
    written = {"RequestItems": {"no": [{"DeleteRequest": {"Key": {"pk": {"S": "a"}}}}]}}
    shown = violation("""'{"no!":{"Keys":[{"pk":{"S":"a"}}]}}'""", "requestItems", MAP_KEYS)

    assert f"1 validation error detected: {shown}" == refused("BatchGetItem", read)
    assert f"2 validation errors detected: {shown}; {CAPACITY}" == refused(
        "BatchGetItem", read | {"ReturnConsumedCapacity": "x"}
    )
    assert MAP_KEYS in refused("BatchWriteItem", written)
    assert f"1 validation error detected: {CAPACITY}" == refused(
        "BatchWriteItem", written | {"ReturnConsumedCapacity": "x"}
    )


def test_more_than_25_writes_are_named_and_none_are_shown() -> None:
    none = "[Member must have length less than or equal to 25, Member must have length greater than or equal to 1]"
    writes: list[Any] = [{"DeleteRequest": {"Key": {}}}] * 26

    assert brief("RequestItems.Music.member", "less than or equal to 25") == refused(
        "BatchWriteItem", {"RequestItems": {"Music": writes}}
    )
    assert one("'{Music=[]}'", "requestItems", f"Map value must satisfy constraint: {none}") == refused(
        "BatchWriteItem", {"RequestItems": {"Music": []}}
    )


def test_a_long_token_is_reported_alone() -> None:
    check = {"TableName": "Music", "Key": {}, "ConditionExpression": "a = b"}
    body = {"TransactItems": [{"ConditionCheck": check}], "ClientRequestToken": "x" * 37}

    assert brief("ClientRequestToken", "less than or equal to 36") == refused(
        "TransactWriteItems", body | {"ReturnConsumedCapacity": "x"}
    )


def test_an_empty_table_name_of_a_write_is_reported_without_it() -> None:
    body = {"TableName": "", "ReturnValues": "x"}
    empty = violation("''", "tableName", "Member must have length greater than or equal to 1")
    missing = violation("null", "key", "Member must not be null")

    assert brief("TableName", "greater than or equal to 1") == refused("UpdateItem", body | {"Key": {}})
    assert one("''", "tableName", "Member must have length greater than or equal to 1") == refused(
        "GetItem", {"TableName": "", "Key": {}}
    )
    assert f"2 validation errors detected: {empty}; {missing}" == refused("UpdateItem", {"TableName": ""})


def test_the_errors_of_global_indexes_come_first() -> None:
    index = {
        "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL"},
    }
    body = {
        "TableName": "Music",
        "AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}],
        "LocalSecondaryIndexes": [index | {"IndexName": "l1"}],
        "GlobalSecondaryIndexes": [index | {"IndexName": "z1"}],
    }
    short = "Member must have length greater than or equal to 3"
    first = violation("'z1'", "globalSecondaryIndexes.1.member.indexName", short)
    second = violation("'l1'", "localSecondaryIndexes.1.member.indexName", short)

    assert f"2 validation errors detected: {first}; {second}" == refused("CreateTable", body)


def test_at_most_ten_violations_are_reported() -> None:
    body = {"TransactItems": [{"Put": {"TableName": "a b", "Item": {}}}] * 11}
    message = refused("TransactWriteItems", body)

    assert message.startswith("10 validation errors detected: ")
    assert message.count(" at 'transactItems.") == 10
    assert "transactItems.11" not in message


@pytest.mark.spec("X9", "S17")
@pytest.mark.parametrize(
    ("name", "constraint"),
    [
        ("a" * 256, "Member must have length less than or equal to 255"),
        ("bad table!@#", PATTERN),
    ],
)
def test_a_wrong_table_name_is_reported_alone(name: str, constraint: str) -> None:
    body = {"TableName": name, "Item": {}, "ReturnValues": "x"}

    assert one(f"'{name}'", "tableName", constraint) == refused("PutItem", body)


def test_table_operations_have_their_own_error_without_a_name() -> None:
    missing = "The parameter 'TableName' is required but was not present in the request"
    short = "TableName must be at least 3 characters long and at most 255 characters long"
    for operation in ("CreateTable", "DescribeTable", "UpdateTable", "DeleteTable", "DescribeTimeToLive"):
        assert missing == refused(operation, {})
    assert short == refused("DescribeTable", {"TableName": "ab"})
    at_least_3 = "Member must have length greater than or equal to 3"
    assert one("'ab'", "tableName", at_least_3) == refused("CreateTable", {"TableName": "ab"})
    assert one("null", "tableName", "Member must not be null") == refused("Scan", {})


KEYS = [{"AttributeName": name, "KeyType": "HASH"} for name in "abc"]
TABLE = NAME | {"AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "S"}], "KeySchema": KEYS[:1]}

REFUSED = [
    ("Query", NAME | {"Select": "x"}, one("'x'", "select", f"Member must satisfy enum value set: {SELECT}")),
    (
        "CreateTable",
        TABLE | {"KeySchema": [{"AttributeName": "a", "KeyType": "x"}]},
        one("'x'", "keySchema.1.member.keyType", "Member must satisfy enum value set: [HASH, RANGE]"),
    ),
    (
        "CreateTable",
        TABLE | {"AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "x"}]},
        one(
            "'x'",
            "attributeDefinitions.1.member.attributeType",
            "Member must satisfy enum value set: [B, N, S]",
        ),
    ),
    (
        "CreateTable",
        TABLE | {"KeySchema": KEYS},
        one(
            "'[KeySchemaElement(attributeName=a, keyType=HASH), KeySchemaElement(attributeName=b, keyType=HASH), "
            "KeySchemaElement(attributeName=c, keyType=HASH)]'",
            "keySchema",
            "Member must have length less than or equal to 2",
        ),
    ),
    (
        "CreateTable",
        TABLE | {"ProvisionedThroughput": {"ReadCapacityUnits": 0, "WriteCapacityUnits": 1}},
        one(
            "'0'",
            "provisionedThroughput.readCapacityUnits",
            "Member must have value greater than or equal to 1",
        ),
    ),
    ("Scan", NAME | {"Limit": 0}, one("'0'", "limit", "Member must have value greater than or equal to 1")),
    (
        "Query",
        NAME | {"Limit": 0},
        "1 validation error detected: Value at 'Limit' failed to satisfy constraint: "
        "Member must have value greater than or equal to 1",
    ),
    ("ListTables", {"Limit": 101}, one("'101'", "limit", "Member must have value less than or equal to 100")),
    (
        "BatchGetItem",
        {"RequestItems": {"Music": {"Keys": [{}] * 101}}},
        "1 validation error detected: Value at 'RequestItems.Music.member.Keys' failed to satisfy constraint: "
        "Member must have length less than or equal to 100",
    ),
    (
        "BatchGetItem",
        {"RequestItems": {"Music": {}}},
        one("null", "requestItems.Music.member.keys", "Member must not be null"),
    ),
    ("BatchGetItem", {"RequestItems": {}}, brief("RequestItems", "greater than or equal to 1")),
    ("BatchWriteItem", {"RequestItems": {}}, brief("RequestItems", "greater than or equal to 1")),
    ("TransactGetItems", {"TransactItems": []}, brief("TransactItems", "greater than or equal to 1")),
    (
        "TransactWriteItems",
        {"TransactItems": [{}] * 101},
        brief("TransactItems", "less than or equal to 100"),
    ),
    (
        "BatchWriteItem",
        {"RequestItems": {"Music": []}},
        one(
            "'{Music=[]}'",
            "requestItems",
            "Map value must satisfy constraint: [Member must have length less than or equal to 25, "
            "Member must have length greater than or equal to 1]",
        ),
    ),
    (
        "TransactWriteItems",
        {"TransactItems": []},
        brief("TransactItems", "greater than or equal to 1"),
    ),
    (
        "TransactWriteItems",
        {"TransactItems": [{"Put": {"TableName": "a b", "Item": {}}}]},
        one("'a b'", "transactItems.1.member.put.tableName", PATTERN),
    ),
    (
        "UpdateItem",
        NAME | {"Key": {}, "AttributeUpdates": {"a": {"Action": "x"}}},
        one(
            "'x'",
            "attributeUpdates.a.member.action",
            "Member must satisfy enum value set: [ADD, DELETE, PUT]",
        ),
    ),
]


@pytest.mark.spec("X9")
@pytest.mark.parametrize(("operation", "body", "message"), REFUSED)
def test_malformed_requests_are_refused(operation: str, body: dict[str, Any], message: str) -> None:
    assert message == refused(operation, body)


def test_a_long_value_is_cut_short_in_the_message() -> None:
    item = {"pk": {"S": "x" * 100_000}}
    body = {"RequestItems": {"no!": [{"PutRequest": {"Item": item}}] * 25}}

    message = refused("BatchWriteItem", body)

    assert message.startswith("1 validation error detected: Value '{no!=[WriteRequest(putRequest=PutRequest(")
    assert len(message) < 10_000


WRONG_KINDS = [
    ({"TableName": 1}, "NUMBER_VALUE cannot be converted to String"),
    ({"TableName": True}, "TRUE_VALUE cannot be converted to String"),
    ({"TableName": 1.5}, "DECIMAL_VALUE cannot be converted to String"),
    ({"TableName": []}, "Unrecognized collection type class java.lang.String"),
    ({"TableName": {}}, "Start of structure or map found where not expected"),
    ({"Limit": "1"}, "STRING_VALUE cannot be converted to Integer"),
    ({"Limit": False}, "FALSE_VALUE cannot be converted to Integer"),
    ({"ConsistentRead": "true"}, "Unexpected token received from parser"),
    ({"ConsistentRead": 1}, "NUMBER_VALUE cannot be converted to Boolean"),
    ({"AttributesToGet": "a"}, "Unexpected field type"),
    ({"AttributesToGet": {}}, "Start of structure or map found where not expected"),
    ({"AttributesToGet": [1]}, "NUMBER_VALUE cannot be converted to String"),
    ({"ExclusiveStartKey": "a"}, "Unexpected field type"),
    (
        {"ExclusiveStartKey": []},
        "Unrecognized collection type java.util.Map<java.lang.String, "
        "com.amazonaws.dynamodb.v20120810.AttributeValue>",
    ),
    ({"QueryFilter": {"a": "b"}}, "Unexpected value type in payload"),
    (
        {"QueryFilter": {"a": []}},
        "Unrecognized collection type class com.amazonaws.dynamodb.v20120810.Condition",
    ),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG_KINDS)
def test_a_wrong_kind_of_json_is_another_error(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(SerializationError) as caught:
        validate("Query", NAME | {"Select": "x"} | wrong)

    assert message == caught.value.message
