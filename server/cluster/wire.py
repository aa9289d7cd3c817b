"""The protocol between two nodes: calls, and answers to them.

    frame   ::= length(4 bytes) msgpack
    call    ::= [id, method, partition, arguments]
    answer  ::= [id, status, result, position] | [id, status, result, position, log time at the position]

A call is a method of a partition (materializer/partition.py). The length of a frame is checked before the frame is
read. A frame of another shape is a WireError and closes the connection, because its two ends disagree.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

import msgpack

from ...log.commands import Position
from ...materializer.partition import FIRST_READ, Since
from ...model.errors import FoldbError, NewerVersionError, RequestError
from ...model.lazy_dataclass import dataclass
from ...model.limits import Limits
from . import messages
from .codec import PlainValue

VERSION: Final = 1
"""The version of the protocol. Both ends of a connection must have the same."""

REVISION: Final = 2
"""The revision of the protocol, which both ends send in their hello; an earlier release sends none.

A caller of revision 1 reads answers that end with log time. A listener of revision 2 has the method `as_of`.
"""

FRAME_BYTES: Final = 48 * 1024 * 1024
"""The longest frame: a request of 16 MiB whose answer repeats items, with room to spare."""

LENGTH: Final = Struct(">I")

# The status of an answer.
ANSWERED, NOT_HERE, FAILED = 0, 1, 2


class WireError(FoldbError):
    """A frame does not follow the protocol of this release."""


@dataclass(frozen=True, slots=True)
class Method:
    """How the arguments and the result of a call are encoded.

    Attributes:
        is_repeatable: Whether a second call does no harm, so that a call whose answer was lost is made again.
        has_position: Whether the result has a position.
        since: The revision of listeners from which on they have the method; an earlier one closes the connection.
    """

    name: str
    code: int
    arguments: Callable[..., PlainValue]
    read_arguments: Callable[[PlainValue, Limits], list[Any]]
    result: Callable[[Any], PlainValue]
    read_result: Callable[[PlainValue, Any], Any]
    is_repeatable: bool = True
    has_position: bool = True
    since: int = 0


def _or_error(encode: Callable[[Any], PlainValue]) -> Callable[[Any], PlainValue]:
    """Return an encoder of a result or of an error. Only an error is a dict."""
    return lambda value: (
        {"error": messages.encode_error(value)} if isinstance(value, RequestError) else encode(value)
    )


def _read_or_error(decode: Callable[[PlainValue], Any]) -> Callable[[PlainValue, Any], Any]:
    def read(data: PlainValue, _: Any) -> Any:
        return messages.decode_error(data["error"]) if isinstance(data, dict) else decode(data)

    return read


def _since(position: PlainValue, is_first: bool = False) -> Since:
    """Return the third argument of `get_isolated`; a caller of an earlier release sends no `is_first`."""
    if position is not None:
        return messages.decode_position(position)
    return FIRST_READ if is_first else None


def _as_is(value: Any) -> Any:
    return value


SUBMIT: Final = Method(
    "submit",
    0,
    lambda command, size: [messages.encode_command(command), size],
    lambda data, _: [messages.decode_command(data[0]), int(data[1])],
    messages.encode_outcome,
    lambda data, arguments: messages.decode_outcome(data, arguments[0]),
    is_repeatable=False,
)
GET: Final = Method(
    "get",
    1,
    lambda table, pk, sk, consistent: [table, pk, sk, consistent],
    lambda data, _: list(data),
    _or_error(_as_is),
    _read_or_error(messages.decode_stored),
)
GET_ALL: Final = Method(
    "get_all",
    2,
    lambda keys, consistent: [keys, consistent],
    lambda data, _: [messages.decode_keys(data[0]), data[1]],
    _or_error(_as_is),
    _read_or_error(lambda data: [messages.decode_stored(each) for each in data]),
)
# A listener of an earlier release takes a first read for a single one: it delays no writes.
GET_ISOLATED: Final = Method(
    "get_isolated",
    3,
    lambda keys, since: [
        keys,
        messages.encode_position(since) if isinstance(since, Position) else None,
        since is FIRST_READ,
    ],
    lambda data, _: [messages.decode_keys(data[0]), _since(*data[1:])],
    _or_error(lambda found: [messages.encode_found(each) for each in found]),
    _read_or_error(lambda data: [messages.decode_found(each) for each in data]),
)
QUERY: Final = Method(
    "query",
    4,
    messages.encode_query,
    lambda data, limits: [messages.decode_query(data, limits)],
    _or_error(messages.PAGE.encode),
    _read_or_error(messages.PAGE.decode),
)
SCAN: Final = Method(
    "scan",
    5,
    messages.encode_scan,
    lambda data, limits: [messages.decode_scan(data, limits)],
    _or_error(messages.PAGE.encode),
    _read_or_error(messages.PAGE.decode),
)
REACH: Final = Method(
    "reach",
    6,
    messages.encode_position,
    lambda data, _: [messages.decode_result_position(data)],
    _or_error(lambda _: None),
    _read_or_error(lambda _: None),
    has_position=False,
)
# A caller of an earlier release names no table; a listener of one answers with the status of all.
# The result is a dict, as an encoded error is: so it is wrapped in a list.
STATUS: Final = Method(
    "status",
    7,
    lambda table: [] if table is None else [table],
    lambda data, _: [int(data[0])] if data else [None],
    _or_error(lambda figures: [figures]),
    _read_or_error(lambda data: data[0]),
    has_position=False,
)
# A call to the node itself, not to one of its partitions (cluster.py).
NODE: Final = Method(
    "node",
    8,
    list,
    lambda _data, _limits: [],
    _as_is,
    lambda data, _: data,
    has_position=False,
)

# An answer may wait for changes, so it does not delay a node that leaves (listener.py).
FEED: Final = Method(
    "feed",
    9,
    messages.FEED_REQUEST.encode,
    lambda data, _: [messages.FEED_REQUEST.decode(data)],
    _or_error(messages.FEED_ANSWER.encode),
    _read_or_error(messages.FEED_ANSWER.decode),
)

# A named call to the node itself (node_calls.py). The result may be a dict, as an encoded error is: so it is wrapped.
CALL: Final = Method(
    "call",
    10,
    lambda name, body: [name, body],
    lambda data, _: [str(data[0]), data[1]],
    _or_error(lambda result: [result]),
    _read_or_error(lambda data: data[0]),
    has_position=False,
)

AS_OF: Final = Method(
    "as_of",
    11,
    messages.encode_past,
    lambda data, limits: list(messages.decode_past(data, limits)),
    _or_error(messages.encode_past_answer),
    _read_or_error(messages.decode_past_answer),
    since=2,
)

METHODS: Final = (SUBMIT, GET, GET_ALL, GET_ISOLATED, QUERY, SCAN, REACH, STATUS, NODE, FEED, CALL, AS_OF)


def frame(value: PlainValue) -> bytes:
    """Return a value as a frame.

    Raises:
        WireError: The frame is longer than FRAME_BYTES.
    """
    data: bytes = msgpack.packb(value)
    if len(data) > FRAME_BYTES:
        raise WireError(f"a frame of {len(data)} bytes")
    return LENGTH.pack(len(data)) + data


def unpacked(data: bytes | memoryview) -> PlainValue:
    """Return the value of a frame.

    Raises:
        WireError: The frame is not msgpack.
    """
    return reading(msgpack.unpackb, data, strict_map_key=False)


def reading(read: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return the result of decoding with `read`.

    Raises:
        WireError: The data have another shape, or name limits, functions or commands that this release lacks.
    """
    try:
        return read(*arguments, **options)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise WireError(f"not of this protocol: {error!r}") from error
    except (RequestError, NewerVersionError) as error:
        raise WireError(f"not of this release: {error}") from error
