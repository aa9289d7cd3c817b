"""Count the instructions that `foldb serve --throttle` adds to a request.

Each of 32 connections sends a request, and waits until all are answered. Their table has more throughput than the
load, so no request is throttled. PYTHONPATH selects another build:

    PYTHONPATH=build/compiled python -m benchmarks throttling
"""

import socket
from contextlib import ExitStack

from foldb.version import build

from .cpu import CONNECTIONS, KINDS
from .instructions import answer, count, require_valgrind, under_valgrind
from .options import Options
from .peers import FOLDB, Peer, running, temporary_folder
from .requests import TABLE, Client, orders
from .tables import at_most, show

GOAL = 1.05
_UNITS = {"ReadCapacityUnits": 40_000, "WriteCapacityUnits": 40_000}
_TABLE = {**TABLE, "BillingMode": "PROVISIONED", "ProvisionedThroughput": _UNITS}
_COLLECTIONS = 200  # a server takes fifty times as long under valgrind
_TURNS = 30


def measure(options: Options) -> None:
    """Print the instructions of a request with and without throttling."""
    require_valgrind()
    plain, throttled = (
        _instructions(flags, options.port + place, options)
        for place, flags in enumerate(([], ["--throttle"]))
    )
    rows = [
        [name, f"{plain[name]:,.0f}", f"{throttled[name]:,.0f}", at_most(throttled[name] / plain[name], GOAL)]
        for name in KINDS
    ]
    columns = ["", "instructions a request", "with --throttle", "ratio"]
    show(f"throttling, {CONNECTIONS} connections, {build()} build", columns, rows)


def _instructions(flags: list[str], port: int, options: Options) -> dict[str, float]:
    """Return the instructions of a request to a server with these options, by the kind of request."""
    collections = min(options.keys, _COLLECTIONS)
    keys = list(orders(collections))
    found = {}
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        peer = Peer(FOLDB.name, lambda port, data: [*FOLDB.command(port, data), *flags])
        server = stack.enter_context(running(under_valgrind(peer, folder), port, folder))
        with Client(server.url) as client:
            client.fill(collections, _TABLE)
        sockets = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(CONNECTIONS)
        ]
        for name, make in KINDS.items():
            requests = [make(*keys[place * 7919 % len(keys)]) for place in range(_TURNS * CONNECTIONS)]
            answer(sockets, requests)
            count(server, folder)
            answer(sockets, requests * options.rounds)
            found[name] = count(server, folder) / len(requests) / options.rounds
    return found
