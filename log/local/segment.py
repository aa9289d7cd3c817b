"""The bytes of a segment: an Avro object container file, one record a block, each record chained to the one before.

    segment ::= header block*
    header  ::= "Obj" 01 map marker                  the map names codec, schema, log, and the state of the chain
    marker  ::= BLAKE2b-128 of the header before it
    block   ::= 02 long(size of record) record marker
    record  ::= hash long(partition) long(offset) long(time) long(unsynced) entry
    hash    ::= BLAKE2b-128 of the previous record's hash and of the rest of this record

Avro's framing detects hardly any damage. The chain of hashes detects every change, swap and gap. `unsynced` separates a
write torn by a crash from damage to durable bytes: it is the number of bytes before the block that were not known to
be durable when it was written. All bytes before those were durable, and must be intact. FORMAT.md has an example. This
module does no I/O.
"""

import re
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from typing import Final, NamedTuple

from ...model.errors import NewerVersionError
from ...model.lazy_dataclass import dataclass
from .. import codec
from ..avro import long, read_long, read_sized, sized

MAGIC: Final = b"Obj\x01"
FORMAT = b"1"
HASH_BYTES: Final = 16
ONE_RECORD: Final = b"\x02"
BLOCK_BYTES = 73
"""The largest size of a block without its entry."""
FILE_NAME: Final = re.compile(r"([0-9]{20})\.avro")


class DamageError(Exception):
    """The bytes at `at` are not a block that continues the chain. The caller decides whether a crash explains it."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason


@dataclass(slots=True)
class Chain:
    """The state of the log that the next record continues.

    `sequence` counts the records of all partitions, `hash` and `time` are the last record's, `ends` has each
    partition's next offset.
    """

    sequence: int
    hash: bytes
    time: int
    ends: list[int]

    @classmethod
    def start(cls, log_id: bytes, partitions: int) -> "Chain":
        """Return the chain before the first record, with the log's id as hash."""
        return cls(0, log_id, 0, [0] * partitions)

    def copy(self) -> "Chain":
        """Return an independent copy."""
        return Chain(self.sequence, self.hash, self.time, self.ends.copy())


@dataclass(frozen=True, slots=True)
class Header:
    """A segment's header: the log's id, the fingerprint of the entries' schema, and the chain that it continues."""

    log_id: bytes
    fingerprint: bytes
    chain: Chain
    marker: bytes
    size: int


class Frame(NamedTuple):
    """An intact block from `start` to `end`. Its hashed bytes begin at `hashed`, its entry at `body`."""

    start: int
    hashed: int
    body: int
    end: int
    partition: int
    offset: int
    time: int
    unsynced: int

    def entry(self, data: bytes) -> bytes:
        """Return the entry's bytes in the segment's `data`."""
        return data[self.body : self.end - HASH_BYTES]


def name(sequence: int) -> str:
    """Return the file name of the segment that begins with record `sequence`.

    >>> name(4711)
    '00000000000000004711.avro'
    """
    return f"{sequence:020d}.avro"


def sequence_in(file_name: str) -> int | None:
    """Return the sequence in a segment's file name, or None for other names."""
    match = FILE_NAME.fullmatch(file_name)
    return int(match[1]) if match else None


# Writing


@cache
def record_schema(fingerprint: bytes) -> str:
    """Return the schema of a block's record in canonical form, as in the header for Avro tools."""
    fields = [
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": HASH_BYTES}},
        {"name": "partition", "type": "int"},
        {"name": "offset", "type": "long"},
        {"name": "time", "type": "long"},
        {"name": "unsynced", "type": "long"},
        {"name": "entry", "type": codec.schema(fingerprint)},
    ]
    schema = {"type": "record", "name": "Record", "namespace": "foldb.log", "fields": fields}
    return codec.canonical(schema)


def header(log_id: bytes, fingerprint: bytes, chain: Chain) -> bytes:
    """Encode the header of a segment that continues `chain`."""
    meta = {
        "avro.codec": b"null",
        "avro.schema": record_schema(fingerprint).encode(),
        "foldb.ends": b",".join(b"%d" % end for end in chain.ends),
        "foldb.entry": fingerprint.hex().encode(),
        "foldb.format": FORMAT,
        "foldb.log": log_id.hex().encode(),
        "foldb.previous": chain.hash.hex().encode(),
        "foldb.sequence": b"%d" % chain.sequence,
        "foldb.time": b"%d" % chain.time,
    }
    pairs = b"".join(sized(key.encode()) + sized(value) for key, value in meta.items())
    unsigned = MAGIC + long(len(meta)) + pairs + long(0)
    return unsigned + _digest(unsigned)


def block(chain: Chain, marker: bytes, partition: int, time_ms: int, unsynced: int, body: bytes) -> bytes:
    """Encode an entry's `body` as a block, and advance the chain by it."""
    chain.time = max(chain.time, time_ms)
    offset = chain.ends[partition]
    rest = b"".join((long(partition), long(offset), long(chain.time), long(unsynced), body))
    chain.hash = _digest(chain.hash, rest)
    chain.ends[partition] = offset + 1
    chain.sequence += 1
    return b"".join((ONE_RECORD, long(HASH_BYTES + len(rest)), chain.hash, rest, marker))


def _digest(*parts: bytes) -> bytes:
    return blake2b(b"".join(parts), digest_size=HASH_BYTES).digest()


# Reading


def read_header(data: bytes) -> Header:
    """Decode the header of the segment whose bytes begin with `data`.

    Raises:
        DamageError: The header is damaged.
        NewerVersionError: A later version wrote the header.
    """
    meta, end = _read_meta(data)
    marker = data[end : end + HASH_BYTES]
    if marker != _digest(data[:end]):
        raise DamageError(0, "the header's hash does not match")
    if meta.get("foldb.format") != FORMAT:
        theirs = meta.get("foldb.format", b"?").decode()
        raise NewerVersionError(
            f"the log has format {theirs}, and this version of foldb reads {FORMAT.decode()}. "
            "Start the version that wrote the log, or a later one."
        )
    fingerprint = bytes.fromhex(meta["foldb.entry"].decode())
    codec.schema(fingerprint)
    chain = Chain(
        sequence=int(meta["foldb.sequence"]),
        hash=bytes.fromhex(meta["foldb.previous"].decode()),
        time=int(meta["foldb.time"]),
        ends=[int(end) for end in meta["foldb.ends"].split(b",")],
    )
    log_id = bytes.fromhex(meta["foldb.log"].decode())
    return Header(log_id, fingerprint, chain, marker, end + HASH_BYTES)


def read_block(data: bytes, at: int, marker: bytes, chain: Chain, partition: int | None = None) -> Frame:
    """Decode the block at `at`, and advance the chain by it.

    A read of one `partition` does not hash the records of others. It takes their stored hashes, which the hash of its
    own next record covers. So each byte is checked by the read that returns it, and no swap or gap escapes a read.

    Raises:
        DamageError: The block does not continue the chain, which stays unchanged.
    """
    frame = _parse(data, at, marker)
    hash_ = data[frame.hashed - HASH_BYTES : frame.hashed]
    is_checked = partition is None or frame.partition == partition
    if is_checked and hash_ != _digest(chain.hash, data[frame.hashed : frame.end - HASH_BYTES]):
        raise DamageError(at, "the record's hash does not match")
    if not 0 <= frame.partition < len(chain.ends) or frame.offset != chain.ends[frame.partition]:
        raise DamageError(at, "the record is not the next of its partition")
    chain.hash = hash_
    chain.time = frame.time
    chain.ends[frame.partition] += 1
    chain.sequence += 1
    return frame


@dataclass(frozen=True, slots=True)
class Scan:
    """The intact blocks of some bytes: up to `end`, where `damage` begins if there is any, with the chain there.

    The bytes before `synced` were durable before the last of the blocks was written.
    """

    end: int
    synced: int
    chain: Chain
    damage: DamageError | None


def scan(data: bytes, at: int, marker: bytes, chain: Chain) -> Scan:
    """Decode the blocks of `data` from `at` on."""
    chain = chain.copy()
    synced = at
    damage = None
    while at < len(data) and damage is None:
        try:
            frame = read_block(data, at, marker, chain)
        except DamageError as error:
            damage = error
        else:
            synced = max(synced, frame.start - frame.unsynced)
            at = frame.end
    return Scan(at, synced, chain, damage)


def is_torn(data: bytes, at: int, marker: bytes, chain: Chain) -> bool:
    """Return whether a crash during the last write explains the bad block at `at`, which should continue `chain`.

    A crash explains it unless a later block was written when the bytes at `at` were already durable. A torn write can
    leave bytes that look like such a block, so its hash must match. That needs the hash of the block before it: stored
    in that block, even in the bad one, or computed in case the stored hash of the bad block is damaged.
    """
    hashes: dict[int, bytes] = {}
    suspects = _hashes_at(data, at, marker, chain)
    for frame in _later_frames(data, at, marker, chain):
        hash_ = data[frame.hashed - HASH_BYTES : frame.hashed]
        hashed = data[frame.hashed : frame.end - HASH_BYTES]
        if frame.start - frame.unsynced > at:
            before = [*suspects, hashes[frame.start]] if frame.start in hashes else suspects
            if any(_digest(previous, hashed) == hash_ for previous in before):
                return False
        hashes[frame.end] = hash_
    return True


def _hashes_at(data: bytes, at: int, marker: bytes, chain: Chain) -> list[bytes]:
    """Return possible hashes of the bad block: the stored one, for each length of its size, and the computed one."""
    stored = [data[index : index + HASH_BYTES] for index in range(at + 2, at + 7)]
    frame = _try_parse(data, at, marker)
    computed = [_digest(chain.hash, data[frame.hashed : frame.end - HASH_BYTES])] if frame else []
    return stored + computed


def _later_frames(data: bytes, at: int, marker: bytes, chain: Chain) -> Iterator[Frame]:
    """Yield the frames of possible blocks after `at`, in order.

    The search goes from each marker back to the begin of its block, so it finds a block after one that lost its marker.
    """
    begin = at + 1
    end = data.find(marker, begin)
    while end >= 0:
        start = data.find(ONE_RECORD, begin, end)
        while start >= 0:
            frame = _try_parse(data, start, marker)
            if frame and frame.end == end + HASH_BYTES and _plausible(frame, chain):
                yield frame
            start = data.find(ONE_RECORD, start + 1, end)
        begin = end + HASH_BYTES
        end = data.find(marker, begin)


def _plausible(frame: Frame, chain: Chain) -> bool:
    return (
        0 <= frame.partition < len(chain.ends)
        and frame.offset >= chain.ends[frame.partition]
        and frame.time >= chain.time
        and 0 <= frame.unsynced < frame.start
    )


def _try_parse(data: bytes, at: int, marker: bytes) -> Frame | None:
    try:
        return _parse(data, at, marker)
    except DamageError:
        return None


def _parse(data: bytes, at: int, marker: bytes) -> Frame:
    """Decode the frame of the block at `at` without checking its hash."""
    try:
        size, index = read_long(data, at + 1)
        end = index + size
        hashed = index + HASH_BYTES
        partition, index = read_long(data, hashed)
        offset, index = read_long(data, index)
        time, index = read_long(data, index)
        unsynced, body = read_long(data, index)
    except (IndexError, ValueError):
        raise DamageError(at, "the block is cut short") from None
    if data[at : at + 1] != ONE_RECORD or body > end:
        raise DamageError(at, "no block begins here")
    if data[end : end + HASH_BYTES] != marker:
        raise DamageError(at, "the block does not end with the segment's marker")
    return Frame(at, hashed, body, end + HASH_BYTES, partition, offset, time, unsynced)


def _read_meta(data: bytes) -> tuple[dict[str, bytes], int]:
    """Decode the header's map, and return it with the index after it."""
    if data[:4] != MAGIC:
        raise DamageError(0, "not an Avro file")
    meta: dict[str, bytes] = {}
    try:
        count, at = read_long(data, 4)
        while count > 0:
            for _ in range(count):
                key, at = _read_text(data, at)
                value, at = _read_text(data, at)
                meta[key.decode(errors="replace")] = value
            count, at = read_long(data, at)
    except (IndexError, ValueError):
        raise DamageError(0, "the header is cut short") from None
    return meta, at


def _read_text(data: bytes, at: int) -> tuple[bytes, int]:
    text, end = read_sized(data, at)
    if not at < end <= len(data):
        raise ValueError("longer than the data")
    return text, end
