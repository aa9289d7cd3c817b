"""Where a reader of a shard stands, as text that it gets and brings back; the server keeps nothing.

    <the stream's ARN>|1|<base64 of: partition.nth.after.horizon.made_ms, and a checksum over all this>

So every node goes on with what another has given out. The checksum is keyed with the log's id: text that we have not
made, or not for this log, is refused. It is not what keeps readers apart: what a reader may read is judged by the ARN,
and nothing but that stream is read for it.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from hashlib import blake2b
from hmac import compare_digest
from typing import Final

from .....model.errors import ExpiredIteratorError, ValidationError

LIFE_MS: Final = 15 * 60 * 1000

_SUM_BYTES = 16
_FIELDS = 5


@dataclass(frozen=True, slots=True)
class ShardIterator:
    """A place in a shard.

    Attributes:
        arn: Of the stream.
        partition: Where the shard is.
        nth: Which of the stream's shards there.
        after: The next change has a higher number.
        horizon: Whether it means the oldest change that is kept; otherwise what is no longer kept is missed.
    """

    arn: str
    partition: int
    nth: int
    after: int
    horizon: bool = False


def write(iterator: ShardIterator, log_id: bytes, now_ms: int) -> str:
    """The iterator as text."""
    it = iterator
    fields = f"{it.partition}.{it.nth}.{it.after}.{it.horizon:d}.{now_ms}"
    head = f"{it.arn}|1|"
    data = fields.encode() + _sum(log_id, head, fields)
    return head + urlsafe_b64encode(data).decode()


def read(text: str, log_id: bytes, now_ms: int) -> ShardIterator:
    """Read what `write` has written.

    Raises:
        ValidationError: It has not.
        ExpiredIteratorError: That was more than a quarter of an hour ago.
    """
    arn, mark, coded = text.partition("|1|")
    try:
        data = urlsafe_b64decode(coded)
        fields = data[:-_SUM_BYTES].decode("ascii")
    except ValueError:
        raise _invalid() from None
    expected = fields.encode() + _sum(log_id, arn + mark, fields)
    # Bytes that are written in another way than we write them are none of ours.
    if not compare_digest(data, expected) or urlsafe_b64encode(data) != coded.encode():
        raise _invalid()
    numbers = [int(field) for field in fields.split(".")]
    assert len(numbers) == _FIELDS, "we sign nothing else"
    partition, nth, after, horizon, made_ms = numbers
    if now_ms - made_ms > LIFE_MS:
        raise ExpiredIteratorError
    return ShardIterator(arn, partition, nth, after, bool(horizon))


def _sum(log_id: bytes, head: str, fields: str) -> bytes:
    text = (head + fields).encode("utf-8", "surrogatepass")
    return blake2b(text, key=log_id, digest_size=_SUM_BYTES, person=b"shard iterator").digest()


def _invalid() -> ValidationError:
    return ValidationError("Invalid ShardIterator")
