"""Digest: the hash of the live state, and the position that it is true of. `foldb verify` compares it with a refold.

{"Position", "Digest"}; with several partitions {"Position": a cut, "Digests": [{"Position", "Digest"}, ...]} of the
partitions in this process.
"""

from typing import Any

from ...auth.rights import Right
from ...node import Node
from ..operation import admin_operation
from ..reply import Reply


@admin_operation("Digest", Right.ADMIN)
def digest(node: Node, _: dict[str, Any], reply: Reply) -> None:
    """Compute the digest of the current state, or of the state once the digest under way is computed."""
    node.digests.ask(reply)
