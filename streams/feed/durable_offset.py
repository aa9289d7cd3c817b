"""The durable offset of a partition's change segments, in a small file beside them.

    mark ::= JSON 0A check      check is BLAKE2b-128 of the JSON, in hexadecimal

It is written after a sync of the segments that it describes, and replaced atomically. A start truncates the segments to
it and folds the rest again, so a torn write after a crash needs no other handling.
"""

from hashlib import blake2b
from pathlib import Path
from typing import Final

import orjson

from ...log.local.filesystem import Filesystem, read_all, write_all
from ...model.lazy_dataclass import dataclass
from .change_codec import DamagedError
from .segments import Extent

FILE_NAME: Final = "mark"
_NEW_FILE_NAME: Final = "mark.new"


@dataclass(frozen=True, slots=True)
class DurableOffset:
    """The part of a partition's changes that is durable.

    Attributes:
        log_id: The log that the changes come from.
        offset: The changes of all records before this offset are in the segments.
        tables: The durable extent of each table.
    """

    log_id: bytes
    offset: int
    tables: dict[int, Extent]


def read_durable_offset(disk: Filesystem, folder: Path) -> DurableOffset | None:
    """Read the durable offset of a folder; None if there is none.

    Raises:
        DamagedError: The file has other bytes than were written.
    """
    try:
        body, _, check = read_all(disk, folder / FILE_NAME).rpartition(b"\n")
    except FileNotFoundError:
        return None
    if check != _check(body):
        raise DamagedError("the durable offset has other bytes than were written")
    data = orjson.loads(body)
    tables = {int(table): Extent(*map(int, extent)) for table, extent in data["tables"].items()}
    return DurableOffset(bytes.fromhex(data["log"]), data["through"], tables)


def write_durable_offset(disk: Filesystem, folder: Path, durable: DurableOffset) -> None:
    """Replace the durable offset of a folder.

    Raises:
        OSError: The disk refused it. The folder has the new one or the one before; both are true.
    """
    # Sequence numbers are longer than an integer of JSON may be.
    tables = {str(table): [str(each) for each in extent] for table, extent in durable.tables.items()}
    body = orjson.dumps({"log": durable.log_id.hex(), "through": durable.offset, "tables": tables})
    file = disk.open(folder / _NEW_FILE_NAME, create=True)
    try:
        data = body + b"\n" + _check(body)
        write_all(file, 0, data)
        file.truncate(len(data))
        file.sync()
    finally:
        file.close()
    disk.rename(folder / _NEW_FILE_NAME, folder / FILE_NAME)
    disk.sync_folder(folder)


def remove_durable_offset(disk: Filesystem, folder: Path) -> None:
    """Remove the durable offset, before the segments that it describes change."""
    try:
        exists = FILE_NAME in disk.names(folder)
    except FileNotFoundError:
        return
    if exists:
        disk.remove(folder / FILE_NAME)
        disk.sync_folder(folder)


def _check(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).hexdigest().encode()
