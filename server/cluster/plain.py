"""The values that every call has in common, as what msgpack writes, and back: errors, positions, items.

Nothing is guessed at and nothing is executed: each value has its shape here, and what has another is refused with a
ValueError, by whoever reads the whole (wire.py).
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from ...log.codec import decode_message, encode_message
from ...log.commands import Command, Cut, Entry, Position
from ...materializer.fold.storage import Stored
from ...materializer.partition import Conflict, Found, Place
from ...model import errors
from ...model.errors import (
    ConditionalCheckFailedError,
    InternalServerError,
    ProvisionedThroughputExceededError,
    Reason,
    RequestError,
    ThrottlingError,
    TransactionCanceledError,
)

Plain: TypeAlias = Any
"""None, bool, int, str, bytes, and lists and dicts of them."""

_NOBODY: Final = bytes(16)

# Errors by DynamoDB's names for them.
ERRORS: Final[dict[str, type[RequestError]]] = {
    kind.wire_name: kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, RequestError) and kind is not RequestError
}


def command(value: Command) -> bytes:
    """A command in the encoding of logs, which names its schema: nodes of two releases understand each other."""
    return encode_message(Entry(_NOBODY, 0, [value]))


def read_command(plain: Plain) -> Command:
    [value] = decode_message(plain).commands
    return value


def error(value: RequestError) -> Plain:
    """An error by its name, with its message and what else is in its answer."""
    return [value.wire_name, value.message, _more(value)]


def _more(value: RequestError) -> Plain:
    match value:
        case ConditionalCheckFailedError(item=item):
            return item
        case TransactionCanceledError(reasons=reasons):
            return [[reason.code, reason.message, reason.item] for reason in reasons]
        case ThrottlingError(reasons=told) | ProvisionedThroughputExceededError(reasons=told):
            return list(told)
        case _:
            return None


def read_error(plain: Plain) -> RequestError:
    name, message, more = plain
    kind = ERRORS.get(name, InternalServerError)  # one that a later release knows is still an error
    if kind is ConditionalCheckFailedError:
        return ConditionalCheckFailedError(more)
    if kind is TransactionCanceledError:
        return TransactionCanceledError([Reason(*reason) for reason in more])
    make: Callable[..., RequestError] = kind
    return make(message) if more is None else make(message, more)


def position(value: Place) -> Plain:
    """A position, or those of a cut; log time there is for the caller to add."""
    return [position(one) for one in value.positions] if isinstance(value, Cut) else [
        value.partition, value.offset, value.index,
    ]  # fmt: skip


def read_position(plain: Plain) -> Position:
    partition, offset, index = plain
    return Position(int(partition), int(offset), index)


def read_place(plain: Plain, time_ms: int | None = None) -> Place:
    if plain and isinstance(plain[0], int):
        return replace(read_position(plain), time_ms=time_ms)
    return Cut(tuple(map(read_position, plain)), time_ms)


def stored(value: Stored | None) -> Plain:
    """An item: its bytes and its size."""
    return None if value is None else [value[0], value[1]]


def read_stored(plain: Plain) -> Stored | None:
    if plain is None:
        return None
    data, size = plain
    return data, size


def found(value: Found) -> Plain:
    """An item, or that it cannot be read in isolation."""
    return False if isinstance(value, Conflict) else stored(value)


def read_found(plain: Plain) -> Found:
    return Conflict() if plain is False else read_stored(plain)


def keys(value: Sequence[tuple[int, bytes, bytes]]) -> Plain:
    return [list(key) for key in value]


def read_keys(plain: Plain) -> list[tuple[int, bytes, bytes]]:
    return [(table, pk, sk) for table, pk, sk in plain]
