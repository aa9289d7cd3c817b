"""Reads of pages, and pages, of items and of a change feed, as what msgpack writes, and back.

A plan does not travel: the request that it was compiled from does, and is compiled again, where it says more than
what to look at. Fields go in their order, so a release may add some with a default at the end. Sequence numbers are
too long for an integer of msgpack, and travel as text.
"""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final, TypeVar

import orjson

from ...log.commands import Context
from ...materializer.feed_requests import (
    Changes,
    Count,
    CountChanges,
    FeedAnswer,
    FeedRequest,
    FindNumber,
    ListShards,
    Number,
    ReadChanges,
    Shard,
    Shards,
)
from ...materializer.fold.outcomes import Change, Tx
from ...materializer.partition import Page, QueryRequest, ScanRequest
from ...model.limits import Limits
from ..api import parameters
from .plain import Plain

R = TypeVar("R", QueryRequest, ScanRequest)

_COMPILED: Final = ("plan", "values", "source")
_QUERY: Final = tuple(field.name for field in fields(QueryRequest) if field.name not in _COMPILED)
_SCAN: Final = tuple(field.name for field in fields(ScanRequest) if field.name not in _COMPILED)
_PAGE: Final = tuple(field.name for field in fields(Page))


def query(request: QueryRequest) -> Plain:
    return [_source(request), *(getattr(request, name) for name in _QUERY)]


def scan(request: ScanRequest) -> Plain:
    return [_source(request), *(getattr(request, name) for name in _SCAN)]


def read_query(plain: Plain, limits: Limits) -> QueryRequest:
    return _read(QueryRequest, _QUERY, plain, limits)


def read_scan(plain: Plain, limits: Limits) -> ScanRequest:
    request = _read(ScanRequest, _SCAN, plain, limits)
    if request.start is not None:
        pk, sk = request.start
        request.start = pk, sk
    return request


def page(value: Page) -> Plain:
    return [getattr(value, name) for name in _PAGE]


def read_page(plain: Plain) -> Page:
    return Page(*plain[: len(_PAGE)])


def _source(request: QueryRequest | ScanRequest) -> bytes | None:
    """What to compile. The key condition alone is in the request's other fields already."""
    plan = request.plan
    if plan is None or (plan.filter is None and plan.projection is None):
        return None
    assert request.source is not None, "a plan that travels has its source"
    return orjson.dumps(request.source)


def _read(kind: Callable[..., R], names: tuple[str, ...], plain: Plain, limits: Limits) -> R:
    source, *values = plain
    members: dict[str, Any] = dict(zip(names, values, strict=False))
    if source is not None:
        body = orjson.loads(source)
        asked = parameters.read(body, limits)
        members |= {"plan": asked.plan, "values": asked.values, "source": body}
    return kind(**members)


# A change feed


def feed_request(value: FeedRequest) -> Plain:
    """A request, its kind first."""
    match value:
        case ReadChanges(table, after, until, stream, limit, size, wait_ms):
            return [0, table, str(after), _text(until), stream, limit, size, wait_ms]
        case FindNumber(table, time_ms, stream):
            return [1, table, time_ms, stream]
        case ListShards(table, stream):
            return [2, table, stream]
        case CountChanges(table, after, until):
            return [3, table, str(after), _text(until)]


def read_feed_request(data: Plain) -> FeedRequest:
    kind, *members = data
    read: Callable[..., FeedRequest] = _REQUESTS[kind]
    return read(*members)


def feed_answer(value: FeedAnswer) -> Plain:
    """An answer, its kind first."""
    match value:
        case Changes(changes, after, trim_horizon, is_end, time):
            return [0, [_change(each) for each in changes], str(after), str(trim_horizon), is_end, time]
        case Number(after, trim_horizon):
            return [1, str(after), str(trim_horizon)]
        case Shards(shards, time):
            return [
                2,
                [[each.nth, str(each.first), _text(each.last), each.begun_ms] for each in shards],
                time,
            ]
        case Count(changes, oldest_ms, end):
            return [3, changes, oldest_ms, str(end)]


def read_feed_answer(data: Plain) -> FeedAnswer:
    kind, *members = data
    read: Callable[..., FeedAnswer] = _ANSWERS[kind]
    return read(*members)


def _change(value: Change) -> Plain:
    """A change; what a release adds to it comes at the end."""
    return [
        value.table,
        value.pk,
        value.sk,
        value.old,
        value.new,
        str(value.sequence_number),
        value.time,
        value.context.encoded,
        None if value.tx is None else list(value.tx),
        value.stream,
        value.is_read,
    ]


def _read_change(data: Plain) -> Change:
    table, pk, sk, old, new, number, time, context, tx, stream, is_read = data
    in_tx = None if tx is None else Tx(*tx)
    return Change(table, pk, sk, old, new, int(number), time, Context.of(context), in_tx, stream, is_read)


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


_REQUESTS: Final[list[Callable[..., FeedRequest]]] = [
    lambda table, after, until, *more: ReadChanges(table, int(after), _number(until), *more),
    FindNumber,
    ListShards,
    lambda table, after, until: CountChanges(table, int(after), _number(until)),
]

_ANSWERS: Final[list[Callable[..., FeedAnswer]]] = [
    lambda changes, after, trim_horizon, is_end, time: Changes(
        [_read_change(each) for each in changes], int(after), int(trim_horizon), is_end, time
    ),
    lambda after, trim_horizon: Number(int(after), int(trim_horizon)),
    lambda shards, time: Shards(
        [Shard(nth, int(first), _number(last), begun) for nth, first, last, begun in shards], time
    ),
    lambda changes, oldest_ms, end: Count(changes, oldest_ms, int(end)),
]
