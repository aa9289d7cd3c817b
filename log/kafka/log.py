"""The log in Apache Kafka: when one machine is not enough.

    append ── encode ──► producer ────────► partition of the topic ────► followers ──► on_records
    done   ◄─────────── deliver ◄── acknowledged by all replicas in sync

One topic, as many partitions as the log has, one message an entry. Kafka gives order, replication and durability;
nothing else of it is used: no transactions, no keys, no groups. Each part has a thread of its own, and all that they
tell goes through `deliver`.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from ...model.errors import LogError
from ..commands import Entry, Genesis, Record
from ..log import LEVEL, Deliver, Done, OnFailure, OnRecords, Stop, genesis_entries
from . import genesis, topic
from .client import Clients
from .consumer import LogConsumers
from .end_offsets import EndDone, EndOffsets
from .log_identity import LogIdentity
from .producer import AppendProducer
from .reader import KafkaReader
from .settings import Address, Security

LOG_ID_BYTES: Final = 16

logger = logging.getLogger(__name__)


class KafkaLog:
    """The log at an address; makes the topic, or begins the log in an empty one.

    Args:
        url: `kafka://HOST:PORT[,HOST:PORT ...]/NAMESPACE`.
        deliver: Puts a callback on the owner's loop.
        random_bytes: Draws a new log's id.
        security: How brokers are spoken to.
        partitions: How many a new log gets; one that is there keeps its number.
        memory: The folder in which to remember the log by.
        allow_unsafe: Warn of a topic that may lose records, where it would be refused.
        create: Whether to begin a log where there is none.
        first: What a new log begins with, a Genesis for each partition, if it goes on with the history of another.
        repeat: See `Appends`; without it many appends of one origin may be under way, as when a history is copied.

    Raises:
        LogError: No broker answers, or the topic is not fit for a log.
        ForeignLogError, CorruptionError: What is there is not the log that it should be.
        NewerVersionError: A later release wrote it.
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
        memory: Path | None = None,
        allow_unsafe: bool = False,
        create: bool = True,
        first: Sequence[Entry] | None = None,
        repeat: bool = True,
    ) -> None:
        self.clients = _clients(url, security)
        self._memory = memory
        first = first or genesis_entries(random_bytes(LOG_ID_BYTES), partitions, limits=limits, level=level)
        found = _fit_topic(self.clients, len(first) if create else None, allow_unsafe)
        self._followers = LogConsumers(self.clients, deliver)
        self._appends = AppendProducer(self.clients, deliver, self._followers.acknowledged, repeat=repeat)
        try:
            commands = self._appends.begin(found.partitions, first)
            self._reader = KafkaReader(self.clients, commands)
            self._remember(recall=True)
        except BaseException:
            self._appends.close()
            raise
        for text in self._unused(found):
            logger.warning("%s", text)
        self._ends = EndOffsets(self.clients, deliver, self._followers.expect)
        self._closed = False

    @staticmethod
    def open_reader(url: str, security: Security | None = None) -> KafkaReader:
        """Read the log at an address, beside its writers or without any.

        Raises:
            LogError, ForeignLogError, CorruptionError, NewerVersionError: As above.
        """
        clients = _clients(url, security)
        found = _fit_topic(clients, None, allow_unsafe=True)
        return KafkaReader(clients, genesis.genesis(clients, found.partitions))

    @property
    def log_id(self) -> bytes:
        """What tells this log from any other."""
        return self._reader.log_id

    @property
    def partitions(self) -> int:
        """How many there are."""
        return self._reader.partitions

    def append(self, partition: int, entry: Entry, done: Done) -> None:
        """Write `entry` after everything appended before it; it never gives up."""
        assert 0 <= partition < self.partitions, "no such partition"
        self._appends.append(partition, entry, done)

    def follow(self, partition: int, start: int, on_records: OnRecords, on_failure: OnFailure) -> Stop:
        """Hear every durable record from offset `start` on, in order, on the owner's loop."""
        assert 0 <= partition < self.partitions, "no such partition"
        return self._followers.follow(partition, start, on_records, on_failure)

    def ask_end(self, partition: int, done: EndDone) -> None:
        """Tell the end of the log as it is at some moment after this call."""
        self._ends.ask(partition, done)

    def read(self, partition: int, start: int = 0) -> Iterator[Record]:
        """The durable records from offset `start` to the end as it is at the call; it blocks."""
        return self._reader.read(partition, start)

    def hash_of(self, partition: int, offset: int) -> bytes:
        """What tells a record from any other that might stand at its place; it blocks."""
        return self._reader.hash_of(partition, offset)

    def end(self, partition: int) -> int:
        """The offset of the next record; it blocks."""
        return self._reader.end(partition)

    def genesis(self, partition: int) -> Genesis:
        """The partition's first command."""
        return self._reader.genesis(partition)

    def truncate_before(self, partition: int, offset: int) -> None:
        """Refused: history is kept."""
        raise LogError(f"the log keeps its whole history, what precedes {partition}:{offset} too")

    def problems(self) -> list[str]:
        """What is wrong with the topic as it is now, and what should be known of it; it blocks."""
        with _asking(self.clients) as admin:
            found = topic.find(admin, self.clients.address.topic)
        if found is None:
            return [f"the topic {self.clients.address.topic} is gone"]
        return [*found.problems(), *found.warnings(), *self._unused(found)]

    def _unused(self, found: topic.Topic) -> list[str]:
        if found.partitions == self.partitions:
            return []
        return [
            f"the topic {found.name} has {found.partitions} partitions and the log {self.partitions}: somebody added "
            "some, and they are never used"
        ]

    def close(self) -> None:
        """Wait for what was appended, for a while; then nothing more is appended or told."""
        if self._closed:
            return
        self._closed = True
        self._appends.close()
        self._ends.close()
        self._followers.close()
        try:
            self._remember()
        except LogError as error:
            logger.warning("%s", error)
        self._reader.close()

    def _remember(self, *, recall: bool = False) -> None:
        if self._memory is None:
            return
        ends = [self.end(partition) for partition in range(self.partitions)]
        if recall and (before := LogIdentity.recall(self._memory)) is not None:
            before.compare(self.clients.address.topic, self.log_id, ends)
        LogIdentity(self.log_id, ends).keep(self._memory)


def _clients(url: str, security: Security | None) -> Clients:
    address, security = Address.of(url), security or Security()
    if warning := security.warning(address):
        logger.warning("%s", warning)
    return Clients(address, security)


@contextmanager
def _asking(clients: Clients) -> Iterator[KafkaAdminClient]:
    with closing(clients.admin()) as admin:
        try:
            yield admin
        except KafkaError as error:
            raise clients.unreachable(error) from None


def _fit_topic(clients: Clients, partitions: int | None, allow_unsafe: bool) -> topic.Topic:
    """The topic, if it can hold a log; made with so many partitions, unless that is None."""
    name = clients.address.topic
    with _asking(clients) as admin:
        found = topic.find(admin, name)
        if found is None and partitions is not None:
            found = topic.create(admin, name, partitions)
    if found is None:
        raise LogError(
            f"there is no topic {name} at {clients.address}: name one that `foldb serve` has served"
        )
    problems = found.problems()
    if not found.has_log_time:
        raise LogError(problems[0])
    if problems and not allow_unsafe:
        raise LogError(f"{problems[0]}, or start with --allow-unsafe-kafka")
    for text in (*problems, *found.warnings()):
        logger.warning("%s", text)
    return found
