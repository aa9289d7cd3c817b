"""The sources of `foldb import`: a file of items, Parquet files, and a folder with exports in DynamoDB's layout.

A source is a list of files, which are read one after the other. Of exports it is the newest full export and the
incremental exports behind it, without a gap; or incremental exports alone.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

import orjson

from ...model.cuts import time_text
from ...model.tables import name_of
from ...model.values import Item
from ...server.buckets.compression import compression_of, open_compressed
from ...server.buckets.export_layout import DataFile, Export, read_exports
from ...server.buckets.item_files import (
    CsvOptions,
    InputFormat,
    ItemChange,
    MalformedRecord,
    RecordError,
    Records,
    canonical,
    read_changes,
    read_items,
    read_lines,
)
from .errors import CommandError, ExitCode
from .export_targets import ITEM_COLUMN, STATE, FileFormat, check_libraries, format_of
from .values import item_of, read_json

Entry: TypeAlias = Item | ItemChange
ReadEntries: TypeAlias = Callable[[BinaryIO], Records[Entry]]

_INPUT_FORMATS: Final[dict[FileFormat, InputFormat]] = {
    "dynamodb-json": "DYNAMODB_JSON",
    "ion": "ION",
    "csv": "CSV",
}


class SourceFile(NamedTuple):
    """A file of a source.

    Attributes:
        path: The file.
        open: Opens the file, and yields the records of it with the number of the line or row of each.
        item_count: The number of its items. None if it is not known.
    """

    path: Path
    open: Callable[[], Any]  # a context manager of an Iterator[tuple[int, Entry | MalformedRecord]]
    item_count: int | None


def files_of(
    path: Path,
    file_format: FileFormat | None,
    csv: CsvOptions,
    table: str,
    of: str | None = None,
    *,
    is_typed: bool,
) -> list[SourceFile]:
    """Return the files of a source.

    Args:
        path: A file, or a folder of Parquet files or of exports.
        file_format: The format of the file. None: by its suffix.
        table: The table of the import.
        of: The table whose exports are read. None: that of the only exports, or those with the name of `table`.
        is_typed: Whether the lines of plain JSON are DynamoDB JSON.

    Raises:
        CommandError: The source does not exist, is not complete, or has an unknown format.
        DamagedExportError: The manifests of an export are damaged.
    """
    chosen = file_format or format_of(path)
    if path.is_dir():
        if (path / f"{STATE}-{of or table}").exists():
            raise CommandError(
                f"{path} has an export that was interrupted: repeat its command first", ExitCode.USAGE
            )
        parts = sorted(path.glob("*.parquet"))
        return [_parquet(part) for part in parts] if parts else list(_exported(path, table, of))
    if not path.is_file():
        raise CommandError(f"there is no file or folder {path}", ExitCode.USAGE)
    if chosen is None:
        raise CommandError(
            f"the format of {path.name} is not known: give --format jsonl, dynamodb-json, ion, csv or parquet",
            ExitCode.USAGE,
        )
    if chosen == "parquet":
        return [_parquet(path)]
    check_libraries(path, chosen)
    read: Any
    if chosen == "jsonl":
        read = partial(read_lines, parse=_typed_item if is_typed else _plain_item)
    else:
        read = partial(read_items, file_format=_INPUT_FORMATS[chosen], csv=csv)
    return [SourceFile(path, lambda: _opened(path, read), None)]


@contextmanager
def _opened(path: Path, read: ReadEntries) -> Iterator[Iterator[tuple[int, Entry | MalformedRecord]]]:
    with open_compressed(path, compression_of(path.name)) as file:
        records = read(file)
        yield ((records.line, record) for record in records)


# Exports in DynamoDB's layout


def _exported(folder: Path, table: str, of: str | None) -> Iterator[SourceFile]:
    for export in chain_of(_of_one_table(read_exports(folder), folder, table, of)):
        is_full = export.from_ms is None
        read: Any = partial(read_items if is_full else read_changes, file_format=export.format)
        for file in export.files:
            yield SourceFile(export.path(file), partial(_checked, export, file, read), file.item_count)


@contextmanager
def _checked(
    export: Export, file: DataFile, read: ReadEntries
) -> Iterator[Iterator[tuple[int, Entry | MalformedRecord]]]:
    """Open a data file, after its checksum was compared."""
    with _opened(export.check(file), read) as records:
        yield records


def _of_one_table(exports: Sequence[Export], folder: Path, table: str, of: str | None) -> list[Export]:
    """Return the exports of one table: `of`, or the only one, or `table`.

    Raises:
        CommandError: The folder has no exports of `of`, or those of several other tables.
    """
    names = sorted({name_of(export.table_arn) for export in exports})
    wanted = of or (names[0] if len(names) == 1 else table)
    if wanted not in names:
        raise CommandError(
            f"{folder} has exports of {', '.join(names)}: name one of these tables with --of, or give the folder of "
            "one export",
            ExitCode.USAGE,
        )
    return [export for export in exports if name_of(export.table_arn) == wanted]


def chain_of(exports: Sequence[Export]) -> list[Export]:
    """Return the newest full export and the increments behind it, or all increments, in the order of their time.

    Raises:
        CommandError: An increment between two of them is missing.
    """
    full = [export for export in exports if export.from_ms is None]
    increments = [(export.from_ms, export) for export in exports if export.from_ms is not None]
    chain = sorted(full, key=lambda export: export.export_ms)[-1:]
    end_ms = chain[0].export_ms if chain else min(from_ms for from_ms, _ in increments)
    while later := [(from_ms, export) for from_ms, export in increments if export.export_ms > end_ms]:
        following = [export for from_ms, export in later if from_ms <= end_ms]
        if not following:
            missing = time_text(end_ms), time_text(min(from_ms for from_ms, _ in later))
            raise CommandError(
                f"no export of the folder has the changes from {missing[0]} to {missing[1]}: export them, or give the "
                "folder of one export",
                ExitCode.USAGE,
            )
        chain.append(max(following, key=lambda export: export.export_ms))
        end_ms = chain[-1].export_ms
    return chain


# Parquet and JSON Lines


def _parquet(path: Path) -> SourceFile:
    check_libraries(path, "parquet")
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
    except pyarrow.ArrowInvalid as error:
        raise CommandError(f"{path}: {' '.join(str(error).split())}", ExitCode.UNREACHABLE) from error
    with file:
        if ITEM_COLUMN not in file.schema_arrow.names:
            raise CommandError(
                f"{path} has no column `{ITEM_COLUMN}` with items in DynamoDB JSON, as exports have",
                ExitCode.USAGE,
            )
        return SourceFile(path, lambda: _opened_parquet(path), file.metadata.num_rows)


@contextmanager
def _opened_parquet(path: Path) -> Iterator[Iterator[tuple[int, Entry | MalformedRecord]]]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        yield enumerate(_rows(file), start=1)


def _rows(file: Any) -> Iterator[Item | MalformedRecord]:
    batches = file.iter_batches(columns=[ITEM_COLUMN], batch_size=1000)
    texts = (text for batch in batches for text in batch.column(0).to_pylist())
    for row, text in enumerate(texts, start=1):
        try:
            yield _typed_item(str(text).encode())
        except RecordError as error:
            yield MalformedRecord(row, 0, str(error))


def _plain_item(line: bytes) -> Item:
    try:
        return canonical(item_of(read_json(line, "this"), "this", is_typed=False), "this")
    except CommandError as error:
        raise RecordError(error.sentence) from None


def _typed_item(line: bytes) -> Item:
    try:
        item = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise RecordError(f"this is not JSON: {error}") from None
    return canonical(item, "this")
