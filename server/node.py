"""One process's database: a log, the worker that folds it, and the names the API knows it by."""

from collections.abc import Callable

from ..materializer.partition import Partition
from ..materializer.state import PartitionState, Table
from ..model.errors import ResourceNotFoundError
from ..model.limits import Limits
from ..model.tables import name_of
from .settings import Settings

# Control operations word it so (and name the table), operations on items as ResourceNotFoundError does by itself.
_NO_TABLE = "Requested resource not found: Table: {} not found"


class Node:
    """What a handler works with.

    Attributes:
        partition: Where commands and reads go.
        state: The catalog: which tables there are and how they are defined. Look, but never change it.
        clock: Milliseconds since 1970.
        random_bytes: Draws that many random bytes.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        partition: Partition,
        state: PartitionState,
        clock: Callable[[], int],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self.settings = settings
        self.partition = partition
        self.state = state
        self.clock = clock
        self.random_bytes = random_bytes

    @property
    def limits(self) -> Limits:
        """The limits of the log that is served."""
        return self.state.limits

    def table(self, name: str) -> Table:
        """The table that a TableName (a name or an ARN) means, for reading or writing items.

        Raises:
            ResourceNotFoundError: There is none, or it is still being created or already being deleted.
        """
        state = self.state
        table_id = state.names.get(name) or state.names.get(name_of(name))
        if table_id is not None:
            table = state.tables[table_id]
            if table.definition.status in _USABLE:
                return table
        raise ResourceNotFoundError

    def table_in_any_status(self, name: str) -> Table:
        """The table that a TableName means in whatever status it is, for control operations."""
        table = self.state.table_named(name_of(name))
        if table is None:
            raise ResourceNotFoundError(_NO_TABLE.format(name_of(name)))
        return table


_USABLE = frozenset(("ACTIVE", "UPDATING"))
