"""Folders of files, one folder a day, in which each change stands once, however often it is written.

    <root>/table=Orders/date=2026-11-20/0-<first number>-<last number>-<which>.jsonl

A file is a batch's part of one table, day and partition: complete under its name or not there at all. Its name follows
from what is in it, so a batch that is written again after a crash becomes the same file. A batch that was cut elsewhere
does not: so what another file of the same day has already, found by the numbers in its name, is left out. (Items of a
snapshot have one number; in a name they are counted.) Names that begin with a dot are files that were not finished;
readers of such folders pass over them.
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
_FOLDERS: Final = 64
_FILES: Final = 256


class FileFormat(Protocol):
    """How changes stand in a file."""

    suffix: str

    def encode(self, changes: Sequence[Delivery]) -> bytes:
        """A whole file."""
        ...

    def ids(self, data: bytes) -> Iterable[str]:
        """What the changes of a file are known by."""
        ...

    def id(self, delivery: Delivery) -> str:
        """The same, before it is in a file."""
        ...


class _Range(NamedTuple):
    """The file called `name` has changes of one partition from one number to another."""

    name: str
    partition: int
    first: int
    last: int


class DatedFolders:
    """Writes into the folders below `root`. One thread at a time may.

    Args:
        writer: Whose unfinished files these are; of two writers to one folder each needs a name.
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
        """Return when each of them would be found after a power cut."""
        parts: dict[tuple[Path, int], list[Delivery]] = defaultdict(list)
        for delivery in changes:
            parts[self._folder(delivery), delivery.partition].append(delivery)
        for (folder, partition), part in parts.items():
            try:
                self._write(folder, partition, part)
            except BaseException:
                self._ranges.pop(
                    folder, None
                )  # what is there now is not known: the next delivery looks again
                raise

    def _folder(self, delivery: Delivery) -> Path:
        date = f"date={stream_label(delivery.change.time)[:10]}"
        return self._root / f"table={delivery.table.name}" / date if self._by_table else self._root / date

    def _write(self, folder: Path, partition: int, changes: list[Delivery]) -> None:
        ranges = self._ranges_of(folder)
        numbers = [each.change.sequence_number for each in changes]
        there = set(self._there(folder, ranges, partition, min(numbers), max(numbers)))
        new = [each for each in changes if self._format.id(each) not in there]
        if not new:
            return
        ids = [self._format.id(each) for each in new]
        numbers = [each.change.sequence_number for each in new]
        which = blake2b("\n".join(ids).encode(), digest_size=4).hexdigest()
        name = f"{partition}-{min(numbers)}-{max(numbers)}-{which}.{self._format.suffix}"
        self._place(folder, name, self._format.encode(new))
        ranges.append(_Range(name, partition, min(numbers), max(numbers)))
        self._remember(folder / name, frozenset(ids))

    def _there(
        self, folder: Path, ranges: list[_Range], partition: int, first: int, last: int
    ) -> Iterator[str]:
        """What the files have that could have some of these numbers."""
        for each in ranges:
            if each.partition == partition and each.first <= last and first <= each.last:
                yield from self._ids_of(folder / each.name)

    def _place(self, folder: Path, name: str, data: bytes) -> None:
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
        """The files of a folder, which is made if it is not there."""
        found = self._ranges.get(folder)
        if found is None:
            self._disk.make_folder(folder)
            # What is found there and therefore passed over must be there after a power cut too.
            self._disk.sync_folder(folder)
            names = self._disk.names(folder)
            if self._unfinished in names:
                # Not written over: a power cut may have left it as another name of a file that is finished.
                self._disk.remove(folder / self._unfinished)
            matches = map(_NAME.fullmatch, names)
            found = [
                _Range(match[0], int(match[1]), int(match[2]), int(match[3])) for match in matches if match
            ]
            self._ranges[folder] = found
            if len(self._ranges) > _FOLDERS:
                self._ranges.popitem(last=False)
        self._ranges.move_to_end(folder)
        return found

    def _ids_of(self, path: Path) -> frozenset[str]:
        found = self._ids.get(path)
        if found is None:
            found = frozenset(self._format.ids(read_all(self._disk, path)))
        self._remember(path, found)
        return found

    def _remember(self, path: Path, ids: frozenset[str]) -> None:
        self._ids[path] = ids
        self._ids.move_to_end(path)
        if len(self._ids) > _FILES:
            self._ids.popitem(last=False)
