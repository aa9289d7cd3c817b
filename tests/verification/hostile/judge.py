"""Sends arbitrary bytes, and checks the answers and the log."""

import json
import socket
import zlib
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import botocore.session
import orjson

from foldb.log.commands import Record
from foldb.log.local import LocalLog
from foldb.materializer.fold.dump import digest
from foldb.materializer.fold.index_entries import entry_key, entry_of
from foldb.materializer.fold.state import PartitionState, Table
from foldb.materializer.refold import refold
from foldb.model.cuts import parse_positions
from foldb.model.index_keys import key_error_of_index
from foldb.model.values import load
from foldb.server.api.admin import ADMIN
from foldb.server.api.operations import OPERATIONS
from foldb.server.api.operations.streams import STREAMS
from tests.support.raw import SIGNED
from tests.verification.hostile.samples import ADMIN_API, STREAMS_API

API = "DynamoDB_20120810."
# A server that is asked for much at once on a busy machine; a hang is none of these.
SECONDS_MAX = 30.0

# Errors of every operation: DynamoDB's "Common Errors", and those of the protocol.
COMMON = {
    "AccessDeniedException",
    "ConditionalCheckFailedException",
    "ResourceNotFoundException",
    "SerializationException",
    "ThrottlingException",
    "ValidationException",
}


# These succeed with an empty body.
EMPTY = frozenset(("TagResource", "UntagResource"))

# Characters of an error's message: it repeats little of its request.
MESSAGE_MAX = 2048


def documented() -> dict[str, set[str]]:
    """The errors that each operation may answer, by the name under which it is asked for."""
    session = botocore.session.get_session()
    errors = {
        prefix + name: COMMON | {error.name for error in model.operation_model(name).error_shapes}
        for prefix, model, names in (
            ("", session.get_service_model("dynamodb"), OPERATIONS),
            (STREAMS_API, session.get_service_model("dynamodbstreams"), STREAMS),
        )
        for name in names
    }
    of_tables = {"ResourceInUseException", "TableAlreadyExistsException", "TableInUseException"}
    of_admin = {ADMIN_API + name: COMMON | of_tables for name in ADMIN}
    of_admin[ADMIN_API + "Changes"].add("TrimmedDataAccessException")
    return errors | of_admin


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
            f"POST / HTTP/1.1\r\nHost: {self._host}",
            f"X-Amz-Target: {operation if '.' in operation else API + operation}",
            f"Content-Type: application/x-amz-json-1.0\r\nAuthorization: {SIGNED}",
            f"Content-Length: {len(data)}\r\n\r\n",
        )
        head = "\r\n".join(lines)
        self._socket.sendall(head.encode() + data)

    def answer(self) -> tuple[int, Any]:
        """The status and the body, which must be JSON whose checksum is right; None for an empty body."""
        status = int(self._answers.readline().split()[1])
        fields = {}
        while (line := self._answers.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().partition(":")
            fields[name.lower()] = value.strip()
        data = self._answers.read(int(fields["content-length"]))
        assert int(fields["x-amz-crc32"]) == zlib.crc32(data)
        assert "close" != fields.get("connection")
        return status, json.loads(data) if data else None

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


def check(operation: str, status: int, body: Any, allowed: dict[str, set[str]]) -> None:
    """Check that an answer is a success or a documented error that reveals nothing of the process."""
    assert status in (200, 400), body
    if status == 200 and operation in EMPTY:
        assert body is None
        return
    assert isinstance(body, dict)
    if status != 200:
        assert body["__type"].rpartition("#")[2] in allowed[operation], body
        text = orjson.dumps(body)
        assert b"Traceback" not in text
        assert b".py" not in text
        assert len(body.get("message") or body.get("Message") or "") <= MESSAGE_MAX


def check_refold(folder: Path, live: dict[str, Any]) -> None:
    """Check that the log folds to the tables of the answer of Digest, and that their indexes are right."""
    for each in live.get("Digests", [live]):
        (position,) = parse_positions(each["Position"])
        state = _refolded(folder, position.partition or 0, through=position.offset)
        assert each["Digest"] == digest(state), each["Position"]
        for table in state.tables.values():
            _check_indexes(table, state)


def _refolded(folder: Path, partition: int, *, through: int) -> PartitionState:
    """The state of a partition as the log has it, up to an offset."""

    def is_wanted(record: Record) -> bool:
        return record.offset <= through

    state = PartitionState()
    refold(state, takewhile(is_wanted, LocalLog.open_reader(folder).read(partition)))
    return state


def _check_indexes(table: Table, state: PartitionState) -> None:
    """Check that an active index has exactly one entry per item with its keys."""
    items = list(table.items.scan(None))
    for index in table.indexes.values():
        if index.definition.backfilling:
            continue
        entries = {}
        for _, pk, sk, stored in items:
            item = load(stored[0])
            place = entry_key(index, item, pk, sk)
            if place is not None and key_error_of_index(index.definition, item, state.limits) is None:
                entries[place] = entry_of(index, item, stored, state.limits)
        assert entries == {(pk, sk): stored for _, pk, sk, stored in index.store.scan(None)}
