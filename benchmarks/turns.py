"""Measure the longest turn of the event loop for each operation on a large table, in processor time of its thread.

A turn stops all other requests. The server runs in a child process on the loop that `foldb serve` uses. A timer of one
millisecond on that loop reads the thread's processor time: two readings enclose the turns between them, so a figure is
the longest turn plus at most a millisecond. Processor time excludes the time in which another program had the core.
"""

import asyncio
import contextlib
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from foldb.materializer.gc_tuning import short_pauses
from foldb.server.app import Serving, new_loop
from foldb.server.settings import Settings

from . import logs
from .options import Options
from .peers import foldb_command, temporary_folder
from .requests import HEADERS, PER_COLLECTION, TABLE, Client, item, orders
from .tables import at_most, show

GOAL_MS = 50
_TICK_S = 0.001
# An operation leaves work behind: a deleted table is freed, a sweep goes on.
_AFTER_S_PER_MILLION = 2.0
_SWEEP_S_PER_MILLION = 20.0
_KIB = 1024
_GIANT = "all"
_NAMED: dict[str, Any] = {"TableName": "orders"}
_INDEX: dict[str, Any] = {
    "IndexName": "by_status",
    "KeySchema": [{"AttributeName": "status", "KeyType": "HASH"}],
    "Projection": {"ProjectionType": "ALL"},
}
_ENABLED: dict[str, Any] = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
_LARGE: dict[str, Any] = {
    "TableName": "large",
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
}

Operation: TypeAlias = Callable[[Client], object]


def measure(options: Options) -> None:
    """Print milliseconds."""
    with temporary_folder() as folder:
        half = options.items // 2
        giant = ((_GIANT, f"{number:08}") for number in range(options.items - half))
        logs.write(folder, logs.puts(chain(orders(half // PER_COLLECTION), giant)), options.port)
        with _served(folder, options.port) as probe, Client(probe.url) as client:
            millions = max(0.1, options.items / 1_000_000)
            rows = []
            for name, operation in _operations(folder, millions).items():
                probe.longest_ms()
                operation(client)
                time.sleep(millions * _AFTER_S_PER_MILLION)
                rows.append([name, at_most(probe.longest_ms(), GOAL_MS, " ms")])
                print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
            rows.append(["stop", at_most(probe.stop(), GOAL_MS, " ms")])
    show(f"longest turn of the event loop, {options.items:,} items", ["", "processor time"], rows)


def _operations(folder: Path, millions: float) -> dict[str, Operation]:
    """Yield the operations. Each runs once, in this order."""
    key = {"pk": {"S": "user#1"}, "sk": {"S": "order#1"}}
    large = [_large(number, 390) for number in range(40)]
    last: list[str] = []  # the position before the table was deleted
    return {
        "nothing, for two seconds": lambda _: None,
        "GetItem": lambda client: client.call("GetItem", _NAMED | {"Key": key}),
        "PutItem": lambda client: client.call("PutItem", _NAMED | {"Item": item("user#1", "order#1")}),
        "PutItem, 200 at once": lambda client: _at_once(client, 200, "PutItem", _put),
        "UpdateItem, 200 at once": lambda client: _at_once(client, 200, "UpdateItem", _update),
        "BatchWriteItem of 25, 40 at once": lambda client: _at_once(client, 40, "BatchWriteItem", _batch),
        "TransactWriteItems of 100": lambda client: client.call("TransactWriteItems", _transaction(0)),
        "TransactWriteItems of 100, 10 at once": lambda client: _at_once(
            client, 10, "TransactWriteItems", _transaction
        ),
        "BatchWriteItem, 25 of 390 KB": lambda client: _write_large(client, large[:25]),
        "BatchWriteItem, 15 of 390 KB": lambda client: _write_large(client, large[25:]),
        "BatchGetItem, 16 MB": lambda client: client.text(
            "BatchGetItem", {"RequestItems": {"large": {"Keys": [{"pk": one["pk"]} for one in large]}}}
        ),
        "Scan, a page of 1 MB": lambda client: client.text("Scan", _NAMED),
        "Scan, a filter that no item passes": lambda client: client.text("Scan", _NAMED | _FILTER),
        "Query, a page of 1 MB": lambda client: client.text("Query", _query(_GIANT)),
        "DescribeTable": lambda client: client.call("DescribeTable", _NAMED),
        "status": lambda client: client.call("Foldb_20261121.Status", {}),
        "/metrics": _metrics,
        "UpdateTimeToLive, two sweeps": lambda client: _sweep(client, millions * _SWEEP_S_PER_MILLION),
        "UpdateTable, stream on": lambda client: _stream(client, _ENABLED),
        "UpdateTable, stream off": lambda client: _stream(client, {"StreamEnabled": False}),
        "UpdateTable, an index is added": _add_index,
        "PutItem with the index, 200 at once": lambda client: _at_once(client, 200, "PutItem", _put),
        "rebuild, puts beside it": lambda client: _beside_puts(client, lambda own: _rebuild(own, {})),
        "rebuild --index": lambda client: _rebuild(client, {"IndexName": "by_status"}),
        "Digest, puts beside it": lambda client: _beside_puts(
            client, lambda own: own.call("Foldb_20261121.Digest", {})
        ),
        "UpdateTable, the index is deleted": _delete_index,
        "snapshot make": lambda _: _foldb(folder, "snapshot", "make"),
        "DeleteTable": lambda client: last.append(_delete_table(client)),
        "restore, of the deleted table": lambda _: _foldb(
            folder, "restore", "orders", "--as-of", last[0], "--into", "again"
        ),
    }  # fmt: skip


# Requests

_FILTER: dict[str, Any] = {
    "FilterExpression": "qty = :t",
    "ExpressionAttributeValues": {":t": {"N": "0"}},
}


def _query(pk: str) -> dict[str, Any]:
    return _NAMED | {"KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": {"S": pk}}}


def _put(number: int) -> dict[str, Any]:
    return _NAMED | {"Item": item(f"user#{number}", "order#1")}


def _update(number: int) -> dict[str, Any]:
    return _NAMED | {
        "Key": {"pk": {"S": f"user#{number}"}, "sk": {"S": "order#2"}},
        "UpdateExpression": "ADD qty :o",
        "ConditionExpression": "attribute_not_exists(locked)",
        "ExpressionAttributeValues": {":o": {"N": "1"}},
    }


def _batch(number: int) -> dict[str, Any]:
    puts = [{"PutRequest": {"Item": item(f"user#{number}", f"order#{place}")}} for place in range(25)]
    return {"RequestItems": {"orders": puts}}


def _transaction(number: int) -> dict[str, Any]:
    return {"TransactItems": [{"Update": _update(1 + number * 100 + place)} for place in range(100)]}


def _large(number: int, kib: int) -> dict[str, Any]:
    return {"pk": {"S": str(number)}, "body": {"S": "x" * (kib * _KIB)}}


def _write_large(client: Client, items: list[dict[str, Any]]) -> None:
    with contextlib.suppress(SystemExit):  # the last batch created it
        client.call("CreateTable", _LARGE)
    client.call(
        "BatchWriteItem", {"RequestItems": {"large": [{"PutRequest": {"Item": one}} for one in items]}}
    )


def _at_once(client: Client, count: int, operation: str, body: Callable[[int], dict[str, Any]]) -> None:
    """Send a request on each of `count` connections, then read all answers."""
    address = client.address.split(":")
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_connection((address[0], int(address[1])))) for _ in range(count)
        ]
        for number, one in enumerate(sockets, 1):
            content = json.dumps(body(number)).encode()
            head = {**HEADERS, "Host": client.address, "Content-Length": len(content)}
            head["X-Amz-Target"] = f"DynamoDB_20120810.{operation}"
            lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
            one.sendall(f"POST / HTTP/1.1\r\n{lines}\r\n".encode() + content)
        for one in sockets:
            answer = one.recv(64)
            if not answer.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"{operation}: {answer!r}")


def _metrics(client: Client) -> None:
    connection = http.client.HTTPConnection(client.address)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        connection.getresponse().read()


def _sweep(client: Client, seconds: float) -> None:
    """Run a sweep that examines every item and finds none expired."""
    client.call(
        "UpdateTimeToLive",
        _NAMED | {"TimeToLiveSpecification": {"AttributeName": "total", "Enabled": True}},
    )
    time.sleep(seconds)


def _stream(client: Client, specification: dict[str, Any]) -> None:
    client.call("UpdateTable", _NAMED | {"StreamSpecification": specification})
    _until_active(client)


def _add_index(client: Client) -> None:
    client.call(
        "UpdateTable",
        _NAMED
        | {
            "AttributeDefinitions": [
                *TABLE["AttributeDefinitions"],
                {"AttributeName": "status", "AttributeType": "S"},
            ],
            "GlobalSecondaryIndexUpdates": [{"Create": _INDEX}],
        },
    )
    _until_active(client)


def _delete_index(client: Client) -> None:
    client.call(
        "UpdateTable", _NAMED | {"GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "by_status"}}]}
    )
    _until_active(client)


def _until_active(client: Client) -> None:
    while True:
        table = client.call("DescribeTable", _NAMED)["Table"]
        indexes = table.get("GlobalSecondaryIndexes", [])
        if {"ACTIVE"} == {table["TableStatus"], *(index["IndexStatus"] for index in indexes)}:
            return
        time.sleep(0.05)


def _rebuild(client: Client, index: dict[str, str]) -> None:
    answer = client.call("Foldb_20261121.Rebuild", _NAMED | index)
    while answer["Status"] == "RUNNING":
        answer = client.call("Foldb_20261121.Rebuild", _NAMED | {"Id": answer["Id"]})
    if not answer["Same"]:
        raise SystemExit("rebuild: the table is not what its log says")


def _beside_puts(client: Client, operation: Operation) -> None:
    """Run an operation while another connection writes."""
    done = threading.Event()

    def write() -> None:
        with Client(client.url) as own:
            number = 0
            while not done.is_set():
                number += 1
                own.call("PutItem", _put(number % 20_000 + 1))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        operation(client)
    finally:
        done.set()
        writer.join()


def _delete_table(client: Client) -> str:
    """Delete the table, and return the position before it."""
    position: str = client.call("Foldb_20261121.Status", {})["Position"]
    client.call("DeleteTable", _NAMED)
    return position


def _foldb(folder: Path, *arguments: str) -> None:
    done = subprocess.run(  # noqa: S603 -- our own command
        [*foldb_command(), *arguments, "--db", str(folder / "data")],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"foldb {' '.join(arguments)}: {done.stderr}")


# The server under test


class _Probe:
    """The child process. It answers each line on its standard input with the longest turn since the last line."""

    def __init__(self, process: "subprocess.Popen[str]", port: int) -> None:
        self._process = process
        self.url = f"http://127.0.0.1:{port}"

    def longest_ms(self) -> float:
        """Return the milliseconds of the longest turn since the last call."""
        return self._ask("longest\n")

    def stop(self) -> float:
        """Stop the server, and return the milliseconds of the longest turn of the stop."""
        longest = self._ask("stop\n")
        self._process.wait(timeout=300)
        return longest

    def _ask(self, line: str) -> float:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(line)
        stdin.flush()
        answer = stdout.readline()
        if not answer:
            raise SystemExit("turns: the server has ended")
        return float(answer)


@contextmanager
def _served(folder: Path, port: int) -> Iterator[_Probe]:
    process = subprocess.Popen(  # noqa: S603 -- our own command
        [sys.executable, "-m", "benchmarks.turns", str(folder / "data"), str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    probe = _Probe(process, port)
    try:
        probe.longest_ms()
        yield probe
    finally:
        process.terminate()
        process.communicate(timeout=60)


class _Turns:
    """A measurement of the turns of the loop that creates it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._last = time.thread_time()
        self._longest = 0.0
        self.tick()

    def tick(self) -> None:
        """Measure the turn that ended, and again in a millisecond."""
        self._look()
        self._loop.call_later(_TICK_S, self.tick)

    def report(self) -> None:
        """Print the longest turn, and start again."""
        self._look()
        print(f"{1000 * self._longest:.3f}", flush=True)
        self._longest = 0.0

    def _look(self) -> None:
        now = time.thread_time()
        self._longest = max(self._longest, now - self._last)
        self._last = now


async def _serve(path: Path, port: int) -> None:
    loop = asyncio.get_running_loop()
    serving = Serving(Settings(path=path, port=port), loop)
    await serving.start()
    turns = _Turns(loop)

    def listen() -> None:
        for line in sys.stdin:
            if line == "stop\n":
                break
            loop.call_soon_threadsafe(turns.report)
        loop.call_soon_threadsafe(serving.stopped.set)

    threading.Thread(target=listen, daemon=True).start()
    await serving.stopped.wait()
    await serving.stop()
    turns.report()


if __name__ == "__main__":
    with short_pauses(), asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_serve(Path(sys.argv[1]), int(sys.argv[2])))
