"""Changes as JSON Lines, a change a line: in foldb's own words, or in those of Kinesis."""

from collections.abc import Iterator, Sequence
from uuid import UUID

import orjson

from ...model.values import dump
from . import kinesis
from .plain import plain
from .table_view import Delivery, event_id, operation


class PlainLines:
    """The plain format. A change is known by its number, and one that was found in a snapshot by its key too."""

    suffix = "jsonl"

    def encode(self, changes: Sequence[Delivery]) -> bytes:
        """A whole file."""
        return b"".join(b"%b\n" % plain(delivery) for delivery in changes)

    def ids(self, data: bytes) -> Iterator[str]:
        """What the changes of a file are known by."""
        for line in data.splitlines():
            change = orjson.loads(line)
            yield plain_id(change["number"], change["op"], dump(change["keys"]))

    def id(self, delivery: Delivery) -> str:
        """The same, before it is in a file."""
        change = delivery.change
        keys = delivery.table.key.write(change.pk, change.sk)
        return plain_id(str(delivery.sequence_number), operation(change), keys)


def plain_id(number: str, op: str, keys: bytes) -> str:
    """What a change of the plain format is known by in its partition."""
    return number + keys.decode() if op == "READ" else number


class KinesisLines:
    """The JSON that DynamoDB puts into a Kinesis data stream. A change is known by its event id."""

    suffix = "jsonl"

    def __init__(self, precision: kinesis.Precision) -> None:
        self._precision = precision

    def encode(self, changes: Sequence[Delivery]) -> bytes:
        """A whole file."""
        return b"".join(b"%b\n" % kinesis.record(delivery, self._precision) for delivery in changes)

    def ids(self, data: bytes) -> Iterator[str]:
        """What the changes of a file are known by."""
        for line in data.splitlines():
            yield orjson.loads(line)["eventID"]

    def id(self, delivery: Delivery) -> str:
        """The same, before it is in a file."""
        return str(UUID(event_id(delivery)))
