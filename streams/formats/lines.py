"""Changes as JSON Lines, one change per line: in the plain format or in Kinesis's JSON."""

from collections.abc import Iterator, Sequence
from uuid import UUID

import orjson

from ...model.values import dump
from . import kinesis
from .plain import plain
from .table_view import Delivery, event_id, operation


class PlainLines:
    """The plain format. The id of a change is its sequence number; for an item of a snapshot, with its key."""

    suffix = "jsonl"

    def encode(self, changes: Sequence[Delivery]) -> bytes:
        return b"".join(b"%b\n" % plain(delivery) for delivery in changes)

    def ids(self, data: bytes) -> Iterator[str]:
        for line in data.splitlines():
            change = orjson.loads(line)
            yield plain_id(change["number"], change["op"], dump(change["keys"]))

    def id(self, delivery: Delivery) -> str:
        change = delivery.change
        keys = delivery.table.key.write(change.pk, change.sk)
        return plain_id(str(delivery.sequence_number), operation(change), keys)


def plain_id(sequence_number: str, op: str, keys: bytes) -> str:
    """Return the id of a change in the plain format, unique in its partition."""
    return sequence_number + keys.decode() if op == "READ" else sequence_number


class KinesisLines:
    """Kinesis's JSON. The id of a change is its event id."""

    suffix = "jsonl"

    def __init__(self, precision: kinesis.Precision) -> None:
        self._precision = precision

    def encode(self, changes: Sequence[Delivery]) -> bytes:
        return b"".join(b"%b\n" % kinesis.record(delivery, self._precision) for delivery in changes)

    def ids(self, data: bytes) -> Iterator[str]:
        for line in data.splitlines():
            yield orjson.loads(line)["eventID"]

    def id(self, delivery: Delivery) -> str:
        return str(UUID(event_id(delivery)))
