"""Partitions and change feeds whose answers are awaited, without their positions."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from ...log.commands import Command
from ...materializer.feed_requests import (
    ChangeCount,
    CountChanges,
    FedPartition,
    FeedAnswer,
    FeedRequest,
    FindSequenceNumber,
    FoundSequenceNumber,
)
from ...materializer.fold.outcomes import Failed, Outcome, Refused, Skipped
from ...materializer.fold.read_requests import Page, QueryRequest, ScanRequest
from ...materializer.partition import Partition
from ...model.errors import ServiceUnavailableError
from ...model.sequence_numbers import SequenceNumbers
from ..async_calls import answer_of

NO_TABLE: Final = 0
"""The id of no table: its count of changes has the end of the feed alone."""


class AsyncPartition:
    """Commands and pages of a partition, as coroutines."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    async def submit(self, command: Command, size: int) -> Outcome:
        """Append a command of about `size` bytes, and return its outcome once it is durable.

        Raises:
            RequestError: The command was refused, or its outcome is unknown.
        """
        outcome: Outcome = await answer_of(partial(self._partition.submit, command, size))
        if isinstance(outcome, Refused | Failed):
            raise outcome.error
        if isinstance(outcome, Skipped):
            raise ServiceUnavailableError(outcome.why)
        return outcome

    async def page(self, request: QueryRequest | ScanRequest) -> Page:
        """Read a page.

        Raises:
            RequestError: The partition refuses the request, or does not answer.
        """
        if isinstance(request, QueryRequest):
            return await answer_of(partial(self._partition.query, request))
        return await answer_of(partial(self._partition.scan, request))


class AsyncFeed:
    """The change feed of a partition, as coroutines.

    Every method raises a RequestError if the partition refuses the request or does not answer.
    """

    def __init__(self, partition: FedPartition) -> None:
        self._partition = partition

    async def read(self, request: FeedRequest) -> FeedAnswer:
        return await answer_of(partial(self._partition.feed, request))

    async def count(self, table: int, after: int, until: int | None = None) -> ChangeCount:
        """Count the changes of a table with a sequence number above `after`, up to `until` if that is given."""
        count = await self.read(CountChanges(table, after, until))
        assert isinstance(count, ChangeCount), "the answer to CountChanges is a Count"
        return count

    async def find(self, table: int, time_ms: int) -> FoundSequenceNumber:
        """Return the sequence number after which all changes of a table have log time `time_ms` or later."""
        found = await self.read(FindSequenceNumber(table, time_ms))
        assert isinstance(found, FoundSequenceNumber), "the answer to FindNumber is a Number"
        return found

    async def trim_horizon(self, table: int) -> int:
        """Return the sequence number behind which the feed keeps all changes of a table."""
        return (await self.find(table, 0)).trim_horizon


async def end_sequence_numbers(partitions: Mapping[int, FedPartition], table: int) -> SequenceNumbers:
    """Return the highest sequence number that the folded entries of each partition could have produced."""
    return {
        partition_id: (await AsyncFeed(partition).count(table, 0)).end
        for partition_id, partition in partitions.items()
    }
