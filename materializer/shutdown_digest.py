"""The digest that an owner appends to its log when it stops.

A later refold of the log, perhaps by another release, must produce the same digest; `foldb verify` reports the
position at which it does not. The digest takes one pass over all items, in portions (digest_task.py). A stop must be
fast, so a large state leaves no digest.
"""

from typing import Final

from .disposer import stores_of
from .fold.state import PartitionState

# About half a second.
DIGEST_ITEMS_MAX: Final = 100_000
DIGEST_BYTES_MAX: Final = 128 * 1024 * 1024


def leaves_digest(state: PartitionState) -> bool:
    """Return whether a stop appends the state's digest: whether items and index entries are below the limits."""
    stores = stores_of(state)
    items, size = sum(store.count for store in stores), sum(store.size for store in stores)
    return items <= DIGEST_ITEMS_MAX and size <= DIGEST_BYTES_MAX
