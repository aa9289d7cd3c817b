"""The log as a story: what each command asked for, and what became of it.

The log itself holds only what was asked. So whoever tells its story folds it along, and gets the
changes with both images, the refusals with their units, and every sequence number as a stream
would give it. Where there are several partitions their records come in the order of log time: what
one partition told another stands before what came of it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
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
    Level,
    Message,
    Position,
    Prepare,
    Put,
    Record,
    Relay,
    RelayAck,
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
from ...materializer.refold import fold_record
from ...materializer.snapshots import Snapshots
from ...model.errors import RequestError, TransactionCanceledError
from ...model.key_schema import KeySchema
from ...model.values import Item, load
from .errors import CommandError, ExitCode
from .log_location import Readable
from .output import counted, time_text
from .values import plain_item

_DIGITS = 18  # sequence numbers have no room for more

Told = dict[str, Any]


def in_order(log: Readable, starts: dict[int, int]) -> Iterator[Record]:
    """The records of these partitions from these offsets on, in the order of log time."""
    if len(starts) == 1:
        ((partition, start),) = starts.items()
        return log.read(partition, start)
    each = [timed(log.read(partition, start)) for partition, start in starts.items()]
    return (record for _, _, record in merge(*each, key=lambda one: one[:2]))


def timed(records: Iterator[Record]) -> Iterator[tuple[int, int, Record]]:
    """Yield log time, partition and record; the time is less where the fold before `records` had come further."""
    time = 0
    for record in records:
        told = (command.time + 1 for command in record.entry.commands if isinstance(command, Relay))
        time = max(time, _time(record), *told)
        yield time, record.partition, record


def void_in(log: Readable, partition: int, start: int = 0) -> list[Void]:
    """Return the positions that an operator declared void, in the records from `start` on.

    A declaration is behind the record that it is about, so all records behind that one are read.
    """
    return voids(log.read(partition, start))


def state_before(log: Readable, folder: Path, position: Position) -> PartitionState:
    """Return a state from which the log up to a position can be folded: the newest snapshot before it, or an empty one.

    A snapshot that folded a record which was declared void later is no such state.
    """
    snapshots = Snapshots(folder, SystemFilesystem(), position.partition, log.partitions)
    state = snapshots.load_newest(log, before=position.offset).state
    folded = state.next_offset
    later = void_in(log, position.partition, folded) if folded else []
    is_late = any(void[0] < folded and void not in state.voided for void in later)
    return PartitionState() if is_late else state


def end_of(log: Readable | Log, partitions: int) -> str:
    """The last position, of each partition if there are several."""
    ends = (Position(partition, log.end(partition) - 1) for partition in range(partitions))
    return Cut(tuple(ends)).text(partitions)


def _time(record: Record) -> int:
    return record.time if record.entry.time is None else record.entry.time


def read_position(text: str, partitions: int = 1) -> Position:
    """Read a position as it is printed: `10482`, `10482.3` or `2:10482.3`, with or without an @.

    >>> read_position("@10482.3")
    Position(partition=0, offset=10482, index=3)
    """
    partition, colon, place = text.removeprefix("@").rpartition(":")
    offset, dot, index = place.partition(".")
    if not _is_number(offset) or (dot and not _is_number(index)) or (colon and not _is_number(partition)):
        raise CommandError(f"`{text}` is not a position such as 10482, 10482.3 or 2:10482.3", ExitCode.USAGE)
    if bool(colon) is (partitions == 1) or (colon and int(partition) >= partitions):
        example = "10482.3" if partitions == 1 else f"{partitions - 1}:10482.3"
        raise CommandError(
            f"`{text}` is no position of this log, which has {counted(partitions, 'partition')}: write {example}",
            ExitCode.USAGE,
        )
    return Position(int(partition or 0), int(offset), int(index) if dot else None)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS


class LogHistory:
    """Folds the records of a log and tells of each command; items are plain, or DynamoDB JSON if `typed`.

    Attributes:
        partitions: How many the log has.
        states: The state of each partition, as far as its records were folded.
    """

    def __init__(
        self, log: Readable, *, typed: bool = False, begin: Mapping[int, PartitionState] | None = None
    ) -> None:
        """Nothing is read yet.

        Args:
            log: Has the records.
            typed: Whether to show items in DynamoDB JSON.
            begin: The states to begin with. A partition that is not there begins empty, with its first record.
        """
        self.partitions = log.partitions
        self.states: dict[int, PartitionState] = defaultdict(PartitionState, begin or {})
        self._log = log
        self._void: dict[int, list[Void]] = {}
        self._show = (lambda item: item) if typed else plain_item
        self._tables: dict[int, tuple[str, KeySchema]] = {}
        for state in self.states.values():
            self._note_names(state)

    def tell(self, records: Iterable[Record]) -> Iterator[Told]:
        """One row a command, and one for each action of a transaction."""
        for record in records:
            for index, (command, outcome) in enumerate(self._fold(record)):
                place = {
                    "position": Position(record.partition, record.offset, index).text(self.partitions),
                    "time": time_text(self.states[record.partition].log_time),
                }
                yield from (place | told for told in self._told(command, outcome))

    def _fold(self, record: Record) -> list[tuple[Command, Outcome]]:
        state = self.states[record.partition]
        if record.partition not in self._void:
            self._void[record.partition] = void_in(self._log, record.partition, state.next_offset)
        outcomes = fold_record(state, record, self._void[record.partition])
        commands = record.entry.commands
        if any(isinstance(command, DefineTable) or _defines(command) for command in commands):
            self._note_names(state)
        return list(zip(commands, outcomes, strict=True))

    def _note_names(self, state: PartitionState) -> None:
        for table_id, table in state.tables.items():  # a deleted table keeps its name here
            self._tables[table_id] = (table.definition.name, table.definition.key)

    def _told(self, command: Command, outcome: Outcome) -> Iterator[Told]:
        if isinstance(command, Transact):
            yield from self._transaction(command, outcome)
        elif isinstance(command, Put | Update | Delete):
            yield self._asked(command) | self._became(outcome) | _who(command)
        elif isinstance(outcome, MessageFolded):
            yield self._of_owner(command) | self._became(outcome) | _who(command)
            for applied in outcome.applied:
                yield self._asked(applied.action) | self._became(applied)
        else:
            yield self._of_owner(command) | self._became(outcome) | _who(command)

    def _transaction(self, command: Transact, outcome: Outcome) -> Iterator[Told]:
        for nth, action in enumerate(command.actions):
            told: Told = {"transaction": f"{nth + 1} of {len(command.actions)}"} | self._asked(action)
            match outcome:
                case Transacted(replayed=True):
                    told |= {"outcome": "replayed"}
                case Transacted(actions=actions):
                    told |= self._became(actions[nth])
                case TransactionRefused(error=error, units=units):
                    told |= {"outcome": "refused", "units": units[nth]} | _reason(error, nth)
                case _:
                    told |= self._became(outcome)
            yield told | _who(command)

    def _asked(self, action: Action) -> Told:
        told: Told = {"command": type(action).__name__, **self._place(action.table, action.pk, action.sk)}
        expression = action.expression
        if expression is not None:
            written = {
                "condition": expression.condition,
                "update": expression.update,
                "names": expression.names,
            }
            told |= {part: text for part, text in written.items() if text}
            if expression.values:
                told["values"] = self._show(expression.values)
        return told

    def _of_owner(self, command: Command) -> Told:
        told: Told = {"command": type(command).__name__}
        match command:
            case DefineTable(operation=operation, request=request):
                return told | {"operation": operation, "request": orjson.loads(request)}
            case DefineSubscription(operation=operation, name=name, request=request):
                told |= {"operation": operation, "subscription": name}
                return told | {"request": orjson.loads(request)}
            case Checkpoint(epoch=epoch, checkpoints=marks, handled=handled, dead=dead):
                told |= {"subscription": str(command.subscription), "epoch": epoch, "marks": _marks(marks)}
                return told | {"handled": handled, "dead": dead}
            case Settle(table=table):
                return told | {"table": self._name(table)}
            case Backfill(table=table, count=count):
                return told | {"table": self._name(table), "count": count}
            case Expire(table=table, pk=pk, sk=sk):
                return told | self._place(table, pk, sk)
            case Genesis(log_id=log_id, partitions=partitions, level=level, limits=limits):
                told |= {"log_id": log_id.hex(), "partitions": partitions}
                return told | {"level": level, "limits": limits}
            case Level(level=level):
                return told | {"level": level}
            case Digest(offset=offset, digest=digest):
                return told | {"of": str(offset), "digest": digest}
            case Relay(message=message):
                place = Position(command.sender, command.offset, command.index).text(self.partitions)
                told |= {"message": type(message).__name__, "number": command.message_number, "of": place}
                return told | self._of_message(message)
            case RelayAck(receiver=receiver, through_message=through):
                return told | {"receiver": receiver, "through": through}
            case Abandon(transaction_number=number):
                return told | {"transaction": str(number)}
            case Skip(offset=offset, index=index):
                return told | {"of": Position(0, offset, index).text()}
        return told

    def _of_message(self, message: Message) -> Told:
        match message:
            case Defined(table=table, definition=definition):
                return {"table": self._name(table), "request": definition and orjson.loads(definition)}
            case DefinitionApplied(table=table) | IndexSent(table=table) | IndexFilled(table=table):
                return {"table": self._name(table)}
            case IndexEntry(table=table, item=item):
                return {"table": self._name(table), "entry": None if item is None else self._show(load(item))}
            case Prepare(transaction_number=number, actions=actions):
                return {"transaction": str(number), "actions": [self._asked(action) for action in actions]}
        told = {"transaction": str(message.transaction_number)}
        match message:
            case Vote(holds=holds, verdicts=verdicts):
                return told | {"holds": holds, "verdicts": orjson.loads(verdicts)}
            case Decide(commit=commit):
                return told | {"commit": commit}
            case Commit():
                return told | {"commit": True}
        return told

    def _became(self, outcome: Outcome | CostOnly) -> Told:
        match outcome:
            case Applied(units=units, change=change):
                indexes = (units.local or {}) | (units.glob or {})
                told: Told = {"outcome": "applied", "units": _total(units)}
                return (
                    told | ({"index_units": indexes} if any(indexes.values()) else {}) | self._change(change)
                )
            case Refused(error=error, units=cost):
                return {"outcome": "refused", "units": cost, "error": _error(error)}
            case CostOnly(units=units):
                return {"outcome": "applied", "units": _total(units)}
            case TransactionStarted(transaction_number=number):
                return {"outcome": "begun", "transaction": str(number)}
            case MessageFolded(resolved=resolved) if resolved:
                became = [{"transaction": str(number)} | self._resolved(each) for number, each, _ in resolved]
                return {"outcome": "done", "resolved": became}
            case Completed(progressed=progressed, change=change):
                return {"outcome": "done" if progressed else "no effect"} | self._change(change)
            case Skipped(why=why):
                return {"outcome": "skipped", "error": why}
        return {"outcome": "done"}

    def _resolved(self, outcome: Outcome) -> Told:
        """What became of a transaction over partitions."""
        match outcome:
            case Transacted():
                return {"outcome": "applied"}
            case TransactionRefused(error=error):
                return {"outcome": "refused", "error": _error(error)}
        return self._became(outcome)

    def _change(self, change: Change | None) -> Told:
        if change is None:
            return {"change": None}
        images = [None if image is None else self._show(load(image)) for image in (change.old, change.new)]
        return {"sequence_number": str(change.sequence_number), "old": images[0], "new": images[1]}

    def _place(self, table_id: int, pk: bytes, sk: bytes) -> Told:
        if table_id not in self._tables:
            return {"table": self._name(table_id)}
        name, schema = self._tables[table_id]
        key: Item = schema.decode(pk, sk)
        return {"table": name, "key": self._show(key)}

    def _name(self, table_id: int) -> str:
        return self._tables[table_id][0] if table_id in self._tables else f"table {table_id}"


def _who(command: Command) -> Told:
    if isinstance(command, Genesis | Digest | Relay | RelayAck | Barrier | Checkpoint):
        return {}
    context = command.context
    return {"source": context.source, "request_id": context.request_id}


def _defines(command: Command) -> bool:
    return isinstance(command, Relay) and isinstance(command.message, Defined)


def _marks(marks: Iterable[tuple[int, int]]) -> Told:
    """Sequence numbers by partition, as a cut is read."""
    return {str(partition): str(number) for partition, number in sorted(marks)}


def _total(units: Units) -> int:
    return units.table + sum((units.glob or {}).values())


def _error(error: RequestError) -> str:
    return f"{error.wire_name}: {error.message}"


def _reason(error: RequestError, nth: int) -> Told:
    """Why action `nth` stood in the way of its transaction, if it did."""
    if not isinstance(error, TransactionCanceledError):
        return {"error": _error(error)}
    reason = error.reasons[nth]
    if reason.code == "None":
        return {}
    return {"error": reason.code if reason.message is None else f"{reason.code}: {reason.message}"}
