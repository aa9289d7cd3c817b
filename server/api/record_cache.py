"""A cache of recent stream records, so that several current readers of a stream cost little more than one.

    runs of a shard    ├───────────┼─────────────────┼─────────┤
    a page                    ├────┼─────────────────┼───┤

A record is the same for all readers of a shard, and current readers request the same changes at almost the same time.
So a record is formatted once, at its first read, and cached in a run: successive records of one shard as bytes of the
answer, with their sum. A page has whole runs, and parts of the first and the last one. The cache has a limit in bytes.
A page is formatted in steps, because writers would wait for a whole page.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from ...materializer.fold.outcomes import Change
from ...materializer.worker import Scheduler
from ...streams.formats.dynamodb import record
from ...streams.formats.table_view import Delivery, TableView
from .checksums import SummedText
from .long_answers import Piece

_BYTES: Final = 16 * 1024 * 1024
"""The limit of the cache: about a second of a busy table, because readers may poll once a second."""
_RUN_BYTES: Final = 48 * 1024
"""The size at which a run ends. A part of a run is summed at each read, so long runs would cost more."""
_RECORD_BYTES: Final = 100
"""Memory of a record apart from its text."""
_PER_STEP: Final = 300
"""Records per step: formatting them takes up to a millisecond."""
_PAUSE_S: Final = 0.001
"""The pause between steps. The log's thread needs the interpreter to report durable writes, and a busy event loop
yields it only every 5 ms. Without the pause the p99 of a put beside one reader doubled."""


class ShardKey(NamedTuple):
    """A shard of a stream in one partition. The changes of two pages of one shard are equal where they overlap."""

    partition: int
    table: int
    stream: int
    period: int
    range: int


class RecordRun:
    """Successive records of a shard: each as text behind a comma.

    Attributes:
        numbers: The sequence numbers.
        ends: The end of each record in the text.
    """

    __slots__ = ("ends", "numbers", "text")

    def __init__(self, numbers: list[int], records: list[bytes]) -> None:
        self.numbers = numbers
        self.ends: list[int] = []
        end = 0
        for each in records:
            end += 1 + len(each)
            self.ends.append(end)
        self.text = SummedText(b",".join((b"", *records)))

    @property
    def first(self) -> int:
        """The sequence number of the first record."""
        return self.numbers[0]

    @property
    def size(self) -> int:
        """Approximate memory."""
        return self.ends[-1] + _RECORD_BYTES * len(self.ends)

    def part(self, begin: int, end: int) -> Piece:
        """Return the text of the records with these indexes."""
        if not begin and end == len(self.ends):
            return self.text
        return memoryview(self.text.data)[self.ends[begin - 1] if begin else 0 : self.ends[end - 1]]


_first = attrgetter("first")


class RecordCache:
    """Formats records, and caches the latest."""

    def __init__(self, limit: int = _BYTES, encode: Callable[[Delivery], bytes] = record) -> None:
        self._limit = limit
        self._encode = encode
        self._shards: dict[ShardKey, list[RecordRun]] = {}  # in the order of their records
        self._queue: deque[tuple[ShardKey, RecordRun]] = deque()  # in the order of their creation
        self._size = 0

    def page(
        self,
        changes: Sequence[Change],
        shard: ShardKey,
        table: TableView,
        scheduler: Scheduler,
        callback: Callable[[list[Piece]], None],
    ) -> None:
        """Pass the records of a shard's successive changes to `callback`, each behind a comma.

        It is called before this returns if few of them are new.
        """
        pieces: list[Piece] = []

        def step(index: int) -> None:
            made = 0
            while index < len(changes):
                found, begin = self._find(shard, changes, index)
                if found is None:
                    if made >= _PER_STEP:
                        scheduler.call_later(_PAUSE_S, step, index)
                        return
                    found, begin = self._make(shard, changes, index, table), 0
                    made += len(found.numbers)
                end = min(len(found.numbers), begin + len(changes) - index)
                pieces.append(found.part(begin, end))
                index += end - begin
            callback(pieces)

        step(0)

    def _find(self, shard: ShardKey, changes: Sequence[Change], index: int) -> tuple[RecordRun | None, int]:
        """Return the cached run with a change and those that follow it, and the index of the change in it."""
        runs = self._shards.get(shard, ())
        number = changes[index].sequence_number
        place = bisect_right(runs, number, key=_first) - 1
        if place >= 0:
            numbers = runs[place].numbers
            begin = bisect_left(numbers, number)
            count = min(len(numbers) - begin, len(changes) - index)
            # A refold may have another result.
            is_same = count and numbers[begin] == number
            if is_same and numbers[begin + count - 1] == changes[index + count - 1].sequence_number:
                return runs[place], begin
        return None, 0

    def _make(self, shard: ShardKey, changes: Sequence[Change], index: int, table: TableView) -> RecordRun:
        """Format the records of a change and of those that follow it, up to the next run."""
        runs = self._shards.setdefault(shard, [])
        place = bisect_right(runs, changes[index].sequence_number, key=_first)
        following = runs[place].first if place < len(runs) else None
        numbers: list[int] = []
        records: list[bytes] = []
        size = 0
        while index < len(changes) and size < _RUN_BYTES:
            change = changes[index]
            if change.sequence_number == following:
                break
            made = self._encode(Delivery(change, shard.partition, table))
            numbers.append(change.sequence_number)
            records.append(made)
            size += len(made)
            index += 1
        run = RecordRun(numbers, records)
        runs.insert(place, run)
        self._queue.append((shard, run))
        self._size += run.size
        while self._size > self._limit:
            self._evict()
        return run

    def _evict(self) -> None:
        """Remove the run that was made first."""
        shard, run = self._queue.popleft()
        self._size -= run.size
        runs = self._shards[shard]
        runs.remove(run)
        if not runs:
            del self._shards[shard]
