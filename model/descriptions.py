"""A table's definition in the words of the API: TableDescription and the other answers about a table.

Times are given in seconds as exact decimals' text wrapped for the server to splice; see `Seconds`.
"""

from collections.abc import Mapping
from typing import Any

from .tables import TableDefinition


def describe(
    definition: TableDefinition,
    *,
    item_count: int = 0,
    size_bytes: int = 0,
    index_counts: Mapping[str, tuple[int, int]] | None = None,
) -> dict[str, Any]:
    """TableDescription. `index_counts` gives (items, bytes) by the index's name."""
    raise NotImplementedError
