"""Measure the change feed and triggers: read rate, delivery rate, latency, and their cost for writers.

    read         GetRecords by one reader that is far behind, over one connection
    delivered    into a Python function that receives batches, from the trim horizon on
    latency      from an acknowledged put to the first line of the function, for puts one after another
    writers      puts per second, and the server's processor time per put, with no reader, one reader, eight readers, a
                 trigger of an empty function and a stuck trigger, in turn (also as the part `readers`)
    records      the server's time per record that eight readers read one after another, on a short and a long stream

Readers of new changes poll four times a second, as Lambda polls a shard, and read on while pages are full.
`readers-instructions` (readers.py) counts their cost exactly.

Ratios are from one run, in which the variants alternate, so that other load on the machine affects all alike. Readers
and the processes of triggers share caches and cores with the server: "another process" shows that share of their cost.
"""

import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from . import load
from .options import Options
from .peers import Peer, Running, foldb_with, running, temporary_folder
from .requests import PER_COLLECTION, TABLE, Client, item, orders
from .tables import at_least, at_most, show

GOAL_READ = 20_000
GOAL_DELIVERED = 10_000
GOAL_WRITERS = 0.95
GOAL_ONE = 1.05  # the server's processor time per put, beside that without a reader
GOAL_MORE = 1.1
_STREAMED = TABLE | {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}}
_STREAMS = "DynamoDBStreams_20120810"
_BATCH = 1000
_READERS = 8
FULL = 1000
_PAUSE_S = 0.25
_NEXT = re.compile(rb'"NextShardIterator":"([^"]+)"')

_FUNCTION = """
import json, os, time
from foldb import Change

OUT = os.open({out!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

def count(changes: list[Change]) -> None:
    os.write(OUT, f"{{time.monotonic()}} {{len(changes)}}\\n".encode())

def note(change: Change) -> None:
    os.write(OUT, f"{{time.monotonic()}} {{change.keys['pk']}}\\n".encode())

def empty(changes: list[Change]) -> None:
    pass

def stuck(changes: list[Change]) -> None:
    time.sleep(3600)
"""


def measure(options: Options) -> None:
    """Print the rates, the latency, and the cost of readers."""
    with served(options) as server:
        rows = [_reading(server, options), _delivering(server, options)]
    show("feed: changes a second", ["", "changes/s", "goal", "server's us a change"], rows)
    with served(options) as server:
        show(
            "feed: from an acknowledged put to the function",
            ["", "p50 ms", "p99 ms"],
            [_latency(server, options.keys // 4)],
        )
    measure_readers(options)


@dataclass
class Served:
    """A server with a folder of triggers. Their functions write to `out`. `folder` has the data and more."""

    running: Running
    client: Client
    out: Path
    folder: Path

    def call(self, operation: str, **request: Any) -> Any:
        """Send a request."""
        return self.client.call(operation, request)

    def function(self, name: str) -> dict[str, Any]:
        """Return a function as a sink, and clear its output."""
        self.out.write_bytes(b"")
        return {"Kind": "python", "Function": f"measured:{name}"}

    def subscribe(self, name: str, function: str, **settings: Any) -> None:
        """Create a trigger of the orders."""
        sink = self.function(function)
        self.call(
            "Foldb_20261121.CreateSubscription", Name=name, TableNames=["orders"], Sink=sink, **settings
        )

    def wait_for_triggers(self) -> None:
        """Wait until all triggers have handled all changes."""
        self.call("Foldb_20261121.WaitForTriggers", TimeoutMs=50_000)

    def lines(self) -> list[list[str]]:
        """Return the lines that functions wrote, split into words."""
        data = self.out.read_bytes()
        return [line.split() for line in data[: data.rfind(b"\n") + 1].decode().splitlines()]

    @property
    def arn(self) -> str:
        """Return the stream of the orders."""
        return str(self.call("DescribeTable", TableName="orders")["Table"]["LatestStreamArn"])


@contextmanager
def served(
    options: Options, *, filled: bool = True, wrapped: Callable[[Peer, Path], Peer] = lambda peer, _: peer
) -> Iterator[Served]:
    """Run a server with a table that has a stream. `wrapped` returns another peer for one and a folder."""
    with temporary_folder() as folder, ExitStack() as stack:
        triggers = folder / "triggers"
        triggers.mkdir()
        out = folder / "out"
        (triggers / "measured.py").write_text(_FUNCTION.format(out=str(out)))
        peer = foldb_with("--triggers", str(triggers))
        server = stack.enter_context(running(wrapped(peer, folder), options.port, folder))
        client = stack.enter_context(Client(server.url))
        client.call("CreateTable", _STREAMED)
        client.wait_until_active("orders")
        if filled:
            _fill(client, options.keys)
        yield Served(server, client, out, folder)


def _fill(client: Client, keys: int) -> None:
    puts = [{"PutRequest": {"Item": item(*key)}} for key in orders(keys)]
    for start in range(0, len(puts), 25):
        client.call("BatchWriteItem", {"RequestItems": {"orders": puts[start : start + 25]}})


def _reading(server: Served, options: Options) -> list[str]:
    """Return the median rate of several readers, one after another, that read all records."""
    rates, before = [], server.running.cpu_seconds()
    total = options.keys * PER_COLLECTION
    for _ in range(options.rounds):
        reader = Reader(server, "TRIM_HORIZON")
        start = time.perf_counter()
        while reader.read < total:
            reader.page()
        rates.append(reader.read / (time.perf_counter() - start))
        reader.close()
    cost = (server.running.cpu_seconds() - before) / (total * options.rounds)
    return _row("read by GetRecords", statistics.median(rates), cost, GOAL_READ)


class Reader:
    """A reader of the stream's only shard. `read` counts records; it parses as little of a page as possible."""

    def __init__(self, server: Served, kind: str) -> None:
        self.read = 0
        self._client = Client(server.running.url)
        shard = self._ask("DescribeStream", StreamArn=server.arn)["StreamDescription"]["Shards"][-1]
        where = {"StreamArn": server.arn, "ShardId": shard["ShardId"], "ShardIteratorType": kind}
        self._at = self._ask("GetShardIterator", **where)["ShardIterator"]

    def page(self) -> int:
        """Read one page, and return its number of records."""
        page = self._client.text(f"{_STREAMS}.GetRecords", {"ShardIterator": self._at, "Limit": 1000})
        found = _NEXT.search(page, max(0, len(page) - 4096)) or _NEXT.search(page)
        if found is None:
            raise SystemExit("benchmarks: the shard has come to its end")
        self._at = found[1].decode()
        count = page.count(b'"eventID"')
        self.read += count
        return count

    def close(self) -> None:
        """Close the connection."""
        self._client.__exit__()

    def _ask(self, operation: str, **request: Any) -> Any:
        return self._client.call(f"{_STREAMS}.{operation}", request)


@contextmanager
def _following(server: Served, count: int) -> Iterator[list[Reader]]:
    """Run N readers of the newest changes, each with Lambda's pause between two pages."""
    stopped = threading.Event()
    readers = [Reader(server, "LATEST") for _ in range(count)]

    def follow(reader: Reader) -> None:
        while not stopped.is_set():
            if reader.page() < FULL:
                stopped.wait(_PAUSE_S)

    threads = [threading.Thread(target=follow, args=(reader,)) for reader in readers]
    for thread in threads:
        thread.start()
    try:
        yield readers
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
        for reader in readers:
            reader.close()


def _delivering(server: Served, options: Options) -> list[str]:
    """Measure from the end of the first batch, when the worker process runs, to the end of the last."""
    rates, before = [], server.running.cpu_seconds()
    total = options.keys * PER_COLLECTION
    for number in range(options.rounds):
        name = f"count{number}"
        server.subscribe(name, "count", Start={"At": "HORIZON"}, BatchSize=min(_BATCH, total // 10))
        while sum(int(count) for _, count in server.lines()) < total:
            time.sleep(0.01)
        lines = server.lines()
        took = float(lines[-1][0]) - float(lines[0][0])
        rates.append((total - int(lines[0][1])) / took)
        server.call("Foldb_20261121.RemoveSubscription", Name=name)
    cost = (server.running.cpu_seconds() - before) / (total * options.rounds)
    return _row("into a Python function", statistics.median(rates), cost, GOAL_DELIVERED)


def _row(name: str, rate: float, cost: float, goal: float) -> list[str]:
    against = f"{at_least(rate / goal, 1)} of {goal:,}"
    return [name, f"{rate:,.0f}", against, f"{1e6 * cost:.1f}"]


def _latency(server: Served, puts: int) -> list[str]:
    """Measure latency. Both timestamps are from this machine's clock."""
    server.subscribe("note", "note", BatchSize=1)
    server.call("PutItem", TableName="orders", Item=item("first", "order#1"))
    while not server.lines():  # the function's process has started
        time.sleep(0.01)
    server.out.write_bytes(b"")
    acknowledged: dict[str, float] = {}
    for number in range(puts):
        pk = f"timed#{number}"
        server.call("PutItem", TableName="orders", Item=item(pk, "order#1"))
        acknowledged[pk] = time.monotonic()
    while len(server.lines()) < puts:
        time.sleep(0.01)
    took = sorted((float(at) - acknowledged[pk]) * 1000 for at, pk in server.lines())
    cuts = [took[int(len(took) * share)] for share in (0.50, 0.99)]
    server.call("Foldb_20261121.RemoveSubscription", Name="note")
    return [f"{puts} puts, one at a time", *(f"{each:.2f}" for each in cuts)]


_BURN = """
import time, zlib

data = bytes(100_000)
while True:
    end = time.perf_counter() + 0.002
    while time.perf_counter() < end:
        zlib.crc32(data)
    time.sleep(0.004)
"""


@dataclass(frozen=True)
class Round:
    """The figures of one round: puts per second, server time per put, and the records of each reader."""

    puts: float
    p99: float
    cpu_us: float
    read: float


@dataclass(frozen=True)
class Variant:
    """What reads the changes while puts are measured, and the goal for the processor time per put."""

    name: str
    readers: int = 0
    function: str | None = None
    goal: float | None = None
    is_burning: bool = False


_ALONE = Variant("no reader")
VARIANTS = (
    _ALONE,
    Variant("no reader, another process", is_burning=True),
    Variant("one reader", 1, goal=GOAL_ONE),
    Variant(f"{_READERS} readers", _READERS, goal=GOAL_MORE),
    Variant("a trigger: an empty function", function="empty", goal=GOAL_MORE),
    Variant("a trigger: a stuck function", function="stuck"),
)


def measure_readers(options: Options) -> None:
    """Measure puts beside readers, then records without other load."""
    _measure_puts(options)
    _measure_records(options)


def _measure_records(options: Options) -> None:
    """Let readers at the end of a stream read the same new records, one reader after another."""
    rows = []
    with ExitStack() as stack:
        for place, keys in enumerate((FULL // PER_COLLECTION, options.keys)):
            server = stack.enter_context(served(replace(options, keys=keys, port=options.port + place)))
            found = [_read_new(server, number) for number in range(5 * options.rounds)]
            first, further = (1e6 * statistics.median(costs) for costs in zip(*found, strict=True))
            rows.append([f"{keys * PER_COLLECTION:,} changes before", f"{first:.2f}", f"{further:.2f}"])
    show("feed: server's us a record", ["", "the first reader", "each further reader"], rows)


def _read_new(server: Served, number: int) -> tuple[float, float]:
    """Return the processor seconds of a new record: for the first reader, and for each of seven others."""
    readers = [Reader(server, "LATEST") for _ in range(_READERS)]
    count = {"count": {"N": str(number)}}
    puts = [{"PutRequest": {"Item": item(f"new#{nth}", "order#1") | count}} for nth in range(1, FULL + 1)]
    for start in range(0, len(puts), 25):
        server.call("BatchWriteItem", RequestItems={"orders": puts[start : start + 25]})
    costs = []
    for reader in readers:
        before = _loop_seconds(server)
        while reader.read < FULL:
            reader.page()
        costs.append((_loop_seconds(server) - before) / FULL)
        reader.close()
    return costs[0], statistics.mean(costs[1:])


def _loop_seconds(server: Served) -> float:
    """Return the processor time of the server's event loop, which is its main thread, to the nanosecond."""
    return int(Path(f"/proc/{server.running.pid}/schedstat").read_text().split()[0]) / 1e9


def _measure_puts(options: Options) -> None:
    """Measure each variant on a server of its own. The variants alternate, round by round, after one of a second."""
    found: dict[Variant, list[Round]] = {variant: [] for variant in VARIANTS}
    connections = options.connections[min(1, len(options.connections) - 1)]
    with ExitStack() as stack:
        servers = {
            variant: stack.enter_context(served(replace(options, port=options.port + place), filled=False))
            for place, variant in enumerate(VARIANTS)
        }
        for variant, server in servers.items():
            if variant.function is not None:
                server.subscribe(variant.function, variant.function)
            _round(server, variant, replace(options, seconds=1), connections)
        for _ in range(options.rounds):
            for variant, server in servers.items():
                found[variant].append(_round(server, variant, options, connections))
    alone = found[_ALONE]
    rows = []
    for variant, rounds in found.items():
        puts, p99, cpu, read = (_median(rounds, each) for each in ("puts", "p99", "cpu_us", "read"))
        ratio = "" if variant is _ALONE else at_least(puts / _median(alone, "puts"), GOAL_WRITERS)
        # Of the same round: the speed of a shared machine changes from round to round.
        cost = statistics.median(
            one.cpu_us / before.cpu_us for one, before in zip(rounds, alone, strict=True)
        )
        shown = f"{cost:.2f}" if variant.goal is None else at_most(cost, variant.goal)
        rows.append([variant.name, f"{puts:,.0f}", ratio, f"{p99:.2f}", f"{cpu:.0f}", shown, f"{read:,.0f}"])
    columns = ["", "puts/s", "ratio", "p99 ms", "server's us a put", "ratio", "each reader's changes/s"]
    show(f"feed: puts beside readers, {connections} connections", columns, rows)


def _round(server: Served, variant: Variant, options: Options, connections: int) -> Round:
    with _following(server, variant.readers) as following, _burning(variant.is_burning):
        before, start = server.running.cpu_seconds(), time.perf_counter()
        rate = load.rate(
            server.running.url, "fresh", keys=options.keys, seconds=options.seconds, connections=connections
        )
        took = time.perf_counter() - start
        cpu = server.running.cpu_seconds() - before
        read = statistics.mean(reader.read for reader in following) / took if following else 0.0
    return Round(rate.requests, rate.p99, 1e6 * cpu / (rate.requests * options.seconds), read)


@contextmanager
def _burning(is_wanted: bool) -> Iterator[None]:
    """Run a process that uses a third of a processor, as the worker process of a trigger does."""
    if not is_wanted:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", _BURN])  # noqa: S603 -- our own program
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _median(rounds: list[Round], name: str) -> float:
    figures: list[float] = [getattr(each, name) for each in rounds]
    return statistics.median(figures)
