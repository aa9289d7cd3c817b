"""A segment that was removed or replaced while its writer held it open, and its side file.

    writer   the name 00000000000000004711.avro is another file's, or gone
             ──► the records go to a side file, and the process stops
    start    the side file continues the log ──► it gets the segment's name; else the log is refused

    00000000000000004711.avro.unlinked       in the folder, or beside it if the folder was removed

A file without a name lives as long as the process that has it open. So the writer compares names and files after each
sync, and before it acknowledges; and every second, for what was acknowledged before.
"""

import logging
import re
from pathlib import Path
from typing import Final

from ...model.errors import CorruptionError
from . import segment
from .filesystem import Filesystem, create_file, read_all
from .history import History, place
from .segment import DamageError

SUFFIX: Final = ".unlinked"
_FILE_NAME: Final = re.compile(r"(.+\.avro)\.unlinked\+*")

logger = logging.getLogger(__name__)


class DisplacedError(Exception):
    """The file that the writer holds is not the one that has the name: it was removed, or replaced."""

    def __init__(self, name: str, *, is_segment: bool) -> None:
        super().__init__(f"{name} was removed or replaced while this process held it")
        self.name = name
        self.is_segment = is_segment


def segment_of(name: str) -> str | None:
    """Return the name of the segment that a side file belongs to; None if this is no side file's name.

    >>> segment_of("00000000000000004711.avro.unlinked")
    '00000000000000004711.avro'
    """
    match = _FILE_NAME.fullmatch(name)
    return match[1] if match else None


def save(disk: Filesystem, folder: Path, name: str, data: bytes) -> Path:
    """Write what a displaced segment held to a side file, durably, and return its path.

    The side file is in `folder`. If that was removed as well, it is in the folder above.

    Raises:
        OSError: Neither folder takes it.
    """
    try:
        return _save_in(disk, folder, name, data)
    except OSError as error:
        logger.error("cannot write a side file in %s: %s; the folder above is tried", folder, error)
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
            raise FileNotFoundError(f"{path} was removed")  # with the folder
    finally:
        file.close()
    return path


def take_back(disk: Filesystem, folder: Path) -> None:
    """Give each side file in the folder its segment's name, if the log then has all that both files hold.

    Raises:
        CorruptionError: A side file and the log are two histories, or a segment between them is missing. Nothing was
            changed.
    """
    for side_name in disk.names(folder):
        name = segment_of(side_name)
        sequence = None if name is None else segment.sequence_in(name)
        if name is not None and sequence is not None:
            _take_back(disk, folder, side_name, name, sequence)


def refuse_side_files(disk: Filesystem, folder: Path) -> None:
    """Refuse a folder whose log lacks records until a start has taken them back.

    Raises:
        CorruptionError: The folder holds a side file.
    """
    for name in disk.names(folder):
        if segment_of(name) is not None:
            raise CorruptionError(
                str(folder / name),
                "this side file has records of a segment that was removed or replaced. `foldb serve` on that folder "
                "takes them back.",
            )


def _take_back(disk: Filesystem, folder: Path, side_name: str, name: str, sequence: int) -> None:
    path, side_file = folder / name, folder / side_name
    held = read_all(disk, side_file)
    is_there = name in disk.names(folder)
    there = read_all(disk, path) if is_there else b""
    if _has_all_of(held, there):
        _check_continues(disk, folder, side_name, held, sequence)
        if is_there:
            disk.rename(side_file, path)
        else:
            disk.name(side_file, path)
        what = f"was moved back to {name}: it continues the log"
    elif there.startswith(held):
        disk.remove(side_file)
        what = "is in the segment, and was removed"
    else:
        raise CorruptionError(
            str(side_file),
            f"the side file and {name} are two histories of the same log. Copy the folder, keep the file with the "
            f"history that you want under the name {name}, and move the other out of the folder.",
        )
    disk.sync_folder(folder)
    logger.warning("%s, which a writer saved when its segment was displaced, %s", side_file, what)


def _has_all_of(held: bytes, there: bytes) -> bool:
    """Return whether `there` has no byte but zeros that `held` lacks.

    A copy that was made under load has zeros: behind the end, which is filled ahead, and where a group was written.
    """
    there = there.rstrip(b"\0")
    if held.startswith(there):
        return True
    return len(there) <= len(held) and not any(
        mine and mine != its for mine, its in zip(there, held, strict=False)
    )


def _check_continues(disk: Filesystem, folder: Path, side_name: str, held: bytes, sequence: int) -> None:
    """Read the segments before, and check that the side file is whole, continues them and leads to the next."""
    try:
        header = segment.read_header(held)
        scan = segment.scan(held, header.size, header.marker, header.chain)
        if scan.damage is not None:
            raise scan.damage
        if header.chain.sequence != sequence:
            raise DamageError(0, f"the side file is that of record {header.chain.sequence}")
    except DamageError as damage:
        raise CorruptionError(f"{folder / side_name} at byte {damage.at}", damage.what) from damage
    history = History(disk, folder)
    history.load(until=sequence)
    history.add(header)
    history.check_older()
    history.load()
    following = history.headers[history.headers.index(header) + 1 :]
    if following and following[0].chain != scan.chain:
        raise CorruptionError(
            place(following[0], 0, following[0].chain), f"the segment does not continue {side_name}"
        )
