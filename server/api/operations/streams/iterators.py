"""Shard iterators: a reader's position in a shard, as text that the client sends back. The server stores nothing.

    <ARN of the stream>|1|<base64 of: partition id . period . after . horizon . creation time in ms, checksum>

Of a shard that a split made, its range follows the creation time.

Every node accepts the iterators of every other node. The checksum covers the whole text and is keyed with the log's
id, so that an iterator of another log, or one that the server did not create, is refused. The checksum does not
separate readers: rights are checked against the ARN, and GetRecords reads that stream alone.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from hmac import compare_digest
from typing import Final

from .....model.errors import ExpiredIteratorError, ValidationError
from .....model.lazy_dataclass import dataclass

LIFE_MS: Final = 15 * 60 * 1000

_SUM_BYTES = 16


@dataclass(frozen=True, slots=True)
class ShardIterator:
    """A position in a shard.

    Attributes:
        arn: The ARN of the stream.
        partition: The id of the shard's partition.
        nth: The index of the shard's period.
        range: The id of the shard's range of keys in that partition.
        after: The next change has a higher sequence number.
        horizon: Whether the iterator starts at the oldest kept change; without it, trimmed changes are an error.
    """

    arn: str
    partition: int
    nth: int
    after: int
    horizon: bool = False
    range: int = 0


def write(iterator: ShardIterator, log_id: bytes, now_ms: int) -> str:
    fields = f"{iterator.partition}.{iterator.nth}.{iterator.after}.{iterator.horizon:d}.{now_ms}"
    fields += f".{iterator.range}" if iterator.range else ""
    head = f"{iterator.arn}|1|"
    data = fields.encode() + _sum(log_id, head, fields)
    return head + urlsafe_b64encode(data).decode()


def read(text: str, log_id: bytes, now_ms: int) -> ShardIterator:
    """Parse the text of an iterator.

    Raises:
        ValidationError: The text is not an iterator of this log.
        ExpiredIteratorError: The iterator is older than 15 minutes.
    """
    arn, separator, encoded = text.partition("|1|")
    try:
        data = urlsafe_b64decode(encoded)
        fields = data[:-_SUM_BYTES].decode("ascii")
    except ValueError:
        raise _invalid() from None
    expected = fields.encode() + _sum(log_id, arn + separator, fields)
    # Base64 has several spellings of the same bytes; only the one that `write` produces is accepted.
    if not compare_digest(data, expected) or urlsafe_b64encode(data) != encoded.encode():
        raise _invalid()
    partition_id, nth, after, horizon, created_ms, *range_ids = map(int, fields.split("."))
    if now_ms - created_ms > LIFE_MS:
        raise ExpiredIteratorError
    return ShardIterator(arn, partition_id, nth, after, bool(horizon), *range_ids)


def _sum(log_id: bytes, head: str, fields: str) -> bytes:
    text = (head + fields).encode("utf-8", "surrogatepass")
    return blake2b(text, key=log_id, digest_size=_SUM_BYTES, person=b"shard iterator").digest()


def _invalid() -> ValidationError:
    return ValidationError("Invalid ShardIterator")
