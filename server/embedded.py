"""A server in a thread of the caller's process: `with foldb.serve("data") as server`.

The thread has the loop; everything of the node happens there. Only starting and stopping cross over.
"""

import asyncio
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from .app import Serving, new_loop
from .settings import Settings


class Server:
    """Serves while its `with` block runs.

    Attributes:
        endpoint_url: Where it answers.
    """

    endpoint_url: str

    def __init__(self, path: str | Path | None = None, **settings: Any) -> None:
        """Say what to serve; `settings` are those of `Settings`, and the port is a free one unless given."""
        settings.setdefault("port", 0)
        self._settings = Settings(path=None if path is None else Path(path), **settings)
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._serving: Serving | None = None

    @property
    def boto3(self) -> dict[str, Any]:
        """The keyword arguments that point boto3 here: `boto3.client("dynamodb", **server.boto3)`."""
        return {
            "endpoint_url": self.endpoint_url,
            "region_name": "us-east-1",
            "aws_access_key_id": "foldb",
            "aws_secret_access_key": "foldb",
        }

    def __enter__(self) -> "Server":
        self._thread = threading.Thread(target=self._run, name="foldb", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._loop is not None
        assert self._serving is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._serving.stopped.set)
        self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._serving = serving = Serving(self._settings, self._loop)
        await serving.start()
        self.endpoint_url = serving.url
        self._ready.set()
        await serving.stopped.wait()
        await serving.stop()
        if serving.error is not None:
            raise serving.error
