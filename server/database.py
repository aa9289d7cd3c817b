"""The database as the handlers of the API see it: the tables, their items and their changes.

    handler ──► Database: catalog, partition, feeds, clock, limits        Node ──► a Database with the services
                                                                                   of its process (node.py)

node.py assigns the attributes, once. Handlers of DynamoDB's operations on items, tables and streams need nothing else.
"""

import asyncio
from collections.abc import Callable
from functools import cached_property, partial
from typing import Final

from ..log.commands import Position
from ..log.log import Log
from ..materializer.fold.state import PartitionState, Table
from ..materializer.history.requests import PartitionWithHistory
from ..materializer.partition import Partition
from ..model.errors import ResourceNotFoundError
from ..model.slots import data_partitions
from ..model.subscriptions import Subscription
from ..model.tables import name_of
from .api.item_counts import TableCounter
from .api.record_cache import RecordCache
from .partitions import Partitions, Replica
from .routing import Router
from .settings import Settings
from .usage.counted_partition import CountedPartition
from .usage.usage import Usage

# DynamoDB's message for operations on tables. Operations on items have the default message of the error.
_NO_TABLE: Final = "Requested resource not found: Table: {} not found"


class Database:
    """The tables, items and changes that handlers read and write.

    Attributes:
        settings: The settings of the server, with the address and port that it listens on.
        log: The log that is folded.
        partitions: The partitions that this process folds.
        partition: Receives commands and reads: the only partition, or the router over all of them, behind the policies
            that refuse writes.
        router: The router; None where there is only one partition.
        peers: All partitions by partition id, as this process reaches them.
        state: The catalog: the tables and their definitions, read-only. With one partition it holds its items too.
        counts: Counts the items of tables.
        records: Caches the records of streams.
    """

    settings: Settings
    loop: asyncio.AbstractEventLoop
    clock: Callable[[], int]
    random_bytes: Callable[[int], bytes]
    log: Log
    partitions: Partitions
    partition: Partition
    router: Router | None
    peers: list[PartitionWithHistory]
    state: PartitionState
    counts: TableCounter
    records: RecordCache
    _catalog: Replica

    @cached_property
    def usage(self) -> Usage:
        """The counters of clients' requests for items."""
        return Usage()

    @cached_property
    def counted(self) -> CountedPartition:
        """The partition with those counters, for handlers that do not count their requests."""
        return CountedPartition(self.partition, self.state, self.usage)

    @property
    def position(self) -> Position:
        """The position of the catalog's last folded entry."""
        return self._catalog.worker.position

    def catch_up(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the catalog has folded every entry that its log holds now."""
        self._catalog.catch_up(callback)

    async def caught_up(self) -> None:
        """Return once the catalog has folded every entry that its log holds now."""
        future: asyncio.Future[None] = self.loop.create_future()
        self.catch_up(partial(future.set_result, None))
        await future

    def partitions_of_feed(self) -> dict[int, PartitionWithHistory]:
        """Return the partitions that hold items, by partition id. Each has the changes of its own items."""
        return {
            partition_id: self.peers[partition_id] for partition_id in data_partitions(self.partitions.count)
        }

    def table_in_any_status(self, name: str) -> Table:
        """Return the table that a TableName means, for operations on the table itself.

        Raises:
            ResourceNotFoundError: No table has the name.
        """
        table = self.state.table_named(name_of(name))
        if table is None:
            raise ResourceNotFoundError(_NO_TABLE.format(name_of(name)))
        return table

    def subscription(self, name: str) -> Subscription:
        """Return the subscription with the name.

        Raises:
            ResourceNotFoundError: No subscription has the name.
        """
        subscription = self.state.subscriptions.get(name)
        if subscription is None:
            raise ResourceNotFoundError(f"Requested resource not found: Subscription: {name} not found")
        return subscription
