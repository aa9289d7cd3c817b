"""Digest: the hash of the live state, and the position it is true of. `foldb verify` compares it with a refold."""

from typing import TYPE_CHECKING, Any

import orjson

from ...materializer.fold.dump import digest as digest_of_state
from ..reply import Reply

if TYPE_CHECKING:
    from ..node import Node


def digest(node: "Node", body: dict[str, Any], reply: Reply) -> None:  # noqa: ARG001  # it takes no parameters
    """Dump the state into a hash. Nothing else is served meanwhile: the state must stand still."""
    position = node.worker.position
    answer = {"Position": position.text(node.partitions), "Digest": digest_of_state(node.state)}
    reply.ok(orjson.dumps(answer), position)
