"""foldb's own operations, under the target prefix `Foldb_20261121.`, one a file."""

from ..node import Handler
from .changes import changes
from .cluster import cluster
from .digest import digest
from .partition import partition
from .rebuild import rebuild
from .status import status
from .streams import streams
from .wait import wait

ADMIN: dict[str, Handler] = {
    "Changes": changes,
    "Cluster": cluster,
    "Digest": digest,
    "Partition": partition,
    "Rebuild": rebuild,
    "Status": status,
    "Streams": streams,
    "Wait": wait,
}
