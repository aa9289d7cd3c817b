"""Count the instructions that `foldb serve --throttle` adds to a request.

Valgrind counts those of the whole server process; the system's are not counted. Other programs do not change them,
whereas the processor time of two equal servers differs by a tenth on a shared machine. Each of 32 connections
sends a request, and waits until all are answered. Their table has more throughput than the load, so no request is
throttled. PYTHONPATH selects another build:

    PYTHONPATH=build/compiled python -m benchmarks throttling
"""

import re
import shutil
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

from foldb.version import build

from .cpu import CONNECTIONS, KINDS
from .options import Options
from .peers import FOLDB, Peer, Running, running, temporary_folder
from .requests import TABLE, Client, orders
from .tables import at_most, show

GOAL = 1.05
_UNITS = {"ReadCapacityUnits": 40_000, "WriteCapacityUnits": 40_000}
_TABLE = {**TABLE, "BillingMode": "PROVISIONED", "ProvisionedThroughput": _UNITS}
_COLLECTIONS = 200  # a server takes fifty times as long under valgrind
_TURNS = 30
_COUNTS = "callgrind.out"


def measure(options: Options) -> None:
    """Print the instructions of a request with and without throttling."""
    if shutil.which("valgrind") is None:
        raise SystemExit("benchmarks: valgrind is not on the PATH (Debian: apt-get install valgrind)")
    plain, throttled = (
        _instructions(flags, options.port + place, options)
        for place, flags in enumerate(([], ["--throttle"]))
    )
    rows = [
        [name, f"{plain[name]:,.0f}", f"{throttled[name]:,.0f}", at_most(throttled[name] / plain[name], GOAL)]
        for name in KINDS
    ]
    columns = ["", "instructions a request", "with --throttle", "ratio"]
    show(f"throttling, {CONNECTIONS} connections, {build()} build", columns, rows)


def _instructions(flags: list[str], port: int, options: Options) -> dict[str, float]:
    """Return the instructions of a request to a server with these options, by the kind of request."""
    collections = min(options.keys, _COLLECTIONS)
    keys = list(orders(collections))
    found = {}
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        counted = Peer(
            FOLDB.name, lambda port, data: [*_valgrind(folder), *FOLDB.command(port, data), *flags]
        )
        server = stack.enter_context(running(counted, port, folder))
        with Client(server.url) as client:
            client.fill(collections, _TABLE)
        sockets = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(CONNECTIONS)
        ]
        for name, make in KINDS.items():
            requests = [make(*keys[place * 7919 % len(keys)]) for place in range(_TURNS * CONNECTIONS)]
            _answer(sockets, requests)
            _count(server, folder)
            _answer(sockets, requests * options.rounds)
            found[name] = _count(server, folder) / len(requests) / options.rounds
    return found


def _valgrind(folder: Path) -> list[str]:
    """Return the first words of a command whose instructions are counted. Strings have the same hashes in each run."""
    counts = f"--callgrind-out-file={folder / _COUNTS}"
    return ["/usr/bin/env", "PYTHONHASHSEED=0", "valgrind", "--tool=callgrind", counts]


def _answer(sockets: list[socket.socket], requests: list[bytes]) -> None:
    """Let each connection send a request and receive its answer, until all requests are answered."""
    for start in range(0, len(requests), len(sockets)):
        for connection, request in zip(sockets, requests[start:], strict=False):
            connection.sendall(request)
        for connection in sockets:
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


def _count(server: Running, folder: Path) -> int:
    """Return the instructions of the server since the last call."""
    command = ["callgrind_control", "--dump", str(server.pid)]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 -- our own arguments
    newest = max(folder.glob(f"{_COUNTS}.*"), key=lambda path: int(path.suffix[1:]))
    found = re.search(r"^totals: (\d+)", newest.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])
