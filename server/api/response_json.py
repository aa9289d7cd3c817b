"""The parts of answers that several operations share, as bytes of JSON.

Partitions return items as canonical JSON, and answers contain them unchanged: this module decodes no item. Consumed
capacity is counted in half units, which are integers, and converted to DynamoDB's decimals here.
"""

from collections.abc import Collection, Iterable
from dataclasses import field
from typing import Any, Final, Literal

import orjson

from ...materializer.fold.outcomes import Units
from ...model import keys
from ...model.capacity import text
from ...model.lazy_dataclass import dataclass
from ...model.limits import GIB
from ...model.tables import TableDefinition
from .reply import Reply

EMPTY: Final = b"{}"


def members(*parts: bytes) -> bytes:
    """Return a JSON object of members of the form `"name":value`. Empty parts are skipped.

    >>> members(b'"Count":1', b"", b'"ScannedCount":2')
    b'{"Count":1,"ScannedCount":2}'
    """
    return b"{%b}" % (b",".join(filter(None, parts)),)


def array(elements: Iterable[bytes]) -> bytes:
    return b"[%b]" % (b",".join(elements),)


def quoted(name: str) -> bytes:
    return orjson.dumps(name)


@dataclass(slots=True)
class Consumed:
    """The half units that a request consumed of one table and its indexes.

    Attributes:
        name: The name or ARN of the table in the request.
        table: The half units of the table itself.
        local: The half units of local indexes, by name.
        glob: The half units of global indexes, by name.
        kind: Whether a transaction reads or writes; None for other operations, which do not separate the two.
    """

    name: str
    table: int = 0
    local: dict[str, int] = field(default_factory=dict)
    glob: dict[str, int] = field(default_factory=dict)
    kind: Literal["Read", "Write"] | None = None

    @property
    def half_units(self) -> int:
        """The half units of the table and its indexes."""
        return self.table + sum(self.local.values()) + sum(self.glob.values())

    def add(self, units: Units) -> None:
        self.table += 2 * units.table
        for totals, added in ((self.local, units.local), (self.glob, units.glob)):
            for name, count in (added or {}).items():
                totals[name] = totals.get(name, 0) + 2 * count

    def json(self, detail: str) -> bytes:
        """Return a ConsumedCapacity; `detail` is TOTAL or INDEXES."""
        parts = [b'"TableName":' + quoted(self.name), self._units(self.half_units)]
        if detail == "INDEXES":
            parts.append(b'"Table":{%b}' % self._units(self.table))
            parts.append(self._indexes(b"LocalSecondaryIndexes", self.local))
            parts.append(self._indexes(b"GlobalSecondaryIndexes", self.glob))
        return members(*parts)

    def _indexes(self, name: bytes, indexes: dict[str, int]) -> bytes:
        if not indexes:
            return b""
        each = [b"%b:{%b}" % (quoted(index), self._units(count)) for index, count in indexes.items()]
        return b'"%b":{%b}' % (name, b",".join(each))

    def _units(self, half_units: int) -> bytes:
        count = text(half_units).encode()
        if self.kind is None:
            return b'"CapacityUnits":' + count
        return b'"CapacityUnits":%b,"%bCapacityUnits":%b' % (count, self.kind.encode(), count)


def consumed_one(body: dict[str, Any], reply: Reply, consumed: Consumed) -> bytes:
    """Return the member ConsumedCapacity of an answer about one table, or nothing if the request excludes it."""
    reply.consumed(consumed.half_units)
    detail = body.get("ReturnConsumedCapacity", "NONE")
    return b"" if detail == "NONE" else b'"ConsumedCapacity":' + consumed.json(detail)


def consumed_each(body: dict[str, Any], reply: Reply, tables: Collection[Consumed]) -> bytes:
    """Return the member ConsumedCapacity of an answer about several tables, or nothing."""
    reply.consumed(sum(each.half_units for each in tables))
    detail = body.get("ReturnConsumedCapacity", "NONE")
    if detail == "NONE":
        return b""
    return b'"ConsumedCapacity":' + array([consumed.json(detail) for consumed in tables])


def collection_metrics(definition: TableDefinition, pk: bytes, size: int) -> bytes:
    """Return an ItemCollectionMetrics: the key of the collection, and its size as a range of 1 GB."""
    attribute = definition.key.partition[0]
    key = orjson.dumps({attribute.name: keys.decode(attribute.type, pk)})
    low = size // GIB
    return b'{"ItemCollectionKey":%b,"SizeEstimateRangeGB":[%d.0,%d.0]}' % (key, low, low + 1)
