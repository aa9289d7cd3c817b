"""HTTP over a raw socket, for requests that no client library sends: in pieces, pipelined, malformed."""

import json
import os
import socket
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import pytest

from tests.support.raw import SIGNED

JSON_TYPE = "Content-Type: application/x-amz-json-1.0"


class Wire:
    """A connection on which bytes are sent as they are given, and answers read one by one."""

    def __init__(self, endpoint: str, *, receive_bytes: int = 0) -> None:
        address = urlsplit(endpoint)
        host = address.hostname or ""
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(20)
        self.socket.connect((host, address.port or 0))
        self._file = self.socket.makefile("rb")

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.socket.sendall(piece)

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """The next answer: status, fields in lower case, body."""
        status = int(self._file.readline().split()[1])
        fields = {}
        while line := self._file.readline().strip():
            name, _, value = line.decode().partition(": ")
            fields[name.lower()] = value
        return status, fields, self._file.read(int(fields.get("content-length", "0")))

    def line(self) -> bytes:
        """Return the next line."""
        return self._file.readline().strip()

    def is_closed(self) -> bool:
        """Return whether the server has closed the connection."""
        try:
            return b"" == self._file.read(1)
        except ConnectionResetError:
            return True

    def rest(self) -> bytes:
        """Return all that comes until the server closes."""
        return self._file.read()

    def statuses(self) -> list[int]:
        """Half-close the connection, and return the status of every answer until the server closes it."""
        self.socket.shutdown(socket.SHUT_WR)
        statuses = []
        while line := self._file.readline():
            statuses.append(int(line.split()[1]))
            length = 0
            while line := self._file.readline().strip().lower():
                if line.startswith(b"content-length: "):
                    length = int(line[16:])
            self._file.read(length)
        return statuses

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def head(operation: str = "ListTables", *fields: str) -> bytes:
    """Return a head with the fields that every client sends; keywords replace their values."""
    given = {field.partition(":")[0].lower() for field in fields}
    usual = (
        "Host: localhost",
        f"X-Amz-Target: DynamoDB_20120810.{operation}",
        JSON_TYPE,
        f"Authorization: {SIGNED}",
    )
    first = [
        field for field in usual if field.partition(":")[0].lower() not in given - {"host", "authorization"}
    ]
    return "\r\n".join(("POST / HTTP/1.1", *first, *fields, "", "")).encode()


def request(operation: str = "ListTables", body: object = None, *fields: str) -> bytes:
    """A whole request; bytes are sent as they are."""
    data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
    return head(operation, *fields, f"Content-Length: {len(data)}") + data


def chunked(data: bytes, size: int) -> bytes:
    """A body in chunks of one size."""
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def served_by(folder: Path) -> int:
    """The process that serves a folder."""
    pid: int = json.loads((folder / "server.json").read_bytes())["pid"]
    return pid


def processor_s(pid: int) -> float:
    """How long it has computed. Unlike a clock this does not go on while others do."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process, in bytes."""
    return _kilobytes(pid, "VmRSS") * 1024


def peak_bytes(pid: int) -> int:
    """The most that it ever had."""
    return _kilobytes(pid, "VmHWM") * 1024


def _kilobytes(pid: int, name: str) -> int:
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        pytest.skip("needs /proc, to see what another process has in memory")
    return int(status.read_text().partition(f"{name}:")[2].split()[0])
