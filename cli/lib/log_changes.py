"""The changes of a log, read without a server by folding it.

    log ──► records in the order of log time ──► fold ──► changes ──► deliveries

Every change of every table can be read, also of a deleted table, and of one whose stream was never enabled.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ...log.commands import Record, new_context
from ...materializer.fold.outcomes import Change
from ...materializer.fold.state import Table
from ...materializer.foundation import initial_state
from ...materializer.refold import fold_record
from ...model.sequence_numbers import number_before, parse_numbers
from ...model.slots import CATALOG
from ...model.subscriptions import Subscription
from ...model.tables import TableDefinition
from ...streams.changes import changes
from ...streams.formats.table_view import Delivery, TableView, view_of
from .errors import CommandError, ExitCode
from .log_history import in_order, read_position, void_in
from .log_location import SourceLog, check_position, check_time
from .start_position import Start

_POLL_S: Final = 0.2
_MAX_SEQUENCE_NUMBER: Final = 10**40  # above that of any change

Within = Callable[[Delivery], bool]


class LogChanges:
    """A fold of a log that yields the changes of `tables`, or of all tables."""

    def __init__(
        self, log: SourceLog, tables: Iterable[str] = (), advance: Callable[[int], None] | None = None
    ) -> None:
        self._log = log
        self._wanted = frozenset(tables)
        self._advance = advance or (lambda _: None)
        partitions = range(log.partitions)
        self._void = {partition: void_in(log, partition, log.begin(partition)) for partition in partitions}
        self._states = {partition: initial_state(log, partition) for partition in partitions}
        self._definitions: dict[int, TableDefinition] = {}
        self._views: dict[int, TableView] = {}
        for table in (table for state in self._states.values() for table in state.tables.values()):
            self._view(table)

    @property
    def names(self) -> set[str]:
        """Return the names of all tables up to the end of the fold, deleted ones too."""
        return {view.name for view in self._views.values()}

    @property
    def subscriptions(self) -> dict[str, Subscription]:
        """Return the subscriptions at the end of the fold, by name."""
        return self._states[CATALOG].subscriptions

    def key_names(self, table: str) -> list[str]:
        """Return the key attributes of the newest table with that name. [] if there is none."""
        views = [view for view in self._views.values() if view.name == table]
        return list(max(views, key=lambda view: view.id).key.names) if views else []

    def changes(self) -> Iterator[Delivery]:
        """Yield the changes up to the current end of the log, in the order of log time. The next call continues."""
        behind = {
            partition: self._states[partition].next_offset
            for partition in range(self._log.partitions)
            if self._log.end(partition) > self._states[partition].next_offset
        }
        for record in in_order(self._log, behind) if behind else ():
            yield from self._fold(record)
            self._advance(1)

    def follow(self) -> Iterator[Delivery]:
        """Yield new changes, forever."""
        while True:
            yield from self.changes()
            time.sleep(_POLL_S)

    def items(self) -> Iterator[Delivery]:
        """Yield the items at the end of the fold, each as a READ."""
        for partition, state in sorted(self._states.items()):
            number = number_before(state.next_offset)
            for table in state.tables.values():
                view = self._view(table)
                if not self._wants(view):
                    continue
                for _, pk, sk, stored in table.items.scan():
                    found = Change(
                        view.id,
                        pk,
                        sk,
                        None,
                        stored[0],
                        number,
                        state.log_time,
                        new_context(""),
                        is_read=True,
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


def since(start: Start, log: SourceLog) -> Within:
    """Return a function that returns whether a change is at `start` or later.

    Raises:
        CommandError: `start` is not a position of this log.
        HorizonError: A trim removed records at `start`.
    """
    match start["At"]:
        case "TIME":
            begin: int = start["Time"]
            check_time(log, begin)
            return lambda delivery: delivery.change.time >= begin
        case "NUMBERS":
            after = parse_numbers(start["Numbers"])
        case "POSITION":
            after = dict(_before(text, log) for text in start["Position"].split(","))
        case _:
            return lambda _: True
    unknown = [partition for partition in after if partition >= log.partitions]
    if unknown:
        raise CommandError(
            f"there is no partition {unknown[0]}: this log has {log.partitions}", ExitCode.USAGE
        )
    return lambda delivery: (
        delivery.change.sequence_number > after.get(delivery.partition, _MAX_SEQUENCE_NUMBER)
    )


def _before(text: str, log: SourceLog) -> tuple[int, int]:
    """Return the partition of a position, and the highest sequence number before the position."""
    position = read_position(text, log.partitions)
    check_position(log, position)
    return position.partition, number_before(position.offset, position.index or 0)
