"""Folders of files, one folder per day, that hold each change once, however often it is delivered.

    <root>/table=Orders/date=2026-11-20/0-<first number>-<last number>-<hash>.jsonl

A file holds the changes of one batch, table, day and partition. It is complete or does not exist. Its name is a
function of its content, so a batch that is repeated after a crash becomes the same file. A batch with other bounds
becomes another file, without the changes that files of the same day already hold; the sequence numbers in their names
tell which files to read. (Items of a snapshot share one sequence number; their names hold the count of the item
instead.) A name with a leading dot is an unfinished file, which readers of such folders skip.
"""

import re
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from ...log.local.filesystem import Filesystem, read_all, write_all
from ...model.descriptions import stream_label
from ..formats.table_view import Delivery

_NAME: Final = re.compile(r"(\d+)-(\d+)-(\d+)-[0-9a-f]{8}\.\w+")
_CACHED_FOLDERS: Final = 64
_CACHED_FILES: Final = 256


class FileFormat(Protocol):
    """The format of a file's content."""

    suffix: str

    def encode(self, changes: Sequence[Delivery]) -> bytes:
        """Return the content of a file."""
        ...

    def ids(self, data: bytes) -> Iterable[str]:
        """Return the ids of the changes in a file."""
        ...

    def id(self, delivery: Delivery) -> str:
        """Return the id of a change."""
        ...


class _Range(NamedTuple):
    """The partition and the range of sequence numbers of the file `name`."""

    name: str
    partition: int
    first: int
    last: int


class DatedFolders:
    """Writes into the folders below `root`, from one thread at a time.

    Args:
        writer: The name of unfinished files, unique among the writers to the folders.
    """

    def __init__(
        self, disk: Filesystem, root: Path, form: FileFormat, writer: str, *, by_table: bool
    ) -> None:
        self._disk = disk
        self._root = root
        self._format = form
        self._unfinished = f".{writer}.tmp"
        self._by_table = by_table
        self._ranges: OrderedDict[Path, list[_Range]] = OrderedDict()
        self._ids: OrderedDict[Path, frozenset[str]] = OrderedDict()

    def write(self, changes: Sequence[Delivery]) -> None:
        """Return when the changes are durable."""
        parts: dict[tuple[Path, int], list[Delivery]] = defaultdict(list)
        for delivery in changes:
            parts[self._folder(delivery), delivery.partition].append(delivery)
        for (folder, partition), part in parts.items():
            try:
                self._write(folder, partition, part)
            except BaseException:
                self._ranges.pop(
                    folder, None
                )  # the write may have succeeded: the next one lists the folder again
                raise

    def _folder(self, delivery: Delivery) -> Path:
        date = f"date={stream_label(delivery.change.time)[:10]}"
        return self._root / f"table={delivery.table.name}" / date if self._by_table else self._root / date

    def _write(self, folder: Path, partition: int, changes: list[Delivery]) -> None:
        ranges = self._ranges_of(folder)
        sequence_numbers = [each.change.sequence_number for each in changes]
        written = set(
            self._written_ids(folder, ranges, partition, min(sequence_numbers), max(sequence_numbers))
        )
        new = [each for each in changes if self._format.id(each) not in written]
        if not new:
            return
        ids = [self._format.id(each) for each in new]
        sequence_numbers = [each.change.sequence_number for each in new]
        first, last = min(sequence_numbers), max(sequence_numbers)
        digest = blake2b("\n".join(ids).encode(), digest_size=4).hexdigest()
        name = f"{partition}-{first}-{last}-{digest}.{self._format.suffix}"
        self._create(folder, name, self._format.encode(new))
        ranges.append(_Range(name, partition, first, last))
        self._cache_ids(folder / name, frozenset(ids))

    def _written_ids(
        self, folder: Path, ranges: list[_Range], partition: int, first: int, last: int
    ) -> Iterator[str]:
        """Yield the ids in files whose range overlaps the range of sequence numbers."""
        for each in ranges:
            if each.partition == partition and each.first <= last and first <= each.last:
                yield from self._ids_of(folder / each.name)

    def _create(self, folder: Path, name: str, data: bytes) -> None:
        disk, unfinished = self._disk, folder / self._unfinished
        file = disk.open(unfinished, create=True)
        try:
            write_all(file, 0, data)
            file.sync()
        finally:
            file.close()
        disk.rename(unfinished, folder / name)
        disk.sync_folder(folder)

    def _ranges_of(self, folder: Path) -> list[_Range]:
        """Return the files of a folder, which is created if it does not exist."""
        ranges = self._ranges.get(folder)
        if ranges is None:
            self._disk.make_folder(folder)
            # Changes in existing files are skipped, so these files must be durable.
            self._disk.sync_folder(folder)
            names = self._disk.names(folder)
            if self._unfinished in names:
                # Removed, not overwritten: after a power failure it may be a second name of a finished file.
                self._disk.remove(folder / self._unfinished)
            matches = map(_NAME.fullmatch, names)
            ranges = [
                _Range(match[0], int(match[1]), int(match[2]), int(match[3])) for match in matches if match
            ]
            self._ranges[folder] = ranges
            if len(self._ranges) > _CACHED_FOLDERS:
                self._ranges.popitem(last=False)
        self._ranges.move_to_end(folder)
        return ranges

    def _ids_of(self, path: Path) -> frozenset[str]:
        ids = self._ids.get(path)
        if ids is None:
            ids = frozenset(self._format.ids(read_all(self._disk, path)))
        self._cache_ids(path, ids)
        return ids

    def _cache_ids(self, path: Path, ids: frozenset[str]) -> None:
        self._ids[path] = ids
        self._ids.move_to_end(path)
        if len(self._ids) > _CACHED_FILES:
            self._ids.popitem(last=False)
