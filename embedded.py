"""A server in a thread of the calling process: the implementation of `foldb.serve`.

serve() ──► Server: thread with an event loop ──► Serving ──► endpoint_url
stop()  ──► answer the requests in flight, close the log, end the thread
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from copy import deepcopy
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, Unpack

import orjson

from .model.cuts import SEPARATOR, parse_cut, split_name
from .model.errors import RequestError
from .server.api.admin.history import read_differences, read_item_history
from .server.api.as_of import rename
from .server.api.operation import Answer
from .server.app import Serving, new_loop
from .server.database import Database
from .server.setting_keywords import SettingKeywords
from .server.settings import SETTINGS, Settings

REGION: Final = "us-east-1"
_REASON: Final = "x-foldb-reason"


class Server:
    """A running server. Use it in a `with`, or call `stop`.

    Attributes:
        endpoint_url: The URL of the server.
    """

    def __init__(self, path: str | Path | None, **settings: Unpack[SettingKeywords]) -> None:
        """Start the server. Return when it answers requests.

        Raises:
            TypeError: The name of a setting is not in docs/python.md.
            ValueError: The path is a URL, or the value of a setting cannot be used.
            FoldbError, OSError: The log cannot be opened, or the address is in use.
        """
        if path is not None and "://" in str(path):
            raise ValueError(
                f"{path} is a URL: pass the folder of a database, or None to keep the database in memory"
            )
        self.settings = Settings(path=None if path is None else Path(path), **_converted(settings))
        self._started: Future[Serving] = Future()
        self._ended: Future[None] = Future()
        # A daemon thread: a server that is never stopped does not keep the interpreter from exiting.
        self._thread = threading.Thread(target=self._run, name="foldb", daemon=True)
        self._thread.start()
        self._serving = self._started.result()
        self.endpoint_url = self._serving.url

    @property
    def boto3(self) -> dict[str, str]:
        """Return keyword arguments for `boto3.client("dynamodb", ...)` and `boto3.resource`.

        If the server has keys, they hold no credentials, and boto3 searches its usual places.
        """
        arguments = {"endpoint_url": self.endpoint_url, "region_name": REGION}
        if self.settings.keys is not None:
            return arguments
        return arguments | {"aws_access_key_id": "foldb", "aws_secret_access_key": "foldb"}

    @property
    def environment(self) -> dict[str, str]:
        """Return environment variables that make the AWS SDKs and the AWS CLI use this server.

        If the server has keys, they hold no credentials, as in `boto3`.
        """
        variables = {
            "AWS_ENDPOINT_URL_DYNAMODB": self.endpoint_url,
            "AWS_ENDPOINT_URL_DYNAMODB_STREAMS": self.endpoint_url,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
        }
        if self.settings.keys is not None:
            return variables
        return variables | {"AWS_ACCESS_KEY_ID": "foldb", "AWS_SECRET_ACCESS_KEY": "foldb"}

    def with_reason(self, reason: str) -> Any:
        """Return a boto3 client whose writes have a reason, which the log keeps.

        Args:
            reason: The text, of at most 512 bytes in UTF-8.

        Raises:
            ImportError: boto3 is not installed.
        """
        import boto3

        client = boto3.client("dynamodb", **self.boto3)
        client.meta.events.register("before-call.dynamodb", partial(_add_reason, reason))
        client.meta.events.register("before-send.dynamodb", partial(_encode_reason, reason))
        return client

    def at(self, cut: str) -> Any:
        """Return a boto3 client that reads the tables as they were at a cut. The server refuses its writes.

        Args:
            cut: A position such as `10482.3`, a time such as `2026-11-20T12:00:00Z`, or an age such as `-1h`, which is
                counted from each request.

        Raises:
            ValueError: The text is not a cut.
            ImportError: boto3 is not installed.
        """
        import boto3

        parse_cut(cut)
        client = boto3.client("dynamodb", **self.boto3)
        client.meta.events.register("provide-client-params.dynamodb", partial(_name_cut, cut))
        client.meta.events.register("after-call.dynamodb.BatchGetItem", _drop_cuts)
        return client

    def history(
        self, table: str, key: dict[str, Any], *, since: str | None = None, until: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the versions of an item and the refused writes to it, the newest first, as ItemHistory returns them.

        Args:
            table: The name of the table.
            key: The key, in DynamoDB JSON: `{"id": {"S": "o-1"}}`.
            since: Yield only what was written after this cut.
            until: Yield only what was written up to this cut; None is now.

        Raises:
            ValueError: The table did not exist, or the key or a cut is invalid. The text says which.
        """
        yield from self._pages(
            read_item_history, {"TableName": table, "Key": key}, "Versions", since=since, until=until
        )

    def differences(
        self, table: str, since: str, until: str | None = None, *, other: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the items of a table that differ between two cuts, as TableDifferences returns them.

        Args:
            table: The name of the table.
            since: The earlier cut.
            until: The later cut; None is now.
            other: The name of another table, which is compared as it was at `until`.

        Raises:
            ValueError: A table did not exist, or a cut is invalid. The text says which.
        """
        body = {"TableName": table} if other is None else {"TableName": table, "OtherTable": other}
        yield from self._pages(read_differences, body, "Differences", since=since, until=until)

    def _pages(
        self,
        read: Callable[[Database, dict[str, Any]], Coroutine[Any, Any, Answer]],
        body: dict[str, Any],
        member: str,
        **cuts: str | None,
    ) -> Iterator[dict[str, Any]]:
        """Yield the entries of all pages of ItemHistory or TableDifferences."""
        names = {"since": "From", "until": "To"}
        body |= {names[name]: cut for name, cut in cuts.items() if cut is not None}
        while True:
            page = asyncio.run_coroutine_threadsafe(read(self._serving.node, body), self._loop)
            try:
                answer = orjson.loads(page.result().body)
            except RequestError as error:
                raise ValueError(error.message) from None
            yield from answer[member]
            if "Next" not in answer:
                return
            body |= {name: answer[name] for name in ("From", "To", "Next") if name in answer}

    def wait_for_triggers(self, timeout: float = 10.0) -> None:
        """Wait until every trigger has handled all changes, including changes that triggers write.

        Args:
            timeout: Seconds.

        Raises:
            TimeoutError: A trigger is behind after `timeout` seconds, or does not run. The text names it.
        """

        async def wait() -> None:
            await self._serving.node.triggers.wait_for_triggers(round(timeout * 1000))

        try:
            asyncio.run_coroutine_threadsafe(wait(), self._loop).result()
        except RequestError as error:
            raise TimeoutError(error.message) from None

    def stop(self) -> None:
        """Answer the requests in flight and stop the server. A second call has no effect.

        Raises:
            FoldbError, OSError: The log or the fold failed, before the call or during it.
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


def _add_reason(reason: str, params: dict[str, Any], **_: object) -> None:
    """Add the reason to a request before it is signed."""
    params["headers"][_REASON] = reason


def _encode_reason(reason: str, request: Any, **_: object) -> None:
    """Encode the signed reason as UTF-8: http.client would encode it in Latin-1."""
    request.headers[_REASON] = reason.encode()


def _name_cut(cut: str, params: dict[str, Any], **_: object) -> dict[str, Any]:
    """Return the parameters of a request with the cut in the names of its tables."""
    named = deepcopy(params)
    rename(named, lambda name: f"{name}{SEPARATOR}{cut}")
    return named


def _drop_cuts(parsed: dict[str, Any], **_: object) -> None:
    """Name the tables in an answer as the request of the caller did, without the cut."""
    for member in ("Responses", "UnprocessedKeys"):
        found = parsed.get(member, {})
        parsed[member] = {split_name(name)[0]: value for name, value in found.items()}


def _converted(settings: Mapping[str, object]) -> dict[str, Any]:
    """Return the settings as Settings holds them: a Path for a file name, a tuple for a list.

    Raises:
        TypeError: The name of a setting is unknown.
    """
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in SETTINGS:
            close = get_close_matches(name, SETTINGS, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"serve() has no setting {name!r}{hint} docs/python.md lists the settings.")
        if isinstance(value, str) and SETTINGS[name].kind == Path | None:
            found[name] = Path(value)
        else:
            found[name] = tuple(value) if isinstance(value, list) else value
    return found
