"""What expires is archived: each item that its time to live has removed becomes a file of its own.

The folder is `archive` beside this file, unless a line ARCHIVE=... in the file .env there names another. A file is
named by the change that it is of, so one that is delivered twice is written twice, to the same place.
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
        return  # somebody deleted it: that is not for the archive
    ARCHIVE.mkdir(exist_ok=True)
    file = ARCHIVE / f"{change.sequence_number}.json"
    part = file.with_suffix(".part")
    part.write_bytes(orjson.dumps({"expired": change.time, "item": change.old}, default=as_json))
    part.replace(file)


def as_json(value):
    """Numbers have all their digits; what is binary is base64, and a set is a list."""
    if isinstance(value, Decimal):
        return orjson.Fragment(str(value))
    return base64.b64encode(value).decode() if isinstance(value, bytes) else sorted(value)
