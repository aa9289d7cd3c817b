"""Query, through boto3."""

import re
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.tables import MakeTable

pytestmark = pytest.mark.divided

CAR = {":car": {"S": "car"}}
OF_CAR = {"KeyConditionExpression": "pk = :car", "ExpressionAttributeValues": CAR}


@pytest.fixture(scope="module")
def name(make_module_table: MakeTable, client: Any) -> str:
    """Ten cars by year, each with a colour; odd years are red."""
    table: str = make_module_table(
        "pk:S", "sk:N", gsi={"Colours": "colour:S sk:N KEYS_ONLY"}, lsi={"Names": "name:S KEYS_ONLY"}
    ).name
    for n in range(10):
        item = {"pk": {"S": "car"}, "sk": {"N": str(n)}, "text": {"S": "x" * n}}
        colours = {"colour": {"S": "red" if n % 2 else "blue"}, "name": {"S": f"car {9 - n}"}}
        client.put_item(TableName=table, Item={**item, **colours})
    return table


def keys(answer: dict[str, Any]) -> list[int]:
    return [int(item["sk"]["N"]) for item in answer["Items"]]


def all_pages(client: Any, **parameters: Any) -> list[dict[str, Any]]:
    pages = [client.query(**parameters)]
    while start := pages[-1].get("LastEvaluatedKey"):
        pages.append(client.query(**parameters, ExclusiveStartKey=start))
    return pages


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("limit", [1, 3, 10, 11])
@pytest.mark.parametrize("index", [None, "Colours", "Names"])
def test_pages_are_disjoint_and_complete_both_ways(
    client: Any, name: str, forward: bool, limit: int, index: str | None
) -> None:
    request: dict[str, Any] = {"TableName": name, "ScanIndexForward": forward, "Limit": limit, **OF_CAR}
    expected = list(range(10))
    if index == "Names":
        request["IndexName"] = index
        expected.reverse()
    elif index == "Colours":
        red = {":red": {"S": "red"}}
        request |= {
            "IndexName": index,
            "KeyConditionExpression": "colour = :red",
            "ExpressionAttributeValues": red,
        }
        expected = expected[1::2]
    pages = all_pages(client, **request)

    assert (expected if forward else expected[::-1]) == [key for page in pages for key in keys(page)]
    assert all(page["Count"] <= limit for page in pages)


def test_a_filter_is_applied_after_the_limit(client: Any, name: str) -> None:
    values = {**CAR, ":red": {"S": "red"}}
    answer = client.query(
        TableName=name,
        KeyConditionExpression="pk = :car",
        FilterExpression="colour = :red",
        ExpressionAttributeValues=values,
        Limit=4,
    )

    assert ([1, 3], 2, 4) == (keys(answer), answer["Count"], answer["ScannedCount"])
    assert {"pk": {"S": "car"}, "sk": {"N": "3"}} == answer["LastEvaluatedKey"]


def test_counting_answers_no_items(client: Any, name: str) -> None:
    answer = client.query(TableName=name, Select="COUNT", **OF_CAR)

    assert "Items" not in answer
    assert (10, 10) == (answer["Count"], answer["ScannedCount"])


def test_a_local_index_fetches_other_attributes_and_is_charged(client: Any, name: str) -> None:
    held = client.query(
        TableName=name, IndexName="Names", ReturnConsumedCapacity="INDEXES", ConsistentRead=True, **OF_CAR
    )
    fetched = client.query(
        TableName=name,
        IndexName="Names",
        Select="ALL_ATTRIBUTES",
        ReturnConsumedCapacity="INDEXES",
        ConsistentRead=True,
        **OF_CAR,
    )

    assert {"pk", "sk", "name"} == held["Items"][0].keys()
    assert {"pk", "sk", "name", "text", "colour"} == fetched["Items"][0].keys()
    assert 1.0 == held["ConsumedCapacity"]["CapacityUnits"]
    assert {"CapacityUnits": 10.0} == fetched["ConsumedCapacity"]["Table"]
    assert {"Names": {"CapacityUnits": 1.0}} == fetched["ConsumedCapacity"]["LocalSecondaryIndexes"]


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"IndexName": "None"}, "The table does not have the specified index: None"),
        (
            {"IndexName": "Colours", "ConsistentRead": True},
            "Consistent reads are not supported on global secondary indexes",
        ),
        (
            {"IndexName": "Colours", "KeyConditionExpression": "colour = :car", "Select": "ALL_ATTRIBUTES"},
            "One or more parameter values were invalid: Select type ALL_ATTRIBUTES is not supported for global "
            "secondary index Colours because its projection type is not ALL",
        ),
        (
            {"IndexName": "Colours", "KeyConditionExpression": "colour = :car", "ProjectionExpression": "pk, #t",
             "ExpressionAttributeNames": {"#t": "text"}},
            "One or more parameter values were invalid: Global secondary index Colours does not project [text]",
        ),
        (
            {"Select": "ALL_PROJECTED_ATTRIBUTES"},
            "1 validation error detected: ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName",
        ),
        (
            {"Select": "COUNT", "ProjectionExpression": "pk"},
            "1 validation error detected: Cannot specify the ProjectionExpression when choosing to get only the Count",
        ),
        (
            {"FilterExpression": "sk > :car"},
            "Filter Expression can only contain non-primary key attributes: Primary key attribute: sk",
        ),
        (
            {"ExclusiveStartKey": {"pk": {"S": "car"}}},
            "The provided starting key is invalid",
        ),
        (
            {"ExclusiveStartKey": {"pk": {"S": "car"}, "sk": {"S": "1"}}},
            "The provided key element does not match the schema",
        ),
        (
            {"IndexName": "Names",
             "ExclusiveStartKey": {"pk": {"S": "car"}, "sk": {"S": "1"}, "name": {"S": "car 1"}}},
            "The provided starting key is invalid: The provided key element does not match the schema",
        ),
        (
            {"IndexName": "Colours", "KeyConditionExpression": "colour = :car",
             "ExclusiveStartKey": {"pk": {"S": "car"}, "sk": {"N": "1"}, "colour": {"S": ""}}},
            "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an "
            "empty string value. Key: colour",
        ),
        (
            {"ExclusiveStartKey": {"pk": {"S": "bus"}, "sk": {"N": "1"}}},
            "The provided starting key is outside query boundaries based on provided conditions",
        ),
    ],
)  # fmt: skip
def test_invalid_queries_are_refused(client: Any, name: str, parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(ClientError) as caught:
        client.query(TableName=name, **(OF_CAR | parameters))

    assert text == caught.value.response["Error"]["Message"]


def test_a_start_must_lie_in_the_range_that_is_asked_for(client: Any, name: str) -> None:
    with pytest.raises(ClientError, match="The provided starting key does not match the range key predicate"):
        client.query(
            TableName=name,
            KeyConditionExpression="pk = :car AND sk > :n",
            ExpressionAttributeValues={**CAR, ":n": {"N": "5"}},
            ExclusiveStartKey={"pk": {"S": "car"}, "sk": {"N": "2"}},
        )


def test_a_query_needs_a_key_condition(client: Any, name: str) -> None:
    with pytest.raises(ClientError, match="Either the KeyConditions or KeyConditionExpression"):
        client.query(TableName=name)


def test_the_legacy_parameters_do_the_same(client: Any, name: str) -> None:
    answer = client.query(
        TableName=name,
        KeyConditions={
            "pk": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "car"}]},
            "sk": {"ComparisonOperator": "BETWEEN", "AttributeValueList": [{"N": "2"}, {"N": "5"}]},
        },
        QueryFilter={"colour": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "red"}]}},
        AttributesToGet=["sk"],
    )

    assert [{"sk": {"N": "3"}}, {"sk": {"N": "5"}}] == answer["Items"]


EQUALS_CAR = {"pk": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "car"}]}}


def test_key_conditions_go_with_filter_and_projection(client: Any, name: str) -> None:
    """KeyConditions is the one legacy parameter that DynamoDB takes together with expressions."""
    answer = client.query(
        TableName=name,
        KeyConditions=EQUALS_CAR,
        FilterExpression="#colour = :0",  # `:0` and `:1` once were names of KeyConditions' own values
        ProjectionExpression="sk",
        ExpressionAttributeNames={"#colour": "colour"},
        ExpressionAttributeValues={":0": {"S": "red"}},
    )

    assert [1, 3, 5, 7, 9] == keys(answer)
    assert [["sk"]] * 5 == [list(item) for item in answer["Items"]]
    assert (5, 10) == (answer["Count"], answer["ScannedCount"])


def test_key_conditions_go_with_a_projection_alone(client: Any, name: str) -> None:
    answer = client.query(TableName=name, KeyConditions=EQUALS_CAR, ProjectionExpression="sk")

    assert [{"sk": {"N": str(n)}} for n in range(10)] == answer["Items"]


MALFORMED = [
    ({"FilterExpression": "colour ="}, "Invalid FilterExpression: Syntax error"),
    ({"ProjectionExpression": "sk,,"}, "Invalid ProjectionExpression: Syntax error"),
    (
        {"FilterExpression": "sk = :n", "ExpressionAttributeValues": {":n": {"N": "1"}}},
        "Primary key attribute: sk",
    ),
    ({"FilterExpression": "colour = :lost"}, "attribute value used in expression is not defined"),
    (
        {"ProjectionExpression": "sk", "ExpressionAttributeNames": {"#unused": "colour"}},
        "unused in expressions: keys: {#unused}",
    ),
    (
        {"ProjectionExpression": "sk", "KeyConditions": {}},
        "Conditions can be of length 1 or 2 only",
    ),
]


@pytest.mark.parametrize(("parameters", "text"), MALFORMED)
def test_an_invalid_expression_beside_key_conditions_is_refused(
    client: Any, name: str, parameters: dict[str, Any], text: str
) -> None:
    with pytest.raises(ClientError, match=re.escape(text)):
        client.query(**{"TableName": name, "KeyConditions": EQUALS_CAR, **parameters})


FILTER = {"FilterExpression": "colour = :red", "ExpressionAttributeValues": {":red": {"S": "red"}}}
LEGACY_FILTER = {"colour": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "red"}]}}
MIXTURES = [
    ("query", {**OF_CAR, "KeyConditions": EQUALS_CAR}, "KeyConditions", "KeyConditionExpression"),
    ("query", {**OF_CAR, "QueryFilter": LEGACY_FILTER}, "QueryFilter", "KeyConditionExpression"),
    ("query", {**OF_CAR, "AttributesToGet": ["sk"]}, "AttributesToGet", "KeyConditionExpression"),
    ("query", {**OF_CAR, "ConditionalOperator": "OR"}, "ConditionalOperator", "KeyConditionExpression"),
    (
        "query",
        {**FILTER, "KeyConditions": EQUALS_CAR, "QueryFilter": LEGACY_FILTER},
        "QueryFilter",
        "FilterExpression",
    ),
    (
        "query",
        {**FILTER, "KeyConditions": EQUALS_CAR, "AttributesToGet": ["sk"], "ConditionalOperator": "AND"},
        "AttributesToGet, ConditionalOperator",
        "FilterExpression",
    ),
    (
        "query",
        {"ProjectionExpression": "sk", "KeyConditions": EQUALS_CAR, "QueryFilter": LEGACY_FILTER},
        "QueryFilter",
        "ProjectionExpression",
    ),
    ("scan", {**FILTER, "ScanFilter": LEGACY_FILTER}, "ScanFilter", "FilterExpression"),
    ("scan", {**FILTER, "AttributesToGet": ["sk"]}, "AttributesToGet", "FilterExpression"),
    ("scan", {**FILTER, "ConditionalOperator": "OR"}, "ConditionalOperator", "FilterExpression"),
    (
        "scan",
        {"ProjectionExpression": "sk", "ScanFilter": LEGACY_FILTER},
        "ScanFilter",
        "ProjectionExpression",
    ),
]


@pytest.mark.parametrize(("operation", "parameters", "legacy", "expressions"), MIXTURES)
def test_other_legacy_parameters_do_not_go_with_expressions(
    client: Any, name: str, operation: str, parameters: dict[str, Any], legacy: str, expressions: str
) -> None:
    with pytest.raises(ClientError) as caught:
        getattr(client, operation)(TableName=name, **parameters)

    assert caught.value.response["Error"]["Message"] == (
        "Can not use both expression and non-expression parameters in the same request: "
        f"Non-expression parameters: {{{legacy}}} Expression parameters: {{{expressions}}}"
    )


STARTS = [
    ("car", 4, None),
    ("car", 3, "The provided starting key does not match the range key predicate"),
    ("bus", 3, "The provided starting key does not match the range key predicate"),
    ("bus", 4, "The query can return at most one row and cannot be restarted"),
]


@pytest.mark.parametrize(("pk", "sk", "text"), STARTS)
def test_a_page_begins_inside_of_the_range(
    client: Any, name: str, pk: str, sk: int, text: str | None
) -> None:
    request = {
        "TableName": name,
        "KeyConditionExpression": "pk = :car AND sk > :three",
        "ExpressionAttributeValues": CAR | {":three": {"N": "3"}},
        "ExclusiveStartKey": {"pk": {"S": pk}, "sk": {"N": str(sk)}},
    }
    if text is None:
        assert [5, 6, 7, 8, 9] == keys(client.query(**request))
        assert [] == keys(client.query(**request, ScanIndexForward=False))
    else:
        with pytest.raises(ClientError) as caught:
            client.query(**request)
        assert text == caught.value.response["Error"]["Message"]
