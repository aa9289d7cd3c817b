"""How far the change segments of a partition are whole, in a small file beside them.

    mark ::= JSON 0A check      check is BLAKE2b-128 of the JSON, in hexadecimal

It is written when all that it speaks of is synced, and put in the place of the one before as a whole. A start goes by
it: what is beyond it is cut off and folded again, so nothing else has to be known about what a crash has torn.
"""

from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

import orjson

from ...log.local.filesystem import Filesystem, read_all, write_all
from .change_codec import DamagedError
from .segments import Extent

NAME: Final = "mark"
_NEW: Final = "mark.new"


@dataclass(frozen=True, slots=True)
class DurableOffset:
    """See the module.

    Attributes:
        log_id: Of which log the changes are.
        through: The changes of all records before this offset are in the segments.
        tables: How far those of each table go.
    """

    log_id: bytes
    through: int
    tables: dict[int, Extent]


def read_mark(disk: Filesystem, folder: Path) -> DurableOffset | None:
    """Return the mark in a folder; None if there is none.

    Raises:
        DamagedError: It is not what was written.
    """
    try:
        body, _, check = read_all(disk, folder / NAME).rpartition(b"\n")
    except FileNotFoundError:
        return None
    if check != _check(body):
        raise DamagedError("the mark is not what was written")
    data = orjson.loads(body)
    tables = {int(table): Extent(*map(int, extent)) for table, extent in data["tables"].items()}
    return DurableOffset(bytes.fromhex(data["log"]), data["through"], tables)


def write_mark(disk: Filesystem, folder: Path, mark: DurableOffset) -> None:
    """Put a mark in the place of the one before.

    Raises:
        OSError: It is not known which of the two is there; either says what is so.
    """
    # Sequence numbers are longer than an integer of JSON may be.
    tables = {str(table): [str(each) for each in extent] for table, extent in mark.tables.items()}
    body = orjson.dumps({"log": mark.log_id.hex(), "through": mark.through, "tables": tables})
    file = disk.open(folder / _NEW, create=True)
    try:
        data = body + b"\n" + _check(body)
        write_all(file, 0, data)
        file.truncate(len(data))
        file.sync()
    finally:
        file.close()
    disk.rename(folder / _NEW, folder / NAME)
    disk.sync_folder(folder)


def remove_mark(disk: Filesystem, folder: Path) -> None:
    """Have none any more, before what it speaks of is changed."""
    try:
        is_there = NAME in disk.names(folder)
    except FileNotFoundError:
        return
    if is_there:
        disk.remove(folder / NAME)
        disk.sync_folder(folder)


def _check(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).hexdigest().encode()
