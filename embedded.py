"""A server inside somebody's Python process: a thread with a loop of its own.

serve() ──► Server: thread ──► Serving ──► endpoint_url
stop()  ──► finish what is in flight, close the log, end the thread
"""

import asyncio
import threading
from concurrent.futures import Future
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, get_type_hints

from .model.errors import RequestError
from .server.app import Serving, new_loop
from .server.settings import Settings

REGION: Final = "us-east-1"

SETTINGS: Final = frozenset(
    each.name for each in fields(Settings) if each.name not in ("path", "kafka_variables")
)
"""The keyword arguments of `serve`, which docs/python.md lists. The first is an argument of its own, the second the
environment's."""

_KINDS: Final = get_type_hints(Settings)


class Server:
    """A running server. Use it in a `with`, or call `stop` when done.

    Attributes:
        endpoint_url: Where it answers.
        settings: How it was started.
    """

    def __init__(self, path: str | Path | None, **settings: Any) -> None:
        """Start it, and return once it answers.

        Raises:
            TypeError: A setting has a name that docs/python.md does not list.
            ValueError: The path is an address, or a setting has a value that no server can use.
            FoldbError, OSError: The log cannot be opened, or the address is taken.
        """
        if path is not None and "://" in str(path):
            raise ValueError(
                f"{path} is an address: name the folder of a database, or None to keep it in memory"
            )
        values = {name: _converted(name, value) for name, value in settings.items()}
        self.settings = Settings(path=None if path is None else Path(path), **({"port": 0} | values))
        self._started: Future[Serving] = Future()
        self._ended: Future[None] = Future()
        # A daemon: a server that nobody stopped must not keep the interpreter from ending.
        self._thread = threading.Thread(target=self._run, name="foldb", daemon=True)
        self._thread.start()
        self._serving = self._started.result()
        self.endpoint_url = self._serving.url

    @property
    def boto3(self) -> dict[str, str]:
        """Keyword arguments for `boto3.client("dynamodb", ...)` and `boto3.resource`.

        Where the server has keys, boto3 looks for one of them where it always does.
        """
        where = {"endpoint_url": self.endpoint_url, "region_name": REGION}
        if self.settings.keys is not None:
            return where
        return where | {"aws_access_key_id": "foldb", "aws_secret_access_key": "foldb"}

    @property
    def environment(self) -> dict[str, str]:
        """Variables that point the AWS SDKs and the AWS CLI of a process here.

        Where the server has keys, the variables of the key are left out, as in `boto3`.
        """
        where = {
            "AWS_ENDPOINT_URL_DYNAMODB": self.endpoint_url,
            "AWS_ENDPOINT_URL_DYNAMODB_STREAMS": self.endpoint_url,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
        }
        if self.settings.keys is not None:
            return where
        return where | {"AWS_ACCESS_KEY_ID": "foldb", "AWS_SECRET_ACCESS_KEY": "foldb"}

    def wait_for_triggers(self, timeout: float = 10.0) -> None:
        """Wait until every trigger has handled everything written so far, and what that has led to.

        Raises:
            TimeoutError: They have not after so many seconds, or do not run; it says which.
        """
        settled: Future[dict[str, Any] | RequestError] = Future()
        triggers = self._serving.node.triggers
        self._loop.call_soon_threadsafe(triggers.settle, round(timeout * 1000), settled.set_result)
        answer = settled.result()
        if isinstance(answer, RequestError):
            raise TimeoutError(answer.message)

    def stop(self) -> None:
        """Answer what is in flight and stop. A second call does nothing.

        Raises:
            FoldbError, OSError: The log or the fold could not go on, before or while stopping.
        """
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._serving.stopped.set)
            self._thread.join()
        self._ended.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            (self._ended if self._started.done() else self._started).set_exception(error)
        else:
            self._ended.set_result(None)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        serving = Serving(self.settings, self._loop)
        await serving.start()
        self._started.set_result(serving)
        await serving.stopped.wait()
        await serving.stop()
        if serving.error is not None:
            raise serving.error


def _converted(name: str, value: Any) -> Any:
    """Return a setting's value as Settings has it: a path for the name of a file, a tuple for a list."""
    if name not in SETTINGS:
        close = get_close_matches(name, SETTINGS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise TypeError(f"serve() has no setting {name!r}{hint} docs/python.md lists the settings.")
    if value is not None and _KINDS[name] == Path | None:
        return Path(value)
    return tuple(value) if isinstance(value, list) else value
