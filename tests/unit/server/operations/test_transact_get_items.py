"""TransactGetItems, through boto3."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.tables import MakeTable

pytestmark = pytest.mark.divided


def key(text: object) -> dict[str, Any]:
    return {"pk": {"S": str(text)}}


@pytest.fixture
def name(make_table: MakeTable, client: Any) -> str:
    table: str = make_table("pk:S").name
    for n in range(3):
        client.put_item(TableName=table, Item={**key(n), "n": {"N": str(n)}})
    return table


def get(name: str, text: object, **more: Any) -> dict[str, Any]:
    return {"Get": {"TableName": name, "Key": key(text), **more}}


@pytest.mark.spec("S54")
def test_answers_have_the_order_of_requests_at_twice_the_units(client: Any, name: str) -> None:
    answer = client.transact_get_items(
        TransactItems=[get(name, 2), get(name, "none"), get(name, 0, ProjectionExpression="n")],
        ReturnConsumedCapacity="TOTAL",
    )

    assert [{"Item": {**key(2), "n": {"N": "2"}}}, {}, {"Item": {"n": {"N": "0"}}}] == answer["Responses"]
    assert [{"TableName": name, "CapacityUnits": 6.0, "ReadCapacityUnits": 6.0}] == answer["ConsumedCapacity"]


EMPTY = (
    "One or more parameter values are not valid. The AttributeValue for a key attribute "
    "cannot contain an empty string value. Key: pk"
)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"x": {"S": "1"}}, "The provided key element does not match the schema"),
        ({"pk": {"N": "1"}}, "The provided key element does not match the schema"),
        (key(""), EMPTY),
    ],
)
def test_a_key_that_does_not_fit_is_a_reason_at_its_place(
    client: Any, name: str, wrong: dict[str, Any], text: str
) -> None:
    """An empty key too, unlike in TransactWriteItems: a transactional read names all that is wrong as reasons."""
    with pytest.raises(ClientError, match="Transaction cancelled") as caught:
        client.transact_get_items(TransactItems=[get(name, 1), {"Get": {"TableName": name, "Key": wrong}}])

    assert [
        {"Code": "None"},
        {"Code": "ValidationError", "Message": text},
    ] == caught.value.response["CancellationReasons"]


def test_one_item_twice_is_refused(client: Any, name: str) -> None:
    with pytest.raises(
        ClientError, match="Transaction request cannot include multiple operations on one item"
    ):
        client.transact_get_items(TransactItems=[get(name, 1), get(name, 1)])


def test_a_missing_table_is_an_error_of_the_request(client: Any, name: str) -> None:
    with pytest.raises(ClientError, match="Requested resource not found"):
        client.transact_get_items(TransactItems=[get(name, 1), get("no-such-table", 1)])


def test_more_than_4_mb_is_refused(client: Any, name: str) -> None:
    for n in range(11):
        client.put_item(TableName=name, Item={**key(n), "text": {"S": "x" * 400_000}})
    with pytest.raises(ClientError, match="ValidationException"):
        client.transact_get_items(TransactItems=[get(name, n) for n in range(11)])
