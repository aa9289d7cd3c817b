"""The parts of this process that are hidden from others, and those that child processes inherit."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from foldb.materializer.os_process import helper_environment, start_helper_process
from foldb.materializer.snapshot_scheduler import SnapshotScheduler
from foldb.materializer.snapshot_worker import SnapshotJob
from foldb.server.history.process import HistoryProcess
from foldb.server.history.worker import HistoryJob
from tests.unit.materializer.fake_loop import FakeLoop

PROGRAM = """
import ctypes, os, subprocess, sys
from pathlib import Path
from foldb.materializer.snapshot_scheduler import SnapshotScheduler
from foldb.materializer.snapshot_worker import SnapshotJob
from foldb.materializer.os_process import hide

hide()
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
print(set(Path("/proc/self/environ").read_bytes()), os.environ["KEPT"], libc.getenv(b"KEPT").decode(), flush=True)
subprocess.run([sys.executable, "-c", "import os; print(os.environ['KEPT'])"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc")
def test_hidden_variables_can_still_be_used() -> None:
    """By this process, by the C library and by processes that inherit them."""
    program = [sys.executable, "-c", PROGRAM]
    said = subprocess.run(program, env={"KEPT": "here"}, capture_output=True, text=True, check=True).stdout

    assert said.split() == ["{0}", "here", "here", "here"]


def test_helpers_inherit_no_variable_that_can_hold_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FOLDB_KAFKA_PASSWORD", "AWS_SECRET_ACCESS_KEY", "DATABASE_URL", "GITHUB_TOKEN"):
        monkeypatch.setenv(name, "hush")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    inherited = helper_environment()

    assert "hush" not in inherited.values()
    assert inherited["LC_ALL"] == "C.UTF-8"


def test_a_helper_yields_to_its_server_and_gets_no_signal_of_the_terminal() -> None:
    """Niceness holds within a session, and Ctrl-C is for the group in the foreground."""
    helper = start_helper_process(["sleep", "600"], stdout=subprocess.DEVNULL)
    try:
        assert 10 == os.getpriority(os.PRIO_PROCESS, helper.pid)
        assert os.getsid(0) == os.getsid(helper.pid)
        assert helper.pid == os.getpgid(helper.pid)
        if sys.platform == "linux":
            assert "1000\n" == Path(f"/proc/{helper.pid}/oom_score_adj").read_text()
    finally:
        helper.kill()
        helper.communicate()


def test_a_job_hands_on_kafkas_variables_and_shows_none() -> None:
    job = HistoryJob("00", None, kafka="kafka://127.0.0.1:1/shop", variables={"FOLDB_KAFKA_PASSWORD": "hush"})

    assert orjson.loads(job.encode())["variables"] == {"FOLDB_KAFKA_PASSWORD": "hush"}
    assert "hush" not in repr(job)


@pytest.mark.guarantee("SEC23")
def test_snapshots_and_histories_are_made_by_such_helpers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[dict[str, str]] = []

    def start(*_: Any, env: dict[str, str], **__: Any) -> None:
        started.append(env)
        raise OSError("no process")

    monkeypatch.setenv("DATABASE_URL", "hush")
    monkeypatch.setattr(subprocess, "Popen", start)
    maker = SnapshotScheduler(lambda: SnapshotJob(str(tmp_path)), 1, folded=lambda: 1, scheduler=FakeLoop())
    maker.poll()
    with asyncio.Runner() as runner, pytest.raises(OSError, match="no process"):
        HistoryProcess(HistoryJob("00", None), runner.get_loop()).start()

    assert started == [helper_environment()] * 2
