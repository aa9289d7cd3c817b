"""Table commands: the set of tables and their definitions.

The pure functions of `model.table_requests` judge a table command, on the current definition and at the log's time.
The command's answer is the transitional definition (CREATING, UPDATING, DELETING). With one partition the table
settles in the same step, or after a delay, when the owner proposes Settle.

With several partitions, the catalog decides and sends the settled definition to the others:

    DefineTable ──► transitional definition, here        Defined(settled) ──► every other partition
                                                                                    │
    all have applied it, and the delay is over ◄───────── DefinitionApplied ◄───────┘
        ──► settled definition, here

So a table or an index that is ACTIVE in the catalog is ACTIVE in every partition, and one that is deleted in the
catalog is deleted in every partition. A new index is filled when every partition has reported its part as filled
(indexes.py): that definition is rolled out as well.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import orjson

from ...log.commands import Defined, DefineTable, DefinitionApplied, IndexFilled, Settle
from ...model import table_requests
from ...model.errors import BackupNotFoundError, RequestError, ResourceInUseError, TableAlreadyExistsError
from ...model.jobs import START_IMPORT
from ...model.slots import CATALOG, data_partitions
from ...model.table_requests import FILLED, SHARD_AGE
from ...model.tables import SHARD_MS, TableDefinition, index_filled, settled
from . import outcomes
from .outbox import send
from .outcomes import Completed, Outcome, Refused, Skipped
from .state import FEED_LEVEL, PartitionState, Pending


def define(state: PartitionState, command: DefineTable, sequence_number: int) -> Outcome:
    """Fold a table command."""
    if state.partition != CATALOG:
        return Skipped("not the catalog")
    request = orjson.loads(command.request)
    if state.level >= FEED_LEVEL:
        request.setdefault(SHARD_AGE, SHARD_MS)
    else:
        request.pop(SHARD_AGE, None)
    try:
        if command.operation == "CreateTable" or command.operation in FILLED:
            definition = _create(state, command, request)
        else:
            table = state.tables.get(command.table)
            if table is None:
                return Skipped("no such table")
            definition = table_requests.change(
                command.operation,
                table.definition,
                request,
                next_id=state.next_id,
                time_ms=state.log_time,
                limits=state.limits,
                units=state.units_of_others(table),
            )
    except RequestError as error:
        return Refused(error)

    definition = _with_own_label(state, definition)
    state.install(definition, sequence_number)
    if state.partitions > 1:
        # An ACTIVE table has no Settle to wait for, though a filled index may be under way.
        is_delayed = command.settle and definition.status != "ACTIVE"
        _roll_out(state, definition, sequence_number, delayed=is_delayed)
    elif not command.settle and definition.status != "ACTIVE":
        settle_here(state, definition, sequence_number)
    return outcomes.TableDefined(definition)


def capture_streams(state: PartitionState, sequence_number: int) -> None:
    """Capture the changes of streams that were enabled below the level that captures, from this command on."""
    for table in list(state.tables.values()):
        stream = table.definition.stream
        if stream is not None and stream.enabled:
            captured = replace(table.definition, stream=replace(stream, shard_ms=SHARD_MS))
            redefine(state, captured, sequence_number)


def watch(state: PartitionState, table_id: int, watched: bool, sequence_number: int) -> None:
    """Start or stop capturing the changes of a table for its subscriptions, in every partition."""
    table = state.tables.get(table_id)
    if table is not None and table.definition.watched != watched:
        redefine(state, replace(table.definition, watched=watched), sequence_number)


def redefine(state: PartitionState, definition: TableDefinition, sequence_number: int) -> None:
    """Redefine a table in every partition; a rollout that is under way continues with the new definition."""
    state.install(definition, sequence_number)
    if state.partitions > 1:
        pending = state.rollout.pending.get(definition.id)
        delayed = pending is not None and pending.delayed
        _roll_out(state, definition, sequence_number, delayed=delayed)


def settle(state: PartitionState, command: Settle, sequence_number: int) -> Outcome:
    """Fold a Settle."""
    table = state.tables.get(command.table)
    if table is None or table.definition.status == "ACTIVE" or table.definition.is_restoring:
        return Completed(progressed=False)
    if state.partitions == 1:
        settle_here(state, table.definition, sequence_number)
        return Completed(progressed=True)
    pending = state.rollout.pending.get(command.table)
    if pending is None or not pending.delayed:
        return Completed(progressed=False)
    pending.delayed = False
    _settle_applied(state, sequence_number)
    return Completed(progressed=True)


def fold_defined(state: PartitionState, message: Defined, sequence_number: int) -> None:
    """Fold a Defined: install the catalog's definition."""
    if message.definition is None:
        state.drop(message.table, sequence_number)
    else:
        state.install(TableDefinition.from_json(orjson.loads(message.definition)), sequence_number)
    send(state, CATALOG, DefinitionApplied(message.table, message.version), sequence_number)


def fold_definition_applied(
    state: PartitionState, sender: int, message: DefinitionApplied, sequence_number: int
) -> None:
    """Fold a DefinitionApplied: settle the tables that every partition has applied."""
    state.rollout.applied[sender] = message.version
    _settle_applied(state, sequence_number)


def fold_index_filled(state: PartitionState, sender: int, message: IndexFilled, sequence_number: int) -> None:
    """Fold an IndexFilled: when all parts of an index are filled, roll out the filled definition."""
    table = state.tables.get(message.table)
    if table is None or all(index.id != message.index for index in table.definition.indexes):
        return
    filled = state.rollout.filled
    filled[message.index] = sorted({sender, *filled.get(message.index, ())})
    if _is_filled(state, message.index):
        redefine(state, table.definition, sequence_number)


def _create(state: PartitionState, command: DefineTable, request: dict[str, Any]) -> TableDefinition:
    is_filled = command.operation in FILLED
    is_restore = is_filled and command.operation != START_IMPORT
    if is_restore:
        backup_arn = request["Restore"].get("BackupArn")
        if backup_arn is not None and backup_arn not in state.backups:
            raise BackupNotFoundError(f"Backup not found: {backup_arn}")
    make = partial(table_requests.restore, command.operation) if is_filled else table_requests.create
    definition = make(
        request,
        table_id=state.next_id,
        uuid=command.uuid,
        time_ms=state.log_time,
        limits=state.limits,
        tables=len(state.tables),
        units=state.units_of_others(None),
    )
    if definition.name in state.names:
        error = TableAlreadyExistsError if is_restore else ResourceInUseError
        raise error(f"Table already exists: {definition.name}")
    return definition


def _with_own_label(state: PartitionState, definition: TableDefinition) -> TableDefinition:
    """Return the definition with a stream label that no earlier stream of the table, or of its name, has.

    Log time may stay equal while a stream is disabled and enabled, or a table is deleted and created again.
    """
    stream = definition.stream
    if stream is None or not stream.enabled or not stream.shard_ms:
        return definition
    labels = {
        period.label
        for periods in state.periods.values()
        for period in periods
        if period.name == definition.name and not (period.is_open and period.table == definition.id)
    }
    label = stream.created_ms
    while label in labels:
        label += 1
    return replace(definition, stream=replace(stream, created_ms=label))


def settle_here(state: PartitionState, definition: TableDefinition, sequence_number: int) -> None:
    """Settle a table of the only partition."""
    after = settled(definition)
    if after is None:
        state.drop(definition.id, sequence_number)
    else:
        state.install(after, sequence_number)


# Several partitions


def _roll_out(
    state: PartitionState, definition: TableDefinition, sequence_number: int, *, delayed: bool
) -> None:
    """Send the settled definition to all others. The catalog installs it when all have applied it."""
    spreading = state.rollout
    spreading.version += 1
    goal = _settled_definition(state, definition)
    body = None if goal is None else orjson.dumps(goal.to_json(), option=orjson.OPT_SORT_KEYS)
    for partition in data_partitions(state.partitions):
        send(state, partition, Defined(definition.id, spreading.version, body), sequence_number)
    if goal != definition:
        spreading.pending[definition.id] = Pending(spreading.version, delayed)


def _settled_definition(state: PartitionState, definition: TableDefinition) -> TableDefinition | None:
    """Return the definition after it settles, with the indexes filled that are filled in every partition."""
    goal = settled(definition)
    if goal is not None:
        for index in goal.indexes:
            if index.backfilling and _is_filled(state, index.id):
                goal = index_filled(goal, index.id)
    return goal


def _is_filled(state: PartitionState, index_id: int) -> bool:
    return state.rollout.filled.get(index_id) == list(data_partitions(state.partitions))


def _settle_applied(state: PartitionState, sequence_number: int) -> None:
    """Settle the tables that every partition has applied and whose delay is over."""
    spreading = state.rollout
    for table_id, pending in list(spreading.pending.items()):
        if pending.delayed or not state.is_applied_everywhere(pending.version):
            continue
        del spreading.pending[table_id]
        before = state.tables[table_id].definition
        goal = _settled_definition(state, before)
        if goal is None:
            state.drop(table_id, sequence_number)
        else:
            state.install(goal, sequence_number)
        for index in before.indexes:
            after = None if goal is None else goal.index(index.name)
            if after is None or not after.backfilling:
                spreading.filled.pop(index.id, None)
