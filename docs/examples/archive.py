"""Archive expired items: write each item that its time to live removes to a file.

The folder is `archive` beside this file, or the one that ARCHIVE=... in the file .env names. The name of a file is the
sequence number of the change, so a change that is delivered twice writes the same file twice.
"""

import base64
import os
from decimal import Decimal
from pathlib import Path

import orjson

from foldb import Change, trigger

ARCHIVE = Path(os.environ.get("ARCHIVE") or Path(__file__).with_name("archive"))


@trigger("Sessions", on="REMOVE")
def archive(change: Change) -> None:
    if change.source != "ttl":
        return  # a client deleted the item
    ARCHIVE.mkdir(exist_ok=True)
    file = ARCHIVE / f"{change.sequence_number}.json"
    part = file.with_suffix(".part")
    part.write_bytes(orjson.dumps({"expired": change.time, "item": change.old}, default=as_json))
    part.replace(file)


def as_json(value):
    """Return numbers with all digits, binary values in base64, and sets as lists."""
    if isinstance(value, Decimal):
        return orjson.Fragment(str(value))
    return base64.b64encode(value).decode() if isinstance(value, bytes) else sorted(value)
