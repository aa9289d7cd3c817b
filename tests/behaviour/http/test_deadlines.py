"""Who is slow is let go, by a server whose seconds are short; tests/unit/server/test_connection.py counts them."""

import errno
import select
from collections.abc import Iterator

import pytest

import foldb
from tests.behaviour.http.wire import Wire, head, request
from tests.support.raw import ask
from tests.support.tables import table_request

TICK_MS = 10


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with foldb.serve(tick_ms=TICK_MS) as server:
        assert 200 == ask(server.endpoint_url, "CreateTable", table_request("Cars", "pk:S", "sk:N")).status
        yield server.endpoint_url


@pytest.mark.parametrize(
    ("sent", "reported"),
    [
        (b"", b""),
        (b"\r\n", b"HTTP/1.1 408 Request Timeout"),
        (b"P", b"HTTP/1.1 408 Request Timeout"),
        (head()[:-2], b"HTTP/1.1 408 Request Timeout"),
        (head("ListTables", "Content-Length: 2"), b"HTTP/1.1 408 Request Timeout"),
        (head("ListTables", "Content-Length: 2") + b"{", b"HTTP/1.1 408 Request Timeout"),
        (head("ListTables", "Transfer-Encoding: chunked") + b"1\r\n{\r\n", b"HTTP/1.1 408 Request Timeout"),
    ],
)
def test_a_client_with_a_partial_request_is_disconnected(url: str, sent: bytes, reported: bytes) -> None:
    with Wire(url) as wire:
        wire.send(sent)

        assert reported == wire.line()
        while wire.line():
            pass


@pytest.mark.guarantee("SEC16")
@pytest.mark.parametrize("start", [b"", head("ListTables", "Content-Length: 1000000")])
def test_a_client_that_drips_its_handshake_is_disconnected(url: str, start: bytes) -> None:
    """Five ticks for a head, sixty for a body, however lively it is."""
    with Wire(url) as wire:
        wire.send(start)
        while not select.select([wire.socket], [], [], TICK_MS / 1000)[0]:
            wire.send(b"X")

        assert b"HTTP/1.1 408 Request Timeout" == wire.line()


def test_a_client_may_send_more_until_it_is_idle_too_long(url: str) -> None:
    with Wire(url) as wire:
        for _ in range(3):
            wire.send(request())
            assert 200 == wire.answer()[0]
        assert wire.is_closed()


@pytest.mark.guarantee("SEC16")
def test_a_client_that_does_not_read_is_disconnected(url: str) -> None:
    """Megabytes of answers, until neither socket takes more: then no request is read, and half a minute later none."""
    for n in range(3):
        item = {"pk": {"S": "a"}, "sk": {"N": str(n)}, "x": {"S": "x" * 390_000}}
        assert 200 == ask(url, "PutItem", {"TableName": "Cars", "Item": item}).status
    asks = request("Scan", {"TableName": "Cars"}) * 1000
    with Wire(url, receive_bytes=4096) as wire:
        while True:
            try:
                wire.send(asks)
            except OSError as error:
                assert error.errno in (errno.EPIPE, errno.ECONNRESET)  # noqa: PT017  # the last of many sends
                break
