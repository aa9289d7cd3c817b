"""A bounded sketch of the traffic of a table or a global index: how much by key range and time, and by which keys.

    count(pk, n) ──► pending: n by key ──┬──► KeyGrid: n by range of slots and time, for a map
                                         └──► HeavyKeys: n of the heaviest keys, with a stated error

A request only adds to the dict `pending`, because the slot of a key is a hash that takes longer than all the rest. When
`pending` is full, and once a second, its keys are added to the grids and to the heavy keys together. The clock is an
argument, all values are integers, and the same requests give the same sketch.

A sketch takes at most 1 MB, however long the keys are and however many there are. Sketches of several nodes merge.
"""

from array import array
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final

from ...model.keys import SLOTS, Slots

ROWS: Final = 64
"""The number of key ranges: equal ranges of slots."""
COLUMNS: Final = 60
"""The number of time buckets of a grid."""
BUCKETS_MS: Final = (10_000, 60_000)
"""The lengths of a time bucket: one grid has ten minutes, the other an hour."""
HALF_LIFE_MS: Final = 600_000

# The bytes of keys, counters and dicts. An entry has its key and at most 160 bytes: an object of bytes, an int, and its
# share of a dict that may be a third full.
_ENTRY_BYTES: Final = 160
_PENDING_BYTES: Final = 64 * 1024
_COUNTER_BYTES: Final = 224 * 1024
# The slots that are computed for a full `pending`: those of about a third of its keys.
_SAMPLES: Final = 128


class Layer(StrEnum):
    """The kinds of traffic. Reads and writes are counted in half units, throttles in refused requests."""

    READS = "Reads"
    WRITES = "Writes"
    THROTTLES = "Throttles"


class HeavyKeys:
    """The keys with the largest counts: a Misra-Gries summary with weights, and with decay.

    A count is at most the true value n of its key and at least n - `error`; a key without a counter has at most
    `error`. For k counters `error` <= total / (k + 1), and each halving adds up to one. Keys of 30 bytes
    have at least 1,200 counters. Keys that have had one from the beginning all lack the same, so their order is true.

    Sources: J. Misra and D. Gries, "Finding repeated elements", Science of Computer Programming 2 (2), 1982;
    P. Agarwal and others, "Mergeable summaries", ACM PODS 2012, for the merge and for the equality with SpaceSaving
    (A. Metwally and others, "Efficient computation of frequent and top-k elements in data streams", ICDT 2005). Unlike
    SpaceSaving it takes a dict of counts in one step, which costs a request a third.

    Attributes:
        counts: The counters by key.
        total: The sum of all values.
        error: The most by which a count is below its true value.
    """

    __slots__ = ("_half_life", "counts", "error", "total")

    def __init__(
        self, now_ms: int, counts: Mapping[bytes, int] | None = None, total: int = 0, error: int = 0
    ) -> None:
        self.counts = dict(counts or {})
        self.total = total
        self.error = error
        self._half_life = now_ms // HALF_LIFE_MS

    def add(self, values: Mapping[bytes, int]) -> None:
        """Add values by key."""
        counts = self.counts
        for key, value in values.items():
            counts[key] = counts.get(key, 0) + value
        self.total += sum(values.values())
        self._reduce()

    def merge(self, other: "HeavyKeys") -> None:
        """Add a summary of other requests at the same time. Errors add up, and so do the totals that bound them."""
        self.error += other.error
        self.total += other.total - sum(other.counts.values())
        self.add(other.counts)

    def decay(self, now_ms: int) -> None:
        """Halve everything once for each half-life that has begun since the last call. All nodes halve at one time."""
        shift = now_ms // HALF_LIFE_MS - self._half_life
        if shift <= 0:  # a clock that is set back decays nothing
            return
        self._half_life += shift
        shift = min(shift, 64)
        self.counts = {key: count >> shift for key, count in self.counts.items() if count >> shift}
        self.total >>= shift
        self.error = (self.error + 2 * (1 << shift) - 2) >> shift  # counts were rounded down

    def heaviest(self, limit: int) -> list[tuple[bytes, int]]:
        """Return the keys with the largest counts, the largest first."""
        return sorted(self.counts.items(), key=lambda entry: (-entry[1], entry[0]))[:limit]

    def _reduce(self) -> None:
        """If the counters take too many bytes, subtract from all the largest count that has no room."""
        counts = self.counts
        if sum(map(len, counts)) + _ENTRY_BYTES * len(counts) <= _COUNTER_BYTES:
            return
        room = _COUNTER_BYTES
        least = 0
        for key in sorted(counts, key=counts.__getitem__, reverse=True):
            room -= len(key) + _ENTRY_BYTES
            if room < 0:
                least = counts[key]
                break
        self.error += least
        self.counts = {key: count - least for key, count in counts.items() if count > least}


class KeyGrid:
    """Values by time and key range, for the newest time buckets.

    Attributes:
        cells: The values of each row, by time bucket: its number since 1970.
    """

    __slots__ = ("bucket_ms", "cells")

    def __init__(self, bucket_ms: int, cells: Mapping[int, list[int]] | None = None) -> None:
        self.bucket_ms = bucket_ms
        self.cells = {bucket: array("Q", column) for bucket, column in (cells or {}).items()}

    def add(self, rows: Mapping[int, int], bucket: int) -> None:
        """Add values by row to a time bucket."""
        column = self.cells.get(bucket)
        if column is None:
            column = self.cells[bucket] = array("Q", bytes(8 * ROWS))
            self.expire(bucket)
        for row, value in rows.items():
            column[row] += value

    def expire(self, bucket: int) -> None:
        """Drop the time buckets that are too old at the given one, and at most `COLUMNS` are kept in any case."""
        for each in sorted(self.cells):
            if each <= bucket - COLUMNS or len(self.cells) > COLUMNS:
                del self.cells[each]

    def merge(self, other: "KeyGrid") -> None:
        """Add a grid of other requests."""
        for bucket, column in sorted(other.cells.items()):
            self.add(dict(enumerate(column)), bucket)


class LayerSketch:
    """One layer of a sketch.

    Args:
        owner_id: The id of the table or index, which selects the slots of keys.
        clock: Returns milliseconds since 1970. It is called when `pending` is full.
    """

    __slots__ = ("_clock", "_pending", "_room", "grids", "keys", "slot_of")

    def __init__(self, owner_id: int, clock: Callable[[], int]) -> None:
        self.keys = HeavyKeys(clock())
        self.grids = tuple(map(KeyGrid, BUCKETS_MS))
        self._clock = clock
        self.slot_of = Slots(owner_id).of
        self._pending: dict[bytes, int] = {}
        self._room = _PENDING_BYTES

    def count(self, pk: bytes, value: int) -> None:
        """Add the value of a request with a partition key."""
        pending = self._pending
        before = pending.get(pk)
        if before is not None:
            pending[pk] = before + value
            return
        pending[pk] = value
        self._room -= len(pk) + _ENTRY_BYTES
        if self._room < 0:
            self._flush(self._clock(), sum(pending.values()) // _SAMPLES)

    def flush(self, now_ms: int) -> None:
        """Add the pending values, and let the old ones decay and expire."""
        self._flush(now_ms, 0)
        for grid in self.grids:
            grid.expire(now_ms // grid.bucket_ms)

    def _flush(self, now_ms: int, step: int) -> None:
        """Add the pending values.

        A key with more than `step` has its own slot. The values of others are added up until they exceed `step`, and
        count for the slot of the last: a systematic sample, in which each key has the chance of its value.
        """
        self.keys.decay(now_ms)
        pending = self._pending
        if not pending:
            return
        slot_of, rows, sum_of_sample, row = self.slot_of, dict[int, int](), 0, 0
        for pk, value in pending.items():
            sum_of_sample += value
            if sum_of_sample > step:
                row = slot_of(pk) * ROWS // SLOTS
                rows[row] = rows.get(row, 0) + sum_of_sample
                sum_of_sample = 0
        rows[row] = rows.get(row, 0) + sum_of_sample
        for grid in self.grids:
            grid.add(rows, now_ms // grid.bucket_ms)
        self.keys.add(pending)
        pending.clear()
        self._room = _PENDING_BYTES


class Sketch:
    """The traffic of a table or a global index.

    Attributes:
        layers: One for each kind of traffic.
    """

    def __init__(self, owner_id: int, clock: Callable[[], int]) -> None:
        self._clock = clock
        self.layers = {layer: LayerSketch(owner_id, clock) for layer in Layer}

    def encode(self) -> dict[str, Any]:
        """Return the sketch as plain data, up to now."""
        now_ms = self._clock()
        return {layer.value: _encoded(each, now_ms) for layer, each in self.layers.items()}

    def merge(self, encoded: Mapping[str, Any]) -> None:
        """Add the encoded sketch of another node."""
        now_ms = self._clock()
        for layer, each in self.layers.items():
            each.flush(now_ms)
            data = encoded[layer.value]
            each.keys.merge(HeavyKeys(now_ms, dict(data["keys"]), data["total"], data["error"]))
            for grid in each.grids:
                grid.merge(KeyGrid(grid.bucket_ms, dict(data["grids"][grid.bucket_ms])))


def _encoded(layer: LayerSketch, now_ms: int) -> dict[str, Any]:
    layer.flush(now_ms)
    return {
        "keys": list(layer.keys.counts.items()),
        "total": layer.keys.total,
        "error": layer.keys.error,
        "grids": {
            grid.bucket_ms: [(bucket, column.tolist()) for bucket, column in grid.cells.items()]
            for grid in layer.grids
        },
    }
