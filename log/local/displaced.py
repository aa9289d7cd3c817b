"""Recover a segment that was removed or replaced while its writer had it open, by a side file.

    writer   the name 00000000000000004711.avro belongs to another file, or to none
             ──► the writer saves the records in a side file, and the process stops
    start    the side file continues the log ──► it gets the segment's name; otherwise the log is refused

    00000000000000004711.avro.unlinked       in the folder, or beside it if the folder was removed

A file without a name lasts as long as the process that has it open. The writer therefore compares names and open files
after each sync and before the acknowledgement, and every second for earlier acknowledgements.
"""

import logging
import re
from pathlib import Path
from typing import Final

from ...model.errors import CorruptionError
from . import segment
from .filesystem import Filesystem, create_file, read_all
from .history import History, text_of
from .segment import DamageError

SUFFIX: Final = ".unlinked"
_FILE_NAME: Final = re.compile(r"(.+\.avro)\.unlinked\+*")

logger = logging.getLogger(__name__)


class DisplacedError(Exception):
    """The name of a file that the writer has open was removed, or given to another file."""

    def __init__(self, name: str, *, is_segment: bool) -> None:
        super().__init__(f"{name} was removed or replaced while this process held it")
        self.name = name
        self.is_segment = is_segment


def segment_of(name: str) -> str | None:
    """Return the name of the segment that a side file belongs to; None for names of other files.

    >>> segment_of("00000000000000004711.avro.unlinked")
    '00000000000000004711.avro'
    """
    match = _FILE_NAME.fullmatch(name)
    return match[1] if match else None


def save(disk: Filesystem, folder: Path, name: str, data: bytes) -> Path:
    """Write the content of a displaced segment to a side file, durably, and return its path.

    The side file is in `folder`, or in its parent if `folder` was removed too.

    Raises:
        OSError: The side file could be written to neither folder.
    """
    try:
        return _save_in(disk, folder, name, data)
    except OSError as error:
        logger.error("cannot write a side file in %s: %s; the parent folder is tried", folder, error)
        above = folder.absolute().parent
        held = disk.hold(above)
        try:
            return _save_in(held, above, name, data)
        finally:
            held.close()


def _save_in(disk: Filesystem, folder: Path, name: str, data: bytes) -> Path:
    path = folder / f"{name}{SUFFIX}"
    while path.name in disk.names(folder):
        path = path.with_name(path.name + "+")
    file = create_file(disk, path, data)
    try:
        if not file.is_at(str(path.relative_to(folder))):
            raise FileNotFoundError(f"{path} was removed")  # together with the folder
    finally:
        file.close()
    return path


def take_back(disk: Filesystem, folder: Path) -> None:
    """Give each side file in the folder its segment's name, if the log then holds all records of both files.

    Raises:
        CorruptionError: A side file and the log have different histories, or a segment between them is missing. No
            file was changed.
    """
    for side_name in disk.names(folder):
        name = segment_of(side_name)
        sequence = None if name is None else segment.sequence_in(name)
        if name is not None and sequence is not None:
            _take_back(disk, folder, side_name, name, sequence)


def refuse_side_files(disk: Filesystem, folder: Path) -> None:
    """Refuse a folder whose log lacks records until a start has restored them from a side file.

    Raises:
        CorruptionError: The folder holds a side file.
    """
    for name in disk.names(folder):
        if segment_of(name) is not None:
            raise CorruptionError(
                str(folder / name),
                "this side file has records of a segment that was removed or replaced. Run "
                "`foldb serve` on that folder to restore them.",
            )


def _take_back(disk: Filesystem, folder: Path, side_name: str, name: str, sequence: int) -> None:
    path, side_file = folder / name, folder / side_name
    saved = read_all(disk, side_file)
    exists = name in disk.names(folder)
    present = read_all(disk, path) if exists else b""
    if _has_all_of(saved, present):
        _check_continues(disk, folder, side_name, saved, sequence)
        if exists:
            disk.rename(side_file, path)
        else:
            disk.name(side_file, path)
        action = f"was moved back to {name}: it continues the log"
    elif present.startswith(saved):
        disk.remove(side_file)
        action = "was removed: the segment holds all its records"
    else:
        raise CorruptionError(
            str(side_file),
            f"the side file and {name} are two histories of the same log. Copy the folder, keep the file with the "
            f"history that you want under the name {name}, and move the other out of the folder.",
        )
    disk.sync_folder(folder)
    logger.warning("%s, saved by a writer when its segment was displaced, %s", side_file, action)


def _has_all_of(saved: bytes, present: bytes) -> bool:
    """Return whether every byte of `present` is zero or the same in `saved`.

    A copy that was made during writes has zeros after its end, which is filled ahead, and in place of missing groups.
    """
    present = present.rstrip(b"\0")
    if saved.startswith(present):
        return True
    return len(present) <= len(saved) and not any(
        byte and byte != saved_byte for byte, saved_byte in zip(present, saved, strict=False)
    )


def _check_continues(disk: Filesystem, folder: Path, side_name: str, saved: bytes, sequence: int) -> None:
    """Check that the side file is intact, continues the segments before it and leads to the segment after it."""
    try:
        header = segment.read_header(saved)
        scan = segment.scan(saved, header.size, header.marker, header.chain)
        if scan.damage is not None:
            raise scan.damage
        if header.chain.sequence != sequence:
            raise DamageError(0, f"the side file begins with record {header.chain.sequence}")
    except DamageError as damage:
        raise CorruptionError(f"{folder / side_name} at byte {damage.at}", damage.reason) from damage
    history = History(disk, folder)
    history.load(until=sequence)
    history.add(header)
    history.check_older()
    history.load()
    following = history.headers[history.headers.index(header) + 1 :]
    if following and following[0].chain != scan.chain:
        raise CorruptionError(
            text_of(following[0], 0, following[0].chain), f"the segment does not continue {side_name}"
        )
