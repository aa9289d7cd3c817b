"""The log as a story: what each command asked for, and what became of it.

The log itself holds only what was asked. So whoever tells its story folds it along, and gets the
changes with both images, the refusals with their units, and every sequence number as a stream
would give it.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from ..log.commands import (
    Action,
    Backfill,
    Command,
    DefineTable,
    Delete,
    Digest,
    Expire,
    Genesis,
    Level,
    Position,
    Put,
    Record,
    Settle,
    Transact,
    Update,
)
from ..log.local import LocalLog
from ..log.local.reader import LogReader
from ..materializer.fold.outcomes import (
    Applied,
    Change,
    Done,
    Outcome,
    Refused,
    Skipped,
    Transacted,
    TransactionRefused,
)
from ..materializer.fold.state import PartitionState
from ..materializer.refold import fold_record
from ..model.errors import RequestError, TransactionCanceledError
from ..model.key_schema import KeySchema
from ..model.values import Item, load
from .failures import CommandError, ExitCode
from .output import time_text
from .values import plain_item

PARTITION = 0  # a log has one for now

_DIGITS = 18  # sequence numbers have no room for more

Told = dict[str, Any]


def open_log(folder: Path) -> LogReader:
    """The log of a database folder, to read beside whoever writes it."""
    return LocalLog.open_reader(folder)


def read_position(text: str) -> Position:
    """Read a position as it is printed: `10482`, `10482.3`, with or without an @.

    >>> read_position("@10482.3")
    Position(partition=0, offset=10482, index=3)
    """
    offset, dot, index = text.removeprefix("@").partition(".")
    if not _is_number(offset) or (dot and not _is_number(index)):
        raise CommandError(f"`{text}` is not a position such as 10482 or 10482.3", ExitCode.USAGE)
    return Position(PARTITION, int(offset), int(index) if dot else None)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS


class Story:
    """Folds records and tells of each command; items are plain, or DynamoDB JSON if `typed`."""

    def __init__(self, *, typed: bool = False) -> None:
        self.state = PartitionState()
        self._show = (lambda item: item) if typed else plain_item
        self._tables: dict[int, tuple[str, KeySchema]] = {}

    def tell(self, records: Iterable[Record]) -> Iterator[Told]:
        """One row a command, and one for each action of a transaction."""
        for record in records:
            for index, (command, outcome) in enumerate(self._fold(record)):
                place = {
                    "position": Position(record.partition, record.offset, index).text(),
                    "time": time_text(record.time if record.entry.time is None else record.entry.time),
                }
                yield from (place | told for told in self._told(command, outcome))

    def _fold(self, record: Record) -> list[tuple[Command, Outcome]]:
        outcomes = fold_record(self.state, record)
        commands = record.entry.commands
        if any(isinstance(command, DefineTable) for command in commands):
            for table_id, table in self.state.tables.items():  # a deleted table keeps its name here
                self._tables[table_id] = (table.definition.name, table.definition.key)
        return list(zip(commands, outcomes, strict=True))

    def _told(self, command: Command, outcome: Outcome) -> Iterator[Told]:
        if isinstance(command, Transact):
            yield from self._transaction(command, outcome)
        elif isinstance(command, Put | Update | Delete):
            yield self._asked(command) | self._became(outcome) | _who(command)
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
        return told

    def _became(self, outcome: Outcome) -> Told:
        match outcome:
            case Applied(units=units, change=change):
                indexes = (units.local or {}) | (units.glob or {})
                told: Told = {"outcome": "applied", "units": units.table + sum((units.glob or {}).values())}
                return (
                    told | ({"index_units": indexes} if any(indexes.values()) else {}) | self._change(change)
                )
            case Refused(error=error, units=cost):
                return {"outcome": "refused", "units": cost, "error": _error(error)}
            case Done(progressed=progressed, change=change):
                return {"outcome": "done" if progressed else "no effect"} | self._change(change)
            case Skipped(why=why):
                return {"outcome": "skipped", "error": why}
        return {"outcome": "done"}

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
    if isinstance(command, Genesis | Digest):
        return {}
    context = command.context
    return {"source": context.source, "request_id": context.request_id}


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
