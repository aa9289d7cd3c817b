"""The rebuild of a table on all nodes that fold a part of it.

    request ──► any node ──► CALL frames ──► owners and standbys rebuild their parts ──► one progress

A standby is rebuilt too: a wrong state there would be the owner's after a failover.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from ...model.errors import RequestError, ServiceUnavailableError, ValidationError
from ...model.slots import data_partitions
from .cluster import Cluster
from .link import PeerAddress, address_text

CALL_NAME: Final = "rebuild"

Rebuild = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class ClusterRebuilds:
    """The rebuilds that were requested at this node, one at a time.

    Args:
        cluster: The nodes.
        rebuild: Starts a rebuild on this node, or returns its progress: the operation Rebuild of one process.
        count: The number of partitions.
    """

    def __init__(self, cluster: Cluster, rebuild: Rebuild, count: int) -> None:
        self._cluster = cluster
        self._partitions = data_partitions(count)
        self._job_id = 0
        self._name = ""
        self._progress: dict[PeerAddress, dict[str, Any]] = {}
        cluster.handle(CALL_NAME, rebuild)

    async def start(self, name: str, index: str | None) -> dict[str, Any]:
        """Start a rebuild on each node that folds a part of the table, and return the progress.

        Raises:
            RequestError: A node is unreachable, or refuses the rebuild. Other nodes may rebuild their parts.
        """
        nodes = sorted({node for each in self._partitions for node in self._cluster.nodes_of(each)})
        body = {"TableName": name, "IndexName": index}
        self._job_id += 1
        self._name = name
        self._progress = dict(
            zip(nodes, await asyncio.gather(*(self._call(node, body) for node in nodes)), strict=True)
        )
        return self._answer()

    async def progress(self, name: str, job_id: int) -> dict[str, Any]:
        """Return the progress of the last rebuild.

        Raises:
            ValidationError: No rebuild of the table has the id.
            RequestError: The rebuild of a node failed, or the node is unreachable.
        """
        if (name, job_id) != (self._name, self._job_id):
            raise ValidationError(f"No rebuild {job_id} of the table {name} is known")
        running = [node for node, each in self._progress.items() if each["Status"] == "RUNNING"]
        bodies = [{"TableName": name, "Id": self._progress[node]["Id"]} for node in running]
        self._progress |= zip(running, await asyncio.gather(*map(self._call, running, bodies)), strict=True)
        return self._answer()

    async def _call(self, node: PeerAddress, body: dict[str, Any]) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = await self._cluster.call(node, CALL_NAME, body)
        except ServiceUnavailableError as error:
            raise ServiceUnavailableError(f"Node {address_text(node)}: {error.message}") from error
        except RequestError as error:
            raise type(error)(f"Node {address_text(node)}: {error.message}") from error
        return answer

    def _answer(self) -> dict[str, Any]:
        """Return the sum of all progress; when it is done, the parts of all nodes.

        Raises:
            ServiceUnavailableError: A part of the table moved to another node during the rebuild.
        """
        each = self._progress.values()
        is_done = all(one["Status"] == "DONE" for one in each)
        sums = {member: sum(one[member] for one in each) for member in ("Folded", "End")}
        answer = {"Id": self._job_id, "Status": "DONE" if is_done else "RUNNING"} | sums
        if not is_done:
            return answer
        parts = [
            part | {"Node": address_text(node)}
            for node, one in self._progress.items()
            for part in one["Parts"]
        ]
        if {part["Partition"] for part in parts} != set(self._partitions):
            raise ServiceUnavailableError("A part of the table moved to another node. Try again.")
        return answer | {"Parts": parts}
