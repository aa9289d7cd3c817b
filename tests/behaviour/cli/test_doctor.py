"""`foldb doctor`: a healthy database passes, and each fault is a line with the next step."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

import foldb
from foldb.cli.lib import machine_checks
from foldb.cli.lib.machine_checks import Result as State
from foldb.log.local.filesystem import SystemFilesystem
from tests.behaviour.cli.conftest import Foldb, at
from tests.support.raw import ask
from tests.support.subscribed import until


@pytest.fixture
def data(folder: Path) -> Path:
    """Return a database folder at rest, with a log of several segments."""
    with foldb.serve(folder, fsync="never", segment_bytes=4096) as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Orders", "id:S")
        items = "".join(f'{{"id": "o{n}", "text": "{"x" * 900}"}}\n' for n in range(60))
        for _ in range(3):
            assert 0 == cli("item", "put", "Orders", "-", stdin=items).exit_code
    return folder


def checks(result: Result) -> dict[str, tuple[str, str]]:
    """Return the result and the next step of each check."""
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    return {row["check"]: (row["result"], row.get("step", "")) for row in rows}


def test_a_healthy_folder_passes_every_check(data: Path) -> None:
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    result = at(data)("doctor", str(data), "--deep")

    assert 0 == result.exit_code, result.output
    found = checks(result)
    expected = {"python", "libraries", "folder", "free space", "filesystem", "sync", "lock", "log", "clock"}
    assert expected | {"snapshots", "history", "open files", "verify"} <= found.keys()
    assert not [check for check, (state, _) in found.items() if state == "failed"]
    assert before == {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}


def test_a_healthy_server_passes_with_its_own_checks(cli: Foldb) -> None:
    cli("table", "create", "Orders", "id:S", "--stream")
    cli("trigger", "add", "mirror", "--table", "Orders", "--sqlite", "shop")
    result = cli("doctor")

    assert 0 == result.exit_code, result.output
    assert {"server", "lock", "log", "memory limit", "trigger"} <= checks(result).keys()
    assert "held by the server (pid" in result.stdout


def test_the_settings_of_a_server_are_judged(cli: Foldb) -> None:
    found = checks(cli("doctor"))

    assert ("ok", "ok") == (found["throttling"][0], found["retention"][0])
    assert "stale reads" not in found


def test_settings_that_hide_data_are_warnings(tmp_path: Path) -> None:
    """The records of streams are kept for a day by default."""
    day_ms = 24 * 3_600_000
    settings: dict[str, Any] = {"read_lag_ms": 200, "history_retention_ms": day_ms - 1}
    with foldb.serve(tmp_path / "short", **settings) as server:
        result = at(server.endpoint_url)("doctor")
        short = checks(result)
    with foldb.serve(tmp_path / "long", history_retention_ms=day_ms, history=True) as server:
        long = checks(at(server.endpoint_url)("doctor"))

    assert (0, "warning", "warning") == (result.exit_code, short["stale reads"][0], short["retention"][0])
    assert "--read-lag 200ms" in result.stdout
    assert short["retention"][1].startswith("Raise --history-retention")
    assert "ok" == long["retention"][0]


def test_throttled_requests_of_the_last_hour_are_a_warning(tmp_path: Path) -> None:
    with foldb.serve(tmp_path / "data", throttle=True) as server:
        cli = at(server.endpoint_url)
        before = checks(cli("doctor"))["throttling"]
        cli("table", "create", "Orders", "id:S", "--read", "1", "--write", "1")
        put = {"TableName": "Orders", "Item": {"id": {"S": "a"}}}
        until(lambda: 400 == ask(server.endpoint_url, "PutItem", put).status)
        after = checks(cli("doctor"))["throttling"]

    assert ("ok", "") == before
    assert "warning" == after[0]
    assert after[1].startswith("`foldb capacity report TABLE`")


@pytest.mark.parametrize(
    ("limit", "total", "state"), [(0, 2**40, "ok"), (0, 0, "warning"), (10**9, 10**9, "warning")]
)
def test_items_that_the_machine_cannot_hold_are_a_warning(
    folder: Path, monkeypatch: pytest.MonkeyPatch, limit: int, total: int, state: str
) -> None:
    monkeypatch.setattr(machine_checks, "total_memory", lambda: total)
    with foldb.serve(folder, memory_limit_bytes=limit) as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Orders", "id:S")
        cli("item", "put", "Orders", '{"id": "a"}')
        found = checks(cli("doctor"))["memory limit"]

    assert state == found[0]
    assert ("Set --memory-limit to at most half" in found[1]) == (state == "warning")


def damage(path: Path) -> None:
    """Flip a byte of the last record in a file."""
    data = bytearray(path.read_bytes().rstrip(b"\0"))
    data[-100] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("nth", [-1, -2])
def test_damage_of_the_last_two_segments_is_found(data: Path, nth: int) -> None:
    damage(sorted(data.glob("*.avro"))[nth])
    result = at(data)("doctor", str(data))

    assert 1 == result.exit_code
    assert "failed" == checks(result)["log"][0]
    assert result.stderr.endswith("1 failed\n")


def test_damage_of_an_old_segment_is_found_with_deep_only(data: Path) -> None:
    damage(sorted(data.glob("*.avro"))[1])

    assert 0 == at(data)("doctor", str(data)).exit_code
    deep = at(data)("doctor", str(data), "--deep")
    assert (1, "failed") == (deep.exit_code, checks(deep)["verify"][0])


def test_a_folder_that_others_can_read_is_a_warning(data: Path) -> None:
    data.chmod(0o755)
    state, step = checks(at(data)("doctor", str(data)))["folder"]

    assert "warning" == state
    assert step.startswith(f"Run `chmod 700 {data}`")


def test_keys_that_others_can_read_fail(cli: Foldb, tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    cli("key", "create", "--read", "*", "--keys", str(keys))
    assert "ok" == checks(cli("doctor", "--keys", str(keys)))["keys"][0]

    keys.chmod(0o644)
    result = cli("doctor", "--keys", str(keys))
    assert (1, "failed") == (result.exit_code, checks(result)["keys"][0])


@pytest.mark.parametrize(
    ("source", "check"),
    [("http://127.0.0.1:1", "server"), ("/nowhere", "log"), ("kafka://127.0.0.1:1/none", "Kafka")],
)
def test_a_database_that_cannot_be_reached_fails(
    source: str, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foldb.log.kafka.client.BOOTSTRAP_TIMEOUT_MS", 100)
    result = at("unused")("doctor", source)

    assert 1 == result.exit_code
    state, step = checks(result)[check]
    assert "failed" == state
    assert step or check == "Kafka"


def test_unsafe_settings_of_a_topic_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = ["the topic has cleanup.policy=delete, and a log needs all records: set it to compact"]
    warnings = ["the topic has one replica: the log is lost with its broker's disk. Use three brokers."]
    monkeypatch.setattr("foldb.log.kafka.log.topic_problems", lambda *_: (problems, warnings))
    result = at("unused")("doctor", "kafka://127.0.0.1:1/none")
    rows = [json.loads(line) for line in result.stdout.splitlines()][-2:]

    assert [("failed", "Set it to compact."), ("warning", "Use three brokers.")] == [
        (row["result"], row["step"]) for row in rows
    ]


def test_a_port_in_use_is_a_warning() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        assert State.WARNING is machine_checks.port("127.0.0.1", number).result


def test_a_trigger_with_dead_letters_is_a_warning(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text("def fail(change):\n    raise ValueError('no')\n")
    with foldb.serve(folder, fsync="never", triggers=tmp_path) as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Orders", "id:S", "--stream")
        cli("trigger", "add", "fails", "--table", "Orders", "--python", "fails.py:fail", "--retries", "0")
        cli("item", "put", "Orders", '{"id": "a"}')
        assert 0 == cli("wait", "--triggers").exit_code
        warning = ("warning", "`foldb dlq show fails` prints the errors.")
        until(lambda: warning == checks(cli("doctor"))["trigger"])
        assert "child processes" in checks(cli("doctor"))


@pytest.fixture
def locked(data: Path) -> Iterator[Path]:
    """Yield a folder that a process without an address has locked."""
    held = SystemFilesystem().hold(data)
    held.lock_folder()
    yield data
    held.close()


def test_a_lock_of_another_process_is_a_warning(locked: Path) -> None:
    assert "warning" == checks(at(locked)("doctor", str(locked)))["lock"][0]
