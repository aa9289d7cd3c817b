"""One entry as one message of the topic, with checks for foreign and missing messages."""

from collections.abc import Iterable
from typing import Any

from ...model.errors import CorruptionError
from ..codec import CURRENT, MARKER
from ..log import RawRecord

_HEAD_BYTES = len(MARKER + CURRENT)


def raw_record(message: Any) -> RawRecord:
    """Convert a fetched message to a record that is not decoded yet.

    Raises:
        CorruptionError: The message is not an entry of foldb.
    """
    value = message.value
    if value is None or value[:2] != MARKER or len(value) < _HEAD_BYTES:
        raise CorruptionError(
            f"{message.partition}:{message.offset}", "not an entry: another program wrote to the topic"
        )
    return RawRecord(
        message.partition, message.offset, message.timestamp, value[_HEAD_BYTES:], value[2:_HEAD_BYTES]
    )


def in_order(messages: Iterable[Any], start: int) -> Iterable[Any]:
    """Yield the messages, after checking that their offsets have no gap from `start`.

    Raises:
        CorruptionError: A message is missing.
    """
    for offset, message in enumerate(messages, start):
        if message.offset != offset:
            raise CorruptionError(
                f"{message.partition}:{offset}", f"missing in the topic, which continues at {message.offset}"
            )
        yield message
