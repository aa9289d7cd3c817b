"""The state of a partition in a file.

    snapshot ::= magic head check dump digest
    magic    ::= "foldb snapshot 1" 0A
    head     ::= length (4 bytes, big-endian) JSON      the log, the last folded record, the number of items
    check    ::= BLAKE2b-128 of magic and head
    dump     ::= the state's canonical form (fold/dump.py)
    digest   ::= BLAKE2b-256 of the dump: the same digest as in `foldb verify` and in a log's Digest commands

A snapshot only saves time: the log alone is the truth. So a snapshot that differs in any byte from the written one
is unusable, and is never repaired.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from hashlib import blake2b
from typing import Final

import orjson

from ..log.local.filesystem import File, write_all
from ..model.lazy_dataclass import dataclass
from .fold.dump import dump
from .fold.load import load
from .fold.state import PartitionState

# The number changes with every change of the dump's form: a process that finds another one folds the log instead.
MAGIC: Final = b"foldb snapshot 1\n"
_LENGTH_BYTES: Final = 4
_CHECK_BYTES: Final = 16
_DIGEST_BYTES: Final = 32
_LARGEST_HEAD: Final = 4096

_BYTES: Final = {"log_id", "hash", "chain"}

_PIECE_BYTES: Final = 1 << 20
# A sync delays the log on the same disk, so the bytes per sync are limited.
_SYNC_BYTES: Final = 8 << 20


class UnusableError(Exception):
    """The snapshot cannot be used, and the reason."""


@dataclass(frozen=True, slots=True)
class SnapshotHead:
    """The head of a snapshot.

    Attributes:
        log_id: The log that was folded.
        partition: The id of the partition.
        offset: The last record that was folded; `hash` is that record's hash, which identifies its history.
        time_ms: Log time of that record.
        items: The number of items of all tables.
        item_bytes: Their size.
        chain: The chain of the partition up to that record (log/chain.py); None in a snapshot of an earlier release.
    """

    log_id: bytes
    partition: int
    offset: int
    hash: bytes
    time_ms: int
    items: int
    item_bytes: int
    chain: bytes | None = None

    @classmethod
    def of(cls, state: PartitionState, hash_: bytes, chain: bytes | None) -> "SnapshotHead":
        """Return the head for a state, given hash and chain of the last record folded into it."""
        assert state.genesis is not None, "every log begins with Genesis"
        tables = state.tables.values()
        return cls(
            log_id=state.genesis.log_id,
            partition=state.genesis.partition,
            offset=state.next_offset - 1,
            hash=hash_,
            time_ms=state.log_time,
            items=sum(table.items.count for table in tables),
            item_bytes=sum(table.items.size for table in tables),
            chain=chain,
        )

    def encode(self) -> bytes:
        """Return magic, head and check."""
        body = orjson.dumps(asdict(self), default=bytes.hex)
        data = MAGIC + len(body).to_bytes(_LENGTH_BYTES, "big") + body
        return data + _check(data)


@dataclass(frozen=True, slots=True)
class OpenSnapshot:
    """A snapshot with an intact head: its dump is from byte `start` to byte `end`, followed by `digest`."""

    file: File
    head: SnapshotHead
    start: int
    end: int
    digest: str


def write_snapshot(file: File, head: SnapshotHead, state: PartitionState) -> str:
    """Write a snapshot into an empty file and sync it; return the digest."""
    data = head.encode()
    write_all(file, 0, data)
    position = synced = len(data)
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for piece in pieces(dump(state)):
        digest.update(piece)
        write_all(file, position, piece)
        position += len(piece)
        if position - synced >= _SYNC_BYTES:
            file.sync()
            synced = position
    write_all(file, position, digest.digest())
    file.sync()
    return digest.hexdigest()


def read_head(file: File) -> OpenSnapshot:
    """Read a snapshot's head; the dump is not verified yet.

    Raises:
        UnusableError: The head is damaged, or of another version.
    """
    data = file.read(0, len(MAGIC) + _LENGTH_BYTES + _LARGEST_HEAD + _CHECK_BYTES)
    if data[: len(MAGIC)] != MAGIC:
        raise UnusableError("it is damaged at its beginning, or of another version")
    body = len(MAGIC) + _LENGTH_BYTES
    check = body + int.from_bytes(data[len(MAGIC) : body], "big")
    start, end = check + _CHECK_BYTES, file.size() - _DIGEST_BYTES
    if data[check:start] != _check(data[:check]) or start > end:
        raise UnusableError("its head is damaged")
    fields = orjson.loads(data[body:check])
    for name in _BYTES & {name for name, value in fields.items() if value is not None}:
        fields[name] = bytes.fromhex(fields[name])
    return OpenSnapshot(file, SnapshotHead(**fields), start, end, file.read(end, _DIGEST_BYTES).hex())


def read_dump(snapshot: OpenSnapshot) -> Iterator[bytes]:
    """Yield the dump, piece by piece. It is verified only when the last piece has been read.

    Raises:
        UnusableError: The bytes do not have the written digest.
    """
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for at in range(snapshot.start, snapshot.end, _PIECE_BYTES):
        piece = snapshot.file.read(at, min(_PIECE_BYTES, snapshot.end - at))
        digest.update(piece)
        yield piece
    if digest.hexdigest() != snapshot.digest:
        raise UnusableError("it is damaged: its digest is not that of its bytes")


def load_state(snapshot: OpenSnapshot) -> PartitionState:
    """Return the state in the snapshot.

    Raises:
        UnusableError: The dump is damaged, or does not match the head.
    """
    try:
        state = load(read_dump(snapshot))
    except ValueError as error:
        raise UnusableError(f"it is damaged: {error}") from error
    check_state(snapshot.head, state)
    return state


def check_state(head: SnapshotHead, state: PartitionState) -> None:
    """Compare a loaded state with the head of its snapshot.

    Raises:
        UnusableError: The dump does not match the head.
    """
    if state.genesis is None or SnapshotHead.of(state, head.hash, head.chain) != head:
        raise UnusableError("its head does not match its dump")


def pieces(frames: Iterable[bytes], least: int = _PIECE_BYTES) -> Iterator[bytes]:
    """Join frames to pieces of at least `least` bytes: writing and hashing each frame alone would be slowest."""
    waiting: list[bytes] = []
    size = 0
    for frame in frames:
        waiting.append(frame)
        size += len(frame)
        if size >= least:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)


def _check(data: bytes) -> bytes:
    return blake2b(data, digest_size=_CHECK_BYTES).digest()
