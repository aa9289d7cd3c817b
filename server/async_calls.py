"""Partitions answer through callbacks; coroutines await them here.

A partition has callbacks, because item operations were measured to lose half their rate to a future and a task per
request. All other requests are rare, so they await.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from ..materializer.feed_requests import FedPartition, FeedAnswer, FeedRequest
from ..materializer.partition import ResultPosition
from ..model.errors import RequestError
from .routing.fan_in import FanIn, first_error, joined

T = TypeVar("T")
_FeedAnswer = TypeVar("_FeedAnswer", bound=FeedAnswer)


class RefusedAtError(Exception):
    """An error answer that is true of a position."""

    def __init__(self, error: RequestError, position: ResultPosition) -> None:
        super().__init__(error)
        self.error = error
        self.position = position


async def call(function: Callable[[Callable[[T], None]], object]) -> T:
    """Call `function` with a callback, and return the argument of the callback."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def callback(result: T) -> None:
        if not future.done():  # cancelled
            future.set_result(result)

    function(callback)
    return await future


async def answer_of(request: Callable[[Callable[[T | RequestError, object], None]], None]) -> T:
    """Call `request` with a callback, and return the answer that the callback receives with a position.

    Raises:
        RequestError: The callback received this error.
    """
    result: T | RequestError = await call(lambda callback: request(lambda answer, _: callback(answer)))
    if isinstance(result, RequestError):
        raise result
    return result


async def read_feed(
    partition: FedPartition, request: FeedRequest, kind: type[_FeedAnswer]
) -> tuple[_FeedAnswer, ResultPosition]:
    """Return the answer of a partition's feed and its position.

    Raises:
        RefusedAtError: The feed refuses the request.
    """
    result: tuple[FeedAnswer | RequestError, ResultPosition] = await call(
        lambda callback: partition.feed(request, lambda *result: callback(result))
    )
    answer, position = result
    if isinstance(answer, RequestError):
        raise RefusedAtError(answer, position)
    assert isinstance(answer, kind), "each kind of request has its kind of answer"
    return answer, position


async def read_feeds(
    requests: Iterable[tuple[FedPartition, FeedRequest]],
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

    answers, positions = await call(read)
    error = first_error(answers)
    if error is not None:
        raise RefusedAtError(error, joined(positions))
    return answers, positions
