"""Measure rates, latencies and processor time by size of item and of batch, for each build.

The builds take turns at each size, so their ratio holds on a shared machine. The processor time is that of the whole
server process, kernel included. docs/performance.md has the figures.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product

from . import load
from .options import Options
from .peers import Running, foldb_peers, running
from .requests import Client
from .tables import show

CONNECTIONS = 32
KEYS = 50
"""Collections of twenty items: at 64 KB they take 64 MB."""
ITEM_BYTES = (200, 1_000, 4_000, 64_000)
BATCHES = (1, 5, 25)
_NO_SNAPSHOTS = ("--snapshot-every", "0")  # one of a second or two would hit a few rows by chance
_NAMES = {
    "fresh": "PutItem",
    "get": "GetItem",
    "update": "conditional UpdateItem",
    "query": "Query of 20",
    "write": "BatchWriteItem",
}


def measure(options: Options) -> None:
    """Print a table by size of item, and one by size of batch."""
    with ExitStack() as stack:
        servers = {
            peer.name: stack.enter_context(running(peer, options.port + place))
            for place, peer in enumerate(foldb_peers(*_NO_SNAPSHOTS))
        }
        for server in servers.values():
            with Client(server.url) as client:
                client.fill(KEYS)
        columns = ["", "items of bytes", "server", "requests/s", "p50 ms", "p99 ms", "server's us"]
        show(f"by size of item, {CONNECTIONS} connections", columns, list(_by_item(servers, options)))
        columns = ["", "items", "server", "items/s", "p50 ms", "p99 ms", "server's us an item"]
        show(f"by size of batch, {CONNECTIONS} connections", columns, list(_by_batch(servers, options)))


def _by_item(servers: dict[str, Running], options: Options) -> Iterator[list[str]]:
    for size, operation in product(ITEM_BYTES, ("fresh", "get", "update", "query")):
        note = size - 100
        for server in servers.values():
            with Client(server.url) as client:
                client.put_all(KEYS, note)
        for name, rate in _in_turn(servers, operation, options, note).items():
            yield [_NAMES[operation], f"{size:,}", name, *_figures(rate, 1)]


def _by_batch(servers: dict[str, Running], options: Options) -> Iterator[list[str]]:
    for batch in BATCHES:
        operation = f"write{batch}"
        for name, rate in _in_turn(servers, operation, options, note=100).items():
            yield [_NAMES["write"], f"{batch}", name, *_figures(rate, batch)]


def _in_turn(
    servers: dict[str, Running], operation: str, options: Options, note: int
) -> dict[str, load.Rate]:
    """Return each server's median rate."""
    rates: dict[str, list[load.Rate]] = {name: [] for name in servers}
    for _ in range(options.rounds):
        for name, server in servers.items():
            rate = load.measured(
                server, operation, keys=KEYS, seconds=options.seconds, connections=CONNECTIONS, note=note
            )
            rates[name].append(rate)
    return {name: load.median(rates[name]) for name in servers}


def _figures(rate: load.Rate, items: int) -> list[str]:
    return [
        f"{rate.requests * items:,.0f}",
        f"{rate.p50:.2f}",
        f"{rate.p99:.2f}",
        f"{rate.cpu_us / items:,.0f}",
    ]
