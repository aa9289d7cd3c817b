"""The digest that an owner leaves in its log when it stops.

Who refolds the log later, perhaps with another release, folds to the same digest or has found where not. One pass
over all that is stored makes it, and a stop must not take long: so a large state leaves none.
"""

from typing import Final

from ..log.commands import Digest
from .fold.dump import digest
from .fold.state import PartitionState

# Half a second, about.
WITNESSED_ITEMS: Final = 100_000
WITNESSED_BYTES: Final = 128 * 1024 * 1024


def witness(state: PartitionState) -> Digest | None:
    """The digest of the state as it is, index entries included; None if that would take too long."""
    stores = [table.items for table in state.tables.values()]
    stores += [index.store for table in state.tables.values() for index in table.indexes.values()]
    if sum(store.count for store in stores) > WITNESSED_ITEMS:
        return None
    if sum(store.size for store in stores) > WITNESSED_BYTES:
        return None
    return Digest(state.next_offset - 1, digest(state))
