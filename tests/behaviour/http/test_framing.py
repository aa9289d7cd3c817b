"""The framing of requests: an ambiguous request is refused, and its connection closed.

A proxy and the server must agree on the end of each request. Otherwise a part of a body would reach the server as a
request that the proxy did not check. Each case ends with a complete request, which is not answered if the case is
refused.
"""

import pytest

from tests.behaviour.http.wire import Wire, chunked, head, request

NEXT = request()

GOOD_CHUNKS = chunked(b"{}", 1)


def plain(*lines: bytes) -> bytes:
    return b"\r\n".join((*lines, b"", b""))


def chunks(body: bytes, *fields: str) -> bytes:
    return head("ListTables", "Transfer-Encoding: chunked", *fields) + body


def fields(*lines: bytes) -> bytes:
    """A whole request with these lines among its fields."""
    start, _, rest = request().partition(b"\r\n")
    return b"\r\n".join((start, *lines, rest))


REFUSED: dict[str, tuple[int, bytes]] = {
    # Two lengths
    "a length and chunks": (400, chunks(GOOD_CHUNKS, "Content-Length: 2")),
    "chunks and a length": (400, head("ListTables", "Content-Length: 2", "Transfer-Encoding: chunked") + GOOD_CHUNKS),
    "a length of none and chunks": (400, chunks(GOOD_CHUNKS, "Content-Length: 0")),
    "two lengths": (400, head("ListTables", "Content-Length: 2", "Content-Length: 3") + b"{}"),
    "twice the same length": (400, head("ListTables", "Content-Length: 2", "Content-Length: 2") + b"{}"),
    "twice, in another case": (400, head("ListTables", "Content-Length: 2", "CONTENT-LENGTH: 2") + b"{}"),
    "two lengths in one": (400, head("ListTables", "Content-Length: 2, 2") + b"{}"),
    "a list of other lengths": (400, head("ListTables", "Content-Length: 2,3") + b"{}"),
    # No length
    "a length with a sign": (400, head("ListTables", "Content-Length: +2") + b"{}"),
    "a length below none": (400, head("ListTables", "Content-Length: -2") + b"{}"),
    "a length of minus none": (400, head("ListTables", "Content-Length: -0") + b"{}"),
    "a hexadecimal length": (400, head("ListTables", "Content-Length: 0x2") + b"{}"),
    "a length in words": (400, head("ListTables", "Content-Length: two") + b"{}"),
    "a fraction": (400, head("ListTables", "Content-Length: 2.0") + b"{}"),
    "an exponent": (400, head("ListTables", "Content-Length: 2e0") + b"{}"),
    "a length with an underscore": (400, head("ListTables", "Content-Length: 0_2") + b"{}"),
    "a length with a space inside": (400, head("ListTables", "Content-Length: 2 2") + b"{}"),
    "other digits": (400, head("ListTables", "Content-Length: \u0662") + b"{}"),
    "an empty length": (400, head("ListTables", "Content-Length:") + b"{}"),
    "a length past 64 bits": (400, head("ListTables", f"Content-Length: {1 << 64}") + b"{}"),
    "a length far past 64 bits": (400, head("ListTables", "Content-Length: " + "9" * 5000) + b"{}"),
    "a length past the bound": (413, head("ListTables", f"Content-Length: {1 << 62}") + b"{}"),
    # Codings
    "another coding": (400, head("ListTables", "Transfer-Encoding: gzip") + GOOD_CHUNKS),
    "chunks of another coding": (400, head("ListTables", "Transfer-Encoding: gzip, chunked") + GOOD_CHUNKS),
    "a coding of chunks": (400, head("ListTables", "Transfer-Encoding: chunked, gzip") + GOOD_CHUNKS),
    "chunks of chunks": (400, head("ListTables", "Transfer-Encoding: chunked, chunked") + GOOD_CHUNKS),
    "chunked twice": (400, chunks(GOOD_CHUNKS, "Transfer-Encoding: chunked")),
    "chunked, then not": (400, chunks(GOOD_CHUNKS, "Transfer-Encoding: identity")),
    "no coding": (400, head("ListTables", "Transfer-Encoding: identity") + b"{}"),
    "an empty coding": (400, head("ListTables", "Transfer-Encoding:") + GOOD_CHUNKS),
    "almost chunked": (400, head("ListTables", "Transfer-Encoding: xchunked") + GOOD_CHUNKS),
    "chunked and more": (400, head("ListTables", "Transfer-Encoding: chunked;q=1") + GOOD_CHUNKS),
    "a quoted coding": (400, head("ListTables", 'Transfer-Encoding: "chunked"') + GOOD_CHUNKS),
    "chunked, after a tab inside": (400, head("ListTables", "Transfer-Encoding: x\tchunked") + GOOD_CHUNKS),
    "chunks in HTTP/1.0": (400, chunks(GOOD_CHUNKS).replace(b"HTTP/1.1", b"HTTP/1.0")),
    # Lines
    "a bare line feed after a field": (400, fields(b"X-A: 1\nX-B: 2")),
    "a bare line feed after the first line": (400, request().replace(b"HTTP/1.1\r\n", b"HTTP/1.1\n")),
    "a bare carriage return in a field": (400, fields(b"X-A: 1\rX-B: 2")),
    "a field that goes on in the next line": (400, fields(b"X-A: 1", b" 2")),
    "a length that goes on in the next line": (400, head("ListTables", "Content-Length: 1", "\t0") + b"{}" * 5),
    "a first field that begins with a space": (400, fields(b" X-A: 1")),
    "a space before the colon": (400, fields(b"X-A : 1")),
    "a space before a length's colon": (400, head("ListTables", "Content-Length : 2") + b"{}"),
    "a tab before a coding's colon": (400, head("ListTables", "Transfer-Encoding\t: chunked") + GOOD_CHUNKS),
    "no colon": (400, fields(b"X-A")),
    "no name": (400, fields(b": 1")),
    "a name of other letters": (400, fields("X-\u00c4: 1".encode())),
    "a NUL in a name": (400, fields(b"X\0-A: 1")),
    "a NUL in a value": (400, fields(b"X-A: \0")),
    "a NUL in a length": (400, head("ListTables", "Content-Length: 2\0") + b"{}"),
    "a control character in a value": (400, fields(b"X-A: \x01")),
    "parentheses in a name": (400, fields(b"(X): 1")),
    # First lines
    "two spaces in the first line": (505, request().replace(b"POST / ", b"POST  / ")),
    "a tab in the first line": (400, request().replace(b"POST / ", b"POST\t/ ")),
    "a space in the path": (400, request().replace(b"POST / ", b"POST /a b ")),
    "something behind the version": (400, request().replace(b"HTTP/1.1\r\n", b"HTTP/1.1 x\r\n")),
    "another version": (400, request().replace(b"HTTP/1.1", b"HTTP/1.2")),
    "HTTP/2": (505, request().replace(b"HTTP/1.1", b"HTTP/2.0")),
    "another protocol": (400, request().replace(b"HTTP/1.1", b"HTTQ/1.1")),
    "a method in small letters": (400, request().replace(b"POST", b"post", 1)),
    "a method nobody knows": (400, request().replace(b"POST", b"POKE", 1)),
    "a whole URL": (400, request().replace(b"POST / ", b"POST http://elsewhere/ ")),
    "a tunnel": (400, request().replace(b"POST / ", b"CONNECT elsewhere:80 ")),
    "the greeting of HTTP/2": (505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "the greeting of TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
    # Fields that must not be repeated
    "two hosts": (400, fields(b"Host: elsewhere")),
    "twice the same host": (400, fields(b"host: localhost")),
    "no host": (400, request().replace(b"Host: localhost\r\n", b"")),
    "no host in HTTP/1.0": (400, request().replace(b"Host: localhost\r\n", b"").replace(b"HTTP/1.1", b"HTTP/1.0")),
    "two targets": (400, fields(b"X-Amz-Target: DynamoDB_20120810.DeleteTable")),
    "two authorizations": (400, fields(b"Authorization: AWS4-HMAC-SHA256 Credential=other")),
    "two content types": (400, fields(b"Content-Type: text/plain")),
    "two content codings": (400, fields(b"Content-Encoding: identity", b"Content-Encoding: gzip")),
    "two origins": (400, fields(b"Origin: null", b"Origin: http://localhost")),
    # Chunks
    "no size": (400, chunks(b"\r\n{}\r\n0\r\n\r\n")),
    "a size that is none": (400, chunks(b"x\r\n{}\r\n0\r\n\r\n")),
    "a size below none": (400, chunks(b"-2\r\n{}\r\n0\r\n\r\n")),
    "a size with a sign": (400, chunks(b"+2\r\n{}\r\n0\r\n\r\n")),
    "a size with 0x": (400, chunks(b"0x2\r\n{}\r\n0\r\n\r\n")),
    "a size with an underscore": (400, chunks(b"0_2\r\n{}\r\n0\r\n\r\n")),
    "a size after a space": (400, chunks(b" 2\r\n{}\r\n0\r\n\r\n")),
    "a size of many digits": (400, chunks(b"0" * 17 + b"2\r\n{}\r\n0\r\n\r\n")),
    "a size past 64 bits": (400, chunks(b"1" + b"0" * 16 + b"\r\n{}\r\n0\r\n\r\n")),
    "a size past the bound": (413, chunks(b"fffffffffffffff\r\n{}\r\n0\r\n\r\n")),
    "a line feed behind a size": (400, chunks(b"2\n{}\r\n0\r\n\r\n")),
    "a line feed in an extension": (400, chunks(b"2;a\nb\r\n{}\r\n0\r\n\r\n")),
    "a line feed behind a chunk": (400, chunks(b"2\r\n{}\n0\r\n\r\n")),
    "a chunk longer than its size": (400, chunks(b"1\r\n{}\r\n0\r\n\r\n")),
    "a chunk shorter than its size": (400, chunks(b"3\r\n{}\r\n0\r\n\r\n")),
    "no line behind a chunk": (400, chunks(b"2\r\n{}0\r\n\r\n")),
    "a line feed behind the last chunk": (400, chunks(b"2\r\n{}\r\n0\n\n")),
    "an endless extension": (400, chunks(b"2;" + b"a" * 5000)),
    "endless trailers": (400, chunks(b"0\r\n" + b"A: 1\r\n" * 5000)),
    "a trailer with a line feed": (400, chunks(b"0\r\nA: 1\nB: 2\r\n\r\n")),
    # Too much
    "65 fields": (431, fields(*(b"X-%d: 1" % n for n in range(65)))),
    "10,000 fields": (431, fields(*(b"X-%d: 1" % n for n in range(10_000)))),
    "a field of 64 KiB": (431, fields(b"X-A: " + b"x" * 65_536)),
    "a head without an end": (431, b"POST / HTTP/1.1\r\nX-A: " + b"x" * 16_384),
    "a first line without an end": (431, b"POST /" + b"x" * 16_384),
}  # fmt: skip

ACCEPTED: dict[str, bytes] = {
    "a length": request(),
    "no body": plain(b"GET / HTTP/1.1", b"Host: localhost"),
    "chunks": chunks(GOOD_CHUNKS),
    "chunks, in another case": head("ListTables", "TRANSFER-ENCODING: CHUNKED") + GOOD_CHUNKS,
    "chunks with extensions": chunks(b'2;a=b;c="d"\r\n{}\r\n0;x\r\n\r\n'),
    "chunks with trailers": chunks(b"2\r\n{}\r\n0\r\nX-Sum: 1\r\n\r\n"),
    "a size with zeros before": chunks(b"0002\r\n{}\r\n000\r\n\r\n"),
    "a length with zeros before": head("ListTables", "Content-Length: 0002") + b"{}",
    "a length between spaces": head("ListTables", "Content-Length: \t 2 \t") + b"{}",
    "no space behind a colon": fields(b"X-A:1"),
    "an empty value": fields(b"X-A:"),
    "bytes beyond ASCII in a value": fields("X-A: \u00e4".encode()),
    "an empty line before": b"\r\n" + request(),
    "two Accept fields": fields(b"Accept: a", b"Accept: b"),
    "60 fields": fields(*(b"X-%d: 1" % n for n in range(58))),
    "an offer of another protocol": fields(b"Upgrade: h2c", b"Connection: Upgrade"),
}


@pytest.mark.guarantee("G52", "SEC13")
@pytest.mark.parametrize("case", REFUSED)
def test_an_ambiguous_request_is_refused_and_ends_the_connection(endpoint: str, case: str) -> None:
    status, data = REFUSED[case]
    with Wire(endpoint) as wire:
        wire.send(data, NEXT)

        assert [status] == wire.statuses()


@pytest.mark.parametrize("case", ACCEPTED)
def test_an_unambiguous_request_and_the_next_are_answered(endpoint: str, case: str) -> None:
    with Wire(endpoint) as wire:
        wire.send(ACCEPTED[case], NEXT)

        assert [200, 200] == wire.statuses()


def test_there_are_more_cases_than_a_page_holds() -> None:
    assert len(REFUSED) >= 60


def test_a_body_that_looks_like_a_request_is_a_body(endpoint: str) -> None:
    with Wire(endpoint) as wire:
        wire.send(request("ListTables", request("DeleteTable", {"TableName": "Cars"})), NEXT)

        assert [400, 200] == wire.statuses()


def test_three_hundred_thousand_chunks_of_a_byte_are_one_body(endpoint: str) -> None:
    body = b'{"Limit":1' + b" " * 299_989 + b"}"
    with Wire(endpoint) as wire:
        wire.send(head("ListTables", "Transfer-Encoding: chunked"), chunked(body, 1), NEXT)

        assert [200, 200] == wire.statuses()
