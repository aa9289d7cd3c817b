"""Changes of a table's definition that `foldb whatif` tries.

    definition ──► CreateTable request ──► changes ──► model.table_requests.create ──► definition

The changed definition is that of a CreateTable, so it is checked as DynamoDB checks one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ...model import table_requests
from ...model.descriptions import describe
from ...model.errors import RequestError
from ...model.lazy_dataclass import dataclass
from ...model.limits import Limits
from ...model.tables import TableDefinition, settled
from .definitions import (
    billing,
    index_request,
    key_request,
    local_index_request,
    provisioned,
    request_like,
    units_of,
    units_request,
)
from .errors import CommandError, ExitCode

_GLOBAL: Final = "GlobalSecondaryIndexes"
_LOCAL: Final = "LocalSecondaryIndexes"


@dataclass(frozen=True, slots=True)
class DefinitionChanges:
    """The changes, in the short notation of definitions.py.

    Attributes:
        key: The key of the table, `A:S,B:N`.
        add_global: Global indexes.
        add_local: Local indexes.
        drop: The names of indexes.
        units: Read and write units of the table; None keeps those that it has.
        index_units: Units of global indexes, `NAME=READ/WRITE`.
        on_demand: Whether the table is on demand.
    """

    key: str | None = None
    add_global: Sequence[str] = ()
    add_local: Sequence[str] = ()
    drop: Sequence[str] = ()
    units: tuple[int | None, int | None] = (None, None)
    index_units: Sequence[str] = ()
    on_demand: bool = False

    @property
    def changes_capacity(self) -> bool:
        return self.on_demand or self.units != (None, None) or bool(self.index_units)


def present(definition: TableDefinition) -> TableDefinition:
    """Return a definition with all indexes that it has or is getting, complete."""
    done = settled(replace(definition, restore=None))
    if done is None:
        return definition
    indexes = tuple(replace(index, status="ACTIVE", backfilling=False) for index in done.indexes)
    return replace(done, indexes=indexes, stream=None)


def changed(definition: TableDefinition, changes: DefinitionChanges, limits: Limits) -> TableDefinition:
    """Return a changed definition.

    Raises:
        CommandError: A change names an index that the table does not have, or DynamoDB refuses the definition.
    """
    description = describe(definition)
    request = request_like(description, definition.name)
    _set_capacity(request, description, changes)
    types = {each["AttributeName"]: each["AttributeType"] for each in request["AttributeDefinitions"]}
    _drop(request, changes.drop)
    if changes.key is not None:
        _set_key(request, changes.key, types)
    throughput = None if request["BillingMode"] == "PAY_PER_REQUEST" else units_of(request)
    for text in changes.add_global:
        index, attributes = index_request(text, throughput)
        _add(request, _GLOBAL, index, attributes, types)
    for text in changes.add_local:
        partition = request["KeySchema"][0]["AttributeName"]
        index, attributes = local_index_request(text, f"{partition}:{types[partition]}")
        _add(request, _LOCAL, index, attributes, types)
    _set_index_units(request, changes.index_units)
    schemas = [request["KeySchema"], *(index["KeySchema"] for index in _indexes(request))]
    used = {part["AttributeName"] for schema in schemas for part in schema}
    request["AttributeDefinitions"] = [
        {"AttributeName": name, "AttributeType": kind} for name, kind in types.items() if name in used
    ]
    try:
        made = table_requests.create(
            request, table_id=definition.id, uuid=definition.uuid, time_ms=0, limits=limits
        )
    except RequestError as error:
        raise CommandError(
            f"DynamoDB would refuse this definition: {error.message}", ExitCode.USAGE
        ) from error
    return made if changes.changes_capacity else _with_capacity_of(definition, made)


def _set_capacity(
    request: dict[str, Any], description: Mapping[str, Any], changes: DefinitionChanges
) -> None:
    """Set the billing of the table, and of the global indexes that follow it."""
    read, write = changes.units
    before = None if request["BillingMode"] == "PAY_PER_REQUEST" else units_of(description)
    if changes.on_demand:
        if changes.units != (None, None) or changes.index_units:
            raise CommandError(
                "--on-demand has no units: remove --read-units, --write-units and --index", ExitCode.USAGE
            )
        units = None
    elif before is None:
        if (read is None) != (write is None) or (read is None and changes.index_units):
            raise CommandError(
                "the table is on demand: give both --read-units and --write-units", ExitCode.USAGE
            )
        units = None if read is None or write is None else (read, write)
    else:
        units = (before[0] if read is None else read, before[1] if write is None else write)
    request.pop("ProvisionedThroughput", None)
    request |= billing(units)
    for index in request.get(_GLOBAL, ()):
        if units is None:
            index.pop("ProvisionedThroughput", None)
        else:
            index.setdefault("ProvisionedThroughput", provisioned(units))


def _drop(request: dict[str, Any], names: Sequence[str]) -> None:
    for name in names:
        kind = next((kind for kind in (_GLOBAL, _LOCAL) if name in _names(request, kind)), None)
        if kind is None:
            raise _unknown_index(request, name)
        request[kind] = [index for index in request[kind] if index["IndexName"] != name]
        if not request[kind]:
            del request[kind]


def _set_key(request: dict[str, Any], text: str, types: dict[str, str]) -> None:
    """Set the key of the table. Its local indexes get its partition key."""
    request["KeySchema"], attributes = key_request(text)
    _note_types(attributes, types)
    for index in request.get(_LOCAL, ()):
        index["KeySchema"] = [request["KeySchema"][0], *index["KeySchema"][1:]]


def _add(
    request: dict[str, Any],
    kind: str,
    index: dict[str, Any],
    attributes: Sequence[Mapping[str, str]],
    types: dict[str, str],
) -> None:
    _note_types(attributes, types)
    request[kind] = [*request.get(kind, ()), index]


def _note_types(attributes: Sequence[Mapping[str, str]], types: dict[str, str]) -> None:
    """Note the types of key attributes.

    Raises:
        CommandError: An attribute has another type in another key of the table.
    """
    for each in attributes:
        name, kind = each["AttributeName"], each["AttributeType"]
        if types.setdefault(name, kind) != kind:
            raise CommandError(
                f"{name} is a key of the table with the type {types[name]}: write {name}:{types[name]}",
                ExitCode.USAGE,
            )


def _set_index_units(request: dict[str, Any], texts: Sequence[str]) -> None:
    for text in texts:
        update = units_request(text)["Update"]
        found = [each for each in request.get(_GLOBAL, ()) if each["IndexName"] == update["IndexName"]]
        if not found:
            raise _unknown_index(request, update["IndexName"])
        found[0]["ProvisionedThroughput"] = update["ProvisionedThroughput"]


def _with_capacity_of(definition: TableDefinition, made: TableDefinition) -> TableDefinition:
    """Return a definition with the capacity settings of the one that it was made from."""
    before = {index.name: index for index in definition.indexes}
    indexes = tuple(
        replace(index, on_demand=old.on_demand, warm=old.warm)
        if (old := before.get(index.name)) is not None
        else index
        for index in made.indexes
    )
    return replace(made, indexes=indexes, on_demand=definition.on_demand, warm=definition.warm)


def _indexes(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [*request.get(_GLOBAL, ()), *request.get(_LOCAL, ())]


def _names(request: Mapping[str, Any], kind: str) -> list[str]:
    return [index["IndexName"] for index in request.get(kind, ())]


def _unknown_index(request: Mapping[str, Any], name: str) -> CommandError:
    known = ", ".join(index["IndexName"] for index in _indexes(request)) or "none"
    return CommandError(
        f"the table {request['TableName']} has no such index {name}; its indexes: {known}", ExitCode.NOT_FOUND
    )
