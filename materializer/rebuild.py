"""Rebuilds a table from the log alone.

    records ──► Rebuild.fold, a portion at a time ──► caught up ──► Comparison, a portion at a time ──► install

The whole partition is refolded, not only the commands of one table: a transaction decides by the items of all its
tables, so a fold without some of them would be another fold. The caller sets the size of the portions. The refold
has a state of its own, and changes the live state once, at the end, in one step that only exchanges references. A
crash before that has changed nothing. With several partitions each rebuilds its own part of the table.

A comparison continues while both states fold new records. Each of its portions is taken when both are at the same
position, and equal stores then stay equal: both fold the same commands.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from itertools import islice

from ..log.commands import Position, Record
from .fold.fold_record import Void
from .fold.state import Index, PartitionState, Table
from .fold.storage import Store
from .fold.view import ScanPosition
from .portions import portion, steps
from .refold import fold_record


class Rebuild:
    """A refold under way.

    Attributes:
        state: The state after the records folded so far.
        commands: The number of commands folded so far.
        dropped: By name of a deleted table, the last position at which it existed.
    """

    def __init__(
        self,
        void: Collection[Void] = (),
        dispose: Callable[[list[Store]], None] | None = None,
        state: PartitionState | None = None,
    ) -> None:
        """Begin a refold.

        Args:
            void: The commands that an operator has declared void.
            dispose: Receives the stores of tables that are deleted during the refold.
            state: The state with which the log begins (foundation.py); None for an empty one.
        """
        self.state = PartitionState() if state is None else state
        self._void = void
        self._dispose = dispose
        self.commands = 0
        self.dropped: dict[str, int] = {}

    def fold(self, records: Iterator[Record], most: int, until: int | None = None) -> bool:
        """Fold a portion of records, and return whether more may follow.

        Args:
            records: The records after those that are folded.
            most: The portion ends with the record that brings it to this number of steps (portions.py).
            until: The offset before which to stop, even if the log has more.
        """
        done = 0
        while done < most:
            if until is not None and self.state.next_offset >= until:
                return False
            record = next(records, None)
            if record is None:
                return False
            self._fold(record)
            done += sum(map(steps, record.entry.commands))
        return True

    def fold_to(self, records: Iterable[Record], position: Position) -> None:
        """Fold everything up to and including `position`; its index may cut an entry short."""
        for record in records:
            if record.offset > position.offset:
                return  # the position is that of the state with which the log begins
            if record.offset == position.offset and position.index is not None:
                commands = record.entry.commands[: position.index + 1]
                record = replace(record, entry=replace(record.entry, commands=commands))
            self._fold(record)
            if record.offset == position.offset:
                return

    def install(self, live: PartitionState, table_id: int) -> Table:
        """Exchange the live table and the rebuilt one, and return the table that was live."""
        assert self.state.next_offset == live.next_offset, "a table is installed when it has caught up"
        replaced = live.tables[table_id]
        live.tables[table_id], self.state.tables[table_id] = self.state.tables[table_id], replaced
        return replaced

    def install_index(self, live: PartitionState, table_id: int, name: str) -> None:
        """Exchange the live index and the rebuilt one; the items and the other indexes do not change."""
        assert self.state.next_offset == live.next_offset, "an index is installed when it has caught up"
        here, rebuilt = live.tables[table_id].indexes, self.state.tables[table_id].indexes
        here[name], rebuilt[name] = rebuilt[name], here[name]

    def _fold(self, record: Record) -> None:
        fold_record(self.state, record, self._void, self._dispose)
        self.commands += len(record.entry.commands)
        for definition in self.state.redefined.values():
            if definition is not None and definition.name not in self.state.names:
                self.dropped[definition.name] = record.offset - 1


class RebuildComparison:
    """Compares a rebuilt table with the live one, or one index of it, in portions.

    Attributes:
        same: Whether everything compared so far is equal, byte for byte.
    """

    def __init__(self, index: str | None = None) -> None:
        """Begin a comparison; `index` names the one index to compare, None means definition, items and all indexes."""
        self.same = True
        self._index = index
        self._done: set[int] = set()  # ids of the table and the indexes that are compared
        self._place: ScanPosition | None = None  # the last compared entry of the next store

    def advance(self, live: Table, rebuilt: Table, items: int) -> bool:
        """Compare up to `items` items, and return whether there are more.

        Both tables must be at the same position of the log. Indexes may be added and deleted between two calls.
        """
        if not self._are_defined_alike(live, rebuilt):
            self.same = False
        pair = self._next_pair(live, rebuilt) if self.same else None
        if pair is None:
            return False
        owner, here, there = pair
        entries, more = portion(here.scan(self._place), items)
        if entries != list(islice(there.scan(self._place), len(entries) if more else len(entries) + 1)):
            self.same = False
            return False
        if more:
            self._place = entries[-1][:3]
        else:
            self._place = None
            self._done.add(owner)
        return True

    def _are_defined_alike(self, live: Table, rebuilt: Table) -> bool:
        if self._index is not None:
            return _is_same_but_entries(live.indexes[self._index], rebuilt.indexes.get(self._index))
        return live.definition == rebuilt.definition and all(
            _is_same_but_entries(index, rebuilt.indexes.get(name)) for name, index in live.indexes.items()
        )

    def _next_pair(self, live: Table, rebuilt: Table) -> tuple[int, Store, Store] | None:
        """Return the id of the next store to compare, the live store and the rebuilt one."""
        if self._index is None and live.definition.id not in self._done:
            return live.definition.id, live.items, rebuilt.items
        for name, index in live.indexes.items():
            if index.definition.id not in self._done and self._index in (None, name):
                return index.definition.id, index.store, rebuilt.indexes[name].store
        return None


def _is_same_but_entries(live: Index, rebuilt: Index | None) -> bool:
    return rebuilt is not None and (live.definition, live.cursor, live.is_sent, live.complete_senders) == (
        rebuilt.definition,
        rebuilt.cursor,
        rebuilt.is_sent,
        rebuilt.complete_senders,
    )
