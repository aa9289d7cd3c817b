"""A change to be delivered, with the facts about its table that the formats need."""

from binascii import hexlify
from functools import lru_cache
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias

from ...log.commands import position_text
from ...materializer.fold.feed.capture import CapturePeriod
from ...materializer.fold.outcomes import Change
from ...model.descriptions import stream_label
from ...model.key_schema import KeySchema
from ...model.lazy_dataclass import dataclass
from ...model.sequence_numbers import SequenceNumber, position_of
from ...model.tables import TableDefinition, table_arn

ChangeOperation: TypeAlias = Literal["INSERT", "MODIFY", "REMOVE", "READ"]


@dataclass(frozen=True, slots=True)
class TableView:
    """The facts about a change's table.

    Attributes:
        id: The table's id, which is never reused.
        name: The table's name at the time of the change.
        key: The key schema, which decodes the bytes of a change's key.
        view: The stream's view type; None without a stream, which shows both images.
        stream_arn: The ARN of the stream; without a stream, the ARN with the time of the table's creation as its label.
        partitions: The number of partitions of the log, on which the text of a position depends.
    """

    id: int
    name: str
    key: KeySchema
    view: str | None
    stream_arn: str
    log_id: bytes
    partitions: int = 1


def view_of(table: TableDefinition, log_id: bytes, partitions: int) -> TableView:
    """Return the view of a table by its current definition."""
    stream = table.stream
    label = stream_label(table.created_ms if stream is None else stream.created_ms)
    view = stream.view if stream is not None and stream.enabled else None
    return TableView(table.id, table.name, table.key, view, f"{table.arn}/stream/{label}", log_id, partitions)


def view_in(period: CapturePeriod, log_id: bytes, partitions: int, created_ms: int = 0) -> TableView:
    """Return the view of a table in a capture period; a period without a stream needs the table's `created_ms`."""
    arn = f"{table_arn(period.name)}/stream/{stream_label(period.label or created_ms)}"
    return TableView(period.table, period.name, period.key, period.view, arn, log_id, partitions)


class Delivery(NamedTuple):
    """A change to be delivered, and its partition.

    `snapshot` is the sequence number of the snapshot if the change is an item of one; the change's own sequence number
    then only counts those items.
    """

    change: Change
    partition: int
    table: TableView
    snapshot: int = 0

    @property
    def sequence_number(self) -> SequenceNumber:
        """The sequence number of the change; that of the snapshot for an item of one."""
        return self.snapshot or self.change.sequence_number

    @property
    def position(self) -> str:
        """The position of the command that made the change, or of the last entry in the snapshot."""
        change, partition, table, _ = self
        offset, index = position_of(self.sequence_number)
        return position_text(partition, offset, None if change.is_read else index, table.partitions)


def operation(change: Change) -> ChangeOperation:
    """Return the operation on the item; READ for an item of a snapshot."""
    if change.old is None:
        return "READ" if change.is_read else "INSERT"
    return "REMOVE" if change.new is None else "MODIFY"


def event_id(delivery: Delivery) -> str:
    """Return 32 hexadecimal digits that are unique to the change among all logs, and equal in all deliveries."""
    return event_digits(delivery, b"%d" % delivery.sequence_number).decode()


def event_digits(delivery: Delivery, number: bytes) -> bytes:
    """Return the event id in ASCII; `number` has the digits of the sequence number.

    All items of a snapshot share its sequence number, so their keys are part of the digest.
    """
    change, partition, table, _ = delivery
    digest = _hash_of(table.log_id, partition).copy()
    digest.update(number)
    if change.is_read:
        digest.update(b".%d.%d.%b%b" % (change.table, len(change.pk), change.pk, change.sk))
    return hexlify(digest.digest())


@lru_cache(1024)
def _hash_of(log_id: bytes, partition: int) -> blake2b:
    """Return the hash of the beginning of event ids, which all changes of a partition have."""
    return blake2b(b"%b%d." % (log_id, partition), digest_size=16)
