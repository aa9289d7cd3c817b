"""Computes the digest of a state in portions, as of the position at which it began.

    views of all stores, at one position ──► a piece of the dump per turn ──► hash ──► callback(digest)

An owner appends the digest to its log when it stops, unless the state is large. A later refold of the log, perhaps by
another release, must produce the same digest; `foldb verify` reports the position at which it does not.

The digest must be of the live state, or `foldb verify` would compare one refold with another. So no other process
computes it, and views keep later writes out of it.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final, Protocol

from .disposer import stores_of
from .fold.dump import StillDump
from .fold.state import PartitionState
from .snapshot import pieces

# Bytes of the dump per turn: a thousand items of 200 bytes, about three milliseconds.
PORTION_BYTES: Final = 256 * 1024

# The largest state that a stop digests, which takes about half a second.
DIGEST_ITEMS_MAX: Final = 100_000
DIGEST_BYTES_MAX: Final = 128 * 1024 * 1024


class Loop(Protocol):
    """The required part of an event loop."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object: ...


class DigestTask:
    """Computes one digest.

    Args:
        state: The state, which may continue to change.
        done: Called with the digest that `dump.digest` would return now.
    """

    def __init__(self, state: PartitionState, scheduler: Loop, done: Callable[[str], None]) -> None:
        self._pieces = pieces(StillDump(state).frames(), PORTION_BYTES)
        self._scheduler = scheduler
        self._done = done
        self._hash = blake2b(digest_size=32)
        scheduler.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Hash a piece, and schedule the next."""
        piece = next(self._pieces, None)
        if piece is None:
            self._done(self._hash.hexdigest())
        else:
            self._hash.update(piece)
            self._scheduler.call_soon(self._go_on)


def leaves_digest(state: PartitionState) -> bool:
    """Return whether a stop appends the state's digest: whether items and index entries are below the limits."""
    stores = stores_of(state)
    items, size = sum(store.count for store in stores), sum(store.size for store in stores)
    return items <= DIGEST_ITEMS_MAX and size <= DIGEST_BYTES_MAX
