"""Readiness and liveness: GET /healthz/ready and GET /healthz/live."""

from types import SimpleNamespace
from typing import Any, cast

from foldb.server.http.readiness import unready_reason
from foldb.server.node import Node
from tests.verification.fuzz.inside import Inside


def clustered(inside: Inside, nodes: list[str]) -> Node:
    table: Any = SimpleNamespace(nodes=nodes)
    cluster = SimpleNamespace(address="me", table=table)
    return cast(Node, SimpleNamespace(partitions=inside.node.partitions, cluster=cluster))


def test_a_node_is_ready_until_a_partition_stops() -> None:
    inside = Inside(partitions=2)
    assert unready_reason(inside.node) is None

    inside.node.partitions.hosted[2].worker.close(lambda: None)

    assert "partition 2 has stopped" in (unready_reason(inside.node) or "")


def test_a_node_outside_its_cluster_is_not_ready() -> None:
    inside = Inside()

    assert unready_reason(clustered(inside, ["me", "other"])) is None
    assert "joining or leaving" in (unready_reason(clustered(inside, ["other"])) or "")
