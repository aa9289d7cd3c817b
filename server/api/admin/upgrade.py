"""Upgrade: raise the level of every partition's log to this release's, once all nodes run this release."""

from collections.abc import Callable
from functools import partial
from typing import Any

from ....log.commands import Level
from ....materializer.fold import LEVEL
from ....materializer.fold.outcomes import Failed, Outcome
from ....materializer.partition import Partition, ResultPosition
from ...async_calls import call
from ...auth.rights import Right
from ...node import Node
from ...routing.fan_in import FanIn
from ..operation import admin_operation
from ..reply import Caller

_LEVEL_BYTES = 64


@admin_operation("Upgrade", Right.ADMIN)
async def upgrade(node: Node, _: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """Append the level to each partition, and return the catalog's level before and after."""
    before = node.state.level
    partitions: list[Partition] = [node.partition] if node.router is None else [*node.router.partitions]
    outcomes: list[Outcome]
    outcomes, _positions = await call(partial(_append, partitions, Level(LEVEL, caller.context)))
    failed = next((outcome for outcome in outcomes if isinstance(outcome, Failed)), None)
    if failed is not None:
        raise failed.error
    return {"From": before, "Level": LEVEL}


def _append(
    partitions: list[Partition],
    level: Level,
    callback: Callable[[tuple[list[Outcome], list[ResultPosition]]], None],
) -> None:
    fan_in = FanIn(len(partitions), lambda *results: callback(results))
    for index, partition in enumerate(partitions):
        partition.submit(level, _LEVEL_BYTES, partial(fan_in.add, index))
