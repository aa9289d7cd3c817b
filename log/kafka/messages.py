"""One entry as one message: what stands in the topic, and what is wrong with what should not stand there."""

from collections.abc import Iterable
from typing import Any

from ...model.errors import CorruptionError
from ..codec import CURRENT, MARKER
from ..log import RawRecord

_HEAD_BYTES = len(MARKER + CURRENT)


def heard(message: Any) -> RawRecord:
    """A fetched message as a record that nobody has decoded yet.

    Raises:
        CorruptionError: It is no entry of ours.
    """
    value = message.value
    if value is None or value[:2] != MARKER or len(value) < _HEAD_BYTES:
        raise CorruptionError(
            f"{message.partition}:{message.offset}", "not an entry: somebody else wrote to the topic"
        )
    return RawRecord(
        message.partition, message.offset, message.timestamp, value[_HEAD_BYTES:], value[2:_HEAD_BYTES]
    )


def in_order(messages: Iterable[Any], start: int) -> Iterable[Any]:
    """The messages, which are to follow each other without a gap from offset `start`.

    Raises:
        CorruptionError: One is missing.
    """
    for offset, message in enumerate(messages, start):
        if message.offset != offset:
            raise CorruptionError(
                f"{message.partition}:{offset}", f"gone from the topic, which goes on at {message.offset}"
            )
        yield message
