"""Measure whether the cost of a request depends on the number of items, tables, indexes and connections.

Servers of several sizes run at the same time and take turns. The cost of a request is the processor time of its server,
which other programs affect less than the rate. A growth is the ratio of the largest size to the smallest.
"""

import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeAlias

import orjson

from foldb.log.commands import Command, DefineTable

from . import load, logs
from .options import Options
from .peers import FOLDB, Running, running, temporary_folder
from .rates import GOAL_CONNECTIONS, NAMES
from .requests import PER_COLLECTION, TABLE, Client, orders
from .tables import at_most, show

OPERATIONS = ("get", "query", "put")
GOAL = 1.2
LOCAL_INDEXES = 5
_PER_ROUND = 50  # requests of a kind about tables
_PAGES = 5
_POLL_S = 0.01

Costs: TypeAlias = dict[str, float]
"""Microseconds of processor time by the name of a row."""


def measure(options: Options) -> None:
    """Print the tables of items, tables, indexes and connections."""
    _measure_items(options)
    _measure_tables(options)
    _measure_indexes(options)
    _measure_connections(options)


def _least(
    costs: Callable[[Running], Costs], servers: Mapping[str, Running], rounds: int
) -> dict[str, Costs]:
    """Return the least of each cost by size; the servers take turns."""
    found: dict[str, Costs] = {size: {} for size in servers}
    for _ in range(rounds):
        for size, server in servers.items():
            for name, cost in costs(server).items():
                found[size][name] = min(cost, found[size].get(name, cost))
    return found


def _show(title: str, unit: str, found: Mapping[str, Costs], goal: float | None = None) -> None:
    first, *_, last = found.values()
    rows = []
    for name, cost in first.items():
        growth = last[name] / cost
        shown = f"{growth:.2f}" if goal is None else at_most(growth, goal)
        rows.append([name, *(f"{costs[name]:,.1f}" for costs in found.values()), shown])
    show(title, [unit, *found, "growth"], rows)


def _under(
    operation: str, server: Running, keys: int, seconds: int, connections: int = GOAL_CONNECTIONS
) -> load.Rate:
    return load.measured(server, operation, keys=keys, seconds=seconds, connections=connections)


# Items


def _measure_items(options: Options) -> None:
    keys: dict[str, int] = {}

    def costs(server: Running) -> Costs:
        loads = {each: _under(each, server, keys[server.url], options.seconds) for each in OPERATIONS}
        return {NAMES[operation]: each.cpu_us for operation, each in loads.items()}

    with ExitStack() as stack:
        servers = {}
        for place, size in enumerate(options.sizes):
            server = _serve(stack, options.port + place, TABLE, logs.puts(orders(size // PER_COLLECTION)))
            servers[f"{size:,} items"], keys[server.url] = server, size // PER_COLLECTION
        found = _least(costs, servers, options.rounds)
    _show(f"cost by items, {GOAL_CONNECTIONS} connections", "microseconds a request", found, GOAL)


def _serve(stack: ExitStack, port: int, table: dict[str, Any], commands: Iterator[Command]) -> Running:
    """Start a server with a table and the result of some commands."""
    folder = stack.enter_context(temporary_folder())
    logs.write(folder, commands, port, table)
    return stack.enter_context(running(FOLDB, port, folder))


# Tables


def _measure_tables(options: Options) -> None:
    with ExitStack() as stack:
        servers = {
            f"{count:,} tables": _serve(stack, options.port + place, TABLE, _more_tables(count - 1))
            for place, count in enumerate(options.tables)
        }
        starts = {size: 1e6 * server.cpu_seconds() for size, server in servers.items()}
        found = _least(_costs_of_tables, servers, options.rounds)
        seconds = 4 * options.seconds
        before = {size: server.cpu_seconds() for size, server in servers.items()}
        time.sleep(seconds)
        for size, server in servers.items():
            idle = 1e6 * (server.cpu_seconds() - before[size]) / seconds
            found[size] |= {"a second without requests": idle, "a start": starts[size]}
    _show("cost by tables, one connection", "microseconds", found)


def _more_tables(count: int) -> Iterator[Command]:
    for number in range(count):
        request = orjson.dumps({**TABLE, "TableName": f"table{number}"})
        yield DefineTable("CreateTable", 0, request, str(uuid.UUID(int=number)), logs.CONTEXT)


def _costs_of_tables(server: Running) -> Costs:
    names = [{"TableName": f"new{number}"} for number in range(_PER_ROUND)]
    stream = {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}}
    requests: dict[str, list[dict[str, Any]]] = {
        "CreateTable": [{**TABLE, **name} for name in names],
        "DescribeTable": names,
        "UpdateTable": [name | stream for name in names],
        "ListTables": [{}] * _PER_ROUND,
        "PutItem": [name | {"Item": {"pk": {"S": "user"}, "sk": {"S": "order"}}} for name in names],
        "DeleteTable": names,
    }
    with Client(server.url) as client:
        found = {}
        for operation, bodies in requests.items():
            found[operation] = _mean(server, [partial(client.text, operation, body) for body in bodies])
        return found | {"GET /metrics": _mean(server, [partial(_get, f"{server.url}/metrics")] * _PAGES)}


def _mean(server: Running, requests: list[Callable[[], object]]) -> float:
    """Return the microseconds of the server for each request."""
    before = server.cpu_seconds()
    for request in requests:
        request()
    return 1e6 * (server.cpu_seconds() - before) / len(requests)


def _get(url: str) -> None:
    with urllib.request.urlopen(url) as answer:  # noqa: S310 -- a loopback address
        answer.read()


# Indexes


def _measure_indexes(options: Options) -> None:
    """Print the cost of a put that changes all entries of its item. The last global index is added to a full table."""
    items = options.keys * PER_COLLECTION
    shapes = {f"{count} global": (count, 0) for count in options.indexes}
    shapes[f"{LOCAL_INDEXES} local"] = (0, LOCAL_INDEXES)
    with ExitStack() as stack:
        servers, backfills = {}, {}
        for place, (name, (count, local)) in enumerate(shapes.items()):
            table = _indexed(max(count - 1, 0), local)
            servers[name] = _serve(stack, options.port + place, table, logs.puts(orders(options.keys)))
            backfills[name] = f"{_backfill(servers[name], count - 1) / items:.1f}" if count else ""
        found = _least(
            lambda server: {"put": _under("fresh", server, options.keys, options.seconds).cpu_us},
            servers,
            options.rounds,
        )
    alone, *_ = [costs["put"] for costs in found.values()]
    rows = []
    for name, (count, local) in shapes.items():
        cost, indexes = found[name]["put"], count + local
        each = f"{(cost - alone) / indexes:.1f}" if indexes else ""
        rows.append([name, f"{cost:.1f}", f"{cost / alone:.2f}", each, backfills[name]])
    title = f"cost by indexes, {items:,} items, {GOAL_CONNECTIONS} connections"
    show(title, ["microseconds", "a put", "growth", "each index", "backfill of an item"], rows)


def _indexed(count: int, local: int) -> dict[str, Any]:
    """Return the request for the table with global and local indexes, each of all items."""
    table: dict[str, Any] = {**TABLE}
    if local:
        table["AttributeDefinitions"] = [
            *TABLE["AttributeDefinitions"],
            {"AttributeName": "note", "AttributeType": "S"},
        ]
        table["LocalSecondaryIndexes"] = [_index(f"local{each}", "pk", "note") for each in range(local)]
    if count:
        table["GlobalSecondaryIndexes"] = [_global_index(each) for each in range(count)]
    return table


def _index(name: str, partition: str, sort: str) -> dict[str, Any]:
    key = [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]
    return {"IndexName": name, "KeySchema": key, "Projection": {"ProjectionType": "ALL"}}


def _global_index(number: int) -> dict[str, Any]:
    return _index(f"global{number}", "sk", "pk")


def _backfill(server: Running, number: int) -> float:
    """Add a global index, and return the microseconds until it is ACTIVE."""
    update = {
        "TableName": "orders",
        "AttributeDefinitions": TABLE["AttributeDefinitions"],
        "GlobalSecondaryIndexUpdates": [{"Create": _global_index(number)}],
    }
    before = server.cpu_seconds()
    with Client(server.url) as client:
        client.call("UpdateTable", update)
        while any(
            index["IndexStatus"] != "ACTIVE"
            for index in client.call("DescribeTable", {"TableName": "orders"})["Table"][
                "GlobalSecondaryIndexes"
            ]
        ):
            time.sleep(_POLL_S)
    return 1e6 * (server.cpu_seconds() - before)


# Connections


def _measure_connections(options: Options) -> None:
    busy = [(f"{count:,} busy", 0, count) for count in (GOAL_CONNECTIONS, *options.many_connections)]
    idle = [(f"{count:,} idle", count, GOAL_CONNECTIONS) for count in options.many_connections]
    loads: dict[tuple[str, str], list[load.Rate]] = {}
    with ExitStack() as stack:
        server = _serve(stack, options.port, TABLE, logs.puts(orders(options.keys)))
        for _ in range(options.rounds):
            for name, unused, connections in (*busy, *idle):
                with _idle_connections(server, unused):
                    for operation in ("get", "put"):
                        done = _under(operation, server, options.keys, options.seconds, connections)
                        loads.setdefault((operation, name), []).append(done)
    rows = []
    for (operation, name), each in loads.items():
        cost = min(one.cpu_us for one in each)
        alone = min(one.cpu_us for one in loads[operation, busy[0][0]])
        p99 = min(one.p99 for one in each)
        rows.append([NAMES[operation], name, f"{cost:.1f}", f"{cost / alone:.2f}", f"{p99:.2f}"])
    title = f"cost by connections, idle ones beside {GOAL_CONNECTIONS} busy ones"
    show(title, ["", "connections", "microseconds a request", "growth", "p99 ms"], rows)


@contextmanager
def _idle_connections(server: Running, count: int) -> Iterator[None]:
    """Keep connections open that have had one request each."""
    with ExitStack() as stack:
        for _ in range(count):
            client = stack.enter_context(Client(server.url))
            client.text("DescribeTable", {"TableName": "orders"})
        yield
