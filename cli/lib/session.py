"""What every command works with: the global flags, where data goes, and the database.

`--db` is an address, or a folder. A folder that a server has open is reached through that
server; any other is served by this process for as long as the command runs.
"""

import re
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
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
from .settings import Settings

_HOST_AND_PORT = re.compile(r"([\w.-]+|\[[0-9a-fA-F:]+\]):[0-9]{1,5}")

# A command that calls no server does without HTTP: `foldb serve` is to be there at once.
if TYPE_CHECKING:
    from .client import Client


class Session:
    """One run of the program. Leaving it closes what it opened."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.output = Output(settings)
        self._shapes: dict[str, KeyArguments] = {}
        self._stack = ExitStack()

    def close(self) -> None:
        self._stack.close()

    @cached_property
    def client(self) -> "Client":
        """The database, opened at the first use."""
        client = self._connect(self.url or self._serve())
        self._stack.callback(client.close)
        return client

    def shape(self, table: str) -> KeyArguments:
        """What a table looks like; asked once."""
        if table not in self._shapes:
            self._shapes[table] = KeyArguments(
                self.client.call("DescribeTable", {"TableName": table})["Table"]
            )
        return self._shapes[table]

    def closest_table(self, name: str) -> str | None:
        """Return the table whose name is closest to `name`, if one is close, of the first page of ListTables."""
        try:
            names = self.client.call("ListTables", {})["TableNames"]
        except CommandError:
            return None  # perhaps the key may not list tables: the failure at hand is reported without a suggestion
        return closest(name, names)

    @cached_property
    def folder(self) -> Path:
        """Where the log is: the database folder, or the one that the server on this machine has open."""
        if not is_address(self.settings.db):
            return existing(Path(self.settings.db))
        path = self.client.admin("Status").get("Path")
        if path is None:
            raise CommandError(
                f"{self.client.url} keeps its log in memory: there is no folder to read", ExitCode.USAGE
            )
        return existing(Path(path))

    @cached_property
    def url(self) -> str | None:
        """The address of the running server, if there is one."""
        return _url(self.settings.db, self._connect)

    @property
    def server(self) -> "Client | None":
        """The running server, if there is one."""
        return None if self.url is None else self.client

    @cached_property
    def limits(self) -> str:
        """The name of the set of limits that the database was made with."""
        return str(self.client.admin("Status")["Limits"])

    def read_footer(self, count: int, units: Any, thing: str = "item", more: str = "") -> None:
        """`12 items · 1.5 RCU · as of @10482 (2026-11-21T08:00:00.123Z)`, on stderr."""
        parts = [counted(count, thing), f"{units_text(units)} RCU", self._as_of(), more]
        self.output.say(" · ".join(part for part in parts if part))

    def write_footer(self, count: int, units: Any, thing: str = "item") -> None:
        """The same for writes."""
        parts = [counted(count, thing), f"{units_text(units)} WCU", self._as_of()]
        self.output.say(" · ".join(part for part in parts if part))

    def confirm(self, question: str) -> None:
        """Ask before what cannot be taken back; --yes answers, --no-input refuses to ask."""
        if self.settings.yes:
            return
        if self.settings.no_input:
            raise CommandError(f"{question} Nothing was done: say --yes.", ExitCode.USAGE)
        # Not `input`, which would write to stdout: that is for data.
        typer.echo(f"{question} [y/N] ", nl=False, err=True)
        answer = sys.stdin.readline() if sys.stdin else ""
        if not answer:
            typer.echo("", err=True)
            raise CommandError("nobody answered, and nothing was done: say --yes", ExitCode.USAGE)
        if answer.strip().lower() not in ("y", "yes"):
            raise CommandError("nothing was done", ExitCode.INTERRUPTED)

    def _connect(self, url: str) -> "Client":
        from .client import Client

        return Client(url, credentials=self.settings.credentials, ca=self.settings.ca)

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
            # A server that has the folder may only now have written down where it is, or wants another key.
            folder = Path(self.settings.db)
            url = _written(folder)
            if url is None or not _is_open(self._connect(url), folder):
                raise
            return url
        return server.endpoint_url


def closest(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that is closest to another name, whatever the case, if one is close.

    >>> closest("countres", ["Counters", "Orders"])
    'Counters'
    """
    from difflib import get_close_matches  # loaded after a failure alone

    by_lower = {each.lower(): each for each in names if each != name}
    return next((by_lower[each] for each in get_close_matches(name.lower(), by_lower, 1)), None)


def is_address(db: str) -> bool:
    """Whether --db names a server and not a folder."""
    return "://" in db


def existing(path: Path) -> Path:
    """The folder, if there is a database in it: a command with a slip in its path creates nothing."""
    if not path.exists() and _HOST_AND_PORT.fullmatch(str(path)):
        raise CommandError(
            f"there is no folder {path}. For a server say http://{path}.", ExitCode.UNREACHABLE
        )
    if not path.exists():
        raise CommandError(
            f"there is no database in {path}. `foldb serve --db {path}` makes one.", ExitCode.UNREACHABLE
        )
    if not path.is_dir():
        raise CommandError(f"{path} is a file: name the folder of a database", ExitCode.UNREACHABLE)
    # Not loaded above: a command that talks to an address does without the log.
    from ...log.local.durable_position import NAME as MARK
    from ...log.local.filesystem import SystemFilesystem
    from ...log.local.recovery import has_log

    # A log that has lost its segments still has its mark; who opens it says more about that.
    if not has_log(SystemFilesystem(), path) and not (path / MARK).exists():
        raise CommandError(
            f"there is no log in {path}: name a folder that `foldb serve` has served", ExitCode.UNREACHABLE
        )
    return path


def consumed(answer: dict[str, Any]) -> Any:
    """The units that an answer says were consumed, over all its tables."""
    capacity = answer.get("ConsumedCapacity") or []
    return sum(part["CapacityUnits"] for part in (capacity if isinstance(capacity, list) else [capacity]))


def _url(db: str, connect: "Callable[[str], Client]") -> str | None:
    """The address of the running server, if there is one."""
    if is_address(db):
        from .client import address

        return address(db)[0]
    url = _written(Path(db))
    try:
        return url if url is not None and _is_open(connect(url), Path(db)) else None
    except (CommandError, OSError):
        return None


def _written(folder: Path) -> str | None:
    """The address that a server has left in the folder."""
    # A command that talks to an address does without a server's modules: they take longer to load than it runs.
    from ...log.local.recovery import ADDRESS_NAME

    try:
        return str(orjson.loads((folder / ADDRESS_NAME).read_bytes())["endpoint_url"])
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
        return None


def _is_open(client: "Client", folder: Path) -> bool:
    """Whether that server has the folder open: one that was killed leaves its file, and its port may be another's."""
    try:
        path = client.admin("Status").get("Path")
        return path is not None and folder.samefile(path)
    finally:
        client.close()
