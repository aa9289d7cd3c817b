"""What one record does.

    (state, record) ──► fold ──► outcomes, one for each command

The fold is the whole semantics of the database. It does no I/O, reads no clock and draws no random number:
replaying a partition from offset 0 makes the same state and the same changes, byte for byte, on any machine
and any day. A command that is refused is an outcome. Anything that raises here is a bug, and stops the
partition at the record's position.
"""

from ...log.commands import (
    Backfill,
    Command,
    DefineTable,
    Delete,
    Digest,
    Entry,
    Expire,
    Genesis,
    Level,
    Put,
    Record,
    Settle,
    Transact,
    Update,
)
from ...log.log import HASH
from ...model import numbers
from ...model.errors import NewerVersionError
from ...model.values import load
from . import definitions
from .outcomes import Done, Outcome, Refused, Skipped, sequence_number
from .state import PartitionState
from .transactions import transact
from .writes import apply, decide, removal, write_through

# What a command means is part of the format (see `Level`). This release knows no other.
LEVEL = 1


def fold(state: PartitionState, record: Record) -> list[Outcome]:
    """Fold one record into the state and say what became of each command.

    Raises:
        AssertionError: The record is not the next one, or a command is not what the server may append: a bug.
        NewerVersionError: A later release wrote it, and its commands mean what this one does not know.
    """
    assert record.offset == state.next_offset, "the log skipped or repeated a record"
    state.next_offset = record.offset + 1
    entry = record.entry
    time = record.time if entry.time is None else entry.time
    state.log_time = max(state.log_time, time)
    if not state.count_origin(entry.origin, entry.number):
        return _skipped(entry)
    return [
        fold_command(state, command, record.offset, index) for index, command in enumerate(entry.commands)
    ]


def fold_command(state: PartitionState, command: Command, offset: int, index: int) -> Outcome:
    """Fold the command at (offset, index)."""
    match command:
        case Put() | Update() | Delete():
            return _write(state, command, offset, index)
        case Transact():
            return transact(state, command, offset, index)
        case Expire():
            return _expire(state, command, offset, index)
        case DefineTable():
            return definitions.define(state, command)
        case Settle():
            return definitions.settle(state, command)
        case Backfill():
            return definitions.backfill(state, command)
        case Genesis():
            return _begin(state, command)
        case Level():
            return _raise_level(state, command)
        case Digest():
            return Done(progressed=False)


def _write(state: PartitionState, command: Put | Update | Delete, offset: int, index: int) -> Outcome:
    table = state.tables.get(command.table)
    if table is None:
        return Skipped("no such table")
    decision = decide(table, command, state.limits)
    if isinstance(decision, Refused):
        return decision
    return apply(table, command, decision, _number(state, offset, index), state.log_time)


def _expire(state: PartitionState, command: Expire, offset: int, index: int) -> Outcome:
    """Remove an item whose time has passed, if that is still so.

    The owner proposed this from what it saw; an update may have come in between, or the table may have got
    another time-to-live attribute or none. Only what holds here and now counts.
    """
    table = state.tables.get(command.table)
    old = None if table is None else table.items.get(command.pk, command.sk)
    if table is None or old is None or table.definition.ttl_attribute is None:
        return Done(progressed=False)
    value = load(old[0]).get(table.definition.ttl_attribute, {})
    due = numbers.compare(command.at, str(state.log_time // 1000)) <= 0
    if value.get("N") != command.at or not due:
        return Done(progressed=False)
    decision = removal(table, command.pk, command.sk, old, state.limits)
    change = write_through(
        table,
        command.pk,
        command.sk,
        decision,
        _number(state, offset, index),
        state.log_time,
        command.context,
    )
    return Done(progressed=True, change=change)


def _begin(state: PartitionState, genesis: Genesis) -> Outcome:
    if state.genesis is not None:
        return Done(progressed=False)
    _check_level(genesis.level)
    if genesis.hash != HASH:
        raise _later(f"keys find their places by {genesis.hash}")
    try:
        state.begin(genesis)
    except ValueError:
        raise _later(f"its limits are {genesis.limits}") from None
    return Done(progressed=True)


def _raise_level(state: PartitionState, command: Level) -> Outcome:
    _check_level(command.level)
    raised = command.level > state.level
    state.level = max(state.level, command.level)
    return Done(progressed=raised)


def _check_level(level: int) -> None:
    if level > LEVEL:
        raise _later(f"commands mean what they do at level {level}, not {LEVEL}")


def _later(what: str) -> NewerVersionError:
    """Who does not know what a log means must not guess."""
    return NewerVersionError(
        f"the log is of a version of foldb later than this one: {what}. Start the one that wrote it, or a later one."
    )


def _number(state: PartitionState, offset: int, index: int) -> int:
    assert state.genesis is not None, "the log does not begin with a Genesis"
    return sequence_number(state.genesis.base + offset, index, 0)


def _skipped(entry: Entry) -> list[Outcome]:
    return [Skipped("a duplicate or stale entry") for _ in entry.commands]
