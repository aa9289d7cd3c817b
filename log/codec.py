"""An entry as bytes, and back.

    body     ::= Avro binary of Entry, by the schema that this version writes
    message  ::= C3 01 fingerprint body         Avro's single-object encoding, for logs that name no schema

What is read may have been written by any released schema; it is resolved to the current one. The round trip is
exact: decoding gives commands equal to those that were encoded.
"""

from collections.abc import Callable
from io import BytesIO
from typing import Any, Final, TypeAlias

import orjson
from fastavro import schemaless_reader, schemaless_writer

from . import released
from .commands import (
    Action,
    Backfill,
    Check,
    Command,
    Context,
    DefineTable,
    Delete,
    Digest,
    Entry,
    Expire,
    Expression,
    Genesis,
    Level,
    Put,
    Settle,
    Transact,
    Update,
)

CURRENT: Final = released.current()
MARKER: Final = b"\xc3\x01"

Fields: TypeAlias = dict[str, Any]

_schema: Final = released.parsed(CURRENT)


def encode_entry(entry: Entry) -> bytes:
    """The entry's body."""
    out = BytesIO()
    schemaless_writer(out, _schema, _entry_fields(entry))
    return out.getvalue()


def decode_entry(body: bytes, fingerprint: bytes = CURRENT) -> Entry:
    """The entry that a schema's body holds.

    Raises:
        NewerVersionError: The schema is not known here.
        ValueError: The bytes are no such body. A log compares checksums first, so that this is a bug or a fraud.
    """
    source = BytesIO(body)
    writer, reader = (_schema, None) if fingerprint == CURRENT else (released.parsed(fingerprint), _schema)
    fields: Any
    try:
        fields = schemaless_reader(
            source, writer, reader, return_record_name=True, return_record_name_override=True
        )
    except (EOFError, IndexError, KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"not an entry: {error!r}") from error
    if source.tell() != len(body):
        raise ValueError(f"{len(body) - source.tell()} bytes too many after the entry")
    commands = [_BUILD[name](command) for name, command in fields["commands"]]
    return Entry(fields["origin"], fields["number"], commands, fields["time"])


def encode_message(entry: Entry) -> bytes:
    """The entry in single-object encoding."""
    return MARKER + CURRENT + encode_entry(entry)


def decode_message(message: bytes) -> Entry:
    """The entry in a single-object encoding, whichever released schema it has.

    Raises:
        NewerVersionError: The schema is not known here.
        ValueError: The bytes are no such message.
    """
    if message[:2] != MARKER or len(message) < 10:
        raise ValueError("not in Avro's single-object encoding")
    return decode_entry(message[10:], message[2:10])


# Commands to fields, for fastavro. One function a command, in the order of the schema.


def _entry_fields(entry: Entry) -> Fields:
    commands = [_named(command) for command in entry.commands]
    return {"origin": entry.origin, "number": entry.number, "time": entry.time, "commands": commands}


def _named(command: Command | Action) -> tuple[str, Fields]:
    """A branch of the union is chosen by name: fastavro would otherwise try them one by one."""
    kind = type(command)
    return f"foldb.log.{kind.__name__}", _FIELDS[kind](command)


def _context_fields(context: Context) -> Fields:
    return {
        "request_id": context.request_id,
        "invocation_id": context.invocation_id,
        "principal": context.principal,
        "source": context.source,
        "depth": context.depth,
    }


def _expression_fields(expression: Expression | None) -> Fields | None:
    if expression is None:
        return None
    values = expression.values
    return {
        "condition": expression.condition,
        "update": expression.update,
        "names": expression.names,
        "values": None if values is None else orjson.dumps(values, option=orjson.OPT_SORT_KEYS),
        "dialect": expression.dialect,
    }


def _put_fields(put: Put) -> Fields:
    return {
        "table": put.table,
        "pk": put.pk,
        "sk": put.sk,
        "item": put.item,
        "size": put.size,
        "context": _context_fields(put.context),
        "expression": _expression_fields(put.expression),
        "returns": put.returns,
        "show_refused": put.show_refused,
    }


def _write_fields(write: Update | Delete) -> Fields:
    return {
        "table": write.table,
        "pk": write.pk,
        "sk": write.sk,
        "context": _context_fields(write.context),
        "expression": _expression_fields(write.expression),
        "returns": write.returns,
        "show_refused": write.show_refused,
    }


def _check_fields(check: Check) -> Fields:
    return {
        "table": check.table,
        "pk": check.pk,
        "sk": check.sk,
        "context": _context_fields(check.context),
        "expression": _expression_fields(check.expression),
        "show_refused": check.show_refused,
    }


def _transact_fields(transact: Transact) -> Fields:
    return {
        "actions": [_named(action) for action in transact.actions],
        "context": _context_fields(transact.context),
        "token": transact.token,
        "fingerprint": transact.fingerprint,
    }


def _plain_fields(command: Any) -> Fields:
    """Of a command that has nothing nested but its context."""
    fields = {name: getattr(command, name) for name in command.__slots__}
    if "context" in fields:
        fields["context"] = _context_fields(fields["context"])
    return fields


_FIELDS: Final[dict[type, Callable[[Any], Fields]]] = {
    Put: _put_fields,
    Update: _write_fields,
    Delete: _write_fields,
    Check: _check_fields,
    Transact: _transact_fields,
    **dict.fromkeys((DefineTable, Settle, Backfill, Expire, Genesis, Level, Digest), _plain_fields),
}


# Fields to commands. Positional where there are many of a kind: half of a refold is spent here.


def _build_context(fields: Fields) -> Context:
    return Context(
        fields["request_id"], fields["invocation_id"], fields["principal"], fields["source"], fields["depth"]
    )


def _build_expression(fields: Fields | None) -> Expression | None:
    if fields is None:
        return None
    values = fields["values"]
    return Expression(
        fields["condition"],
        fields["update"],
        fields["names"],
        None if values is None else orjson.loads(values),
        fields["dialect"],
    )


def _build_put(fields: Fields) -> Put:
    return Put(
        fields["table"],
        fields["pk"],
        fields["sk"],
        fields["item"],
        fields["size"],
        _build_context(fields["context"]),
        _build_expression(fields["expression"]),
        fields["returns"],
        fields["show_refused"],
    )


def _build_update(fields: Fields) -> Update:
    return Update(
        fields["table"],
        fields["pk"],
        fields["sk"],
        _build_context(fields["context"]),
        _build_expression(fields["expression"]),
        fields["returns"],
        fields["show_refused"],
    )


def _build_delete(fields: Fields) -> Delete:
    return Delete(
        fields["table"],
        fields["pk"],
        fields["sk"],
        _build_context(fields["context"]),
        _build_expression(fields["expression"]),
        fields["returns"],
        fields["show_refused"],
    )


def _build_check(fields: Fields) -> Check:
    return Check(
        fields["table"],
        fields["pk"],
        fields["sk"],
        _build_context(fields["context"]),
        _build_expression(fields["expression"]),
        fields["show_refused"],
    )


def _build_transact(fields: Fields) -> Transact:
    return Transact(
        [_BUILD[name](action) for name, action in fields["actions"]],
        _build_context(fields["context"]),
        fields["token"],
        fields["fingerprint"],
    )


def _build_plain(kind: Callable[..., Command]) -> Callable[[Fields], Command]:
    def build(fields: Fields) -> Command:
        if "context" in fields:
            fields["context"] = _build_context(fields["context"])
        return kind(**fields)

    return build


_BUILD: Final[dict[str, Callable[[Fields], Any]]] = {
    "foldb.log.Put": _build_put,
    "foldb.log.Update": _build_update,
    "foldb.log.Delete": _build_delete,
    "foldb.log.Check": _build_check,
    "foldb.log.Transact": _build_transact,
    **{
        f"foldb.log.{kind.__name__}": _build_plain(kind)
        for kind in (DefineTable, Settle, Backfill, Expire, Genesis, Level, Digest)
    },
}
