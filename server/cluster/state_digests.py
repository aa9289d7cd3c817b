"""The digests of a partition on all nodes that fold it, at one position.

    folded? ──► the highest offset, plus a margin ──► each node digests its state after that entry ──► digests
                 ▲                                          │ a node has passed it, or does not reach it
                 └──────────────────────────────────────────┘

Without writes the nodes are at the same offset already. Beside writes the offset is a little ahead of all of them. The
log gets no entry for this.
"""

import asyncio
from typing import Any, Final

from ...model.errors import RequestError, ServiceUnavailableError
from ..partitions.digest_jobs import DigestJobs
from .cluster import Cluster
from .codec import PlainValue
from .link import PeerAddress

CALL_NAME: Final = "digest"
# Entries by which the offset is ahead of all nodes, one attempt after the other.
_MARGINS: Final = (0, 0, 16, 0, 256, 0, 4096)


def handle_digests(cluster: Cluster, digests: DigestJobs) -> None:
    """Handle the calls of other nodes for digests of this one."""

    async def handle(body: PlainValue) -> PlainValue:
        partition_id, offset = body["partition"], body["offset"]
        if offset is None:
            return {"folded": digests.folded(partition_id)}
        return await digests.at(partition_id, offset)

    cluster.handle(CALL_NAME, handle)


async def digests_of(
    cluster: Cluster, partition_id: int
) -> tuple[int, dict[PeerAddress, Any], dict[PeerAddress, str]]:
    """Return an offset, the digests after it by node, and the errors of the nodes that returned none.

    Raises:
        ServiceUnavailableError: The nodes were never at the same offset.
    """
    errors: dict[PeerAddress, str] = {}
    for margin in _MARGINS:
        nodes = [each for each in cluster.nodes_of(partition_id) if each not in errors]
        folded = await _call_each(cluster, nodes, partition_id, None, errors)
        if not folded:
            return 0, {}, errors
        offset = max(answer["folded"] for answer in folded.values()) + margin
        answers = await _call_each(cluster, list(folded), partition_id, offset, errors)
        if all("digest" in answer for answer in answers.values()):
            return offset, answers, errors
    raise ServiceUnavailableError(f"The nodes of partition {partition_id} were at no common position")


async def _call_each(
    cluster: Cluster,
    nodes: list[PeerAddress],
    partition_id: int,
    offset: int | None,
    errors: dict[PeerAddress, str],
) -> dict[PeerAddress, Any]:
    """Return the answers by node, and add the errors of the others to `errors`."""
    results = await asyncio.gather(*(_call(cluster, each, partition_id, offset) for each in nodes))
    errors |= {
        node: result.message
        for node, result in zip(nodes, results, strict=True)
        if isinstance(result, RequestError)
    }
    return {
        node: result
        for node, result in zip(nodes, results, strict=True)
        if not isinstance(result, RequestError)
    }


async def _call(cluster: Cluster, node: PeerAddress, partition_id: int, offset: int | None) -> Any:
    """Return the answer of a node, or its error."""
    try:
        while True:
            answer = await cluster.call(node, CALL_NAME, {"partition": partition_id, "offset": offset})
            if not answer.get("pending"):
                return answer
    except RequestError as error:
        return error
