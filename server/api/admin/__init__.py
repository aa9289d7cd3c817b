"""foldb's own operations, behind `Foldb_20261121.` in X-Amz-Target. Related ones share a file."""

from ..operation import operations_in
from . import (
    changes,
    cluster,
    dead_letters,
    digest,
    history,
    partition,
    rebuild,
    restores,
    status,
    streams,
    subscriptions,
    trim,
    undo,
    upgrade,
    wait,
)

ADMIN = operations_in(
    changes,
    cluster,
    dead_letters,
    digest,
    history,
    partition,
    rebuild,
    restores,
    status,
    streams,
    subscriptions,
    trim,
    undo,
    upgrade,
    wait,
)
