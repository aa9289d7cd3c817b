"""`foldb import`: write the items of files or of exports to a table, or apply changes to it."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ...model.lazy_dataclass import dataclass
from ...server.buckets.compression import DamagedFileError
from ...server.buckets.export_layout import DamagedExportError
from ...server.buckets.item_files import CsvOptions, ItemChange, MalformedRecord
from ..lib.batch_writer import BatchWriter, Placed, PlacedKey
from ..lib.definitions import table_request
from ..lib.errors import CommandError, ExitCode
from ..lib.export_targets import FileFormat
from ..lib.import_sources import Entry, SourceFile, files_of
from ..lib.options import TableArgument
from ..lib.output import counted
from ..lib.progress import Advance, progress
from ..lib.resume import StateFile, resumable
from ..lib.session import Session
from ..lib.table_status import until_settled
from ..lib.values import line_name

CHUNK: Final = 1000
"""The records between two states of an interrupted import, which repeats at most these."""

_STATE: Final = ".foldb-import"


@dataclass(frozen=True, slots=True)
class CsvColumns:
    """The options of CSV."""

    delimiter: Annotated[
        str | None, typer.Option("--delimiter", metavar="C", help="Separate the columns of a CSV by this.")
    ] = None
    header: Annotated[
        str | None,
        typer.Option("--header", metavar="A,B", help="Name the columns of a CSV whose first line has items."),
    ] = None

    def options(self, path: Path, types: dict[str, str]) -> CsvOptions:
        """Return the options of a file.

        Raises:
            CommandError: The delimiter is not one character.
        """
        delimiter = self.delimiter or ("\t" if ".tsv" in path.suffixes else ",")
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise CommandError("--delimiter takes one character, such as ';'", ExitCode.USAGE)
        return CsvOptions(delimiter, self.header and self.header.split(","), types)


def import_(
    session: Session,
    table: TableArgument,
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="A file such as Orders.jsonl.gz, or a folder of exports.")
    ],
    file_format: Annotated[
        FileFormat | None,
        typer.Option("--format", show_default="by the suffix", help="The format of the file."),
    ] = None,
    create: Annotated[
        str | None,
        typer.Option("--create", metavar="'PK:TYPE SK:TYPE'", help="Create the table with this key."),
    ] = None,
    of: Annotated[
        str | None,
        typer.Option(
            "--of",
            metavar="NAME",
            show_default="that of the only exports, or the same name",
            help="Import the exports of this table.",
        ),
    ] = None,
    *,
    columns: CsvColumns,
) -> None:
    """SOURCE is a file as `foldb export` writes it, a CSV, a folder of Parquet files, or a folder with exports in the
    layout of DynamoDB's exports to S3: the newest full export is written, and then each incremental export behind it is
    applied. A folder with incremental exports alone applies those. Items replace those with the same key.

    A record that is malformed or refused is printed with its file and line, and the others are written. An interrupted
    import continues if the same command is run again.

    Example: foldb import Music Music.jsonl.gz
    """
    with resumable():
        try:
            _import(session, table, source, create, (file_format, of, columns))
        except (DamagedFileError, DamagedExportError) as error:
            raise CommandError(f"{error}; the items before it are written", ExitCode.UNREACHABLE) from error


def _import(
    session: Session,
    table: str,
    source: Path,
    create: str | None,
    reading: tuple[FileFormat | None, str | None, CsvColumns],
) -> None:
    file_format, of, columns = reading
    types: dict[str, str] = {}

    def files() -> list[SourceFile]:
        options = columns.options(source, types)
        return files_of(source, file_format, options, table, of, is_typed=session.settings.typed)

    files()  # an error of the source must not leave a table
    state = _state(table, source)
    if create is not None and state.found is None:
        session.client.call("CreateTable", table_request(table, create.split(), [], [], None))
        until_settled(session, table)
    description = session.shape(table).description
    types |= {each["AttributeName"]: each["AttributeType"] for each in description["AttributeDefinitions"]}
    run = _Import(session, table, state, description["TableId"])
    run.write(files())
    row = {"table": table, "records": run.records, "refused": run.refused}
    session.output.row(row)
    session.output.say(f"{table}: {counted(run.records - run.refused, 'record')} written")
    if run.refused:
        raise CommandError(
            f"{counted(run.refused, 'record')} of {run.records:,} refused; the others are written",
            ExitCode.PARTLY,
        )


def _state(table: str, source: Path) -> StateFile:
    """Return the state of an interrupted import of a source, which is beside or in it."""
    folder = source if source.is_dir() else source.parent
    name = f"{_STATE}-{table}" if source.is_dir() else f"{source.name}{_STATE}-{table}"
    return StateFile(folder / name, {"import": table})


class _Import:
    """One run.

    Attributes:
        records: The records that were read, with those of interrupted runs.
        refused: Those of them that are malformed, or that the server refused.
    """

    def __init__(self, session: Session, table: str, state: StateFile, table_id: str) -> None:
        self._session = session
        self._state = state
        self._table = table
        self._loader = BatchWriter(
            session.client, session.shape(table), is_typed=session.settings.typed, on_refused=self._refuse
        )
        self._table_id = table_id
        self._files: list[list[Any]] = []
        self._can_save = True
        self.records = self.refused = 0

    def write(self, files: list[SourceFile]) -> None:
        """Write all records, from those on that an interrupted run has not written."""
        counts = [file.item_count for file in files]
        total = None if None in counts else sum(count for count in counts if count is not None)
        first, skipped = self._found([_stamp(file.path) for file in files])
        self._save(first, skipped)
        with progress(self._session.settings, self._session.output.stderr, self._table, total) as advance:
            advance(self.records)
            for number in range(first, len(files)):
                self._file(files[number], number, skipped if number == first else 0, advance)
        self._state.remove()

    def _found(self, files: list[list[Any]]) -> tuple[int, int]:
        """Return the number of the first file, and that of its records which are written.

        The import begins again if the table or a file is another than that of the interrupted run.
        """
        found = self._state.found or {}
        if (found.get("table_id"), found.get("files")) != (self._table_id, files):
            found = {"file": 0, "done": 0, "records": 0, "refused": 0}
        self._files = files
        self.records, self.refused = found["records"], found["refused"]
        return found["file"], found["done"]

    def _file(self, file: SourceFile, number: int, done: int, advance: Advance) -> None:
        with file.open() as entries:
            rest = islice(entries, done, None)
            while chunk := list(islice(rest, CHUNK)):
                self._loader.load(self._placed(file, chunk))
                done += len(chunk)
                self.records += len(chunk)
                advance(len(chunk))
                self._save(number, done)

    def _placed(
        self, file: SourceFile, chunk: list[tuple[int, Entry | MalformedRecord]]
    ) -> Iterator[Placed | PlacedKey]:
        for line, entry in chunk:
            name = line_name(str(file.path), line)
            match entry:
                case MalformedRecord():
                    self._refuse(CommandError(f"{name}: {entry.reason}", ExitCode.USAGE))
                case ItemChange(new=None):
                    yield PlacedKey(name, entry.key)
                case ItemChange():
                    assert entry.new is not None, "the change is no deletion"
                    yield name, entry.new
                case _:
                    yield name, entry

    def _refuse(self, error: CommandError) -> None:
        self.refused += 1
        self._session.output.warn(error.sentence)

    def _save(self, number: int, done: int) -> None:
        state: dict[str, Any] = {
            "table_id": self._table_id,
            "files": self._files,
            "file": number,
            "done": done,
        }
        if not self._can_save:
            return
        try:
            self._state.save(state | {"records": self.records, "refused": self.refused})
        except OSError as error:
            self._can_save = False
            self._session.output.warn(
                f"{self._state.path}: {error.strerror}: after an interruption the import begins again"
            )


def _stamp(path: Path) -> list[Any]:
    """Return the facts that show whether a file is the same as in an earlier run."""
    stat = path.stat()
    return [str(path), stat.st_size, stat.st_mtime_ns]
