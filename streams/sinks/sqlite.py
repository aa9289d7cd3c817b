"""A sink that keeps a file of SQLite as the tables are: each table as a view of that name, a row an item.

    {"Kind": "sqlite", "Database": "shop"}

    $ sqlite3 data/sqlite/shop.db "SELECT id, json_extract(item, '$.price') FROM Orders"

    foldb:items     table, key ──► the item after the newest change, NULL where it was removed, and the change's number

A batch is one transaction, and of an item only a change with a higher number than the last is taken: what is delivered
again changes nothing. So a row that was removed stays as a mark, which the views do not show. Items are plain JSON,
numbers with all their digits, binary as base64, sets as lists.

A snapshot does not tell what was removed before, so a view that it fills anew is emptied first. Nothing is handled that
was written to a file which somebody has removed or replaced meanwhile: it would be nowhere.
"""

import asyncio
import re
import sqlite3
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

from ...model.descriptions import stream_label
from ...model.errors import ValidationError
from ...model.values import load
from ..formats.table_view import Delivery, TableView
from .file import data_folder
from .sink import Batch, DeliveryResult, Failure, Sink, SinkContext, Success
from .sink_settings import Members, version_of

_NAME: Final = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,128}")
# No table of DynamoDB's has a colon in its name.
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS "foldb:items" (
    table_id INTEGER NOT NULL, pk BLOB NOT NULL, sk BLOB NOT NULL,
    item TEXT, number TEXT NOT NULL, changed TEXT NOT NULL,
    PRIMARY KEY (table_id, pk, sk)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS "foldb:tables" (name TEXT PRIMARY KEY, table_id INTEGER NOT NULL) WITHOUT ROWID;
"""
# A number has 27 digits, so texts compare as the numbers do.
_TAKE: Final = """
INSERT INTO "foldb:items" VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
SET item = excluded.item, number = excluded.number, changed = excluded.changed WHERE excluded.number > number
"""
_KNOW: Final = """
INSERT INTO "foldb:tables" VALUES (?, ?) ON CONFLICT DO UPDATE
SET table_id = excluded.table_id WHERE excluded.table_id > table_id
"""
_FORGET: Final = """
DELETE FROM "foldb:items" WHERE table_id IN (SELECT table_id FROM "foldb:tables" WHERE name = ?)
"""

T = TypeVar("T")


def check(settings: dict[str, Any]) -> None:
    """Refuse what is no name of a file."""
    members = Members(settings, "sqlite")
    if "Database" in settings:
        _named(members.text("Database"))
    members.end()


def check_views(tables: Iterable[str]) -> None:
    """Refuse tables that no view can be named after, or not beside each other.

    Raises:
        ValidationError: SQLite keeps a name to itself, or two differ in capital letters only.
    """
    names: dict[str, str] = {}
    for table in tables:
        if table.lower().startswith("sqlite_"):
            raise ValidationError(
                f"SQLite keeps names that begin with sqlite_ to itself: no view can show {table}"
            )
        other = names.setdefault(table.lower(), table)
        if other != table:
            raise ValidationError(
                f"{other} and {table} are one name to SQLite: give each a file of its own, Sink.Database"
            )


def make(settings: dict[str, Any], surroundings: SinkContext) -> Sink:
    """A sink that writes a file below the database's folder."""
    name = _named(database_of(settings, surroundings.subscription))
    return SqliteSink(settings, surroundings, data_folder(surroundings) / "sqlite" / f"{name}.db")


def database_of(settings: dict[str, Any], subscription: str) -> str:
    """The name of the file that a subscription keeps."""
    name: str = settings.get("Database", subscription)
    return name


def _named(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValidationError(
            "Sink.Database must be a name of letters, digits, '.', '_' and '-', at most 128, and begin with no dot"
        )
    return name


class SqliteSink:
    """Writes each batch in one transaction, in one thread."""

    def __init__(self, settings: dict[str, Any], surroundings: SinkContext, path: Path) -> None:
        self.version = version_of(settings)
        self._path = path
        self._patience_s = surroundings.timeout_s
        self._loop = surroundings.loop
        self._thread = ThreadPoolExecutor(1, f"sqlite-{surroundings.subscription}")
        self._outdated = surroundings.outdated
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None  # which file that is, whatever has its name now
        self._known: set[int] = set()  # tables whose views are there

    async def start(self) -> None:
        """Open the file, or make it."""
        await self._apart(self._begin)

    async def deliver(self, batch: Batch) -> DeliveryResult:
        """Take the batch."""
        return await self._apart(lambda: self._write(batch))

    async def close(self) -> None:
        """Come to an end with what is being written, and let go of the file."""
        await self._apart(self._close)
        await asyncio.to_thread(self._thread.shutdown)

    async def _apart(self, do: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._thread, do)

    def _begin(self) -> None:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self._path, timeout=self._patience_s)
        self._connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;" + _SCHEMA)
        with self._connection:
            self._connection.executemany(_FORGET, [(table,) for table in self._outdated])
        self._opened = self._there()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _there(self) -> tuple[int, int] | None:
        """Which file has the name now."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _write(self, batch: Batch) -> DeliveryResult:
        try:
            self._take(batch)
            is_there = self._there() == self._opened
        except (sqlite3.Error, OSError) as error:
            return Failure(f"{self._path.name} takes nothing: {error}")
        if not is_there:
            # Opening it anew beside another sink that has the old one open would mix the two: they share -wal and -shm.
            return Failure(
                f"{self._path.name} was removed or replaced while it was open: pause its triggers, then resume them"
            )
        return Success()

    def _take(self, batch: Batch) -> None:
        connection = self._connection
        assert connection is not None, "started"
        tables = {each.table.id: each.table for each in batch.changes if each.table.id not in self._known}
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            for table in tables.values():
                _show(connection, table)
            connection.executemany(_TAKE, map(_row, batch.changes))
        self._known.update(tables)


def _row(delivery: Delivery) -> tuple[int, bytes, bytes, str | None, str, str]:
    change = delivery.change
    item = None if change.new is None else _plain(load(change.new))
    changed = stream_label(change.time) + "Z"
    return delivery.table.id, change.pk, change.sk, item, str(delivery.sequence_number), changed


def _show(connection: sqlite3.Connection, table: TableView) -> None:
    """Have the view with the table's name show it, unless it shows one that was made later under that name."""
    if connection.execute(_KNOW, (table.name, table.id)).rowcount:
        keys = [name for name in table.key.names if '"' not in name and "'" not in name and "\\" not in name]
        columns = "".join(f"""json_extract(item, '$."{name}"') AS "{name}", """ for name in keys)
        connection.execute(f'DROP VIEW IF EXISTS "{table.name}"')
        connection.execute(
            f'CREATE VIEW "{table.name}" AS SELECT {columns}item, changed FROM "foldb:items" '  # noqa: S608  # names are checked
            f"WHERE table_id = {table.id:d} AND item IS NOT NULL"
        )


def _plain(item: dict[str, Any]) -> str:
    """An item as plain JSON."""
    return orjson.dumps({name: _value(value) for name, value in item.items()}).decode()


def _value(value: dict[str, Any]) -> Any:
    [(kind, content)] = value.items()
    match kind:
        case "N":
            return orjson.Fragment(content)
        case "NS":
            return [orjson.Fragment(each) for each in content]
        case "NULL":
            return None
        case "M":
            return {name: _value(each) for name, each in content.items()}
        case "L":
            return [_value(each) for each in content]
    return content
