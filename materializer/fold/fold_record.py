"""The effect of one record on the state.

    (state, record) ──► fold ──► outcomes, one for each command

The fold is the whole semantics of the database. It does no I/O, reads no clock and draws no random number: replaying
a partition from offset 0 produces the same state and the same changes, byte for byte, on any machine at any time. A
refused command is an outcome. An exception here is a bug, and stops the partition at the record's position.
"""

from collections.abc import Collection, Iterable
from typing import Final, TypeAlias

from ...log.commands import (
    LEVEL,
    Abandon,
    Backfill,
    Barrier,
    Checkpoint,
    Command,
    Commit,
    Decide,
    DefineSubscription,
    DefineTable,
    Delete,
    Digest,
    Entry,
    Expire,
    Genesis,
    Level,
    Load,
    Put,
    Record,
    Relay,
    RelayAck,
    RestoreProgress,
    Settle,
    Skip,
    Transact,
    Update,
)
from ...log.log import HASH
from ...model import numbers
from ...model.errors import NewerVersionError, TransactionConflictError
from ...model.jobs import JOB_COMMANDS
from ...model.sequence_numbers import NEXT_COMMAND, sequence_number
from ...model.slots import CATALOG
from ...model.values import load
from . import definitions, jobs, messages, restores
from .indexes import backfill
from .outcomes import Completed, Outcome, Refused, Skipped, change
from .state import FEED_LEVEL, PartitionState
from .transactions.coordinator import abandon
from .transactions.transact import transact
from .writes import apply, decide, removal, replace, store

_VOID: Final = "an operator declared it void"

Void: TypeAlias = tuple[int, int | None]
"""A void record or command, as a Skip declares it: the offset of a record, and the index of a command or None for all.
"""


class LateSkipError(Exception):
    """A Skip declares void a record or command that is folded already; no Skip of this release does.

    The caller restarts with a state from before `void` and passes it to `fold`.
    """

    def __init__(self, void: Void) -> None:
        super().__init__(f"the command at {void} is declared void after it was folded")
        self.void = void


def fold(state: PartitionState, record: Record, void: Collection[Void] = ()) -> list[Outcome]:
    """Fold one record into the state and return one outcome per command.

    Args:
        state: The state after all records before this one.
        record: The next record.
        void: The records and commands that later records declare void (`voids`); empty for most logs.

    Raises:
        LateSkipError: The record declares void a command that is folded already.
        AssertionError: The record is not the next one, or a command is malformed: a bug.
        NewerVersionError: The record is of a later release, at a level that this release does not support.
    """
    assert record.offset == state.next_offset, "the log skipped or repeated a record"
    state.next_offset = record.offset + 1
    state.begin_record()
    entry = record.entry
    time = record.time if entry.time is None else entry.time
    state.log_time = max(state.log_time, time)
    voided = [] if not void else [index for offset, index in void if offset == record.offset]
    state.voided += [(record.offset, index) for index in voided]
    if not state.count_entry(entry.origin, entry.entry_number):
        return _skipped(entry)
    if state.partitions > 1:
        state.log_time = max(state.log_time, _latest_cause_time(entry) + 1)
    outcomes: list[Outcome] = []
    next_sequence_number = sequence_number(record.offset, 0, 0)
    for command in entry.commands:
        if voided and (None in voided or len(outcomes) in voided):
            outcomes.append(_fold_void(state, command, next_sequence_number))
        else:
            outcomes.append(fold_command(state, command, next_sequence_number))
        next_sequence_number += NEXT_COMMAND
    return outcomes


def _latest_cause_time(entry: Entry) -> int:
    """Return the latest log time of the relays and acknowledgements in the entry; -1 if it has none.

    The receiver's log time of a message is later than the sender's, for the whole record, whichever command is the
    message: so a cut by time never contains an effect without its cause.
    """
    return max(
        (command.time for command in entry.commands if isinstance(command, Relay | RelayAck)), default=-1
    )


def voids(records: Iterable[Record]) -> list[Void]:
    """Return the records and commands before these records that these declare void."""
    return [
        (command.offset, command.index)
        for record in records
        for command in record.entry.commands
        if type(command) is Skip and command.offset < record.offset
    ]


def fold_command(state: PartitionState, command: Command, sequence_number: int) -> Outcome:
    """Fold one command; `sequence_number` is that of its first change."""
    match command:
        case Put() | Update() | Delete():
            return _write(state, command, sequence_number)
        case Transact():
            return transact(state, command, sequence_number)
        case Expire():
            return _expire(state, command, sequence_number)
        case DefineTable(operation="CreateBackup" | "DeleteBackup"):
            return restores.define_backup(state, command)
        case DefineTable() if command.operation in JOB_COMMANDS:
            return jobs.define_job(state, command, sequence_number)
        case DefineTable():
            return definitions.define(state, command, sequence_number)
        case Settle():
            return definitions.settle(state, command, sequence_number)
        case Backfill():
            return backfill(state, command, sequence_number)
        case Relay():
            return messages.relay(state, command, sequence_number)
        case RelayAck():
            return messages.relay_ack(state, command)
        case Abandon():
            return abandon(state, command, sequence_number)
        case Genesis():
            return _begin(state, command)
        case Level():
            return _raise_level(state, command, sequence_number)
        case Checkpoint():
            from .feed.subscriptions import (
                checkpoint,  # a start without subscriptions imports no settings of them
            )

            return checkpoint(state, command)
        case DefineSubscription():
            from .feed.subscriptions import define_subscription

            return define_subscription(state, command, sequence_number)
        case Load():
            return restores.load_items(state, command, sequence_number)
        case RestoreProgress():
            return restores.restore_progress(state, command, sequence_number)
        case Digest() | Barrier():
            return Completed(progressed=False)
        case Skip():
            return _fold_skip(state, command)


def _write(state: PartitionState, command: Put | Update | Delete, sequence_number: int) -> Outcome:
    table = state.tables.get(command.table)
    if table is None:
        return Skipped("no such table")
    assert state.genesis is not None, "the log does not begin with a Genesis"
    if state.partitions > 1:
        if table.items.slot_of(command.pk) not in state.slots:
            return Skipped("not of this partition")
        if (command.table, command.pk, command.sk) in state.transactions.held:
            return Refused(TransactionConflictError())
    if type(command) is Put and command.expression is None and not table.indexes:
        return replace(table, command, sequence_number, state.log_time)
    decision = decide(table, command, state.limits, state.level)
    if isinstance(decision, Refused):
        return decision
    return apply(state, table, command, decision, sequence_number)


def _expire(state: PartitionState, command: Expire, sequence_number: int) -> Outcome:
    """Remove an expired item, if it is still expired.

    The owner proposed this from its own state. Since then an update may have changed the item, or the table's
    time-to-live attribute may have changed. Only the state at this command counts.
    """
    table = state.tables.get(command.table)
    old = None if table is None else table.items.get(command.pk, command.sk)
    if table is None or old is None or table.definition.ttl_attribute is None:
        return Completed(progressed=False)
    if (command.table, command.pk, command.sk) in state.transactions.held:
        return Completed(progressed=False)
    value = load(old[0]).get(table.definition.ttl_attribute, {})
    due = numbers.compare(command.at, str(state.log_time // 1000)) <= 0
    if value.get("N") != command.at or not due:
        return Completed(progressed=False)
    decision = removal(table, command.pk, command.sk, old, state.limits)
    store(state, table, command.pk, command.sk, decision, sequence_number)
    return Completed(
        progressed=True,
        change=change(
            command.table,
            command.pk,
            command.sk,
            old,
            None,
            sequence_number,
            state.log_time,
            command.context,
        ),
    )


def _fold_void(state: PartitionState, command: Command, sequence_number: int) -> Outcome:
    """Skip a void command. A void Relay is counted, or its sender would repeat it forever.

    A void Decide or Commit ends its transaction without a write: its keys would be held forever otherwise.
    """
    if type(command) is not Relay or not messages.count_message(state, command):
        return Skipped(_VOID)
    if isinstance(command.message, Decide | Commit):
        position, forgotten = (
            (command.offset, command.index),
            Decide(command.message.transaction_number, commit=False),
        )
        messages.fold_message(state, command.sender, position, forgotten, sequence_number)
    return Skipped(_VOID)


def _fold_skip(state: PartitionState, command: Skip) -> Outcome:
    """Verify that the void command was skipped. An offset that is not before the Skip's own has no effect."""
    void = command.offset, command.index
    if command.offset < state.next_offset - 1 and void not in state.voided:
        raise LateSkipError(void)
    return Completed(progressed=False)


def _begin(state: PartitionState, genesis: Genesis) -> Outcome:
    if state.genesis is not None:
        return Completed(progressed=False)
    _check_level(genesis.level)
    if genesis.hash != HASH:
        raise _newer_version(f"it hashes keys by {genesis.hash}")
    if genesis.base:
        raise _newer_version(f"its first position is {genesis.base}")
    try:
        state.begin(genesis)
    except ValueError:
        raise _newer_version(f"its limits are {genesis.limits}") from None
    return Completed(progressed=True)


def _raise_level(state: PartitionState, command: Level, sequence_number: int) -> Outcome:
    _check_level(command.level)
    before, state.level = state.level, max(state.level, command.level)
    if before < FEED_LEVEL <= state.level and state.partition == CATALOG:
        definitions.capture_streams(state, sequence_number)
    return Completed(progressed=state.level > before)


def _check_level(level: int) -> None:
    if level > LEVEL:
        raise _newer_version(f"its level is {level}, this version supports {LEVEL}")


def _newer_version(reason: str) -> NewerVersionError:
    """Return the error for a log whose commands this release does not understand: it must not guess."""
    return NewerVersionError(
        f"a later version of foldb wrote the log: {reason}. Start that version, or a later one."
    )


def _skipped(entry: Entry) -> list[Outcome]:
    return [Skipped("a duplicate or stale entry") for _ in entry.commands]
