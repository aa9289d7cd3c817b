"""A log in a list, and the content of states at cuts, for tests of histories."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from foldb.log.chain import Chain
from foldb.log.commands import Commit, Genesis, Record, Relay
from foldb.log.local.filesystem import File
from foldb.materializer.fold import fold
from foldb.materializer.fold.dump import dump
from foldb.materializer.fold.fold_record import Void
from foldb.materializer.fold.load import load
from foldb.materializer.fold.state import PartitionState, Table
from foldb.materializer.fold.storage import Store
from foldb.materializer.history.epochs import Epochs
from foldb.materializer.history.version_history import VersionHistory
from foldb.materializer.snapshot import SnapshotHead, write_snapshot
from tests.unit.log.fake_disk import FakeDisk


class ListLog:
    """The records of one partition, from offset `first` on."""

    def __init__(self, records: Sequence[Record], first: int = 0) -> None:
        self.records = records
        self.first = first

    def read(self, partition: int, start: int = 0) -> Iterator[Record]:
        first = max(start, self.first)
        return iter([record for record in self.records[first:] if record.partition == partition])

    def begin(self, _: int) -> int:
        return self.first

    def bases(self, partition: int) -> Iterator[tuple[str, File]]:
        """Yield a snapshot of the state before the first record."""
        if not self.first:
            return
        state, chain = PartitionState(), Chain(self.genesis(partition))
        for record in self.records[: self.first]:
            fold(state, record)
            chain.extend(record)
        file = FakeDisk().open(Path("/base"), create=True)
        write_snapshot(file, SnapshotHead.of(state, b"", chain.value), state)
        yield "base", file

    def end(self, _: int) -> int:
        return len(self.records)

    @property
    def log_id(self) -> bytes:
        return self.genesis(0).log_id

    def hash_of(self, _: int, offset: int) -> bytes:
        """Return a hash of the records up to an offset."""
        hashed = blake2b(digest_size=32)
        for record in self.records[: offset + 1]:
            hashed.update(repr(record).encode())
        return hashed.digest()

    def genesis(self, _: int) -> Genesis:
        [command] = self.records[0].entry.commands
        assert isinstance(command, Genesis)
        return command


def newest(follower: Epochs) -> VersionHistory:
    """Return the epoch that follows the log."""
    assert follower.newest is not None
    return follower.newest


def content(tables: Mapping[int, Table]) -> dict[int, Any]:
    """Return everything that a read of these tables can show."""
    return {
        table_id: (
            table.definition,
            _content_of(table.items),
            {name: _content_of(index.store) for name, index in table.indexes.items()},
        )
        for table_id, table in tables.items()
    }


def _content_of(store: Store) -> tuple[Any, ...]:
    return list(store.scan()), store.count, store.size


def states(
    records: Sequence[Record], void: Sequence[Void] = ()
) -> Iterator[tuple[int, int | None, PartitionState]]:
    """Yield offset, index and state after each command, then after each record: the model, folded in memory."""
    state = PartitionState()
    for record in records:
        commands = record.entry.commands
        for index in range(len(commands) - 1):
            part = load(dump(state))
            fold(part, replace(record, entry=replace(record.entry, commands=commands[: index + 1])), void)
            yield record.offset, index, part
        fold(state, record, void)
        yield record.offset, None, state


class TimeModel:
    """The content of one partition's stores at any time: every version of every key, sorted by effective time.

    The versions are the differences between the states after consecutive commands, and not those that a store wrote.
    The effective time is computed from the log alone.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        self._versions: dict[int, list[tuple[int, tuple[Any, ...], Any]]] = {}
        self._definitions: list[tuple[int, dict[int, Any]]] = []
        self.times: list[int] = []
        before: dict[int, dict[Any, Any]] = {}
        for offset, index, state in states(records):
            commands = records[offset].entry.commands
            command = commands[len(commands) - 1 if index is None else index]
            effective = state.log_time
            if isinstance(command, Relay):
                message = command.message
                if isinstance(message, Commit) and message.changing is not None:
                    effective = command.time
            after = _items(state)
            global_indexes = {index.id for table in state.tables.values() for index in table.definition.gsis}
            for store, items in after.items():
                old = before.get(store, {})
                for key in sorted(old.keys() | items.keys()):
                    if old.get(key) != items.get(key):
                        time_ms = state.log_time if store in global_indexes else effective
                        version = (time_ms, key, items.get(key))
                        self._versions.setdefault(store, []).append(version)
            before = after
            tables = {table_id: table.definition for table_id, table in state.tables.items()}
            self._definitions.append((state.log_time, tables))
            self.times.append(state.log_time)
        for versions in self._versions.values():
            versions.sort(key=lambda version: version[0])  # stable: by position where times are equal

    def content(self, time_ms: int) -> dict[int, Any]:
        """Return the content of all tables at a time, in the form of `content`."""
        tables = [tables for log_time, tables in self._definitions if log_time <= time_ms][-1]
        return {
            table_id: (
                definition,
                self._store(table_id, time_ms),
                {index.name: self._store(index.id, time_ms) for index in definition.indexes},
            )
            for table_id, definition in tables.items()
        }

    def _store(self, store: int, time_ms: int) -> tuple[Any, ...]:
        items: dict[Any, Any] = {}
        for effective, key, item in self._versions.get(store, ()):
            if effective <= time_ms:
                items[key] = item
        found = [(*key, item) for key, item in sorted(items.items()) if item is not None]
        return found, len(found), sum(entry[-1][1] for entry in found)


def _items(state: PartitionState) -> dict[int, dict[Any, Any]]:
    stores = [
        (store_id, store)
        for table in state.tables.values()
        for store_id, store in (
            (table.definition.id, table.items),
            *((index.definition.id, index.store) for index in table.indexes.values()),
        )
    ]
    return {store_id: {entry[:3]: entry[3] for entry in store.scan()} for store_id, store in stores}
