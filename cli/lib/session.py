"""The session of a command: the global flags, the output, and the database.

`--db` is an address or a folder. A folder with a running server is reached through the server; this process serves
another folder while the command runs.
"""

import re
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import typer

from ... import serve
from ...model.errors import LogLockedError
from .errors import CommandError, ExitCode
from .key_arguments import KeyArguments
from .output import Output, counted, time_text, units_text
from .settings import SessionSettings

_HOST_AND_PORT = re.compile(r"([\w.-]+|\[[0-9a-fA-F:]+\]):[0-9]{1,5}")

# A command that calls no server, such as `foldb serve`, does not import the HTTP client.
if TYPE_CHECKING:
    from .client import Client


class Session:
    """One run of the program. `close` closes all that it opened."""

    def __init__(self, settings: SessionSettings) -> None:
        self.settings = settings
        self.output = Output(settings)
        self._shapes: dict[str, KeyArguments] = {}
        self._stack = ExitStack()

    def close(self) -> None:
        self._stack.close()

    @cached_property
    def client(self) -> "Client":
        """Return the client of the database, which is opened at the first use."""
        client = self._connect(self.url or self._serve())
        self._stack.callback(client.close)
        return client

    def of(self, db: str) -> "Session":
        """Return a session of another database with the same flags, until this one closes."""
        other = Session(replace(self.settings, db=db))
        self._stack.callback(other.close)
        return other

    def shape(self, table: str) -> KeyArguments:
        """Return the description of a table, which is requested once."""
        if table not in self._shapes:
            self._shapes[table] = KeyArguments(
                self.client.call("DescribeTable", {"TableName": table})["Table"]
            )
        return self._shapes[table]

    def closest_table(self, name: str) -> str | None:
        """Return the table with a name close to `name`, from the first page of ListTables. None if none is close."""
        try:
            names = self.client.call("ListTables", {})["TableNames"]
        except CommandError:
            return None  # the key may have no right to list tables, and the suggestion is optional
        return closest(name, names)

    @cached_property
    def folder(self) -> Path:
        """Return the folder of the log: the database folder, or the folder of the server on this machine.

        Raises:
            CommandError: The folder has no database, or the server has no folder.
        """
        if not is_address(self.settings.db):
            return existing(Path(self.settings.db))
        status = self.client.admin("Status")
        if status.get("Log") is not None:
            raise CommandError(f"{self.client.url} has its log in Kafka: {status['Log']}", ExitCode.USAGE)
        path = status.get("Path")
        if path is None:
            raise CommandError(
                f"{self.client.url} has its log in memory: there is no folder to read", ExitCode.USAGE
            )
        return existing(Path(path))

    @cached_property
    def url(self) -> str | None:
        """Return the address of the running server. None if there is none."""
        return _url(self.settings.db, self._connect)

    @property
    def server(self) -> "Client | None":
        """Return the client of the running server. None if there is none."""
        return None if self.url is None else self.client

    @cached_property
    def limits(self) -> str:
        """Return the name of the database's limits."""
        return str(self.client.admin("Status")["Limits"])

    def read_footer(self, count: int, units: Any, thing: str = "item", more: str = "") -> None:
        """Print `12 items · 1.5 RCU · as of @10482 (2026-11-21T08:00:00.123Z)` to stderr."""
        parts = [counted(count, thing), f"{units_text(units)} RCU", self._as_of(), more]
        self.output.say(" · ".join(part for part in parts if part))

    def write_footer(self, count: int, units: Any, thing: str = "item") -> None:
        """Print the footer of a write to stderr."""
        parts = [counted(count, thing), f"{units_text(units)} WCU", self._as_of()]
        self.output.say(" · ".join(part for part in parts if part))

    def confirm(self, question: str) -> None:
        """Ask for confirmation. --yes confirms, and --no-input refuses.

        Raises:
            CommandError: The user does not confirm.
        """
        if self.settings.yes:
            return
        if self.settings.no_input:
            raise CommandError(f"{question} Nothing was done: give --yes.", ExitCode.USAGE)
        # `input` would write the question to stdout, which is for data.
        typer.echo(f"{question} [y/N] ", nl=False, err=True)
        answer = sys.stdin.readline() if sys.stdin else ""
        if not answer:
            typer.echo("", err=True)
            raise CommandError("there was no answer, and nothing was done: give --yes", ExitCode.USAGE)
        if answer.strip().lower() not in ("y", "yes"):
            raise CommandError("nothing was done", ExitCode.INTERRUPTED)

    def _connect(self, url: str) -> "Client":
        from .client import Client

        return Client(
            url, credentials=self.settings.credentials, ca=self.settings.ca, reason=self.settings.why
        )

    def _as_of(self) -> str:
        client = self.client
        if client.position is None:
            return ""
        time = "" if client.log_time_ms is None else f" ({time_text(client.log_time_ms)})"
        return f"as of @{client.position}{time}"

    def _serve(self) -> str:
        try:
            server = self._stack.enter_context(serve(existing(Path(self.settings.db)), runs_triggers=False))
        except LogLockedError:
            # A server that is starting may have written its address only now, or needs another key.
            folder = Path(self.settings.db)
            url = _written_address(folder)
            if url is None or not _is_open(self._connect(url), folder):
                raise
            return url
        return server.endpoint_url


def closest(name: str, names: Iterable[str]) -> str | None:
    """Return the name closest to `name`, in any case. None if none is close.

    >>> closest("countres", ["Counters", "Orders"])
    'Counters'
    """
    from difflib import get_close_matches  # needed after a failure alone

    by_lower = {each.lower(): each for each in names if each != name}
    return next((by_lower[each] for each in get_close_matches(name.lower(), by_lower, 1)), None)


def is_address(db: str) -> bool:
    """Return whether --db is the address of a server, not a folder."""
    return "://" in db


def existing(path: Path) -> Path:
    """Return the path if it is the folder of a database. A mistyped path must not create one.

    Raises:
        CommandError: `path` is not the folder of a database.
    """
    if not path.exists() and _HOST_AND_PORT.fullmatch(str(path)):
        raise CommandError(
            f"there is no folder {path}. For a server write http://{path}.", ExitCode.UNREACHABLE
        )
    if not path.exists():
        raise CommandError(
            f"there is no database in {path}. `foldb serve --db {path}` creates one.", ExitCode.UNREACHABLE
        )
    if not path.is_dir():
        raise CommandError(f"{path} is a file: give the folder of a database", ExitCode.UNREACHABLE)
    # Imported here, because a command with an address does not need the log.
    from ...log.local.durable_position import NAME as MARK
    from ...log.local.filesystem import SystemFilesystem
    from ...log.local.recovery import has_log

    # A log without segments still has the file `mark`. Opening it reports the loss.
    if not has_log(SystemFilesystem(), path) and not (path / MARK).exists():
        raise CommandError(
            f"there is no log in {path}: give a folder that `foldb serve` has served", ExitCode.UNREACHABLE
        )
    return path


def consumed(answer: dict[str, Any]) -> Any:
    """Return the consumed units of a response, over all tables."""
    capacity = answer.get("ConsumedCapacity") or []
    return sum(part["CapacityUnits"] for part in (capacity if isinstance(capacity, list) else [capacity]))


def _url(db: str, connect: "Callable[[str], Client]") -> str | None:
    """Return the address of the running server. None if there is none."""
    if is_address(db):
        from .client import address

        return address(db)[0]
    url = _written_address(Path(db))
    try:
        return url if url is not None and _is_open(connect(url), Path(db)) else None
    except (CommandError, OSError):
        return None


def _written_address(folder: Path) -> str | None:
    """Return the address that a server has written to the folder."""
    # A command with an address does not need the server's modules, which take longer to import than it runs.
    from ...log.local.recovery import ADDRESS_NAME

    try:
        return str(orjson.loads((folder / ADDRESS_NAME).read_bytes())["endpoint_url"])
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
        return None


def _is_open(client: "Client", folder: Path) -> bool:
    """Return whether the server has the folder open. A killed server leaves its file, and its port may be reused."""
    try:
        path = client.admin("Status").get("Path")
        return path is not None and folder.samefile(path)
    finally:
        client.close()
