"""A log in Apache Kafka, for databases on several machines.

    append   ── encode ──► producer ────────► partition of the topic ────► followers ──► on_records
    callback ◄─────────── deliver ◄── acknowledged by all replicas in sync

One topic, one Kafka partition for each partition of the log, one message for each entry. Kafka provides order,
replication and durability; the log uses no transactions, no keys and no groups. Producer, consumer and end offsets
have a thread each, and all callbacks go through `deliver`.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from ...model.errors import LogError
from ..commands import LEVEL, Entry, Genesis, Record
from ..log import AppendCallback, Deliver, OnFailure, OnRecords, Stop, WholeHistory, genesis_entries
from . import genesis, topic
from .client import Clients
from .consumer import LogConsumers
from .end_offsets import EndCallback, EndOffsets
from .log_identity import LogIdentity
from .producer import AppendProducer
from .reader import KafkaReader
from .settings import KafkaAddress, Security

LOG_ID_BYTES: Final = 16

logger = logging.getLogger(__name__)


class KafkaLog(WholeHistory):
    """The log at an address. Creates the topic, and writes the first records to an empty topic.

    Args:
        url: `kafka://HOST:PORT[,HOST:PORT ...]/NAMESPACE`.
        deliver: Schedules a callback on the owner's loop.
        random_bytes: Draws a new log's id.
        security: Encryption and credentials.
        partitions: The number of partitions of a new log; an existing log keeps its number.
        identity_folder: The folder that stores the log's id and ends; None disables the check.
        allow_unsafe: Accept a topic that may lose records, with a warning.
        create: Whether to create a log if none exists.
        first: The first entry of each partition of a new log that continues the history of another.
        repeat: See `AppendProducer`. Without it several appends of one origin may be in flight, as in a copy.

    Raises:
        LogError: No broker responds, or the topic is not fit for a log.
        ForeignLogError, CorruptionError: The topic holds another log, or lacks records.
        NewerVersionError: A later release wrote the log.
    """

    def __init__(
        self,
        url: str,
        *,
        deliver: Deliver,
        random_bytes: Callable[[int], bytes],
        security: Security | None = None,
        partitions: int = 1,
        limits: str = "modern",
        level: int = LEVEL,
        identity_folder: Path | None = None,
        allow_unsafe: bool = False,
        create: bool = True,
        first: Sequence[Entry] | None = None,
        repeat: bool = True,
    ) -> None:
        self.clients = _clients(url, security)
        self._identity_folder = identity_folder
        first = first or genesis_entries(random_bytes(LOG_ID_BYTES), partitions, limits=limits, level=level)
        found = _fit_topic(self.clients, len(first) if create else None, allow_unsafe)
        self._followers = LogConsumers(self.clients, deliver)
        self._appends = AppendProducer(self.clients, deliver, self._followers.acknowledged, repeat=repeat)
        try:
            commands = self._appends.begin(found.partitions, first)
            self._reader = KafkaReader(self.clients, commands)
            self._save_identity(verify=True)
        except BaseException:
            self._appends.close()
            raise
        for text in self._unused(found):
            logger.warning("%s", text)
        self._ends = EndOffsets(self.clients, deliver, self._followers.expect)
        self._closed = False

    @staticmethod
    def open_reader(url: str, security: Security | None = None) -> KafkaReader:
        """Open the log at an address for reading, while other processes may write to it.

        Raises:
            LogError, ForeignLogError, CorruptionError, NewerVersionError: As above.
        """
        clients = _clients(url, security)
        found = _fit_topic(clients, None, allow_unsafe=True)
        return KafkaReader(clients, genesis.genesis(clients, found.partitions))

    @property
    def log_id(self) -> bytes:
        """The random id of this log."""
        return self._reader.log_id

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return self._reader.partitions

    def append(self, partition: int, entry: Entry, callback: AppendCallback) -> None:
        """Write `entry` after all earlier appends, with retries until it is acknowledged."""
        assert 0 <= partition < self.partitions, "no such partition"
        self._appends.append(partition, entry, callback)

    def follow(self, partition: int, start: int, on_records: OnRecords, on_failure: OnFailure) -> Stop:
        assert 0 <= partition < self.partitions, "no such partition"
        return self._followers.follow(partition, start, on_records, on_failure)

    def ask_end(self, partition: int, callback: EndCallback) -> None:
        self._ends.ask(partition, callback)

    def read(self, partition: int, start: int = 0) -> Iterator[Record]:
        return self._reader.read(partition, start)

    def hash_of(self, partition: int, offset: int) -> bytes:
        """Return a hash that identifies the record at an offset. Blocks."""
        return self._reader.hash_of(partition, offset)

    def end(self, partition: int) -> int:
        return self._reader.end(partition)

    def genesis(self, partition: int) -> Genesis:
        return self._reader.genesis(partition)

    def problems(self) -> list[str]:
        """Return the current problems and warnings about the topic. Blocks."""
        with _admin(self.clients) as admin:
            found = topic.find(admin, self.clients.address.topic)
        if found is None:
            return [f"the topic {self.clients.address.topic} does not exist"]
        return [*found.problems(), *found.warnings(), *self._unused(found)]

    def _unused(self, found: topic.Topic) -> list[str]:
        if found.partitions == self.partitions:
            return []
        return [
            f"the topic {found.name} has {found.partitions} partitions and the log {self.partitions}: the others were "
            "added to the topic later and are not used"
        ]

    def close(self) -> None:
        """Wait at most a few seconds for appends in flight, then stop all threads and callbacks."""
        if self._closed:
            return
        self._closed = True
        self._appends.close()
        self._ends.close()
        self._followers.close()
        try:
            self._save_identity()
        except LogError as error:
            logger.warning("%s", error)
        self._reader.close()

    def _save_identity(self, *, verify: bool = False) -> None:
        folder = self._identity_folder
        if folder is None:
            return
        ends = [self.end(partition) for partition in range(self.partitions)]
        if verify and (stored := LogIdentity.load(folder)) is not None:
            stored.verify(self.clients.address.topic, self.log_id, ends)
        LogIdentity(self.log_id, ends, str(self.clients.address)).save(folder)


def topic_problems(url: str, security: Security | None = None) -> tuple[list[str], list[str]]:
    """Return the settings of a log's topic that are unsafe, and those with a warning. Blocks.

    Raises:
        LogError: The brokers cannot be reached, or there is no such topic.
    """
    clients = _clients(url, security)
    name = clients.address.topic
    with _admin(clients) as admin:
        found = topic.find(admin, name)
    if found is None:
        raise LogError(
            f"there is no topic {name} at {clients.address}: name the log of a database that `foldb serve` created"
        )
    return found.problems(), found.warnings()


def _clients(url: str, security: Security | None) -> Clients:
    address, security = KafkaAddress.of(url), security or Security()
    if warning := security.warning(address):
        logger.warning("%s", warning)
    return Clients(address, security)


@contextmanager
def _admin(clients: Clients) -> Iterator[KafkaAdminClient]:
    with closing(clients.admin()) as admin:
        try:
            yield admin
        except KafkaError as error:
            raise clients.unreachable(error) from None


def _fit_topic(clients: Clients, partitions: int | None, allow_unsafe: bool) -> topic.Topic:
    """Return the topic after checking its settings. Create it with `partitions` partitions, unless that is None."""
    name = clients.address.topic
    with _admin(clients) as admin:
        found = topic.find(admin, name)
        if found is None and partitions is not None:
            found = topic.create(admin, name, partitions)
    if found is None:
        raise LogError(
            f"there is no topic {name} at {clients.address}: name the log of a database that `foldb serve` created"
        )
    problems = found.problems()
    if not found.has_log_time:
        raise LogError(problems[0])
    if problems and not allow_unsafe:
        raise LogError(f"{problems[0]}, or start with --allow-unsafe-kafka")
    for text in (*problems, *found.warnings()):
        logger.warning("%s", text)
    return found
