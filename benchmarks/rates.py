"""Measure requests per second and their p99, single and in batches, beside dynoxide in memory and on a file.

For each kind of request the servers take turns, each on its own data, and the medians are compared: on a shared machine
the ratios of one run are meaningful, and the rates of two runs are not. foldb acknowledges a write when it is on the
disk; dynoxide in memory never writes to a disk. Processor time is that of a request: foldb uses one core, and dynoxide
several.
"""

from collections.abc import Iterator
from contextlib import ExitStack

from . import load
from .options import Options
from .peers import COMPILED, IN_MEMORY, ON_A_FILE, OURS, Running, dynoxide_peers, foldb_peers, running
from .requests import Client
from .tables import at_least, show

# The least ratio to the rate of each peer, at GOAL_CONNECTIONS, by build.
GOALS: dict[str, dict[str, dict[str, float]]] = {
    OURS: {
        "put": {IN_MEMORY: 2.5, ON_A_FILE: 5},
        "get": {IN_MEMORY: 1.5},
        "update": {IN_MEMORY: 3},
        "query": {IN_MEMORY: 6},
        "write25": {IN_MEMORY: 3},
    },
    COMPILED: {
        "put": {IN_MEMORY: 3, ON_A_FILE: 6},
        "get": {IN_MEMORY: 1.5},
        "update": {IN_MEMORY: 3.2},
        "query": {IN_MEMORY: 6},
        "write25": {IN_MEMORY: 4},
    },
}
GOAL_CONNECTIONS = 32
# Half of the connections repeat the first request, which is measured, and half the second.
_BESIDE = {"put-get": ("put", "get"), "get-put": ("get", "put")}
BATCH = 25
NAMES = {
    "put": "PutItem",
    "put-get": "PutItem, half of the connections get",
    "get-put": "GetItem, half of the connections put",
    "get": "GetItem",
    "update": "conditional UpdateItem",
    "query": "Query of 20",
    "write25": "BatchWriteItem of 25",
    "get25": "BatchGetItem of 25",
}


def measure(options: Options) -> None:
    """Print the tables of single requests, one for each number of connections."""
    with ExitStack() as stack:
        servers = _start(stack, options)
        for connections in options.connections:
            _compare(
                f"{connections} connections",
                ("put", "get", "update", "query", *_BESIDE),
                servers,
                options,
                connections,
            )


def measure_batches(options: Options) -> None:
    """Print the table of batches, and their gain over single requests."""
    with ExitStack() as stack:
        rates = _compare(
            f"batches, {GOAL_CONNECTIONS} connections",
            ("put", "write25", "get", "get25"),
            _start(stack, options),
            options,
            GOAL_CONNECTIONS,
        )
    rows = []
    for name, single, batch in (("writes", "put", "write25"), ("reads", "get", "get25")):
        alone = rates[single][OURS].requests
        together = BATCH * rates[batch][OURS].requests
        rows.append([name, f"{alone:,.0f}", f"{together:,.0f}", f"{together / alone:.2f}"])
    show("a batch beside single requests", ["items a second", "single", "in batches", "ratio"], rows)


def _start(stack: ExitStack, options: Options) -> dict[str, Running]:
    """Start every peer, with the same items."""
    servers = {}
    for place, peer in enumerate([*foldb_peers(), *dynoxide_peers()]):
        servers[peer.name] = stack.enter_context(running(peer, options.port + place))
        with Client(servers[peer.name].url) as client:
            client.fill(options.keys)
    return servers


def _compare(
    title: str,
    operations: tuple[str, ...],
    servers: dict[str, Running],
    options: Options,
    connections: int,
) -> dict[str, dict[str, load.Rate]]:
    """Measure, print a table, and return medians by operation and server."""
    medians = {operation: _medians(operation, servers, options, connections) for operation in operations}
    columns = ["", "server", "requests/s", "p99 ms", "processor us", IN_MEMORY, ON_A_FILE]
    rows = [row for operation in operations for row in _rows(operation, medians[operation], connections)]
    show(title, columns, rows)
    return medians


def _medians(
    operation: str, servers: dict[str, Running], options: Options, connections: int
) -> dict[str, load.Rate]:
    found: dict[str, list[load.Rate]] = {name: [] for name in servers}
    for _ in range(options.rounds):
        for name, server in servers.items():
            found[name].append(_rate(operation, server, options, connections))
    return {name: load.median(rates) for name, rates in found.items()}


def _rate(operation: str, server: Running, options: Options, connections: int) -> load.Rate:
    if operation not in _BESIDE:
        return load.measured(
            server, operation, keys=options.keys, seconds=options.seconds, connections=connections
        )
    half = (connections + 1) // 2
    operation, other = _BESIDE[operation]
    with load.under_way(server.url, other, keys=options.keys, connections=half):
        return load.rate(server.url, operation, keys=options.keys, seconds=options.seconds, connections=half)


def _rows(operation: str, rates: dict[str, load.Rate], connections: int) -> Iterator[list[str]]:
    name = NAMES[operation]
    for server, rate in rates.items():
        ratios = ["", ""]
        if server in GOALS:
            goals = GOALS[server].get(operation, {}) if connections == GOAL_CONNECTIONS else {}
            ratios = [_beside(rate, rates.get(peer), goals.get(peer)) for peer in (IN_MEMORY, ON_A_FILE)]
        cpu = f"{rate.cpu_us:,.0f}" if rate.cpu_us else ""
        yield [name, server, f"{rate.requests:,.0f}", f"{rate.p99:.2f}", cpu, *ratios]
        name = ""


def _beside(ours: load.Rate, theirs: load.Rate | None, goal: float | None) -> str:
    """Return the ratio of the rates, and whether the p99 is lower."""
    if theirs is None:
        return "not here"
    ratio = ours.requests / theirs.requests
    shown = f"{ratio:.2f}" if goal is None else at_least(ratio, goal)
    return shown if ours.p99 < theirs.p99 else f"{shown}, p99 above"
