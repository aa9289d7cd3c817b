"""A change on its way to somebody, with all that any format says of it besides the change itself."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias

from ...log.commands import Position
from ...materializer.fold.feed.capture import CapturePeriod
from ...materializer.fold.outcomes import Change, position_of
from ...model.descriptions import stream_label
from ...model.key_schema import KeySchema
from ...model.tables import TableDefinition, table_arn

Operation: TypeAlias = Literal["INSERT", "MODIFY", "REMOVE", "READ"]


@dataclass(frozen=True, slots=True)
class TableView:
    """What a format says of the table that a change is of.

    Attributes:
        id: The table's number, which no other table ever has.
        name: Its name when the change was made.
        key: Its key attributes and their types; a change's key is read off its bytes with it.
        view: The stream's view type; None where no stream is enabled, and both images are told.
        stream_arn: The ARN of the stream; without a stream, of what it would be with the label of the table's making.
        log_id: Which log.
        partitions: How many partitions the log has; it decides how a position is written.
    """

    id: int
    name: str
    key: KeySchema
    view: str | None
    stream_arn: str
    log_id: bytes
    partitions: int = 1


def view_of(table: TableDefinition, log_id: bytes, partitions: int) -> TableView:
    """What formats say of a table as it is defined now."""
    stream = table.stream
    label = stream_label(table.created_ms if stream is None else stream.created_ms)
    view = stream.view if stream is not None and stream.enabled else None
    return TableView(table.id, table.name, table.key, view, f"{table.arn}/stream/{label}", log_id, partitions)


def view_in(window: CapturePeriod, log_id: bytes, partitions: int, made_ms: int = 0) -> TableView:
    """What formats say of a table as it was in a window; `made_ms` is when it was made, for one that only watches."""
    arn = f"{table_arn(window.name)}/stream/{stream_label(window.label or made_ms)}"
    return TableView(window.table, window.name, window.key, window.view, arn, log_id, partitions)


class Delivery(NamedTuple):
    """A change on its way, and where it was made.

    `snapshot` is the number after which the items were as they are told, where the change is an item of a snapshot: its
    own number only counts those items.
    """

    change: Change
    partition: int
    table: TableView
    snapshot: int = 0

    @property
    def sequence_number(self) -> int:
        """The sequence number that tells where the change stands; all items of a snapshot have the snapshot's."""
        return self.snapshot or self.change.sequence_number

    @property
    def position(self) -> str:
        """The position of the command that made the change, or of the last entry that a snapshot knew."""
        offset, index = position_of(self.sequence_number)
        place = Position(self.partition, offset, None if self.change.is_read else index)
        return place.text(self.table.partitions)


def operation(change: Change) -> Operation:
    """What happened to the item; READ where it was only found, as part of a snapshot."""
    if change.old is None:
        return "READ" if change.is_read else "INSERT"
    return "REMOVE" if change.new is None else "MODIFY"


def event_id(delivery: Delivery) -> str:
    """Names this change and no other of any log, in 32 hexadecimal digits; the same whenever it is told.

    All items that a snapshot holds have the snapshot's number, so there the key counts too.
    """
    change = delivery.change
    place = b"%b%d.%d" % (delivery.table.log_id, delivery.partition, delivery.sequence_number)
    if change.is_read:
        place += b".%d.%d.%b%b" % (change.table, len(change.pk), change.pk, change.sk)
    return blake2b(place, digest_size=16).hexdigest()
