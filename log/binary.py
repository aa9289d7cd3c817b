"""An entry in Avro's binary encoding, written out by hand for the current schema.

Every put is written here once, and read at each refold, which spends half its time on that. By hand a put is written
six times and read more than twice as fast as by fastavro, which interprets the schema. What is not hot is plain. A
test compares every command with what fastavro makes of it, to the byte; older schemas are read by fastavro (codec.py).

What a refold does not look at is not taken apart: a context keeps its bytes (commands.py), and the texts of
expressions, which come again and again, are looked up by theirs.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar, get_args

import orjson

from . import avro
from .avro import (
    long,
    optional_text,
    read_long,
    read_more,
    read_optional,
    read_sized,
    sized,
    skip_sized,
)
from .commands import (
    Abandon,
    Action,
    Backfill,
    Barrier,
    Check,
    Checkpoint,
    Command,
    Commit,
    Context,
    Decide,
    Decided,
    Defined,
    DefineSubscription,
    DefineTable,
    DefinitionApplied,
    Delete,
    Dialect,
    Digest,
    Entry,
    Expire,
    Expression,
    Genesis,
    IndexEntry,
    IndexFilled,
    IndexSent,
    Level,
    Message,
    Prepare,
    Put,
    Relay,
    RelayAck,
    Returns,
    Settle,
    Skip,
    Transact,
    Update,
    Vote,
)

K = TypeVar("K")
T = TypeVar("T")

# An enum is the place of its symbol in the schema: these are in every log ever written. Add at the end only.
DIALECTS: Final[tuple[Dialect, ...]] = get_args(Dialect)
RETURNS: Final[tuple[Returns, ...]] = get_args(Returns)

_USUAL_ENDING: Final = b"\0\0\0"  # no expression, nothing to return, nothing to show
_OPTIONAL_IDS: Final = ("invocation", "principal")

_TEXTS_KEPT: Final = 1024
_TEXT_BYTES_KEPT: Final = 4096
_START_BYTES: Final = 24

ID_BYTES: Final = 16


class _Texts(NamedTuple):
    """Condition, update and names of an expression, and the bytes that say them."""

    encoded: bytes
    condition: str | None
    update: str | None
    names: dict[str, str] | None


# Known by how they begin, then compared whole. A few make nearly all that a log holds; the rest may be read anew.
_TEXTS: Final[dict[bytes, _Texts]] = {}
_WRITTEN: Final[dict[tuple[str | None, str | None, tuple[tuple[str, str], ...] | None], bytes]] = {}


def encode(entry: Entry) -> bytes:
    """The entry in binary."""
    commands = [_WRITE[type(command)](command) for command in entry.commands]
    time = b"\0" if entry.time is None else b"\x02" + long(entry.time)
    return b"".join((_id(entry.origin), long(entry.entry_number), time, avro.array(commands)))


def decode(data: bytes) -> Entry:
    """The entry that is all of `data`.

    Raises:
        ValueError: It is no entry, or more than one.
    """
    try:
        number, at = read_long(data, ID_BYTES)
        time, at = read_optional(data, at, read_long)
        commands, at = avro.read_union_array(data, at, _READ)
    except (IndexError, ValueError) as error:
        raise ValueError(f"not an entry: {error!r}") from error
    if at != len(data):
        raise ValueError(f"not an entry: it ends at byte {at} of {len(data)}")
    return Entry(data[:ID_BYTES], number, commands, time)


def encode_message(message: Message) -> bytes:
    """A message in binary, with its branch: as it stands in a Relay."""
    return _WRITE[type(message)](message)


def decode_message(data: bytes) -> Message:
    """The message that is all of `data`.

    Raises:
        ValueError: It is none, or more than one.
    """
    try:
        message, at = _read_message(data, 0)
    except (IndexError, ValueError) as error:
        raise ValueError(f"not a message: {error!r}") from error
    if at != len(data):
        raise ValueError(f"not a message: it ends at byte {at} of {len(data)}")
    return message


# What commands have in common


def _id(data: bytes) -> bytes:
    if len(data) != ID_BYTES:
        raise ValueError(f"an id has {ID_BYTES} bytes, not {len(data)}")
    return data


def _read_context(data: bytes, at: int) -> tuple[Context, int]:
    end = _context_end(data, at)
    return Context.of(data[at:end]), end


def _context_end(data: bytes, at: int) -> int:
    """Where a context ends: request id, invocation id, principal, source and depth."""
    length = data[at]
    at = at + 1 + (length >> 1) if length < 0x80 else skip_sized(data, at)
    for _ in _OPTIONAL_IDS:
        branch = data[at]
        if branch == 0:
            at += 1
        elif branch == 2:
            length = data[at + 1]
            at = at + 2 + (length >> 1) if length < 0x80 else skip_sized(data, at + 1)
        else:
            raise ValueError(f"no branch {branch >> 1} of two")
    if data[at] < 0x80 and data[at + 1] < 0x80:
        return at + 2
    _, at = read_long(data, at)
    return read_long(data, at)[1]


def _expression(expression: Expression | None) -> bytes:
    if expression is None:
        return b"\0"
    values = expression.values
    return b"\x02%b%b%b" % (
        _texts(expression.condition, expression.update, expression.names),
        avro.optional(None if values is None else orjson.dumps(values, option=orjson.OPT_SORT_KEYS)),
        avro.SMALL[DIALECTS.index(expression.dialect)],
    )


def _texts(condition: str | None, update: str | None, names: dict[str, str] | None) -> bytes:
    key = condition, update, None if names is None else tuple(names.items())
    encoded = _WRITTEN.get(key)
    if encoded is None:
        encoded = b"%b%b%b" % (
            avro.optional_text(condition),
            avro.optional_text(update),
            b"\0" if names is None else b"\x02" + avro.text_map(names),
        )
        _keep(_WRITTEN, key, encoded, len(encoded))
    return encoded


def _read_expression(data: bytes, at: int) -> tuple[Expression, int]:
    texts = _TEXTS.get(data[at : at + _START_BYTES])
    if texts is None or not data.startswith(texts.encoded, at):
        texts = _read_texts(data, at)
    values, at = read_optional(data, at + len(texts.encoded), read_sized)
    dialect, at = avro.read_symbol(data, at, DIALECTS)
    parsed = None if values is None else orjson.loads(values)
    return Expression(texts.condition, texts.update, texts.names, parsed, dialect), at


def _read_texts(data: bytes, start: int) -> _Texts:
    condition, at = read_optional(data, start, avro.read_text)
    update, at = read_optional(data, at, avro.read_text)
    names, at = read_optional(data, at, avro.read_text_map)
    texts = _Texts(data[start:at], condition, update, names)
    if at <= len(data):
        _keep(_TEXTS, data[start : start + _START_BYTES], texts, at - start)
    return texts


def _keep(known: dict[K, T], key: K, value: T, size: int) -> None:
    """Remember what a text was made into, if it is not too large, and not too many are."""
    if size <= _TEXT_BYTES_KEPT:
        if len(known) >= _TEXTS_KEPT:
            known.clear()
        known[key] = value


def _ending(command: Put | Update | Delete) -> bytes:
    """Expression, returns and show_refused."""
    if command.expression is None and command.returns == "NONE" and not command.show_refused:
        return b"\0\0\0"
    return b"%b%b%b" % (
        _expression(command.expression),
        avro.SMALL[RETURNS.index(command.returns)],
        avro.boolean(command.show_refused),
    )


def _read_ending(data: bytes, at: int) -> tuple[Expression | None, Returns, bool, int]:
    if data[at : at + 3] == _USUAL_ENDING:
        return None, "NONE", False, at + 3
    expression, at = read_optional(data, at, _read_expression)
    returns, at = avro.read_symbol(data, at, RETURNS)
    show_refused, at = avro.read_boolean(data, at)
    return expression, returns, show_refused, at


def _key(command: Put | Update | Delete | Check | Expire) -> bytes:
    pk, sk = command.pk, command.sk
    return b"%b%b%b%b%b" % (long(command.table), long(len(pk)), pk, long(len(sk)), sk)


def _read_key(data: bytes, at: int) -> tuple[int, bytes, bytes, int]:
    table = data[at]
    at += 1
    if table >= 0x80:
        table, at = read_more(data, at, table)
    start = at + 1
    size = data[at]
    if size >= 0x80:
        size, start = read_more(data, start, size)
    end = start + (size >> 1)
    pk = data[start:end]
    start = end + 1
    size = data[end]
    if size >= 0x80:
        size, start = read_more(data, start, size)
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
        put.context.encoded,
        _ending(put),
    )


def _read_put(data: bytes, at: int) -> tuple[Put, int]:
    """Nearly all that a log holds: so what others share is written out, and what is as usual is not read."""
    table = data[at]
    at += 1
    if table >= 0x80:
        table, at = read_more(data, at, table)
    length = data[at]
    at += 1
    if length >= 0x80:
        length, at = read_more(data, at, length)
    end = at + (length >> 1)
    pk = data[at:end]
    length = data[end]
    at = end + 1
    if length >= 0x80:
        length, at = read_more(data, at, length)
    end = at + (length >> 1)
    sk = data[at:end]
    length = data[end]
    at = end + 1
    if length >= 0x80:
        length, at = read_more(data, at, length)
    end = at + (length >> 1)
    item = data[at:end]
    size = data[end]
    at = end + 1
    if size >= 0x80:
        size, at = read_more(data, at, size)
    table = (table >> 1) ^ -(table & 1)
    size = (size >> 1) ^ -(size & 1)

    end = _context_end(data, at)
    context = Context.of(data[at:end])
    if data[end : end + 3] == _USUAL_ENDING:
        return Put(table, pk, sk, item, size, context), end + 3
    expression, returns, show_refused, at = _read_ending(data, end)
    return Put(table, pk, sk, item, size, context, expression, returns, show_refused), at


def _update(update: Update) -> bytes:
    return b"\x02%b%b%b" % (_key(update), update.context.encoded, _ending(update))


def _read_update(data: bytes, at: int) -> tuple[Update, int]:
    table, pk, sk, at = _read_key(data, at)
    context, at = _read_context(data, at)
    expression, returns, show_refused, at = _read_ending(data, at)
    return Update(table, pk, sk, context, expression, returns, show_refused), at


def _delete(delete: Delete) -> bytes:
    return b"\x04%b%b%b" % (_key(delete), delete.context.encoded, _ending(delete))


def _read_delete(data: bytes, at: int) -> tuple[Delete, int]:
    table, pk, sk, at = _read_key(data, at)
    context, at = _read_context(data, at)
    expression, returns, show_refused, at = _read_ending(data, at)
    return Delete(table, pk, sk, context, expression, returns, show_refused), at


def _check(check: Check) -> bytes:
    """Branch 3 of a transaction's union; it stands nowhere else."""
    return b"\x06%b%b%b%b" % (
        _key(check),
        check.context.encoded,
        _expression(check.expression),
        avro.boolean(check.show_refused),
    )


def _read_check(data: bytes, at: int) -> tuple[Check, int]:
    table, pk, sk, at = _read_key(data, at)
    context, at = _read_context(data, at)
    expression, at = read_optional(data, at, _read_expression)
    show_refused, at = avro.read_boolean(data, at)
    return Check(table, pk, sk, context, expression, show_refused), at


def _actions(actions: Sequence[Action]) -> bytes:
    return avro.array([_WRITE[type(action)](action) for action in actions])


def _read_actions(data: bytes, at: int) -> tuple[list[Action], int]:
    return avro.read_union_array(data, at, _READ_ACTION)


def _transact(transact: Transact) -> bytes:
    return b"".join(
        (
            b"\x06",
            _actions(transact.actions),
            transact.context.encoded,
            optional_text(transact.token),
            sized(transact.fingerprint),
        )
    )


def _read_transact(data: bytes, at: int) -> tuple[Transact, int]:
    actions, at = _read_actions(data, at)
    context, at = _read_context(data, at)
    token, at = read_optional(data, at, avro.read_text)
    fingerprint, at = read_sized(data, at)
    return Transact(actions, context, token, fingerprint), at


# Messages are the branches of a union of their own, in a Relay


def _index_entry(entry: IndexEntry) -> bytes:
    """Branch 2: of all messages the one that is sent most."""
    return b"\x04%b%b%b%b%b%b" % (
        long(entry.table),
        long(entry.index),
        sized(entry.pk),
        sized(entry.sk),
        avro.optional(entry.item),
        long(entry.size),
    )


def _read_index_entry(data: bytes, at: int) -> tuple[IndexEntry, int]:
    table, at = read_long(data, at)
    index, at = read_long(data, at)
    pk, at = read_sized(data, at)
    sk, at = read_sized(data, at)
    item, at = read_optional(data, at, read_sized)
    size, at = read_long(data, at)
    return IndexEntry(table, index, pk, sk, item, size), at


def _read_message(data: bytes, at: int) -> tuple[Message, int]:
    branch, at = read_long(data, at)
    if branch < 0:
        raise ValueError("no branch has a negative number")
    return _READ_MESSAGE[branch](data, at)


# What is rare is written field by field, each by the name of its type


def _record(known: list[Any], branch: int, kind: type, **fields: str) -> None:
    """Let branch `branch` of the union whose readers are `known` be records of `kind`."""
    writers = [(name, _TYPES[type_][0]) for name, type_ in fields.items()]
    readers = [_TYPES[type_][1] for type_ in fields.values()]

    def write(record: Any) -> bytes:
        return long(branch) + b"".join(write(getattr(record, name)) for name, write in writers)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        found = []
        for read in readers:
            value, at = read(data, at)
            found.append(value)
        return kind(*found), at

    assert len(known) == branch
    _WRITE[kind] = write
    known.append(read)


def _longs(numbers: Sequence[int]) -> bytes:
    return avro.array([long(number) for number in numbers])


def _read_longs(data: bytes, at: int) -> tuple[list[int], int]:
    return avro.read_array(data, at, read_long)


def _read_mark(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    """A partition, and a sequence number: in decimal, because it has more digits than a long."""
    partition, at = read_long(data, at)
    number, at = avro.read_text(data, at)
    return (partition, int(number)), at


_TYPES: Final[dict[str, tuple[Callable[[Any], bytes], Callable[[bytes, int], tuple[Any, int]]]]] = {
    "long": (long, read_long),
    "long?": (
        lambda number: b"\0" if number is None else b"\x02" + long(number),
        lambda data, at: read_optional(data, at, read_long),
    ),
    "long*": (_longs, _read_longs),
    "long*?": (
        lambda numbers: b"\0" if numbers is None else b"\x02" + _longs(numbers),
        lambda data, at: read_optional(data, at, _read_longs),
    ),
    "mark*": (
        lambda marks: avro.array([long(partition) + avro.text(str(number)) for partition, number in marks]),
        lambda data, at: avro.read_array(data, at, _read_mark),
    ),
    "bytes": (sized, read_sized),
    "bytes?": (avro.optional, lambda data, at: read_optional(data, at, read_sized)),
    "text": (avro.text, avro.read_text),
    "boolean": (avro.boolean, avro.read_boolean),
    "id": (_id, lambda data, at: (_id(data[at : at + ID_BYTES]), at + ID_BYTES)),
    "context": (lambda context: context.encoded, _read_context),
    "action*": (_actions, _read_actions),
    "message": (encode_message, _read_message),
}
_WRITE: Final[dict[type, Callable[[Any], bytes]]] = {
    Put: _put,
    Update: _update,
    Delete: _delete,
    Check: _check,
    Transact: _transact,
    IndexEntry: _index_entry,
}
_READ_ACTION: Final[list[Callable[[bytes, int], tuple[Action, int]]]] = [
    _read_put,
    _read_update,
    _read_delete,
    _read_check,
]
# A branch is a place in one of the schema's unions: these are in every log ever written. Add at the end only.
_READ: Final[list[Callable[[bytes, int], tuple[Command, int]]]] = [
    _read_put,
    _read_update,
    _read_delete,
    _read_transact,
]
_record(
    _READ,
    4,
    DefineTable,
    operation="text",
    table="long",
    request="bytes",
    uuid="text",
    context="context",
    settle="boolean",
)
_record(_READ, 5, Settle, table="long", context="context")
_record(_READ, 6, Backfill, table="long", index="long", count="long", context="context")
_record(_READ, 7, Expire, table="long", pk="bytes", sk="bytes", at="text", context="context")
_record(
    _READ,
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
_record(_READ, 9, Level, level="long", context="context")
_record(_READ, 10, Digest, offset="long", digest="text")
_record(
    _READ,
    11,
    Relay,
    sender="long",
    message_number="long",
    offset="long",
    index="long",
    time="long",
    message="message",
)
_record(_READ, 12, RelayAck, receiver="long", through_message="long", time="long")
_record(_READ, 13, Abandon, transaction_number="long", context="context")
_record(_READ, 14, Barrier)
_record(_READ, 15, Skip, offset="long", index="long?", context="context")
_record(
    _READ,
    16,
    DefineSubscription,
    operation="text",
    name="text",
    request="bytes",
    uuid="text",
    context="context",
)
_record(
    _READ,
    17,
    Checkpoint,
    subscription="long",
    epoch="long",
    checkpoints="mark*",
    version="text",
    handled="long",
    dead="long",
)

_READ_MESSAGE: Final[list[Callable[[bytes, int], tuple[Message, int]]]] = []
_record(_READ_MESSAGE, 0, Defined, table="long", version="long", definition="bytes?")
_record(_READ_MESSAGE, 1, DefinitionApplied, table="long", version="long")
_READ_MESSAGE.append(_read_index_entry)
_record(_READ_MESSAGE, 3, IndexSent, table="long", index="long")
_record(_READ_MESSAGE, 4, IndexFilled, table="long", index="long")
_record(_READ_MESSAGE, 5, Prepare, transaction_number="long", nths="long*", actions="action*")
_record(_READ_MESSAGE, 6, Vote, transaction_number="long", holds="boolean", verdicts="bytes")
_record(_READ_MESSAGE, 7, Decide, transaction_number="long", commit="boolean")
_record(_READ_MESSAGE, 8, Decided, transaction_number="long")
_record(_READ_MESSAGE, 9, Commit, transaction_number="long", offset="long", index="long", changing="long*?")
