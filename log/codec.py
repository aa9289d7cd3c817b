"""Encode an entry as bytes and decode it, by any schema that was released.

    body     ::= Avro binary of Entry, by the current schema
    message  ::= C3 01 fingerprint body         Avro's single-object encoding, for logs whose files name no schema

    schemas/entry-<number>-<fingerprint>.avsc   one file for each released schema; the highest number is current

The fingerprint of a schema is CRC-64-AVRO of its parsing canonical form, in the byte order of single-object encoding.
Logs depend on every released file: never change or remove one. A new schema is a new file, and may differ from the
one before only in ways that Avro's schema resolution can read. The round trip is exact: decoded commands equal the
encoded ones.
"""

import json
import re
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import orjson

from ..model.errors import NewerVersionError
from . import binary, commands
from .commands import (
    Checkpoint,
    Commit,
    Context,
    DefineSubscription,
    Entry,
    Expression,
    Relay,
)

FOLDER: Final = Path(__file__).parent / "schemas"
FILE_NAME: Final = re.compile(r"entry-(\d{3})-([0-9a-f]{16})\.avsc")
MARKER: Final = b"\xc3\x01"


_PRIMITIVE: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_CANONICAL: Final = ("name", "type", "fields", "symbols", "items", "values", "size")


def canonical(schema: Any) -> str:
    """Return a schema in Avro's parsing canonical form.

    A test compares the result with fastavro's, which is not used here because its import takes an eighth of a start.
    """
    return json.dumps(_canonical(schema, ""), separators=(",", ":"))


def _canonical(schema: Any, namespace: str) -> Any:
    """Return the schema with full names and only the attributes that affect decoding, in a fixed order."""
    if isinstance(schema, str):
        return schema if schema in _PRIMITIVE or "." in schema else f"{namespace}.{schema}"
    if isinstance(schema, list):
        return [_canonical(branch, namespace) for branch in schema]
    namespace = schema.get("namespace", namespace)
    parts = {key: schema[key] for key in _CANONICAL if key in schema}
    if "name" in parts:
        parts["name"] = _canonical(parts["name"], namespace)
    if "fields" in parts:
        parts["fields"] = [
            {"name": field["name"], "type": _canonical(field["type"], namespace)} for field in parts["fields"]
        ]
    for key in parts.keys() & {"items", "values"}:
        parts[key] = _canonical(parts[key], namespace)
    return parts


def fingerprint_of(schema: Any) -> bytes:
    """Return the eight bytes that identify a schema."""
    from fastavro.schema import fingerprint

    return bytes.fromhex(fingerprint(canonical(schema), "CRC-64-AVRO"))


@cache
def schema_files(folder: Path = FOLDER) -> dict[bytes, Path]:
    """Return the file of every released schema by fingerprint, oldest first."""
    matches = ((path, FILE_NAME.fullmatch(path.name)) for path in sorted(folder.iterdir()))
    return {bytes.fromhex(match[2]): path for path, match in matches if match}


@cache
def schema(fingerprint: bytes) -> Any:
    """Return the parsed file of a schema.

    Raises:
        NewerVersionError: The fingerprint belongs to no schema released up to this version.
    """
    path = schema_files().get(fingerprint)
    if path is None:
        raise NewerVersionError(
            f"entries have the schema {fingerprint.hex()}, which this version of foldb does not know. "
            "Start the version that wrote the log, or a later one."
        )
    return json.loads(path.read_text())


CURRENT: Final = next(reversed(schema_files()))
_BEFORE: Final = list(schema_files())[-2]
_NEW: Final = (DefineSubscription, Checkpoint, Commit)


def encode_entry(entry: Entry) -> bytes:
    """Encode the body of an entry."""
    return binary.encode(entry)


def decode_entry(body: bytes, fingerprint: bytes = CURRENT) -> Entry:
    """Decode a body that was written by the schema with this fingerprint.

    Raises:
        NewerVersionError: The schema is unknown to this version.
        ValueError: The bytes are not such a body. A log compares checksums first, so this is a bug or tampering.
    """
    if fingerprint == CURRENT or _is_current(fingerprint):
        return binary.decode(body)
    return decode_resolved(body, fingerprint)


@cache
def _is_current(fingerprint: bytes) -> bool:
    """Return whether bytes of an older schema decode the same by the current one, and so by the fast decoder."""
    older, current = (json.loads(canonical(schema(each))) for each in (fingerprint, CURRENT))
    return _has_grown(older, current)


def _has_grown(older: Any, newer: Any, name: str = "") -> bool:
    """Return whether `newer` equals `older` except for branches added at the ends of unions."""
    if isinstance(older, dict) and isinstance(newer, dict):
        return older.keys() == newer.keys() and all(
            _has_grown(part, newer[name], name) for name, part in older.items()
        )
    if isinstance(older, list) and isinstance(newer, list):
        fits = len(older) == len(newer) if name == "fields" else len(older) <= len(newer)
        return fits and all(map(_has_grown, older, newer))
    return bool(older == newer)


def encode_message(entry: Entry) -> bytes:
    """Encode an entry in single-object encoding."""
    return message_head(entry) + encode_entry(entry)


def message_head(entry: Entry) -> bytes:
    """Return the bytes before the body in single-object encoding: the marker and the schema's fingerprint.

    The head names the schema before the current one if that describes the same bytes. So nodes of the release before
    can read a log that they share with nodes of this one, until an entry holds a command of the current schema.
    """
    kinds = set(map(type, entry.commands))
    if Relay in kinds:
        kinds.update(type(each.message) for each in entry.commands if isinstance(each, Relay))
    return MARKER + (_BEFORE if kinds.isdisjoint(_NEW) else CURRENT)


def decode_message(message: bytes) -> Entry:
    """Decode an entry in single-object encoding, by any released schema.

    Raises:
        NewerVersionError: The schema is unknown to this version.
        ValueError: The bytes are not in single-object encoding, or the body is not an entry.
    """
    if message[:2] != MARKER or len(message) < 10:
        raise ValueError("not in Avro's single-object encoding")
    return decode_entry(message[10:], message[2:10])


def decode_resolved(body: bytes, fingerprint: bytes) -> Entry:
    """Decode an entry by Avro's schema resolution: slower than the fast decoder, and valid for every schema."""
    from fastavro import schemaless_reader

    source = BytesIO(body)
    fields: Any
    try:
        fields = schemaless_reader(
            source,
            _parsed(fingerprint),
            _parsed(CURRENT),
            return_record_name=True,
            return_record_name_override=True,
        )
    except (EOFError, IndexError, KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"not an entry: {error!r}") from error
    if source.tell() != len(body):
        raise ValueError(f"not an entry: it ends at byte {source.tell()} of {len(body)}")
    return Entry(
        fields["origin"], fields["number"], [_build(*each) for each in fields["commands"]], fields["time"]
    )


@cache
def _parsed(fingerprint: bytes) -> Any:
    """Return the schema as parsed by fastavro, always the same object: fastavro caches by identity."""
    from fastavro import parse_schema

    return parse_schema(schema(fingerprint))


# Names in the schemas are bytes of every segment's header, so they cannot change when an attribute is renamed.
_OF_TRANSACTIONS: Final = ("Abandon", "Prepare", "Vote", "Decide", "Decided", "Commit")
ATTRIBUTES: Final = {
    "Entry": {"number": "entry_number"},
    "Relay": {"number": "message_number"},
    "RelayAck": {"through": "through_message"},
    "Checkpoint": {"marks": "checkpoints"},
    **{each: {"number": "transaction_number"} for each in _OF_TRANSACTIONS},
}
"""The attribute that holds a field of the schema, by class and field, where the names differ."""


def _build(name: str, fields: dict[str, Any]) -> Any:
    """Return the command of a record that fastavro read."""
    kind = name.removeprefix("foldb.log.")
    names = ATTRIBUTES.get(kind, {})
    if "context" in fields:
        fields["context"] = Context(**fields["context"])
    if fields.get("expression") is not None:
        fields["expression"] = _build_expression(fields["expression"])
    if "actions" in fields:
        fields["actions"] = [_build(*action) for action in fields["actions"]]
    if "marks" in fields:
        fields["marks"] = [(mark["partition"], int(mark["number"])) for mark in fields["marks"]]
    if "message" in fields:
        fields["message"] = _build(*fields["message"])
    return getattr(commands, kind)(**{names.get(field, field): value for field, value in fields.items()})


def _build_expression(fields: dict[str, Any]) -> Expression:
    if fields["values"] is not None:
        fields["values"] = orjson.loads(fields["values"])
    return Expression(**fields)
