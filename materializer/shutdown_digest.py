"""The digest that an owner leaves in its log when it stops.

A later refold of the log, perhaps by another release, folds to the same digest or shows where it does not. One pass
over all items computes it, in portions (digesting.py), and a stop must not take long: a large state leaves none.
"""

from typing import Final

from .disposer import stores_of
from .fold.state import PartitionState

# Half a second, about.
WITNESSED_ITEMS: Final = 100_000
WITNESSED_BYTES: Final = 128 * 1024 * 1024


def may_be_witnessed(state: PartitionState) -> bool:
    """Return whether a stop leaves the state's digest: not if that would take too long, index entries included."""
    stores = stores_of(state)
    items, size = sum(store.count for store in stores), sum(store.size for store in stores)
    return items <= WITNESSED_ITEMS and size <= WITNESSED_BYTES
