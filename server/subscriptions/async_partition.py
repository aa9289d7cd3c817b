"""Partitions answer by callback; what is done about subscriptions is told step by step, and awaits them."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from ...log.commands import Command
from ...materializer.feed_requests import Count, CountChanges, FedPartition, FeedAnswer, FeedRequest
from ...materializer.fold.outcomes import Failed, Outcome, Refused, Skipped
from ...materializer.fold.read_requests import Page, QueryRequest, ScanRequest
from ...materializer.partition import Partition, Place
from ...model.errors import InternalServerError, RequestError, ServiceUnavailableError

Done: TypeAlias = Callable[[dict[str, Any] | RequestError], None]
"""Who waits for an answer, or for the error in its place."""

NO_TABLE: Final = 0
"""What a feed tells of it is where it ends."""

T = TypeVar("T")
logger = logging.getLogger(__name__)


async def submitted(partition: Partition, command: Command, size: int) -> Outcome:
    """Have a command folded.

    Raises:
        RequestError: It was refused, or nobody knows.
    """
    answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def done(outcome: Outcome, _: Place) -> None:
        if not answer.done():
            answer.set_result(outcome)

    partition.submit(command, size, done)
    outcome = await answer
    if isinstance(outcome, Refused | Failed):
        raise outcome.error
    if isinstance(outcome, Skipped):
        raise ServiceUnavailableError(outcome.why)
    return outcome


async def page_of(partition: Partition, request: QueryRequest | ScanRequest) -> Page:
    """Read a page."""
    answer: asyncio.Future[Page | RequestError] = asyncio.get_running_loop().create_future()

    def done(page: Page | RequestError, _: Place) -> None:
        if not answer.done():
            answer.set_result(page)

    if isinstance(request, QueryRequest):
        partition.query(request, done)
    else:
        partition.scan(request, done)
    return _or_raise(await answer)


async def fed(partition: FedPartition, request: FeedRequest) -> FeedAnswer:
    """Ask a feed."""
    answer: asyncio.Future[FeedAnswer | RequestError] = asyncio.get_running_loop().create_future()

    def done(found: FeedAnswer | RequestError, _: Place) -> None:
        if not answer.done():
            answer.set_result(found)

    partition.feed(request, done)
    found = await answer
    if isinstance(found, RequestError):
        raise found
    return found


async def counted(partition: FedPartition, table: int, after: int, until: int | None = None) -> Count:
    """How many changes of a table there are behind a number."""
    count = await fed(partition, CountChanges(table, after, until))
    assert isinstance(count, Count), "a count was asked for"
    return count


async def ends(partitions: Mapping[int, FedPartition], table: int) -> dict[int, int]:
    """Of each partition the highest number that what it has folded could have given."""
    return {number: (await counted(partition, table, 0)).end for number, partition in partitions.items()}


def answer(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, dict[str, Any]], done: Done) -> None:
    """Do `work`, and tell what it returns or raises."""

    async def do() -> None:
        try:
            done(await work)
        except RequestError as error:
            done(error)
        except Exception:
            logger.exception("a request about subscriptions failed")
            done(InternalServerError())

    task = loop.create_task(do())
    _under_way.add(task)
    task.add_done_callback(_under_way.discard)


_under_way: set[asyncio.Task[None]] = set()  # the loop itself keeps no hold of its tasks


def _or_raise(found: T | RequestError) -> T:
    if isinstance(found, RequestError):
        raise found
    return found
