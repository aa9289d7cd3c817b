"""Measure TransactGetItems on hot keys beside writes, with four partitions.

A few keys get all requests, so each read meets writes of its items. The loads take turns, so that the figures can be
compared: puts alone, with isolated reads beside them, and with transactions over partitions too.

    FOLDB_BESIDE=path/to/python python -m benchmarks isolation

also measures the foldb of another environment, in the same rounds.
"""

import asyncio
import os
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import orjson

from .options import Options
from .peers import OURS, Peer, foldb_command, running
from .requests import HEADERS, TABLE, Client, item
from .tables import at_most, show

PARTITIONS = 4
GOAL = 1.0
"""The percentage of isolated reads that may be cancelled."""

_HOT_KEYS = 16
_READ_KEYS = 4
_PUT_CLIENTS, _READ_CLIENTS, _WRITE_CLIENTS = 8, 4, 4
_PAUSE_S = 0.01
"""Between two requests of a client that reads or sends transactions, so that puts and reads do not compete for the
processor alone."""

_LOADS = {
    "puts alone": (0, 0),
    "and isolated reads": (_READ_CLIENTS, 0),
    "and transactions": (_READ_CLIENTS, _WRITE_CLIENTS),
}


def measure(options: Options) -> None:
    """Print the share of cancelled reads, and the rate and latency of the puts beside them."""
    peers = [_several(OURS, foldb_command())]
    if beside := os.environ.get("FOLDB_BESIDE"):
        peers.append(_several("beside", [beside, "-m", "foldb"]))
    rows = []
    with ExitStack() as stack:
        servers = {
            peer.name: stack.enter_context(running(peer, options.port + nth))
            for nth, peer in enumerate(peers)
        }
        for server in servers.values():
            with Client(server.url) as client:
                client.call("CreateTable", TABLE)
        found: dict[tuple[str, str], list[_Round]] = {}
        for number in range(options.rounds):
            for load, (readers, writers) in _LOADS.items():
                for name, server in servers.items():
                    before = server.cpu_seconds()
                    done = asyncio.run(_load(server.url, options.seconds, readers, writers, number))
                    done.cpu_seconds = server.cpu_seconds() - before
                    found.setdefault((name, load), []).append(done)
    for (name, load), rounds in found.items():
        alone = found[name, "puts alone"]
        rows.append([name, load, *_figures(rounds, alone)])
    columns = [
        "",
        "load",
        "puts/s",
        "beside alone",
        "p50 ms",
        "beside alone",
        "CPU µs a request",
        "reads/s",
        "cancelled %",
    ]
    show(f"isolation: {_HOT_KEYS} hot keys in {PARTITIONS} partitions", columns, rows)


def _several(name: str, command: list[str]) -> Peer:
    return Peer(
        name,
        lambda port, folder: [
            *command, "serve", "--port", str(port), "--db", str(folder / "data"), "--partitions", str(PARTITIONS)
        ],
    )  # fmt: skip


class _Round:
    """The answers of one load.

    Attributes:
        answers: Their number, by operation and status.
        latencies: The seconds of each put.
        cpu_seconds: The processor time of the server.
    """

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        self.answers: Counter[tuple[str, int]] = Counter()
        self.latencies: list[float] = []
        self.cpu_seconds = 0.0

    def rate(self, operation: str, status: int = 200) -> float:
        """Return the answers per second."""
        return self.answers[operation, status] / self.seconds

    @property
    def p50_ms(self) -> float:
        return 1000 * statistics.median(self.latencies)


def _figures(rounds: list[_Round], alone: list[_Round]) -> list[str]:
    """Return the medians of the rounds, and of their ratios to the rounds without reads."""
    reads = sum(each.answers["TransactGetItems", 200] for each in rounds)
    cancelled = sum(each.answers["TransactGetItems", 400] for each in rounds)
    requests = sum(each.answers.total() for each in rounds)
    pairs = list(zip(rounds, alone, strict=True))
    return [
        f"{statistics.median(each.rate('PutItem') for each in rounds):,.0f}",
        f"{statistics.median(one.rate('PutItem') / other.rate('PutItem') for one, other in pairs):.2f}",
        f"{statistics.median(each.p50_ms for each in rounds):.2f}",
        f"{statistics.median(one.p50_ms / other.p50_ms for one, other in pairs):.2f}",
        f"{1e6 * sum(each.cpu_seconds for each in rounds) / requests:.0f}",
        f"{statistics.median(each.rate('TransactGetItems') for each in rounds):,.0f}",
        at_most(100 * cancelled / (reads + cancelled), GOAL) if reads + cancelled else "-",
    ]


async def _load(url: str, seconds: int, readers: int, writers: int, seed: int) -> _Round:
    """Send requests of all kinds, each client one at a time."""
    done, end = _Round(seconds), time.perf_counter() + seconds
    dice = random.Random(seed)  # noqa: S311 -- the load is to be repeatable
    host = url.removeprefix("http://")
    clients = [
        *[_client(host, "PutItem", lambda: _put(dice), done, end) for _ in range(_PUT_CLIENTS)],
        *[_client(host, "TransactGetItems", lambda: _read(dice), done, end) for _ in range(readers)],
        *[_client(host, "TransactWriteItems", lambda: _write(dice), done, end) for _ in range(writers)],
    ]
    await asyncio.gather(*clients)
    return done


async def _client(
    host: str, operation: str, draw: Callable[[], dict[str, Any]], done: _Round, end: float
) -> None:
    name, port = host.split(":")
    reader, writer = await asyncio.open_connection(name, int(port))
    head = "".join(f"{each}: {value}\r\n" for each, value in HEADERS.items())
    while time.perf_counter() < end:
        body = orjson.dumps(draw())
        start = time.perf_counter()
        writer.write(
            f"POST / HTTP/1.1\r\nHost: {host}\r\n{head}X-Amz-Target: DynamoDB_20120810.{operation}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        answer = await reader.readuntil(b"\r\n\r\n")
        length = answer.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length))
        done.answers[operation, int(answer[9:12])] += 1
        if operation == "PutItem":
            done.latencies.append(time.perf_counter() - start)
        else:
            await asyncio.sleep(_PAUSE_S)
    writer.close()


def _hot(dice: random.Random) -> str:
    return f"user#{dice.randrange(_HOT_KEYS)}"


def _put(dice: random.Random) -> dict[str, Any]:
    return {"TableName": "orders", "Item": item(_hot(dice), "order")}


def _some(dice: random.Random) -> list[str]:
    return [f"user#{number}" for number in dice.sample(range(_HOT_KEYS), _READ_KEYS)]


def _read(dice: random.Random) -> dict[str, Any]:
    keys = [{"pk": {"S": pk}, "sk": {"S": "order"}} for pk in _some(dice)]
    return {"TransactItems": [{"Get": {"TableName": "orders", "Key": key}} for key in keys]}


def _write(dice: random.Random) -> dict[str, Any]:
    puts = [{"Put": {"TableName": "orders", "Item": item(pk, "order")}} for pk in _some(dice)]
    return {"TransactItems": puts}
