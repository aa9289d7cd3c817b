"""A sink that keeps a SQLite file equal to the tables: one view per table, one row per item.

    {"Kind": "sqlite", "Database": "shop"}

    $ sqlite3 data/sqlite/shop.db "SELECT id, json_extract(item, '$.price') FROM Orders"

    foldb:items     table, key ──► the item after its newest change (NULL if removed), and the change's sequence number

A batch is one transaction. A row takes only a change with a higher sequence number than its last one, so repeated
deliveries have no effect. The row of a removed item therefore remains; the views hide it. Items are plain JSON: numbers
with all digits, binary as base64, sets as lists.

A snapshot holds no removed items, so a view that a snapshot fills is emptied first. If the file is removed or replaced
while it is open, deliveries fail: writes to the old file would be lost.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

from ...model.descriptions import stream_label
from ...model.errors import ValidationError
from ...model.subscriptions.setting_types import Text
from ...model.values import load
from ..formats.table_view import Delivery, TableView
from .file import NAME_MAX, check_file_name, data_folder
from .kind import SinkKind, SinkSetting
from .sink import Batch, ConfiguredSink, DeliveryResult, Failure, Sink, SinkContext, Success

# The name of a DynamoDB table has no colon.
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS "foldb:items" (
    table_id INTEGER NOT NULL, pk BLOB NOT NULL, sk BLOB NOT NULL,
    item TEXT, number TEXT NOT NULL, changed TEXT NOT NULL,
    PRIMARY KEY (table_id, pk, sk)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS "foldb:tables" (name TEXT PRIMARY KEY, table_id INTEGER NOT NULL) WITHOUT ROWID;
"""
# A sequence number has 27 digits, so its text sorts as the number does.
_UPSERT_ITEM: Final = """
INSERT INTO "foldb:items" VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
SET item = excluded.item, number = excluded.number, changed = excluded.changed WHERE excluded.number > number
"""
_UPSERT_TABLE: Final = """
INSERT INTO "foldb:tables" VALUES (?, ?) ON CONFLICT DO UPDATE
SET table_id = excluded.table_id WHERE excluded.table_id > table_id
"""
_DELETE_ITEMS: Final = """
DELETE FROM "foldb:items" WHERE table_id IN (SELECT table_id FROM "foldb:tables" WHERE name = ?)
"""

T = TypeVar("T")


def check_views(tables: Iterable[str]) -> None:
    """Validate that one file can have views with the names of all `tables`.

    Raises:
        ValidationError: SQLite reserves a name, or two names differ in case only.
    """
    names: dict[str, str] = {}
    for table in tables:
        if table.lower().startswith("sqlite_"):
            raise ValidationError(f"SQLite reserves names that begin with sqlite_: no view can show {table}")
        other = names.setdefault(table.lower(), table)
        if other != table:
            raise ValidationError(
                f"{other} and {table} are one name to SQLite: give each a file of its own, Sink.Database"
            )


def database_of(sink: Mapping[str, Any], subscription: str) -> str:
    """Return the name of the file that a subscription writes."""
    name: str = sink.get("Database", subscription)
    return name


def make(settings: dict[str, Any], context: SinkContext) -> Sink:
    """Return a sink that writes a file in the database's folder."""
    name = check_file_name("Sink.Database", database_of(settings, context.subscription))
    return SqliteSink(settings, context, data_folder(context) / "sqlite" / f"{name}.db")


class SqliteSink(ConfiguredSink):
    """Writes each batch in one transaction, in one thread."""

    def __init__(self, settings: dict[str, Any], context: SinkContext, path: Path) -> None:
        super().__init__(settings)
        self._path = path
        self._busy_timeout_s = context.timeout_s
        self._loop = context.loop
        self._thread = ThreadPoolExecutor(1, f"sqlite-{context.subscription}")
        self._outdated = context.outdated
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None  # device and inode of the open file
        self._shown: set[int] = set()  # ids of tables whose views exist

    async def start(self) -> None:
        """Open or create the file."""
        await self._in_thread(self._open)

    async def deliver(self, batch: Batch) -> DeliveryResult:
        return await self._in_thread(lambda: self._write(batch))

    async def close(self) -> None:
        """Finish the current write, and close the file."""
        await self._in_thread(self._close)
        await asyncio.to_thread(self._thread.shutdown)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._thread, work)

    def _open(self) -> None:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self._path, timeout=self._busy_timeout_s)
        self._connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;" + _SCHEMA)
        with self._connection:
            self._connection.executemany(_DELETE_ITEMS, [(table,) for table in self._outdated])
        self._opened = self._inode()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _inode(self) -> tuple[int, int] | None:
        """Return device and inode of the file that has the name now."""
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            return None
        return stat.st_dev, stat.st_ino

    def _write(self, batch: Batch) -> DeliveryResult:
        try:
            self._upsert(batch)
            is_current = self._inode() == self._opened
        except (sqlite3.Error, OSError) as error:
            return Failure(f"{self._path.name} cannot be written: {error}")
        if not is_current:
            # Reopening the path would share -wal and -shm with a sink that still has the old file open.
            return Failure(
                f"{self._path.name} was removed or replaced while it was open: pause its triggers, then resume them"
            )
        return Success()

    def _upsert(self, batch: Batch) -> None:
        connection = self._connection
        assert connection is not None, "the sink is started"
        tables = {each.table.id: each.table for each in batch.changes if each.table.id not in self._shown}
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            for table in tables.values():
                _create_view(connection, table)
            connection.executemany(_UPSERT_ITEM, map(_row, batch.changes))
        self._shown.update(tables)


def _row(delivery: Delivery) -> tuple[int, bytes, bytes, str | None, str, str]:
    change = delivery.change
    item = None if change.new is None else _plain(load(change.new))
    changed = stream_label(change.time) + "Z"
    return delivery.table.id, change.pk, change.sk, item, str(delivery.sequence_number), changed


def _create_view(connection: sqlite3.Connection, table: TableView) -> None:
    """Create the view of a table, unless the view shows a later table of the same name."""
    if connection.execute(_UPSERT_TABLE, (table.name, table.id)).rowcount:
        keys = [name for name in table.key.names if '"' not in name and "'" not in name and "\\" not in name]
        columns = "".join(f"""json_extract(item, '$."{name}"') AS "{name}", """ for name in keys)
        connection.execute(f'DROP VIEW IF EXISTS "{table.name}"')
        connection.execute(
            f'CREATE VIEW "{table.name}" AS SELECT {columns}item, changed FROM "foldb:items" '  # noqa: S608  # names are checked
            f"WHERE table_id = {table.id:d} AND item IS NOT NULL"
        )


def _plain(item: dict[str, Any]) -> str:
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


def _verify(sink: dict[str, Any]) -> None:
    if "Database" in sink:
        check_file_name("Sink.Database", sink["Database"])


KIND: Final = SinkKind(
    name="sqlite",
    flag="--sqlite",
    metavar="NAME",
    help="SQLite file below `sqlite/` of the database, with each table as a view of its current items.",
    example="shop",
    flag_member="Database",
    settings=(SinkSetting("Database", Text(NAME_MAX), None),),
    verify=_verify,
    make=make,
    writes="databases",
    shared_target=database_of,
    check_tables=check_views,
)
