"""Encode an entry as bytes and decode it, by any schema that was released.

    body     ::= Avro binary of Entry, by the current schema
    message  ::= C3 01 fingerprint body         Avro's single-object encoding, for logs whose files name no schema

schema_files.py finds schemas by their fingerprints. The round trip is exact: decoded commands equal the encoded ones.
"""

import json
from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import Any, Final

import orjson

from . import binary, commands
from .commands import Entry, Expression, LoadedItem, new_context
from .schema_files import (
    ATTRIBUTES,
    CURRENT,
    FIRST_LAYOUT,
    PREVIOUS,
    canonical,
    fingerprint_of,
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
    "message_parts",
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
    if fingerprint == CURRENT:
        return binary.decode(body)
    decode = _fast_decoder(fingerprint)
    return decode_resolved(body, fingerprint) if decode is None else decode(body)


@cache
def _fast_decoder(fingerprint: bytes) -> Callable[[bytes], Entry] | None:
    """Return the fast decoder of the layout that decodes bytes of a schema, if there is one."""
    older = json.loads(canonical(schema(fingerprint)))
    for layout, decode in ((CURRENT, binary.decode), (FIRST_LAYOUT, binary.decode_first)):
        if _has_grown(older, json.loads(canonical(schema(layout)))):
            return decode
    return None


def _has_grown(older: Any, newer: Any, name: str = "") -> bool:
    """Return whether `newer` equals `older` except for branches and symbols added at the ends of unions and enums."""
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
    return b"".join(message_parts(entry))


def message_parts(entry: Entry) -> tuple[bytes, bytes]:
    """Encode an entry in single-object encoding; return its head, which names the schema, and its body.

    An entry without a salt has the schema before the current one, if that can express it. So nodes of the release
    before can read a log that they share with nodes of this one until the log's level rises: from then on entries have
    a salt.
    """
    try:
        return MARKER + PREVIOUS, binary.encode_first(entry)
    except binary.LayoutError:
        return MARKER + CURRENT, encode_entry(entry)


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
    commands = [_build(*each) for each in fields["commands"]]
    return Entry(fields["origin"], fields["number"], commands, fields["time"], fields["salt"])


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
        fields["context"] = new_context(**fields["context"])
    if fields.get("expression") is not None:
        fields["expression"] = _build_expression(fields["expression"])
    if "actions" in fields:
        fields["actions"] = [_build(*action) for action in fields["actions"]]
    if "items" in fields:
        fields["items"] = [LoadedItem(**item) for item in fields["items"]]
    if "marks" in fields:
        fields["marks"] = [(mark["partition"], int(mark["number"])) for mark in fields["marks"]]
    if "message" in fields:
        fields["message"] = _build(*fields["message"])
    return getattr(commands, kind)(**{names.get(field, field): value for field, value in fields.items()})


def _build_expression(fields: dict[str, Any]) -> Expression:
    if fields["values"] is not None:
        fields["values"] = orjson.loads(fields["values"])
    return Expression(**fields)
