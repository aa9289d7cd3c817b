"""foldb's own operations, under the target prefix `Foldb_20261121.`, one a file."""

from typing import TYPE_CHECKING

from .digest import digest
from .rebuild import rebuild
from .status import status

if TYPE_CHECKING:
    from ..dispatch import Handler

ADMIN: "dict[str, Handler]" = {
    "Digest": digest,
    "Rebuild": rebuild,
    "Status": status,
}
