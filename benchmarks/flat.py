"""Measure whether the cost of a request depends on the size of the table.

Servers with a thousand to a million items run at the same time and take turns. The cost of a request is the processor
time of its server, which other programs affect less than the rate.
"""

from contextlib import ExitStack

from . import load, logs
from .options import Options
from .peers import FOLDB, Running, running, temporary_folder
from .rates import GOAL_CONNECTIONS, NAMES
from .requests import PER_COLLECTION, orders
from .tables import at_most, show

OPERATIONS = ("get", "query", "put")
GOAL = 1.2


def measure(options: Options) -> None:
    """Print microseconds per request for each size, and the ratio of the largest to the smallest."""
    with ExitStack() as stack:
        servers = {}
        for place, size in enumerate(options.sizes):
            folder = stack.enter_context(temporary_folder())
            logs.write(folder, logs.puts(orders(size // PER_COLLECTION)), options.port + place)
            servers[size] = stack.enter_context(running(FOLDB, options.port + place, folder))
        rows = [_row(operation, servers, options) for operation in OPERATIONS]
    columns = ["microseconds a request", *(f"{size:,} items" for size in options.sizes), "growth"]
    show(f"cost by size, {GOAL_CONNECTIONS} connections", columns, rows)


def _row(operation: str, servers: dict[int, Running], options: Options) -> list[str]:
    best = dict.fromkeys(servers, float("inf"))
    for _ in range(options.rounds):
        for size, server in servers.items():
            best[size] = min(best[size], _cost(operation, server, size, options))
    growth = best[options.sizes[-1]] / best[options.sizes[0]]
    return [NAMES[operation], *(f"{1e6 * cost:.1f}" for cost in best.values()), at_most(growth, GOAL)]


def _cost(operation: str, server: Running, size: int, options: Options) -> float:
    before = server.cpu_seconds()
    rate = load.rate(
        server.url,
        operation,
        keys=size // PER_COLLECTION,
        seconds=options.seconds,
        connections=GOAL_CONNECTIONS,
    )
    return (server.cpu_seconds() - before) / (rate.requests * options.seconds)
