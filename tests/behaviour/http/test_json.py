"""Two hundred bodies that are wrong: each is refused with an error that DynamoDB documents, soon and cheaply."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldb.model.errors import SerializationError
from foldb.server.api.strict_json import parse
from tests.behaviour.http.wire import peak_bytes, processor_s, resident_bytes, served_by
from tests.support.raw import ask
from tests.support.served import served
from tests.support.tables import table_request

SERIALIZATION, VALIDATION = "SerializationException", "ValidationException"
DEPTHS = (33, 80, 254, 255, 1_000, 1_024, 1_025, 100_000, 1_000_000)
SECONDS_MAX = 5.0
GROWTH_MAX = 700 << 20

# Places for arbitrary text of a client, marked with `@`.
ITEM = '{"TableName":"Cars","Item":{"pk":{"S":"a"},"v":@}}'
FIELDS = {
    "an item": ITEM,
    "a key": '{"TableName":"Cars","Key":{"pk":@}}',
    "values": '{"TableName":"Cars","Key":{"pk":{"S":"a"}},"UpdateExpression":"SET v=:v",'
    '"ExpressionAttributeValues":{":v":@}}',
    "names": '{"TableName":"Cars","Key":{"pk":{"S":"a"}},"ProjectionExpression":"#n",'
    '"ExpressionAttributeNames":{"#n":@}}',
    "a batch": '{"RequestItems":{"Cars":[{"PutRequest":{"Item":{"pk":{"S":"a"},"v":@}}}]}}',
    "a transaction": '{"TransactItems":[{"Put":{"TableName":"Cars","Item":{"pk":{"S":"a"},"v":@}}}]}',
    "a start": '{"TableName":"Cars","ExclusiveStartKey":{"pk":@}}',
    "a condition": '{"TableName":"Cars","Key":{"pk":{"S":"a"}},"Expected":{"v":{"Value":@}}}',
}
OPERATIONS = {
    "an item": "PutItem",
    "a key": "GetItem",
    "values": "UpdateItem",
    "names": "GetItem",
    "a batch": "BatchWriteItem",
    "a transaction": "TransactWriteItems",
    "a start": "Scan",
    "a condition": "DeleteItem",
}


def lists(depth: int) -> str:
    return '{"L":[' * depth + '{"S":"x"}' + "]}" * depth


def maps(depth: int) -> str:
    return '{"M":{"a":' * depth + '{"S":"x"}' + "}}" * depth


def bare(depth: int) -> str:
    return "[" * depth + "]" * depth


def deep() -> Iterator[tuple[str, str, bytes]]:
    for field, text in FIELDS.items():
        for depth in DEPTHS:
            for nested in (lists, maps, bare):
                if depth > 1_025 and (nested is not bare or field in ("a start", "a condition", "a batch")):
                    continue
                yield (
                    f"{field} {depth} {nested.__name__} deep",
                    OPERATIONS[field],
                    text.replace("@", nested(depth)).encode(),
                )


TWICE = {
    "a table": b'{"TableName":"Cars","TableName":"Cars","Item":{"pk":{"S":"a"}}}',
    "a table, first and last": b'{"TableName":"Cars","Item":{"pk":{"S":"a"}},"TableName":"Cars"}',
    "an item": b'{"TableName":"Cars","Item":{"pk":{"S":"a"}},"Item":{"pk":{"S":"b"}}}',
    "an attribute": b'{"TableName":"Cars","Item":{"pk":{"S":"a"},"pk":{"S":"b"}}}',
    "a type": b'{"TableName":"Cars","Item":{"pk":{"S":"a","S":"b"}}}',
    "the same value": b'{"TableName":"Cars","Item":{"pk":{"S":"a","S":"a"}}}',
    "a null and a value": b'{"TableName":"Cars","Item":{"pk":{"S":null,"S":"a"}}}',
    "a member of a map": b'{"TableName":"Cars","Item":{"pk":{"S":"a"},"m":{"M":{"a":{"S":"1"},"a":{"S":"2"}}}}}',
    "deep in a list": b'{"TableName":"Cars","Item":{"pk":{"S":"a"},"l":{"L":[{"M":{"a":{"S":"1"},"a":{"S":"2"}}}]}}}',
    "escaped once": b'{"TableName":"Cars","Item":{"pk":{"S":"a"},"\\u0070k":{"S":"b"}}}',
    "escaped quotes": b'{"TableName":"Cars","Item":{"pk":{"S":"a"},"x\\"":{"S":"b"},"x\\"":{"S":"b"}}}',
    "behind a backslash": b'{"TableName":"Cars","Item":{"pk":{"S":"a"},"x\\\\":{"S":"b"},"x\\\\":{"S":"b"}}}',
    "with spaces": b'{ "TableName" : "Cars" , "Item" : { "pk" : { "S" : "a" } , "pk" : { "S" : "b" } } }',
    "beside a quote by number": b'{"TableName":"Cars","Item":{"pk":{"S":"\\u0022:\\u0022"},"a":{"S":""},"a":{"S":""}}}',
    "beside a number that grows": b'{"TableName":"Cars","Limit":1e99,"Item":{"pk":{"S":"a"}},"Item":{"pk":{"S":"a"}}}',
    "an unknown member": b'{"TableName":"Cars","Item":{"pk":{"S":"a"}},"X":1,"X":2}',
    "an empty name": b'{"TableName":"Cars","Item":{"pk":{"S":"a"}},"":1,"":2}',
}

ODD_TEXTS = {
    "nothing": b"",
    "a space": b" ",
    "half": b'{"TableName":"Cars"',
    "an open string": b'{"TableName":"Cars',
    "null": b"null",
    "true": b"true",
    "a number": b"1",
    "a string": b'"x"',
    "a list": b"[]",
    "a list of an object": b"[{}]",
    "two objects": b"{}{}",
    "an object and more": b"{} x",
    "an object and a NUL": b"{}\0",
    "a NUL and an object": b"\0{}",
    "a NUL within": b'{"TableName":\0"Cars"}',
    "a NUL in a string": b'{"TableName":"Ca\0rs"}',
    "a byte order mark": b'\xef\xbb\xbf{"TableName":"Cars"}',
    "UTF-16": '{"TableName":"Cars"}'.encode("utf-16"),
    "UTF-16 without a mark": '{"TableName":"Cars"}'.encode("utf-16-le"),
    "UTF-32": '{"TableName":"Cars"}'.encode("utf-32"),
    "Latin-1": '{"TableName":"C\u00e4rs"}'.encode("latin-1"),
    "an overlong slash": b'{"TableName":"\xc0\xaf"}',
    "a surrogate in UTF-8": b'{"TableName":"\xed\xa0\x80"}',
    "a surrogate pair in UTF-8": b'{"TableName":"\xed\xa0\xbd\xed\xb8\x80"}',
    "half a character": b'{"TableName":"\xe2\x82"}',
    "beyond Unicode": b'{"TableName":"\xf5\x80\x80\x80"}',
    "0xFF": b'{"TableName":"\xff"}',
    "a high surrogate": b'{"TableName":"\\ud800"}',
    "a low surrogate": b'{"TableName":"\\udc00"}',
    "surrogates the wrong way round": b'{"TableName":"\\udc00\\ud800"}',
    "a high surrogate and a letter": b'{"TableName":"\\ud800a"}',
    "a surrogate as a name": b'{"\\ud800":1}',
    "a bad escape": b'{"TableName":"\\x41"}',
    "a short escape": b'{"TableName":"\\u41"}',
    "a line in a string": b'{"TableName":"a\nb"}',
    "a tab in a string": b'{"TableName":"a\tb"}',
    "single quotes": b"{'TableName':'Cars'}",
    "bare names": b"{TableName:1}",
    "a comma too many": b'{"TableName":"Cars",}',
    "a comma too few": b'{"TableName":"Cars" "Limit":1}',
    "a colon too few": b'{"TableName" "Cars"}',
    "a comment": b'{"TableName":"Cars"/* x */}',
    "another comment": b'{"TableName":"Cars"} // x',
    "a form": b"TableName=Cars",
    "XML": b"<TableName>Cars</TableName>",
    "a million brackets": b"[" * 1_000_000,
    "a million objects": b'{"a":' * 1_000_000,
    "a million quotes": b'"' * 1_000_000,
    "a million backslashes": b'{"a":"' + b"\\" * 1_000_000,
    "sixteen mebibytes of spaces": b" " * (16 << 20),
}

NO_NUMBERS = (
    "NaN", "-NaN", "nan", "Infinity", "-Infinity", "inf", "1e400", "-1e400", "1" + "0" * 5_000, "01", "+1", "1.", ".1",
    "1e", "0x1", "1_000", "1,000", "\u0661", "--1", "1e+", "--", "\u221e", "undefined", "1f", "1L",
)  # fmt: skip

# In a JSON string, as DynamoDB's numbers are.
NO_DECIMALS = (
    "", " ", "NaN", "Infinity", "-Infinity", "1e400", "1" * 39, "1" * 5_000, "0." + "1" * 39, "1e126", "1e-131",
    "1e999999999", "1e-999999999", "\u0661", "\uff11", "0x1", "1_0", "1,0", "+", "-", ".", "e1", "1e", "1e+", "1 ",
    " 1", "1\\u0000", "--1", "1..1", "1e1e1", "\\ud83d\\ude00", "1" + "0" * 5_000, "9" * 38 + "e126",
    "1e99999999999999999999",
)  # fmt: skip


def wrong() -> Iterator[tuple[str, str, bytes]]:
    yield from deep()
    for name, body in TWICE.items():
        yield f"{name} twice", "PutItem", body
    for name, body in ODD_TEXTS.items():
        yield name, "PutItem", body
    for number in NO_NUMBERS:
        yield f"the number {number[:20]}", "Scan", b'{"TableName":"Cars","Limit":%b}' % number.encode()
    for number in NO_DECIMALS:
        yield f"the decimal {number[:20]}", "PutItem", ITEM.replace("@", f'{{"N":"{number}"}}').encode()
    for number in NO_DECIMALS[:12]:
        yield f"the set {number[:20]}", "PutItem", ITEM.replace("@", f'{{"NS":["{number}"]}}').encode()
    many = ",".join(f'"a{n}":{{"S":"x"}}' for n in range(700_000))
    yield "700,000 attributes", "PutItem", ITEM.replace("@", f'{{"M":{{{many}}}}}').encode()
    many = ",".join(f'"a{n}":1' for n in range(1_000_000))
    yield "1,000,000 unknown members", "PutItem", b"{%b}" % many.encode()
    many = ",".join(f'":a{n}":{{"S":""}}' for n in range(600_000))
    values = '{"TableName":"Cars","Key":{"pk":{"S":"a"}},"ConditionExpression":"a=:a1","ExpressionAttributeValues":{@}}'
    yield "600,000 values", "DeleteItem", values.replace("@", many).encode()
    yield "a million lists", "PutItem", ITEM.replace("@", '{"L":[' + "[]," * 1_000_000 + "[]]}").encode()
    yield (
        "a million nulls",
        "PutItem",
        ITEM.replace("@", '{"L":[' + '{"NULL":true},' * 1_000_000 + '{"S":1}]}').encode(),
    )
    yield (
        "a set of a million",
        "PutItem",
        ITEM.replace("@", '{"SS":["a"' + ',"a"' * 1_000_000 + "]}").encode(),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("json")


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with served(folder) as url:
        assert 200 == ask(url, "CreateTable", table_request("Cars", "pk:S")).status
        yield url


@pytest.mark.guarantee("SEC15")
def test_a_hostile_request_is_refused_like_dynamodb_and_in_time(url: str, folder: Path) -> None:
    pid = served_by(folder)
    before = resident_bytes(pid)
    cases = list(wrong())
    found: list[str] = []
    for name, operation, body in cases:
        begun = processor_s(pid)
        answer = ask(url, operation, body)
        took = processor_s(pid) - begun
        kind = answer.body["__type"].rpartition("#")[2] if answer.status != 200 else "nothing"
        if answer.status != 400 or kind not in (SERIALIZATION, VALIDATION) or took > SECONDS_MAX:
            found.append(f"{name}: {answer.status} {kind} after {took:.1f} s")
        if len(answer.data) > 4096:
            found.append(f"{name}: an answer of {len(answer.data)} bytes")

    assert [] == found
    assert len(cases) >= 200
    assert peak_bytes(pid) - before < GROWTH_MAX


@pytest.mark.guarantee("SEC15")
@pytest.mark.parametrize("name", TWICE)
def test_a_member_named_twice_is_no_json_of_ours(name: str) -> None:
    with pytest.raises(SerializationError):
        parse(TWICE[name])


@pytest.mark.parametrize("depth", [0, 1, 31])
@pytest.mark.parametrize("nested", [lists, maps])
def test_thirty_two_levels_are_stored(url: str, depth: int, nested: Any) -> None:
    assert 200 == ask(url, "PutItem", ITEM.replace("@", nested(depth)).encode()).status


trees = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
)
objects = st.dictionaries(st.text(max_size=4), trees, max_size=4)


@given(objects, st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t: ")]), st.booleans())
def test_json_without_duplicates_is_read_in_any_spelling(
    body: dict[str, Any], separators: tuple[str, str], is_ascii: bool
) -> None:
    assert body == parse(json.dumps(body, separators=separators, ensure_ascii=is_ascii).encode())


@given(objects.filter(bool), st.randoms(use_true_random=False), st.booleans())
def test_a_member_named_twice_is_found_wherever_it_is(
    body: dict[str, Any], dice: random.Random, is_ascii: bool
) -> None:
    """Every object is written as its members; one of them, somewhere, has a member more."""
    places: list[dict[str, Any]] = []

    def collect(value: Any) -> None:
        if isinstance(value, dict):
            if value:
                places.append(value)
            for inner in value.values():
                collect(inner)
        elif isinstance(value, list):
            for inner in value:
                collect(inner)

    collect(body)
    chosen = dice.choice(places)

    def written(value: Any) -> str:
        if isinstance(value, dict):
            members = [
                (json.dumps(name, ensure_ascii=is_ascii), written(inner)) for name, inner in value.items()
            ]
            if value is chosen:
                members.insert(dice.randrange(len(members) + 1), (dice.choice(members)[0], "0"))
            return "{" + ", ".join(f"{name}:{inner}" for name, inner in members) + "}"
        if isinstance(value, list):
            return "[" + ",".join(map(written, value)) + "]"
        return json.dumps(value, ensure_ascii=is_ascii)

    with pytest.raises(SerializationError):
        parse(written(body).encode())
