"""A sink that writes files: JSON Lines or Parquet, a folder a table and day, each change in one file only.

    {"Kind": "file", "Folder": "lake", "Format": "parquet"}
    <data>/files/lake/table=Orders/date=2026-11-20/0-<first number>-<last number>-<which>.parquet

A file is what one delivery brought: with BatchSize 10000 and a window of some minutes there are few and large ones.
They stand below the database's folder; a link there leads elsewhere. See `dated.py` for what a crash does.
"""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from ...model.errors import ValidationError
from ..formats.lines import PlainLines
from ..formats.parquet import Parquet, is_installed
from .dated_folders import DatedFolders, FileFormat
from .sink import Batch, DeliveryResult, Failure, Sink, SinkContext, Success
from .sink_settings import Members, version_of

FORMATS: Final = ("jsonl", "parquet")

_FOLDER: Final = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,128}")


def check(settings: dict[str, Any]) -> None:
    """Refuse what is no folder of ours."""
    members = Members(settings, "file")
    if "Folder" in settings:
        _folder_named(members.text("Folder"))
    kind = members.choice("Format", FORMATS, FORMATS[0])
    members.end()
    if kind == "parquet" and not is_installed():
        raise ValidationError('Sink.Format parquet needs pyarrow: pip install "foldb[parquet]"')


def make(settings: dict[str, Any], surroundings: SinkContext) -> Sink:
    """A sink that writes below the database's folder."""
    form: FileFormat = Parquet() if settings.get("Format") == "parquet" else PlainLines()
    name = _folder_named(settings.get("Folder", surroundings.subscription))
    root = data_folder(surroundings) / "files" / name
    folders = DatedFolders(surroundings.disk, root, form, surroundings.instance, by_table=True)
    return FolderSink(settings, surroundings, folders)


def _folder_named(name: str) -> str:
    """Refuse what is no folder below that of all."""
    if not _FOLDER.fullmatch(name):
        raise ValidationError(
            "Sink.Folder must be a name of letters, digits, '.', '_' and '-', at most 128, and begin with no dot"
        )
    return name


def data_folder(surroundings: SinkContext) -> Path:
    """Where files may be written.

    Raises:
        ValidationError: The database is in memory.
    """
    if surroundings.data is None:
        raise ValidationError(
            "a database in memory writes no files: serve a folder, `foldb serve --db FOLDER`"
        )
    return surroundings.data


class FolderSink:
    """Writes each batch into dated folders, in one thread."""

    def __init__(self, settings: dict[str, Any], surroundings: SinkContext, folders: DatedFolders) -> None:
        self.version = version_of(settings)
        self._folders = folders
        self._loop = surroundings.loop
        # One: what is left of a delivery that was cancelled is over before the next looks which changes are there.
        self._thread = ThreadPoolExecutor(1, f"files-{surroundings.subscription}")

    async def start(self) -> None:
        """There is nothing to get ready: folders are made when they are written to."""

    async def deliver(self, batch: Batch) -> DeliveryResult:
        """Write the files of the batch."""
        return await self._loop.run_in_executor(self._thread, self._write, batch)

    async def close(self) -> None:
        """Come to an end with what is being written."""
        await asyncio.to_thread(self._thread.shutdown)

    def _write(self, batch: Batch) -> DeliveryResult:
        try:
            self._folders.write(batch.changes)
        except OSError as error:
            return Failure(f"a file cannot be written: {error}")
        return Success()
