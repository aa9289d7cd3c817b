"""Encode an entry as bytes and decode it, by any schema that was released.

    body     ::= Avro binary of Entry, by the current schema
    message  ::= C3 01 fingerprint body         Avro's single-object encoding, for logs whose files name no schema

schema_files.py finds schemas by their fingerprints. The round trip is exact: decoded commands equal the encoded ones.
"""

import json
from functools import cache
from io import BytesIO
from typing import Any, Final

import orjson

from . import binary, commands
from .commands import Context, Entry, Expression, Relay
from .schema_files import (
    ATTRIBUTES,
    CURRENT,
    PREVIOUS,
    canonical,
    fingerprint_of,
    record_names,
    schema,
    schema_files,
)

__all__ = [
    "ATTRIBUTES",
    "CURRENT",
    "MARKER",
    "canonical",
    "decode_entry",
    "decode_message",
    "decode_resolved",
    "encode_entry",
    "encode_message",
    "fingerprint_of",
    "message_head",
    "schema",
    "schema_files",
]

MARKER: Final = b"\xc3\x01"


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
    kinds = {type(command).__name__ for command in entry.commands}
    if "Relay" in kinds:
        kinds.update(type(each.message).__name__ for each in entry.commands if isinstance(each, Relay))
    return MARKER + (PREVIOUS if kinds.isdisjoint(_new_records()) else CURRENT)


@cache
def _new_records() -> frozenset[str]:
    """Return the names of the records that the current schema added."""
    return frozenset(record_names(schema(CURRENT)) - record_names(schema(PREVIOUS)))


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
