"""Encode entries in Avro's binary encoding by the current schema, and decode them.

    first layout    schemas 001 to 003: a context has no reason, an entry no salt
    present layout  since schema 004

Every put is encoded once, and decoded at each refold, which spends half its time on that. The hand-written codecs of
the frequent commands encode a put six times and decode it more than twice as fast as fastavro, which interprets the
schema. The codecs of all other commands and messages are derived from the schema at import. A test compares every
command with fastavro's encoding, byte for byte. Within a layout, schemas have only grown at the ends of unions and
enums, so its last schema decodes them all. codec.py selects the layout of a schema.

Parts that a refold does not use stay encoded: a context keeps its bytes (commands.py), and the texts of expressions,
which repeat often, are looked up by their bytes.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, get_args

import orjson

from . import avro
from . import commands as command_types
from .avro import long, read_long, read_more, read_optional, read_sized, sized
from .commands import (
    Action,
    Check,
    Command,
    Context,
    Delete,
    Dialect,
    Entry,
    Expression,
    IndexEntry,
    LoadedItem,
    Message,
    Put,
    Returns,
    Update,
)
from .context import NO_REASON, context_end, first_end
from .schema_files import ATTRIBUTES, CURRENT, FIRST_LAYOUT, command_union, message_union

K = TypeVar("K")
T = TypeVar("T")

FieldWriter: TypeAlias = Callable[[Any], bytes]
FieldReader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
ContextReader: TypeAlias = Callable[[bytes, int], tuple[Context, int]]

# The log stores an enum as the index of its symbol in the schema. Add symbols at the end only.
DIALECTS: Final[tuple[Dialect, ...]] = get_args(Dialect)
RETURNS: Final[tuple[Returns, ...]] = get_args(Returns)
_FIRST_DIALECTS: Final = DIALECTS[:2]

_USUAL_ENDING: Final = b"\0\0\0"  # no expression, nothing to return, nothing to show

_CACHED_TEXTS: Final = 1024
_CACHED_TEXT_BYTES: Final = 4096
_START_BYTES: Final = 24

ID_BYTES: Final = 16


class _Texts(NamedTuple):
    """Condition, update and names of an expression, and their bytes."""

    encoded: bytes
    condition: str | None
    update: str | None
    names: dict[str, str] | None


# Texts by their first bytes; a lookup compares all bytes. Few texts make up nearly all expressions of a log.
_TEXTS: Final[dict[bytes, _Texts]] = {}
_WRITTEN: Final[dict[tuple[str | None, str | None, tuple[tuple[str, str], ...] | None], bytes]] = {}


class LayoutError(Exception):
    """The first layout cannot express a command or a message."""


def encode(entry: Entry) -> bytes:
    """Encode an entry."""
    commands = [_WRITERS[type(command)](command) for command in entry.commands]
    time = b"\0" if entry.time is None else b"\x02" + long(entry.time)
    salt = b"\0" if entry.salt is None else b"\x02" + _id(entry.salt)
    return b"".join((_id(entry.origin), long(entry.entry_number), time, salt, avro.array(commands)))


def encode_first(entry: Entry) -> bytes:
    """Encode an entry in the first layout.

    Raises:
        LayoutError: The entry has a salt, a reason, or a command or symbol of a later schema.
    """
    if entry.salt is not None:
        raise LayoutError
    commands = [_known_writer(command)(command) for command in entry.commands]
    time = b"\0" if entry.time is None else b"\x02" + long(entry.time)
    return b"".join((_id(entry.origin), long(entry.entry_number), time, avro.array(commands)))


def decode(data: bytes) -> Entry:
    """Decode an entry.

    Raises:
        ValueError: The data is not exactly one entry.
    """
    try:
        number, at = read_long(data, ID_BYTES)
        time, at = read_optional(data, at, read_long)
        salt, at = read_optional(data, at, _read_id)
        commands, at = avro.read_union_array(data, at, _PRESENT.commands)
    except (IndexError, ValueError) as error:
        raise ValueError(f"not an entry: {error!r}") from error
    return _whole_entry(data, at, Entry(data[:ID_BYTES], number, commands, time, salt))


def decode_first(data: bytes) -> Entry:
    """Decode an entry in the first layout.

    Raises:
        ValueError: The data is not exactly one entry.
    """
    try:
        number, at = read_long(data, ID_BYTES)
        time, at = read_optional(data, at, read_long)
        commands, at = avro.read_union_array(data, at, _FIRST.commands)
    except (IndexError, ValueError) as error:
        raise ValueError(f"not an entry: {error!r}") from error
    return _whole_entry(data, at, Entry(data[:ID_BYTES], number, commands, time))


def _whole_entry(data: bytes, at: int, entry: Entry) -> Entry:
    if at != len(data):
        raise ValueError(f"not an entry: it ends at byte {at} of {len(data)}")
    return entry


def encode_command(command: Command) -> bytes:
    """Encode a command with the index of its branch, as in an entry."""
    return _WRITERS[type(command)](command)


def encode_message(message: Message) -> bytes:
    """Encode a message with the index of its branch, as in a Relay."""
    return _WRITERS[type(message)](message)


def encode_first_message(message: Message) -> bytes:
    """Encode a message in the first layout.

    Raises:
        LayoutError: The message has a reason, or a symbol of a later schema.
    """
    return _known_writer(message)(message)


def decode_message(data: bytes) -> Message:
    """Decode a message.

    Raises:
        ValueError: The data is not exactly one message.
    """
    return _decode_message(data, _PRESENT.messages)


def decode_first_message(data: bytes) -> Message:
    """Decode a message in the first layout.

    Raises:
        ValueError: The data is not exactly one message.
    """
    return _decode_message(data, _FIRST.messages)


def _decode_message(data: bytes, readers: Sequence[FieldReader]) -> Message:
    message: Message
    try:
        message, at = _read_branch(data, 0, readers)
    except (IndexError, ValueError) as error:
        raise ValueError(f"not a message: {error!r}") from error
    if at != len(data):
        raise ValueError(f"not a message: it ends at byte {at} of {len(data)}")
    return message


def _known_writer(record: Command | Message) -> FieldWriter:
    """Return the writer of a command or message in the first layout."""
    write = _FIRST.writers.get(type(record))
    if write is None:
        raise LayoutError
    return write


# Parts of commands


def _id(data: bytes) -> bytes:
    if len(data) != ID_BYTES:
        raise ValueError(f"an id has {ID_BYTES} bytes, not {len(data)}")
    return data


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
        _cache(_WRITTEN, key, encoded, len(encoded))
    return encoded


def _read_expression(data: bytes, at: int) -> tuple[Expression, int]:
    texts = _TEXTS.get(data[at : at + _START_BYTES])
    if texts is None or data[at : at + len(texts.encoded)] != texts.encoded:
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
        _cache(_TEXTS, data[start : start + _START_BYTES], texts, at - start)
    return texts


def _cache(known: dict[K, T], key: K, value: T, size: int) -> None:
    """Add an entry that is not too large, and clear a full cache first."""
    if size <= _CACHED_TEXT_BYTES:
        if len(known) >= _CACHED_TEXTS:
            known.clear()
        known[key] = value


def _read_ending(data: bytes, at: int) -> tuple[Expression | None, Returns, bool, int]:
    if data[at : at + 3] == _USUAL_ENDING:
        return None, "NONE", False, at + 3
    expression, at = read_optional(data, at, _read_expression)
    returns, at = avro.read_symbol(data, at, RETURNS)
    show_refused, at = avro.read_boolean(data, at)
    return expression, returns, show_refused, at


def _key(command: Action) -> bytes:
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


def _first_context(context: Context) -> bytes:
    encoded = context.in_first_layout()
    if encoded is None:
        raise LayoutError
    return encoded


def _first_expression(expression: Expression | None) -> bytes:
    if expression is not None and expression.dialect not in _FIRST_DIALECTS:
        raise LayoutError
    return _expression(expression)


# Hand-written codecs. A writer begins with the index of the branch.


def _action_writers(
    write_context: Callable[[Context], bytes], write_expression: Callable[[Expression | None], bytes]
) -> dict[type, FieldWriter]:
    """Return the writers of a layout's actions, the most frequent commands."""

    def write_ending(command: Put | Update | Delete) -> bytes:
        if command.expression is None and command.returns == "NONE" and not command.show_refused:
            return _USUAL_ENDING
        return b"%b%b%b" % (
            write_expression(command.expression),
            avro.SMALL[RETURNS.index(command.returns)],
            avro.boolean(command.show_refused),
        )

    def write_put(put: Put) -> bytes:
        item = put.item
        return b"\0%b%b%b%b%b%b" % (
            _key(put),
            long(len(item)),
            item,
            long(put.size),
            write_context(put.context),
            write_ending(put),
        )

    def write_update(update: Update) -> bytes:
        return b"\x02%b%b%b" % (_key(update), write_context(update.context), write_ending(update))

    def write_delete(delete: Delete) -> bytes:
        return b"\x04%b%b%b" % (_key(delete), write_context(delete.context), write_ending(delete))

    def write_check(check: Check) -> bytes:
        """Encode a check, branch 3 of the union of actions."""
        return b"\x06%b%b%b%b" % (
            _key(check),
            write_context(check.context),
            write_expression(check.expression),
            avro.boolean(check.show_refused),
        )

    return {Put: write_put, Update: write_update, Delete: write_delete, Check: write_check}


def read_context(data: bytes, at: int) -> tuple[Context, int]:
    """Decode a context in the present layout."""
    end = context_end(data, at)
    return Context(data[at:end]), end


def _read_first_context(data: bytes, at: int) -> tuple[Context, int]:
    end = first_end(data, at)
    return Context(data[at:end] + NO_REASON), end


def _put_reader(read_context: ContextReader) -> FieldReader:
    """Return the reader of a put, the most frequent command.

    Shared code is inlined, and the usual ending is only compared.
    """

    def read_put(data: bytes, at: int) -> tuple[Put, int]:
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

        context, end = read_context(data, at)
        if data[end : end + 3] == _USUAL_ENDING:
            return Put(table, pk, sk, item, size, context), end + 3
        expression, returns, show_refused, at = _read_ending(data, end)
        return Put(table, pk, sk, item, size, context, expression, returns, show_refused), at

    return read_put


def _update_reader(read_context: ContextReader) -> FieldReader:
    def read_update(data: bytes, at: int) -> tuple[Update, int]:
        table, pk, sk, at = _read_key(data, at)
        context, at = read_context(data, at)
        expression, returns, show_refused, at = _read_ending(data, at)
        return Update(table, pk, sk, context, expression, returns, show_refused), at

    return read_update


def _delete_reader(read_context: ContextReader) -> FieldReader:
    def read_delete(data: bytes, at: int) -> tuple[Delete, int]:
        table, pk, sk, at = _read_key(data, at)
        context, at = read_context(data, at)
        expression, returns, show_refused, at = _read_ending(data, at)
        return Delete(table, pk, sk, context, expression, returns, show_refused), at

    return read_delete


def _check_reader(read_context: ContextReader) -> FieldReader:
    def read_check(data: bytes, at: int) -> tuple[Check, int]:
        table, pk, sk, at = _read_key(data, at)
        context, at = read_context(data, at)
        expression, at = read_optional(data, at, _read_expression)
        show_refused, at = avro.read_boolean(data, at)
        return Check(table, pk, sk, context, expression, show_refused), at

    return read_check


def _index_entry(entry: IndexEntry) -> bytes:
    """Encode an index entry, branch 2 of the union of messages and the most frequent message."""
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


# Derived codecs


def _read_id(data: bytes, at: int) -> tuple[bytes, int]:
    return _id(data[at : at + ID_BYTES]), at + ID_BYTES


def _checkpoint(checkpoint: tuple[int, int]) -> bytes:
    """Encode a partition and a sequence number, which is in decimal because it has more digits than a long."""
    partition, sequence_number = checkpoint
    return long(partition) + avro.text(str(sequence_number))


def _read_checkpoint(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    partition, at = read_long(data, at)
    sequence_number, at = avro.read_text(data, at)
    return (partition, int(sequence_number)), at


def _loaded_item(loaded: LoadedItem) -> bytes:
    return b"%b%b%b%b" % (sized(loaded.pk), sized(loaded.sk), sized(loaded.item), long(loaded.size))


def _read_loaded_item(data: bytes, at: int) -> tuple[LoadedItem, int]:
    pk, at = read_sized(data, at)
    sk, at = read_sized(data, at)
    item, at = read_sized(data, at)
    size, at = read_long(data, at)
    return LoadedItem(pk, sk, item, size), at


def _read_branch(data: bytes, at: int, readers: Sequence[FieldReader]) -> tuple[Any, int]:
    """Decode a record of a union."""
    branch, at = read_long(data, at)
    if branch < 0:
        raise ValueError("the index of a branch cannot be negative")
    return readers[branch](data, at)


class _Layout:
    """The codecs of one layout, by its last schema.

    Attributes:
        commands: The readers of the branches of the union of commands.
        messages: The readers of the branches of the union of messages.
        writers: The writers of all records of these unions; each begins with the index of the branch.
    """

    def __init__(
        self,
        fingerprint: bytes,
        read_context: ContextReader,
        write_context: Callable[[Context], bytes],
        write_expression: Callable[[Expression | None], bytes],
    ) -> None:
        self._types: dict[str, tuple[FieldWriter, FieldReader]] = {
            "int": (long, read_long),
            "long": (long, read_long),
            "bytes": (sized, read_sized),
            "string": (avro.text, avro.read_text),
            "boolean": (avro.boolean, avro.read_boolean),
            "LogId": (_id, _read_id),
            "Context": (write_context, read_context),
            "Mark": (_checkpoint, _read_checkpoint),
            "LoadedItem": (_loaded_item, _read_loaded_item),
        }
        write = _action_writers(write_context, write_expression)
        self._hand_written: dict[type, tuple[FieldWriter, FieldReader]] = {
            Put: (write[Put], _put_reader(read_context)),
            Update: (write[Update], _update_reader(read_context)),
            Delete: (write[Delete], _delete_reader(read_context)),
            Check: (write[Check], _check_reader(read_context)),
            IndexEntry: (_index_entry, _read_index_entry),
        }
        self.writers: dict[type, FieldWriter] = {}
        self.commands = self._union(command_union(fingerprint))
        self.messages = self._union(message_union(fingerprint))

    def _codec(self, schema: Any) -> tuple[FieldWriter, FieldReader]:
        """Return writer and reader for a type of the schema."""
        match schema:
            case {"type": "array", "items": list(branches)}:
                readers = self._union(branches)
                return (
                    lambda records: avro.array([self.writers[type(record)](record) for record in records]),
                    lambda data, at: avro.read_union_array(data, at, readers),
                )
            case {"type": "array", "items": items}:
                write, read = self._codec(items)
                return (
                    lambda values: avro.array([write(value) for value in values]),
                    lambda data, at: avro.read_array(data, at, read),
                )
            case str(name) | {"type": "fixed" | "record", "name": str(name)}:
                return self._types[name]
            case ["null", inner]:
                write, read = self._codec(inner)
                return (
                    lambda value: b"\0" if value is None else b"\x02" + write(value),
                    lambda data, at: read_optional(data, at, read),
                )
            case list(branches):
                readers = self._union(branches)
                return (
                    lambda record: self.writers[type(record)](record),
                    lambda data, at: _read_branch(data, at, readers),
                )
        raise AssertionError(f"the schema has a type without a codec: {schema}")

    def _union(self, branches: list[Any]) -> list[FieldReader]:
        """Return the readers of a union of records, and add their writers to `writers`."""
        readers: list[FieldReader] = []
        for index, branch in enumerate(branches):
            name = branch if isinstance(branch, str) else branch["name"]
            kind = getattr(command_types, name)
            codec = self._hand_written.get(kind) or self._record(kind, index, branch["fields"])
            self.writers[kind] = codec[0]
            readers.append(codec[1])
        return readers

    def _record(
        self, kind: type, branch: int, fields: list[dict[str, Any]]
    ) -> tuple[FieldWriter, FieldReader]:
        """Return writer and reader of a record, whose class has the attributes of the fields in the same order."""
        names = ATTRIBUTES.get(kind.__name__, {})
        attributes = [names.get(field["name"], field["name"]) for field in fields]
        codecs = [self._codec(field["type"]) for field in fields]
        writers = [(attribute, write) for attribute, (write, _) in zip(attributes, codecs, strict=True)]
        readers = [read for _, read in codecs]
        prefix = long(branch)

        def write_record(record: Any) -> bytes:
            return prefix + b"".join([write(getattr(record, attribute)) for attribute, write in writers])

        def read_record(data: bytes, at: int) -> tuple[Any, int]:
            values = []
            for read in readers:
                value, at = read(data, at)
                values.append(value)
            return kind(*values), at

        return write_record, read_record


_PRESENT: Final = _Layout(CURRENT, read_context, attrgetter("encoded"), _expression)
_FIRST: Final = _Layout(FIRST_LAYOUT, _read_first_context, _first_context, _first_expression)
_WRITERS: Final = _PRESENT.writers
