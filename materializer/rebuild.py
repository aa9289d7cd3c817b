"""A table made anew from the log alone.

    records ──► Rebuild.fold, some at a time ──► caught up ──► compare with the live table ──► install

The whole partition is refolded, not only the commands of one table: a transaction decides by the items of all
its tables, so a fold that left some out would be another fold. It goes in portions as large as the caller likes,
on a state of its own, and touches the live state once, at the end, in one step. Whoever dies midway has changed
nothing. Where a table is spread over several partitions, each part is made anew by itself.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from ..log.commands import Defined, DefineTable, DefinitionApplied, Position, Record, Relay, Settle
from .fold.record import Void
from .fold.state import PartitionState, Table
from .refold import fold_record


class Rebuild:
    """A refold under way.

    Attributes:
        state: What has been folded so far.
        commands: How many commands that were.
        dropped: For the name of each table that was deleted, the last position at which it was there.
    """

    def __init__(self, void: Collection[Void] = ()) -> None:
        """Begin one; `void` is what an operator has declared void."""
        self.state = PartitionState()
        self._void = void
        self.commands = 0
        self.dropped: dict[str, int] = {}

    def fold(self, records: Iterator[Record], commands: int, until: int | None = None) -> bool:
        """Fold records until `commands` commands or more are done, and say whether there is more to do.

        Args:
            records: What follows what was folded before.
            commands: When to come back, so that others may go on.
            until: The offset before which to stop, though the log may have more.
        """
        goal = self.commands + commands
        while self.commands < goal:
            if until is not None and self.state.next_offset >= until:
                return False
            record = next(records, None)
            if record is None:
                return False
            self._fold(record)
        return True

    def fold_to(self, records: Iterable[Record], position: Position) -> None:
        """Fold everything up to and including `position`; its index may cut an entry short."""
        for record in records:
            if record.offset == position.offset and position.index is not None:
                commands = record.entry.commands[: position.index + 1]
                record = replace(record, entry=replace(record.entry, commands=commands))
            self._fold(record)
            if record.offset == position.offset:
                return

    def agrees_with(self, live: Table) -> bool:
        """Whether the rebuilt table is the live one: definition, items and index entries, byte for byte."""
        rebuilt = self.state.tables[live.definition.id]
        return (
            live.definition == rebuilt.definition
            and live.items.holds_the_same_as(rebuilt.items)
            and all(self.index_agrees_with(live, name) for name in live.indexes)
        )

    def index_agrees_with(self, live: Table, name: str) -> bool:
        """Whether one index of the rebuilt table is that of the live one, whatever the rest is."""
        here, rebuilt = live.indexes[name], self.state.tables[live.definition.id].indexes[name]
        return (
            here.definition == rebuilt.definition
            and (here.cursor, here.is_sent, here.heard) == (rebuilt.cursor, rebuilt.is_sent, rebuilt.heard)
            and here.store.holds_the_same_as(rebuilt.store)
        )

    def install(self, live: PartitionState, table_id: int) -> None:
        """Put the rebuilt table in the live one's place; both states stand at the same offset."""
        assert self.state.next_offset == live.next_offset, "a table is installed when it has caught up"
        live.tables[table_id] = self.state.tables[table_id]

    def install_index(self, live: PartitionState, table_id: int, name: str) -> None:
        """Put one rebuilt index in the live one's place; the items and the other indexes stay as they are."""
        assert self.state.next_offset == live.next_offset, "an index is installed when it has caught up"
        live.tables[table_id].indexes[name] = self.state.tables[table_id].indexes[name]

    def _fold(self, record: Record) -> None:
        names = set(self.state.names) if _defines(record) else None
        fold_record(self.state, record, self._void)
        self.commands += len(record.entry.commands)
        if names is not None:
            self.dropped |= dict.fromkeys(sorted(names - self.state.names.keys()), record.offset - 1)


def _defines(record: Record) -> bool:
    return any(
        isinstance(command, (DefineTable, Settle))
        or (isinstance(command, Relay) and isinstance(command.message, (Defined, DefinitionApplied)))
        for command in record.entry.commands
    )
