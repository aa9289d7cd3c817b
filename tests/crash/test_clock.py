"""A wall clock that jumps, stands still and runs backwards: it decides what time the log writes, and nothing else.

Log time never goes back: while the wall clock is behind, it stands. Items expire and tokens are forgotten by log time,
so a clock that is wrong can only make that late, or as early as the clock says.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from foldb.log.local import LocalLog
from foldb.server.app import Serving, new_loop
from foldb.server.settings import Settings
from tests.crash.digests import Digests
from tests.crash.ledger import TABLE, Ledger, Writers, addition, create, scan
from tests.crash.process import Process
from tests.raw import ask
from tests.served import FOLDB

HOUR_MS = 3600 * 1000
TEN_YEARS_MS = 10 * 365 * 24 * HOUR_MS

# An hour is what daylight saving moves a clock that should not have known of it; a second, what a leap second repeats.
JUMPS_MS = {
    "an hour": HOUR_MS,
    "ten years": TEN_YEARS_MS,
    "a leap second": 1000,
}


class Wall:
    """A clock on the wall, in milliseconds since 1970. Time goes by at `speed`; a test may move the hands."""

    def __init__(self) -> None:
        self._at = time.time_ns() // 1_000_000
        self._since = time.monotonic()
        self._speed = 1.0

    def __call__(self) -> int:
        return self._at + round((time.monotonic() - self._since) * 1000 * self._speed)

    def move(self, by_ms: int, speed: float = 1.0) -> None:
        """Move the hands, and go on at this speed."""
        self._at, self._since, self._speed = self() + by_ms, time.monotonic(), speed


@contextmanager
def served(path: Path, clock: Callable[[], int]) -> Iterator[str]:
    """Serve a folder by another clock than this machine's."""
    started: Future[Serving] = Future()

    async def serve() -> None:
        settings = Settings(path=path, port=0, ttl_interval_ms=10)
        serving = Serving(settings, asyncio.get_running_loop(), clock=clock)
        await serving.start()
        started.set_result(serving)
        await serving.stopped.wait()
        await serving.stop()

    def run() -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run)
    thread.start()
    serving = started.result(timeout=30)
    try:
        yield serving.url
    finally:
        serving.node.loop.call_soon_threadsafe(serving.stopped.set)
        thread.join(timeout=30)


@pytest.mark.parametrize("sign", [1, -1], ids=["on", "back"])
@pytest.mark.parametrize("jump", JUMPS_MS)
def test_a_clock_may_jump_under_load(jump: str, sign: int, tmp_path: Path) -> None:
    """And back to where it was: whoever put it wrong puts it right again."""
    wall, ledger, digests = Wall(), Ledger(), Digests()
    with served(tmp_path, wall) as url:
        create(url)
        with Writers(ledger, url) as writers:
            for by_ms in (sign * JUMPS_MS[jump], -sign * JUMPS_MS[jump]):
                writers.wait_for(40)
                wall.move(by_ms)
            writers.wait_for(40)
        assert {"acknowledged"} == ledger.answers.keys()
        ledger.check(url)
        digests.note(url)

    _check_log_time(tmp_path)
    digests.check(tmp_path)


def test_a_clock_may_run_backwards_under_load(tmp_path: Path) -> None:
    """By a second each second; and then a hundred times as fast."""
    wall, ledger, digests = Wall(), Ledger(), Digests()
    with served(tmp_path, wall) as url:
        create(url)
        with Writers(ledger, url) as writers:
            for speed in (-1.0, -100.0):
                wall.move(0, speed)
                writers.wait_for(100)
        assert {"acknowledged"} == ledger.answers.keys()
        ledger.check(url)
        digests.note(url)
    with served(tmp_path, wall) as url:
        ledger.check(url)

    _check_log_time(tmp_path)
    digests.check(tmp_path)


def test_a_token_holds_for_ten_minutes_of_log_time(tmp_path: Path) -> None:
    """A clock that goes back neither ends them nor begins them anew."""
    wall = Wall()
    request = {"TransactItems": [{"Update": addition("counter")}], "ClientRequestToken": "token"}
    counted = []
    with served(tmp_path, wall) as url:
        create(url)
        for by_ms in (0, 9 * 60_000, -HOUR_MS, HOUR_MS + 2 * 60_000):
            wall.move(by_ms)
            assert ask(url, "TransactWriteItems", request).status == 200
            counted.append(scan(url)["counter"])

    assert [1, 1, 1, 2] == counted


def test_an_item_expires_by_log_time(tmp_path: Path) -> None:
    """Not while the clock has yet to come to its time, wherever the clock was in between."""
    wall = Wall()
    with served(tmp_path, wall) as url:
        create(url)
        ttl = {"TableName": TABLE, "TimeToLiveSpecification": {"Enabled": True, "AttributeName": "until"}}
        assert ask(url, "UpdateTimeToLive", ttl).status == 200
        until = wall() // 1000 + 3600
        _put(url, "item", until)

        for by_ms in (HOUR_MS // 2, -TEN_YEARS_MS, TEN_YEARS_MS):
            wall.move(by_ms)
            _put(url, "passes", wall() // 1000 - 60)
            _wait_until_expired(url, "passes")  # the sweep that takes this one has seen the other
            assert "Item" in _get(url, "item")

        wall.move(HOUR_MS)
        _put(url, "any write moves log time", until + 10**6)
        _wait_until_expired(url, "item")


def test_a_process_lives_through_whatever_its_system_says_the_time_is(tmp_path: Path) -> None:
    """libfaketime tells it: not only our own clock, but every one that it may look at."""
    library = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)
    if library is None:
        pytest.skip("another system time for a process takes libfaketime")
    says, ledger, digests = tmp_path / "says", Ledger(), Digests()
    says.write_text("+0")
    environment = [
        f"LD_PRELOAD={library}",
        f"FAKETIME_TIMESTAMP_FILE={says}",
        "FAKETIME_NO_CACHE=1",
        "FAKETIME_DONT_FAKE_MONOTONIC=1",
        "TZ=Europe/Berlin",
    ]
    with Process(tmp_path / "data", program=["env", *environment, FOLDB]) as server:
        create(server.url)
        with Writers(ledger, server.url) as writers:
            for offset in ("+3600", "+0", "-3600", "-315360000", "+315360000", "-1", "-2", "-3", "+0"):
                says.with_suffix(".new").write_text(offset)
                says.with_suffix(".new").replace(says)
                writers.wait_for(40)
        assert {"acknowledged"} == ledger.answers.keys()
        digests.note(server.url)
        server.terminate()
    with Process(tmp_path / "data") as server:
        ledger.check(server.url)

    times = _check_log_time(tmp_path / "data")
    assert times[-1] - times[0] > TEN_YEARS_MS * 0.9
    digests.check(tmp_path / "data")


def _check_log_time(folder: Path) -> list[int]:
    """It never goes back. The time of each record."""
    times = [record.time for record in LocalLog.open_reader(folder).read(0)]
    assert sorted(times) == times
    return times


def _put(url: str, key: str, until: int) -> None:
    item = {"pk": {"S": key}, "until": {"N": str(until)}}
    assert ask(url, "PutItem", {"TableName": TABLE, "Item": item}).status == 200


def _get(url: str, key: str) -> Any:
    return ask(url, "GetItem", {"TableName": TABLE, "Key": {"pk": {"S": key}}}).body


def _wait_until_expired(url: str, key: str) -> None:
    deadline = time.monotonic() + 30
    while "Item" in _get(url, key):
        assert time.monotonic() < deadline, "it never expired"
