"""Recover a log after a crash, or refuse a folder that holds no usable log.

    1. validate   a log of one id, of a known version, intact up to its last write         changes no file
    2. save       the remains of a torn write go to a side file
    3. rewrite    the torn write is cut off, the records that may not be synced are written again, and all is synced

No record is served before step 3. Step 1 refuses damage to durable bytes. Step 3 is needed because after a failed
sync the system may show pages that the disk does not hold: to read them proves nothing, to write and sync them does.
"""

import json
import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from ...model.errors import LogError, LogFullError, LogLockedError
from ...model.lazy_dataclass import dataclass
from ..codec import CURRENT, encode_entry
from ..commands import Entry, Genesis
from . import durable_position, foundation, segment
from .displaced import segment_of
from .filesystem import UNFINISHED, File, Filesystem, HeldFolder, create_file, read_all, write_all
from .history import History, damaged
from .segment import Chain, Scan
from .torn_write import judge_end, known_end, torn_write
from .writer import LOCK_NAME, NO_SPACE

ADDRESS_NAME: Final = "server.json"
# Names that a data folder may hold before it has a log. A folder with other files and without a log is refused.
NEIGHBOURS: Final = (LOCK_NAME, ADDRESS_NAME, "lost+found", ".gitignore")

# A killed process leaves its locks to its disk process for the time of a write and a sync.
_TRIES: Final = 500
_PAUSE_S: Final = 0.01

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cut:
    """The bytes that recovery removed from the end: unacknowledged, or unsynced in a mode without sync."""

    segment: str
    position: int
    size: int
    side_file: Path | None


@dataclass(frozen=True, slots=True)
class Recovered:
    """A log that can be continued at `position` of its last segment."""

    history: History
    chain: Chain
    position: int
    genesis: list[Genesis]
    cut: Cut | None


def lock(disk: Filesystem, folder: Path, note: bytes, *, is_copy: bool = False) -> tuple[HeldFolder, File]:
    """Lock the folder against other writers, and create a missing folder.

    With `is_copy` the folder may have the foundation of an interrupted copy and no segment yet.

    Returns:
        The disk that holds the folder, and the folder's file `lock`: both are locked until they are closed.

    Raises:
        LogLockedError: Another process writes to the folder.
        LogError: The folder holds other files and no log.
    """
    for _ in range(_TRIES):
        try:
            return _lock(disk, folder, note, is_copy=is_copy)
        except LogLockedError:
            if not _writer_has_ended(disk, folder):
                raise
        time.sleep(_PAUSE_S)  # its disk process writes its last group
    return _lock(disk, folder, note, is_copy=is_copy)


def _lock(disk: Filesystem, folder: Path, note: bytes, *, is_copy: bool) -> tuple[HeldFolder, File]:
    held = _hold(disk, folder)
    try:
        names = held.names(folder)
        check_is_log(folder, [name for name in names if not (is_copy and name in foundation.FOLDERS)])
        if not names:
            disk.make_folder(folder)  # makes it durable, and removes the access of other users
        # The folder itself first: then the removal of the file `lock` admits no second writer.
        held.lock_folder()
        return held, held.lock(folder / LOCK_NAME, note)
    except BlockingIOError:
        error = LogLockedError(
            f"{folder} is in use by another process ({_holder(held, folder)}). "
            "Stop it first, or use the commands that only read: they work while it runs."
        )
        held.close()
        raise error from None
    except BaseException:
        held.close()
        raise


def _hold(disk: Filesystem, folder: Path) -> HeldFolder:
    try:
        return disk.hold(folder)
    except FileNotFoundError:
        disk.make_folder(folder)
        return disk.hold(folder)
    except NotADirectoryError:
        raise LogError(f"{folder} is a file, not a folder: name another folder for the data") from None


def _writer_has_ended(disk: Filesystem, folder: Path) -> bool:
    """Return whether the process that the file `lock` names has ended; False if the file names none."""
    with suppress(OSError, ValueError):
        _, pid = read_all(disk, folder / LOCK_NAME).split()
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return True
    return False


def _holder(disk: Filesystem, folder: Path) -> str:
    """Return the process that writes to the folder, from the file `lock` or the server's address file."""
    with suppress(OSError):
        if note := read_all(disk, folder / LOCK_NAME).decode(errors="replace").strip():
            return note
    with suppress(OSError, ValueError, KeyError, TypeError):
        return f"pid {int(json.loads(read_all(disk, folder / ADDRESS_NAME))['pid'])}"
    return "unknown"


def check_is_log(folder: Path, names: list[str]) -> None:
    """Refuse a folder that holds other files and no log."""
    if any(map(_has_records, names)):
        return
    strange = [name for name in names if not (name in NEIGHBOURS or name.endswith(UNFINISHED))]
    for kind, name in (("file", durable_position.NAME), *(("folder", each) for each in foundation.FOLDERS)):
        if name in strange:
            raise damaged(
                folder,
                str(folder / segment.name(0)),
                f"the log's segments are missing, but its {kind} `{name}` exists",
            )
    if strange:
        raise LogError(
            f"{folder} is not a foldb log: it holds {strange[0]} and no segment. Name an empty or new folder."
        )


def create(disk: Filesystem, folder: Path, first: Sequence[Entry], time_ms: int) -> None:
    """Create a log: its first segment appears with every partition's Genesis, or not at all."""
    genesis = first[0].commands[0]
    assert isinstance(genesis, Genesis), "a partition begins with Genesis"
    chain = Chain.start(genesis.log_id, len(first))
    data = segment.header(genesis.log_id, CURRENT, chain)
    marker = segment.read_header(data).marker
    size = len(data)
    for partition, entry in enumerate(first):
        data += segment.block(chain, marker, partition, time_ms, len(data) - size, encode_entry(entry))
    try:
        create_file(disk, folder / segment.name(0), data).close()
    except OSError as error:
        if error.errno in NO_SPACE:
            raise LogFullError(f"no space left for a log in {folder}: make room, then start again") from error
        raise


def recover(disk: Filesystem, folder: Path) -> Recovered:
    """Validate, cut and rewrite the log in the folder.

    Raises:
        CorruptionError, ForeignLogError, NewerVersionError: The log cannot be used. No file was changed.
    """
    history = History(disk, folder)
    history.load()
    if not history.headers:
        raise damaged(folder, segment.name(0), "the log's segments are missing, but its foundation exists")
    genesis = history.genesis()
    data, scan, synced = _validate_end(disk, history)
    torn = torn_write(data, scan)
    if torn:
        history.check_older()  # before any change: a damaged older segment refuses the log
    foundation.finish(disk, folder, history.foundation)
    for name in disk.names(folder):
        if name.endswith(UNFINISHED):
            disk.remove(folder / name)
    cut = _save(disk, history, torn, scan.end) if torn else None
    _rewrite(disk, history, data[synced : scan.end], synced)
    return Recovered(history, scan.chain, scan.end, genesis, cut)


def _validate_end(disk: Filesystem, history: History) -> tuple[bytes, Scan, int]:
    """Return the last segment's bytes, the scan of its blocks, and the position up to which it was synced."""
    last = history.last
    known = known_end(history, durable_position.read_mark(disk, history.folder))
    data = history.data(last)
    scan = judge_end(history, data, last.size, last.chain, known)
    return data, scan, known.synced if known else last.size


def _save(disk: Filesystem, history: History, torn: bytes, position: int) -> Cut:
    """Save the torn bytes in a side file of the segment."""
    path = history.path(history.last)
    side_file = _write_side_file(disk, path, torn, position)
    logger.warning(
        "the last write to %s was torn: %d bytes from byte %d on are %s",
        path.name,
        len(torn),
        position,
        f"moved to {side_file.name}" if side_file else "removed; there was no space for a side file",
    )
    return Cut(path.name, position, len(torn), side_file)


def _write_side_file(disk: Filesystem, path: Path, torn: bytes, position: int) -> Path | None:
    """Write the torn bytes to a side file, durably. Return None if the disk is full, which must not prevent a start."""
    names = disk.names(path.parent)
    side_name = f"{path.name}.torn-{position}"
    while side_name in names:
        side_name += "+"
    side_file = path.with_name(side_name)
    file = None
    try:
        file = disk.open(side_file, create=True)
        write_all(file, 0, torn)
        file.sync()
        disk.sync_folder(path.parent)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        with suppress(OSError):
            disk.remove(side_file)
        return None
    finally:
        if file:
            file.close()
    return side_file


def _rewrite(disk: Filesystem, history: History, tail: bytes, position: int) -> None:
    """Cut the bytes after the tail, write the tail again, and make both and all names durable."""
    file = disk.open(history.path(history.last))
    try:
        if file.size() > position + len(tail):
            file.truncate(position + len(tail))
        write_all(file, position, tail)
        file.sync()
    finally:
        file.close()
    disk.sync_folder(history.folder)


def has_log(disk: Filesystem, folder: Path) -> bool:
    """Return whether the folder holds a segment, or the side file of one."""
    return any(map(_has_records, disk.names(folder)))


def _has_records(name: str) -> bool:
    return segment.sequence_in(segment_of(name) or name) is not None
