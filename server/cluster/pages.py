"""Reads of pages, and pages, as what msgpack writes, and back.

A plan does not travel: the request that it was compiled from does, and is compiled again, where it says more than
what to look at. Fields go in their order, so a release may add some with a default at the end.
"""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final, TypeVar

import orjson

from ...materializer.partition import Page, QueryRequest, ScanRequest
from ...model.limits import Limits
from .. import parameters
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
