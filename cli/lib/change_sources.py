"""Changes as rows, and what triggers and tables there are, from wherever that can be had.

a server      its feed, page by page; of tables that it keeps none for, its log, where that is a folder here
a folder      the log itself, folded from its beginning: any change of any table that there ever was
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, Final, Protocol, TypeVar

import orjson

from ...streams.formats.plain import plain
from ...streams.formats.table_view import Delivery
from .errors import CommandError, ExitCode, RequestFailedError
from .filter_options import chooser
from .log_changes import LogChanges, since
from .log_location import Readable, open_log
from .output import counted
from .progress import progress
from .session import Session, closest, is_address
from .start_position import Start

Row = dict[str, Any]
T = TypeVar("T")

_PAGE: Final = 1000
_WAIT_MS: Final = 20_000
_NOT_KEPT: Final = ("TrimmedDataAccessException", "ResourceNotFoundException")
_NOTHING_KEPT: Final = "no table has a stream or a trigger: name one with --table"
_KEPT: Final = ("ENABLED", "WATCHED")


class Reading(Protocol):
    """Changes of some tables, from a place on."""

    @property
    def where(self) -> str:
        """Where they come from, and how far they go, in a few words."""
        ...

    def rows(self, *, follow: bool) -> Iterator[Row]:
        """The changes up to the end, or for ever: as formats/plain.py tells them."""
        ...


def reading_of(session: Session, tables: list[str], start: Start, chosen: Row) -> Reading:
    """The feed of the server; of a folder that nobody serves, its log."""
    if is_served(session):
        return Served(session, tables, start, chosen)
    return Folded(session, open_log(session.folder), tables, start, chosen)


def check_called(session: Session, names: Iterable[str]) -> None:
    """Refuse to wait for triggers that are behind in a folder that nobody serves.

    Raises:
        CommandError: One is.
    """
    if is_served(session):
        return
    for name in names:
        described = session.client.admin("DescribeSubscription", {"Name": name})
        behind = sum(each["Changes"] for each in described["Lag"].values())
        if behind and described["Status"] == "ACTIVE":
            raise nobody_calls(session, f": {name} is {counted(behind, 'change')} behind")


def nobody_calls(session: Session, which: str = "") -> CommandError:
    """What is said of triggers in a folder that nobody serves."""
    db = session.settings.db
    return CommandError(
        f"nobody serves {db}, so no trigger is called{which}. `foldb serve --db {db}` calls them.",
        ExitCode.UNREACHABLE,
    )


def is_served(session: Session) -> bool:
    """Whether there is a server, and the folder is not only open for this command."""
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
        """The changes up to the end, or for ever."""
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
                return  # of a snapshot of nothing: the log has every table
            reading = self._from_the_log(tables, failure)
        self.where = reading.where
        yield from reading.rows(follow=follow)

    def _kept(self) -> list[str]:
        """The tables whose changes the server keeps now."""
        streams = self._session.client.admin("Streams")["Streams"]
        return sorted({each["TableName"] for each in streams if each["Status"] in _KEPT})

    def _from_the_log(self, tables: list[str], failure: RequestFailedError) -> "Folded":
        """The same out of the log that the server writes, if it can be read from here."""
        try:
            folder = self._session.folder
        except CommandError:
            raise failure from None
        return Folded(self._session, open_log(folder), tables, self._start, self._chosen)


class Folded:
    """The changes that a log holds, which is folded from its beginning."""

    where = "from the log"

    def __init__(self, session: Session, log: Readable, tables: list[str], start: Start, chosen: Row) -> None:
        self._session = session
        self._log = log
        self._tables = tables
        self._start = start
        self._within = since(start, log)
        self._chooses = chooser(chosen).chooses

    def rows(self, *, follow: bool) -> Iterator[Row]:
        """The changes up to the end, or for ever."""
        for delivery in self.deliveries(follow=follow):
            yield orjson.loads(plain(delivery))

    def deliveries(self, *, follow: bool) -> Iterator[Delivery]:
        """The same, not yet written."""
        settings, stderr = self._session.settings, self._session.output.stderr
        total = sum(map(self._log.end, range(self._log.partitions)))
        with progress(settings, stderr, "log", total) as advance:
            past = LogChanges(self._log, self._tables, advance)
            yield from filter(self._chooses, self._first(past))
        unknown = sorted({*self._tables} - past.names)
        if unknown:
            close = closest(unknown[0], past.names)
            step = "`foldb log stats` names the tables" if close is None else f"did you mean {close}?"
            raise CommandError(
                f"there was never a table {unknown[0]} in this log; {step}", ExitCode.NOT_FOUND
            )
        if follow:
            yield from filter(self._chooses, past.follow())

    def _first(self, past: LogChanges) -> Iterator[Delivery]:
        """What there is already: changes, items as they are, or nothing."""
        changes = past.changes()
        if self._start["At"] not in ("NOW", "SNAPSHOT"):
            yield from filter(self._within, changes)
            return
        for _ in changes:
            pass
        if self._start["At"] == "SNAPSHOT":
            yield from past.items()


class Known(Protocol):
    """What a database knows of its triggers and tables."""

    def settings(self, name: str) -> Row:
        """All settings of a trigger.

        Raises:
            CommandError: There is none of that name.
        """
        ...

    def keys(self, table: str) -> list[str]:
        """The key attributes of a table, partition key first; [] if there is none of that name."""
        ...

    def rows(self, tables: list[str], start: Start) -> Iterable[Row]:
        """The changes of tables from a place up to now."""
        ...

    def last(self, tables: list[str], choose: Callable[[Iterable[Row]], Iterable[T]], count: int) -> list[T]:
        """The last so many of what `choose` makes of their changes."""
        ...


def known(session: Session) -> Known:
    """The same: from the server; of a folder that nobody serves, from its log."""
    return _Asked(session) if is_served(session) else _Read(session)


class _Asked:
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
        for at in ("HORIZON", "BEGINNING"):  # the feed is quick, and has often enough; the log has all
            if len(found) < count:
                found = list(deque(choose(self.rows(tables, {"At": at})), maxlen=count))
        return found


class _Read:
    def __init__(self, session: Session) -> None:
        self._session = session

    @cached_property
    def _log(self) -> Readable:
        return open_log(self._session.folder)

    @cached_property
    def _past(self) -> LogChanges:
        past = LogChanges(self._log)
        deque(past.changes(), maxlen=0)
        return past

    def settings(self, name: str) -> Row:
        try:
            return self._past.subscriptions[name].settings
        except KeyError:
            raise CommandError(
                f"there is no trigger {name} in {self._session.settings.db}; `foldb trigger list` names those that "
                "there are",
                ExitCode.NOT_FOUND,
            ) from None

    def keys(self, table: str) -> list[str]:
        return self._past.key_names(table)

    def rows(self, tables: list[str], start: Start) -> Iterable[Row]:
        return Folded(self._session, self._log, tables, start, {}).rows(follow=False)

    def last(self, tables: list[str], choose: Callable[[Iterable[Row]], Iterable[T]], count: int) -> list[T]:
        return list(deque(choose(self.rows(tables, {"At": "HORIZON"})), maxlen=count))
