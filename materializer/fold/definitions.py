"""Table commands: which tables exist and what they are like.

A table command is judged by the pure functions of `model.table_requests` on the definition as it is, with the
log's time. What it answers is the definition on its way (CREATING, UPDATING, DELETING). Without a delay the
table is settled in the same step; with one it stays so until the owner proposes Settle. A new index of a table
that has items is filled by Backfill commands, so that no step is long.
"""

import orjson

from ...log.commands import Backfill, DefineTable, Settle
from ...model import table_requests
from ...model.errors import RequestError, ResourceInUseError
from ...model.tables import TableDefinition, index_filled, key_error_of_index, settled
from ...model.throughput import units_of
from ...model.values import load
from .entries import entry_of, entry_place
from .outcomes import Defined, Done, Outcome, Refused, Skipped
from .state import Index, PartitionState, Table


def define(state: PartitionState, command: DefineTable) -> Outcome:
    """Fold a table command."""
    request = orjson.loads(command.request)
    try:
        if command.operation == "CreateTable":
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
                units=_units(state, but=command.table),
            )
    except RequestError as error:
        return Refused(error)

    state.next_id = max([state.next_id, definition.id + 1, *(index.id + 1 for index in definition.indexes)])
    _install(state, definition)
    if not command.settle and definition.status != "ACTIVE":
        _settle(state, definition)
    return Defined(definition)


def settle(state: PartitionState, command: Settle) -> Outcome:
    """Fold a Settle."""
    table = state.tables.get(command.table)
    if table is None or table.definition.status == "ACTIVE":
        return Done(progressed=False)
    _settle(state, table.definition)
    return Done(progressed=True)


def backfill(state: PartitionState, command: Backfill) -> Outcome:
    """Fold a Backfill: give the next items their entries, or find that all have theirs.

    Writes maintain a new index from the start, so an entry may be there already: it is the same one. Items
    whose attributes the index cannot take are passed over, as DynamoDB does.
    """
    table = state.tables.get(command.table)
    if table is None:
        return Done(progressed=False)
    index = next((index for index in table.indexes.values() if index.definition.id == command.index), None)
    if index is None or not index.definition.backfilling:
        return Done(progressed=False)
    if not _fill(state, table, index, command.count):
        index.cursor = None
        _install(state, index_filled(table.definition, command.index))
    return Done(progressed=True)


def _create(state: PartitionState, command: DefineTable, request: dict[str, object]) -> TableDefinition:
    definition = table_requests.create(
        request,
        table_id=state.next_id,
        uuid=command.uuid,
        time_ms=state.log_time,
        limits=state.limits,
        tables=len(state.tables),
        units=_units(state),
    )
    if definition.name in state.names:
        raise ResourceInUseError(f"Table already exists: {definition.name}")
    return definition


def _units(state: PartitionState, but: int = 0) -> tuple[int, int]:
    """What the tables have provisioned, one of them left out."""
    return units_of(table.definition for table in state.tables.values() if table.definition.id != but)


def _install(state: PartitionState, definition: TableDefinition) -> None:
    table = state.tables.get(definition.id)
    if table is None:
        state.tables[definition.id] = Table(definition)
        state.names[definition.name] = definition.id
    else:
        table.define(definition)


def _settle(state: PartitionState, definition: TableDefinition) -> None:
    after = settled(definition)
    if after is None:
        del state.tables[definition.id]
        del state.names[definition.name]
        return
    _install(state, after)


def _fill(state: PartitionState, table: Table, index: Index, count: int) -> bool:
    """Enter up to `count` items after the cursor; False when the table's end is reached."""
    for digest, pk, sk, stored in table.items.scan(index.cursor):
        if count == 0:
            return True
        count -= 1
        index.cursor = (digest, pk, sk)
        item = load(stored[0])
        place = entry_place(index, item, pk, sk)
        if place is not None and key_error_of_index(index.definition, item, state.limits) is None:
            index.store.put(*place, entry_of(index, item, stored, state.limits))
    return False
