"""Digest: the hash of the live state, and the position it is true of. `foldb verify` compares it with a refold.

{"Position", "Digest"}; where there are several partitions {"Position": a cut, "Digests": [{"Position", "Digest"}, ...]}
of those in this process.
"""

from typing import TYPE_CHECKING, Any

import orjson

from ...materializer.fold.dump import digest as digest_of_state
from ..reply import Reply
from ..routing import joined

if TYPE_CHECKING:
    from ..node import Node
    from ..partitions import Hosted


def digest(node: "Node", body: dict[str, Any], reply: Reply) -> None:  # noqa: ARG001  # it takes no parameters
    """Dump each state into a hash. Nothing else is served meanwhile: the states must stand still."""
    count, hosted = node.partitions.count, node.partitions.hosted.values()
    position = joined(each.worker.position for each in hosted)
    digests = [_of(each, count) for each in hosted]
    answer = digests[0] if count == 1 else {"Position": position.text(count), "Digests": digests}
    reply.ok(orjson.dumps(answer), position)


def _of(hosted: "Hosted", count: int) -> dict[str, str]:
    return {"Position": hosted.worker.position.text(count), "Digest": digest_of_state(hosted.state)}
