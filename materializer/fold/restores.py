"""Tables that are restored from a past state, and backups.

    DefineTable (restore, fork) ──► table CREATING in all partitions ──► Load* ──► RestoreProgress, done ──► ACTIVE
                                                                          └──► RestoreProgress: the cursor

The fold does not read the past. The process that restores a table reads it at the cut that the definition names, and
proposes the items as Loads, to the partition of their keys. The cursor is in the catalog's state, so another process
can continue.
"""

from dataclasses import replace
from typing import Final

import orjson

from ...log.commands import DefineTable, Load, Put, RestoreProgress
from ...model.backups import backup
from ...model.errors import BackupNotFoundError, TransactionConflictError
from ...model.sequence_numbers import NEXT_COMMAND
from ...model.slots import CATALOG
from ...model.tables import TableDefinition
from . import definitions
from .outcomes import BackupDefined, Completed, Loaded, Outcome, Refused, Skipped
from .state import PartitionState
from .transactions.participant import current_decision
from .writes import apply
from .writes import replace as replace_item

_NOT_RESTORED: Final = "the table is not being restored"


def load_items(state: PartitionState, command: Load, sequence_number: int) -> Outcome:
    """Fold a Load: store its items and their index entries. An item may be loaded twice."""
    table = state.tables.get(command.table)
    if table is None or not table.definition.is_restoring:
        return Skipped(_NOT_RESTORED)
    assert len(command.items) <= NEXT_COMMAND, "a command has more changes than sequence numbers"
    if state.partitions > 1:
        held = state.transactions.held
        if any(table.items.slot_of(item.pk) not in state.slots for item in command.items):
            return Skipped("not of this partition")
        if held and any((command.table, item.pk, item.sk) in held for item in command.items):
            return Refused(TransactionConflictError())
    puts = [Put(command.table, *item, command.context) for item in command.items]
    if not table.indexes:
        time = state.log_time
        applied = [replace_item(table, put, number, time) for number, put in enumerate(puts, sequence_number)]
        return Loaded(len(applied), applied)
    applied = []
    for number, put in enumerate(puts, sequence_number):
        decision = current_decision(table, put, state.limits)
        applied.append(apply(state, table, put, decision, number))
    return Loaded(len(applied), applied)


def restore_progress(state: PartitionState, command: RestoreProgress, sequence_number: int) -> Outcome:
    """Fold a RestoreProgress: keep the cursor, or roll out the table as ACTIVE."""
    if state.partition != CATALOG:
        return Skipped("not the catalog")
    table = state.tables.get(command.table)
    restore = None if table is None else table.definition.restore
    if table is None or restore is None or not table.definition.is_restoring:
        return Skipped(_NOT_RESTORED)
    if not command.done:
        state.restores[command.table] = command.cursor
        return Completed(progressed=True)
    state.restores.pop(command.table, None)
    finish(state, table.definition, sequence_number)
    return Completed(progressed=True)


def finish(state: PartitionState, definition: TableDefinition, sequence_number: int) -> None:
    """Roll out a table as ACTIVE that has all items of its source."""
    assert definition.restore is not None, "the table is being restored"
    restored = replace(definition, restore=replace(definition.restore, in_progress=False))
    definitions.redefine(state, restored, sequence_number)
    if state.partitions == 1:
        definitions.settle_here(state, restored, sequence_number)


def define_backup(state: PartitionState, command: DefineTable) -> Outcome:
    """Fold a CreateBackup or a DeleteBackup."""
    if state.partition != CATALOG:
        return Skipped("not the catalog")
    request = orjson.loads(command.request)
    if command.operation == "DeleteBackup":
        removed = state.backups.pop(request["BackupArn"], None)
        if removed is None:
            return Refused(BackupNotFoundError(f"Backup not found: {request['BackupArn']}"))
        return BackupDefined(removed)
    table = state.tables.get(command.table)
    if table is None:
        return Skipped("no such table")
    created = backup(table.definition, request, uuid=command.uuid, time_ms=state.log_time)
    state.backups[created.arn] = created
    return BackupDefined(created)
