"""Follows a log and keeps one epoch of its history up to date.

    log ──► Follower.step, at most 5 ms ──► fold on version stores ──► one batch: versions, timeline, position
                                                                 └──► now and then, a checkpoint

The fold runs as everywhere; only its stores keep versions. A checkpoint has the rest of the partition's state. A
restart deletes the versions after the checkpoint and folds the log from there, so a process that is killed at any
moment loses time and no data.

An epoch begins with its base (base.py). The newest epoch follows the log. An older one ends where the next begins, and
is folded a little further: until each transaction that was prepared before its end is decided, because its versions may
count before the end.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, overload

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
from ...log.log import ReadableLog
from ..disposer import stores_of
from ..fold.fold_record import Void
from ..fold.messages import effective_time
from ..fold.state import Table
from ..gc_tuning import no_collections
from ..refold import fold_record
from .attribution import AttributionWriter, roll_back_attribution
from .base import CHECKPOINT, END
from .checkpoint import decode_checkpoint, encode_checkpoint, identity
from .decided_parts import PartWriter, roll_back_parts
from .engine import Engine
from .timeline import Figures, put_clock_row, roll_back
from .version_history import VersionHistory
from .version_keys import pack_position
from .version_store import VersionStore, VersionWriter

STEP_S: Final = 0.005
"""A step ends with the record during which this time is over: so long a read waits at most."""

_BATCH_VERSIONS: Final = 1_000
_CHECKPOINT_RECORDS = 10_000
_CHECKPOINT_VERSIONS: Final = 50_000
# The pause after a checkpoint, in multiples of its duration: the state may have the used tokens of ten minutes.
_CHECKPOINT_SPACING: Final = 20
_SYNC_S: Final = 1.0


# The commands and messages that change no definition.
_KEEPS_DEFINITIONS: Final = frozenset(
    (
        *(Put, Update, Delete, Transact, Expire, Load, Checkpoint, RelayAck, Digest, Barrier),
        *(IndexEntry, Prepare, Vote, Decide, Commit, Decided),
    )
)

_ITEM_WRITES: Final = frozenset((Put, Update, Delete))

Clock = Callable[[], float]


class End(NamedTuple):
    """The end of an epoch: the offset of the next one's first record, and the log time before it."""

    offset: int
    time_ms: int


class Follower:
    """See the module.

    Attributes:
        history: The versions of the epoch. They can be read between two steps.
        state: The state of the fold. Its stores show the newest versions.
        end: The end of the epoch; None for the newest.
        is_bounded: Whether the epoch is folded no further than it has to be.
        has_caught_up: Whether the last step has reached the end of the log.
        void: The commands that are known to be void.
        last: The identity of the last folded record.
    """

    def __init__(
        self,
        engine: Engine,
        log: ReadableLog,
        partition: int,
        first_offset: int,
        void: Collection[Void],
        most_versions: float,
        clock: Clock = time.monotonic,
    ) -> None:
        """Continue at the checkpoint.

        Args:
            engine: The storage of the epoch, which has a base.
            log: The log.
            partition: The partition that is folded.
            first_offset: The offset of the first record of the epoch.
            void: The commands that are known to be void.
            most_versions: The number of versions with which the epoch is full.
            clock: Measures the time of a step, in seconds.

        Raises:
            DamagedHistoryError: The storage cannot be read, or has no intact checkpoint.
        """
        self._engine = engine
        self._log = log
        self._partition = partition
        self._clock = clock
        self._first_offset = first_offset
        self.void = void
        self._most_versions = most_versions
        self._records: Iterator[Record] | None = None
        self._synced_at = self._next_save_at = clock()
        self.end: End | None = None
        self.is_bounded = False
        self.has_caught_up = False
        self._load()

    @property
    def is_full(self) -> bool:
        """Whether the epoch ends here, because it has many versions."""
        is_past_end = self.end is not None and self.state.next_offset >= self.end.offset
        return self._versions > self._most_versions and not is_past_end

    @property
    def is_complete(self) -> bool:
        """Whether an epoch with an end has everything that counts before it."""
        end = self.end
        return (
            end is not None
            and self.state.next_offset >= end.offset
            and self.history.closed_before >= end.time_ms
            and all(packed >= pack_position(end.offset, 0) for packed in self._parts.prepared.values())
        )

    def step(self) -> bool:
        """Fold records for at most 5 ms; return whether there may be more.

        Raises:
            FoldError: The fold failed on a record that is not known to be void.
            LateSkipError: A folded command is declared void.
            NewerVersionError: A later release wrote the log.
            LogError: The log cannot be read.
            DamagedHistoryError: The storage cannot be read.
        """
        has_more = self._fold_portion()
        if self._clock() - self._synced_at >= _SYNC_S:
            self._engine.sync()
            self._synced_at = self._clock()
        self.has_caught_up = not has_more
        return has_more

    def inherit(self, older: "Follower") -> None:
        """Keep the items in memory that the follower of the epoch before has read or written, if it ended here."""
        if older.state.next_offset == self.state.next_offset:
            self._writer.inherit(older._writer)
            kept = {store.id: store for store in older._stores()}
            for store in self._stores():
                store.inherit(kept[store.id])

    def end_here(self) -> End:
        """End the epoch after the last folded record, and save the base of the next one. Folding may go on."""
        self.end = End(self.state.next_offset, self.state.log_time)
        self._save(is_end=True)
        return self.end

    def close(self) -> None:
        """Save a checkpoint. The storage remains open."""
        if self.state.next_offset > self._saved_offset:
            self._save()
        self.abandon()

    def abandon(self) -> None:
        """Free the cursor and the batch. Nothing is written."""
        self._writer.close()

    # Beginning

    def _load(self) -> None:
        self._writer = VersionWriter(self._engine)
        saved = decode_checkpoint(self._engine.row(CHECKPOINT), self._new_store)
        end = saved.state.next_offset
        batch = self._engine.batch()
        roll_back(self._engine, batch, end)
        roll_back_attribution(self._engine, batch, end)
        roll_back_parts(self._engine, batch, end)
        batch.write()
        self._writer.reset()
        self.state, self.last, self._versions, prepared = saved
        self.history = VersionHistory(self._engine, self._partition, self._first_offset)
        self._attribution = AttributionWriter(self._partition)
        self._parts = PartWriter(prepared)
        self.history.prepared = self._parts.prepared
        self._mark_global_indexes(self.state.tables.values())
        self._mark_saved()
        self._publish()

    def _stores(self) -> Iterator[VersionStore]:
        for store in stores_of(self.state):
            assert isinstance(store, VersionStore), "the follower has made it"
            yield store

    def _new_store(self, store_id: int, figures: Figures) -> VersionStore:
        return VersionStore(self._engine, self._writer, store_id, figures)

    # Folding

    def _fold_portion(self) -> bool:
        clock, writer = self._clock, self._writer
        until = clock() + STEP_S
        has_more = True
        with no_collections():
            while clock() < until:
                record = self._next_record()
                if record is None:
                    has_more = False
                    break
                self._fold(record)
                if len(writer.unflushed) >= _BATCH_VERSIONS:
                    self._flush()
                if self._stops():
                    break
            self._flush()
        return has_more

    def _stops(self) -> bool:
        """Return whether the step ends before its time, because of the end of the epoch."""
        if self.end is None or self.state.next_offset < self.end.offset:
            return self.is_full
        if self.state.next_offset == self.end.offset:
            self._save(is_end=True)
        self._flush()
        return self.is_bounded and self.is_complete

    def _next_record(self) -> Record | None:
        if self._records is None:
            if self._log.end(self._partition) <= self.state.next_offset:
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
        outcomes = fold_record(self.state, announced_record, self.void)
        offset = record.offset
        for store in self._writer.touched:
            self._versions += len(store.changes)
        self._writer.end_record(offset)
        self._attribution.end_record(
            self._writer.batch, offset, self.state.log_time, entry.commands, outcomes
        )
        if self.state.log_time > before:
            put_clock_row(self._writer.batch, offset, self.state.log_time)
        self.last = identity(record)
        is_due = (
            record.offset - self._saved_offset >= _CHECKPOINT_RECORDS
            or self._versions - self._saved_versions >= _CHECKPOINT_VERSIONS
        )
        if is_due and self._clock() >= self._next_save_at:
            started_at = self._clock()
            self._save()
            self._next_save_at = self._clock() + _CHECKPOINT_SPACING * (self._clock() - started_at)

    def begin_write(self, offset: int, index: int) -> bool:
        """Set the times of the version that a write of an item will write; return whether it has no other effect."""
        state = self.state
        if state.partitions > 1:
            return False
        self._writer.begin_write(state.log_time, pack_position(offset, index))
        return True

    def begin_command(self, offset: int, index: int, command: Command) -> None:
        """Set the times of the versions that the command will write."""
        effective = log_time = self.state.log_time
        if type(command) is Relay:
            effective = effective_time(command, log_time)
        self._writer.begin_command(log_time, effective, pack_position(offset, index))
        if self.state.partitions > 1:
            self._attribution.begin_command(self.state, command)
            self._parts.begin_command(self.state, command)

    def end_command(self, offset: int, index: int, command: Command) -> None:
        """Keep the effects of a command that are no versions: definitions, and refused writes of transactions."""
        kind = type(command.message) if type(command) is Relay else type(command)
        if kind not in _KEEPS_DEFINITIONS:
            self._add_definitions(pack_position(offset, index))
        if self.state.partitions > 1:
            self._attribution.end_command(self.state, offset, index, command)
            self._parts.end_command(self.state, self._writer.batch, pack_position(offset, index), command)

    def _add_definitions(self, packed: int) -> None:
        """Keep the definitions that the last command changed."""
        known, tables = self.history.definitions.newest, self.state.tables
        batch, log_time = self._writer.batch, self.state.log_time
        for table_id in self.state.redefined:
            table = tables.get(table_id)
            definition = None if table is None else table.definition
            if known.get(table_id) != definition:
                self.history.definitions.add(batch, packed, log_time, table_id, definition)
            if table is not None:
                self._mark_global_indexes([table])

    def _mark_global_indexes(self, tables: Iterable[Table]) -> None:
        for table in tables:
            for index in table.indexes.values():
                if isinstance(index.store, VersionStore):
                    index.store.is_global_index = index.definition.kind == "GSI"

    # Writing

    def _flush(self) -> None:
        """Write the versions of the folded records, and make them readable."""
        self._writer.flush()
        self._publish()

    def _publish(self) -> None:
        history, state = self.history, self.state
        history.next_offset = state.next_offset
        history.log_time = state.log_time
        prepared = state.transactions.prepared.values()
        history.closed_before = min([state.log_time, *(part.time for part in prepared)])
        history.limits = state.limits

    def _save(self, *, is_end: bool = False) -> None:
        """Save a checkpoint after the last folded record; at the end of the epoch also as the next one's base."""
        saved = encode_checkpoint(self.state, self.last, self._versions, self._parts.prepared)
        self._writer.batch.put_row(CHECKPOINT, saved)
        if is_end:
            self._writer.batch.put_row(END, saved)
        self._flush()
        self._mark_saved()

    def _mark_saved(self) -> None:
        self._saved_offset = self.state.next_offset
        self._saved_versions = self._versions


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
            if type(command) in _ITEM_WRITES and follower.begin_write(offset, index):
                yield command
                continue
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
