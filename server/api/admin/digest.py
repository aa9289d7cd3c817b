"""Digest: the hash of the live state, and the position that it is true of. `foldb verify` compares it with a refold.

Without a cluster: {"Position", "Digest", "Tables"}; with several partitions {"Position": a cut, "Digests": [...]}.

With a cluster: {"Digests": [{"Position", "Node", "Digest", "Tables", "Snapshots"}, ...],
"Errors": [{"Partition", "Node", "Error"}]} of all nodes that fold the `Partition` of the request, or all partitions:
owner and standby at the same position. `Snapshots` has offset and chain of the node's snapshots.
"""

from typing import Any

from ....log.commands import Position
from ....materializer.digest_task import StateDigest
from ....model.errors import ValidationError
from ...async_calls import call
from ...auth.rights import Right
from ...cluster.cluster import Cluster
from ...cluster.link import address_text
from ...cluster.state_digests import digests_of
from ...node import Node
from ...partitions.digest_jobs import described
from ..operation import Answer, admin_operation
from ..reply import Caller


@admin_operation("Digest", Right.ADMIN)
async def digest(node: Node, body: dict[str, Any], _: Caller) -> Answer | dict[str, Any]:
    """Compute the digest of the current state, or of the state once the digest under way is computed."""
    partition_id = body.get("Partition")
    if not isinstance(partition_id, int | None) or (partition_id or 0) not in range(node.partitions.count):
        raise ValidationError(f"Digest takes a Partition from 0 to {node.partitions.count - 1}")
    if node.cluster is None:
        return Answer(*await call(node.digests.ask))
    partitions = range(node.partitions.count) if partition_id is None else [partition_id]
    found: dict[str, Any] = {"Digests": [], "Errors": []}
    for each in partitions:
        await _add(node.cluster, each, node.partitions.count, found)
    return found


async def _add(cluster: Cluster, partition_id: int, count: int, found: dict[str, Any]) -> None:
    """Add the digests of one partition to the answer."""
    offset, answers, errors = await digests_of(cluster, partition_id)
    found["Digests"] += [
        {"Node": address_text(address), "Snapshots": each["snapshots"]}
        | described(Position(partition_id, offset), StateDigest(each["digest"], each["tables"]), count)
        for address, each in answers.items()
    ]
    found["Errors"] += [
        {"Partition": partition_id, "Node": address_text(address), "Error": error}
        for address, error in errors.items()
    ]
