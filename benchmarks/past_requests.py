"""Measure reads of the past over HTTP, beside live ones, and the cost of a followed history for the server."""

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from foldb.log.local import LocalLog

from . import load, logs
from .cpu import KINDS
from .instructions import of_requests
from .options import Options
from .peers import FOLDB, Running, foldb_with, running, temporary_folder
from .requests import PER_COLLECTION, TABLE, Client, orders
from .tables import at_most, show

GOAL_PAGE_MS = 20
GOAL_FIRST_PAGE_MS = 300
GOAL_PUT = 1.02
GOAL_RESTORE_S = 3
_VERSIONS_PER_ITEM = 10
_PER_COLLECTION = 100
_REQUESTS = 500
_IN_A_TURN = 25
_EPOCHS = 32  # more than there are in the half of the log that is read
_RESTORES = ("first, which starts a history", "second")
_PARTITIONS = {1: "one partition", 4: "four partitions"}
_CONNECTIONS = 32
_AGO_S = 2
# Many short rounds in pairs: a shared machine changes its pace from one second to the next.
_PAIRS = 4
_PAIR_SECONDS = 1
_COMPARED = "alone, and beside a history that follows"
_BUSY = "alone, and beside a process that only counts"
_FOLLOWED = foldb_with("--history", name="followed")


def measure(options: Options) -> None:
    """Print milliseconds of requests by one client, and the processor time of a put."""
    with temporary_folder() as folder:
        items = max(_PER_COLLECTION, options.items // _VERSIONS_PER_ITEM)
        keys = list(orders(items // _PER_COLLECTION, _PER_COLLECTION))
        dice = random.Random(9)  # noqa: S311  the same load in each run
        logs.append(
            folder,
            chain([logs.table()], logs.changing_puts(keys * _VERSIONS_PER_ITEM, dice)),
            create=True,
        )
        positions = LocalLog.open_reader(folder / "data").end(0)
        with running(_FOLLOWED, options.port, folder) as server, Client(server.url) as client:
            _await_history(client, positions - 1)
            title = f"{len(keys) * _VERSIONS_PER_ITEM:,} versions of {len(keys):,} items, one connection, over HTTP"
            show(title, ["", "p50", "p99", ""], list(_reads(client, keys, positions, dice)))
    items = max(PER_COLLECTION, options.items // _VERSIONS_PER_ITEM)
    show(
        f"restore of {items:,} items as of {_AGO_S} s ago",
        ["", "until ACTIVE"],
        list(_restores(options, items)),
    )
    show(
        "processor time of the server a put, 32 connections", ["", "figure"], list(_processor_times(options))
    )
    show("instructions of the server a put, 32 connections", ["", "figure"], [_instructions(options)])


def pages(
    options: Options, folders: Mapping[int, Path], dice: random.Random
) -> dict[tuple[int, str], list[float]]:
    """Return the milliseconds of pages of 100 items of the first collections of folders, in each direction.

    A server of each folder answers some requests in turn, so that all share the load of the machine.
    """
    taken: dict[tuple[int, str], list[float]] = {}
    with ExitStack() as stack:
        servers = []
        for place, (versions, folder) in enumerate(folders.items()):
            server = stack.enter_context(running(_FOLLOWED, options.port + place, folder))
            client = stack.enter_context(Client(server.url))
            positions = LocalLog.open_reader(folder / "data").end(0)
            for nth in range(_EPOCHS, 0, -1):  # the first read of an epoch may build it
                _await_history(client, (positions - 1) * (_EPOCHS + nth) // (2 * _EPOCHS))
            servers.append((versions, client, positions))
        for _ in range(_REQUESTS // _IN_A_TURN):
            for versions, client, positions in servers:
                for name, forward in (("forward", True), ("backward", False)):

                    def query(positions: int = positions, forward: bool = forward) -> dict[str, Any]:
                        table = f"orders@{dice.randrange(positions // 2, positions)}"
                        return _query(table, "user#1") | {"ScanIndexForward": forward}

                    taken.setdefault((versions, name), []).extend(_timed(client, "Query", query, _IN_A_TURN))
    return taken


def _await_history(client: Client, position: int) -> None:
    """Wait until the history has folded the log."""
    while True:
        try:
            client.call("GetItem", _get(f"orders@{position}", ("user#1", "order#1")))
        except SystemExit:  # not folded yet
            continue
        return


def _reads(
    client: Client, keys: list[tuple[str, str]], positions: int, dice: random.Random
) -> Iterator[list[str]]:
    def cut() -> str:
        return f"orders@{dice.randrange(positions // 2, positions)}"

    def query(table: str) -> dict[str, Any]:
        return _query(table, dice.choice(keys)[0])

    def scan(table: str) -> dict[str, Any]:
        segment = dice.randrange(64)
        return {"TableName": table, "TotalSegments": 64, "Segment": segment, "Limit": 100}

    first = min(_timed(client, "Scan", lambda: {"TableName": cut()}, 5))
    yield [
        "first page of a Scan at a new cut",
        f"{first:.1f} ms",
        "",
        at_most(first, GOAL_FIRST_PAGE_MS, " ms"),
    ]
    gets: dict[str, Callable[[], dict[str, Any]]] = {
        "live": lambda: _get("orders", dice.choice(keys)),
        "past": lambda: _get(cut(), dice.choice(keys)),
    }
    taken: dict[str, list[float]] = {"live": [], "past": []}
    for _ in range(_REQUESTS):  # in turn, so that both share the load of the machine
        for name, request in gets.items():
            taken[name] += _timed(client, "GetItem", request, 1)
    live, past = median(taken["live"]), median(taken["past"])
    yield ["live GetItem", f"{live:.2f} ms", _p99(taken["live"]), ""]
    goal = round(live * 2 + 1, 2)
    yield ["past GetItem", f"{past:.2f} ms", _p99(taken["past"]), f"p50 {at_most(past, goal, ' ms')}"]
    for operation, request_of in (("Query", query), ("Scan", scan)):
        at_cuts = _timed(client, operation, lambda made=request_of: made(cut()), _REQUESTS)  # type: ignore[misc]
        slowest = quantiles(at_cuts, n=100)[98]
        yield [
            f"past {operation} of 100",
            f"{median(at_cuts):.2f} ms",
            _p99(at_cuts),
            f"p99 {at_most(slowest, GOAL_PAGE_MS, ' ms')}",
        ]


def _query(table: str, pk: str) -> dict[str, Any]:
    return {
        "TableName": table,
        "KeyConditionExpression": "pk = :p",
        "ExpressionAttributeValues": {":p": {"S": pk}},
        "Limit": 100,
    }


def _restores(options: Options, items: int) -> Iterator[list[str]]:
    for partitions, name in _PARTITIONS.items():
        rounds = [_restored(options, items, partitions) for _ in range(options.rounds)]
        for nth, seconds in zip(_RESTORES, zip(*rounds, strict=True), strict=True):
            yield [f"{name}, {nth}", at_most(round(median(seconds), 1), GOAL_RESTORE_S, " s")]


def _restored(options: Options, items: int, partitions: int) -> list[float]:
    """Return the seconds of restores by a new server."""
    peer = foldb_with("--partitions", str(partitions))
    with running(peer, options.port) as server, Client(server.url) as client:
        client.fill(items // PER_COLLECTION)
        time.sleep(_AGO_S)
        return [_restore(client, f"restored-{nth}") for nth in range(len(_RESTORES))]


def _restore(client: Client, target: str) -> float:
    """Return the seconds until a restored table is ACTIVE."""
    begin = time.perf_counter()
    restore = {"TableName": "orders", "AsOf": f"-{_AGO_S}s", "TargetTableName": target}
    client.call("Foldb_20261121.Restore", restore)
    client.wait_until_active(target)
    return time.perf_counter() - begin


def _timed(client: Client, operation: str, request: Callable[[], dict[str, Any]], count: int) -> list[float]:
    """Return the milliseconds of requests."""
    taken = []
    for _ in range(count):
        body = request()
        start = time.perf_counter()
        client.text(operation, body)
        taken.append((time.perf_counter() - start) * 1000)
    return taken


def _processor_times(options: Options) -> Iterator[list[str]]:
    """Compare the processor time of a put in two servers, one with a history that follows, and beside no part of foldb.

    The last shows what a busy core costs its neighbours on this machine, in caches and memory.
    """
    used: dict[str, list[float]] = {FOLDB.name: [], _FOLLOWED.name: [], _BUSY: []}
    with ExitStack() as stack:
        servers = {}
        for place, peer in enumerate((FOLDB, _FOLLOWED)):
            servers[peer.name] = stack.enter_context(running(peer, options.port + place))
            with Client(servers[peer.name].url) as client:
                client.fill(options.keys)
        for nth in range(options.rounds * _PAIRS):
            for name in list(servers)[:: 1 if nth % 2 else -1]:
                used[name].append(_processor_us(servers[name], options))
            with _counting():
                used[_BUSY].append(_processor_us(servers[FOLDB.name], options))
    alone = median(used[FOLDB.name])
    for name, title in (_FOLLOWED.name, _COMPARED), (_BUSY, _BUSY):
        ratio = median([b / a for a, b in zip(used[FOLDB.name], used[name], strict=True)])
        shown = at_most(ratio, GOAL_PUT) if name == _FOLLOWED.name else f"{ratio:.2f}"
        yield [title, f"{alone:.1f} us, {median(used[name]):.1f} us; {shown}"]


@contextmanager
def _counting() -> Iterator[None]:
    """Keep a core busy, without work for memory or disk."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _instructions(options: Options) -> list[str]:
    """Compare the instructions of a put in two servers, one with a history that follows.

    A server that shares its cores with clients and a history takes more processor time for the same instructions.
    """
    kinds = {"PutItem": KINDS["PutItem"]}
    plain, followed = (
        of_requests(kinds, flags, TABLE, options, options.port + place)["PutItem"]
        for place, flags in enumerate(([], ["--history"]))
    )
    return [_COMPARED, f"{plain:,.0f}, {followed:,.0f}; {at_most(followed / plain, GOAL_PUT)}"]


def _processor_us(server: Running, options: Options) -> float:
    return load.measured(
        server, "fresh", keys=options.keys, seconds=_PAIR_SECONDS, connections=_CONNECTIONS
    ).cpu_us


def _get(table: str, key: tuple[str, str]) -> dict[str, Any]:
    return {"TableName": table, "Key": {"pk": {"S": key[0]}, "sk": {"S": key[1]}}}


def _p99(taken: list[float]) -> str:
    return f"{quantiles(taken, n=100)[98]:.2f} ms"
