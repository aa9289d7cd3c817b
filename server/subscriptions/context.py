"""The part of the node that subscriptions use.

    server/node.py ──creates──► SubscriptionService ──uses──► SubscriptionContext, which Node satisfies

Modules of this folder import no node, because the node imports this folder.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from ...log.commands import Position
from ...log.log import Log
from ...materializer.fold.state import PartitionState, Table
from ...materializer.history.requests import PartitionWithHistory
from ...model.subscriptions import Subscription
from ..partitions import Partitions
from ..partitions.partition_chain import ThrottledPartition
from ..settings import Settings


class SubscriptionContext(Protocol):
    """The attributes of `Node` that subscriptions use.

    Attributes:
        settings: Replaced once the node has bound its port.
        peers: The partitions by id; entries are replaced as partitions move between nodes.
    """

    settings: Settings
    loop: asyncio.AbstractEventLoop
    clock: Callable[[], int]
    random_bytes: Callable[[int], bytes]
    log: Log
    state: PartitionState
    partition: ThrottledPartition
    partitions: Partitions
    peers: list[PartitionWithHistory]

    @property
    def position(self) -> Position: ...

    def partitions_of_feed(self) -> dict[int, PartitionWithHistory]: ...

    def table_in_any_status(self, name: str) -> Table: ...

    def subscription(self, name: str) -> Subscription: ...
