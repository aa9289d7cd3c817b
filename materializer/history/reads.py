"""The answer to a read of the past: the code of the live reads on the tables of a past state."""

from ...log.commands import Position
from ...model.errors import HorizonError, RequestError, ResourceNotFoundError, ValidationError
from ..fold.state import Table
from .history import History, PartitionCut, PastState
from .requests import (
    DescribeTables,
    GetItems,
    PastAnswer,
    PastItems,
    PastRead,
    PastTable,
    PastTables,
)


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
    except HorizonError:
        horizon = history.horizon
        return ValidationError(
            f"The history of this database begins at position {horizon.text(partitions)}."
        ), horizon
    try:
        return _answer(state, read), state.position
    except RequestError as error:
        return error, state.position


def _answer(state: PastState, read: PastRead) -> PastAnswer:
    tables = state.tables
    match read:
        case GetItems(keys):
            return PastItems(
                [tables[table].items.get(pk, sk) if table in tables else None for table, pk, sk in keys]
            )
        case DescribeTables(names):
            return PastTables(
                [_described(tables[state.names[name]]) for name in names if name in state.names]
            )
        case _:
            if read.table not in tables:
                raise ResourceNotFoundError
            return state.read_page(read, state.limits.page_bytes)


def _described(table: Table) -> PastTable:
    stores = {table.definition.id: table.items}
    stores |= {index.definition.id: index.store for index in table.indexes.values()}
    return PastTable(table.definition, {owner: (store.count, store.size) for owner, store in stores.items()})
