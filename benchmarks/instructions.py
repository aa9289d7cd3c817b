"""Count the instructions of a served process.

Valgrind counts those of the whole process; the system's are not counted. Other programs do not change them, whereas the
processor time of two equal servers differs by a tenth on a shared machine. Strings have the same hashes in each run.
"""

import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from .cpu import CONNECTIONS
from .options import Options
from .peers import Peer, Running, foldb_with, running, temporary_folder
from .requests import Client, orders

_COUNTS = "callgrind.out"
_COLLECTIONS = 200  # a server takes fifty times as long under valgrind
_TURNS = 30


def require_valgrind() -> None:
    """Exit with the name of the program that is missing."""
    if shutil.which("valgrind") is None:
        raise SystemExit("benchmarks: valgrind is not on the PATH (Debian: apt-get install valgrind)")


def under_valgrind(peer: Peer, folder: Path) -> Peer:
    """Return a peer whose instructions are counted in a folder."""
    counts = f"--callgrind-out-file={folder / _COUNTS}"
    valgrind = ["/usr/bin/env", "PYTHONHASHSEED=0", "valgrind", "--tool=callgrind", counts]
    return Peer(peer.name, lambda port, data: [*valgrind, *peer.command(port, data)])


def count(server: Running, folder: Path) -> int:
    """Return the instructions of a server since the last call."""
    command = ["callgrind_control", "--dump", str(server.pid)]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 -- our own arguments
    newest = max(folder.glob(f"{_COUNTS}.*"), key=lambda path: int(path.suffix[1:]))
    found = re.search(r"^totals: (\d+)", newest.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def of_requests(
    kinds: Mapping[str, Callable[[str, str], bytes]],
    flags: Sequence[str],
    table: dict[str, Any],
    options: Options,
    port: int,
) -> dict[str, float]:
    """Return the instructions of a request to a server with these flags, by the kind of request.

    Each of 32 connections sends a request, and waits until all are answered.
    """
    collections = min(options.keys, _COLLECTIONS)
    keys = list(orders(collections))
    found = {}
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        server = stack.enter_context(running(under_valgrind(foldb_with(*flags), folder), port, folder))
        with Client(server.url) as client:
            client.fill(collections, table)
        sockets = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(CONNECTIONS)
        ]
        for name, make in kinds.items():
            requests = [make(*keys[place * 7919 % len(keys)]) for place in range(_TURNS * CONNECTIONS)]
            answer(sockets, requests)
            count(server, folder)
            answer(sockets, requests * options.rounds)
            found[name] = count(server, folder) / len(requests) / options.rounds
    return found


def answer(sockets: Sequence[socket.socket], requests: Sequence[bytes]) -> None:
    """Let each connection send a request and receive its answer, until all requests are answered."""
    for start in range(0, len(requests), len(sockets)):
        for connection, request in zip(sockets, requests[start:], strict=False):
            connection.sendall(request)
        for connection, _ in zip(sockets, requests[start:], strict=False):
            received = connection.recv(1 << 16)
            while (end := received.find(b"\r\n\r\n")) < 0 or len(received) < end + 4 + _length(received):
                received += connection.recv(1 << 16)
            if not received.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"benchmarks: {received!r}")


def _length(response: bytes) -> int:
    """Return the bytes of a response's body."""
    found = re.search(rb"(?i)\r\ncontent-length: *(\d+)", response)
    assert found is not None
    return int(found[1])
