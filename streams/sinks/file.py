"""A sink that writes files: JSON Lines or Parquet, one folder per table and day, each change in one file only.

    {"Kind": "file", "Folder": "lake", "Format": "parquet"}
    <data>/files/lake/table=Orders/date=2026-11-20/0-<first number>-<last number>-<hash>.parquet

A file holds the changes of one delivery: a BatchSize of 10000 and a window of some minutes give few, large files. The
files are in the database's folder; a symbolic link may lead elsewhere. dated_folders.py describes crashes.
"""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from ...model.errors import ValidationError
from ...model.subscriptions.setting_types import OneOf, Text
from ..formats.lines import PlainLines
from ..formats.parquet import Parquet, is_installed
from .dated_folders import DatedFolders, FileFormat
from .kind import SinkKind, SinkSetting
from .sink import Batch, ConfiguredSink, DeliveryResult, Failure, Sink, SinkContext, Success

FORMATS: Final = ("jsonl", "parquet")
NAME_MAX: Final = 128

_NAME: Final = re.compile(r"(?!\.)[A-Za-z0-9._-]+")


def check_file_name(member: str, name: str) -> str:
    """Return a name that is safe as a path component.

    Raises:
        ValidationError: The name is too long, begins with a dot, or has other characters.
    """
    if len(name) > NAME_MAX or not _NAME.fullmatch(name):
        raise ValidationError(
            f"{member} must be a name of letters, digits, '.', '_' and '-', at most {NAME_MAX}, and begin with no dot"
        )
    return name


def data_folder(context: SinkContext) -> Path:
    """Return the folder of the database.

    Raises:
        ValidationError: The database is in memory.
    """
    if context.data is None:
        raise ValidationError(
            "a database in memory writes no files: serve a folder, `foldb serve --db FOLDER`"
        )
    return context.data


def make(settings: dict[str, Any], context: SinkContext) -> Sink:
    """Return a sink that writes in the database's folder."""
    form: FileFormat = Parquet() if KIND.value(settings, "Format") == "parquet" else PlainLines()
    name = check_file_name("Sink.Folder", settings.get("Folder", context.subscription))
    root = data_folder(context) / "files" / name
    folders = DatedFolders(context.disk, root, form, context.instance, by_table=True)
    return FolderSink(settings, context, folders)


class FolderSink(ConfiguredSink):
    """Writes each batch into dated folders, in one thread."""

    def __init__(self, settings: dict[str, Any], context: SinkContext, folders: DatedFolders) -> None:
        super().__init__(settings)
        self._folders = folders
        self._loop = context.loop
        # One thread: the rest of a cancelled delivery is written before the next delivery looks for duplicates.
        self._thread = ThreadPoolExecutor(1, f"files-{context.subscription}")

    async def start(self) -> None:
        """Do nothing: the first write creates the folders."""

    async def deliver(self, batch: Batch) -> DeliveryResult:
        """Write the files of the batch."""
        return await self._loop.run_in_executor(self._thread, self._write, batch)

    async def close(self) -> None:
        """Finish the current write."""
        await asyncio.to_thread(self._thread.shutdown)

    def _write(self, batch: Batch) -> DeliveryResult:
        try:
            self._folders.write(batch.changes)
        except OSError as error:
            return Failure(f"a file cannot be written: {error}")
        return Success()


def _verify(sink: dict[str, Any]) -> None:
    if "Folder" in sink:
        check_file_name("Sink.Folder", sink["Folder"])
    if KIND.value(sink, "Format") == "parquet" and not is_installed():
        raise ValidationError('Sink.Format parquet needs pyarrow: pip install "foldb[parquet]"')


KIND: Final = SinkKind(
    name="file",
    flag="--file",
    metavar="FOLDER",
    help="Folder of JSON Lines or Parquet files below `files/` of the database, each change in one file.",
    example="orders",
    flag_member="Folder",
    settings=(
        SinkSetting("Folder", Text(NAME_MAX), None),
        SinkSetting("Format", OneOf(FORMATS), FORMATS[0]),
    ),
    verify=_verify,
    make=make,
    writes="files",
)
