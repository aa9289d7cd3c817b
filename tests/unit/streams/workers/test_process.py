"""One child, asked and ended, while whoever waits for it is called off."""

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
    """A child that has loaded the function f of a text."""
    around = environment("http://127.0.0.1:1", scratch=folder, app_id="app", given={})
    child = await WorkerProcess.start("receipts", around, folder, 2048)
    load: dict[str, Any] = {"kind": "python", "name": "app:f", "subscription": "receipts"}
    try:
        answer = await child.request(
            {"do": "load", "texts": {"app": ["/app.py", text, None]}, **load}, b"", 60
        )
        assert "error" not in answer
        yield child
    finally:
        await child.kill()


async def call(child: WorkerProcess, timeout_s: float = 60) -> dict[str, Any]:
    return await child.request({"do": "call"}, plain(numbered(1)[0]), timeout_s)


def test_who_is_called_off_while_a_child_ends_keeps_nobody_else_from_waiting_for_that(tmp_path: Path) -> None:
    async def called_off() -> int:
        async with loaded(tmp_path, FOR_EVER) as child:
            first = asyncio.create_task(child.kill())
            await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait([first])
            return await child.kill()

    assert asyncio.run(called_off()) == -9


def test_who_is_called_off_while_a_late_child_is_looked_at_leaves_none_that_could_answer_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer would be taken for that to the next question."""
    looking = asyncio.Event()

    async def look(_: WorkerProcess) -> str:
        looking.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def called_off() -> None:
        async with loaded(tmp_path, FOR_EVER) as child:
            late = asyncio.create_task(call(child, timeout_s=0))
            await looking.wait()
            late.cancel()
            await asyncio.wait([late])
            assert late.cancelled()
            assert not child.is_alive

    monkeypatch.setattr(WorkerProcess, "_stacks", look)
    asyncio.run(called_off())


def test_what_is_no_answer_ends_the_child(tmp_path: Path) -> None:
    """A function may write to any file that its process has open, and to the server too."""
    text = "import os\ndef f(change):\n    [os.write(fd, b'\\0\\0\\0\\5\\0\\0\\0\\1?') for fd in sockets()]\n"
    text += "def sockets():\n    return [int(fd) for fd in os.listdir('/proc/self/fd')\n"
    text += "            if os.path.islink(p := f'/proc/self/fd/{fd}') and 'socket' in os.readlink(p)]\n"

    async def asked() -> None:
        async with loaded(tmp_path, text) as child:
            with pytest.raises(ValueError, match="JSON"):
                await call(child)
            assert not child.is_alive

    asyncio.run(asked())


def test_who_is_called_off_while_a_child_starts_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nothing else happens on the loop after that: what was started is waited for all the same."""
    started: list[subprocess.Popen[bytes]] = []

    def spawn(*given: Any) -> subprocess.Popen[bytes]:
        started.append(real(*given))
        return started[-1]

    async def called_off(turns: int) -> None:
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
        asyncio.run(called_off(turns))

    assert {each.returncode for each in started} == {-9}
