"""An entry as bytes, and back, whichever version wrote it.

    body     ::= Avro binary of Entry, by the schema that this version writes
    message  ::= C3 01 fingerprint body         Avro's single-object encoding, for logs that name no schema

    schemas/entry-<number>-<fingerprint>.avsc   one for each schema that was released; the highest number is current

A schema is known by its fingerprint: CRC-64-AVRO of its parsing canonical form, in the byte order of single-object
encoding. A released file is in every log ever written: never change or remove one. A new schema is a new file, and
may differ only in ways that Avro's schema resolution can read. The round trip is exact: decoding gives commands equal
to those that were encoded.
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
    """A schema in Avro's parsing canonical form.

    fastavro says the same and is compared in tests; importing it would take an eighth of a start.
    """
    return json.dumps(_canonical(schema, ""), separators=(",", ":"))


def _canonical(schema: Any, namespace: str) -> Any:
    """Full names, and of a schema only what decides how it is read, in a fixed order."""
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
    """The eight bytes by which a schema is known."""
    from fastavro.schema import fingerprint

    return bytes.fromhex(fingerprint(canonical(schema), "CRC-64-AVRO"))


@cache
def schema_files(folder: Path = FOLDER) -> dict[bytes, Path]:
    """Every released schema's file by fingerprint, oldest first."""
    matches = ((path, FILE_NAME.fullmatch(path.name)) for path in sorted(folder.iterdir()))
    return {bytes.fromhex(match[2]): path for path, match in matches if match}


@cache
def schema(fingerprint: bytes) -> Any:
    """A schema as its file has it.

    Raises:
        NewerVersionError: No version up to this one released such a schema.
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
    """The entry's body."""
    return binary.encode(entry)


def decode_entry(body: bytes, fingerprint: bytes = CURRENT) -> Entry:
    """The entry that a schema's body holds.

    Raises:
        NewerVersionError: The schema is not known here.
        ValueError: The bytes are no such body. A log compares checksums first, so that this is a bug or a fraud.
    """
    if fingerprint == CURRENT or _is_current(fingerprint):
        return binary.decode(body)
    return decode_resolved(body, fingerprint)


@cache
def _is_current(fingerprint: bytes) -> bool:
    """Whether what an older schema wrote reads the same by the current one, and so by hand: nearly all do."""
    older, current = (json.loads(canonical(schema(each))) for each in (fingerprint, CURRENT))
    return _has_grown(older, current)


def _has_grown(older: Any, newer: Any, name: str = "") -> bool:
    """Whether a schema differs from another, if at all, only in that unions have more branches, at their ends."""
    if isinstance(older, dict) and isinstance(newer, dict):
        return older.keys() == newer.keys() and all(
            _has_grown(part, newer[name], name) for name, part in older.items()
        )
    if isinstance(older, list) and isinstance(newer, list):
        fits = len(older) == len(newer) if name == "fields" else len(older) <= len(newer)
        return fits and all(map(_has_grown, older, newer))
    return bool(older == newer)


def encode_message(entry: Entry) -> bytes:
    """The entry in single-object encoding."""
    return head_of(entry) + encode_entry(entry)


def head_of(entry: Entry) -> bytes:
    """What stands before the body in single-object encoding: the marker, and which schema.

    It names the schema before the current one where that can say it too, in the same bytes: so nodes of the release
    before go on reading a log that they share with nodes of this one, as long as nobody asks for what is new.
    """
    kinds = set(map(type, entry.commands))
    if Relay in kinds:
        kinds.update(type(each.message) for each in entry.commands if isinstance(each, Relay))
    return MARKER + (_BEFORE if kinds.isdisjoint(_NEW) else CURRENT)


def decode_message(message: bytes) -> Entry:
    """The entry in a single-object encoding, whichever released schema it has.

    Raises:
        NewerVersionError: The schema is not known here.
        ValueError: The bytes are no such message.
    """
    if message[:2] != MARKER or len(message) < 10:
        raise ValueError("not in Avro's single-object encoding")
    return decode_entry(message[10:], message[2:10])


def decode_resolved(body: bytes, fingerprint: bytes) -> Entry:
    """As decode_entry, by the rules of Avro's schema resolution and not by hand: for every schema, and slower."""
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
    """The schema as fastavro wants it: the same object every time, it is quick only with those it has seen."""
    from fastavro import parse_schema

    return parse_schema(schema(fingerprint))


# The schemas' names are bytes of every segment's header, so they stay where the classes use other names.
_OF_TRANSACTIONS: Final = ("Abandon", "Prepare", "Vote", "Decide", "Decided", "Commit")
ATTRIBUTES: Final = {
    "Entry": {"number": "entry_number"},
    "Relay": {"number": "message_number"},
    "RelayAck": {"through": "through_message"},
    "Checkpoint": {"marks": "checkpoints"},
    **{each: {"number": "transaction_number"} for each in _OF_TRANSACTIONS},
}
"""The attribute of a command for a field of its schema, by class and field, where the two differ."""


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
