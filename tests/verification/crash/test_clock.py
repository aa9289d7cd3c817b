"""A wall clock that jumps, stops and runs backwards affects log time, and nothing else.

Log time never goes back: it stops while the wall clock is behind. Items and tokens expire by log time, so a wrong clock
can make them expire late, or as early as the clock says.
"""

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest

from foldb.log.local import LocalLog
from foldb.server.app import Serving, new_loop
from foldb.server.settings import Settings
from tests.support.raw import ask
from tests.support.served import FOLDB, Process, foldb
from tests.support.tables import table_request
from tests.support.write_ledger import TABLE, Ledger, Writers, addition, create, scan
from tests.unit.server.test_metrics import read
from tests.verification.crash.digests import Digests

HOUR_MS = 3600 * 1000
TEN_YEARS_MS = 10 * 365 * 24 * HOUR_MS

# An hour is what daylight saving moves a clock that should not have known of it; a second, what a leap second repeats.
JUMPS_MS = {
    "an hour": HOUR_MS,
    "ten years": TEN_YEARS_MS,
    "a leap second": 1000,
}


class Wall:
    """A wall clock in milliseconds since 1970, with a speed, which a test can set."""

    def __init__(self) -> None:
        self._at = time.time_ns() // 1_000_000
        self._since = time.monotonic()
        self._speed = 1.0

    def __call__(self) -> int:
        return self._at + round((time.monotonic() - self._since) * 1000 * self._speed)

    def move(self, by_ms: int, speed: float = 1.0) -> None:
        """Set the clock and its speed."""
        self._at, self._since, self._speed = self() + by_ms, time.monotonic(), speed


@contextmanager
def served(path: Path, clock: Callable[[], int], partitions: int = 1) -> Iterator[str]:
    """Serve a folder with a fake clock."""
    started: Future[Serving] = Future()

    async def serve() -> None:
        settings = Settings(path=path, port=0, ttl_interval_ms=10, partitions=partitions)
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


@pytest.mark.guarantee("G26")
@pytest.mark.parametrize("sign", [1, -1], ids=["on", "back"])
@pytest.mark.parametrize("jump", JUMPS_MS)
def test_a_clock_may_jump_under_load(jump: str, sign: int, tmp_path: Path) -> None:
    """The clock jumps back later, as when an operator corrects it."""
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


@pytest.mark.guarantee("G26")
def test_a_clock_may_run_backwards_under_load(tmp_path: Path) -> None:
    """It runs backwards at normal speed, then a hundred times as fast."""
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


@pytest.mark.guarantee("G26")
def test_a_token_holds_for_ten_minutes_of_log_time(tmp_path: Path) -> None:
    """A clock that goes back neither shortens nor extends its time."""
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
    """It does not expire before the clock reaches its time, after any earlier steps of the clock."""
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


@pytest.mark.guarantee("G26")
@pytest.mark.parametrize("partitions", [1, 3])
def test_the_present_is_history_after_a_step_back(partitions: int, tmp_path: Path) -> None:
    """Log time is ahead of the clock for an hour. Backups, ages and undo have every acknowledged write nevertheless."""
    wall = Wall()
    with served(tmp_path, wall, partitions) as url:
        create(url)
        wall.move(HOUR_MS)
        _put(url, "item", 1)
        wall.move(-HOUR_MS)
        position = _put(url, "item", 2)

        backup = ask(url, "CreateBackup", {"TableName": TABLE, "BackupName": "backup"})
        present = ask(url, "GetItem", {"TableName": f"{TABLE}@-0", "Key": {"pk": {"S": "item"}}})
        undone = ask(url, "Foldb_20261121.Undo", {"Position": position})

        assert (200, 200, 200) == (backup.status, present.status, undone.status), undone.data
        assert "2" == present.body["Item"]["until"]["N"]
        assert "1" == _get(url, "item")["Item"]["until"]["N"]


class SystemTime:
    """The system time of a process under libfaketime, which a test can set."""

    def __init__(self, folder: Path) -> None:
        library = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)
        if library is None:
            pytest.skip("another system time for a process takes libfaketime")
        self._says = folder / "says"
        self.program: list[str | Path] = [
            "env",
            f"LD_PRELOAD={library}",
            f"FAKETIME_TIMESTAMP_FILE={self._says}",
            "FAKETIME_NO_CACHE=1",
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
            # Without it libfaketime moves the deadline of a timed wait on the monotonic clock. The interpreter waits so
            # for its lock, so each such wait would return at once or last until the lock is free.
            "FAKETIME_FORCE_MONOTONIC_FIX=0",
            "TZ=Europe/Berlin",
            FOLDB,
        ]
        self.be(0)

    def be(self, ahead_s: int) -> None:
        """Set the offset to this machine's clock."""
        self._says.with_suffix(".new").write_text(f"{ahead_s:+}")
        self._says.with_suffix(".new").replace(self._says)


@pytest.mark.parametrize(
    ("step", "writes"),
    [("0", 40), ("10s", 40), *(pytest.param(each, 1000, marks=pytest.mark.soak) for each in ("0", "10s"))],
)
def test_a_process_survives_any_time_of_the_system_clock(step: str, writes: int, tmp_path: Path) -> None:
    """Every clock of the process is wrong, not only the one that foldb reads."""
    system, ledger, digests = SystemTime(tmp_path), Ledger(), Digests()
    with Process(tmp_path / "data", "--clock-step", step, program=system.program) as server:
        create(server.url)
        with Writers(ledger, server.url) as writers:
            for ahead_s in (3600, 0, -3600, -315360000, 315360000, -1, -2, -3, 0):
                system.be(ahead_s)
                writers.wait_for(writes)
        assert {"acknowledged"} == ledger.answers.keys()
        digests.note(server.url)
        server.terminate()
    with Process(tmp_path / "data") as server:
        ledger.check(server.url)

    times = _check_log_time(tmp_path / "data")
    assert (times[-1] - times[0] > TEN_YEARS_MS * 0.9) == (step == "0")
    digests.check(tmp_path / "data")


@pytest.mark.guarantee("G26")
def test_a_jump_trims_nothing_and_expires_nothing(tmp_path: Path) -> None:
    """A clock that is ten days ahead for a moment: log time continues at the pace of the monotonic clock."""
    system = SystemTime(tmp_path)
    with Process(tmp_path / "data", "--ttl-interval", "10ms", program=system.program) as server:
        url = server.url
        stream = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
        made = table_request(TABLE, "pk:S", StreamSpecification=stream)
        assert ask(url, "CreateTable", made).status == 200
        ttl = {"TableName": TABLE, "TimeToLiveSpecification": {"Enabled": True, "AttributeName": "until"}}
        assert ask(url, "UpdateTimeToLive", ttl).status == 200
        now = time.time_ns() // 1_000_000_000
        _put(url, "item", now + 24 * 3600)
        for ahead_s in (10 * 24 * 3600, 0):
            system.be(ahead_s)
            _put(url, f"passes at {ahead_s}", now - 60)
            _wait_until_expired(
                url, f"passes at {ahead_s}"
            )  # the sweep that takes this one has seen the other
            refused = read(url)["foldb_clock_refused_seconds{}"]
            assert abs(refused - ahead_s) < 60

        assert "Item" in _get(url, "item")
        assert ["item", "passes at 864000", "passes at 864000", "passes at 0", "passes at 0"] == _keys(url)
        assert 0 == read(url)["foldb_log_time_lead_seconds{partition=0}"]
        server.terminate()

    times = _check_log_time(tmp_path / "data")
    assert times[-1] - times[0] < HOUR_MS
    assert re.search(r"the system clock has made a step of (240 h 0|239 h 59) min ahead", server.said)
    assert "the system clock has reverted its step" in server.said


@pytest.mark.guarantee("G26")
def test_a_start_reports_a_log_time_ahead_of_the_clock(tmp_path: Path) -> None:
    system = SystemTime(tmp_path)
    system.be(3 * 3600 + 1800)
    with Process(tmp_path / "data", program=system.program) as server:
        create(server.url)
        server.terminate()
    with Process(tmp_path / "data") as server:
        lead_s = read(server.url)["foldb_log_time_lead_seconds{partition=0}"]
        reported = json.loads(foldb("--db", server.url, "status", "-o", "json").stdout)
        server.terminate()

    assert 3 * 3600 < lead_s <= 3 * 3600 + 1800
    assert 3 * HOUR_MS < reported["LogTimeLeadMs"] <= lead_s * 1000
    assert "log time is 3 h 2" in server.said
    assert "ahead of this machine's clock" in server.said


def _keys(url: str) -> list[str]:
    """Return the keys of all records in the stream."""
    streams = boto3.client("dynamodbstreams", endpoint_url=url)
    [stream] = streams.list_streams(TableName=TABLE)["Streams"]
    arn = stream["StreamArn"]
    [shard] = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    at = streams.get_shard_iterator(
        StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    return [each["dynamodb"]["Keys"]["pk"]["S"] for each in streams.get_records(ShardIterator=at)["Records"]]


def _check_log_time(folder: Path) -> list[int]:
    """Assert that log time never goes back, and return the time of each record."""
    times = [record.time for record in LocalLog.open_reader(folder).read(0)]
    assert sorted(times) == times
    return times


def _put(url: str, key: str, until: int) -> str:
    """Put an item, and return the position."""
    item = {"pk": {"S": key}, "until": {"N": str(until)}}
    answer = ask(url, "PutItem", {"TableName": TABLE, "Item": item})
    assert answer.status == 200
    return str(answer.headers["x-foldb-position"])


def _get(url: str, key: str) -> Any:
    return ask(url, "GetItem", {"TableName": TABLE, "Key": {"pk": {"S": key}}}).body


def _wait_until_expired(url: str, key: str) -> None:
    deadline = time.monotonic() + 30
    while "Item" in _get(url, key):
        assert time.monotonic() < deadline, "it never expired"
