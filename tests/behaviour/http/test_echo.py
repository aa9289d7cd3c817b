"""The parts of a request that an answer may quote: at most 256 bytes, in messages of DynamoDB that quote it."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

import foldb
from foldb.model import service
from tests.support.raw import SIGNED, Answer, ask, send
from tests.support.tables import table_request

ECHO_MAX = 256
ANSWER_MAX = 4096
MARK = "Zq7"  # in no message of ours


def long(start: str = "", size: int = 4000) -> str:
    return start + MARK * (size // len(MARK))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with foldb.serve() as server:
        request = table_request("Cars", "pk:S", "sk:N", gsi={"by-x": "x:S"}) | {"StreamSpecification": None}
        assert 200 == ask(server.endpoint_url, "CreateTable", request).status
        yield server.endpoint_url


def echoed(answer: Answer) -> int:
    """The longest stretch of the mark in an answer."""
    text = answer.data.decode("latin-1")
    best = 0
    for is_mark, run in itertools.groupby(text.replace(MARK, "\0"), lambda letter: letter == "\0"):
        if is_mark:
            best = max(best, len(MARK) * len(list(run)))
    return best


def strings(shape_name: str, depth: int = 0) -> Iterator[Any]:
    """Values of a shape in which one string, somewhere, is far too long."""
    if shape_name == "AttributeValue":
        yield from ATTRIBUTE_VALUES
        return
    shape = service._SHAPES[shape_name]
    if depth > 4:
        return
    match shape["type"]:
        case "string":
            yield long()
            yield long(size=300)
        case "structure":
            for name, kind in shape["members"].items():
                for value in strings(kind, depth + 1):
                    yield filled(shape_name) | {name: value}
        case "list":
            for value in strings(shape["member"], depth + 1):
                yield [value]
                yield [value, value]
        case "map":
            for value in strings(shape["value"], depth + 1):
                yield {"#a": value}
            yield {long("#"): "x"}
        case _:
            yield long()


ATTRIBUTE_VALUES: list[Any] = [
    {"S": long(size=3000)},
    {"N": long(size=3000)},
    {"N": "1" * 3000 + long(size=300)},
    {"B": long(size=2999)},
    {"SS": [long(), long()]},
    {"SS": [MARK] * 1000},
    {"NS": [long(), "1"]},
    {"NS": [long(size=300)] * 100},
    {"BS": ["Zq7Z"] * 1000},
    {"BS": [long(size=2999)]},
    {long(): "x"},
    {"S": "x", long(): "x"},
    {"M": {long(size=70_000): {"S": "x"}}},
    {"L": [long()]},
    {"BOOL": long()},
    {"NULL": long()},
    long(),
]


def filled(shape_name: str) -> dict[str, Any]:
    """The required members of a structure, so that the check reaches the member that is too long."""
    shape = service._SHAPES[shape_name]
    return {name: simple(shape["members"][name]) for name in shape.get("required", ())}


def simple(shape_name: str) -> Any:
    if shape_name == "TableArn":
        return "Cars"
    shape = service._SHAPES.get(shape_name, {"type": "map"})
    if "enum" in shape:
        return shape["enum"][0]
    kinds: dict[str, Any] = {"string": "pk", "list": [], "map": {}, "boolean": True}
    kinds |= {"integer": 1, "long": 1, "double": 1.5}
    return filled(shape_name) if shape["type"] == "structure" else kinds[shape["type"]]


KEY = {"pk": {"S": "a"}, "sk": {"N": "1"}}
EXPRESSIONS = [
    long(),
    long("#"),
    long(":"),
    long() + " = :v",
    long("#") + " = :v",
    "a = " + long(":"),
    "a = :v AND " + long() + "(a)",
    "size(" + long() + ") = :v",
    long() + "[99999999999999999999]",
    "a." * 40 + long(),
    "(" * 400 + long(),
    "a = :v " + long(),
    "SET " + long(),
    "SET " + long() + " = :v, " + long() + " = :v",
    "SET a = " + long("#"),
    "SET a = " + long() + "(:v)",
    "REMOVE " + long() + ", " + long(),
    "ADD " + long() + " " + long(":"),
    long() + " a = :v",
    "a, " + long() + ", " + long(),
    "'" + long(),
    '"' + long(),
    "a IN (" + long(":") + ")",
    "select." + long(),
    "pk = " + long(":"),
    "pk = :v AND " + long() + " = :v",
]
PLACES = {
    "GetItem": ["ProjectionExpression"],
    "PutItem": ["ConditionExpression"],
    "DeleteItem": ["ConditionExpression"],
    "UpdateItem": ["UpdateExpression", "ConditionExpression"],
    "Query": ["KeyConditionExpression", "FilterExpression", "ProjectionExpression"],
    "Scan": ["FilterExpression", "ProjectionExpression"],
}


def requests() -> Iterator[tuple[str, Any]]:
    for operation, shape in service._INPUTS.items():
        for body in strings(shape):
            yield operation, body
        yield operation, {long(): 1}
        yield operation, long()
    for operation, places in PLACES.items():
        start = {"TableName": "Cars", "Key": KEY, "Item": KEY}
        start = {
            name: value
            for name, value in start.items()
            if name in service._SHAPES[service._INPUTS[operation]]["members"]
        }
        if operation == "Query":
            start |= {"KeyConditionExpression": "pk = :v"}
        for place, expression in itertools.product(places, EXPRESSIONS):
            yield operation, start | {place: expression, "ExpressionAttributeValues": {":v": {"S": "a"}}}
            yield operation, start | {place: expression}
        for names in ({long("#"): "a"}, {"#a": long()}, {"#a": long(size=70_000)}, {long(): "a"}):
            yield operation, start | {places[0]: "#b = :v", "ExpressionAttributeNames": names}
        for values in (
            {long(":"): {"S": "a"}},
            {long(): {"S": "a"}},
            *({":v": value} for value in ATTRIBUTE_VALUES),
        ):
            yield operation, start | {places[0]: "a = :v", "ExpressionAttributeValues": values}
        for value in ATTRIBUTE_VALUES:
            yield operation, start | {"Key": {"pk": value, "sk": {"N": "1"}}}
            yield operation, start | {"Item": {"pk": {"S": "a"}, "sk": value}}
            yield operation, start | {"ExclusiveStartKey": {"pk": value}}
            yield operation, start | {"Item": KEY | {"x": value}}
    yield "PutItem", {"TableName": "Cars", "Item": KEY | {long(size=70_000): {"S": "x"}}}
    yield "GetItem", {"TableName": "Cars", "Key": KEY | {long(): {"S": "x"}}}


@pytest.mark.guarantee("SEC18")
def test_no_error_repeats_more_than_256_bytes_of_its_request(url: str) -> None:
    found: dict[tuple[str, str], str] = {}
    seen = 0
    for operation, body in requests():
        answer = ask(url, operation, body)
        assert answer.status in (200, 400), (operation, answer.data[:300])
        if answer.status == 200:
            continue
        seen += 1
        message = str(answer.body.get("message") or answer.body.get("Message") or "")
        if echoed(answer) > ECHO_MAX or len(answer.data) > ANSWER_MAX:
            plain = message.replace(MARK, "")[:90]
            found.setdefault(
                (answer.body["__type"], plain), f"{operation} {json.dumps(body)[:150]} {len(answer.data)}"
            )

    assert {} == found
    assert seen > 500


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Authorization", long("AWS4-HMAC-SHA256 ", 8000)),
        ("Authorization", long("Basic ", 8000)),
        ("X-Amz-Target", long("DynamoDB_20120810.", 8000)),
        ("X-Amz-Target", long("", 8000)),
        ("Content-Type", long("application/", 8000)),
        ("Content-Encoding", long("", 8000)),
        ("Host", long("", 8000)),
        ("Origin", long("http://", 8000)),
        ("amz-sdk-invocation-id", long("", 8000)),
        ("Transfer-Encoding", long("", 8000)),
        ("Content-Length", long("", 8000)),
        ("Expect", long("", 8000)),
        (long("X-", 8000), "1"),
    ],
)
def test_no_field_of_a_head_is_repeated_either(url: str, name: str, value: str) -> None:
    fields = {
        "X-Amz-Target": "DynamoDB_20120810.GetItem",
        "Content-Type": "application/x-amz-json-1.0",
        "Authorization": SIGNED,
    }
    answer = send(url, "POST", "/", b"{}", fields | {name: value})

    assert echoed(answer) <= ECHO_MAX
    assert len(answer.data) + len(str(answer.headers)) <= ANSWER_MAX


@pytest.mark.interpreted
@pytest.mark.meets_bug
@pytest.mark.guarantee("SEC18")
def test_a_bug_is_answered_without_a_word_of_where(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of the process has the traceback; the client has the number by which it is found there."""
    monkeypatch.setattr(service, "validate", None)
    answer = ask(url, "GetItem", {"TableName": "Cars", "Key": {"pk": {"S": MARK}}})

    assert 500 == answer.status
    assert MARK.encode() not in answer.data
    assert "InternalServerError" == answer.body["__type"].rpartition("#")[2]
    for leak in (b"Traceback", b"File ", b".py", b"/", b"line ", b"NoneType"):
        assert leak not in answer.data.replace(b"com.amazonaws.dynamodb.v20120810#", b"")
    assert answer.headers["x-amzn-RequestId"]
