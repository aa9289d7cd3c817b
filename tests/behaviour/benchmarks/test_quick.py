"""`python -m benchmarks --quick` runs; its figures are not checked.

A soak runs every part, `make test` the parts that start few servers and no broker.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []

QUICK = {
    "rates": ["32 connections"],
    "paging": ["a collection of 2,000 items"],
}
LONG = {
    "commit": ["stages of a lone put, 250 puts"],
    "latency": ["one connection", "gets beside other work, 2,000 items, one connection"],
    "cpu": ["processor time in a node, without sockets and disk"],
    "feed": [
        "feed: changes a second",
        "feed: from an acknowledged put to the function",
        "feed: puts beside readers, 32 connections",
        "feed: server's us a record",
    ],
    "batches": ["batches, 32 connections", "a batch beside single requests"],
    "sizes": ["by size of item, 32 connections", "by size of batch, 32 connections"],
    "scans": ["gets beside scans of 2,000 small items"],
    "refold": ["refold"],
    "memory": ["memory, 2,000 items of about 200 bytes"],
    "start": ["start"],
    "start-kafka": ["start of a node, 2,000 commands in Kafka"],
    "turns": ["longest turn of the event loop, 2,000 items"],
    "flat": [
        "cost by items, 32 connections",
        "cost by tables, one connection",
        "cost by indexes, 1,000 items, 32 connections",
        "cost by connections, idle ones beside 32 busy ones",
    ],
    "throttling": ["throttling, 32 connections, pure build"],
    "readers-instructions": ["readers, 32 connections, pure build"],
    "history": [
        "history",
        "page of 100 items at a random cut",
        "2,000 versions of 200 items, one connection, over HTTP",
        "processor time of the server a put, 32 connections",
        "instructions of the server a put, 32 connections",
    ],
    "kafka": ["kafka: commands appended and folded", "kafka: consistent reads of an idle partition"],
    "cluster": ["cluster: requests a second over HTTP, a node for each partition"],
}
PARTS = QUICK | LONG if SOAK else QUICK


def test_every_quick_benchmark_prints_its_table_with_its_goal(tmp_path: Path) -> None:
    for program in ("wrk", "valgrind") if SOAK else ("wrk",):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not on the PATH")
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks", *PARTS, "--quick", "--port", str(_free_ports())],
        cwd=ROOT,
        env={"PATH": f"{Path(shutil.which('wrk') or '').parent}", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600 if SOAK else 300,
    )

    assert 0 == run.returncode, run.stderr
    titles = [title for part in PARTS.values() for title in part]
    assert titles == re.findall(r"^(.+)\n\n.*\n-+ ", run.stdout, re.MULTILINE)
    assert re.search(r"\(<= 1.2: (reached|missed)\)", run.stdout)
    assert "not here" in run.stdout, "dynoxide is compared only where it is installed"


def _free_ports() -> int:
    """Return the first of forty free ports, below the range from which the system assigns ports."""
    return next(first for first in range(20_000, 30_000, 40) if all(map(_is_free, range(first, first + 40))))


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) != 0
