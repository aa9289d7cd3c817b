"""boto3, client and resource: create, write, query, paginate, condition, transact."""

import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import boto3
import pytest
from boto3.dynamodb.conditions import Attr, Key

pytestmark = pytest.mark.divided

REGION = "us-east-1"


@pytest.fixture
def untouched(endpoint: str) -> Iterator[Any]:
    """A client as boto3 makes it: with its own checks and its own retries."""
    client = boto3.client("dynamodb", endpoint_url=endpoint, region_name=REGION)
    yield client
    client.close()


@pytest.fixture
def orders(untouched: Any) -> Iterator[str]:
    name = f"Orders-{uuid.uuid4().hex}"
    untouched.create_table(
        TableName=name,
        AttributeDefinitions=[
            {"AttributeName": "customer", "AttributeType": "S"},
            {"AttributeName": "number", "AttributeType": "N"},
        ],
        KeySchema=[
            {"AttributeName": "customer", "KeyType": "HASH"},
            {"AttributeName": "number", "KeyType": "RANGE"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    untouched.get_waiter("table_exists").wait(TableName=name)
    yield name
    untouched.delete_table(TableName=name)
    untouched.get_waiter("table_not_exists").wait(TableName=name)


def test_the_client_takes_the_empty_answers_of_tagging(untouched: Any, orders: str) -> None:
    arn = untouched.describe_table(TableName=orders)["Table"]["TableArn"]
    tagged = untouched.tag_resource(ResourceArn=arn, Tags=[{"Key": "team", "Value": "a"}])
    untagged = untouched.untag_resource(ResourceArn=arn, TagKeys=["team"])

    assert [{"ResponseMetadata"}] * 2 == [set(tagged), set(untagged)]
    assert [] == untouched.list_tags_of_resource(ResourceArn=arn)["Tags"]


def test_the_client(untouched: Any, orders: str) -> None:
    for n in range(30):
        untouched.put_item(TableName=orders, Item={"customer": {"S": "c1"}, "number": {"N": f"{n}"}})
    pages = untouched.get_paginator("query").paginate(
        TableName=orders,
        KeyConditionExpression="customer = :c AND #n >= :n",
        ExpressionAttributeNames={"#n": "number"},
        ExpressionAttributeValues={":c": {"S": "c1"}, ":n": {"N": "10"}},
        PaginationConfig={"PageSize": 7},
    )

    assert [f"{n}" for n in range(10, 30)] == [
        item["number"]["N"] for page in pages for item in page["Items"]
    ]
    with pytest.raises(untouched.exceptions.ConditionalCheckFailedException):
        untouched.put_item(
            TableName=orders,
            Item={"customer": {"S": "c1"}, "number": {"N": "1"}},
            ConditionExpression="attribute_not_exists(customer)",
        )
    with pytest.raises(untouched.exceptions.TransactionCanceledException) as cancelled:
        untouched.transact_write_items(
            TransactItems=[
                {"Put": {"TableName": orders, "Item": {"customer": {"S": "c2"}, "number": {"N": "1"}}}},
                {
                    "ConditionCheck": {
                        "TableName": orders,
                        "Key": {"customer": {"S": "c1"}, "number": {"N": "99"}},
                        "ConditionExpression": "attribute_exists(customer)",
                    }
                },
            ]
        )
    assert ["None", "ConditionalCheckFailed"] == [
        reason["Code"] for reason in cancelled.value.response["CancellationReasons"]
    ]


def test_the_resource(endpoint: str, orders: str) -> None:
    resource = boto3.resource("dynamodb", endpoint_url=endpoint, region_name=REGION)
    table = resource.Table(orders)
    with table.batch_writer(overwrite_by_pkeys=["customer", "number"]) as batch:
        for n in (*range(60), 7):
            batch.put_item(Item={"customer": "c1", "number": n, "total": Decimal(n) / 4, "open": n % 2 == 0})
    found = table.query(
        KeyConditionExpression=Key("customer").eq("c1") & Key("number").between(10, 19),
        FilterExpression=Attr("open").eq(True) & Attr("total").gte(Decimal("3.5")),
        ScanIndexForward=False,
    )

    assert [18, 16, 14] == [item["number"] for item in found["Items"]]
    assert Decimal("4.5") == found["Items"][0]["total"]
    assert 60 == table.scan(Select="COUNT")["Count"]
    resource.meta.client.close()
