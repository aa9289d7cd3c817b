"""Whether this node can answer requests: GET /healthz/ready, for load balancers.

GET / and GET /healthz/live answer 200 as long as the process handles requests: an orchestrator restarts it otherwise. A
restart does not help a node that is not ready, because it would fold its partitions again.
"""

from ..node import Node


def unready_reason(node: Node) -> str | None:
    """Return why requests should go to other nodes; None if this node is ready."""
    for partition_id, hosted in sorted(node.partitions.hosted.items()):
        if hosted.worker.is_stopped:
            return f"partition {partition_id} has stopped: foldb verify prints the reason"
    cluster = node.cluster
    if cluster is None:
        return None
    if cluster.table is None or cluster.address not in cluster.table.nodes:
        return "this node is joining or leaving the cluster"
    return None
