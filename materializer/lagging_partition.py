"""A partition whose eventually consistent reads are answered from an earlier state.

    read ──► consistent, or with a position? ──► the present state
                    └── no: draw a lag ──► the state that was the latest that long ago (recent_images.py)

Each read draws a lag of its own, as if it went to one of many replicas: a later read may show an earlier state. Tables
and their local indexes have one maximum lag, global indexes another.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from ..log.commands import Position
from ..model.lazy_dataclass import dataclass
from .feed_requests import FeedReader, no_feed
from .fold.reads import PageReader
from .fold.state import Table
from .fold.storage import EncodedKey, Store, Stored
from .local_partition import LocalPartition
from .long_reads import LongReads
from .partition import OnItem, OnItems, QueryRequest, ScanRequest
from .recent_images import Moment, RecentImages
from .worker import Worker


@dataclass(slots=True)
class ReadLag:
    """The lag of the reads of tables, or of those of global indexes.

    Attributes:
        limit_ms: The maximum lag; 0 disables it.
        reads: The number of reads that drew a lag; `total_ms` is the sum of these lags.
        stale_reads: The number of these reads whose state lacked a write to the items that they read.
    """

    limit_ms: int
    reads: int = 0
    total_ms: int = 0
    stale_reads: int = 0


class LaggingPartition(LocalPartition):
    """See the module.

    Attributes:
        images: See RecentImages.
        of_tables, of_indexes: The lag of tables and their local indexes, and that of global indexes.

    Args:
        worker: Folds the partition.
        read_feed: Reads the partition's feed.
        long_reads: Reads pages that are longer than one portion.
        images: The images that writes replaced within the longer lag.
        limits_ms: The maximum lags of tables and of global indexes.
        draw: Returns a random number from 0 to its argument.
    """

    def __init__(
        self,
        worker: Worker,
        read_feed: FeedReader = no_feed,
        *,
        long_reads: LongReads,
        images: RecentImages,
        limits_ms: tuple[int, int],
        draw: Callable[[int], int],
    ) -> None:
        super().__init__(worker, read_feed, long_reads=long_reads)
        self.images = images
        self.of_tables, self.of_indexes = map(ReadLag, limits_ms)
        self._draw = draw

    def get(self, table: int, pk: bytes, sk: bytes, consistent: bool, done: OnItem) -> None:
        if consistent or not self.of_tables.limit_ms:
            super().get(table, pk, sk, consistent, done)
            return
        store = self._items_of(table)
        moment = self._moment(self.of_tables, () if store is None else (store,))
        done(self._item_at(moment, store, pk, sk), moment.position)

    def get_all(self, keys: Sequence[EncodedKey], consistent: bool, done: OnItems) -> None:
        """Read items at one position of the log; a deleted table has none."""
        if consistent or not self.of_tables.limit_ms:
            super().get_all(keys, consistent, done)
            return
        stores = [self._items_of(table) for table, _, _ in keys]
        moment = self._moment(self.of_tables, [each for each in stores if each is not None])
        found = [
            self._item_at(moment, store, pk, sk) for store, (_, pk, sk) in zip(stores, keys, strict=True)
        ]
        done(found, moment.position)

    def _items_of(self, table_id: int) -> Store | None:
        table: Table | None = self._state.tables.get(table_id)
        return None if table is None else table.items

    def _item_at(self, moment: Moment, store: Store | None, pk: bytes, sk: bytes) -> Stored | None:
        if store is None:
            return None
        item = self.images.item_at(moment, store, pk, sk)
        self.of_tables.stale_reads += item is not store.get(pk, sk)
        return item

    def _open(self, request: QueryRequest | ScanRequest) -> tuple[PageReader, Position]:
        """Open a page of the present state, or of an earlier one."""
        reader, position = super()._open(request)
        lag = self.of_indexes if self._reads_global_index(request) else self.of_tables
        if request.consistent or request.fresh or not lag.limit_ms:
            return reader, position
        moment = self._moment(lag, reader.stores)
        lag.stale_reads += reader.go_back(partial(self.images.replaced_since, moment))
        return reader, moment.position

    def _moment(self, lag: ReadLag, stores: Iterable[Store]) -> Moment:
        """Draw the lag of a read of these stores, and return its moment."""
        drawn_ms = self._draw(lag.limit_ms)
        lag.reads += 1
        lag.total_ms += drawn_ms
        return self.images.moment_before(drawn_ms, stores)

    def _reads_global_index(self, request: QueryRequest | ScanRequest) -> bool:
        index = self._table(request.table).indexes.get(request.index or "")
        return index is not None and index.definition.kind == "GSI"
