"""DynamoDB's error texts, which differ between its operations, through boto3."""

from collections.abc import Callable
from typing import Any

import pytest

from foldb.model.numbers import NOT_NUMERIC, OVERFLOW
from tests.support.claims import invalid
from tests.support.tables import MakeTable

ONE_ERROR = "1 validation error detected: "
INVALID = "One or more parameter values were invalid: "
KEY = {"pk": {"S": "car"}}

REPEATED = {"SS": ["b", "a", "b"]}
REPEATED_TEXT = INVALID + 'Input collection ["a", "b", "b"] contains duplicates.'
REPEATED_OLDER = INVALID + "Input collection [b, a, b] contains duplicates."

Send = Callable[..., Any]


@pytest.fixture
def name(make_table: MakeTable) -> str:
    table: str = make_table("pk:S").name
    return table


def text_of(send: Send, **request: Any) -> str:
    with invalid() as refusal:
        send(**request)
    return refusal.message


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (REPEATED, REPEATED_TEXT),
        ({"N": ""}, f"{NOT_NUMERIC}: "),
        ({"L": [{"N": "1e99999999999"}]}, OVERFLOW),
        ({"NULL": False}, INVALID + "Null attribute value types must have the value of true"),
    ],
    ids=["set", "empty number", "exponent", "null"],
)
def test_writes_of_one_item_count_the_fault_of_a_value(
    client: Any, name: str, value: dict[str, Any], text: str
) -> None:
    values = {":v": value}
    condition = {"ConditionExpression": "a = :v", "ExpressionAttributeValues": values}
    texts = {
        text_of(client.put_item, TableName=name, Item=KEY | {"a": value}),
        text_of(client.put_item, TableName=name, Item=KEY, Expected={"a": {"Value": value}}),
        text_of(
            client.update_item,
            TableName=name,
            Key=KEY,
            UpdateExpression="SET a = :v",
            ExpressionAttributeValues=values,
        ),
        text_of(client.update_item, TableName=name, Key={"pk": value}),
        text_of(client.update_item, TableName=name, Key=KEY, AttributeUpdates={"a": {"Value": value}}),
        text_of(client.delete_item, TableName=name, Key=KEY, **condition),
    }

    assert texts == {ONE_ERROR + text}


def test_reads_and_transactions_send_the_same_text_alone(client: Any, name: str) -> None:
    values = {":p": KEY["pk"], ":v": REPEATED}
    update = {
        "TableName": name,
        "Key": KEY,
        "UpdateExpression": "SET a = :v",
        "ExpressionAttributeValues": {":v": REPEATED},
    }
    texts = {
        text_of(client.get_item, TableName=name, Key={"pk": REPEATED}),
        text_of(client.batch_get_item, RequestItems={name: {"Keys": [{"pk": REPEATED}]}}),
        text_of(
            client.query,
            TableName=name,
            KeyConditionExpression="pk = :p",
            FilterExpression="a = :v",
            ExpressionAttributeValues=values,
        ),
        text_of(client.transact_write_items, TransactItems=[{"Update": update}]),
    }

    assert texts == {REPEATED_TEXT}


def test_batch_write_item_and_scan_keep_the_older_texts(client: Any, name: str) -> None:
    put = {"PutRequest": {"Item": KEY | {"a": REPEATED}}}
    delete = {"DeleteRequest": {"Key": {"pk": REPEATED}}}

    for request in (put, delete):
        assert REPEATED_OLDER == text_of(client.batch_write_item, RequestItems={name: [request]})
    assert text_of(
        client.scan,
        TableName=name,
        FilterExpression="a = :v",
        ExpressionAttributeValues={":v": REPEATED},
    ) == (f"ExpressionAttributeValues contains invalid value: {REPEATED_OLDER} for key :v")


QUERY = {"KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": {"S": "car"}}}
SELECTS = [
    (
        {"Select": "COUNT", "ProjectionExpression": "pk"},
        "Cannot specify the ProjectionExpression when choosing to",
    ),
    ({"Select": "ALL_PROJECTED_ATTRIBUTES"}, "ALL_PROJECTED_ATTRIBUTES can be used only when Querying using"),
    ({"Select": "SPECIFIC_ATTRIBUTES"}, "Must specify the AttributesToGet or ProjectionExpression when"),
]


@pytest.mark.parametrize(("parameters", "text"), SELECTS)
def test_a_query_counts_the_fault_of_select_and_a_scan_does_not(
    client: Any, name: str, parameters: dict[str, Any], text: str
) -> None:
    assert text_of(client.query, TableName=name, **QUERY, **parameters).startswith(ONE_ERROR + text)
    assert text_of(client.scan, TableName=name, **parameters).startswith(text)


def test_a_start_key_is_checked_after_select_and_filter(client: Any) -> None:
    """Each request has the later mistakes too, and the error names only the first."""
    request: dict[str, Any] = {
        **QUERY,
        "TableName": "no-such-table",
        "FilterExpression": "a =",
        "Select": "SPECIFIC_ATTRIBUTES",
        "ExclusiveStartKey": {"pk": REPEATED},
    }
    texts = [text_of(client.query, **request)]
    del request["Select"]
    texts.append(text_of(client.query, **request))
    del request["FilterExpression"]
    texts.append(text_of(client.query, **request))

    assert texts[0].startswith(ONE_ERROR + "Must specify")
    assert texts[1].startswith("Invalid FilterExpression: Syntax error")
    assert texts[2] == REPEATED_TEXT


def test_the_start_key_of_a_scan_keeps_the_older_text(client: Any, name: str) -> None:
    text = text_of(client.scan, TableName=name, ExclusiveStartKey={"pk": REPEATED})

    assert f"The provided starting key is invalid: {REPEATED_OLDER}" == text


UNDEFINED = "An expression attribute value used in expression is not defined; attribute value: :v"


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        (
            {"UpdateExpression": "INVALID SYNTAX HERE"},
            'Invalid UpdateExpression: Syntax error; token: "INVALID", near: "INVALID SYNTAX"',
        ),
        ({"UpdateExpression": ""}, "Invalid UpdateExpression: The expression can not be empty;"),
        ({"UpdateExpression": "SET a = :v"}, f"Invalid UpdateExpression: {UNDEFINED}"),
        ({"ConditionExpression": "a = :v"}, f"Invalid ConditionExpression: {UNDEFINED}"),
        (
            {"UpdateExpression": "REMOVE a", "ExpressionAttributeNames": {"#n": "n"}},
            "Value provided in ExpressionAttributeNames unused in expressions: keys: {#n}",
        ),
        (
            {"UpdateExpression": "REMOVE a", "ExpressionAttributeValues": {":v": {"S": "x"}}},
            "Value provided in ExpressionAttributeValues unused in expressions: keys: {:v}",
        ),
        (
            {"UpdateExpression": "REMOVE a", "AttributeUpdates": {"a": {"Action": "DELETE"}}},
            "Can not use both expression and non-expression parameters in the same request: "
            "Non-expression parameters: {AttributeUpdates} Expression parameters: {UpdateExpression}",
        ),
        (
            {"ExpressionAttributeValues": {":v": {"S": "x"}}},
            "ExpressionAttributeValues can only be specified when using expressions",
        ),
        (
            {"Expected": {"a": {"Exists": True}}},
            INVALID + "Value must be provided when Exists is true for Attribute: a",
        ),
    ],
)
def test_an_update_counts_the_fault_of_its_parameters(
    client: Any, name: str, parameters: dict[str, Any], text: str
) -> None:
    assert ONE_ERROR + text == text_of(client.update_item, TableName=name, Key=KEY, **parameters)


def test_faults_that_depend_on_the_table_are_not_counted(client: Any, name: str) -> None:
    update = {"UpdateExpression": "SET pk = :v", "ExpressionAttributeValues": {":v": {"S": "x"}}}
    text = INVALID + "Cannot update attribute pk. This attribute is part of the key"
    large = KEY | {"a": {"S": "x" * 400 * 1024}}

    assert text == text_of(client.update_item, TableName=name, Key=KEY, **update)
    assert "Item size has exceeded the maximum allowed size" == text_of(
        client.put_item, TableName=name, Item=large
    )
