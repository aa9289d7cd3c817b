"""Partitions answer through callbacks; coroutine handlers await them here."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from ...materializer.feed_requests import FedPartition, FeedAnswer, FeedRequest
from ...materializer.partition import ResultPosition
from ...model.errors import RequestError
from ..routing.fan_in import FanIn, first_error, joined
from .operation import RefusedAtError

T = TypeVar("T")
_FeedAnswer = TypeVar("_FeedAnswer", bound=FeedAnswer)


async def call(loop: asyncio.AbstractEventLoop, function: Callable[[Callable[[T], None]], object]) -> T:
    """Call `function` with a callback, and return what the callback receives."""
    future: asyncio.Future[T] = loop.create_future()

    def callback(result: T) -> None:
        if not future.done():  # cancelled
            future.set_result(result)

    function(callback)
    return await future


async def sleep(loop: asyncio.AbstractEventLoop, seconds: float) -> None:
    """Suspend the coroutine for a time of the loop's clock."""
    future: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(seconds, future.set_result, None)
    try:
        await future
    finally:
        timer.cancel()


async def read_feed(
    loop: asyncio.AbstractEventLoop, partition: FedPartition, request: FeedRequest, kind: type[_FeedAnswer]
) -> tuple[_FeedAnswer, ResultPosition]:
    """Return the answer of a partition's feed and its position.

    Raises:
        RefusedAtError: The feed refuses the request.
    """
    result: tuple[FeedAnswer | RequestError, ResultPosition] = await call(
        loop, lambda callback: partition.feed(request, lambda *result: callback(result))
    )
    answer, position = result
    if isinstance(answer, RequestError):
        raise RefusedAtError(answer, position)
    assert isinstance(answer, kind), "each kind of request has its kind of answer"
    return answer, position


async def read_feeds(
    loop: asyncio.AbstractEventLoop, requests: Iterable[tuple[FedPartition, FeedRequest]]
) -> tuple[list[Any], list[ResultPosition]]:
    """Return the answers of several feeds, in the order of the requests, and their positions.

    Raises:
        RefusedAtError: A feed refuses its request.
    """
    requests = list(requests)

    def read(callback: Callable[[tuple[list[Any], list[ResultPosition]]], None]) -> None:
        fan_in = FanIn(len(requests), lambda *results: callback(results))
        for index, (partition, request) in enumerate(requests):
            partition.feed(request, partial(fan_in.add, index))

    answers, positions = await call(loop, read)
    error = first_error(answers)
    if error is not None:
        raise RefusedAtError(error, joined(positions))
    return answers, positions
