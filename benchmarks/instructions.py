"""Count the instructions of a served process.

Valgrind counts those of the whole process; the system's are not counted. Other programs do not change them, whereas the
processor time of two equal servers differs by a tenth on a shared machine. Strings have the same hashes in each run.
"""

import re
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .peers import Peer, Running

_COUNTS = "callgrind.out"


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
