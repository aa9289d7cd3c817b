"""The Avro schemas of entries: one file for each released schema.

    schemas/entry-<number>-<fingerprint>.avsc   the highest number is the current schema

The fingerprint of a schema is CRC-64-AVRO of its parsing canonical form, in the byte order of single-object encoding.
Logs depend on every released file: never change or remove one. A new schema is a new file, and may differ from the
one before only in ways that Avro's schema resolution can read.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Final

from ..model.errors import NewerVersionError

FOLDER: Final = Path(__file__).parent / "schemas"
FILE_NAME: Final = re.compile(r"entry-(\d{3})-([0-9a-f]{16})\.avsc")

_PRIMITIVE: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_CANONICAL: Final = ("name", "type", "fields", "symbols", "items", "values", "size")

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


PREVIOUS, CURRENT = list(schema_files())[-2:]
FIRST_LAYOUT: Final = list(schema_files())[2]
"""The last schema whose contexts have no reason and whose entries have no salt."""


def command_union(fingerprint: bytes) -> list[Any]:
    """Return the branches of a schema's union of commands."""
    [commands] = [field for field in schema(fingerprint)["fields"] if field["name"] == "commands"]
    branches: list[Any] = commands["type"]["items"]
    return branches


def message_union(fingerprint: bytes) -> list[Any]:
    """Return the branches of a schema's union of messages, which is a field of Relay."""
    [relay] = [branch for branch in command_union(fingerprint) if branch["name"] == "Relay"]
    [message] = [field for field in relay["fields"] if field["name"] == "message"]
    branches: list[Any] = message["type"]
    return branches
