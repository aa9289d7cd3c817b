"""The beginning of a trimmed log: the state of each partition before the first kept record, in two equal copies.

    foundation/       00000000000000004711-0.base ... 00000000000000004711.head
    foundation.copy/  the same, byte for byte
    the log           00000000000000004711.avro ...

A foundation exists if a head has its name; the one with the highest number is in force. It is the truth about all
removed records: both copies are durable before a segment is removed, and a damaged copy is written again from the
other. The head is described in FORMAT.md. The content of a base is a matter of the fold; this module sees its bytes.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from ...model.errors import CorruptionError, NewerVersionError
from ...model.lazy_dataclass import dataclass
from ..codec import CURRENT, MARKER, decode_entry, encode_entry
from ..commands import Entry, Genesis
from . import segment
from .filesystem import UNFINISHED, File, Filesystem, read_all, write_all
from .segment import Chain, Header

FOLDERS: Final = ("foundation", "foundation.copy")
MAGIC: Final = b"foldb foundation 1\n"
_KIND: Final = b"foldb foundation "
_LENGTH_BYTES: Final = 4
_CHECK_BYTES: Final = 16
_DIGEST_BYTES: Final = 32
_PIECE_BYTES: Final = 1 << 20
# A sync delays the log on the same disk, so the bytes per sync are limited.
_SYNC_BYTES: Final = 8 << 20
_FILE_NAME: Final = re.compile(r"([0-9]{20})(\.head|-[0-9]+\.base)(?:\.new)?")
_HEAD_NAME: Final = re.compile(r"([0-9]{20})\.head")

logger = logging.getLogger(__name__)


class BaseFile(NamedTuple):
    """The size of a base in bytes, and the BLAKE2b-256 of its bytes."""

    size: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Foundation:
    """The head of a foundation.

    Attributes:
        log_id: The log.
        chain: The chain after the last removed record, which the first kept segment continues.
        genesis: The Genesis of each partition.
        hashes: The hash of the last removed record of each partition.
        log_times: The log time of that record, in milliseconds.
        bases: The base of each partition.
        archive: The folder that the removed segments were copied to.
    """

    log_id: bytes
    chain: Chain
    genesis: tuple[Genesis, ...]
    hashes: tuple[bytes, ...]
    log_times: tuple[int, ...]
    bases: tuple[BaseFile, ...]
    archive: str | None = None

    def encode(self) -> bytes:
        """Return the bytes of the head."""
        members = {
            "archive": self.archive,
            "bases": [[size, digest.hex()] for size, digest in self.bases],
            "ends": self.chain.ends,
            "genesis": [_encode_genesis(each).hex() for each in self.genesis],
            "hash": self.chain.hash.hex(),
            "hashes": [each.hex() for each in self.hashes],
            "log_id": self.log_id.hex(),
            "log_times": self.log_times,
            "sequence": self.chain.sequence,
            "time": self.chain.time,
        }
        body = orjson.dumps(members)
        data = MAGIC + len(body).to_bytes(_LENGTH_BYTES, "big") + body
        return data + _check(data)

    @classmethod
    def decode(cls, data: bytes) -> "Foundation":
        """Decode the bytes of a head.

        Raises:
            ValueError: The bytes are damaged.
            NewerVersionError: A later version wrote the head.
        """
        body = len(MAGIC) + _LENGTH_BYTES
        if len(data) < body + _CHECK_BYTES or data[-_CHECK_BYTES:] != _check(data[:-_CHECK_BYTES]):
            raise ValueError("its check does not match its bytes")
        if not data.startswith(MAGIC):
            if data.startswith(_KIND):
                raise NewerVersionError(
                    "the foundation of the log has a later format. Start the version that trimmed the log, or "
                    "a later one."
                )
            raise ValueError("it is not the head of a foundation")
        return cls._of(orjson.loads(data[body:-_CHECK_BYTES]))

    @classmethod
    def _of(cls, members: dict[str, Any]) -> "Foundation":
        chain = Chain(
            members["sequence"], bytes.fromhex(members["hash"]), members["time"], list(members["ends"])
        )
        return cls(
            log_id=bytes.fromhex(members["log_id"]),
            chain=chain,
            genesis=tuple(_decode_genesis(bytes.fromhex(each)) for each in members["genesis"]),
            hashes=tuple(map(bytes.fromhex, members["hashes"])),
            log_times=tuple(members["log_times"]),
            bases=tuple(BaseFile(size, bytes.fromhex(digest)) for size, digest in members["bases"]),
            archive=members["archive"],
        )

    @property
    def sequence(self) -> int:
        """The number of removed records, in the names of the files."""
        return self.chain.sequence

    @property
    def time_ms(self) -> int:
        """The log time of the history horizon: every state from it on can be read."""
        return max(self.log_times)

    def continues_in(self, header: Header) -> bool:
        """Return whether a segment begins with the first kept record."""
        return header.log_id == self.log_id and header.chain == self.chain

    def names(self) -> list[str]:
        """Return the names of the files of one copy, the head last."""
        bases = [base_name(self.sequence, partition) for partition in range(len(self.bases))]
        return [*bases, head_name(self.sequence)]


def head_name(sequence: int) -> str:
    """Return the name of the head of the foundation before record `sequence`."""
    return f"{sequence:020d}.head"


def base_name(sequence: int, partition: int) -> str:
    """Return the name of a partition's base before record `sequence`."""
    return f"{sequence:020d}-{partition}.base"


def newest(disk: Filesystem, folder: Path) -> Foundation | None:
    """Return the foundation in force, from the head of either copy; None if the log has its whole history.

    Raises:
        CorruptionError: Both heads are damaged.
        NewerVersionError: A later version trimmed the log.
    """
    sequence = newest_sequence(disk, folder)
    return None if sequence is None else _read_either(disk, folder, sequence)


def newest_sequence(disk: Filesystem, folder: Path) -> int | None:
    """Return the number of the foundation in force; None if the log has its whole history."""
    matches = (_HEAD_NAME.fullmatch(name) for copy in FOLDERS for name in _names(disk, folder / copy))
    return max((int(match[1]) for match in matches if match), default=None)


def _read_either(disk: Filesystem, folder: Path, sequence: int) -> Foundation:
    problems = []
    for copy in FOLDERS:
        path = folder / copy / head_name(sequence)
        try:
            return Foundation.decode(read_all(disk, path))
        except FileNotFoundError:
            problems.append("it is missing")
        except (ValueError, OSError) as error:
            problems.append(str(error))
    raise CorruptionError(
        f"{FOLDERS[0]}/{head_name(sequence)}",
        f"both copies of the log's foundation are damaged: {problems[0]}; {problems[1]}",
        restore_step(folder, None),
    )


def restore_step(folder: Path, archive: str | None) -> str:
    """Return the next step for a log without an intact foundation."""
    has_all = "" if archive is None else f" The removed records are in the archive {archive}."
    return (
        "Restore a backup with `foldb log restore`; or copy both folders of the foundation from a backup that was "
        f"made after the trim to {folder}.{has_all}"
    )


def fault_of(
    disk: Filesystem, folder: Path, copy: str, foundation: Foundation, *, is_named: bool = True
) -> str | None:
    """Read all files of a copy, and return the first damage; None if the copy is intact.

    With `is_named` False the head has no name yet.
    """
    path = folder / copy / (head_name(foundation.sequence) + ("" if is_named else UNFINISHED))
    try:
        if Foundation.decode(read_all(disk, path)) != foundation:
            return f"{copy}/{path.name}: it is of another trim"
        for partition, base in enumerate(foundation.bases):
            path = folder / copy / base_name(foundation.sequence, partition)
            file = disk.open(path, write=False)
            try:
                if _digest_of(file) != base:
                    return f"{copy}/{path.name}: it is damaged"
            finally:
                file.close()
    except (ValueError, OSError) as error:
        return f"{copy}/{path.name}: {error}"
    return None


def faults(disk: Filesystem, folder: Path) -> list[str]:
    """Read all files of both copies, and return the damage of each damaged copy.

    Raises:
        CorruptionError: Both heads are damaged.
    """
    foundation = newest(disk, folder)
    if foundation is None:
        return []
    found = (fault_of(disk, folder, copy, foundation) for copy in FOLDERS)
    return [fault for fault in found if fault is not None]


def mend(disk: Filesystem, folder: Path, foundation: Foundation) -> list[str]:
    """Read both copies, write a damaged one again from the other, and return the damage that was found.

    Raises:
        CorruptionError: Both copies are damaged.
        OSError: The disk refused the files.
    """
    found_in = {copy: fault_of(disk, folder, copy, foundation) for copy in FOLDERS}
    intact = [copy for copy, fault in found_in.items() if fault is None]
    found = [fault for fault in found_in.values() if fault is not None]
    if not intact:
        raise _both_damaged(folder, foundation, found)
    for copy, fault in found_in.items():
        if fault is not None:
            copy_files(disk, folder / intact[0], folder / copy, foundation)
            logger.warning("%s was written again from the other copy of the foundation", fault)
    return found


def copy_files(disk: Filesystem, source: Path, target: Path, foundation: Foundation) -> None:
    """Write one copy of a foundation from another, durably, the head last.

    Raises:
        CorruptionError: The source is damaged.
    """
    make_folder(disk, target)
    for name in foundation.names():
        unfinished = target / (name + UNFINISHED)
        with suppress(FileNotFoundError):
            disk.remove(unfinished)
        copied = copy_file(disk, source / name, unfinished)
        if name != head_name(foundation.sequence):
            partition = foundation.names().index(name)
            if copied != foundation.bases[partition]:
                raise CorruptionError(f"{source.name}/{name}", "it is not the base that its head names")
        else:
            disk.sync_folder(target)  # the names of the bases, before that of the head
        disk.rename(unfinished, target / name)
    disk.sync_folder(target)


def copy_file(disk: Filesystem, source: Path, target: Path) -> BaseFile:
    """Copy a file to a new one, sync that, and return its size and digest."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    position = synced = 0
    old = disk.open(source, write=False)
    new = disk.open(target, create=True)
    try:
        new.truncate(0)
        while piece := old.read(position, _PIECE_BYTES):
            digest.update(piece)
            write_all(new, position, piece)
            position += len(piece)
            if position - synced >= _SYNC_BYTES:
                new.sync()
                synced = position
        new.sync()
    finally:
        old.close()
        new.close()
    return BaseFile(position, digest.digest())


def make_folder(disk: Filesystem, path: Path) -> None:
    """Create the folder of a copy durably, if it does not exist."""
    try:
        disk.names(path)
    except FileNotFoundError:
        disk.make_folder(path)


def write_unnamed_head(disk: Filesystem, folder: Path, foundation: Foundation) -> None:
    """Write the head of both copies, without its name, and sync both folders. The bases are written and synced."""
    for copy in FOLDERS:
        file = disk.open(_unnamed_head(folder, copy, foundation.sequence), create=True)
        try:
            file.truncate(0)
            write_all(file, 0, foundation.encode())
            file.sync()
        finally:
            file.close()
        disk.sync_folder(folder / copy)


def name_head(disk: Filesystem, folder: Path, foundation: Foundation) -> None:
    """Put a verified foundation into force: give the heads of both copies their names, durably.

    Raises:
        OSError, ValueError: A head is not the one that was verified. No name was changed.
    """
    for copy in FOLDERS:
        if Foundation.decode(read_all(disk, _unnamed_head(folder, copy, foundation.sequence))) != foundation:
            raise ValueError(f"{copy} has another head than the one that was verified")
    for copy in FOLDERS:
        named = folder / copy / head_name(foundation.sequence)
        disk.rename(_unnamed_head(folder, copy, foundation.sequence), named)
        disk.sync_folder(folder / copy)


def remove_before(disk: Filesystem, folder: Path, foundation: Foundation) -> int:
    """Remove everything that a foundation replaces, and return the number of removed segments.

    Both folders of the foundation are durable.
    """
    removed = 0
    for name, sequence in _segments_and_side_files(disk, folder):
        if sequence < foundation.sequence:
            disk.remove(folder / name)
            removed += segment.sequence_in(name) is not None
    disk.sync_folder(folder)
    for copy in FOLDERS:
        remove_unused(disk, folder / copy, foundation.sequence)
    return removed


def remove_unused(disk: Filesystem, path: Path, kept: int | None) -> None:
    """Remove the files of all foundations in a folder except one, heads first, and sync the folder."""
    matches = [match for name in _names(disk, path) if (match := _FILE_NAME.fullmatch(name))]
    unused = [
        match[0]
        for match in matches
        if kept is None or int(match[1]) != kept or match[0].endswith(UNFINISHED)
    ]
    for name in sorted(unused, key=lambda each: ".head" not in each):
        disk.remove(path / name)
    if unused:
        disk.sync_folder(path)


def finish(disk: Filesystem, folder: Path, foundation: Foundation | None) -> None:
    """Finish a trim that a crash interrupted, and write a damaged copy of the foundation again. Hold the writer's lock.

    Raises:
        CorruptionError: Both copies are damaged. No file was changed.
    """
    if foundation is None:
        for copy in FOLDERS:
            remove_unused(disk, folder / copy, None)
        return
    mend(disk, folder, foundation)
    for copy in FOLDERS:
        disk.sync_folder(folder / copy)  # a process that was killed may have given a name and not synced it
    remove_before(disk, folder, foundation)


def opened_bases(
    disk: Filesystem, folder: Path, foundation: Foundation | None, partition: int
) -> Iterator[tuple[str, File]]:
    """Yield each copy of a partition's base: its name and the file, which is closed after use."""
    if foundation is None:
        return
    for copy in FOLDERS:
        name = base_name(foundation.sequence, partition)
        try:
            file = disk.open(folder / copy / name, write=False)
        except FileNotFoundError:
            continue
        try:
            yield f"{copy}/{name}", file
        finally:
            file.close()


def copy_foundation(disk: Filesystem, source: Path, target: Path, foundation: Foundation) -> None:
    """Write both copies of the foundation of another folder, from one that is intact.

    Raises:
        CorruptionError: Both copies of the source are damaged.
    """
    faults_found = {copy: fault_of(disk, source, copy, foundation) for copy in FOLDERS}
    intact = [copy for copy, fault in faults_found.items() if fault is None]
    if not intact:
        raise _both_damaged(source, foundation, [str(fault) for fault in faults_found.values()])
    for copy in FOLDERS:
        copy_files(disk, source / intact[0], target / copy, foundation)


def _both_damaged(folder: Path, foundation: Foundation, found: list[str]) -> CorruptionError:
    return CorruptionError(
        found[0].partition(":")[0],
        f"both copies of the log's foundation are damaged: {'; '.join(found)}",
        restore_step(folder, foundation.archive),
    )


def _unnamed_head(folder: Path, copy: str, sequence: int) -> Path:
    return folder / copy / (head_name(sequence) + UNFINISHED)


def _segments_and_side_files(disk: Filesystem, folder: Path) -> Sequence[tuple[str, int]]:
    """Return the names of segments and of files beside them, each with its segment's number, the oldest first."""
    suffix = len(segment.name(0))
    numbered = ((name, segment.sequence_in(name[:suffix])) for name in disk.names(folder))
    return sorted(
        ((name, sequence) for name, sequence in numbered if sequence is not None), key=lambda each: each[1]
    )


def _names(disk: Filesystem, path: Path) -> list[str]:
    try:
        return disk.names(path)
    except FileNotFoundError:
        return []


def _digest_of(file: File) -> BaseFile:
    digest, position = blake2b(digest_size=_DIGEST_BYTES), 0
    while piece := file.read(position, _PIECE_BYTES):
        digest.update(piece)
        position += len(piece)
    return BaseFile(position, digest.digest())


def _check(data: bytes) -> bytes:
    return blake2b(data, digest_size=_CHECK_BYTES).digest()


def _encode_genesis(genesis: Genesis) -> bytes:
    return MARKER + CURRENT + encode_entry(Entry(genesis.log_id, 0, [genesis]))


def _decode_genesis(message: bytes) -> Genesis:
    at = len(MARKER)
    body = at + len(CURRENT)
    [command] = decode_entry(message[body:], message[at:body]).commands
    if not isinstance(command, Genesis):
        raise ValueError("it has no Genesis")
    return command
