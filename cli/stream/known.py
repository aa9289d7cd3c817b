"""What a database knows of its triggers and tables: from its server, or, where nobody serves it, from its log."""

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from ..failures import CommandError, ExitCode, ServerError
from ..logs.places import open_log
from ..session import Session, is_address
from .past import Past
from .reading import Folded, Row, Served
from .since import Start


class Known(Protocol):
    """See the module."""

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


def known(session: Session) -> Known:
    """The database that is meant."""
    if is_address(session.settings.db) or session.url is not None:
        return _Asked(session)
    return _Read(session)


class _Asked:
    def __init__(self, session: Session) -> None:
        self._session = session

    def settings(self, name: str) -> Row:
        settings: Row = self._session.client.admin("DescribeSubscription", {"Name": name})["Settings"]
        return settings

    def keys(self, table: str) -> list[str]:
        try:
            return self._session.shape(table).key_names()
        except ServerError as failure:
            if failure.code is not ExitCode.NOT_FOUND:
                raise
            return []

    def rows(self, tables: list[str], start: Start) -> Iterable[Row]:
        return Served(self._session, tables, start, {}).rows(follow=False)


class _Read:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._log = open_log(session.folder)
        self._past = Past(self._log)
        deque(self._past.changes(), maxlen=0)

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
