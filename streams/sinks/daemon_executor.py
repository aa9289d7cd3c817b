"""Work that may wait long for others, in a thread that nobody waits for when the process ends.

The pools of the standard library are waited for at the end, and a broker that is not there can take its time.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, cast

T = TypeVar("T")


async def apart(loop: asyncio.AbstractEventLoop, work: Callable[[], T]) -> T:
    """What `work` returns or raises. Who is cancelled meanwhile goes on; the work does too, and tells nobody."""
    done: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, error: Exception | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(cast(T, result))
        else:
            done.set_exception(error)

    def run() -> None:
        result, trouble = None, None
        try:
            result = work()
        except Exception as error:  # whatever it is, who waits is told
            trouble = error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(tell, result, trouble)

    threading.Thread(target=run, name="sink", daemon=True).start()
    return await done
