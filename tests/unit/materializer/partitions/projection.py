"""The expected contents of all indexes at rest, computed from the items alone."""

import json
from collections import Counter
from typing import Any

from foldb.materializer.fold.state import Table
from foldb.model.tables import IndexDefinition, TableDefinition
from tests.unit.materializer.partitions.cluster import Cluster

Entries = Counter[tuple[str, str]]  # (the index's partition key, the entry), both as JSON


def expected(cluster: Cluster, definition: TableDefinition, index: IndexDefinition) -> Entries:
    """Return an entry for each item of the table that has valid index keys."""
    entries: Entries = Counter()
    for partition in cluster.data:
        for *_, (item, _) in cluster.states[partition].tables[definition.id].items.scan():
            body = json.loads(item)
            if all(_can_be_key(body.get(one.name), one.type) for one in index.key.attributes):
                [name] = [one.name for one in index.key.partition]
                entries[_text(body[name]), _text(_projected(body, definition, index))] += 1
    return entries


def found(cluster: Cluster, table_id: int, name: str) -> Entries:
    """Return the entries of all parts of an index, each in the partition of its key."""
    entries: Entries = Counter()
    for partition in cluster.data:
        index = cluster.states[partition].tables[table_id].indexes[name]
        [key] = index.definition.key.partition
        for _, pk, _, (item, size) in index.store.scan():
            body = json.loads(item)
            assert pk == body[key.name]["S"].encode(), "an entry stands where another belongs"
            assert partition == cluster.home_of(index.definition.id, pk), "an entry is not at its partition"
            assert size > 0
            entries[_text(body[key.name]), _text(body)] += 1
    return entries


def check(cluster: Cluster) -> int:
    """Compare every global index of every table; return the number of entries."""
    count = 0
    for table in cluster.catalog.tables.values():
        for name in _globals(table):
            index = table.indexes[name].definition
            wanted = expected(cluster, table.definition, index)
            assert wanted == found(cluster, table.definition.id, name), name
            count += sum(wanted.values())
    return count


def _globals(table: Table) -> list[str]:
    return [name for name, index in table.indexes.items() if index.definition.kind == "GSI"]


def _can_be_key(value: Any, kind: str) -> bool:
    return value is not None and bool(value.get(kind))


def _projected(body: Any, definition: TableDefinition, index: IndexDefinition) -> Any:
    if index.projection.kind == "ALL":
        return body
    kept = {*definition.key.names, *index.key.names, *index.projection.attributes}
    return {name: value for name, value in body.items() if name in kept}


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
