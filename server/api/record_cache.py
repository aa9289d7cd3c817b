"""The bytes of recent records, so that several readers who keep up with a stream cost little more than one.

Making a record costs several times what sending it does. It is the same for all readers of a stream, and those who
keep up ask for the same changes within a moment. So what was made is remembered for a while: by count of bytes, never
by time. And a page is made little by little, or who writes would wait for a whole one.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, TypeAlias

from ...materializer.worker import Scheduler
from ...streams.formats.dynamodb import record
from ...streams.formats.table_view import Delivery

Key: TypeAlias = tuple[int, int]

_BYTES: Final = 4 * 1024 * 1024
"""Half of what may be remembered."""
_AT_ONCE: Final = 100
"""So many are made in one turn, in a millisecond or two."""
_PAUSE_S: Final = 0.001
"""Between turns: the log's thread needs the interpreter to say what is durable, and does not get it from a loop that is
busy, but for every 5 ms. Without a pause a put beside one reader took twice as long (p99)."""


class RecordCache:
    """Makes records, each of the latest ones once.

    There are two generations: when the younger one is full it becomes the older, and that one is forgotten.
    """

    def __init__(self, bound: int = _BYTES, make: Callable[[Delivery], bytes] = record) -> None:
        self._bound = bound
        self._make = make
        self._young: dict[Key, bytes] = {}
        self._old: dict[Key, bytes] = {}
        self._size = 0  # of the younger

    def of(self, delivery: Delivery) -> bytes:
        """A member of GetRecords' Records. A change is part of one stream at most, so it has one record."""
        key = delivery.partition, delivery.change.sequence_number
        found = self._young.get(key) or self._old.get(key)
        if found is None:
            found = self._young[key] = self._make(delivery)
            self._size += len(found)
            if self._size > self._bound:
                self._old, self._young, self._size = self._young, {}, 0
        return found

    def page(
        self, deliveries: Sequence[Delivery], scheduler: Scheduler, done: Callable[[bytes], None]
    ) -> None:
        """Tell the records, with commas between them; a few are told at once."""
        rest, made = iter(deliveries), list[bytes]()

        def go_on() -> None:
            made.extend(map(self.of, islice(rest, _AT_ONCE)))
            if len(made) < len(deliveries):
                scheduler.call_later(_PAUSE_S, go_on)
            else:
                done(b",".join(made))

        go_on()
