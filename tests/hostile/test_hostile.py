"""Whatever is sent, it is answered, and the log still means what the tables hold.

Each seed sends thousands of requests over a few connections at a time: well-formed ones of the odd kind, and
spoiled ones. A request may be refused. It may not be answered with a 5xx or in an undocumented way, be left
without an answer, or reach the fold and break it: the fold that raises stops the database. In the end the log is
folded again, and must give the digest of the live state; every index must hold what its table says.

A failing seed is in the test's name. FOLDB_SOAK=1 sends more, and with more seeds.
"""

import json
import os
import random
import socket
import time
import zlib
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import botocore.session
import pytest

import foldb
from foldb.log.commands import Record
from foldb.log.local import LocalLog
from foldb.materializer.fold.dump import digest
from foldb.materializer.fold.entries import entry_of, entry_place
from foldb.materializer.fold.state import PartitionState, Table
from foldb.materializer.refold import refold
from foldb.model.tables import key_error_of_index
from foldb.model.values import load
from foldb.server.operations import OPERATIONS
from tests.raw import SIGNED, ask

from .any_request import Requests
from .mutation import spoil, spoil_bytes, written

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []
SEEDS = range(24 if SOAK else 2)
BURSTS = 2500 if SOAK else 120
CONNECTIONS = 6
SECONDS_MAX = 5.0

# What every operation may answer: DynamoDB's "Common Errors", and the protocol's own.
COMMON = {
    "AccessDeniedException",
    "ConditionalCheckFailedException",
    "ResourceNotFoundException",
    "SerializationException",
    "ThrottlingException",
    "ValidationException",
}


def documented() -> dict[str, set[str]]:
    """The errors that each operation may answer."""
    model = botocore.session.get_session().get_service_model("dynamodb")
    return {
        name: COMMON | {error.name for error in model.operation_model(name).error_shapes}
        for name in OPERATIONS
    }


class Connection:
    """One kept alive; requests are sent, and answers taken later."""

    def __init__(self, endpoint: str) -> None:
        address = urlsplit(endpoint)
        self._socket = socket.create_connection((address.hostname or "", address.port or 0), SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers: BinaryIO = self._socket.makefile("rb")
        self._host = address.netloc

    def send(self, operation: str, data: bytes) -> None:
        lines = (
            f"POST / HTTP/1.1\r\nHost: {self._host}\r\nX-Amz-Target: DynamoDB_20120810.{operation}",
            f"Content-Type: application/x-amz-json-1.0\r\nAuthorization: {SIGNED}",
            f"Content-Length: {len(data)}\r\n\r\n",
        )
        head = "\r\n".join(lines)
        self._socket.sendall(head.encode() + data)

    def answer(self) -> tuple[int, Any]:
        """The status and the body, which must be an object whose checksum is right."""
        status = int(self._answers.readline().split()[1])
        fields = {}
        while (line := self._answers.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().partition(":")
            fields[name.lower()] = value.strip()
        data = self._answers.read(int(fields["content-length"]))
        assert int(fields["x-amz-crc32"]) == zlib.crc32(data)
        assert "close" != fields.get("connection")
        return status, json.loads(data)

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


def check(operation: str, status: int, body: Any, allowed: dict[str, set[str]]) -> None:
    assert isinstance(body, dict)
    assert status in (200, 400)
    if status != 200:
        assert body["__type"].rpartition("#")[2] in allowed[operation]


def drawn(dice: random.Random, requests: Requests, earlier: list[Any]) -> tuple[str, bytes]:
    """A request, and perhaps what is left of it."""
    operation, body = requests.one()
    earlier[dice.randrange(len(earlier))] = body
    if dice.random() < 0.4:
        for _ in range(dice.choice([1, 1, 2, 3])):
            body = spoil(dice, body, earlier)
    data = written(dice, body)
    return operation, spoil_bytes(dice, data) if dice.random() < 0.05 else data


@pytest.mark.spec("H2", "X11")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("delay_ms", [0, 3])
@pytest.mark.parametrize("limits", ["modern", "2012"])
def test_no_request_breaks_the_server_or_the_log(
    tmp_path: Path, seed: int, delay_ms: int, limits: str
) -> None:
    dice = random.Random(f"{seed} {delay_ms} {limits}")
    requests, allowed = Requests(dice), documented()
    earlier: list[Any] = [{}] * 50
    settings: dict[str, Any] = {
        "limits": limits,
        "table_delay_ms": delay_ms,
        "fsync": "never",
        "ttl_interval_ms": 50,
    }
    with foldb.serve(tmp_path, **settings) as server:
        connections = [Connection(server.endpoint_url) for _ in range(CONNECTIONS)]
        for _ in range(BURSTS):
            sent = [(connection, *drawn(dice, requests, earlier)) for connection in connections]
            start = time.monotonic()
            for connection, operation, data in sent:
                connection.send(operation, data)
            for connection, operation, data in sent:
                try:
                    check(operation, *connection.answer(), allowed)
                except Exception as error:
                    error.add_note(f"{operation} {data[:4000].decode(errors='replace')}")
                    raise
            assert time.monotonic() - start < SECONDS_MAX
        for connection in connections:
            connection.close()
        live = ask(server.endpoint_url, "Foldb_20261121.Digest", {}).body

    state = refolded(tmp_path, through=int(live["Position"].partition(".")[0]))
    assert live["Digest"] == digest(state)
    for table in state.tables.values():
        check_indexes(table, state)


def refolded(path: Path, through: int) -> PartitionState:
    """The state as the log has it, up to an offset."""

    def is_wanted(record: Record) -> bool:
        return record.offset <= through

    state = PartitionState()
    refold(state, takewhile(is_wanted, LocalLog.open_reader(path).read(0)))
    return state


def check_indexes(table: Table, state: PartitionState) -> None:
    """A filled index holds an entry for each item that it can take, and none besides."""
    items = list(table.items.scan(None))
    for index in table.indexes.values():
        if index.definition.backfilling:
            continue
        entries = {}
        for _, pk, sk, stored in items:
            item = load(stored[0])
            place = entry_place(index, item, pk, sk)
            if place is not None and key_error_of_index(index.definition, item, state.limits) is None:
                entries[place] = entry_of(index, item, stored, state.limits)
        assert entries == {(pk, sk): stored for _, pk, sk, stored in index.store.scan(None)}


def test_every_operation_is_drawn() -> None:
    assert OPERATIONS.keys() == Requests(random.Random(0)).operations.keys()
