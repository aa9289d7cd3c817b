"""The writes of items in a log: their images, and the write units that each consumed.

    log ──► LogSurvey: definitions, transactions, void commands ──► refold ──► requests: lists of ItemWrite

One table can be read alone: its refold passes over the commands on items of other tables, so that it needs the memory
of one table. It does not pass over tables that take part in transactions, because a transaction decides by the items of
all its tables. A command that is passed over is folded as a Barrier, which keeps the indexes of the others. A message
with an index entry is folded as the removal of an entry that does not exist, because messages are counted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Final, NamedTuple

from ...log.commands import (
    Action,
    Barrier,
    Command,
    Delete,
    Expire,
    IndexEntry,
    Load,
    Position,
    Prepare,
    Put,
    Record,
    Relay,
    Transact,
    Update,
)
from ...materializer.fold.fold_record import Void, voids
from ...materializer.fold.outcomes import (
    Applied,
    Completed,
    Loaded,
    MessageFolded,
    Outcome,
    Refused,
    Transacted,
    TransactionRefused,
    TransactionStarted,
    Units,
)
from ...materializer.fold.state import PartitionState, Table
from ...materializer.fold.storage import Stored
from ...materializer.foundation import initial_state
from ...materializer.rebuild import Rebuild
from ...materializer.refold import fold_record
from ...model.backups import Backup
from ...model.lazy_dataclass import dataclass
from ...model.limits import Limits
from ...model.slots import CATALOG, data_partitions
from ...model.tables import TableDefinition
from ...model.values import item_size, load
from .errors import CommandError, ExitCode
from .log_history import in_order
from .log_location import SourceLog
from .log_times import first_places, last_places
from .progress import Advance

_PASSED_OVER: Final = Barrier()


class ItemWrite(NamedTuple):
    """A write of one item, or one that a condition refused.

    Attributes:
        table: The id of the table.
        pk: The partition key.
        sk: The sort key.
        old: The item before.
        new: The item after. A refused write, and a check of a transaction, leave the item as it is.
        units: The consumed units; None if the write costs nothing: an expiry, or a copy of a restore.
        is_doubled: Whether it is part of a transaction, which costs twice the units of its table.
        is_refused: Whether it was refused. Its images are not known.
    """

    table: int
    pk: bytes
    sk: bytes
    old: Stored | None
    new: Stored | None
    units: Units | None
    is_doubled: bool = False
    is_refused: bool = False


class Request(NamedTuple):
    """The writes that are admitted together: one write, or the actions of a transaction in one partition.

    Attributes:
        time_ms: Log time.
        is_counted: Whether it is in the period of the report. Earlier writes only make the items.
    """

    time_ms: int
    is_counted: bool
    writes: Sequence[ItemWrite]


@dataclass(frozen=True, slots=True)
class Period:
    """The records of a log that are read.

    Attributes:
        first: The first position of each partition that is counted; a missing partition is counted from its beginning.
        last: The last position of each partition that is folded.
        is_ended: Whether an end before that of the log was named.
    """

    first: dict[int, Position]
    last: dict[int, Position]
    is_ended: bool = False

    def counts(self, position: Position) -> bool:
        """Return whether a command is in the period."""
        first = self.first.get(position.partition)
        return first is None or (position.offset, position.index or 0) >= (first.offset, first.index or 0)

    def part_of(self, record: Record) -> Record | None:
        """Return the part of a record that is folded; None if it is behind the end."""
        last = self.last[record.partition]
        if record.offset > last.offset:
            return None
        if record.offset == last.offset and last.index is not None:
            commands = record.entry.commands[: last.index + 1]
            return replace(record, entry=replace(record.entry, commands=commands))
        return record


def read_period(log: SourceLog, start: str | None, end: str | None) -> Period:
    """Return the period of --from and --to, which are positions, times or None.

    Raises:
        CommandError: The log has no such position.
        HorizonError: A trim removed the records there.
    """
    everything = range(log.partitions)
    first = {} if start is None else first_places(log, start, everything)
    named = {} if end is None else last_places(log, end, everything)
    ends = {each: Position(each, log.end(each) - 1) for each in everything}
    for position in [*first.values(), *named.values()]:
        end_position = ends[position.partition]
        if position.offset > end_position.offset + (position in first.values()):
            here, place = end_position.text(log.partitions), position.text(log.partitions)
            raise CommandError(f"the log ends at @{here}, before @{place}", ExitCode.USAGE)
    last = ends | named
    if (
        end is not None
        and first
        and all(each.offset > last[partition].offset for partition, each in first.items())
    ):
        raise CommandError(f"--from {start} is after --to {end}", ExitCode.USAGE)
    return Period(first, last, end is not None)


@dataclass(slots=True)
class LogSurvey:
    """The facts of a log that its refold needs in advance.

    Attributes:
        void: The commands that an operator declared void, by partition.
        in_transactions: The ids of the tables that take part in transactions.
        definitions: The tables at the end of the period, by name.
        dropped: By name of a deleted table, the last position at which it existed.
        limits: The limits of the log.
        backups: The backups of tables.
    """

    void: dict[int, list[Void]] = field(default_factory=dict)
    in_transactions: set[int] = field(default_factory=set)
    definitions: dict[str, TableDefinition] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    limits: Limits | None = None
    backups: Sequence[Backup] = ()

    def definition(self, name: str, log: SourceLog) -> TableDefinition:
        """Return the definition of a table.

        Raises:
            CommandError: The log has no such table at the end of the period.
        """
        found = self.definitions.get(name)
        if found is None:
            dropped = self.dropped.get(name)
            last = None if dropped is None else Position(CATALOG, dropped).text(log.partitions)
            known = f"; its tables: {', '.join(sorted(self.definitions)) or 'none'}"
            hint = known if last is None else f"; it existed until @{last}: give --to {last}"
            raise CommandError(f"the log has no table {name}{hint}", ExitCode.NOT_FOUND)
        return found


def survey(log: SourceLog, period: Period) -> LogSurvey:
    """Read a log and return its survey. No item is kept in memory."""
    found = LogSurvey()
    for partition in range(log.partitions):

        def noted(partition: int = partition) -> Iterator[Record]:
            for record in log.read(partition, log.begin(partition)):
                for command in record.entry.commands:
                    found.in_transactions.update(action.table for action in _actions(command))
                yield record

        found.void[partition] = voids(noted())
    state = initial_state(log, CATALOG)
    _empty(state, but=set())
    work = Rebuild(found.void[CATALOG], state=state)
    records = (_without_items(record) for record in log.read(CATALOG, log.begin(CATALOG)))
    work.fold_to(records, period.last[CATALOG])
    found.definitions = {table.definition.name: table.definition for table in work.state.tables.values()}
    found.dropped, found.limits = work.dropped, work.state.limits
    found.backups = [*work.state.backups.values()]
    return found


def _actions(command: Command) -> Sequence[Action]:
    """Return the actions of a transaction, or of a participant's part of one."""
    if isinstance(command, Transact):
        return command.actions
    if isinstance(command, Relay) and isinstance(command.message, Prepare):
        return command.message.actions
    return ()


def _without_items(record: Record) -> Record:
    """Return a record whose commands on items have no effect."""
    kinds = Put | Update | Delete | Transact | Expire | Load
    commands = [_PASSED_OVER if isinstance(each, kinds) else each for each in record.entry.commands]
    return replace(record, entry=replace(record.entry, commands=commands))


def _empty(state: PartitionState, but: set[int]) -> None:
    """Drop the items of all tables but some."""
    for table_id, table in state.tables.items():
        if table_id not in but:
            state.tables[table_id] = Table(table.definition)


class LogWrites:
    """A refold that yields the writes of items.

    Attributes:
        commands: The number of commands that were read.
        states: The state of each partition that has items.
        first_ms: The log time of the first counted record; None before it.
        last_ms: The log time of the last counted record.
    """

    def __init__(
        self, log: SourceLog, period: Period, surveyed: LogSurvey, only: TableDefinition | None = None
    ) -> None:
        """Begin a refold.

        Args:
            log: The log.
            period: The records that are folded, and those that are counted.
            surveyed: The survey of the log.
            only: The table of which the writes are wanted; None for all tables.
        """
        self.commands = 0
        self.first_ms: int | None = None
        self.last_ms = 0
        self.states = {each: initial_state(log, each) for each in data_partitions(log.partitions)}
        self._log = log
        self._period = period
        self._survey = surveyed
        self._kept = None if only is None else {only.id, *surveyed.in_transactions}
        self._only = None if only is None else only.id
        self._under_way: dict[tuple[int, int], Sequence[Action]] = {}
        if self._kept is not None:
            for state in self.states.values():
                _empty(state, but=self._kept)

    @property
    def records(self) -> int:
        """The number of records that are read."""
        last = self._period.last.items()
        return sum(end.offset + 1 - self._log.begin(each) for each, end in last if each in self.states)

    def span_ms(self) -> tuple[int, int | None]:
        """Return the log time of the first counted record and the end of the last; 0 and None if none was named."""
        period = self._period
        first = self.first_ms or self.last_ms if period.first else 0
        return first, self.last_ms + 1 if period.is_ended else None

    def requests(self, advance: Advance) -> Iterator[Request]:
        """Fold the log and yield its writes, in the order of log time. The items of a trimmed log's base are first."""
        for state in self.states.values():
            table = None if self._only is None else state.tables.get(self._only)
            if table is not None:
                for _, pk, sk, stored in table.items.scan():
                    item = ItemWrite(table.definition.id, pk, sk, None, stored, None)
                    yield Request(state.log_time, False, [item])
        starts = {partition: self._log.begin(partition) for partition in self.states}
        for record in in_order(self._log, starts):
            part = self._period.part_of(record)
            if part is None:
                if len(starts) == 1:
                    return
                continue
            yield from self._fold(part)
            self.commands += len(part.entry.commands)
            advance(1)

    def _fold(self, record: Record) -> Iterator[Request]:
        state = self.states[record.partition]
        folded = record if self._kept is None else self._selected(record, self._kept)
        outcomes = fold_record(state, folded, self._survey.void[record.partition])
        for index, (command, outcome) in enumerate(zip(folded.entry.commands, outcomes, strict=True)):
            is_counted = self._period.counts(Position(record.partition, record.offset, index))
            if is_counted:
                self.first_ms = state.log_time if self.first_ms is None else self.first_ms
                self.last_ms = max(self.last_ms, state.log_time)
            for writes in self._writes(state, command, outcome):
                wanted = [each for each in writes if self._only in (None, each.table)]
                if wanted:
                    yield Request(state.log_time, is_counted, wanted)

    def _selected(self, record: Record, kept: set[int]) -> Record:
        """Return a record whose commands on items of other tables have no effect."""
        commands = [self._passed_over(command, kept) for command in record.entry.commands]
        return replace(record, entry=replace(record.entry, commands=commands))

    def _passed_over(self, command: Command, kept: set[int]) -> Command:
        if isinstance(command, Put | Update | Delete | Expire | Load):
            return command if command.table in kept else _PASSED_OVER
        if isinstance(command, Relay) and isinstance(command.message, IndexEntry):
            message = command.message
            if message.table not in kept:
                return replace(command, message=replace(message, item=None, size=0))
        return command

    def _writes(
        self, state: PartitionState, command: Command, outcome: Outcome
    ) -> Iterator[Sequence[ItemWrite]]:
        """Yield the writes of a command: in a list those that are admitted together."""
        if isinstance(outcome, Applied):
            is_free = isinstance(command, Delete) and command.context.source == "ttl"
            yield [_applied(outcome, is_free=is_free)]
        elif isinstance(outcome, Refused) and isinstance(command, Put | Update | Delete):
            yield [_refused(command, outcome.units)]
        elif isinstance(outcome, Transacted) and not outcome.replayed:
            yield [_applied(each) for each in outcome.actions if isinstance(each, Applied)]
        elif isinstance(outcome, TransactionRefused) and isinstance(command, Transact):
            yield list(map(_refused, command.actions, outcome.units))
        elif isinstance(outcome, TransactionStarted) and isinstance(command, Transact):
            self._under_way[state.partition, outcome.transaction_number] = command.actions
        elif isinstance(outcome, MessageFolded):
            yield [_applied(each) for each in outcome.applied]
            for number, resolved, _ in outcome.resolved:
                actions = self._under_way.pop((state.partition, number), ())
                if isinstance(resolved, TransactionRefused):
                    yield list(map(_refused, actions, resolved.units))
        elif isinstance(outcome, Loaded):
            yield from ([_applied(each, is_free=True)] for each in outcome.applied)
        elif isinstance(command, Expire) and isinstance(outcome, Completed) and outcome.change is not None:
            old = outcome.change.old
            assert old is not None, "an expired item exists"
            stored = old, item_size(load(old), state.limits)
            yield [ItemWrite(command.table, command.pk, command.sk, stored, None, None)]


def _applied(applied: Applied, *, is_free: bool = False) -> ItemWrite:
    action = applied.action
    units = None if is_free else applied.units
    return ItemWrite(
        action.table, action.pk, action.sk, applied.old, applied.new, units, is_doubled=applied.twice
    )


def _refused(action: Action, units: int) -> ItemWrite:
    return ItemWrite(action.table, action.pk, action.sk, None, None, Units(units), is_refused=True)
