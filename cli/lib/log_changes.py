"""The changes that a log holds, with no server: whoever wants them folds it along.

    log ──► records in the order of log time ──► fold ──► changes ──► deliveries

So any change of any table can be read, also of one that is gone, or whose stream was never enabled.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ...log.commands import Context, Record
from ...materializer.fold.outcomes import Change, sequence_number
from ...materializer.fold.state import PartitionState, Table
from ...materializer.refold import fold_record
from ...model.slots import CATALOG
from ...model.subscriptions import Subscription
from ...model.tables import TableDefinition
from ...streams.changes import changes
from ...streams.formats.table_view import Delivery, TableView, view_of
from .errors import CommandError, ExitCode
from .log_history import in_order, read_position, void_in
from .log_location import Readable
from .start_position import Start

_LOOK_AGAIN_S: Final = 0.2
_NO_NUMBER: Final = 10**40  # no change has one as high
_LAST: Final = 10**4 - 1  # of an entry's commands, and of a command's changes

Within = Callable[[Delivery], bool]


class LogChanges:
    """Folds a log and yields what it changed in `tables`, or in all."""

    def __init__(
        self, log: Readable, tables: Iterable[str] = (), advance: Callable[[int], None] | None = None
    ) -> None:
        self._log = log
        self._wanted = frozenset(tables)
        self._advance = advance or (lambda _: None)
        self._void = {number: void_in(log, number) for number in range(log.partitions)}
        self._states: dict[int, PartitionState] = defaultdict(PartitionState)
        self._definitions: dict[int, TableDefinition] = {}
        self._views: dict[int, TableView] = {}

    @property
    def names(self) -> set[str]:
        """Of all tables that there were so far."""
        return {view.name for view in self._views.values()}

    @property
    def subscriptions(self) -> dict[str, Subscription]:
        """Those that there are where the fold is now, by name."""
        return self._states[CATALOG].subscriptions

    def key_names(self, table: str) -> list[str]:
        """The key attributes of the last table that had that name."""
        views = [view for view in self._views.values() if view.name == table]
        return list(max(views, key=lambda view: view.id).key.names) if views else []

    def changes(self) -> Iterator[Delivery]:
        """All changes up to where the log ends now, in the order of log time; the next call goes on from there."""
        behind = {
            number: self._states[number].next_offset
            for number in range(self._log.partitions)
            if self._log.end(number) > self._states[number].next_offset
        }
        for record in in_order(self._log, behind) if behind else ():
            yield from self._fold(record)
            self._advance(1)

    def follow(self) -> Iterator[Delivery]:
        """What is changed from where the fold is now on, for ever."""
        while True:
            yield from self.changes()
            time.sleep(_LOOK_AGAIN_S)

    def items(self) -> Iterator[Delivery]:
        """The items as they are where the fold is now: each as a change that only found it."""
        for partition, state in sorted(self._states.items()):
            number = sequence_number(_base(state) + state.next_offset - 1, _LAST, _LAST)
            for table in state.tables.values():
                view = self._view(table)
                if not self._wants(view):
                    continue
                for _, pk, sk, stored in table.items.scan():
                    found = Change(
                        view.id, pk, sk, None, stored[0], number, state.log_time, Context(""), is_read=True
                    )
                    yield Delivery(found, partition, view)

    def _fold(self, record: Record) -> Iterator[Delivery]:
        state = self._states[record.partition]
        for change in changes(fold_record(state, record, self._void[record.partition])):
            table = state.tables.get(change.table)
            view = self._views[change.table] if table is None else self._view(table)
            if self._wants(view):
                yield Delivery(change, record.partition, view)
        if not self._views.keys() >= state.tables.keys():
            for table in state.tables.values():
                self._view(table)

    def _view(self, table: Table) -> TableView:
        definition = table.definition
        if self._definitions.get(definition.id) is not definition:
            self._definitions[definition.id] = definition
            self._views[definition.id] = view_of(definition, self._log.log_id, self._log.partitions)
        return self._views[definition.id]

    def _wants(self, view: TableView) -> bool:
        return not self._wanted or view.name in self._wanted


def since(start: Start, log: Readable) -> Within:
    """Whether a change is at `start` or behind it.

    Raises:
        CommandError: It is no place of this log.
    """
    match start["At"]:
        case "TIME":
            begin: int = start["Time"]
            return lambda delivery: delivery.change.time >= begin
        case "NUMBERS":
            after = {int(partition): int(number) for partition, number in start["Numbers"].items()}
        case "POSITION":
            after = dict(_before(text, log) for text in start["Position"].split(","))
        case _:
            return lambda _: True
    unknown = [partition for partition in after if partition >= log.partitions]
    if unknown:
        raise CommandError(
            f"there is no partition {unknown[0]}: this log has {log.partitions}", ExitCode.USAGE
        )
    return lambda delivery: delivery.change.sequence_number > after.get(delivery.partition, _NO_NUMBER)


def _before(text: str, log: Readable) -> tuple[int, int]:
    """The partition of a position, and the highest number that no change there or behind it can have."""
    position = read_position(text, log.partitions)
    base = log.genesis(position.partition).base
    return position.partition, sequence_number(base + position.offset, position.index or 0, 0) - 1


def _base(state: PartitionState) -> int:
    return 0 if state.genesis is None else state.genesis.base
