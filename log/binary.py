"""Avro's binary encoding of an entry, written out by hand for the current schema.

Every put is written here once, and read at each refold, which spends half its time on that. By hand a put is written
six times and read more than twice as fast as by fastavro, which interprets the schema. What is not hot is plain. A
test compares every command with what fastavro makes of it, to the byte; older schemas are read by fastavro (codec.py).

A function that reads takes the bytes and where to begin, and returns what it read and where that ended. Bytes that are
no entry raise IndexError or ValueError, or end in the wrong place.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, get_args

import orjson

from .commands import (
    Action,
    Backfill,
    Check,
    Command,
    Context,
    DefineTable,
    Delete,
    Dialect,
    Digest,
    Entry,
    Expire,
    Expression,
    Genesis,
    Level,
    Put,
    Returns,
    Settle,
    Source,
    Transact,
    Update,
)

T = TypeVar("T")

# An enum is the place of its symbol in the schema: these are in every log ever written. Add at the end only.
SOURCES: Final[tuple[Source, ...]] = get_args(Source)
DIALECTS: Final[tuple[Dialect, ...]] = get_args(Dialect)
RETURNS: Final[tuple[Returns, ...]] = get_args(Returns)

ID_BYTES: Final = 16


def encode(entry: Entry) -> bytes:
    """The entry in binary."""
    commands = [_WRITE[type(command)](command) for command in entry.commands]
    time = b"\0" if entry.time is None else b"\x02" + long(entry.time)
    return b"".join((_id(entry.origin), long(entry.number), time, _array(commands)))


def decode(data: bytes) -> Entry:
    """The entry that is all of `data`.

    Raises:
        ValueError: It is no entry, or more than one.
    """
    try:
        number, at = read_long(data, ID_BYTES)
        time, at = _read_optional(data, at, read_long)
        commands, at = _read_array(data, at, _READ)
    except (IndexError, ValueError) as error:
        raise ValueError(f"not an entry: {error!r}") from error
    if at != len(data):
        raise ValueError(f"not an entry: it ends at byte {at} of {len(data)}")
    return Entry(data[:ID_BYTES], number, commands, time)


# Avro's types


def _zigzag(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_SMALL: Final = tuple(_zigzag(number) for number in range(8192))


def long(number: int) -> bytes:
    """An int or a long.

    >>> long(-1), long(64)
    (b'\\x01', b'\\x80\\x01')
    """
    return _SMALL[number] if 0 <= number < 8192 else _zigzag(number)


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """An int or a long."""
    number = data[at]
    at += 1
    if number >= 0x80:
        number, at = _read_more(data, at, number)
    return (number >> 1) ^ -(number & 1), at


def _read_more(data: bytes, at: int, number: int) -> tuple[int, int]:
    """Go on with a number whose first byte says that there are more; the zigzag is left to the caller."""
    number &= 0x7F
    for shift in range(7, 70, 7):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise ValueError("a long has at most ten bytes")


def sized(data: bytes) -> bytes:
    """Bytes, or a string in UTF-8."""
    return long(len(data)) + data


def read_sized(data: bytes, at: int) -> tuple[bytes, int]:
    """Bytes. Too few of them are found by whoever compares the end."""
    size = data[at]
    at += 1
    if size >= 0x80:
        size, at = _read_more(data, at, size)
    end = at + (size >> 1)
    return data[at:end], end


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    text, at = read_sized(data, at)
    return text.decode(), at


def _read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    flag = data[at]
    if flag > 1:
        raise ValueError(f"no boolean is {flag}")
    return flag == 1, at + 1


def _read_symbol(data: bytes, at: int, symbols: Sequence[T]) -> tuple[T, int]:
    place, at = read_long(data, at)
    if place < 0:
        raise ValueError("no symbol has a negative number")
    return symbols[place], at


def _optional(data: bytes | None) -> bytes:
    return b"\0" if data is None else b"\x02" + sized(data)


def _optional_text(text: str | None) -> bytes:
    return b"\0" if text is None else b"\x02" + sized(text.encode())


def _read_optional(data: bytes, at: int, read: Callable[[bytes, int], tuple[T, int]]) -> tuple[T | None, int]:
    branch = data[at]
    if branch == 0:
        return None, at + 1
    if branch != 2:
        raise ValueError(f"no branch {branch >> 1} of two")
    return read(data, at + 1)


def _id(data: bytes) -> bytes:
    if len(data) != ID_BYTES:
        raise ValueError(f"an id has {ID_BYTES} bytes, not {len(data)}")
    return data


def _array(parts: Sequence[bytes]) -> bytes:
    return b"".join((long(len(parts)), *parts, b"\0")) if parts else b"\0"


def _read_count(data: bytes, at: int) -> tuple[int, int]:
    """How many follow in an array or a map; Avro may say with a minus sign that their size follows too."""
    count, at = read_long(data, at)
    if count < 0:
        _, at = read_long(data, at)
    return abs(count), at


def _read_array(
    data: bytes, at: int, readers: Sequence[Callable[[bytes, int], tuple[T, int]]]
) -> tuple[list[T], int]:
    """An array of a union of records."""
    found: list[T] = []
    count, at = _read_count(data, at)
    while count:
        for _ in range(count):
            branch, at = read_long(data, at)
            if branch < 0:
                raise ValueError("no branch has a negative number")
            each, at = readers[branch](data, at)
            found.append(each)
        count, at = _read_count(data, at)
    return found, at


def _names(names: Mapping[str, str] | None) -> bytes:
    if names is None:
        return b"\0"
    return b"\x02" + _array([sized(name.encode()) + sized(path.encode()) for name, path in names.items()])


def _read_names(data: bytes, at: int) -> tuple[dict[str, str], int]:
    names: dict[str, str] = {}
    count, at = _read_count(data, at)
    while count:
        for _ in range(count):
            name, at = _read_text(data, at)
            names[name], at = _read_text(data, at)
        count, at = _read_count(data, at)
    return names, at


# What commands have in common


def _context(context: Context) -> bytes:
    request_id = context.request_id.encode()
    return b"%b%b%b%b%b%b" % (
        long(len(request_id)),
        request_id,
        _optional_text(context.invocation_id),
        _optional_text(context.principal),
        _SMALL[SOURCES.index(context.source)],
        long(context.depth),
    )


def _read_context(data: bytes, at: int) -> tuple[Context, int]:
    start = at + 1
    size = data[at]
    if size >= 0x80:
        size, start = _read_more(data, start, size)
    at = start + (size >> 1)
    request_id = data[start:at].decode()
    invocation_id = None
    if data[at]:
        invocation_id, at = _read_optional(data, at, _read_text)
    else:
        at += 1
    if data[at : at + 3] == b"\0\0\0":
        return Context(request_id, invocation_id), at + 3
    principal, at = _read_optional(data, at, _read_text)
    source, at = _read_symbol(data, at, SOURCES)
    depth, at = read_long(data, at)
    return Context(request_id, invocation_id, principal, source, depth), at


def _expression(expression: Expression | None) -> bytes:
    if expression is None:
        return b"\0"
    values = expression.values
    return b"\x02%b%b%b%b%b" % (
        _optional_text(expression.condition),
        _optional_text(expression.update),
        _names(expression.names),
        _optional(None if values is None else orjson.dumps(values, option=orjson.OPT_SORT_KEYS)),
        _SMALL[DIALECTS.index(expression.dialect)],
    )


def _read_expression(data: bytes, at: int) -> tuple[Expression, int]:
    condition, at = _read_optional(data, at, _read_text)
    update, at = _read_optional(data, at, _read_text)
    names, at = _read_optional(data, at, _read_names)
    values, at = _read_optional(data, at, read_sized)
    dialect, at = _read_symbol(data, at, DIALECTS)
    parsed = None if values is None else orjson.loads(values)
    return Expression(condition, update, names, parsed, dialect), at


def _ending(command: Put | Update | Delete) -> bytes:
    """Expression, returns and show_refused."""
    if command.expression is None and command.returns == "NONE" and not command.show_refused:
        return b"\0\0\0"
    return b"%b%b%b" % (
        _expression(command.expression),
        _SMALL[RETURNS.index(command.returns)],
        b"\x01" if command.show_refused else b"\0",
    )


def _read_ending(data: bytes, at: int) -> tuple[Expression | None, Returns, bool, int]:
    if data[at : at + 3] == b"\0\0\0":
        return None, "NONE", False, at + 3
    expression, at = _read_optional(data, at, _read_expression)
    returns, at = _read_symbol(data, at, RETURNS)
    show_refused, at = _read_boolean(data, at)
    return expression, returns, show_refused, at


def _key(command: Put | Update | Delete | Check | Expire) -> bytes:
    pk, sk = command.pk, command.sk
    return b"%b%b%b%b%b" % (long(command.table), long(len(pk)), pk, long(len(sk)), sk)


def _read_key(data: bytes, at: int) -> tuple[int, bytes, bytes, int]:
    table = data[at]
    at += 1
    if table >= 0x80:
        table, at = _read_more(data, at, table)
    start = at + 1
    size = data[at]
    if size >= 0x80:
        size, start = _read_more(data, start, size)
    end = start + (size >> 1)
    pk = data[start:end]
    start = end + 1
    size = data[end]
    if size >= 0x80:
        size, start = _read_more(data, start, size)
    at = start + (size >> 1)
    return (table >> 1) ^ -(table & 1), pk, data[start:at], at


# The commands


def _put(put: Put) -> bytes:
    item = put.item
    return b"\0%b%b%b%b%b%b" % (
        _key(put),
        long(len(item)),
        item,
        long(put.size),
        _context(put.context),
        _ending(put),
    )


def _read_put(data: bytes, at: int) -> tuple[Put, int]:
    table, pk, sk, at = _read_key(data, at)
    start = at + 1
    length = data[at]
    if length >= 0x80:
        length, start = _read_more(data, start, length)
    at = start + (length >> 1)
    item = data[start:at]
    size, at = read_long(data, at)
    context, at = _read_context(data, at)
    if data[at : at + 3] == b"\0\0\0":
        return Put(table, pk, sk, item, size, context), at + 3
    expression, returns, show_refused, at = _read_ending(data, at)
    return Put(table, pk, sk, item, size, context, expression, returns, show_refused), at


def _update(update: Update) -> bytes:
    return b"\x02%b%b%b" % (_key(update), _context(update.context), _ending(update))


def _read_update(data: bytes, at: int) -> tuple[Update, int]:
    table, pk, sk, at = _read_key(data, at)
    context, at = _read_context(data, at)
    expression, returns, show_refused, at = _read_ending(data, at)
    return Update(table, pk, sk, context, expression, returns, show_refused), at


def _delete(delete: Delete) -> bytes:
    return b"\x04%b%b%b" % (_key(delete), _context(delete.context), _ending(delete))


def _read_delete(data: bytes, at: int) -> tuple[Delete, int]:
    table, pk, sk, at = _read_key(data, at)
    context, at = _read_context(data, at)
    expression, returns, show_refused, at = _read_ending(data, at)
    return Delete(table, pk, sk, context, expression, returns, show_refused), at


def _check(check: Check) -> bytes:
    """Branch 3 of a transaction's union; it stands nowhere else."""
    show_refused = b"\x01" if check.show_refused else b"\0"
    return b"\x06%b%b%b%b" % (
        _key(check),
        _context(check.context),
        _expression(check.expression),
        show_refused,
    )


def _read_check(data: bytes, at: int) -> tuple[Check, int]:
    table, pk, sk, at = _read_key(data, at)
    context, at = _read_context(data, at)
    expression, at = _read_optional(data, at, _read_expression)
    show_refused, at = _read_boolean(data, at)
    return Check(table, pk, sk, context, expression, show_refused), at


def _transact(transact: Transact) -> bytes:
    actions = [_WRITE[type(action)](action) for action in transact.actions]
    return b"".join(
        (
            b"\x06",
            _array(actions),
            _context(transact.context),
            _optional_text(transact.token),
            sized(transact.fingerprint),
        )
    )


def _read_transact(data: bytes, at: int) -> tuple[Transact, int]:
    actions, at = _read_array(data, at, _READ_ACTION)
    context, at = _read_context(data, at)
    token, at = _read_optional(data, at, _read_text)
    fingerprint, at = read_sized(data, at)
    return Transact(actions, context, token, fingerprint), at


def _record(branch: int, kind: type, **fields: str) -> None:
    """Write and read a command that is rare field by field, each by the name of its type."""
    writers = [(name, _TYPES[type_][0]) for name, type_ in fields.items()]
    readers = [_TYPES[type_][1] for type_ in fields.values()]

    def write(command: Any) -> bytes:
        return long(branch) + b"".join(write(getattr(command, name)) for name, write in writers)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        found = []
        for read in readers:
            value, at = read(data, at)
            found.append(value)
        return kind(*found), at

    assert len(_READ) == branch
    _WRITE[kind] = write
    _READ.append(read)


_TYPES: Final[dict[str, tuple[Callable[[Any], bytes], Callable[[bytes, int], tuple[Any, int]]]]] = {
    "long": (long, read_long),
    "bytes": (sized, read_sized),
    "text": (lambda text: sized(text.encode()), _read_text),
    "boolean": (lambda flag: b"\x01" if flag else b"\0", _read_boolean),
    "id": (_id, lambda data, at: (_id(data[at : at + ID_BYTES]), at + ID_BYTES)),
    "context": (_context, _read_context),
}
_WRITE: Final[dict[type, Callable[[Any], bytes]]] = {
    Put: _put,
    Update: _update,
    Delete: _delete,
    Check: _check,
    Transact: _transact,
}
_READ_ACTION: Final[list[Callable[[bytes, int], tuple[Action, int]]]] = [
    _read_put,
    _read_update,
    _read_delete,
    _read_check,
]
# A command's branch is its place in the schema's union: these are in every log ever written. Add at the end only.
_READ: Final[list[Callable[[bytes, int], tuple[Command, int]]]] = [
    _read_put,
    _read_update,
    _read_delete,
    _read_transact,
]
_record(
    4,
    DefineTable,
    operation="text",
    table="long",
    request="bytes",
    uuid="text",
    context="context",
    settle="boolean",
)
_record(5, Settle, table="long", context="context")
_record(6, Backfill, table="long", index="long", count="long", context="context")
_record(7, Expire, table="long", pk="bytes", sk="bytes", at="text", context="context")
_record(
    8,
    Genesis,
    log_id="id",
    partition="long",
    partitions="long",
    base="long",
    level="long",
    hash="text",
    limits="text",
)
_record(9, Level, level="long", context="context")
_record(10, Digest, offset="long", digest="text")
