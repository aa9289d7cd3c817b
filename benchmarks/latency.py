"""Measure the latency of one connection: of puts and gets beside dynoxide, and of gets beside the server's long work.

The client has one request in flight, so no request waits for another of its own. Short bursts take turns between the
servers, or between a server with and without other work, so that other programs disturb all of them alike.
"""

import contextlib
import http.client
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from foldb.materializer.os_process import start_helper_process
from foldb.materializer.snapshot_scheduler import COMMAND as SNAPSHOT
from foldb.materializer.snapshot_worker import SnapshotJob

from . import load, logs
from .lone import LoneClient, Timed, get, put
from .options import Options
from .peers import FOLDB, IN_MEMORY, ON_A_FILE, OURS, Running, dynoxide_peers, running, temporary_folder
from .requests import PER_COLLECTION, TABLE, Client, orders
from .tables import at_most, show

GOAL_PUT_P50 = 1.15
GOAL_GET_P99 = 1.2
GOAL_BESIDE_P99 = 3
_BURST = {"PutItem": 25, "GetItem": 100}
_BURSTS_A_SECOND = 20
_HISTORY = b"foldb.server.history.worker"
_NAMED: dict[str, Any] = {"TableName": "orders"}

# The work of a block. It yields a function that returns whether the work goes on.
Work: TypeAlias = Callable[[], AbstractContextManager[Callable[[], bool]]]


def measure(options: Options) -> None:
    """Print milliseconds: of lone requests, then of gets beside other work."""
    _measure_peers(options)
    _measure_beside(options)


def _measure_peers(options: Options) -> None:
    with ExitStack() as stack:
        servers = {}
        for place, peer in enumerate([FOLDB, *dynoxide_peers()]):
            servers[peer.name] = stack.enter_context(running(peer, options.port + place))
            with Client(servers[peer.name].url) as client:
                client.fill(options.keys)
        rows: list[list[str]] = []
        for name, operation in (("PutItem", put), ("GetItem", get)):
            clients = {
                peer: stack.enter_context(LoneClient(server.url, server.pid, operation, options.keys))
                for peer, server in servers.items()
            }
            rows += _compared(name, _in_turns(clients, _BURST[name], options))
    columns = ["", "server", "p50 ms", "foldb is at", "p99 ms", "foldb is at"]
    show("one connection", columns, rows)


def _in_turns(clients: dict[str, LoneClient], burst: int, options: Options) -> dict[str, list[Timed]]:
    """Return the requests, by server."""
    taken: dict[str, list[Timed]] = {peer: [] for peer in clients}
    for _ in range(_BURSTS_A_SECOND * options.seconds * options.rounds):
        for peer, client in clients.items():
            taken[peer] += client.send(burst)
    return taken


def _compared(name: str, taken: dict[str, list[Timed]]) -> Iterator[list[str]]:
    ours = _Figures.of(taken[OURS])
    yield [name, OURS, f"{ours.p50:.3f}", "", f"{ours.p99:.3f}", ""]
    for peer in (IN_MEMORY, ON_A_FILE):
        if peer not in taken:
            yield ["", peer, "not here", "", "", ""]
            continue
        theirs = _Figures.of(taken[peer])
        middle, tail = ours.p50 / theirs.p50, ours.p99 / theirs.p99
        yield [
            "",
            peer,
            f"{theirs.p50:.3f}",
            at_most(middle, GOAL_PUT_P50) if (name, peer) == ("PutItem", ON_A_FILE) else f"{middle:.2f}",
            f"{theirs.p99:.3f}",
            at_most(tail, GOAL_GET_P99) if name == "GetItem" else f"{tail:.2f}",
        ]


class _Figures(NamedTuple):
    """Percentiles in milliseconds. `p99_running` leaves out the time in which a thread waited for a core."""

    p50: float
    p99: float
    p99_running: float

    @classmethod
    def of(cls, taken: list[Timed]) -> "_Figures":
        elapsed, running = sorted(one.ms for one in taken), sorted(one.running_ms for one in taken)
        last = len(taken) * 99 // 100
        return cls(elapsed[len(taken) // 2], elapsed[last], running[last])


def _measure_beside(options: Options) -> None:
    keys = options.items // PER_COLLECTION
    with temporary_folder() as folder:
        logs.write(folder, logs.puts(orders(keys)), options.port)
        with (
            running(FOLDB, options.port, folder) as server,
            LoneClient(server.url, server.pid, get, keys) as client,
        ):
            works: dict[str, Work] = {
                "a Scan of all items": partial(_scanning, server, keys),
                "a new index that is filled": partial(_filling, server),
                "a snapshot": partial(_taking_snapshot, folder),
                "the history that is built": partial(_Following(server).following),
            }
            rows = [_beside(name, client, work, options) for name, work in works.items()]
    columns = [
        "GetItem beside",
        "p50 ms",
        "alone",
        "p99 ms",
        "alone",
        "ratio",
        "p99 running",
        "alone",
        "ratio",
    ]
    show(f"gets beside other work, {options.items:,} items, one connection", columns, rows)


def _beside(name: str, client: LoneClient, work: Work, options: Options) -> list[str]:
    alone: list[Timed] = []
    beside: list[Timed] = []
    for _ in range(2 * options.rounds):
        alone += _gets(client, options.seconds / 2, lambda: True)
        with work() as goes_on:
            beside += _gets(client, options.seconds / 2, goes_on)
    before, after = _Figures.of(alone), _Figures.of(beside)
    row = [name, f"{after.p50:.3f}", f"{before.p50:.3f}", f"{after.p99:.3f}", f"{before.p99:.3f}"]
    row.append(at_most(after.p99 / before.p99, GOAL_BESIDE_P99))
    row += [f"{after.p99_running:.3f}", f"{before.p99_running:.3f}"]
    return [*row, at_most(after.p99_running / before.p99_running, GOAL_BESIDE_P99)]


def _gets(client: LoneClient, seconds: float, goes_on: Callable[[], bool]) -> list[Timed]:
    """Return the gets, until the time or the work beside them ends."""
    taken: list[Timed] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and (goes_on() or not taken):
        taken += client.send(_BURST["GetItem"])
    return taken


@contextmanager
def _scanning(server: Running, keys: int) -> Iterator[Callable[[], bool]]:
    """Let another client read pages of a Scan, each as soon as it has the one before."""
    with load.under_way(server.url, "scan", keys=keys, connections=1):
        yield lambda: True


@contextmanager
def _filling(server: Running) -> Iterator[Callable[[], bool]]:
    """Add an index, and delete it at the end."""
    index = {
        "IndexName": "by_status",
        "KeySchema": [{"AttributeName": "status", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL"},
    }
    attributes = [*TABLE["AttributeDefinitions"], {"AttributeName": "status", "AttributeType": "S"}]
    with Client(server.url) as client:

        def is_active() -> bool:
            table = client.call("DescribeTable", _NAMED)["Table"]
            return all(one["IndexStatus"] == "ACTIVE" for one in table.get("GlobalSecondaryIndexes", []))

        def update(**action: Any) -> None:
            request = {**_NAMED, "AttributeDefinitions": attributes, "GlobalSecondaryIndexUpdates": [action]}
            client.call("UpdateTable", request)

        update(Create=index)
        yield lambda: not is_active()
        while not is_active():
            time.sleep(0.05)
        update(Delete={"IndexName": "by_status"})
        while not is_active():
            time.sleep(0.05)


@contextmanager
def _taking_snapshot(folder: Path) -> Iterator[Callable[[], bool]]:
    """Take a snapshot in a process of its own, as a server does. It is aborted if it takes longer than the block."""
    process = start_helper_process(SNAPSHOT, stdout=subprocess.DEVNULL)
    try:
        assert process.stdin is not None
        with process.stdin as stdin:
            stdin.write(SnapshotJob(str(folder / "data")).encode())
        yield lambda: process.poll() is None
    finally:
        process.kill()
        process.wait()


class _Following:
    """The history process of a server, which folds the log from its start. It is paused between two blocks."""

    def __init__(self, server: Running) -> None:
        self._server = server
        self._pid: int | None = None

    @contextmanager
    def following(self) -> Iterator[Callable[[], bool]]:
        if self._pid is None:
            self._pid = self._started()
        os.kill(self._pid, signal.SIGCONT)
        yield lambda: True
        os.kill(self._pid, signal.SIGSTOP)

    def _started(self) -> int:
        def read() -> None:
            with (
                contextlib.suppress(SystemExit, http.client.HTTPException),
                Client(self._server.url) as client,
            ):
                client.call("Scan", {"TableName": "orders@2", "Limit": 1})

        threading.Thread(target=read, daemon=True).start()
        while True:
            for pid in _children(self._server.pid):
                if _HISTORY in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
            time.sleep(0.01)


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]
