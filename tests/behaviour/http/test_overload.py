"""Overload by a factor of ten: the server keeps its rate, its memory and its health page, and recovers.

The peak is the rate of 32 connections that wait for each answer (wrk). The load is 1,280 of these connections, or 320
connections that send without waiting (flood.py), so that requests always exceed the capacity. Rates are per second of
the server's own processor time, because the load of clients and other processes on the machine varies. The speed of the
processor varies too, so a peak is measured beside each load, and a low rate is measured again, for twice the time: if
the server gets little of a busy machine, the begin of a thousand connections takes much of it.
"""

import http.client
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.behaviour.http.wire import Wire, peak_bytes, processor_s, request, resident_bytes, served_by
from tests.support.raw import ask
from tests.support.served import served
from tests.support.tables import table_request
from tests.verification.reliability import record

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []
ROOT = Path(__file__).parents[3]
SECONDS = 30 if SOAK else 1
CONNECTIONS, MANY, FLOODING = 32, 1_280, 320
MIB = 1 << 20
# 64 KiB of pipelined requests per connection, and entries in flight.
GROWTH_MAX = 64 * MIB + MANY * 64 * 1024
# On a shared machine one second of measurement shows a collapse, but not the difference between 79 and 80.
GOODPUT_MIN = 0.8 if SOAK else 0.6
ATTEMPTS = 3
RECOVERY_S_MAX = 5.0


class Health(threading.Thread):
    """Asks for the health line, again and again, until the end of the block.

    Attributes:
        took: Seconds of each answer, sorted, once it has ended.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self._address = urlsplit(url).netloc
        self._over = threading.Event()
        self.took: list[float] = []

    def run(self) -> None:
        client = http.client.HTTPConnection(self._address, timeout=60)
        while not self._over.wait(0.02):
            begun = time.monotonic()
            client.request("GET", "/")
            client.getresponse().read()
            self.took.append(time.monotonic() - begun)
        client.close()

    def __enter__(self) -> "Health":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
        self.took.sort()

    def percentile(self, percent: int) -> int:
        """Milliseconds."""
        return round(1000 * self.took[len(self.took) * percent // 100])


def wrk(url: str, connections: int, seconds: int = SECONDS) -> tuple[int, int]:
    """Puts answered with 200 and otherwise."""
    program = shutil.which("wrk")
    if program is None:
        pytest.skip("needs wrk, the load generator")
    script = ROOT / "benchmarks" / "load.lua"
    command = [program, "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(script), url, "--", "put"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (total,) = (int(line.split()[0]) for line in said.splitlines() if " requests in " in line)
    _, _, refused = said.partition("Non-2xx or 3xx responses: ")
    bad = int(refused.split()[0]) if refused else 0
    return total - bad, bad


def flood(url: str, connections: int, kind: str, seconds: int) -> tuple[int, int]:
    command = [sys.executable, "-m", "tests.behaviour.http.flood", url, str(connections), str(seconds), kind]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    good, bad, lost = json.loads(said)
    assert 0 == lost
    return good, bad


def goodput(pid: int, load: Callable[[], tuple[int, int]]) -> tuple[float, int]:
    """Answers with 200 for a second of the server's processor time, and how many there were of others."""
    before = processor_s(pid)
    good, bad = load()
    return good / (processor_s(pid) - before), bad


@pytest.mark.guarantee("G51")
def test_at_ten_times_its_load_the_rate_stays_and_recovers(tmp_path: Path) -> None:
    with served(tmp_path) as url:
        assert 200 == ask(url, "CreateTable", table_request("orders", "pk:S", "sk:S")).status
        pid = served_by(tmp_path)
        wrk(url, CONNECTIONS)  # the keys there are
        alone = first_get_s(url)
        loads: dict[str, Callable[[int], tuple[int, int]]] = {
            f"puts of {MANY} that wait": lambda seconds: wrk(url, MANY, seconds),
            f"puts of {FLOODING} that do not": lambda seconds: flood(url, FLOODING, "put", seconds),
            f"gets and puts of {FLOODING} that do not": lambda seconds: flood(
                url, FLOODING, "mixed", seconds
            ),
        }
        for name, load in loads.items():
            before = resident_bytes(pid)
            for attempt in range(ATTEMPTS):
                seconds = SECONDS << attempt
                peak, _ = goodput(pid, lambda: wrk(url, CONNECTIONS))
                with Health(url) as health:
                    good, bad = goodput(pid, partial(load, seconds))
                if bad or good > GOODPUT_MIN * peak:
                    break
            growth = peak_bytes(pid) - before
            begun = time.monotonic()
            while first_get_s(url) > 2 * alone + 0.05:
                assert time.monotonic() - begun < RECOVERY_S_MAX
            recovered = time.monotonic() - begun
            record(
                test=f"overload: {name}",
                checked=int(good * seconds),
                failures=bad,
                figures={
                    "good a processor second": round(good),
                    "at the peak": round(peak),
                    "health p50 ms": health.percentile(50),
                    "health p99 ms": health.percentile(99),
                    "growth MiB": growth // MIB,
                    "well after s": round(recovered, 1),
                },
            )

            assert 0 == bad, name
            assert good > GOODPUT_MIN * peak, name
            assert growth < GROWTH_MAX, name


def first_get_s(url: str) -> float:
    """How long a client waits that comes now."""
    begun = time.monotonic()
    answer = ask(url, "GetItem", {"TableName": "orders", "Key": {"pk": {"S": "a"}, "sk": {"S": "b"}}})
    assert 200 == answer.status
    return time.monotonic() - begun


@pytest.mark.guarantee("G51")
def test_past_the_queue_limit_requests_get_a_retryable_error(tmp_path: Path) -> None:
    """A queue for a few writes: of those that many clients send at once some are refused, and none fails otherwise."""
    with served(tmp_path, "--queue-bytes", "2000") as url:
        assert 200 == ask(url, "CreateTable", table_request("orders", "pk:S", "sk:S")).status
        item = {"pk": {"S": "a"}, "sk": {"S": "b"}, "x": {"S": "x" * 500}}
        data = request("PutItem", {"TableName": "orders", "Item": item})
        refused = done = 0
        while not refused:
            kinds = together(url, data)
            done += kinds.count("")
            refused += kinds.count("ThrottlingException")
            assert {"", "ThrottlingException"} >= set(kinds)

        assert done > 0


def together(url: str, data: bytes, clients: int = 40) -> list[str]:
    """Send the same request from many clients at once; return the error name of each, empty for a success."""
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(url)) for _ in range(clients)]
        for wire in wires:
            wire.send(data)
        answers = [wire.answer() for wire in wires]
    assert {200, 400} >= {status for status, _, _ in answers}
    return [json.loads(body).get("__type", "").rpartition("#")[2] for _, _, body in answers]
