"""Computes the digest of a state in portions, as of the position at which it began.

    views of all stores, at one position ──► a portion of the dump per turn ──► hash ──► callback(digests)

An owner appends the digest to its log when it stops, unless the state is large. A later refold of the log, perhaps by
another release, must produce the same digest; `foldb verify` reports the position at which it does not.

The digest must be of the live state, or `foldb verify` would compare one refold with another. So no other process
computes it, and views keep later writes out of it.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final, NamedTuple, Protocol

import orjson

from .disposer import stores_of
from .fold.dump import END, TABLE, StillDump, payload_of
from .fold.state import PartitionState

# Bytes of the dump per turn: a thousand items of 200 bytes, about three milliseconds.
PORTION_BYTES: Final = 256 * 1024

_DIGEST_BYTES: Final = 32

# The largest state that a stop digests, which takes about half a second.
DIGEST_ITEMS_MAX: Final = 100_000
DIGEST_BYTES_MAX: Final = 128 * 1024 * 1024


class Loop(Protocol):
    """The required part of an event loop."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object: ...


class StateDigest(NamedTuple):
    """The digest of a state, and those of its tables, which name the table in which two states differ.

    Attributes:
        whole: The digest that `dump.digest` returns.
        tables: By name, the digest of each table with its indexes (`digest_of(dump_table(table))`).
    """

    whole: str
    tables: dict[str, str]


class DigestTask:
    """Computes one digest.

    Args:
        state: The state, which may continue to change.
        done: Called with the digests of the state as it is now.
    """

    def __init__(self, state: PartitionState, scheduler: Loop, done: Callable[[StateDigest], None]) -> None:
        self._frames = StillDump(state).frames()
        self._scheduler = scheduler
        self._done = done
        self._whole = blake2b(digest_size=_DIGEST_BYTES)
        self._table: blake2b | None = None
        self._tables: dict[str, blake2b] = {}
        scheduler.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Hash a portion, and schedule the next."""
        frames: list[bytes] = []
        size = 0
        for frame in self._frames:
            kind = frame[:1]
            if kind in (TABLE, END):
                self._update(frames)
                frames = []
                self._table = self._of_table(frame) if kind == TABLE else None
            frames.append(frame)
            size += len(frame)
            if size >= PORTION_BYTES:
                self._update(frames)
                self._scheduler.call_soon(self._go_on)
                return
        self._update(frames)
        tables = {name: each.hexdigest() for name, each in self._tables.items()}
        self._done(StateDigest(self._whole.hexdigest(), tables))

    def _of_table(self, frame: bytes) -> blake2b:
        name = orjson.loads(payload_of(frame))["name"]
        digest = self._tables[name] = blake2b(digest_size=_DIGEST_BYTES)
        return digest

    def _update(self, frames: list[bytes]) -> None:
        data = b"".join(frames)
        self._whole.update(data)
        if self._table is not None:
            self._table.update(data)


def leaves_digest(state: PartitionState) -> bool:
    """Return whether a stop appends the state's digest: whether items and index entries are below the limits."""
    stores = stores_of(state)
    items, size = sum(store.count for store in stores), sum(store.size for store in stores)
    return items <= DIGEST_ITEMS_MAX and size <= DIGEST_BYTES_MAX
