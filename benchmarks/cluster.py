"""Measure requests per second over HTTP with the log in Kafka, for one, two and four partitions with a node for each.

Broker, nodes and clients share the processors of this machine. So the figures show when these are saturated, and the
cost of a partition on another node. With N nodes, one of N requests reaches the owner directly.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from . import load
from .kafka import broker
from .options import Options
from .peers import foldb_with, running
from .requests import Client
from .tables import show

OPERATIONS = {"put": "PutItem", "get": "GetItem", "update": "conditional UpdateItem"}


def measure(options: Options) -> None:
    """Print one table: a folder, then Kafka with a growing number of nodes."""
    with broker() as address:
        if address is None:
            print("\ncluster: skipped, because Kafka needs Java and Maven")
            return
        rows = list(_measure(options, address))
    columns = ["connections", "", *OPERATIONS.values(), "p99 ms of a put", "a put beside the folder's"]
    show("cluster: requests a second over HTTP, a node for each partition", columns, rows)


def _measure(options: Options, address: str) -> Iterator[list[str]]:
    layouts: dict[str, tuple[int, str | None]] = {"a folder": (1, None)}
    layouts |= {f"Kafka, {count}": (count, f"kafka://{address}/bench{count}") for count in options.nodes}
    found: dict[tuple[int, str], dict[str, load.Rate]] = {}
    for place, (name, (count, log)) in enumerate(layouts.items()):
        with _nodes(count, log, options.port + 10 * place) as urls:
            with Client(urls[0]) as client:
                client.fill(options.keys)
            for connections in options.connections:
                found[connections, name] = {
                    operation: _median(urls, operation, options, connections) for operation in OPERATIONS
                }
    for connections in options.connections:
        folder = found[connections, "a folder"]["put"].requests
        for name in layouts:
            rates = found[connections, name]
            yield [
                str(connections),
                name,
                *(f"{rates[operation].requests:,.0f}" for operation in OPERATIONS),
                f"{rates['put'].p99:.2f}",
                f"{rates['put'].requests / folder:.2f}",
            ]


@contextmanager
def _nodes(count: int, log: str | None, port: int) -> Iterator[list[str]]:
    with ExitStack() as stack:
        options = [] if log is None else ["--log", log, "--partitions", str(count)]
        peer = foldb_with(*options)
        yield [stack.enter_context(running(peer, port + nth)).url for nth in range(count)]


def _median(urls: list[str], operation: str, options: Options, connections: int) -> load.Rate:
    return load.median([_together(urls, operation, options, connections) for _ in range(options.rounds)])


def _together(urls: list[str], operation: str, options: Options, connections: int) -> load.Rate:
    """Measure all connections at once, spread over at most as many nodes as connections."""
    asked = urls[:connections]

    def one(url: str) -> load.Rate:
        return load.rate(
            url, operation, keys=options.keys, seconds=options.seconds, connections=connections // len(asked)
        )

    with ThreadPoolExecutor(len(asked)) as threads:
        rates = list(threads.map(one, asked))
    return load.Rate(
        sum(rate.requests for rate in rates), max(rate.p50 for rate in rates), max(rate.p99 for rate in rates)
    )
