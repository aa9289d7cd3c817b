"""The bytes of recent records, so that several readers who keep up with a stream cost little more than one.

Making a record costs several times what sending it does. It is the same for all readers of a stream, and those who
keep up ask for the same changes within a moment. So what was made is remembered for a while: by count of bytes, never
by time.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from ..streams.formats.delivery import Delivery
from ..streams.formats.dynamodb import record

Key: TypeAlias = tuple[int, int]

_BYTES: Final = 4 * 1024 * 1024
"""Half of what may be remembered."""


class Records:
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
