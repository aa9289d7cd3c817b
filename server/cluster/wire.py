"""What crosses between two nodes: calls, and answers to them.

    frame   ::= length(4 bytes) msgpack
    call    ::= [id, method, partition, arguments]
    answer  ::= [id, fate, result, position] | [id, fate, result, position, log time there]

A call is a method of the seam (materializer/partition.py) for one partition. Lengths are bounded before anything is
read, and what does not have its shape is a WireError: the connection is closed, because its two ends disagree.
"""

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

import msgpack

from ...model.errors import FoldbError, NewerVersionError, RequestError
from ...model.limits import Limits
from . import outcomes, pages, plain
from .plain import Plain

VERSION: Final = 1
"""Of this protocol; the two ends of a connection have the same."""

REVISION: Final = 1
"""Of the answers that a caller reads, named in its hello: from 1 on they may end with log time at their position.

A caller of an earlier release names none, and is sent answers of four members.
"""

FRAME_BYTES: Final = 48 * 1024 * 1024
"""The longest frame: a request of 16 MiB whose answer repeats items, with room to spare."""

LENGTH: Final = Struct(">I")

# What became of a call.
ANSWERED, NOT_HERE, FAILED = 0, 1, 2


class WireError(FoldbError):
    """What came over a connection is not what a node of this version sends."""


@dataclass(frozen=True, slots=True)
class Method:
    """How the arguments of a call and its result travel.

    Attributes:
        is_repeatable: Whether asking twice does no harm, so that a call whose answer was lost may be made elsewhere.
        is_placed: Whether the result comes with a position.
    """

    name: str
    code: int
    arguments: Callable[..., Plain]
    read_arguments: Callable[[Plain, Limits], list[Any]]
    result: Callable[[Any], Plain]
    read_result: Callable[[Plain, Any], Any]
    is_repeatable: bool = True
    is_placed: bool = True


def _or_error(write: Callable[[Any], Plain]) -> Callable[[Any], Plain]:
    """A result, or the error in its place, which alone is a dict."""
    return lambda value: {"error": plain.error(value)} if isinstance(value, RequestError) else write(value)


def _read_or_error(read: Callable[[Plain], Any]) -> Callable[[Plain, Any], Any]:
    def read_either(data: Plain, _: Any) -> Any:
        return plain.read_error(data["error"]) if isinstance(data, dict) else read(data)

    return read_either


SUBMIT: Final = Method(
    "submit",
    0,
    lambda command, size: [plain.command(command), size],
    lambda data, _: [plain.read_command(data[0]), int(data[1])],
    outcomes.outcome,
    lambda data, asked: outcomes.read_outcome(data, asked[0]),
    is_repeatable=False,
)
GET: Final = Method(
    "get",
    1,
    lambda table, pk, sk, consistent: [table, pk, sk, consistent],
    lambda data, _: list(data),
    _or_error(plain.stored),
    _read_or_error(plain.read_stored),
)
GET_ALL: Final = Method(
    "get_all",
    2,
    lambda keys, consistent: [plain.keys(keys), consistent],
    lambda data, _: [plain.read_keys(data[0]), data[1]],
    _or_error(lambda found: [plain.stored(one) for one in found]),
    _read_or_error(lambda data: [plain.read_stored(one) for one in data]),
)
GET_ISOLATED: Final = Method(
    "get_isolated",
    3,
    lambda keys, since: [plain.keys(keys), None if since is None else plain.position(since)],
    lambda data, _: [plain.read_keys(data[0]), None if data[1] is None else plain.read_position(data[1])],
    _or_error(lambda found: [plain.found(one) for one in found]),
    _read_or_error(lambda data: [plain.read_found(one) for one in data]),
)
QUERY: Final = Method(
    "query",
    4,
    pages.query,
    lambda data, limits: [pages.read_query(data, limits)],
    _or_error(pages.page),
    _read_or_error(pages.read_page),
)
SCAN: Final = Method(
    "scan",
    5,
    pages.scan,
    lambda data, limits: [pages.read_scan(data, limits)],
    _or_error(pages.page),
    _read_or_error(pages.read_page),
)
REACH: Final = Method(
    "reach",
    6,
    plain.position,
    lambda data, _: [plain.read_place(data)],
    _or_error(lambda _: None),
    _read_or_error(lambda _: None),
    is_placed=False,
)
# Of a dict, so what stands for an error is wrapped, and figures are too.
STATUS: Final = Method(
    "status",
    7,
    list,
    lambda _data, _limits: [],
    _or_error(lambda figures: [figures]),
    _read_or_error(lambda data: data[0]),
    is_placed=False,
)
# Of the node itself and not of one of its partitions (cluster.py).
NODE: Final = Method(
    "node",
    8,
    list,
    lambda _data, _limits: [],
    lambda figures: figures,
    lambda data, _: data,
    is_placed=False,
)

# An answer that is waited for comes late: it keeps nobody from leaving (listener.py).
FEED: Final = Method(
    "feed",
    9,
    pages.feed_request,
    lambda data, _: [pages.read_feed_request(data)],
    _or_error(pages.feed_answer),
    _read_or_error(pages.read_feed_answer),
)

METHODS: Final = (SUBMIT, GET, GET_ALL, GET_ISOLATED, QUERY, SCAN, REACH, STATUS, NODE, FEED)


def frame(value: Plain) -> bytes:
    """A value as it is sent.

    Raises:
        WireError: It is too long to be.
    """
    data: bytes = msgpack.packb(value)
    if len(data) > FRAME_BYTES:
        raise WireError(f"a frame of {len(data)} bytes")
    return LENGTH.pack(len(data)) + data


def unpacked(data: bytes | memoryview) -> Plain:
    """The value in a frame.

    Raises:
        WireError: There is none.
    """
    return reading(msgpack.unpackb, data, strict_map_key=False)


def reading(read: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What `read` makes of something that came over a connection.

    Raises:
        WireError: It cannot be read.
    """
    try:
        return read(*arguments, **options)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise WireError(f"not of this protocol: {error!r}") from error
    except (RequestError, NewerVersionError) as error:
        # A request that this node cannot compile: the other knows limits, functions or commands that this one lacks.
        raise WireError(f"not of this release: {error}") from error
