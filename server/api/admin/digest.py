"""Digest: the hash of the live state, and the position it is true of. `foldb verify` compares it with a refold.

{"Position", "Digest"}; where there are several partitions {"Position": a cut, "Digests": [{"Position", "Digest"}, ...]}
of those in this process. `digests.py` computes it.
"""

from typing import TYPE_CHECKING, Any

from ..reply import Reply

if TYPE_CHECKING:
    from ...node import Node


def digest(node: "Node", body: dict[str, Any], reply: Reply) -> None:  # noqa: ARG001  # it takes no parameters
    """Answer the digest of the state as it is now, or is when the digest under way is done."""
    node.digests.ask(reply)
