"""Find and open a log by its source.

a folder                      of a database, or of a node on Kafka
kafka://HOST:PORT/NAMESPACE   a log in Kafka
http://HOST:PORT              a server: its folder if that is on this machine, or its log in Kafka
"""

import os
import queue
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from ...log.commands import Entry, Position
from ...log.copy import Deliveries
from ...log.local import LocalLog
from ...log.log import HashedLog, Log
from ...model.durations import time_text
from ...model.errors import HorizonError
from ...model.lazy_dataclass import dataclass
from ...server.settings import kafka_variables
from .errors import CommandError, ExitCode
from .session import Session, existing, is_address

KAFKA: Final = "kafka://"
NODE_FILE: Final = "kafka.json"
"""The file by which a node on Kafka recognizes its log (log/kafka/log_identity.py, which imports the client)."""


class SourceLog(HashedLog, Protocol):
    """The log of a source."""

    @property
    def partitions(self) -> int: ...

    @property
    def horizon_ms(self) -> int | None: ...

    def close(self) -> None: ...


class LogServer(Protocol):
    """The client of a server, as commands on a log use it. The HTTP client is imported for its first request."""

    @property
    def url(self) -> str: ...

    def admin(self, operation: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class LogSource:
    """Where a log is.

    Attributes:
        location: The folder of the log, or its address in Kafka.
        folder: The folder of the log's snapshots on this machine: that of the database, or of a node.
        server: A server of the log that the source names.
    """

    location: str
    folder: Path | None
    server: LogServer | None = None

    @property
    def is_shared(self) -> bool:
        """Whether the log is in Kafka."""
        return self.location.startswith(KAFKA)

    def open(self) -> SourceLog:
        """Open the log to read. A server may write it at the same time."""
        if not self.is_shared:
            return LocalLog.open_reader(Path(self.location))
        from ...log.kafka import (  # the Kafka client takes as long to import as everything else
            KafkaLog,
            Security,
        )

        return KafkaLog.open_reader(self.location, Security.read(None, kafka_variables()))

    def snapshots_folder(self) -> Path:
        """Return the folder of the log's snapshots.

        Raises:
            CommandError: No folder is known.
        """
        if self.folder is None:
            raise CommandError(
                f"snapshots of {self.location} are kept in the folder of a node: name that folder, or give --db FOLDER",
                ExitCode.USAGE,
            )
        return self.folder


def source_of(session: Session, location: str | Path | None) -> LogSource:
    """Return the source that `location` names; None is the database of the session.

    Raises:
        CommandError: The source has no log, or one on another machine.
    """
    if location is None:
        given = session.settings.db
        if session.url is None and not is_address(given):
            return _of_folder(Path(given))
        return _of_server(session)
    text = str(location)
    if text.startswith(KAFKA):
        return _of_kafka(session, text)
    if is_address(text):
        return _of_server(session.of(text))
    return _of_folder(Path(text))


def _of_folder(folder: Path) -> LogSource:
    """Return the log in a folder, or the log in Kafka of the node that has the folder."""
    if not (folder / NODE_FILE).exists():
        return LogSource(str(existing(folder)), folder)
    from ...log.kafka.log_identity import LogIdentity

    identity = LogIdentity.load(folder)
    if identity is None or not identity.address:
        raise CommandError(
            f"{folder} is the folder of a node, whose log is in Kafka: give kafka://HOST:PORT/NAMESPACE",
            ExitCode.USAGE,
        )
    return LogSource(identity.address, folder)


def _of_server(session: Session) -> LogSource:
    status = session.client.admin("Status")
    address, path = status.get("Log"), status.get("Path")
    if address is None:
        return LogSource(str(session.folder), session.folder, session.client)
    folder = None if path is None or not (Path(path) / NODE_FILE).exists() else Path(path)
    return LogSource(address, folder, session.client)


def _of_kafka(session: Session, address: str) -> LogSource:
    """Return a log in Kafka, with the node or the node's folder that --db names."""
    db = session.settings.db
    if not session.settings.is_db_given:
        return LogSource(address, None)
    return LogSource(address, None, session.client) if is_address(db) else LogSource(address, Path(db))


def open_log(session: Session, location: str | Path | None = None) -> SourceLog:
    """Open the log of a source to read."""
    return source_of(session, location).open()


def check_position(log: SourceLog, position: Position) -> None:
    """Check that the log has the record at a position, or that it is behind the end.

    Raises:
        HorizonError: A trim removed the record.
    """
    if position.offset < log.begin(position.partition):
        log.read(position.partition, position.offset)


def check_time(log: SourceLog, time_ms: int) -> None:
    """Check that the log has the records from a log time on.

    Raises:
        HorizonError: A trim removed some of them.
    """
    if log.horizon_ms is not None and time_ms < log.horizon_ms:
        raise HorizonError(
            f"{time_text(time_ms)} is before the history horizon, {time_text(log.horizon_ms)}: `foldb log trim` "
            "removed the records before it"
        )


@contextmanager
def opened_to_write(location: str, first: Sequence[Entry] | None) -> Iterator[tuple[Log, Deliveries]]:
    """Open a log to append. A new log starts with `first`; with None the log must exist.

    Yields:
        The log, and the queue of its callbacks.
    """
    deliveries: Deliveries = queue.SimpleQueue()
    log: Log
    if location.startswith(KAFKA):
        from ...log.kafka import KafkaLog, Security

        log = KafkaLog(
            location,
            deliver=deliveries.put,
            random_bytes=os.urandom,
            security=Security.read(None, kafka_variables()),
            first=first,
            repeat=False,
        )
    else:
        log = LocalLog(
            location,
            clock=lambda: time.time_ns() // 1_000_000,
            deliver=deliveries.put,
            random_bytes=os.urandom,
            on_fatal=_raise,
            create=first is not None,
            first=first,
        )
    try:
        yield log, deliveries
    finally:
        log.close()


def _raise(error: BaseException) -> None:
    raise CommandError(f"the log accepts no more appends: {error}", ExitCode.UNREACHABLE) from error
