"""Follows a log and keeps a history of it up to date.

    log ──► Follower.step, at most 5 ms ──► fold on version stores ──► one batch: versions, timeline, position
                                                                 └──► now and then, a checkpoint

The fold runs as everywhere; only its stores keep versions. A checkpoint has the rest of the partition's state. A
restart deletes the versions after the checkpoint and folds the log from there, so a process that is killed at any
moment loses time and no data.

A trimmed log begins with the state before its first record, and the history with versions of its items.

The history is derived from the log. Everything is deleted and folded again if the log is not the one that was folded,
the log was trimmed, an older command is declared void, or the storage is damaged or of another format.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol, overload

import orjson

from ...log.commands import (
    Barrier,
    Checkpoint,
    Command,
    Commit,
    Decide,
    Decided,
    Delete,
    Digest,
    Entry,
    Expire,
    IndexEntry,
    Load,
    Prepare,
    Put,
    Record,
    Relay,
    RelayAck,
    Transact,
    Update,
    Vote,
)
from ..disposer import stores_of
from ..fold.dump import outline
from ..fold.fold_record import LateSkipError, Void
from ..fold.load import load
from ..fold.messages import effective_time
from ..fold.state import PartitionState
from ..foundation import initial_state
from ..refold import FoldError, ReadableLog, fold_record, more_void
from .attribution import AttributionWriter, roll_back_attribution
from .engine import DamagedHistoryError, Engine, HistoryInUseError
from .memory_engine import MemoryEngine
from .timeline import Figures, put_clock_row, put_timeline_row, roll_back
from .version_history import VersionHistory
from .version_keys import pack_position
from .version_store import VersionStore, VersionWriter

FORMAT: Final = 2
"""The format of the rows and versions. A history of another format is deleted and folded again."""

STEP_S: Final = 0.005
"""A step ends with the record during which this time is over: so long a read waits at most."""

_BATCH_VERSIONS: Final = 1_000
_CHECKPOINT_RECORDS: Final = 10_000
_CHECKPOINT_VERSIONS: Final = 50_000
# The pause after a checkpoint, in multiples of its duration: the state may have the used tokens of ten minutes.
_CHECKPOINT_SPACING: Final = 20
_SYNC_S: Final = 1.0

_HEAD: Final = b"H"
_POSITION: Final = b"P"
_CHECKPOINT: Final = b"K"

# The commands and messages that change no definition.
_KEEPS_DEFINITIONS: Final = frozenset(
    (
        *(Put, Update, Delete, Transact, Expire, Load, Checkpoint, RelayAck, Digest, Barrier),
        *(IndexEntry, Prepare, Vote, Decide, Commit, Decided),
    )
)

logger = logging.getLogger(__name__)

Clock = Callable[[], float]


class _TrimmedError(Exception):
    """The log begins with a later record than the history."""


class FollowedLog(ReadableLog, Protocol):
    """The part of a log that a follower needs; a reader beside its writer has it too."""

    def end(self, partition: int) -> int: ...


class Follower:
    """See the module.

    Attributes:
        history: The history. It can be read between two steps.
        state: The state of the fold. Its stores show the newest versions.
    """

    def __init__(
        self, engine: Engine, log: FollowedLog, partition: int, clock: Clock = time.monotonic
    ) -> None:
        """Continue with the storage's content if it is of this log; otherwise begin again."""
        self._engine = engine
        self._log = log
        self._partition = partition
        self._clock = clock
        self._genesis = log.genesis(partition)
        self._base = self._genesis.base
        self._void: frozenset[Void] = frozenset()
        self._records: Iterator[Record] | None = None
        self._synced_at = self._next_save_at = clock()
        try:
            fault = self._load()
        except DamagedHistoryError as error:
            fault = str(error)
        if fault is not None:
            self.begin_again(fault)

    def step(self) -> bool:
        """Fold records for at most 5 ms; return whether the log may have more.

        Raises:
            FoldError: The fold failed on a record that is not declared void.
            NewerVersionError: A later release wrote the log.
            LogError: The log cannot be read.
        """
        try:
            has_more = self._fold_portion()
        except (FoldError, LateSkipError) as error:
            self._void = more_void(self._void, error, self._log, self._partition)
            self.begin_again("an older command was declared void")
            return True
        except (DamagedHistoryError, _TrimmedError) as error:
            self.begin_again(str(error))
            return True
        if self._clock() - self._synced_at >= _SYNC_S:
            self._engine.sync()
            self._synced_at = self._clock()
        return has_more

    def catch_up(self) -> None:
        """Fold the log to its present end."""
        while self.step():
            pass

    def declare_void(self, void: Collection[Void]) -> None:
        """Begin again if one of these records and commands of the log was not skipped."""
        if more := {each for each in void if each[0] >= self._first_offset} - self._void:
            self._void |= more
            self.begin_again("an older command was declared void")

    def begin_again(self, reason: str) -> None:
        """Delete the history and begin at the start of the log."""
        logger.warning("the history of partition %d is folded again: %s", self._partition, reason)
        self._engine.clear()
        self._begin()

    def close(self) -> None:
        """Save a checkpoint and release the storage."""
        if self.state.next_offset > self._saved_offset:
            self._save()
        self._writer.close()
        self._engine.close()

    # Beginning

    def _begin(self) -> None:
        """Begin at the start of the log, in an empty storage."""
        self._first_offset = self._log.begin(self._partition)
        self.history = VersionHistory(self._engine, self._partition, self._base + self._first_offset)
        self._writer = VersionWriter(self._engine)
        self._attribution = AttributionWriter(self._partition)
        self._figures: dict[int, Figures] = {}
        self._records = None
        self.state = PartitionState(new_store=self._new_store)
        self._last: list[Any] = []
        if self._first_offset:
            self._add_foundation(initial_state(self._log, self._partition))
        self._writer.batch.put_row(_HEAD, orjson.dumps(self._head()))
        self._save()

    def _add_foundation(self, foundation: PartitionState) -> None:
        """Continue from the state before the first record of a trimmed log: add its items as versions."""
        self.state = load(outline(foundation), self._new_store)
        writer, offset, log_time = self._writer, self._base + self._first_offset - 1, foundation.log_time
        packed = pack_position(offset, None)
        writer.begin_command(log_time, log_time, packed)
        for source, store in zip(stores_of(foundation), stores_of(self.state), strict=True):
            entries = source.scan()
            while chunk := list(islice(entries, _BATCH_VERSIONS)):
                _, pks, sks, items = zip(*chunk, strict=True)
                store.extend(pks, sks, items)
                writer.flush_foundation()
            assert isinstance(store, VersionStore)
            put_timeline_row(writer.batch, store.prefix, offset, Figures(store.count, store.size), [])
        put_clock_row(writer.batch, offset, log_time)
        self._add_definitions(packed)

    def _load(self) -> str | None:
        """Continue at the checkpoint; return a sentence if that is impossible, and the history has to begin again."""
        engine = self._engine
        text = engine.row(_HEAD)
        if text is None:
            self._begin()
            return None
        self._first_offset = self._log.begin(self._partition)
        head = orjson.loads(text)
        self._void = frozenset((offset, index) for offset, index in head.get("void", ()))
        if head != self._head():
            return "it is of another log or release, or the log was trimmed"
        saved = engine.row(_CHECKPOINT)
        if saved is None:
            return "it has no checkpoint"
        try:
            self._load_checkpoint(saved)
        except (ValueError, KeyError, TypeError) as error:
            return f"its checkpoint is damaged: {error}"
        if not self._continues():
            return "the log has another record at its checkpoint"
        return None

    def _continues(self) -> bool:
        """Return whether the log has the last record of the checkpoint."""
        last = self.state.next_offset - 1
        if last < self._first_offset:
            return True
        if self._log.end(self._partition) <= last:
            return False
        return self._last == _identity(next(self._log.read(self._partition, last)))

    def _load_checkpoint(self, saved: bytes) -> None:
        length = int.from_bytes(saved[:8], "big")
        fields, outline_of_state = orjson.loads(saved[8 : 8 + length]), saved[8 + length :]
        batch = self._engine.batch()
        roll_back(self._engine, batch, self._base + fields["next_offset"])
        roll_back_attribution(self._engine, batch, self._base + fields["next_offset"])
        batch.put_row(_POSITION, _encoded(fields["next_offset"]))
        batch.write()
        self.history = VersionHistory(self._engine, self._partition, self._base + self._first_offset)
        self._writer = VersionWriter(self._engine)
        self._attribution = AttributionWriter(self._partition)
        self._figures = {store: Figures(count, size) for store, count, size in fields["figures"]}
        self._last = fields["last"]
        self.state = load([outline_of_state], self._new_store)
        for coordinator, number, log_time in fields["prepared"]:
            self.state.transactions.prepared[coordinator, number].time = log_time  # a dump does not have it
        self._mark_global_indexes()
        self._mark_saved()
        self._publish()

    def _new_store(self, store_id: int, _: bool) -> VersionStore:
        figures = self._figures.get(store_id, Figures(0, 0))
        return VersionStore(self._engine, self._writer, store_id, figures)

    def _head(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "log_id": self._genesis.log_id.hex(),
            "partition": self._partition,
            "partitions": self._genesis.partitions,
            "base": self._base,
            "first_offset": self._first_offset,
            "void": sorted([offset, index] for offset, index in self._void),
        }

    # Folding

    def _fold_portion(self) -> bool:
        clock, writer = self._clock, self._writer
        until = clock() + STEP_S
        has_more = True
        while clock() < until:
            record = self._next_record()
            if record is None:
                has_more = False
                break
            self._fold(record)
            if len(writer.unflushed) >= _BATCH_VERSIONS:
                self._flush()
        self._flush()
        return has_more

    def _next_record(self) -> Record | None:
        if self._records is None:
            end = self._log.end(self._partition)
            if self._log.begin(self._partition) != self._first_offset:
                raise _TrimmedError("the log was trimmed")
            if end <= self.state.next_offset:
                return None
            self._records = self._log.read(self._partition, self.state.next_offset)
        record = next(self._records, None)
        if record is None:
            self._records = None
        return record

    def _fold(self, record: Record) -> None:
        before, entry = self.state.log_time, record.entry
        steps = _Steps(self, record.offset, entry.commands)
        announced = Entry(entry.origin, entry.entry_number, steps, entry.time, entry.salt)
        announced_record = Record(record.partition, record.offset, record.time, announced)
        outcomes = fold_record(self.state, announced_record, self._void)
        offset = self._base + record.offset
        self._writer.end_record(offset)
        self._attribution.end_record(
            self._writer.batch, offset, self.state.log_time, entry.commands, outcomes
        )
        if self.state.log_time > before:
            put_clock_row(self._writer.batch, offset, self.state.log_time)
        self._last = _identity(record)
        is_due = (
            record.offset - self._saved_offset >= _CHECKPOINT_RECORDS
            or self._writer.versions - self._saved_versions >= _CHECKPOINT_VERSIONS
        )
        if is_due and self._clock() >= self._next_save_at:
            started_at = self._clock()
            self._save()
            self._next_save_at = self._clock() + _CHECKPOINT_SPACING * (self._clock() - started_at)

    def begin_command(self, offset: int, index: int, command: Command) -> None:
        """Set the times of the versions that the command will write."""
        effective = log_time = self.state.log_time
        if type(command) is Relay:
            effective = effective_time(command, log_time)
        self._writer.begin_command(log_time, effective, pack_position(self._base + offset, index))
        if self.state.partitions > 1:
            self._attribution.begin_command(self.state, command)

    def end_command(self, offset: int, index: int, command: Command) -> None:
        """Keep the effects of a command that are no versions: definitions, and refused writes of transactions."""
        kind = type(command.message) if type(command) is Relay else type(command)
        if kind not in _KEEPS_DEFINITIONS:
            self._add_definitions(pack_position(self._base + offset, index))
        if self.state.partitions > 1:
            self._attribution.end_command(self.state, offset, index, command)

    def _add_definitions(self, packed: int) -> None:
        """Keep the definitions that the last command changed."""
        known, tables = self.history.definitions.newest(), self.state.tables
        changed = {
            table_id: table.definition
            for table_id, table in tables.items()
            if known.get(table_id) is not table.definition and known.get(table_id) != table.definition
        }
        batch, log_time = self._writer.batch, self.state.log_time
        for table_id in [table_id for table_id in known if table_id not in tables]:
            self.history.definitions.add(batch, packed, log_time, table_id, None)
        for table_id, definition in changed.items():
            self.history.definitions.add(batch, packed, log_time, table_id, definition)

        self._mark_global_indexes()

    def _mark_global_indexes(self) -> None:
        for table in self.state.tables.values():
            for index in table.indexes.values():
                if isinstance(index.store, VersionStore):
                    index.store.is_global_index = index.definition.kind == "GSI"

    # Writing

    def _flush(self) -> None:
        """Write the versions of the folded records, and make them readable."""
        self._writer.batch.put_row(_POSITION, _encoded(self.state.next_offset))
        self._writer.flush()
        self._publish()

    def _publish(self) -> None:
        history, state = self.history, self.state
        history.next_offset = self._base + state.next_offset
        history.log_time = state.log_time
        prepared = state.transactions.prepared.values()
        history.closed_before = min([state.log_time, *(part.time for part in prepared)])
        history.limits = state.limits

    def _save(self) -> None:
        """Save a checkpoint after the last folded record."""
        state = self.state
        stores = {
            store.id: [store.id, store.count, store.size]
            for table in state.tables.values()
            for store in (table.items, *(index.store for index in table.indexes.values()))
            if isinstance(store, VersionStore)
        }
        fields = orjson.dumps(
            {
                "next_offset": state.next_offset,
                "figures": list(stores.values()),
                "prepared": [
                    [*transaction_id, part.time]
                    for transaction_id, part in state.transactions.prepared.items()
                ],
                "last": self._last,
            }
        )
        saved = b"".join([len(fields).to_bytes(8, "big"), fields, *outline(state)])
        self._writer.batch.put_row(_CHECKPOINT, saved)
        self._flush()
        self._mark_saved()

    def _mark_saved(self) -> None:
        self._saved_offset = self.state.next_offset
        self._saved_versions = self._writer.versions


class _Steps(Sequence[Command]):
    """The commands of an entry, which announce themselves to the follower as the fold takes them.

    The fold iterates over the commands and folds each before it takes the next. So the server's fold needs no hook for
    histories.
    """

    def __init__(self, follower: Follower, offset: int, commands: Sequence[Command]) -> None:
        self._follower = follower
        self._offset = offset
        self._commands = commands

    def __iter__(self) -> Iterator[Command]:
        follower, offset = self._follower, self._offset
        for index, command in enumerate(self._commands):
            follower.begin_command(offset, index, command)
            yield command
            follower.end_command(offset, index, command)

    def __len__(self) -> int:
        return len(self._commands)

    @overload
    def __getitem__(self, index: int) -> Command: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Command]: ...

    def __getitem__(self, index: int | slice) -> Command | Sequence[Command]:
        return self._commands[index]


def open_history(folder: Path, log: FollowedLog, partition: int, clock: Clock = time.monotonic) -> Follower:
    """Open the history of a partition in `folder`, or begin it. No other process may have it open.

    Raises:
        HistoryInUseError: Another process has opened the history.
    """
    from .rocks_engine import RocksEngine  # the library of RocksDB: a serving process does not load it

    return Follower(RocksEngine(folder / f"{partition}"), log, partition, clock)


def delete_idle_histories(folder: Path) -> None:
    """Delete the histories in `folder` that no process has open. An open one begins again after a trim by itself."""
    from .rocks_engine import RocksEngine

    for each in sorted(folder.glob("[0-9]*")):
        with suppress(HistoryInUseError):
            engine = RocksEngine(each)
            engine.clear()
            engine.close()


def memory_history(log: FollowedLog, partition: int, clock: Clock = time.monotonic) -> Follower:
    """Begin a history in memory, of a log in memory."""
    return Follower(MemoryEngine(), log, partition, clock)


def _identity(record: Record) -> list[Any]:
    """Return values that a record at the same offset of another log does not have."""
    return [record.offset, record.time, record.entry.origin.hex(), record.entry.entry_number]


def _encoded(number: int) -> bytes:
    return number.to_bytes(8, "big")
