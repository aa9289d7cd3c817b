"""The content of each part of a database's folder, decoded, to search for a text.

A search in the bytes of the files would not find a text that is compressed or encoded.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from foldb.log.local.filesystem import SystemFilesystem
from foldb.log.local.foundation import FOLDERS
from foldb.log.local.reader import LogReader
from foldb.materializer.history.epoch_storage import EpochFolder
from foldb.materializer.snapshot import MAGIC, read_dump, read_head
from foldb.streams.feed.change_store import FOLDER, ChangeStore


def parts_with(folder: Path, text: str) -> set[str]:
    """Return the parts of the folder of an unserved database that have a text: log, snapshots, ...

    The readers open copies, so the folder stays as it is.
    """
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "data"
        shutil.copytree(folder, copy)
        disk = SystemFilesystem()
        log = LogReader(copy, disk)
        partitions = range(log.genesis(0).partitions)
        parts = {
            "log": (str(record) for each in partitions for record in log.read(each, log.begin(each))),
            "foundation": _dumps(each for name in FOLDERS for each in (copy / name).glob("*.base")),
            "snapshots": _dumps(copy.glob("snapshots/**/*")),
            "history": _history(copy / "history"),
            "changes": _changes(copy / FOLDER, log),
        }
        return {name for name, contents in parts.items() if any(text in each for each in contents)}


def _dumps(paths: Iterator[Path]) -> Iterator[str]:
    for path in paths:
        if path.is_file() and path.read_bytes().startswith(MAGIC):
            yield b"".join(read_dump(read_head(SystemFilesystem().open(path)))).decode("latin-1")


def _history(folder: Path) -> Iterator[str]:
    for partition in folder.glob("[0-9]*"):
        storage = EpochFolder(partition)
        for number in storage.numbers():
            engine = storage.open(number)
            for cursor in (engine.versions(), engine.rows()):
                key = cursor.seek(b"")
                while key is not None:
                    yield f"{key!r} {cursor.value()!r}"
                    key = cursor.next()
            engine.close()
        storage.close()


def _changes(folder: Path, log: LogReader) -> Iterator[str]:
    for partition in folder.glob("[0-9]*"):
        store = ChangeStore(partition, log.log_id, int(partition.name))
        store.open(log.end(int(partition.name)))
        for segments in store.found.values():
            yield from map(str, segments.read(0, segments.last))
