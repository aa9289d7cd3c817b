"""The bytes of a segment: an Avro object container file, one record a block, each record chained to the one before.

    segment ::= header block*
    header  ::= "Obj" 01 map marker                  the map names codec, schema, log, and where the chain stands
    marker  ::= BLAKE2b-128 of the header before it
    block   ::= 02 long(size of record) record marker
    record  ::= hash long(partition) long(offset) long(time) long(unsynced) entry
    hash    ::= BLAKE2b-128 of the previous record's hash and of what follows this one

Avro's own framing finds hardly any damage. The chain finds every change, swap and gap, and `unsynced` tells a write
that a crash tore from damage to what was durable: it is the number of bytes before the block that were not yet known
to be durable when it was written, so whatever stands before those was durable, and must be whole. FORMAT.md has an
example. Nothing here does I/O.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Final, NamedTuple

from ...model.errors import NewerVersionError
from .. import codec
from ..avro import long, read_long, read_sized, sized

MAGIC: Final = b"Obj\x01"
FORMAT: Final = b"1"
HASH_BYTES: Final = 16
ONE_RECORD: Final = b"\x02"
BLOCK_BYTES: Final = 73
"""At most so many bytes of a block are not its entry's."""
FILE_NAME: Final = re.compile(r"([0-9]{20})\.avro")


class DamageError(Exception):
    """The bytes at `at` are not a block that continues the chain. The caller knows whether a crash explains it."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__(what)
        self.at = at
        self.what = what


@dataclass(slots=True)
class Chain:
    """Where the log has got to: what the next record continues.

    `sequence` counts the records of all partitions, `ends` has each partition's next offset.
    """

    sequence: int
    hash: bytes
    time: int
    ends: list[int]

    @classmethod
    def start(cls, log_id: bytes, partitions: int) -> "Chain":
        """Before the first record; the log's id is what that one continues."""
        return cls(0, log_id, 0, [0] * partitions)

    def copy(self) -> "Chain":
        """A chain that can be gone on with while this one stays."""
        return Chain(self.sequence, self.hash, self.time, self.ends.copy())


@dataclass(frozen=True, slots=True)
class Header:
    """A segment's head: whose it is, what its entries are written in, and the chain that it continues."""

    log_id: bytes
    fingerprint: bytes
    chain: Chain
    marker: bytes
    size: int


class Frame(NamedTuple):
    """A block that was found whole, from `start` to `end`: hashed from `hashed` on, its entry from `body` on."""

    start: int
    hashed: int
    body: int
    end: int
    partition: int
    offset: int
    time: int
    unsynced: int

    def entry(self, data: bytes) -> bytes:
        """The entry's bytes in the segment's `data`."""
        return data[self.body : self.end - HASH_BYTES]


def name(sequence: int) -> str:
    """The file name of the segment that begins with record `sequence`.

    >>> name(4711)
    '00000000000000004711.avro'
    """
    return f"{sequence:020d}.avro"


def sequence_in(file_name: str) -> int | None:
    """What `name` was given, or None if this is no segment's name."""
    match = FILE_NAME.fullmatch(file_name)
    return int(match[1]) if match else None


# Writing


@cache
def record_schema(fingerprint: bytes) -> str:
    """The schema that the header shows to any Avro tool, in canonical form."""
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
    """The head of a segment that goes on with `chain`."""
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
    """The block that adds an entry's `body` to the chain, and the chain with it."""
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
    """The head of the segment whose bytes begin with `data`.

    Raises:
        DamageError: It is not what `header` wrote.
        NewerVersionError: It is whole, and says that a later version wrote it.
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


def read_block(data: bytes, at: int, marker: bytes, chain: Chain) -> Frame:
    """The block at `at`, if it continues `chain`, which then includes it.

    Raises:
        DamageError: It does not. The chain is as it was.
    """
    frame = _parse(data, at, marker)
    hash_ = _digest(chain.hash, data[frame.hashed : frame.end - HASH_BYTES])
    if hash_ != data[frame.hashed - HASH_BYTES : frame.hashed]:
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
    """How far bytes are whole blocks: to `end`, where `damage` stands if there is any. `chain` includes them all.

    What precedes `synced` was durable before the last of them was written.
    """

    end: int
    synced: int
    chain: Chain
    damage: DamageError | None


def scan(data: bytes, at: int, marker: bytes, chain: Chain) -> Scan:
    """Follow the blocks of `data` from `at` on."""
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
    """Whether a crash during the last write explains the bad block at `at`, which should continue `chain`.

    It does unless a block after it was written when the bytes at `at` were already durable. That block must prove
    itself by its hash, for a torn write can leave what only looks like one: so the hash before it is needed. It is
    in the block before it, be that the bad one; or is computed, if it is what went bad there.
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
    """What could be the hash of the bad block: what stands in its place, however long its size was; or its true one."""
    stored = [data[place : place + HASH_BYTES] for place in range(at + 2, at + 7)]
    frame = _try_parse(data, at, marker)
    computed = [_digest(chain.hash, data[frame.hashed : frame.end - HASH_BYTES])] if frame else []
    return stored + computed


def _later_frames(data: bytes, at: int, marker: bytes, chain: Chain) -> Iterator[Frame]:
    """What looks like a block after `at`, in order.

    A block is looked for backwards from the marker at its end, so it is found even if the one before lost its own.
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
    """The block at `at` by its form alone."""
    try:
        size, place = read_long(data, at + 1)
        end = place + size
        hashed = place + HASH_BYTES
        partition, place = read_long(data, hashed)
        offset, place = read_long(data, place)
        time, place = read_long(data, place)
        unsynced, place = read_long(data, place)
    except (IndexError, ValueError):
        raise DamageError(at, "the block is cut short") from None
    if data[at : at + 1] != ONE_RECORD or place > end:
        raise DamageError(at, "no block begins here")
    if data[end : end + HASH_BYTES] != marker:
        raise DamageError(at, "the block does not end with the segment's marker")
    return Frame(at, hashed, place, end + HASH_BYTES, partition, offset, time, unsynced)


def _read_meta(data: bytes) -> tuple[dict[str, bytes], int]:
    """The header's map and where it ends."""
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
