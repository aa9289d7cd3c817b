"""Bytes on a connection: every input gets a response or an error, the same for every division into pieces."""

import re
from collections.abc import Iterable
from typing import Any

from foldb.server.http.listener import Listener
from foldb.server.http.protocol import Connection
from tests.support.raw import SIGNED
from tests.verification.fuzz.inside import Inside, Untouched
from tests.verification.fuzz.target import Target

ANSWER = re.compile(rb"HTTP/1\.1 ([0-9]{3}) [A-Za-z ]+\r\n((?:[A-Za-z0-9-]+: ?[^\r\n]*\r\n)*)\r\n")
LENGTH = re.compile(rb"^content-length: *([0-9]+)\r$", re.IGNORECASE | re.MULTILINE)
REQUEST_ID = re.compile(rb"x-amzn-RequestId: [0-9A-F]+\r\n")
GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"


class Wire:
    """A transport that stores written bytes, and delays input while reading is paused."""

    def __init__(self) -> None:
        self.written = b""
        self.reading = True
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.written += data

    def writelines(self, pieces: Iterable[bytes]) -> None:
        self.write(b"".join(pieces))

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_reading(self) -> bool:
        return self.reading

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def get_extra_info(self, _name: str, default: Any = None) -> Any:
        return default

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, *_: object) -> None:
        pass


def judge_bytes(data: bytes, inside: Inside) -> None:
    """The first byte says where the rest is cut."""
    cut, stream = data[0] + 1 if data else 1, data[1:]
    whole = conversation(inside, [stream])
    assert whole == conversation(inside, [stream[at : at + cut] for at in range(0, len(stream), cut)])
    asked = stream.count(b" HTTP/")
    assert len(answers(whole)) <= asked + 1, "more answers than requests, and a refusal"


def conversation(inside: Inside, pieces: list[bytes]) -> bytes:
    """Return the responses to pieces that arrive one after the other."""
    listener = Listener(inside.node, inside.loop)  # type: ignore[arg-type]  # as much of a loop as it needs
    connection, wire = Connection(listener), Wire()
    connection.connection_made(wire)  # type: ignore[arg-type]  # as much of a transport as a connection needs
    for piece in pieces:
        if wire.closed:
            break
        connection.data_received(piece)
        inside.loop.settle()
        assert wire.reading, "nothing waits for an answer, so the next piece is wanted"
    connection.connection_lost(None)
    return REQUEST_ID.sub(b"", wire.written.replace(GO_ON, b""))


def answers(data: bytes) -> list[int]:
    """The statuses of whole answers, of which the bytes must consist."""
    found = []
    while data:
        match = ANSWER.match(data)
        assert match is not None, data[:200]
        assert b"Traceback" not in data
        found.append(int(match[1]))
        length = LENGTH.search(match[2])
        data = data[match.end() :]
        if not data.startswith(b"HTTP/1.1 "):  # else it is the answer to a HEAD, which has the length alone
            data = data[int(length[1] if length else 0) :]
    return found


def request(body: bytes, *fields: str, operation: str = "ListTables") -> bytes:
    """A request as clients write it."""
    lines = (
        *("POST / HTTP/1.1", "Host: localhost", f"X-Amz-Target: DynamoDB_20120810.{operation}"),
        *("Content-Type: application/x-amz-json-1.0", f"Authorization: {SIGNED}", *fields, "", ""),
    )
    return "\r\n".join(lines).encode() + body


PACKED = bytes.fromhex("1f8b08000000000000ffabae050043bfa6a302000000")
STREAMS = (
    request(b"{}", "Content-Length: 2") + request(b'{"Limit":1}', "Content-Length: 11"),
    request(b"2\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked")
    + b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    request(
        b"1;a=b\r\n{\r\n01\r\n}\r\n0\r\nX: y\r\n\r\n", "Transfer-Encoding: chunked", "Expect: 100-continue"
    ),
    request(PACKED, f"Content-Length: {len(PACKED)}", "Content-Encoding: gzip"),
    b"HEAD / HTTP/1.0\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nConnection: close\r\n\r\n",
)

TARGETS = (
    Target(
        "http",
        judge_bytes,
        [bytes([cut]) + stream for cut in (6, 100) for stream in STREAMS],
        (
            *(
                "Content-Length: ",
                "Transfer-Encoding: chunked",
                "Content-Encoding: gzip",
                "Connection: close",
            ),
            *(
                "Expect: 100-continue",
                "Host: localhost",
                "POST / HTTP/1.1\r\n",
                "GET / HTTP/1.1\r\n",
                "HTTP/1.0",
            ),
            *(
                "\r\n\r\n",
                "\r\n",
                "0\r\n\r\n",
                "2\r\n{}\r\n",
                " chunked",
                "identity",
                "Upgrade: h2c",
                "\x00",
                ";",
            ),
        ),
        steps=(20_000, 400),
        bytes_max=2048,
        world=Untouched(Inside),
    ),
)
