"""Changes as rows, and the definitions of triggers and tables, from a server or from a log.

server      the change feed, page by page. For changes that the feed does not keep, the log, if its folder is here
folder      the log, folded from its beginning: every change of every table, deleted ones too
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, Final, Protocol, TypeVar

import orjson

from ...model.errors import FoldbError
from ...streams.formats.plain import plain
from ...streams.formats.table_view import Delivery
from .errors import CommandError, ExitCode, RequestFailedError
from .filter_options import chooser
from .log_changes import LogChanges, since
from .log_location import SourceLog, open_log
from .output import counted
from .progress import progress
from .session import Session, closest, is_address
from .start_position import Start

Row = dict[str, Any]
T = TypeVar("T")

_PAGE: Final = 1000
_WAIT_MS: Final = 20_000
_NOT_KEPT: Final = ("TrimmedDataAccessException", "ResourceNotFoundException")
_NOTHING_KEPT: Final = "no table has a stream or a trigger: give a table with --table"
_KEPT: Final = ("ENABLED", "WATCHED")


class Reading(Protocol):
    """Changes of some tables, from a start position on."""

    @property
    def where(self) -> str:
        """Return the source of the changes, for the footer."""
        ...

    def rows(self, *, follow: bool) -> Iterator[Row]:
        """Yield the changes in the form of formats/plain.py, to the end, or forever with `follow`."""
        ...


def reading_of(session: Session, tables: list[str], start: Start, chosen: Row) -> Reading:
    """Return the feed of the server, or the log of a folder without a server."""
    if is_served(session):
        return Served(session, tables, start, chosen)
    return Folded(session, open_log(session), tables, start, chosen)


def check_triggers_run(session: Session, names: Iterable[str]) -> None:
    """Check that a server runs the triggers, or that none of them is behind.

    Raises:
        CommandError: A trigger is behind, and its folder has no server.
    """
    if is_served(session):
        return
    for name in names:
        described = session.client.admin("DescribeSubscription", {"Name": name})
        behind = sum(each["Changes"] for each in described["Lag"].values())
        if behind and described["Status"] == "ACTIVE":
            raise no_server_error(session, f": {name} is {counted(behind, 'change')} behind")


def no_server_error(session: Session, detail: str = "") -> CommandError:
    """Return the error for triggers of a folder without a server."""
    db = session.settings.db
    return CommandError(
        f"no server runs on {db}, so no trigger is called{detail}. `foldb serve --db {db}` calls them.",
        ExitCode.UNREACHABLE,
    )


def is_served(session: Session) -> bool:
    """Return whether there is a server. Without one the folder is open for this command alone."""
    return is_address(session.settings.db) or session.url is not None


class Served:
    """The feed of a server."""

    def __init__(self, session: Session, tables: list[str], start: Start, chosen: Row) -> None:
        self.where = "from the feed"
        self._session = session
        self._tables, self._start, self._chosen = tables, start, chosen
        self._request: Row = (
            ({"TableNames": tables} if tables else {}) | chosen | {"Start": start, "Limit": _PAGE}
        )

    def rows(self, *, follow: bool) -> Iterator[Row]:
        tables = self._tables or self._kept()
        if not tables:
            self.where = _NOTHING_KEPT
            if follow:
                self._session.output.say(_NOTHING_KEPT)
        after: Row = {}
        try:
            while True:
                answer = self._session.client.admin("Changes", self._request | after)
                yield from answer["Changes"]
                if answer["IsEnd"] and not follow:
                    return
                after = {"After": answer["Next"]} | ({"WaitMs": _WAIT_MS} if answer["IsEnd"] else {})
        except RequestFailedError as failure:
            if failure.name not in _NOT_KEPT or after:
                raise
            if not tables:
                return  # a snapshot of no table is empty
            reading = self._from_the_log(tables, failure)
        self.where = reading.where
        yield from reading.rows(follow=follow)

    def _kept(self) -> list[str]:
        """Return the tables whose changes the server keeps now."""
        streams = self._session.client.admin("Streams")["Streams"]
        return sorted({each["TableName"] for each in streams if each["Status"] in _KEPT})

    def _from_the_log(self, tables: list[str], failure: RequestFailedError) -> "Folded":
        """Return the same changes from the log of the server.

        Raises:
            RequestFailedError: The log cannot be read from this machine. It is `failure`.
        """
        try:
            log = open_log(self._session)
        except (CommandError, FoldbError):
            raise failure from None
        return Folded(self._session, log, tables, self._start, self._chosen)


class Folded:
    """The changes of a log, which is folded from its beginning."""

    where = "from the log"

    def __init__(
        self, session: Session, log: SourceLog, tables: list[str], start: Start, chosen: Row
    ) -> None:
        self._session = session
        self._log = log
        self._tables = tables
        self._start = start
        self._within = since(start, log)
        self._chooses = chooser(chosen).chooses

    def rows(self, *, follow: bool) -> Iterator[Row]:
        for delivery in self.deliveries(follow=follow):
            yield orjson.loads(plain(delivery))

    def deliveries(self, *, follow: bool) -> Iterator[Delivery]:
        """Yield the changes to the end, or forever with `follow`, before they are formatted.

        Raises:
            CommandError: The log has never had one of the tables.
        """
        settings, stderr = self._session.settings, self._session.output.stderr
        total = sum(map(self._log.end, range(self._log.partitions)))
        with progress(settings, stderr, "log", total) as advance:
            log_changes = LogChanges(self._log, self._tables, advance)
            yield from filter(self._chooses, self._existing(log_changes))
        unknown = sorted({*self._tables} - log_changes.names)
        if unknown:
            close = closest(unknown[0], log_changes.names)
            step = "`foldb log stats` lists the tables" if close is None else f"did you mean {close}?"
            raise CommandError(f"this log has never had a table {unknown[0]}; {step}", ExitCode.NOT_FOUND)
        if follow:
            yield from filter(self._chooses, log_changes.follow())

    def _existing(self, log_changes: LogChanges) -> Iterator[Delivery]:
        """Yield the changes from the start to the end, or the items, or nothing."""
        changes = log_changes.changes()
        if self._start["At"] not in ("NOW", "SNAPSHOT"):
            yield from filter(self._within, changes)
            return
        for _ in changes:
            pass
        if self._start["At"] == "SNAPSHOT":
            yield from log_changes.items()


class Known(Protocol):
    """The definitions of triggers and tables, and their changes."""

    def settings(self, name: str) -> Row:
        """Return all settings of a trigger.

        Raises:
            CommandError: The trigger does not exist.
        """
        ...

    def keys(self, table: str) -> list[str]:
        """Return the key attributes of a table, partition key first. [] if there is no such table."""
        ...

    def rows(self, tables: list[str], start: Start) -> Iterable[Row]:
        """Return the changes of tables from `start` to now."""
        ...

    def last(self, tables: list[str], choose: Callable[[Iterable[Row]], Iterable[T]], count: int) -> list[T]:
        """Return the last `count` results of `choose` for the changes of tables."""
        ...


def known(session: Session) -> Known:
    """Return the definitions from the server, or from the log of a folder without a server."""
    return _FromServer(session) if is_served(session) else _FromLog(session)


class _FromServer:
    def __init__(self, session: Session) -> None:
        self._session = session

    def settings(self, name: str) -> Row:
        settings: Row = self._session.client.admin("DescribeSubscription", {"Name": name})["Settings"]
        return settings

    def keys(self, table: str) -> list[str]:
        try:
            return self._session.shape(table).key_names()
        except RequestFailedError as failure:
            if failure.code is not ExitCode.NOT_FOUND:
                raise
            return []

    def rows(self, tables: list[str], start: Start) -> Iterable[Row]:
        return Served(self._session, tables, start, {}).rows(follow=False)

    def last(self, tables: list[str], choose: Callable[[Iterable[Row]], Iterable[T]], count: int) -> list[T]:
        found = list[T]()
        for at in ("HORIZON", "BEGINNING"):  # the feed is fast and usually enough; the log has every change
            if len(found) < count:
                found = list(deque(choose(self.rows(tables, {"At": at})), maxlen=count))
        return found


class _FromLog:
    def __init__(self, session: Session) -> None:
        self._session = session

    @cached_property
    def _log(self) -> SourceLog:
        return open_log(self._session)

    @cached_property
    def _log_changes(self) -> LogChanges:
        log_changes = LogChanges(self._log)
        deque(log_changes.changes(), maxlen=0)
        return log_changes

    def settings(self, name: str) -> Row:
        try:
            return self._log_changes.subscriptions[name].settings
        except KeyError:
            raise CommandError(
                f"there is no trigger {name} in {self._session.settings.db}; `foldb trigger list` lists the triggers",
                ExitCode.NOT_FOUND,
            ) from None

    def keys(self, table: str) -> list[str]:
        return self._log_changes.key_names(table)

    def rows(self, tables: list[str], start: Start) -> Iterable[Row]:
        return Folded(self._session, self._log, tables, start, {}).rows(follow=False)

    def last(self, tables: list[str], choose: Callable[[Iterable[Row]], Iterable[T]], count: int) -> list[T]:
        return list(deque(choose(self.rows(tables, {"At": "HORIZON"})), maxlen=count))
