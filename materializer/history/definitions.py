"""The definitions of tables over time.

Definitions change seldom, so all of them are in memory, in the order of the log. A cut includes the first n changes.
The tables after n changes are computed once and kept for the next reads.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import orjson

from ...model.tables import TableDefinition
from .engine import Batch, Engine
from .timeline import put_definition_row, read_definitions, time_at
from .version_keys import offset_of

_CATALOGS_KEPT: Final = 16
_NEVER: Final = 1 << 62  # after all times and packed positions


class Catalog(NamedTuple):
    """The tables at a cut: definitions by id, and ids by name."""

    definitions: Mapping[int, TableDefinition]
    names: Mapping[str, int]


class Definitions:
    """See the module.

    Attributes:
        newest: The definitions after all commands, by table id.
    """

    def __init__(self, engine: Engine) -> None:
        """Load the definitions that the engine has."""
        self.newest: dict[int, TableDefinition] = {}
        self._positions: list[int] = []
        self._times: list[int] = []
        self._changes: list[tuple[int, TableDefinition | None]] = []
        self._after = lru_cache(_CATALOGS_KEPT)(self._replay)
        for packed, table_id, text in read_definitions(engine):
            definition = TableDefinition.from_json(orjson.loads(text)) if text else None
            self._add(packed, time_at(engine, offset_of(packed)), table_id, definition)

    def add(
        self, batch: Batch, packed: int, log_time: int, table_id: int, definition: TableDefinition | None
    ) -> None:
        """Add the definition that a command gave a table; None if it dropped the table."""
        text = b"" if definition is None else orjson.dumps(definition.to_json(), option=orjson.OPT_SORT_KEYS)
        put_definition_row(batch, packed, table_id, text)
        self._add(packed, log_time, table_id, definition)

    def at_position(self, packed: int) -> Catalog:
        """Return the tables after the command at that packed position."""
        return self._after(bisect_right(self._positions, packed))

    def at_time(self, time_ms: int) -> Catalog:
        """Return the tables at a time."""
        return self._after(bisect_right(self._times, time_ms))

    def same_positions(self, packed: int) -> tuple[int, int]:
        """Return the first packed position with the tables of this one, and the one after the last."""
        return _around(self._positions, packed)

    def same_times(self, time_ms: int) -> tuple[int, int]:
        """Return the first time with the tables of this one, and the one after the last."""
        return _around(self._times, time_ms)

    def last(self, table_id: int) -> TableDefinition | None:
        """Return the last definition of a table, which may be dropped; None if no such table was defined."""
        definitions = (each for id_, each in reversed(self._changes) if id_ == table_id and each is not None)
        return next(definitions, None)

    def of(self, table_id: int) -> list[tuple[int, TableDefinition | None]]:
        """Return the packed position and the definition of each change of a table; None if it dropped the table."""
        changes = zip(self._positions, self._changes, strict=True)
        return [(packed, definition) for packed, (id_, definition) in changes if id_ == table_id]

    def _add(self, packed: int, log_time: int, table_id: int, definition: TableDefinition | None) -> None:
        self._positions.append(packed)
        self._times.append(log_time)
        self._changes.append((table_id, definition))
        _apply(self.newest, table_id, definition)

    def _replay(self, count: int) -> Catalog:
        definitions: dict[int, TableDefinition] = {}
        for table_id, definition in self._changes[:count]:
            _apply(definitions, table_id, definition)
        return Catalog(definitions, {each.name: table_id for table_id, each in definitions.items()})


def _around(changes: Sequence[int], cut: int) -> tuple[int, int]:
    passed = bisect_right(changes, cut)
    return (changes[passed - 1] if passed else 0), (changes[passed] if passed < len(changes) else _NEVER)


def _apply(
    definitions: dict[int, TableDefinition], table_id: int, definition: TableDefinition | None
) -> None:
    if definition is None:
        del definitions[table_id]
    else:
        definitions[table_id] = definition
