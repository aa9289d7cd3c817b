"""The answer to a read of the past: the code of the live reads on the tables of a past state."""

from typing import cast

from ...log.commands import Position
from ...model.errors import (
    HorizonError,
    RequestError,
    ResourceNotFoundError,
    TrimmedDataAccessError,
    ValidationError,
)
from ..feed_requests import Changes, ReadChanges
from ..fold.state import Table
from .attribution import members_of
from .changes import read_changes
from .differences import read_differences
from .history import History, PartitionCut, PastState, TimeCut
from .item_versions import read_versions
from .requests import (
    AtInstant,
    DescribeTables,
    GetItems,
    PastAnswer,
    PastDifferences,
    PastItems,
    PastMember,
    PastMembers,
    PastRead,
    PastTable,
    PastTables,
    PastVersions,
    ReadDifferences,
    ReadMembers,
    ReadVersions,
)
from .timeline import time_at
from .version_history import SpannedHistory, VersionedState


def read_past(
    history: History, cut: PartitionCut, read: PastRead, partitions: int
) -> tuple[PastAnswer | RequestError, Position]:
    """Return the answer, or DynamoDB's error, and the position of the state at the cut.

    `partitions` is the number of partitions of the log.

    Raises:
        NotFoldedError: The history has not folded the log up to the cut, or the cut is a time that is not closed.
    """
    try:
        state = history.at(cut)
        return _answer(history, state, read, partitions), state.position
    except RequestError as error:
        return error, state.position
    except HorizonError:
        horizon = history.horizon
        kind = TrimmedDataAccessError if isinstance(read, ReadChanges) else ValidationError
        return kind(f"The history of this database begins at position {horizon.text(partitions)}."), horizon


def _answer(history: History, state: PastState, read: PastRead, partitions: int) -> PastAnswer:
    tables = state.tables
    match read:
        case GetItems(keys):
            return PastItems(
                [tables[table].items.get(pk, sk) if table in tables else None for table, pk, sk in keys]
            )
        case DescribeTables(names, is_counted):
            found = [tables[state.names[name]] for name in names if name in state.names]
            if is_counted:
                return PastTables([_described(table) for table in found])
            assert isinstance(state, VersionedState), "only a history of versions has them"
            return PastTables([PastTable(table.definition, {}) for table in found], *state.same_definitions())
        case ReadVersions() | ReadDifferences() | ReadMembers() | ReadChanges():
            assert isinstance(state, VersionedState), "only a history of versions has them"
            return _of_versions(cast(SpannedHistory, history), state, read, partitions)
        case AtInstant(at_cut, positions):
            assert isinstance(state, VersionedState), "only a history of versions has them"
            state.lay_decided(positions)
            return _answer(history, state, at_cut, partitions)
        case _:
            if read.table not in tables:
                raise ResourceNotFoundError
            return state.read_page(read, state.limits.page_bytes)


def _of_versions(
    history: SpannedHistory,
    state: VersionedState,
    read: ReadVersions | ReadDifferences | ReadMembers | ReadChanges,
    partitions: int,
) -> PastVersions | PastDifferences | PastMembers | Changes:
    match read:
        case ReadVersions():
            return read_versions(history, read, state)
        case ReadDifferences(since=since, since_positions=positions):
            earlier = history.at(since)
            if positions:
                earlier.lay_decided(positions)
            return read_differences(history, earlier, state, read)
        case ReadMembers(transactions):
            return PastMembers([_members(history, *each) for each in transactions])
        case ReadChanges():
            return read_changes(history, state.position, read, partitions)


def _described(table: Table) -> PastTable:
    stores = {table.definition.id: table.items}
    stores |= {index.definition.id: index.store for index in table.indexes.values()}
    return PastTable(table.definition, {owner: (store.count, store.size) for owner, store in stores.items()})


def _members(
    history: SpannedHistory, coordinator: int, packed: int, first_ms: int, last_ms: int
) -> list[PastMember]:
    """Return the actions that a transaction applied in this partition. A dropped table keeps its name here."""
    try:
        epoch = history.at(TimeCut(last_ms)).history
    except HorizonError:
        return []
    while True:
        members = members_of(epoch.engine, (coordinator, packed))
        first = epoch.first_offset
        # An epoch begins at the log time at which the one before ends, so two may have this time.
        if members or first == history.horizon.offset or time_at(epoch.engine, first - 1) < first_ms:
            definitions = epoch.definitions
            return [
                PastMember(definition.name, definition.key.write(each.pk, each.sk), each.kind)
                for each in members
                if (definition := definitions.last(each.table)) is not None
            ]
        epoch = history.epoch_at(first - 1)
