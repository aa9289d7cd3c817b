"""A server whose clock only the test advances."""

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from foldb.server.app import Serving, new_loop
from foldb.server.settings import Settings

HOUR_MS = 3600 * 1000


class Clock:
    """Milliseconds since 1970."""

    def __init__(self) -> None:
        self.now_ms = time.time_ns() // 1_000_000

    def __call__(self) -> int:
        return self.now_ms

    def move(self, by_ms: int) -> None:
        self.now_ms += by_ms


@contextmanager
def clocked(path: Path | None, clock: Clock, **settings: Any) -> Iterator[str]:
    """Serve by that clock; yields the address."""
    started: Future[Serving] = Future()

    async def serve() -> None:
        own = Settings(path=path, port=0, ttl_interval_ms=10, **settings)
        serving = Serving(own, asyncio.get_running_loop(), clock=clock)
        await serving.start()
        started.set_result(serving)
        await serving.stopped.wait()
        await serving.stop()

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(serve())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=run)
    thread.start()
    serving = started.result(timeout=30)
    try:
        yield serving.url
    finally:
        serving.node.loop.call_soon_threadsafe(serving.stopped.set)
        thread.join(timeout=30)
