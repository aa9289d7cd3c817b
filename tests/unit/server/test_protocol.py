"""HTTP as it comes over a socket: in pieces, one after the other, wrong."""

import gzip
import json
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.behaviour.http.wire import Wire, chunked, head, request
from tests.support.tables import MakeTable

MIB = 1024 * 1024


@pytest.fixture
def wire(endpoint: str) -> Iterator[Wire]:
    wire = Wire(endpoint)
    yield wire
    wire.close()


def test_a_request_may_come_byte_by_byte(wire: Wire) -> None:
    wire.send(*(bytes([byte]) for byte in request()))

    assert 200 == wire.answer()[0]


@pytest.mark.parametrize("cut", range(0, 300, 23))
def test_a_request_may_be_cut_anywhere(wire: Wire, cut: int) -> None:
    whole = request(body={"Limit": 1}) + request(body={"Limit": 2})
    wire.send(whole[:cut], whole[cut:])

    assert [200, 200] == [wire.answer()[0], wire.answer()[0]]


def test_pipelined_requests_are_answered_in_order(wire: Wire, make_table: MakeTable) -> None:
    """
    The reads are answered at once and the writes when they are durable, so answers given as they are ready
    would come in another order, and the reads would miss the writes before them.
    """
    table = make_table("pk:S").name
    requests = []
    for n in range(10):
        item = {"pk": {"S": "a"}, "n": {"N": str(n)}}
        requests.append(request("PutItem", {"TableName": table, "Item": item}))
        requests.append(request("GetItem", {"TableName": table, "Key": {"pk": {"S": "a"}}}))
    wire.send(b"".join(requests))
    bodies = [json.loads(wire.answer()[2]) for _ in requests]

    assert [str(n) for n in range(10)] == [body["Item"]["n"]["N"] for body in bodies[1::2]]


def test_a_slow_reader_gets_a_long_answer_whole(endpoint: str, make_table: MakeTable) -> None:
    table = make_table("pk:S")
    notes = [character * 300_000 for character in "abc"]
    for note in notes:
        table.put_item(Item={"pk": note[0], "note": note})
    with Wire(endpoint, receive_bytes=4096) as slow:
        slow.send(request("Scan", {"TableName": table.name}), request("ListTables"))
        status, fields, body = slow.answer()
        following = slow.answer()[0]

    assert (200, 200) == (status, following)
    assert zlib.crc32(body) == int(fields["x-amz-crc32"])
    assert notes == sorted(item["note"]["S"] for item in json.loads(body)["Items"])


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_body_may_come_in_chunks(wire: Wire, size: int) -> None:
    body = b'{"Limit":1}'
    wire.send(head("ListTables", "Transfer-Encoding: chunked"), chunked(body, size), request())

    assert [200, 200] == [wire.answer()[0], wire.answer()[0]]


def test_chunks_may_be_split_and_have_extensions_and_trailers(wire: Wire) -> None:
    body = b'5;name=value\r\n{"Lim\r\n06\r\nit":1}\r\n0\r\nX-Sum: 1\r\n\r\n'
    wire.send(head("ListTables", "Transfer-Encoding: chunked"), *(bytes([byte]) for byte in body))

    assert 200 == wire.answer()[0]


@pytest.mark.parametrize(
    "body",
    [
        b"x\r\n",
        b"-1\r\n",
        b"0x2\r\n{}\r\n",
        b"2\n{}\r\n",
        b"2\r\n{}0\r\n\r\n",
        b"\r\n",
        b"11111111111111111\r\n",
    ],
)
def test_a_malformed_chunk_ends_the_connection(wire: Wire, body: bytes) -> None:
    wire.send(head("ListTables", "Transfer-Encoding: chunked"), body)

    assert 400 == wire.answer()[0]
    assert wire.is_closed()


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        (400, ["Host: elsewhere"]),
        (400, ["host: localhost"]),
        (400, ["Content-Length: 2", "Content-Length: 2"]),
        (400, ["Content-Length: 2, 2"]),
        (400, ["Content-Length: +2"]),
        (400, ["Content-Length: 0x2"]),
        (400, ["Content-Length: 2", "Transfer-Encoding: chunked"]),
        (400, ["Transfer-Encoding: gzip, chunked"]),
        (400, ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"]),
        (400, ["Transfer-Encoding: identity"]),
        (400, ["Authorization: another"]),
        (400, ["X-A : 1"]),
        (400, ["X-A: 1", " folded"]),
        (400, ["X-A: 1\nX-B: 2"]),
        (400, ["X-A: \0"]),
        (400, ["no colon"]),
        (431, [f"X-{n}: 1" for n in range(65)]),
        (431, ["X-A: " + "x" * 17_000]),
    ],
)
def test_an_ambiguous_or_malformed_head_ends_the_connection(
    wire: Wire, status: int, fields: list[str]
) -> None:
    """A request that a proxy in front of the server could parse differently must be refused."""
    wire.send(head("ListTables", *fields))

    assert status == wire.answer()[0]
    assert wire.is_closed()


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (505, b"POST / HTTP/2.0"),
        (505, b"POST / HTTP/0.9"),
        (505, b"POST /"),
        (400, b"\x16\x03\x01"),
        (400, b"FOO / HTTP/1.1"),
    ],
)
def test_another_protocol_is_refused(wire: Wire, status: int, line: bytes) -> None:
    wire.send(line + b"\r\nHost: localhost\r\n\r\n")

    assert status == wire.answer()[0]
    assert wire.is_closed()


def test_a_head_without_end_is_refused_at_16_kib(wire: Wire) -> None:
    wire.send(b"POST / HTTP/1.1\r\nX-A: " + b"x" * 16 * 1024)

    assert 431 == wire.answer()[0]


def test_a_body_over_16_mib_is_refused_before_it_is_read(wire: Wire) -> None:
    wire.send(head("PutItem", f"Content-Length: {16 * MIB + 1}"))

    assert 413 == wire.answer()[0]
    assert wire.is_closed()


def test_a_client_with_too_large_a_body_can_read_the_refusal(wire: Wire) -> None:
    wire.send(head("PutItem", f"Content-Length: {17 * MIB}"), b"x" * 17 * MIB)

    assert 413 == wire.answer()[0]


@pytest.mark.guarantee("SEC14")
def test_chunks_are_counted_as_they_come(wire: Wire) -> None:
    wire.send(head("PutItem", "Transfer-Encoding: chunked"), b"%x\r\n" % (16 * MIB + 1))

    assert 413 == wire.answer()[0]


@pytest.mark.parametrize(
    ("status", "coding", "body"),
    [
        (413, "gzip", gzip.compress(b" " * 20 * MIB, mtime=0)),
        (400, "gzip", gzip.compress(b"{}", mtime=0)[:-4]),
        (400, "gzip", gzip.compress(b"{}", mtime=0) + b"more"),
        (400, "gzip", b"{}"),
        (415, "br", b"{}"),
        (415, "gzip, gzip", gzip.compress(gzip.compress(b"{}", mtime=0), mtime=0)),
    ],
)
def test_malformed_gzip_ends_the_connection(wire: Wire, status: int, coding: str, body: bytes) -> None:
    wire.send(request("ListTables", body, f"Content-Encoding: {coding}"))

    assert status == wire.answer()[0]
    assert wire.is_closed()


def test_expect_100_continue_is_answered_with_100(wire: Wire) -> None:
    wire.send(head("ListTables", "Content-Length: 2", "Expect: 100-continue"))
    asked = wire.answer()[0]
    wire.send(b"{}")

    assert [100, 200] == [asked, wire.answer()[0]]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 200), ("HEAD", "/", 200), ("GET", "/x", 404), ("OPTIONS", "/", 404), ("PUT", "/", 404)],
)
def test_other_methods_do_no_harm(wire: Wire, method: str, path: str, status: int) -> None:
    wire.send(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    assert str(status).encode() == wire.line().split()[1]


def test_head_has_the_length_of_the_omitted_body(wire: Wire) -> None:
    for method in ("HEAD", "GET"):
        wire.send(f"{method} / HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    lines = [wire.line() for _ in range(5)]
    _, _, body = wire.answer()

    assert b"healthy" == body[:7]
    assert f"Content-Length: {len(body)}".encode() == lines[3]
    assert b"" == lines[4]


@pytest.mark.guarantee("SEC13")
@pytest.mark.parametrize("path", ["//", "/../x", "/..", "/?q", "/?", "/#", "/%2F", "/.", "/x/", "*"])
def test_the_api_is_at_one_path_alone(wire: Wire, path: str) -> None:
    """A proxy in front may guard `/`, and reads other paths in its own way."""
    wire.send(request().replace(b"POST / ", f"POST {path} ".encode()))
    wire.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    assert [404, 404] == [wire.answer()[0], wire.answer()[0]]


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_connection_closes_when_the_client_is_done(wire: Wire, version: str) -> None:
    closing = request("ListTables", {}, "Connection: close").replace(b"HTTP/1.1", f"HTTP/{version}".encode())
    wire.send(closing)
    status, fields, _ = wire.answer()

    assert (200, "close") == (status, fields["connection"])
    assert wire.is_closed()


@pytest.mark.parametrize(
    "first",
    ["GET / HTTP/1.1", "GET /none HTTP/1.1", "HEAD / HTTP/1.1", "OPTIONS / HTTP/1.1", "POST / HTTP/1.1"],
)
@pytest.mark.parametrize(
    "fields", ["Connection: close", "Connection: TE, Close", "Connection: close\r\nConnection: TE"]
)
def test_a_request_without_a_body_may_close_too(wire: Wire, first: str, fields: str) -> None:
    wire.send(f"{first}\r\nHost: localhost\r\n{fields}\r\n\r\n".encode())
    answer = wire.rest()

    assert b"\r\nConnection: close\r\n" in answer


def test_a_parse_error_of_the_api_closes_too(wire: Wire) -> None:
    wire.send(request("ListTables", b"{", "Connection: close"))
    status, fields, _ = wire.answer()

    assert (400, "close") == (status, fields["connection"])
    assert wire.is_closed()


@pytest.mark.parametrize(
    "fields", ["Connection: keep-alive", "Connection: TE", "Connection: closed", "X: close"]
)
def test_http_1_1_stays_open_without_connection_close(wire: Wire, fields: str) -> None:
    for _ in range(2):
        wire.send(f"GET / HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n\r\n".encode())

        assert 200 == wire.answer()[0]


@pytest.mark.parametrize("fields", ["X: 1", "Connection: keep-alive"])
@pytest.mark.parametrize("body", [None, {}])
def test_http_1_0_closes_after_one_answer(wire: Wire, fields: str, body: object) -> None:
    """Its keep-alive is an extension; a server that does not offer it says so by `Connection: close`."""
    whole = f"GET / HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n\r\n".encode()
    if body is not None:
        whole = request("ListTables", body, fields)
    wire.send(whole.replace(b"HTTP/1.1", b"HTTP/1.0"))
    status, answered, _ = wire.answer()

    assert (200, "close") == (status, answered["connection"])
    assert wire.is_closed()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS"])
def test_an_unknown_method_gets_dynamodbs_page(wire: Wire, method: str) -> None:
    wire.send(f"{method} / HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    status, fields, body = wire.answer()

    assert (404, b"<UnknownOperationException/>\n") == (status, body)
    assert "3552371480" == fields["x-amz-crc32"]
    assert fields["x-amzn-requestid"]


@pytest.mark.parametrize(
    ("fields", "body", "error"),
    [
        ("X: 1", "hi", "SerializationException"),
        ("X-Amz-Target: whatever", "hi", "SerializationException"),
        ("X: 1", "", "UnknownOperationException"),
        ("X-Amz-Target: DynamoDB_20120810.ListTable", "{}", "UnknownOperationException"),
        ("X-Amz-Target: DynamoDB_20120810.ListTables", "", "MissingAuthenticationTokenException"),
        ("X-Amz-Target: DynamoDB_20120810.ListTables", "{}", "MissingAuthenticationTokenException"),
    ],
)
def test_body_and_operation_come_before_a_missing_signature(
    wire: Wire, fields: str, body: str, error: str
) -> None:
    kind = "Content-Type: application/json\r\n" if body else ""
    lines = f"POST / HTTP/1.1\r\nHost: localhost\r\n{kind}{fields}\r\nContent-Length: {len(body)}\r\n\r\n"
    wire.send(f"{lines}{body}".encode())
    status, answered, answer = wire.answer()

    assert (400, "application/json") == (status, answered["content-type"])
    assert json.loads(answer)["__type"].endswith(f"#{error}")


def test_the_answer_has_the_content_type_of_the_request(wire: Wire) -> None:
    for kind in ("application/json", "application/x-amz-json-1.0", "Application/JSON; charset=utf-8"):
        wire.send(request("ListTables", {}, f"Content-Type: {kind}"))
    kinds = [wire.answer()[1]["content-type"] for _ in range(3)]

    assert ["application/json", "application/x-amz-json-1.0", "application/x-amz-json-1.0"] == kinds


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("PutItem", {"Item": {"a": {"S": 5}}}),
        ("PutItem", {"TableName": "abc", "Item": {"a": {"N": "x"}, "b": {"L": [{"M": {"c": {"BOOL": 1}}}]}}}),
        ("GetItem", {"TableName": "", "Key": {"a": {"SS": ["b", 1]}}}),
        ("Query", {"ExpressionAttributeValues": {":a": {"B": "YQ"}}}),
        ("BatchWriteItem", {"RequestItems": {"no!": [{"PutRequest": {"Item": {"a": {"BS": "YQ=="}}}}]}}),
        ("TransactWriteItems", {"TransactItems": [{}, {"Delete": {"TableName": "abc", "Key": {"a": 1}}}]}),
    ],
)
def test_a_wrong_json_type_in_a_value_comes_first(wire: Wire, operation: str, body: dict[str, Any]) -> None:
    wire.send(request(operation, body))
    status, _, answer = wire.answer()

    assert 400 == status
    assert json.loads(answer)["__type"].endswith("#SerializationException")


def test_the_error_names_the_missing_part_of_an_authorization(wire: Wire) -> None:
    wire.send(request().replace(b"Credential=", b"Nothing="))
    status, _, body = wire.answer()

    assert 400 == status
    assert "IncompleteSignatureException" in json.loads(body)["__type"]
    assert "'Credential'" in json.loads(body)["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b'{"a":NaN}', b'{"a":"\xff"}', b"[" * 5000])
def test_a_body_that_is_no_json_object_is_a_serialization_error(wire: Wire, body: bytes) -> None:
    wire.send(request("ListTables", body))
    status, _, answer = wire.answer()

    assert 400 == status
    assert json.loads(answer)["__type"].endswith("#SerializationException")
