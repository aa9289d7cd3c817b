"""Ten thousand that ask for nothing cost those who do ask next to nothing."""

import os
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.behaviour.http.wire import Wire, peak_bytes, request, resident_bytes, served_by
from tests.support.raw import ask
from tests.support.served import served
from tests.support.tables import table_request
from tests.verification.reliability import record

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []
IDLE = 10_000 if SOAK else 1_500
GETS = 5_000 if SOAK else 500
READERS = 400 if SOAK else 80
BYTES_A_CONNECTION = 12_000
MIB = 1 << 20


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Of a server, where this process may have as many connections as it asks for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < IDLE + 500:
        pytest.skip(f"needs a limit of {IDLE + 500} open files; it is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield tmp_path / "data"
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def fill(url: str) -> None:
    assert 200 == ask(url, "CreateTable", table_request("Cars", "pk:S", "sk:N")).status
    for n in range(3):
        item = {"pk": {"S": "a"}, "sk": {"N": str(n)}, "x": {"S": "x" * 390_000}}
        assert 200 == ask(url, "PutItem", {"TableName": "Cars", "Item": item}).status


def connect(url: str) -> socket.socket:
    address = urlsplit(url)
    return socket.create_connection((address.hostname or "", address.port or 0), timeout=20)


def p99(url: str) -> float:
    """Of gets one after the other, in milliseconds."""
    took = []
    data = request("GetItem", {"TableName": "Cars", "Key": {"pk": {"S": "b"}, "sk": {"N": "1"}}})
    with Wire(url) as wire:
        for _ in range(GETS):
            begun = time.perf_counter()
            wire.send(data)
            assert 200 == wire.answer()[0]
            took.append(time.perf_counter() - begun)
    return sorted(took)[int(GETS * 0.99)] * 1000


@pytest.mark.guarantee("G49")
def test_idle_connections_take_little_memory_and_no_time(folder: Path) -> None:
    with served(folder) as url, ExitStack() as idle:
        fill(url)
        pid = served_by(folder)
        before, memory = min(p99(url) for _ in range(3)), resident_bytes(pid)
        for _ in range(IDLE):
            idle.enter_context(connect(url))
        during = p99(url)
        for _ in range(9):  # other load on the machine only adds to it
            if during < 2 * before + 2:
                break
            during = min(during, p99(url))
        each = (resident_bytes(pid) - memory) / IDLE
        record(
            test="idle connections",
            checked=IDLE,
            figures={
                "p99 before ms": round(before, 2),
                "during": round(during, 2),
                "bytes each": round(each),
            },
        )

        assert each < BYTES_A_CONNECTION
        assert during < 2 * before + 2


@pytest.mark.guarantee("G49")
def test_a_new_client_gets_a_place_of_an_idle_connection(folder: Path) -> None:
    with served(folder, "--connections", "100") as url, ExitStack() as stack:
        fill(url)
        idle = [stack.enter_context(connect(url)) for _ in range(300)]
        with Wire(url) as wire:
            wire.send(request())
            assert 200 == wire.answer()[0]
        # The oldest went first. One who was hung up on reads an end, or that he was cut off.
        for connection in idle[:201]:
            with suppress(ConnectionResetError):
                assert b"" == connection.recv(1)
        for connection in idle[201:]:
            connection.sendall(request())
            assert b"HTTP/1.1 200" == connection.recv(12)


@pytest.mark.guarantee("G49")
def test_the_buffer_of_unread_answers_is_limited(folder: Path) -> None:
    """Each client requests tens of MB. The server buffers one page per client, which counts against the limit."""
    with served(folder) as url, ExitStack() as stack:
        fill(url)
        pid = served_by(folder)
        before = resident_bytes(pid)
        asks = request("Scan", {"TableName": "Cars"}) * 40
        for _ in range(READERS):
            stack.enter_context(Wire(url, receive_bytes=4096)).send(asks)
        assert p99(url) < 1000
        growth = peak_bytes(pid) - before
        record(test="clients that do not read", checked=READERS, figures={"growth MiB": growth // MIB})

        # The counted bytes, half of that for memory that malloc cannot return, and pages in flight.
        assert growth < 1.5 * min(READERS * 1.2 * MIB, 256 * MIB) + 40 * MIB


def test_accepting_goes_on_once_there_are_descriptors_again(folder: Path) -> None:
    """The process is at its limit: connections wait or are turned away, and nothing else fails."""
    with served(folder) as url, ExitStack() as stack:
        fill(url)
        pid = served_by(folder)
        served_one = stack.enter_context(Wire(url))
        served_one.send(request())
        assert 200 == served_one.answer()[0]
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        used = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used, limits[1]))
        for _ in range(20):
            stack.enter_context(connect(url)).sendall(request())
        for n in range(20):
            served_one.send(
                request("PutItem", {"TableName": "Cars", "Item": {"pk": {"S": "c"}, "sk": {"N": str(n)}}})
            )
            assert 200 == served_one.answer()[0]
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        with Wire(url) as wire:
            wire.send(request())
            assert 200 == wire.answer()[0]


def test_an_address_has_its_share(folder: Path) -> None:
    with served(folder, "--connections-per-address", "3") as url, ExitStack() as stack:
        for _ in range(3):
            wire = stack.enter_context(Wire(url))
            wire.send(request())
            assert 200 == wire.answer()[0]
        with Wire(url) as wire, suppress(ConnectionError):
            wire.send(request())
            assert wire.is_closed()
