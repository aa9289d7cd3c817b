"""One worker: requests, its end, and cancelled callers."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from foldb.streams.formats.plain import plain
from foldb.streams.workers import worker_process
from foldb.streams.workers.worker_env import environment
from foldb.streams.workers.worker_process import WorkerProcess
from tests.unit.streams.deliveries import numbered

FOR_EVER = "def f(change):\n    while True:\n        pass\n"


@asynccontextmanager
async def loaded(folder: Path, text: str) -> AsyncIterator[WorkerProcess]:
    """Yield a worker that has loaded the function f of a text."""
    around = environment("http://127.0.0.1:1", scratch=folder, app_id="app", given={})
    worker = await WorkerProcess.start("receipts", around, folder, 2048)
    load: dict[str, Any] = {"kind": "python", "name": "app:f", "subscription": "receipts"}
    try:
        answer = await worker.request(
            {"do": "load", "texts": {"app": ["/app.py", text, None]}, **load}, b"", 60
        )
        assert "error" not in answer
        yield worker
    finally:
        await worker.kill()


async def call(worker: WorkerProcess, timeout_s: float = 60) -> dict[str, Any]:
    return await worker.request({"do": "call"}, plain(numbered(1)[0]), timeout_s)


def test_a_cancelled_kill_does_not_cancel_other_waiters(tmp_path: Path) -> None:
    async def cancelled() -> int:
        async with loaded(tmp_path, FOR_EVER) as worker:
            first = asyncio.create_task(worker.kill())
            await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait([first])
            return await worker.kill()

    assert asyncio.run(cancelled()) == -9


def test_a_request_cancelled_after_its_timeout_ends_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer would be taken for the answer to the next request."""
    looking = asyncio.Event()

    async def look(_: WorkerProcess) -> str:
        looking.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def cancelled() -> None:
        async with loaded(tmp_path, FOR_EVER) as worker:
            late = asyncio.create_task(call(worker, timeout_s=0))
            await looking.wait()
            late.cancel()
            await asyncio.wait([late])
            assert late.cancelled()
            assert not worker.is_alive

    monkeypatch.setattr(WorkerProcess, "_stacks", look)
    asyncio.run(cancelled())


def test_an_invalid_answer_ends_the_worker(tmp_path: Path) -> None:
    """A function may write to any open file of its process, also to the socket."""
    text = "import os\ndef f(change):\n    [os.write(fd, b'\\0\\0\\0\\5\\0\\0\\0\\1?') for fd in sockets()]\n"
    text += "def sockets():\n    return [int(fd) for fd in os.listdir('/proc/self/fd')\n"
    text += "            if os.path.islink(p := f'/proc/self/fd/{fd}') and 'socket' in os.readlink(p)]\n"

    async def asked() -> None:
        async with loaded(tmp_path, text) as worker:
            with pytest.raises(ValueError, match="JSON"):
                await call(worker)
            assert not worker.is_alive

    asyncio.run(asked())


def test_a_cancelled_start_leaves_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The started process is waited for even if nothing else happens on the loop."""
    started: list[subprocess.Popen[bytes]] = []

    def spawn(*given: Any) -> subprocess.Popen[bytes]:
        started.append(real(*given))
        return started[-1]

    async def cancelled(turns: int) -> None:
        around = environment("http://127.0.0.1:1", scratch=tmp_path, app_id="app", given={})
        starting = asyncio.create_task(WorkerProcess.start("receipts", around, tmp_path, 2048))
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait([starting])
        assert starting.cancelled()

    real = worker_process._spawn
    monkeypatch.setattr(worker_process, "_spawn", spawn)
    for turns in range(6):
        asyncio.run(cancelled(turns))

    assert started
    assert {each.returncode for each in started} <= {-9, 0}, "killed, or ended at the end of its channel"
