"""A cache of recent stream records, so that several current readers of a stream cost little more than one.

Formatting a record costs several times as much as sending it. It is the same for all readers of a stream, and current
readers request the same changes at almost the same time. So formatted records are cached, with a limit in bytes. A page
is formatted in steps, because writers would wait for a whole page.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, TypeAlias

from ...materializer.worker import Scheduler
from ...streams.formats.dynamodb import record
from ...streams.formats.table_view import Delivery

CacheKey: TypeAlias = tuple[int, int]

_BYTES: Final = 4 * 1024 * 1024
"""Half of the limit of the cache, in bytes."""
_PER_STEP: Final = 100
"""Records per step: formatting them takes one to two milliseconds."""
_PAUSE_S: Final = 0.001
"""The pause between steps. The log's thread needs the interpreter to report durable writes, and a busy event loop
yields it only every 5 ms. Without the pause the p99 of a put beside one reader doubled."""


class RecordCache:
    """Formats records, and caches the latest.

    The cache has two generations. When the younger one is full it replaces the older one.
    """

    def __init__(self, limit: int = _BYTES, encode: Callable[[Delivery], bytes] = record) -> None:
        self._limit = limit
        self._encode = encode
        self._young: dict[CacheKey, bytes] = {}
        self._old: dict[CacheKey, bytes] = {}
        self._size = 0  # bytes of the younger generation

    def of(self, delivery: Delivery) -> bytes:
        """Return the record of a change, as GetRecords has it. A change is in one stream at most."""
        key = delivery.partition, delivery.change.sequence_number
        found = self._young.get(key) or self._old.get(key)
        if found is None:
            found = self._young[key] = self._encode(delivery)
            self._size += len(found)
            if self._size > self._limit:
                self._old, self._young, self._size = self._young, {}, 0
        return found

    def page(
        self, deliveries: Sequence[Delivery], scheduler: Scheduler, callback: Callable[[bytes], None]
    ) -> None:
        """Pass the records, joined by commas, to `callback`: before this returns if they are few."""
        remaining, formatted = iter(deliveries), list[bytes]()

        def step() -> None:
            formatted.extend(map(self.of, islice(remaining, _PER_STEP)))
            if len(formatted) < len(deliveries):
                scheduler.call_later(_PAUSE_S, step)
            else:
                callback(b",".join(formatted))

        step()
