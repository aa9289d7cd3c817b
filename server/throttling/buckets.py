"""Token buckets over a clock that is an argument, in integers.

    unused capacity fills a bucket ──► a request is admitted while the balance is positive ──► its cost is taken

The cost of a request is known after it: that of a write depends on the item before, that of a page on its items. So a
balance may become negative, and then no request is admitted until it is positive again. In any span of time a bucket
admits at most its depth, its rate times the span, and the cost of one request.

Amounts are half units, because an eventually consistent read of a block costs half a read unit.
"""

from collections import deque
from typing import Final

HALF_UNIT: Final = 1_000_000
"""A half unit in the balance of a bucket."""

_SECOND_MS: Final = 1_000
_MINUTE_MS: Final = 60_000
_DOUBLING_MINUTES: Final = 30


class Bucket:
    """A token bucket that has the capacity of one second at first.

    A request takes its cost from `balance`. Consumption is counted by the next refill, not by each request.

    Args:
        rate: Thousandths of a half unit per second, so that a table's rate can be divided among its partitions.
        depth_ms: The longest time for which unused capacity is kept.
        now_ms: The time of the creation.

    Attributes:
        balance: Millionths of a half unit: a rate in thousandths adds `rate` of them in a millisecond.
        leased: Millionths of a half unit that leases have taken from the balance. They still fill the bucket.
        time_ms: The time up to which the balance has the unused capacity.
        consumed: Millionths of a half unit that were taken before that time.
    """

    __slots__ = ("_depth", "_level", "_rate", "balance", "consumed", "leased", "time_ms")

    def __init__(self, rate: int, depth_ms: int, now_ms: int) -> None:
        self.balance = self._level = rate * _SECOND_MS
        self.time_ms = now_ms
        self.consumed = 0
        self.leased = 0
        self._rate = rate
        self._depth = rate * depth_ms

    def configure(self, rate: int, depth_ms: int, now_ms: int) -> None:
        """Change the rate from now on. The balance stays, up to the new depth."""
        self.refill(now_ms)
        self.consumed += self._level - self.balance
        self._rate = rate
        self._depth = rate * depth_ms
        self.balance = self._level = min(self.balance, self._depth)

    def refill(self, now_ms: int) -> None:
        """Add the capacity since the last call."""
        if now_ms > self.time_ms:  # a clock that is set back adds nothing
            self.consumed += self._level - self.balance
            added = self._rate * (now_ms - self.time_ms)
            self.balance = self._level = min(self._depth - self.leased, self.balance + added)
            self.time_ms = now_ms


class PartitionBucket(Bucket):
    """The bucket of a capacity partition, a part of which can be leased (meters.py).

    Attributes:
        left: Half units that are left of the lease. A request takes its cost from them if they are enough.
        unsampled: Half units of the requests since the last sample (load_sampler.py).
        sampled_at: The half units with which the next sample is due.
    """

    __slots__ = ("left", "sampled_at", "unsampled")

    def __init__(self, rate: int, depth_ms: int, now_ms: int) -> None:
        super().__init__(rate, depth_ms, now_ms)
        self.left = 0
        self.unsampled = 0
        self.sampled_at = 1


class Peaks:
    """The traffic of a table on demand, and the rate that follows from it.

    A table serves its initial rate, or twice the highest rate of any second that is at least half an hour old: the rule
    of the developer guide's page on on-demand capacity, where traffic may double within 30 minutes.

    Args:
        initial: The half units a second of a table without traffic.
    """

    __slots__ = ("_initial", "_minutes", "_second", "_settled", "_taken")

    def __init__(self, initial: int) -> None:
        self._initial = initial
        self._settled = 0
        self._minutes: deque[tuple[int, int]] = deque()  # (minute, highest second of it), at most 31
        self._second = 0
        self._taken = 0

    def take(self, half_units: int, now_ms: int) -> None:
        """Count the cost of a request."""
        second = now_ms // _SECOND_MS
        if second > self._second:
            self._close_second()
            self._second = second
        self._taken += half_units

    def rate(self, now_ms: int) -> int:
        """Return the half units a second that the table serves now."""
        if now_ms // _SECOND_MS > self._second:
            self._close_second()
        oldest = now_ms // _MINUTE_MS - _DOUBLING_MINUTES
        while self._minutes and self._minutes[0][0] < oldest:
            self._settled = max(self._settled, self._minutes.popleft()[1])
        return max(self._initial, 2 * self._settled)

    def _close_second(self) -> None:
        """Count the second that has ended as part of its minute."""
        minute = self._second * _SECOND_MS // _MINUTE_MS
        if self._taken:
            if self._minutes and self._minutes[-1][0] == minute:
                self._minutes[-1] = minute, max(self._minutes[-1][1], self._taken)
            else:
                self._minutes.append((minute, self._taken))
        self._taken = 0
