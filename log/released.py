"""The Avro schemas of an entry: one file for each that was ever released, found by its fingerprint.

    schemas/entry-<number>-<fingerprint>.avsc       the highest number is what this version writes

The fingerprint is CRC-64-AVRO of the schema's parsing canonical form, in the byte order of Avro's single-object
encoding. A released file is in every log ever written: never change or remove one. A new schema is a new file,
and may differ only in ways that Avro's schema resolution can read.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from fastavro import parse_schema
from fastavro.schema import fingerprint as fastavro_fingerprint
from fastavro.schema import to_parsing_canonical_form

from ..model.errors import NewerVersionError

FOLDER = Path(__file__).parent / "schemas"
FILE_NAME = re.compile(r"entry-(\d{3})-([0-9a-f]{16})\.avsc")


def fingerprint(schema: Any) -> bytes:
    """The eight bytes by which a schema is known."""
    return bytes.fromhex(fastavro_fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


@cache
def released() -> dict[bytes, Path]:
    """Every schema's file by fingerprint, oldest first."""
    files = {}
    for path in sorted(FOLDER.iterdir()):
        if match := FILE_NAME.fullmatch(path.name):
            files[bytes.fromhex(match[2])] = path
    return files


@cache
def raw(known: bytes) -> Any:
    """The schema as its file has it.

    Raises:
        NewerVersionError: No version up to this one released such a schema.
    """
    path = released().get(known)
    if path is None:
        raise NewerVersionError(
            f"entries have the schema {known.hex()}, which this version of foldb does not know. "
            "Start the version that wrote the log, or a later one."
        )
    return json.loads(path.read_text())


@cache
def parsed(known: bytes) -> Any:
    """The schema as fastavro wants it. The same object every time: fastavro is quick only with those it has seen."""
    return parse_schema(raw(known))


def current() -> bytes:
    """The fingerprint of the schema that this version writes."""
    return next(reversed(released()))
