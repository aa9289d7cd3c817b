"""Measure the processor time of a request: a node and its connections in this process, without sockets and disk.

Thirty-two connections send one request each, and the loop runs until all are answered, as in one turn under load. The
minimum over many turns excludes other programs.
"""

import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import orjson

from foldb.server.auth.guard import Guard
from foldb.server.auth.keyfile import Key, changed, new_key
from foldb.server.auth.rights import Rights
from foldb.server.auth.signature import sign
from foldb.server.http.listener import Listener
from foldb.server.http.protocol import Connection
from foldb.server.http.request_head import read_head
from foldb.server.node import Node
from foldb.server.settings import Settings

from .options import Options
from .requests import PER_COLLECTION, TABLE, item, orders
from .tables import show

CONNECTIONS = 32
NOW_MS = 1_800_000_000_000
_TURNS = 200


class Loop:
    """An event loop in which each turn takes a hundredth of a second, so that no request is throttled."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._ready: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self._ready.append((callback, args))

    def call_later(self, _delay: float, _callback: Callable[..., object], *_args: Any) -> "Loop":
        return self

    def cancel(self) -> None:
        """Do nothing: timers never run here."""

    def time(self) -> float:
        return self._seconds

    def run(self) -> None:
        self._seconds += 0.01
        while self._ready:
            callback, args = self._ready.popleft()
            callback(*args)


class Transport:
    """A transport that keeps the last response and sends nothing."""

    answer = b""

    def write(self, data: bytes) -> None:
        self.answer = data

    def get_extra_info(self, _name: str, default: Any = None) -> Any:
        return default

    def is_reading(self) -> bool:
        return True

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_args, **_named: None


class Server:
    """A node and its connections, with the items of all benchmarks."""

    def __init__(self, settings: Settings, keys: list[tuple[str, str]]) -> None:
        self._loop = Loop()
        node = Node(
            settings,
            loop=cast(Any, self._loop),
            clock=lambda: NOW_MS,
            random_bytes=os.urandom,
            on_fatal=_fail,
        )
        self.listener = Listener(node, cast(Any, self._loop))
        self._connections = [Connection(self.listener) for _ in range(CONNECTIONS)]
        for connection in self._connections:
            connection.connection_made(cast(Any, Transport()))
        self.turn([request("CreateTable", TABLE)])
        for key in keys:
            self.turn([request("PutItem", {"TableName": "orders", "Item": item(*key)})])

    def turn(self, requests: list[bytes]) -> float:
        """Answer one request of each connection, and return the seconds of processor time."""
        began = time.process_time()
        for connection, request in zip(self._connections, requests, strict=False):
            connection.data_received(request)
        self._loop.run()
        seconds = time.process_time() - began
        answer = cast(Any, self._connections[0])._transport.answer
        if not answer.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"benchmarks: {answer!r}")
        return seconds


def measure(options: Options) -> None:
    """Print microseconds per request, by kind."""
    keys = list(orders(options.keys))
    server = Server(Settings(path=None), keys)
    throttling = Server(Settings(path=None, throttle=True), keys)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        signer, guard = _guard(Path(folder) / "keys.toml")
        for name, make in KINDS.items():
            requests = [make(*keys[place * 7919 % len(keys)]) for place in range(_TURNS * CONNECTIONS)]
            server.listener.guard = None
            any_key, throttled = _least((server, throttling), requests, options.rounds)
            server.listener.guard = guard
            (one_key,) = _least((server,), [_signed(request, signer) for request in requests], options.rounds)
            times = (any_key, one_key, throttled)
            rows.append([name, *(f"{1e6 * seconds / CONNECTIONS:.1f}" for seconds in times)])
    columns = ["", "microseconds a request", "with its signature verified", "with --throttle"]
    show("processor time in a node, without sockets and disk", columns, rows)


def _guard(path: Path) -> tuple[Key, Guard]:
    """Return a key with all rights, and a guard that accepts it."""
    key = new_key(datetime.now(UTC), Rights(admin=["*"]))
    with changed(path) as keys:
        keys[key.id] = key
    return key, Guard(path, lambda: NOW_MS)


def _signed(request: bytes, key: Key) -> bytes:
    """Return the request, signed with that key."""
    end = request.index(b"\r\n\r\n") + 4
    fields = {
        name.decode(): value.decode()
        for name, value in read_head(request[:end]).fields.items()
        if name not in (b"authorization", b"x-amz-date")
    }
    lines = sign(key.id, key.secret, fields, request[end:], seconds=NOW_MS // 1000)
    head = "\r\n".join(("POST / HTTP/1.1", *(f"{name}: {value}" for name, value in lines.items()), "", ""))
    return head.encode() + request[end:]


def _least(servers: Sequence[Server], requests: list[bytes], rounds: int) -> list[float]:
    """Return the least time of a turn of each server. They take turns, so that other programs disturb all of them."""
    least = [float("inf")] * len(servers)
    for _ in range(rounds):
        for start in range(0, len(requests), CONNECTIONS):
            for place, server in enumerate(servers):
                least[place] = min(least[place], server.turn(requests[start : start + CONNECTIONS]))
    return least


def request(operation: str, body: object) -> bytes:
    data = orjson.dumps(body)
    head = (
        "POST / HTTP/1.1\r\n"
        "Host: 127.0.0.1:8000\r\n"
        f"X-Amz-Target: DynamoDB_20120810.{operation}\r\n"
        "Content-Type: application/x-amz-json-1.0\r\n"
        "X-Amz-Date: 20261121T080000Z\r\n"
        "Authorization: AWS4-HMAC-SHA256 Credential=fake/20261121/us-east-1/dynamodb/aws4_request, "
        "SignedHeaders=host;x-amz-date;x-amz-target, Signature=0000\r\n"
        f"Content-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def _get(pk: str, sk: str) -> bytes:
    return request("GetItem", {"TableName": "orders", "Key": {"pk": {"S": pk}, "sk": {"S": sk}}})


def _put(pk: str, sk: str) -> bytes:
    return request("PutItem", {"TableName": "orders", "Item": item(pk, sk)})


def _update(pk: str, sk: str) -> bytes:
    return request(
        "UpdateItem",
        {
            "TableName": "orders",
            "Key": {"pk": {"S": pk}, "sk": {"S": sk}},
            "UpdateExpression": "SET qty = if_not_exists(qty, :z) + :o, #s = :s",
            "ConditionExpression": "attribute_not_exists(locked)",
            "ExpressionAttributeNames": {"#s": "status"},
            "ExpressionAttributeValues": {":z": {"N": "0"}, ":o": {"N": "1"}, ":s": {"S": "PAID"}},
        },
    )


def _query(pk: str, _sk: str) -> bytes:
    return request(
        "Query",
        {
            "TableName": "orders",
            "KeyConditionExpression": "pk = :p",
            "ExpressionAttributeValues": {":p": {"S": pk}},
        },
    )


KINDS: dict[str, Callable[[str, str], bytes]] = {
    "GetItem": _get,
    "PutItem": _put,
    "conditional UpdateItem": _update,
    f"Query of {PER_COLLECTION}": _query,
}


def _fail(error: BaseException) -> None:
    raise error
