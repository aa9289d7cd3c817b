"""The bytes of a change segment: an Avro object container file of changes.

    segment ::= header block*
    header  ::= "Obj" 01 map marker         the map has codec, schema, log, partition, table, and lower bound
    marker  ::= BLAKE2b-128 of the header before it
    block   ::= long(count) long(size) change* marker
    change  ::= long(offset) long(place) long(time) long(stream) long(shard) bytes(pk) bytes(sk)
                optional(old) optional(new) context tx is_read optional(check)

A sequence number is longer than Avro's long. It is split into `offset` and `place` (the index of the command, and of
the change in the command). The changes of a block belong to one shard. The last one has a `check`, CRC-32 of the
block's bytes before it. Any Avro tool reads a segment; this module reads and writes by hand, many times as fast.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple
from zlib import crc32

from ...log import codec
from ...log.avro import long, optional, read_long, read_sized, sized, text
from ...log.binary import read_context
from ...materializer.fold.outcomes import Change, Tx
from ...model.sequence_numbers import SequenceNumber

MAGIC: Final = b"Obj\x01"
MARKER_BYTES: Final = 16
HEAD_BYTES: Final = 64
"""Enough bytes for the frame of a block and for the sequence number, time and shard of its first change."""

_FORMAT: Final = b"1"
_BASE: Final = 10**26  # see sequence_number
_PLACES: Final = 10**8
_NO_TX: Final = b"\0"
_CHANGED, _READ = b"\0\0", b"\1\0"  # is_read, and no check
_CHECKED: Final = b"\x02"
_CHECK_BYTES: Final = 6  # maximum: the branch of the union, and 32 bits as a long


class DamagedError(Exception):
    """The bytes are not the bytes that were written."""


class SegmentOwner(NamedTuple):
    """The log, partition and table of a segment's changes."""

    log_id: bytes
    partition: int
    table: int


class BlockHead(NamedTuple):
    """The facts of a block that are known without decoding it: its position and size, and its first change."""

    at: int
    size: int
    changes: int
    sequence_number: SequenceNumber
    time: int
    stream: int
    shard: int


@cache
def schema() -> str:
    """Return the schema of a change, in canonical form."""
    context = _context(codec.schema(codec.CURRENT))
    tx = {
        "type": "record",
        "name": "Tx",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "n", "type": "int"},
            {"name": "of", "type": "int"},
        ],
    }
    fields = [
        *({"name": name, "type": "long"} for name in ("offset", "place", "time", "stream", "shard")),
        *({"name": name, "type": "bytes"} for name in ("pk", "sk")),
        *({"name": name, "type": ["null", "bytes"]} for name in ("old", "new")),
        {"name": "context", "type": context},
        {"name": "tx", "type": ["null", tx]},
        {"name": "is_read", "type": "boolean"},
        {"name": "check", "type": ["null", "long"]},
    ]
    return codec.canonical({"type": "record", "name": "Change", "namespace": "foldb.log", "fields": fields})


def _context(entry: Any) -> Any:
    """Return the log's schema of a context: a segment has the same bytes."""
    commands = next(field for field in entry["fields"] if field["name"] == "commands")
    put = commands["type"]["items"][0]
    return next(field for field in put["fields"] if field["name"] == "context")["type"]


def header(owner: SegmentOwner, after: int) -> bytes:
    """Return the header of a segment of changes with sequence numbers above `after`."""
    meta = {
        "avro.codec": b"null",
        "avro.schema": schema().encode(),
        "foldb.after": b"%d" % after,
        "foldb.changes": _FORMAT,
        "foldb.log": owner.log_id.hex().encode(),
        "foldb.partition": b"%d" % owner.partition,
        "foldb.table": b"%d" % owner.table,
    }
    pairs = b"".join(sized(key.encode()) + sized(value) for key, value in meta.items())
    unsigned = MAGIC + long(len(meta)) + pairs + long(0)
    return unsigned + blake2b(unsigned, digest_size=MARKER_BYTES).digest()


def block(changes: Sequence[Change], shard: int, marker: bytes) -> bytes:
    """Encode a block of changes, all of one stream and one shard."""
    parts: list[bytes] = []
    add = parts.extend
    offset_before = time_before = stream_before = -1
    offset_bytes = rest_bytes = b""
    for change in changes:
        offset, place = divmod(change.sequence_number - _BASE, _PLACES)
        if offset != offset_before:
            offset_before, offset_bytes = offset, long(offset)
        if change.time != time_before or change.stream != stream_before:
            time_before, stream_before = change.time, change.stream
            rest_bytes = long(time_before) + long(stream_before) + long(shard)
        add(
            (
                offset_bytes,
                _encode_place(place),
                rest_bytes,
                sized(change.pk),
                sized(change.sk),
                optional(change.old),
                optional(change.new),
                change.context.encoded,
                _NO_TX if change.tx is None else _tx(change.tx),
                _READ if change.is_read else _CHANGED,
            )
        )
    parts[-1] = parts[-1][:1]
    body = b"".join(parts)
    body += _CHECKED + long(crc32(body))
    return b"".join((long(len(changes)), long(len(body)), body, marker))


@lru_cache(8192)
def _encode_place(place: int) -> bytes:
    """Encode a place. The cache helps because most changes are the first of their command."""
    return long(place)


def _tx(tx: Tx) -> bytes:
    return b"\x02" + text(tx.id) + long(tx.n) + long(tx.of)


def read_head(data: bytes, at: int) -> BlockHead:
    """Decode the head of the block at position `at` of its segment; `data` begins with the block's first bytes.

    Raises:
        DamagedError: The bytes are not the start of a block.
    """
    try:
        count, cursor = read_long(data, 0)
        size, cursor = read_long(data, cursor)
        begin = cursor
        offset, cursor = read_long(data, cursor)
        in_offset, cursor = read_long(data, cursor)
        time, cursor = read_long(data, cursor)
        stream, cursor = read_long(data, cursor)
        shard, cursor = read_long(data, cursor)
    except (IndexError, ValueError):
        raise DamagedError("a block is cut short") from None
    if count < 1 or size < count:
        raise DamagedError("no block begins here")
    sequence_number = _BASE + offset * _PLACES + in_offset
    return BlockHead(at, begin + size + MARKER_BYTES, count, sequence_number, time, stream, shard)


def read_block(data: bytes, marker: bytes, table: int) -> list[Change]:
    """Decode the changes of a whole block.

    Raises:
        DamagedError: `data` is not the bytes of a block.
    """
    try:
        count, at = read_long(data, 0)
        size, at = read_long(data, at)
        if at + size + MARKER_BYTES != len(data) or not data.endswith(marker):
            raise DamagedError("a block does not end where its head says")
        begin = at
        changes, end = _read_changes(data, at, count, table)
        check, at = read_long(data, end + 1)
    except (IndexError, ValueError, TypeError):
        raise DamagedError("a block cannot be read") from None
    if data[end : end + 1] != _CHECKED or at != begin + size or check != crc32(data[begin:end]):
        raise DamagedError("a block's checksum does not match")
    return changes


def verify(data: bytes, owner: SegmentOwner, after: int) -> None:
    """Compare the header and the checksum of each block of a whole segment.

    Raises:
        DamagedError: The segment has other bytes than were written.
    """
    head = header(owner, after)
    if data[: len(head)] != head:
        raise DamagedError("the header has other bytes than were written")
    at, marker = len(head), head[-MARKER_BYTES:]
    while at < len(data):
        try:
            size = read_head(data[at : at + HEAD_BYTES], at).size
            _check_block(data[at : at + size], size, marker)
        except DamagedError as error:
            raise DamagedError(f"at byte {at}: {error}") from None
        at += size


def moved_block(data: bytes, marker: bytes, new_marker: bytes) -> bytes:
    """Return a whole block as it is in another segment, without decoding its changes.

    Raises:
        DamagedError: `data` is not the bytes of a block.
    """
    _check_block(data, read_head(data, 0).size, marker)
    return data[:-MARKER_BYTES] + new_marker


def _check_block(data: bytes, size: int, marker: bytes) -> None:
    """Compare the checksum of a block without decoding its changes: it is the last long before the marker."""
    if len(data) != size or not data.endswith(marker):
        raise DamagedError("a block does not end where its head says")
    _, begin = read_long(data, 0)
    _, begin = read_long(data, begin)
    body = memoryview(data)[begin : size - MARKER_BYTES]
    for length in range(2, _CHECK_BYTES + 1):
        check = body[-length:]
        if check == _CHECKED + long(crc32(body[:-length])):
            return
    raise DamagedError("a block's checksum does not match")


def _read_changes(data: bytes, at: int, count: int, table: int) -> tuple[list[Change], int]:
    """Decode `count` changes. Return them and the position of the last one's check.

    Offset, time, stream and shard are usually those of the change before: equal bytes are not decoded again.
    """
    changes: list[Change] = []
    add, starts = changes.append, data.startswith
    same_offset = same_rest = b"\xff" * 11  # longer than any long
    base = time = stream = 0
    while True:
        if starts(same_offset, at):
            at += len(same_offset)
        else:
            begin = at
            offset, at = read_long(data, at)
            same_offset, base = data[begin:at], _BASE + offset * _PLACES
        place, at = read_long(data, at)
        if starts(same_rest, at):
            at += len(same_rest)
        else:
            begin = at
            time, at = read_long(data, at)
            stream, at = read_long(data, at)
            _, at = read_long(data, at)
            same_rest = data[begin:at]
        pk, at = read_sized(data, at)
        sk, at = read_sized(data, at)
        old = new = None
        if data[at]:
            old, at = read_sized(data, at + 1)
        else:
            at += 1
        if data[at]:
            new, at = read_sized(data, at + 1)
        else:
            at += 1
        context, at = read_context(data, at)
        tx = None
        if data[at]:
            tx, at = _read_tx(data, at + 1)
        else:
            at += 1
        add(Change(table, pk, sk, old, new, base + place, time, context, tx, stream, data[at] == 1))
        at += 1
        if len(changes) == count:
            return changes, at
        at += 1  # no check


def _read_tx(data: bytes, at: int) -> tuple[Tx, int]:
    id_, at = read_sized(data, at)
    n, at = read_long(data, at)
    of, at = read_long(data, at)
    return Tx(id_.decode(), n, of), at
