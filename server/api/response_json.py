"""The parts of answers that several operations share, as bytes.

Items come out of the partition as canonical JSON and go into an answer as they are: nothing here decodes one.
What a request consumed is counted in half units, which are integers, and becomes DynamoDB's decimals only here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from ...materializer.fold.outcomes import Units
from ...model import keys
from ...model.capacity import text
from ...model.limits import GIB
from ...model.tables import TableDefinition

EMPTY = b"{}"


def members(*parts: bytes) -> bytes:
    """A JSON object of its members, `"name":value` each; empty parts are left out.

    >>> members(b'"Count":1', b"", b'"ScannedCount":2')
    b'{"Count":1,"ScannedCount":2}'
    """
    return b"{%b}" % b",".join(filter(None, parts))


def array(elements: Iterable[bytes]) -> bytes:
    """A JSON array of its elements."""
    return b"[%b]" % b",".join(elements)


def quoted(name: str) -> bytes:
    """A JSON string."""
    return orjson.dumps(name)


@dataclass(slots=True)
class Consumed:
    """Half units that a request consumed of one table, arm by arm.

    `name` is what the request calls the table, its ARN perhaps.
    `kind` is told by transactions only: they count reads and writes apart.
    """

    name: str
    table: int = 0
    local: dict[str, int] = field(default_factory=dict)
    glob: dict[str, int] = field(default_factory=dict)
    kind: Literal["Read", "Write"] | None = None

    def add(self, units: Units) -> None:
        """Add what one write cost."""
        self.table += 2 * units.table
        for arm, more in ((self.local, units.local), (self.glob, units.glob)):
            for name, count in (more or {}).items():
                arm[name] = arm.get(name, 0) + 2 * count

    def json(self, detail: str) -> bytes:
        """One ConsumedCapacity; `detail` is TOTAL or INDEXES."""
        total = self.table + sum(self.local.values()) + sum(self.glob.values())
        parts = [b'"TableName":' + quoted(self.name), self._units(total)]
        if detail == "INDEXES":
            parts.append(b'"Table":{%b}' % self._units(self.table))
            parts.append(self._arms(b"LocalSecondaryIndexes", self.local))
            parts.append(self._arms(b"GlobalSecondaryIndexes", self.glob))
        return members(*parts)

    def _arms(self, name: bytes, arms: dict[str, int]) -> bytes:
        if not arms:
            return b""
        each = (b"%b:{%b}" % (quoted(index), self._units(count)) for index, count in arms.items())
        return b'"%b":{%b}' % (name, b",".join(each))

    def _units(self, half_units: int) -> bytes:
        count = text(half_units).encode()
        if self.kind is None:
            return b'"CapacityUnits":' + count
        return b'"CapacityUnits":%b,"%bCapacityUnits":%b' % (count, self.kind.encode(), count)


def consumed_one(body: dict[str, Any], consumed: Consumed) -> bytes:
    """The member ConsumedCapacity of an answer about one table, if the request asked for it."""
    detail = body.get("ReturnConsumedCapacity", "NONE")
    return b"" if detail == "NONE" else b'"ConsumedCapacity":' + consumed.json(detail)


def consumed_each(body: dict[str, Any], tables: Iterable[Consumed]) -> bytes:
    """The same for an answer about several tables."""
    detail = body.get("ReturnConsumedCapacity", "NONE")
    if detail == "NONE":
        return b""
    return b'"ConsumedCapacity":' + array(consumed.json(detail) for consumed in tables)


def collection_metrics(definition: TableDefinition, pk: bytes, size: int) -> bytes:
    """An ItemCollectionMetrics: the collection's key and between which two gigabytes its size lies."""
    attribute = definition.key.partition[0]
    key = orjson.dumps({attribute.name: keys.decode(attribute.type, pk)})
    low = size // GIB
    return b'{"ItemCollectionKey":%b,"SizeEstimateRangeGB":[%d.0,%d.0]}' % (key, low, low + 1)
