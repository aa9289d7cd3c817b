"""A log, by what a command line calls it: a database folder, or kafka://HOST:PORT/NAMESPACE."""

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
from .settings import kafka_security

KAFKA = "kafka://"


class Readable(Protocol):
    """What can be read of any log."""

    @property
    def log_id(self) -> bytes: ...

    @property
    def partitions(self) -> int: ...

    def read(self, partition: int, start: int = 0) -> Iterator[Record]: ...

    def end(self, partition: int) -> int: ...

    def genesis(self, partition: int) -> Genesis: ...

    def hash_of(self, partition: int, offset: int) -> bytes: ...

    def close(self) -> None: ...


def open_log(place: str | Path) -> Readable:
    """The log, to read beside whoever writes it."""
    text = str(place)
    if not text.startswith(KAFKA):
        return LocalLog.open_reader(existing(Path(place)))
    from ...log.kafka.log import KafkaLog  # the client of Kafka takes as long to load as all the rest

    return KafkaLog.open_reader(text, kafka_security())


def log_of(session: Session, place: str | None) -> Readable:
    """The log that was named, or that of the database."""
    return open_log(session.folder if place is None else place)


@contextmanager
def opened_to_write(place: str, first: Sequence[Entry]) -> Iterator[tuple[Log, Deliveries]]:
    """The log to append to, begun with `first` if it is not there yet, and where it delivers to."""
    deliveries: Deliveries = queue.SimpleQueue()
    log: Log
    if place.startswith(KAFKA):
        from ...log.kafka.log import KafkaLog

        log = KafkaLog(
            place,
            deliver=deliveries.put,
            random_bytes=os.urandom,
            security=kafka_security(),
            first=first,
            repeat=False,
        )
    else:
        log = LocalLog(
            place,
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
    raise CommandError(f"the log took no more: {error}", ExitCode.UNREACHABLE) from error
