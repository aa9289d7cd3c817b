"""The heat of the writes of a table since a cut, counted from the log.

    log ──► LogWrites ──► a table with the present definition ──► the units of each partition key

The counts are exact, and no server has to measure the table. Reads and throttled requests are not in the log.
"""

from collections import Counter
from decimal import Decimal
from typing import Final

from ...model.key_schema import KeySchema
from ...model.keys import SLOTS, key_hash, slot
from ...model.tables import IndexDefinition, TableDefinition
from ...model.throughput import partition_map
from .definition_changes import present
from .heat import ROWS, Heat, HeatLayer, HeatPart, key_value
from .item_writes import LogWrites, read_period, survey
from .log_location import open_log
from .planned_table import PlannedTable
from .progress import progress
from .session import Session

_BUCKET_MS: Final = 10_000


class _WriteUnits:
    """The write units of a table or index by partition key, and in its busiest 10 seconds of log time."""

    def __init__(self) -> None:
        self.of_keys: Counter[bytes] = Counter()
        self.peak = 0
        self._bucket = -1
        self._units = 0

    def count(self, pk: bytes, units: int, time_ms: int) -> None:
        """Count a write, unless it costs nothing here. Log time does not fall."""
        if not units:
            return
        self.of_keys[pk] += units
        bucket = time_ms // _BUCKET_MS
        self._units = units + (self._units if bucket == self._bucket else 0)
        self._bucket = bucket
        self.peak = max(self.peak, self._units)


def heat_of_log(session: Session, name: str, start: str, limit: int) -> Heat:
    """Refold the log of the database, and return the write units of a table and its global indexes since a cut.

    Args:
        session: The session.
        name: The name of the table.
        start: The first position or time that counts.
        limit: The number of heaviest keys.

    Raises:
        CommandError: The log has no such table or position.
        HorizonError: A trim removed the records there.
    """
    log = open_log(session)
    period = read_period(log, start, None)
    surveyed = survey(log, period)
    assert surveyed.limits is not None, "a log begins with its limits"
    definition = present(surveyed.definition(name, log))
    table = PlannedTable(definition, surveyed.limits)
    parts: list[TableDefinition | IndexDefinition] = [definition, *definition.gsis]
    units = {part.name if part is not definition else "": _WriteUnits() for part in parts}
    writes = LogWrites(log, period, surveyed, definition)
    with progress(session.settings, session.output.stderr, name, writes.records) as advance:
        for request in writes.requests(advance):
            for write in request.writes:
                for cost in table.write(write, is_counted=request.is_counted):
                    assert cost.key is not None, "the table has its own key"
                    units[""].count(cost.key[0], cost.own, request.time_ms)
                    for index, (key, own) in cost.indexes.items():
                        units[index].count(key[0], own, request.time_ms)
    found = [_part(definition, part, each, limit) for part, each in zip(parts, units.values(), strict=True)]
    return Heat(writes.last_ms, _BUCKET_MS, found)


def _part(
    definition: TableDefinition, part: TableDefinition | IndexDefinition, units: _WriteUnits, limit: int
) -> HeatPart:
    slots = {pk: slot(key_hash(part.id, pk)) for pk in units.of_keys}
    rows = [Decimal()] * ROWS
    for pk, count in units.of_keys.items():
        rows[slots[pk] * ROWS // SLOTS] += count
    heaviest = sorted(units.of_keys, key=lambda pk: (-units.of_keys[pk], pk))[:limit]
    schema = KeySchema(part.key.partition)
    keys = [(key_value(schema.decode(pk, b"")), Decimal(units.of_keys[pk]), slots[pk]) for pk in heaviest]
    total = Decimal(units.of_keys.total())
    layers = {
        "Writes": HeatLayer("Writes", total, Decimal(), keys, {0: rows}, Decimal(units.peak)),
        "Throttles": HeatLayer("Throttles", Decimal(), Decimal(), [], {}),
    }
    index = None if part is definition else part.name
    first_slots = [slot(each.low.hash) for each in partition_map(definition, part).partitions]
    return HeatPart(definition.name, index, {}, first_slots, [], layers)
