"""Data models of NoSQL Workbench for DynamoDB: tables, with their indexes and sample data, in a JSON file.

    {"ModelName": ..., "DataModel": [
        {"TableName", "KeyAttributes": {"PartitionKey": {"AttributeName", "AttributeType"}, "SortKey"?},
         "GlobalSecondaryIndexes": [{"IndexName", "KeyAttributes", "Projection"}],
         "TableData": [ITEM], "TableFacets": [{"FacetName", "TableData": [ITEM]}],
         "BillingMode", "ProvisionedCapacitySettings": {"ProvisionedThroughput"}}]}

An item is DynamoDB JSON. A facet is a view of some items, which are below the facet, below the table, or below both.
Descriptions, access patterns, automatic scaling and `DataAccess` do not apply to a table here.
"""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from ...model.values import Item
from .definitions import attribute_definitions, billing, provisioned
from .errors import CommandError, ExitCode
from .values import item_of, read_json, read_text, write_json

_INDEXES = ("GlobalSecondaryIndexes", "LocalSecondaryIndexes")


class ModelTable(NamedTuple):
    """A table of a data model: its CreateTable request, and its sample data."""

    request: dict[str, Any]
    items: list[Item]

    @property
    def name(self) -> str:
        return str(self.request["TableName"])


def read_model(path: Path) -> list[ModelTable]:
    """Read the tables of a data model.

    Raises:
        CommandError: The file cannot be read, or is no data model.
    """
    model = read_json(read_text(str(path)), str(path))
    tables = model.get("DataModel") if isinstance(model, dict) else None
    if not isinstance(tables, list) or not tables:
        raise CommandError(
            f"{path} is no data model: export one from NoSQL Workbench as JSON, not as CloudFormation",
            ExitCode.USAGE,
        )
    return [_Reader(path, f"table {nth}").table(each) for nth, each in enumerate(tables, start=1)]


class _Reader:
    """Reads one table; an error names the file and the place in it."""

    def __init__(self, path: Path, place: str) -> None:
        self._path = path
        self._place = place

    def table(self, table: Any) -> ModelTable:
        name = self._member(table, "TableName", str)
        self._place = f"table {name}"
        types: dict[str, str] = {}
        request: dict[str, Any] = {"TableName": name, "KeySchema": self._key(table, types)}
        throughput = self._throughput(table)
        for kind in _INDEXES:
            indexes = [self._index(each, types) for each in self._list(table, kind)]
            if kind.startswith("Global") and throughput is not None:
                indexes = [each | {"ProvisionedThroughput": provisioned(throughput)} for each in indexes]
            request |= {kind: indexes} if indexes else {}
        request |= {"AttributeDefinitions": attribute_definitions(types)} | billing(throughput)
        return ModelTable(request, list(self._items(table)))

    def _key(self, owner: Any, types: dict[str, str]) -> list[dict[str, str]]:
        attributes = self._member(owner, "KeyAttributes", dict)
        schema = []
        for member, role in (("PartitionKey", "HASH"), ("SortKey", "RANGE")):
            if member == "PartitionKey" or attributes.get(member):
                attribute = self._member(attributes, member, dict)
                name = self._member(attribute, "AttributeName", str)
                types.setdefault(name, self._member(attribute, "AttributeType", str))
                schema.append({"AttributeName": name, "KeyType": role})
        return schema

    def _index(self, index: Any, types: dict[str, str]) -> dict[str, Any]:
        return {
            "IndexName": self._member(index, "IndexName", str),
            "KeySchema": self._key(index, types),
            "Projection": self._member(index, "Projection", dict),
        }

    def _throughput(self, table: dict[str, Any]) -> tuple[int, int] | None:
        """Return the provisioned units of the table and its indexes. None: it is on-demand."""
        if table.get("BillingMode", "PAY_PER_REQUEST") == "PAY_PER_REQUEST":
            return None
        settings = self._member(table, "ProvisionedCapacitySettings", dict)
        units = self._member(settings, "ProvisionedThroughput", dict)
        names = ("ReadCapacityUnits", "WriteCapacityUnits")
        read, write = (int(self._member(units, name, Decimal)) for name in names)
        return read, write

    def _items(self, table: dict[str, Any]) -> Iterator[Item]:
        """Yield the items of the table and of its facets, those of both once."""
        seen = set()
        for owner in (table, *self._list(table, "TableFacets")):
            for nth, item in enumerate(self._list(owner, "TableData"), start=1):
                text = write_json(item)
                if text not in seen:
                    seen.add(text)
                    yield item_of(item, f"{self._path}: {self._place}, item {nth}", is_typed=True)

    def _list(self, owner: Any, name: str) -> list[Any]:
        return self._member(owner, name, list) if isinstance(owner, dict) and owner.get(name) else []

    def _member(self, owner: Any, name: str, kind: type) -> Any:
        value = owner.get(name) if isinstance(owner, dict) else None
        if not isinstance(value, kind):
            self._refuse(f"has no {name}" if value is None else f"has a {name} of another type")
        return value

    def _refuse(self, why: str) -> NoReturn:
        raise CommandError(f"{self._path}: {self._place} {why}", ExitCode.USAGE)
