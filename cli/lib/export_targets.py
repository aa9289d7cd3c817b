"""The targets of `foldb export`: a file of lines, a folder of Parquet files, and DynamoDB's layout of an export.

A target goes on from a checkpoint. It writes a file under its name only when the file is complete, so an interrupted
export leaves none that looks complete.
"""

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, Protocol, TypeAlias

from ...model.values import Item, dump
from ...server.buckets.compression import SUFFIXES, MissingExtraError, compressing, compression_of
from ...server.buckets.export_layout import DataFile, ExportFacts, ExportWriter
from ...server.buckets.item_files import ItemChange, ItemFormat, encode_item
from ...streams.formats.parquet import is_installed
from .values import plain_item, write_json

FileFormat: TypeAlias = Literal["jsonl", "dynamodb-json", "ion", "csv", "parquet"]

WRITTEN_BY_DYNAMODB: Final[dict[FileFormat, ItemFormat]] = {"dynamodb-json": "DYNAMODB_JSON", "ion": "ION"}
_BY_SUFFIX: Final[dict[str, FileFormat]] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "dynamodb-json",
    ".ion": "ion",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}

ITEM_COLUMN: Final = "item"
"""The column of a Parquet file that has the whole item, in DynamoDB JSON."""

STATE: Final = ".foldb-export"
"""The name of the state of an interrupted export in a folder; for a file its suffix."""


def format_of(path: Path) -> FileFormat | None:
    """Return the format that the suffix of a file's name shows, before that of a compression; None if it shows none.

    >>> format_of(Path("Orders.ion.gz"))
    'ion'
    """
    return _BY_SUFFIX.get(path.with_suffix("").suffix if path.suffix in SUFFIXES else path.suffix)


def check_libraries(path: Path, file_format: FileFormat | None) -> None:
    """Check that the libraries for a file's format and compression are installed.

    Raises:
        MissingExtraError: The library is not installed.
    """
    if file_format == "parquet":
        if not is_installed():
            raise MissingExtraError("Parquet", "parquet")
    else:
        compressing(_NOWHERE, compression_of(path.name)).close()


class ItemTarget(Protocol):
    """A target of items.

    Attributes:
        pending_bytes: The bytes since the last checkpoint, before compression.
    """

    pending_bytes: int

    def add(self, item: Item) -> None: ...

    def checkpoint(self) -> dict[str, Any]:
        """Complete all that was added. Return the state from which a later run goes on, as JSON."""

    def finish(self) -> dict[str, Any]:
        """Complete the export. Return facts for the output."""

    def close(self) -> None:
        """Close the open file, if there is one."""


class LineFile:
    """A file with a line for each item, compressed by its suffix."""

    def __init__(self, path: Path, encode: Callable[[Item], bytes], state: dict[str, Any] | None) -> None:
        self.pending_bytes = 0
        self._path = path
        self._encode = encode
        self._stack = ExitStack()
        self._part = path.with_name(f"{path.name}.part")
        self._file: BinaryIO = self._stack.enter_context(self._part.open("wb" if state is None else "r+b"))
        if state is not None:
            self._file.truncate(state["bytes"])
            self._file.seek(0, os.SEEK_END)
        self._content: BinaryIO | None = None

    def add(self, item: Item) -> None:
        if self._content is None:
            self._content = compressing(self._file, compression_of(self._path.name))
        line = self._encode(item)
        self._content.write(line)
        self.pending_bytes += len(line)

    def checkpoint(self) -> dict[str, Any]:
        """End the compressed stream. A reader continues with the next one."""
        self._end()
        self._file.flush()
        return {"bytes": self._file.tell()}

    def finish(self) -> dict[str, Any]:
        self._end()
        self.close()
        self._part.replace(self._path)
        return {"file": str(self._path)}

    def close(self) -> None:
        with self._stack, suppress(OSError):  # an error is of data that the next run drops
            self._end()

    def _end(self) -> None:
        if self._content is not None:
            self._content.close()
        self._content = None
        self.pending_bytes = 0


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, data: bytes) -> int:
        return len(data)

    def flush(self) -> None:
        pass


_NOWHERE: Any = _Nowhere()


def json_line(item: Item) -> bytes:
    """Return an item as a line of plain JSON."""
    return write_json(plain_item(item)).encode() + b"\n"


def typed_line(item: Item) -> bytes:
    """Return an item as a line of DynamoDB JSON, without the member Item around it."""
    return dump(item) + b"\n"


def line_encoder(file_format: ItemFormat) -> Callable[[Item], bytes]:
    """Return the function that encodes an item in one of DynamoDB's formats."""
    return lambda item: encode_item(item, file_format)


class ParquetFolder:
    """A folder of Parquet files: the key attributes as columns of text, and the item as DynamoDB JSON."""

    def __init__(self, folder: Path, keys: list[str], state: dict[str, Any] | None) -> None:
        self.pending_bytes = 0
        self._folder = folder
        # A key attribute with the name of the last column is in that column only.
        self._columns: dict[str, list[str]] = {name: [] for name in (*keys, ITEM_COLUMN)}
        self._parts = 0 if state is None else state["parts"]

    def add(self, item: Item) -> None:
        data = dump(item).decode()
        for name, column in self._columns.items():
            column.append(data if name == ITEM_COLUMN else next(iter(item[name].values())))
        self.pending_bytes += len(data)

    def checkpoint(self) -> dict[str, Any]:
        import pyarrow
        import pyarrow.parquet

        schema = pyarrow.schema([(name, pyarrow.string()) for name in self._columns])
        path = self._folder / f"part-{self._parts:05d}.parquet"
        part = path.with_name(f".{path.name}.part")
        pyarrow.parquet.write_table(pyarrow.table(self._columns, schema), part, compression="zstd")
        part.replace(path)
        self._parts += 1
        for column in self._columns.values():
            column.clear()
        self.pending_bytes = 0
        return {"parts": self._parts}

    def finish(self) -> dict[str, Any]:
        if self.pending_bytes or not self._parts:
            self.checkpoint()
        return {"folder": str(self._folder), "files": self._parts}

    def close(self) -> None:
        pass


class LayoutFolder:
    """An export in DynamoDB's layout. The folder is the bucket."""

    def __init__(
        self, folder: Path, facts: ExportFacts, now_ms: Callable[[], int], state: dict[str, Any] | None
    ) -> None:
        self.pending_bytes = 0
        self._facts = facts
        self._now_ms = now_ms
        files = [] if state is None else [DataFile(*file) for file in state["files"]]
        billed = 0 if state is None else state["billed_bytes"]
        self._writer = ExportWriter(folder, facts, files=files, billed_bytes=billed)

    def add(self, item: Item) -> None:
        self.pending_bytes += self._writer.add(item)

    def add_change(self, change: ItemChange) -> None:
        self.pending_bytes += self._writer.add_change(change)

    def checkpoint(self) -> dict[str, Any]:
        self._writer.end_file()
        self.pending_bytes = 0
        return {
            "files": [list(file) for file in self._writer.files],
            "billed_bytes": self._writer.billed_bytes,
        }

    def finish(self) -> dict[str, Any]:
        self._writer.finish(self._now_ms())
        return {"export": self._facts.export_id, "files": len(self._writer.files)}

    def close(self) -> None:
        self._writer.discard()
