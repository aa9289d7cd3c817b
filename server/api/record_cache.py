"""A cache of recent stream records, so that several current readers of a stream cost little more than one.

A record is the same for all readers of a stream, and current readers request the same changes at almost the same time.
So a record is formatted once, at its first read, and cached as bytes of the answer, with a limit in bytes. A page is
formatted in steps, because writers would wait for a whole page.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Final, TypeAlias

from ...materializer.fold.outcomes import Change
from ...materializer.worker import Scheduler
from ...streams.formats.dynamodb import record
from ...streams.formats.table_view import Delivery, TableView

Records: TypeAlias = dict[int, bytes]
"""Records of one partition by sequence number. A change is in one stream at most."""

_BYTES: Final = 4 * 1024 * 1024
"""Half of the limit of the cache, in bytes."""
_PER_STEP: Final = 300
"""Records per step: formatting them takes one to two milliseconds."""
_PAUSE_S: Final = 0.001
"""The pause between steps. The log's thread needs the interpreter to report durable writes, and a busy event loop
yields it only every 5 ms. Without the pause the p99 of a put beside one reader doubled."""

_NO_RECORDS: Final[Records] = {}

_sequence_number = attrgetter("sequence_number")


class RecordCache:
    """Formats records, and caches the latest.

    The cache has two generations. When the younger one is full it replaces the older one.
    """

    def __init__(self, limit: int = _BYTES, encode: Callable[[Delivery], bytes] = record) -> None:
        self._limit = limit
        self._encode = encode
        self._young: defaultdict[int, Records] = defaultdict(dict)  # by partition
        self._old: dict[int, Records] = {}
        self._size = 0  # bytes of the younger generation

    def page(
        self,
        changes: Sequence[Change],
        partition: int,
        table: TableView,
        scheduler: Scheduler,
        callback: Callable[[bytes], None],
    ) -> None:
        """Pass the records of a partition's changes, joined by commas, to `callback`.

        It is called before this returns if few of them are new.
        """
        numbers = map(_sequence_number, changes)
        records = list(map(self._young[partition].get, numbers, repeat(b"")))
        missing = [index for index, found in enumerate(records) if not found] if b"" in records else []

        def step(first: int) -> None:
            end = first + _PER_STEP
            for index in missing[first:end]:
                records[index] = self._record(Delivery(changes[index], partition, table))
            if end < len(missing):
                scheduler.call_later(_PAUSE_S, step, end)
            else:
                callback(b",".join(records))

        step(0)

    def _record(self, delivery: Delivery) -> bytes:
        """Return a record that was not in the younger generation: another page may have added it since."""
        change, partition, _, _ = delivery
        number, young = change.sequence_number, self._young[partition]
        found = young.get(number) or self._old.get(partition, _NO_RECORDS).get(number)
        if found is None:
            found = young[number] = self._encode(delivery)
            self._size += len(found)
            if self._size > self._limit:
                self._old, self._young, self._size = self._young, defaultdict(dict), 0
        return found
