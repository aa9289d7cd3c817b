"""foldb's own operations, behind `Foldb_20261121.` in X-Amz-Target. Related ones share a file."""

from ..operation import Operation
from . import dead_letters, subscriptions
from .changes import changes
from .cluster import cluster
from .digest import digest
from .partition import partition
from .rebuild import rebuild
from .status import status
from .streams import streams
from .upgrade import upgrade
from .wait import wait

ADMIN: dict[str, Operation] = {
    each.name: each
    for each in (
        changes,
        cluster,
        subscriptions.create,
        subscriptions.describe,
        digest,
        dead_letters.drop_dead_letters,
        dead_letters.edit_dead_letter,
        dead_letters.list_dead_letters,
        subscriptions.list_,
        partition,
        subscriptions.pause,
        rebuild,
        subscriptions.remove,
        subscriptions.replay,
        subscriptions.reset,
        subscriptions.resume,
        dead_letters.retry_dead_letters,
        subscriptions.wait_for_triggers,
        status,
        streams,
        subscriptions.update,
        upgrade,
        wait,
    )
}
