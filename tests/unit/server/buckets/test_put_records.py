"""The records of bulk operations."""

import io
from typing import Any

import pytest

from foldb.server.buckets.item_files import ItemFormat, MalformedRecord
from foldb.server.buckets.put_records import PutRecord, read_puts

CONDITION = {
    "ConditionExpression": "#a = :a",
    "ExpressionAttributeNames": {"#a": "a"},
    "ExpressionAttributeValues": {":a": {"S": "x"}},
}


def read(line: bytes, file_format: ItemFormat) -> Any:
    [record] = read_puts(io.BytesIO(line), file_format)
    return record


@pytest.mark.parametrize(
    ("file_format", "line"),
    [
        (
            "DYNAMODB_JSON",
            b'{"Item":{"p":{"N":"1.0"}},"ConditionExpression":"#a = :a","ExpressionAttributeNames":{"#a":"a"},'
            b'"ExpressionAttributeValues":{":a":{"S":"x"}}}',
        ),
        (
            "ION",
            b'{Item:{p:1.0},ConditionExpression:"#a = :a",ExpressionAttributeNames:{\'#a\':"a"},'
            b"ExpressionAttributeValues:{':a':\"x\"}}",
        ),
    ],
)
def test_a_record_has_an_item_and_its_condition(file_format: ItemFormat, line: bytes) -> None:
    assert PutRecord({"p": {"N": "1"}}, CONDITION) == read(line, file_format)


@pytest.mark.parametrize(
    ("file_format", "line"),
    [
        *(
            ("DYNAMODB_JSON", line)
            for line in (
                b'{"Item":"x"}',
                b"[]",
                b"null",
                b'{"Item":{"a":1}}',
                b'{"Item":{},"ConditionExpression":1}',
                b'{"Item":{},"ExpressionAttributeNames":{"#a":1}}',
                b'{"Item":{},"ExpressionAttributeValues":[1]}',
                b'{"Item":{},"Expected":{}}',
                b"{}",
                b"\xff",
            )
        ),
        *(
            ("ION", line)
            for line in (
                b'{Item:"x"}',
                b"[]",
                b"{Item:{},ConditionExpression:1}",
                b"{Item:{},ExpressionAttributeNames:{a:1}}",
                b"{Item:{},ExpressionAttributeValues:[1]}",
                b"{Item:{},Expected:{}}",
                b"\xff",
            )
        ),
    ],
)
def test_another_record_is_malformed(file_format: ItemFormat, line: bytes) -> None:
    assert isinstance(read(line, file_format), MalformedRecord)
