"""The heat of tables: for each table and global index that is measured, a sketch of its traffic on this node.

    Contributor Insights of the table or index, or --heat ──► Heat ──► TableHeat, the observer of the table's requests

Contributor Insights in the mode THROTTLED_KEYS keep the layer of throttles alone. Sketches are in memory: a start of
the server begins with empty ones. Each node has the requests that it received; the operation Heat merges those of all
nodes.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from ...materializer.fold.outcomes import Applied
from ...materializer.fold.state import PartitionState
from ...model.lazy_dataclass import dataclass
from ...model.tables import IndexDefinition, TableDefinition
from ...model.values import load
from .sketch import Layer, Sketch
from .usage import Usage

OWN: Final = ""
"""Names the table itself among its indexes, as in its Contributor Insights."""

CountKey: TypeAlias = Callable[[bytes, int], None]


def _ignore(_pk: bytes, _value: int) -> None:
    """Count nothing: the layer is not measured."""


@dataclass(frozen=True, slots=True)
class PartHeat:
    """The sketch of a table or a global index, and the functions that count in its layers."""

    id: int
    is_accessed: bool
    sketch: Sketch
    read: CountKey
    write: CountKey
    throttle: CountKey


class TableHeat:
    """The sketches of a table and its global indexes: the observer of its requests.

    A write to an index counts for the keys of the entries that it removes and puts. A write that is refused because an
    index has no capacity counts for the key of the item: it has no entry.

    Attributes:
        definition: The definition that the sketches follow.
        parts: The measured ones by the name of the index, the table's own by an empty name.
    """

    __slots__ = ("_clock", "_every", "_keys", "definition", "parts")

    def __init__(self, definition: TableDefinition, clock: Callable[[], int], *, every: bool) -> None:
        self.parts: dict[str, PartHeat] = {}
        self._clock = clock
        self._every = every
        self.follow(definition)

    def follow(self, definition: TableDefinition) -> None:
        """Take a changed definition. The sketches of parts that are still measured are kept."""
        self.definition = definition
        self._keys = {index.name: index.key for index in definition.gsis}
        named: list[tuple[str, TableDefinition | IndexDefinition]] = [(OWN, definition)]
        named += [(index.name, index) for index in definition.gsis]
        parts = {name: self._part(name, each.id) for name, each in named}
        self.parts = {name: part for name, part in parts.items() if part is not None}

    def _part(self, name: str, owner_id: int) -> PartHeat | None:
        insights = self.definition.insights.get(name)
        is_enabled = insights is not None and insights.enabled
        if not is_enabled and not self._every:
            return None
        accessed = self._every or (insights is not None and insights.mode != "THROTTLED_KEYS")
        present = self.parts.get(name)
        if present is not None and (present.id, present.is_accessed) == (owner_id, accessed):
            return present
        sketch = Sketch(owner_id, self._clock)
        counts = {layer: each.count for layer, each in sketch.layers.items()}
        read = counts[Layer.READS] if accessed else _ignore
        write = counts[Layer.WRITES] if accessed else _ignore
        return PartHeat(owner_id, accessed, sketch, read, write, counts[Layer.THROTTLES])

    def read(self, index: str | None, pk: bytes, half_units: int) -> None:
        part = self.parts.get(index or OWN)
        if part is not None:
            part.read(pk, half_units)

    def wrote(self, pk: bytes, half_units: int, applied: Applied | None) -> None:
        own = self.parts.get(OWN)
        if own is not None:
            own.write(pk, half_units)
        if applied is not None and applied.glob is not None:
            for name, count in applied.glob.items():
                part = self.parts.get(name)
                if part is not None and part.is_accessed:
                    self._wrote_entries(part, name, 2 * count, applied)

    def throttled(self, index: str | None, pk: bytes, is_write: bool) -> None:
        part = self.parts.get(OWN if is_write else index or OWN)
        if part is not None:
            part.throttle(pk, 1)

    def _wrote_entries(self, part: PartHeat, name: str, half_units: int, applied: Applied) -> None:
        """Count the cost of a write in an index: half of it for each of two keys."""
        schema = self._keys[name]
        images = [load(stored[0]) for stored in (applied.old, applied.new) if stored is not None]
        entries = [schema.pk(image) for image in images if schema.sort_part(image) is not None]
        keys = {pk: None for pk in entries if pk is not None}
        for pk in keys:
            part.write(pk, half_units // len(keys))


class Heat:
    """The heat of the tables on this node.

    Args:
        state: The catalog, for the definitions of tables.
        clock: Returns milliseconds since 1970.
        every: Whether all tables are measured, not only those with Contributor Insights.

    Attributes:
        tables: The measured tables by id.
    """

    def __init__(self, state: PartitionState, clock: Callable[[], int], *, every: bool) -> None:
        self.tables: dict[int, TableHeat] = {}
        self._state = state
        self._clock = clock
        self._every = every

    def observe(self, table_id: int) -> TableHeat | None:
        """Return the observer of a table's requests; None if it is not measured."""
        table = self._state.tables.get(table_id)
        if table is None or not (self._every or table.definition.insights):
            self.tables.pop(table_id, None)
            return None
        heat = self.tables.get(table_id)
        if heat is None:
            heat = self.tables[table_id] = TableHeat(table.definition, self._clock, every=self._every)
        elif heat.definition is not table.definition:
            heat.follow(table.definition)
        if not heat.parts:
            del self.tables[table_id]
            return None
        return heat

    def settle(self, usage: Usage) -> None:
        """Follow the definitions, and add the requests since the last call to the sketches: once a second."""
        tables = self._state.tables
        for table_id in [each for each in self.tables if each not in tables]:
            del self.tables[table_id]
        for table_id, table in tables.items():
            if self._every or table.definition.insights or table_id in self.tables:
                usage[table_id].observer = self.observe(table_id)
        now_ms = self._clock()
        for heat in self.tables.values():
            for part in heat.parts.values():
                for layer in part.sketch.layers.values():
                    layer.flush(now_ms)

    def encode(self, table_id: int) -> dict[str, Any]:
        """Return the sketches of a table as plain data, by the name of the index."""
        heat = self.tables.get(table_id)
        return {} if heat is None else {name: part.sketch.encode() for name, part in heat.parts.items()}
