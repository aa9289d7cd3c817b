"""The history of a database: each command of the log with its outcome.

The log holds only commands. The history folds them to get the changes with both images, the refusals with their
units, and the sequence numbers. Records of several partitions are merged by log time, so that a message is before its
effects in another partition.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from heapq import merge
from pathlib import Path
from typing import Any

import orjson

from ...log.commands import (
    Abandon,
    Action,
    Backfill,
    Barrier,
    Checkpoint,
    Command,
    Commit,
    Cut,
    Decide,
    Defined,
    DefineSubscription,
    DefineTable,
    DefinitionApplied,
    Delete,
    Digest,
    Expire,
    Genesis,
    IndexEntry,
    IndexFilled,
    IndexSent,
    Load,
    Message,
    Position,
    Prepare,
    Put,
    Record,
    Relay,
    RelayAck,
    RestoreProgress,
    Settle,
    Skip,
    Transact,
    Update,
    Vote,
)
from ...log.local.filesystem import SystemFilesystem
from ...log.log import Log
from ...materializer.fold.fold_record import Void, voids
from ...materializer.fold.outcomes import (
    Applied,
    Change,
    Completed,
    CostOnly,
    Loaded,
    MessageFolded,
    Outcome,
    Refused,
    Skipped,
    Transacted,
    TransactionRefused,
    TransactionStarted,
    Units,
)
from ...materializer.fold.state import PartitionState
from ...materializer.foundation import initial_state
from ...materializer.refold import fold_record
from ...materializer.snapshots import Snapshots
from ...model.errors import RequestError, TransactionCanceledError
from ...model.key_schema import KeySchema
from ...model.sequence_numbers import number_texts
from ...model.values import Item, load
from .errors import CommandError, ExitCode
from .log_location import SourceLog
from .output import counted, time_text
from .values import plain_item

_DIGITS = 18  # the digits of an offset in a sequence number

HistoryRow = dict[str, Any]


def in_order(log: SourceLog, starts: dict[int, int]) -> Iterator[Record]:
    """Return the records of partitions from their start offsets, in the order of log time."""
    if len(starts) == 1:
        ((partition, start),) = starts.items()
        return log.read(partition, start)
    each = [timed(log.read(partition, start)) for partition, start in starts.items()]
    return (record for _, _, record in merge(*each, key=lambda one: one[:2]))


def timed(records: Iterator[Record]) -> Iterator[tuple[int, int, Record]]:
    """Yield log time, partition and record. The first times are too low if earlier records had a higher log time."""
    time = 0
    for record in records:
        relayed = (command.time + 1 for command in record.entry.commands if isinstance(command, Relay))
        time = max(time, _time(record), *relayed)
        yield time, record.partition, record


def void_in(log: SourceLog, partition: int, start: int) -> list[Void]:
    """Return the positions that an operator declared void, in the records from `start` on.

    A declaration is after the record that it voids, so all records after that one are read.
    """
    return voids(log.read(partition, start))


def state_before(log: SourceLog, folder: Path | None, position: Position) -> PartitionState:
    """Return the state of the newest snapshot in a folder before a position, or that with which the log begins.

    A snapshot is not used if it folded a record that was declared void later.
    """
    if folder is None:
        return initial_state(log, position.partition)
    snapshots = Snapshots(folder, SystemFilesystem(), position.partition, log.partitions)
    state = snapshots.load_newest(log, before=position.offset).state
    folded = state.next_offset
    later = void_in(log, position.partition, folded) if folded else []
    is_late = any(void[0] < folded and void not in state.voided for void in later)
    return initial_state(log, position.partition) if is_late else state


def end_of(log: SourceLog | Log, partitions: int) -> str:
    """Return the text of the last position of the log, or of the cut if it has several partitions."""
    ends = (Position(partition, log.end(partition) - 1) for partition in range(partitions))
    return Cut(tuple(ends)).text(partitions)


def _time(record: Record) -> int:
    return record.time if record.entry.time is None else record.entry.time


def read_position(text: str, partitions: int = 1) -> Position:
    """Return a position from its text: `10482`, `10482.3` or `2:10482.3`, with or without an @.

    >>> read_position("@10482.3")
    Position(partition=0, offset=10482, index=3)

    Raises:
        CommandError: `text` is not a position of a log with `partitions`.
    """
    partition, colon, rest = text.removeprefix("@").rpartition(":")
    offset, dot, index = rest.partition(".")
    if not _is_number(offset) or (dot and not _is_number(index)) or (colon and not _is_number(partition)):
        raise CommandError(f"`{text}` is not a position such as 10482, 10482.3 or 2:10482.3", ExitCode.USAGE)
    if bool(colon) is (partitions == 1) or (colon and int(partition) >= partitions):
        example = "10482.3" if partitions == 1 else f"{partitions - 1}:10482.3"
        raise CommandError(
            f"`{text}` is not a position of this log, which has {counted(partitions, 'partition')}: write {example}",
            ExitCode.USAGE,
        )
    return Position(int(partition or 0), int(offset), int(index) if dot else None)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS


class LogHistory:
    """A fold of a log that yields a row for each command.

    Attributes:
        partitions: The number of partitions of the log.
        states: The state of each partition at the end of the fold.
    """

    def __init__(
        self, log: SourceLog, *, typed: bool = False, begin: Mapping[int, PartitionState] | None = None
    ) -> None:
        """Create the history, without reading the log.

        Args:
            log: The log of the records.
            typed: Whether items are DynamoDB JSON. Otherwise they are plain.
            begin: The states before the first records. A missing partition begins with its first record.
        """
        self.partitions = log.partitions
        self.states = {
            partition: state_in or initial_state(log, partition)
            for partition in range(log.partitions)
            for state_in in ((begin or {}).get(partition),)
        }
        self._log = log
        self._void: dict[int, list[Void]] = {}
        self._show = (lambda item: item) if typed else plain_item
        self._tables: dict[int, tuple[str, KeySchema]] = {}
        for state in self.states.values():
            self._note_names(state)

    def rows(self, records: Iterable[Record]) -> Iterator[HistoryRow]:
        """Yield a row for each command, and for each action of a transaction."""
        for record in records:
            for index, (command, outcome) in enumerate(self.fold(record)):
                head = {
                    "position": Position(record.partition, record.offset, index).text(self.partitions),
                    "time": time_text(self.states[record.partition].log_time),
                }
                yield from (head | row for row in self._rows(command, outcome))

    def fold(self, record: Record) -> list[tuple[Command, Outcome]]:
        """Fold the next record of its partition, and return its commands with their outcomes."""
        state = self.states[record.partition]
        if record.partition not in self._void:
            self._void[record.partition] = void_in(self._log, record.partition, state.next_offset)
        outcomes = fold_record(state, record, self._void[record.partition])
        commands = record.entry.commands
        if any(isinstance(command, DefineTable) or _defines(command) for command in commands):
            self._note_names(state)
        return list(zip(commands, outcomes, strict=True))

    def _note_names(self, state: PartitionState) -> None:
        for table_id, table in state.tables.items():  # _tables keeps the names of deleted tables
            self._tables[table_id] = (table.definition.name, table.definition.key)

    def _rows(self, command: Command, outcome: Outcome) -> Iterator[HistoryRow]:
        if isinstance(command, Transact):
            yield from self._transaction(command, outcome)
        elif isinstance(command, Put | Update | Delete):
            yield self.action_row(command) | self.outcome_row(outcome) | context_of(command)
        elif isinstance(outcome, MessageFolded | Loaded):
            yield self._of_command(command) | self.outcome_row(outcome) | context_of(command)
            for applied in outcome.applied:
                yield self.action_row(applied.action) | self.outcome_row(applied)
        else:
            yield self._of_command(command) | self.outcome_row(outcome) | context_of(command)

    def _transaction(self, command: Transact, outcome: Outcome) -> Iterator[HistoryRow]:
        for nth, action in enumerate(command.actions):
            row: HistoryRow = {"transaction": f"{nth + 1} of {len(command.actions)}"} | self.action_row(
                action
            )
            match outcome:
                case Transacted(replayed=True):
                    row |= {"outcome": "replayed"}
                case Transacted(actions=actions):
                    row |= self.outcome_row(actions[nth])
                case TransactionRefused(error=error, units=units):
                    row |= {"outcome": "refused", "units": units[nth]} | cancellation_of(error, nth)
                case _:
                    row |= self.outcome_row(outcome)
            yield row | context_of(command)

    def action_row(self, action: Action) -> HistoryRow:
        """Return an action: the command, its table and key, and its expressions."""
        row: HistoryRow = {"command": type(action).__name__, **self._key(action.table, action.pk, action.sk)}
        expression = action.expression
        if expression is not None:
            if expression.dialect == "digest":
                return row | {"digest": expression.condition}
            written = {
                "condition": expression.condition,
                "update": expression.update,
                "names": expression.names,
            }
            row |= {part: text for part, text in written.items() if text}
            if expression.values:
                row["values"] = self._show(expression.values)
        return row

    def _of_command(self, command: Command) -> HistoryRow:
        row: HistoryRow = {"command": type(command).__name__}
        match command:
            case DefineTable(operation=operation, request=request):
                return row | {"operation": operation, "request": orjson.loads(request)}
            case DefineSubscription(operation=operation, name=name, request=request):
                row |= {"operation": operation, "subscription": name}
                return row | {"request": orjson.loads(request)}
            case Checkpoint(epoch=epoch, checkpoints=checkpoints, handled=handled, dead=dead):
                row |= {"subscription": str(command.subscription), "epoch": epoch}
                return row | {
                    "checkpoints": number_texts(dict(sorted(checkpoints))),
                    "handled": handled,
                    "dead": dead,
                }
            case Settle(table=table):
                return row | {"table": self._name(table)}
            case Backfill(table=table, count=count):
                return row | {"table": self._name(table), "count": count}
            case Expire(table=table, pk=pk, sk=sk):
                return row | self._key(table, pk, sk)
            case Genesis(log_id=log_id, partitions=partitions, level=level, limits=limits):
                row |= {"log_id": log_id.hex(), "partitions": partitions}
                return row | {"level": level, "limits": limits}
            case Digest(offset=offset, digest=digest):
                return row | {"of": str(offset), "digest": digest}
            case Relay(message=message):
                sender = Position(command.sender, command.offset, command.index).text(self.partitions)
                row |= {
                    "message": type(message).__name__,
                    "message_number": command.message_number,
                    "of": sender,
                }
                return row | self._of_message(message)
            case Load(table=table, items=items):
                return row | {"table": self._name(table), "count": len(items)}
            case RestoreProgress(table=table, cursor=cursor, done=done):
                return row | {"table": self._name(table), "cursor": cursor.hex(), "done": done}
            case RelayAck(receiver=receiver, through_message=through):
                return row | {"receiver": receiver, "through": through}
            case Abandon(transaction_number=number):
                return row | {"transaction": str(number)}
            case Skip(offset=offset, index=index):
                return row | {"of": Position(0, offset, index).text()}
        return row | _plain_members(command)

    def _of_message(self, message: Message) -> HistoryRow:
        match message:
            case Defined(table=table, definition=definition):
                return {"table": self._name(table), "request": definition and orjson.loads(definition)}
            case DefinitionApplied(table=table) | IndexSent(table=table) | IndexFilled(table=table):
                return {"table": self._name(table)}
            case IndexEntry(table=table, item=item):
                return {"table": self._name(table), "entry": None if item is None else self._show(load(item))}
            case Prepare(transaction_number=number, actions=actions):
                return {
                    "transaction": str(number),
                    "actions": [self.action_row(action) for action in actions],
                }
        row = {"transaction": str(message.transaction_number)}
        match message:
            case Vote(holds=holds, verdicts=verdicts):
                return row | {"holds": holds, "verdicts": orjson.loads(verdicts)}
            case Decide(commit=commit):
                return row | {"commit": commit}
            case Commit():
                return row | {"commit": True}
        return row

    def outcome_row(self, outcome: Outcome | CostOnly) -> HistoryRow:
        """Return an outcome: its kind, units and images, or the error."""
        match outcome:
            case Applied(units=units, change=change):
                indexes = (units.local or {}) | (units.glob or {})
                row: HistoryRow = {"outcome": "applied", "units": _total(units)}
                return (
                    row | ({"index_units": indexes} if any(indexes.values()) else {}) | self._change(change)
                )
            case Refused(error=error, units=cost):
                return {"outcome": "refused", "units": cost, "error": _error(error)}
            case CostOnly(units=units):
                return {"outcome": "applied", "units": _total(units)}
            case TransactionStarted(transaction_number=number):
                return {"outcome": "begun", "transaction": str(number)}
            case MessageFolded(resolved=resolved) if resolved:
                outcomes = [
                    {"transaction": str(number)} | self._resolved(each) for number, each, _ in resolved
                ]
                return {"outcome": "done", "resolved": outcomes}
            case Completed(progressed=progressed, change=change):
                return {"outcome": "done" if progressed else "no effect"} | self._change(change)
            case Skipped(why=why):
                return {"outcome": "skipped", "error": why}
        return {"outcome": "done"}

    def _resolved(self, outcome: Outcome) -> HistoryRow:
        """Return the outcome of a transaction over several partitions."""
        match outcome:
            case Transacted():
                return {"outcome": "applied"}
            case TransactionRefused(error=error):
                return {"outcome": "refused", "error": _error(error)}
        return self.outcome_row(outcome)

    def _change(self, change: Change | None) -> HistoryRow:
        if change is None:
            return {"change": None}
        images = [None if image is None else self._show(load(image)) for image in (change.old, change.new)]
        return {"sequence_number": str(change.sequence_number), "old": images[0], "new": images[1]}

    def _key(self, table_id: int, pk: bytes, sk: bytes) -> HistoryRow:
        if table_id not in self._tables:
            return {"table": self._name(table_id)}
        name, schema = self._tables[table_id]
        key: Item = schema.decode(pk, sk)
        return {"table": name, "key": self._show(key)}

    def _name(self, table_id: int) -> str:
        return self._tables[table_id][0] if table_id in self._tables else f"table {table_id}"


def context_of(command: Command) -> HistoryRow:
    """Return the author of a command: source, request id, principal and reason. {} if it has none."""
    if isinstance(command, Genesis | Digest | Relay | RelayAck | Barrier | Checkpoint):
        return {}
    context = command.context
    row = {"source": context.source, "request_id": context.request_id}
    optional = {"principal": context.principal, "reason": context.reason}
    return row | {name: text for name, text in optional.items() if text is not None}


def _plain_members(command: Command) -> HistoryRow:
    """Return the numbers and texts of a command."""
    members = {each.name: getattr(command, each.name) for each in fields(command)}
    return {name: value for name, value in members.items() if isinstance(value, str | int)}


def _defines(command: Command) -> bool:
    return isinstance(command, Relay) and isinstance(command.message, Defined)


def _total(units: Units) -> int:
    return units.table + sum((units.glob or {}).values())


def _error(error: RequestError) -> str:
    return f"{error.wire_name}: {error.message}"


def cancellation_of(error: RequestError, nth: int) -> HistoryRow:
    """Return the reason why action `nth` cancelled its transaction. {} if another action did."""
    if not isinstance(error, TransactionCanceledError):
        return {"error": _error(error)}
    reason = error.reasons[nth]
    if reason.code == "None":
        return {}
    return {"error": reason.code if reason.message is None else f"{reason.code}: {reason.message}"}
