"""foldb's own operations, under the target prefix `Foldb_20261121.`, one a file, or a file for a few of a kind."""

from ...node import Handler
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

ADMIN: dict[str, Handler] = {
    "Changes": changes,
    "Cluster": cluster,
    "CreateSubscription": subscriptions.create,
    "DescribeSubscription": subscriptions.describe,
    "Digest": digest,
    "DropDeadLetters": dead_letters.drop_letters,
    "EditDeadLetter": dead_letters.edit_letter,
    "ListDeadLetters": dead_letters.list_letters,
    "ListSubscriptions": subscriptions.list_,
    "Partition": partition,
    "PauseSubscription": subscriptions.pause,
    "Rebuild": rebuild,
    "RemoveSubscription": subscriptions.remove,
    "ReplaySubscription": subscriptions.replay,
    "ResetSubscription": subscriptions.reset,
    "ResumeSubscription": subscriptions.resume,
    "RetryDeadLetters": dead_letters.retry_letters,
    "WaitForTriggers": subscriptions.settle,
    "Status": status,
    "Streams": streams,
    "UpdateSubscription": subscriptions.update,
    "Upgrade": upgrade,
    "Wait": wait,
}
