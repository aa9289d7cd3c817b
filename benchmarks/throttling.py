"""Measure the processor time that `foldb serve --throttle` adds to a request.

Two servers, with and without it, take turns, second by second, and the least time of each counts: other programs
disturb both alike. Their table has more throughput than the load, so no request is throttled. PYTHONPATH
selects another build:

    PYTHONPATH=build/compiled python -m benchmarks throttling
"""

from contextlib import ExitStack
from pathlib import Path

from foldb.version import build

from . import load
from .options import Options
from .peers import FOLDB, Peer, Running, running
from .requests import TABLE, Client
from .tables import at_most, show

GOAL = 1.05
_CONNECTIONS = 32
_UNITS = {"ReadCapacityUnits": 40_000, "WriteCapacityUnits": 40_000}
_TABLE = {**TABLE, "BillingMode": "PROVISIONED", "ProvisionedThroughput": _UNITS}
_NAMES = {"get": "GetItem", "put": "PutItem", "update": "conditional UpdateItem", "query": "Query of 20"}
_GOALS = ("get", "put")


def measure(options: Options) -> None:
    """Print the processor time of a request with and without throttling."""
    rows = []
    with ExitStack() as stack:
        servers = [
            stack.enter_context(running(peer, options.port + nth))
            for nth, peer in enumerate((FOLDB, Peer("throttled", _throttled)))
        ]
        for server in servers:
            with Client(server.url) as client:
                client.fill(options.keys, _TABLE)
        for operation, name in _NAMES.items():
            rounds = [
                [_cpu_us(server, operation, options) for server in servers]
                for _ in range(options.rounds * options.seconds)
            ]
            without, throttled = map(min, zip(*rounds, strict=True))
            ratio = throttled / without
            shown = at_most(ratio, GOAL) if operation in _GOALS else f"{ratio:.2f}"
            rows.append([name, f"{without:.1f}", f"{throttled:.1f}", shown])
    columns = ["", "CPU µs a request", "with --throttle", "ratio"]
    show(f"throttling, {_CONNECTIONS} connections, {build()} build", columns, rows)


def _throttled(port: int, folder: Path) -> list[str]:
    return [*FOLDB.command(port, folder), "--throttle"]


def _cpu_us(server: Running, operation: str, options: Options) -> float:
    """Return the processor time of one request in a second under load, in microseconds."""
    before = server.cpu_seconds()
    found = load.rate(server.url, operation, keys=options.keys, seconds=1, connections=_CONNECTIONS)
    return 1e6 * (server.cpu_seconds() - before) / found.requests
