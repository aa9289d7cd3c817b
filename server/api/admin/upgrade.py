"""Upgrade: has every partition's log come to the level of this release, once all nodes are of it."""

from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from ....log.commands import Level
from ....materializer.fold import LEVEL
from ....materializer.fold.outcomes import Failed, Outcome
from ....materializer.partition import Partition, Place
from ...routing.fan_in import FanIn
from ..reply import Reply

if TYPE_CHECKING:
    from ...node import Node

_LEVEL_BYTES = 64


def upgrade(node: "Node", body: dict[str, Any], reply: Reply) -> None:  # noqa: ARG001  # it takes no parameters
    """Append the level to each partition, and answer from which to which the catalog has come."""
    before = node.state.level
    partitions: list[Partition] = [node.partition] if node.router is None else [*node.router.partitions]
    join = FanIn(len(partitions), partial(_answer, before, reply))
    for number, partition in enumerate(partitions):
        partition.submit(Level(LEVEL, reply.context), _LEVEL_BYTES, partial(join.answered, number))


def _answer(before: int, reply: Reply, outcomes: list[Outcome], _: list[Place]) -> None:
    failed = next((outcome for outcome in outcomes if isinstance(outcome, Failed)), None)
    if failed is not None:
        reply.error(failed.error)
    else:
        reply.ok(orjson.dumps({"From": before, "Level": LEVEL}))
