"""Open a log by its location: a database folder, or kafka://HOST:PORT/NAMESPACE."""

import os
import queue
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from ...log.commands import Entry, Genesis, Record
from ...log.copy import Deliveries
from ...log.local import LocalLog
from ...log.log import Log
from .errors import CommandError, ExitCode
from .session import Session, existing
from .settings import kafka_variables

KAFKA = "kafka://"


class ReadableLog(Protocol):
    """A log that can be read."""

    @property
    def log_id(self) -> bytes: ...

    @property
    def partitions(self) -> int: ...

    def read(self, partition: int, start: int = 0) -> Iterator[Record]: ...

    def end(self, partition: int) -> int: ...

    def genesis(self, partition: int) -> Genesis: ...

    def hash_of(self, partition: int, offset: int) -> bytes: ...

    def close(self) -> None: ...


def open_log(location: str | Path) -> ReadableLog:
    """Open a log to read. A server may write it at the same time."""
    text = str(location)
    if not text.startswith(KAFKA):
        return LocalLog.open_reader(existing(Path(location)))
    from ...log.kafka import KafkaLog, Security  # the Kafka client takes as long to import as everything else

    return KafkaLog.open_reader(text, Security.read(None, kafka_variables()))


def log_of(session: Session, location: str | None) -> ReadableLog:
    """Open the log at a location, or that of the session's database, to read."""
    return open_log(session.folder if location is None else location)


@contextmanager
def opened_to_write(location: str, first: Sequence[Entry]) -> Iterator[tuple[Log, Deliveries]]:
    """Open a log to append. A new log starts with `first`.

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
            first=first,
        )
    try:
        yield log, deliveries
    finally:
        log.close()


def _raise(error: BaseException) -> None:
    raise CommandError(f"the log accepts no more appends: {error}", ExitCode.UNREACHABLE) from error
