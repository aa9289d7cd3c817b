"""The node, as far as its subscriptions see it.

    server/node.py ──makes──► Triggers ──knows──► Host, which a node is by what it has

So nothing in this folder imports the node, which imports what is here.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from ...log.commands import Position
from ...log.log import Log
from ...materializer.feed_requests import FedPartition
from ...materializer.fold.state import PartitionState, Table
from ...materializer.partition import Partition
from ...model.limits import Limits
from ...model.subscriptions import Subscription
from ...streams.feed.historical_feed import HistoricalFeeds
from ..partitions import Partitions
from ..settings import Settings


class SubscriptionContext(Protocol):
    """What subscriptions need of the node that they run on; see `Node`.

    Attributes:
        settings: Another one once the node knows its port.
        partition: Replaced by throttling.py while writes have to wait.
        peers: Replaced one by one as partitions move.
    """

    settings: Settings
    loop: asyncio.AbstractEventLoop
    clock: Callable[[], int]
    random_bytes: Callable[[int], bytes]
    log: Log
    histories: HistoricalFeeds
    state: PartitionState
    partition: Partition
    partitions: Partitions
    peers: list[FedPartition]

    @property
    def position(self) -> Position: ...

    @property
    def limits(self) -> Limits: ...

    def partitions_of_feed(self) -> dict[int, FedPartition]: ...

    def table(self, name: str) -> Table: ...

    def table_in_any_status(self, name: str) -> Table: ...

    def subscription(self, name: str) -> Subscription: ...
