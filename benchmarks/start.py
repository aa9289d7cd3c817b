"""Measure the time of a start to the first response: empty, large, large with a snapshot, and from a log in Kafka."""

import subprocess
import time
import uuid
from collections.abc import Iterator
from itertools import chain, islice, repeat
from pathlib import Path

from . import logs
from .kafka import broker
from .options import Options
from .peers import FOLDB, Running, foldb_command, foldb_with, running, temporary_folder
from .requests import PER_COLLECTION, TABLE, Client, orders
from .tables import at_most, show

GOAL_EMPTY_MS = 300
GOAL_EMPTY_CPU_MS = 250
GOAL_KAFKA_S = 10
_PUTS_OF_AN_ITEM = 10


def measure(options: Options) -> None:
    """Print milliseconds."""
    with temporary_folder() as folder:
        starts = [_start(folder, options) for _ in range(max(3, options.rounds))]
        empty, cpu = (min(each) for each in zip(*starts, strict=True))
    with temporary_folder() as folder:
        logs.write(folder, logs.puts(orders(options.items // PER_COLLECTION)), options.port)
        whole, _ = _start(folder, options)
        _make_snapshot(str(folder / "data"))
        snapshot, _ = _start(folder, options)
    rows = [
        ["empty", at_most(empty, GOAL_EMPTY_MS, " ms")],
        ["empty, processor time", at_most(cpu, GOAL_EMPTY_CPU_MS, " ms")],
        [f"{options.items:,} items, the whole log", f"{whole:,.0f} ms"],
        [f"{options.items:,} items, from a snapshot", f"{snapshot:,.0f} ms"],
    ]
    show("start", ["", "until the first answer"], rows)


def _start(folder: Path, options: Options) -> tuple[float, float]:
    """Return the milliseconds of a start, and those of its processor time."""
    with running(FOLDB, options.port, folder) as server:
        return server.ready_seconds * 1000, server.cpu_seconds() * 1000


def measure_kafka(options: Options) -> None:
    """Print the seconds of a start of a node with a snapshot, after which the log has a tenth of its commands.

    A node with an empty disk copies that snapshot from the first one. It has joined when it has folded the rest too.
    The goal is that of 10,000,000 commands: `python -m benchmarks start-kafka --items 10000000`.
    """
    with broker() as address, temporary_folder() as folder:
        if address is None:
            print("\nstart-kafka: skipped, because Kafka needs Java and Maven")
            return
        rows = list(_from_kafka(options, f"kafka://{address}/bench-{uuid.uuid4().hex[:8]}", folder))
    show(f"start of a node, {options.items:,} commands in Kafka", ["", "until the first answer", ""], rows)


def _from_kafka(options: Options, log: str, folder: Path) -> Iterator[list[str]]:
    node = foldb_with("--log", log, "--partitions", "1", "--snapshot-every", "0")
    items = max(PER_COLLECTION, options.items // _PUTS_OF_AN_ITEM)
    keys = list(orders(items // PER_COLLECTION))
    puts = logs.puts(chain.from_iterable(repeat(keys, _PUTS_OF_AN_ITEM)))
    after = options.items // 10
    with running(node, options.port, folder) as server, Client(server.url) as client:
        client.call("CreateTable", TABLE)
    logs.append_to_kafka(log, islice(puts, options.items - after))
    with running(node, options.port, folder) as server:
        yield ["without a snapshot", *_seconds(server)]
        _make_snapshot(server.url)
    logs.append_to_kafka(log, puts)
    for _ in range(options.rounds):
        with running(node, options.port, folder) as server:
            yield [
                f"{after:,} commands after the snapshot",
                at_most(round(server.ready_seconds, 1), GOAL_KAFKA_S, " s"),
                _seconds(server)[1],
            ]
    with running(node, options.port, folder):
        for _ in range(options.rounds):
            begin = time.perf_counter()
            with temporary_folder() as empty, running(node, options.port + 1, empty) as joining:
                _wait_until_joined(joining.url)
                joined = time.perf_counter() - begin
                yield [
                    "an empty disk, until joined",
                    at_most(round(joined, 1), GOAL_KAFKA_S, " s"),
                    _seconds(joining)[1],
                ]


def _wait_until_joined(url: str) -> None:
    """Wait until this node is the standby of the only partition, and has folded all of its log."""
    with Client(url) as client:
        while True:
            cluster = client.call("Foldb_20261121.Cluster", {})
            [partition] = cluster["Partitions"]
            if partition.get("Standby") == cluster["Address"] and partition.get("StandbyLag") == 0:
                return
            time.sleep(0.005)


def _seconds(server: Running) -> tuple[str, str]:
    return f"{server.ready_seconds:.1f} s", f"{server.cpu_seconds():.1f} s of processor time"


def _make_snapshot(source: str) -> None:
    subprocess.run(  # noqa: S603 -- our own command
        [*foldb_command(), "snapshot", "make", source], check=True, capture_output=True
    )
