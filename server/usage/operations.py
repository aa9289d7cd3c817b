"""Counters of requests by operation and table: latencies, throttled requests, errors.

    request begins ──► answer ──► durations ──settle──► histogram since the start, statistics of the minute

The durations of a second are kept as they are, because a list takes one in a tenth of the time of a histogram.
"""

import collections
from collections.abc import Container
from typing import Final

from ...model.errors import ConditionalCheckFailedError, RequestError, is_throttled
from .usage import Counter, Statistics, merged

# The upper bounds of the buckets in microseconds: powers of two from 128 us to 16.8 s.
BUCKETS: Final = tuple(1 << bit for bit in range(7, 25))
_FIRST_BITS: Final = 7
_US: Final = 1_000_000


class Latencies:
    """The durations of successful requests.

    Attributes:
        durations: Those since the last `settle`, in seconds.
        counts: The number of requests by bucket, and at the end of those beyond all buckets.
        sum_us: The sum of all durations, in microseconds.
    """

    __slots__ = ("_minute", "counts", "durations", "sum_us")

    def __init__(self) -> None:
        self.durations: list[float] = []
        self.counts = [0] * (len(BUCKETS) + 1)
        self.sum_us = 0
        self._minute: Statistics | None = None

    def settle(self) -> None:
        """Add the durations to the histogram and to the statistics of the minute."""
        if not self.durations:
            return
        each = [int(seconds * _US) for seconds in self.durations]
        self.durations.clear()
        # Every second, for all requests of the second: a loop of Python over them took twice as long.
        for bits, count in collections.Counter(map(int.bit_length, [us - 1 for us in each])).items():
            self.counts[min(max(bits - _FIRST_BITS, 0), len(BUCKETS))] += count
        settled = Statistics(sum(each), len(each), min(each), max(each))
        self.sum_us += settled.sum
        self._minute = settled if self._minute is None else merged((self._minute, settled))

    @property
    def minute(self) -> Statistics | None:
        """The statistics of the present minute, in microseconds; None without requests."""
        return self._minute

    def close(self) -> None:
        """End a minute."""
        self._minute = None


class OperationUsage:
    """The counters of an operation on one table, or of all its requests that name none or several.

    Attributes:
        latencies: The durations of successful requests.
        succeeded: Counts a successful request with its duration in seconds.
        throttled: 1 for each request that was refused for lack of throughput.
        system_errors: 1 for each answer with status 500 or more.
    """

    __slots__ = ("latencies", "succeeded", "system_errors", "throttled")

    def __init__(self) -> None:
        self.latencies = Latencies()
        self.succeeded = self.latencies.durations.append
        self.throttled = Counter()
        self.system_errors = Counter()


class Operations(dict[tuple[str, str], OperationUsage]):
    """The counters by operation and name of the table; the name is empty for requests that have none.

    Attributes:
        user_errors: 1 for each answer with status 400, except for throttled requests and failed conditions.
    """

    def __init__(self) -> None:
        super().__init__()
        self.user_errors = Counter()

    def __missing__(self, key: tuple[str, str]) -> OperationUsage:
        usage = self[key] = OperationUsage()
        return usage

    def count_error(self, usage: OperationUsage | None, error: RequestError) -> None:
        """Count an answer that is an error; `usage` is None for a request without a known operation."""
        if error.status >= 500:
            if usage is not None:
                usage.system_errors.add(1)
        elif is_throttled(error):
            if usage is not None:
                usage.throttled.add(1)
        elif not isinstance(error, ConditionalCheckFailedError):
            self.user_errors.add(1)

    def settle(self, tables: Container[str]) -> None:
        """Settle latencies, and drop the counters of all tables but these."""
        for key in [key for key in self if key[1] and key[1] not in tables]:
            del self[key]
        for usage in self.values():
            usage.latencies.settle()
