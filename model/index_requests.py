"""Convert the KeySchema, Projection and index members of a request to definitions.

This module checks the members against each other: keys and attribute definitions, a local index and its table's key,
a projection and its attributes. `service.py` has checked each member on its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from .errors import LimitExceededError, ResourceInUseError, ResourceNotFoundError, ValidationError
from .key_schema import KeyAttribute, KeySchema
from .limits import Limits
from .tables import IndexDefinition, IndexKind, Projection, TableDefinition, used_attributes
from .throughput import (
    check_bounds,
    first_on_demand,
    first_warm,
    next_on_demand,
    next_warm,
    read_throughput,
    readiness,
    with_throughput,
)

INVALID = "One or more parameter values were invalid: "


def attribute_types(definitions: Sequence[dict[str, str]]) -> dict[str, str]:
    """Return AttributeDefinitions as a mapping from name to type, in the request's order."""
    types: dict[str, str] = {}
    for definition in definitions:
        name = definition["AttributeName"]
        if name in types:
            raise ValidationError(f"Attribute Name is duplicated: {name}")
        types[name] = definition["AttributeType"]
    return types


def _with_attribute_types(types: dict[str, str], definitions: Sequence[dict[str, str]]) -> dict[str, str]:
    """Return a table's attribute types and those of an UpdateTable, which may repeat but not change them."""
    added = attribute_types(definitions)
    if any(types.get(name, kind) != kind for name, kind in added.items()):
        raise ValidationError(
            f"{INVALID}Attributes cannot be redefined. "
            "Please check that your attribute has the same type as previously defined."
        )
    return types | added


def table_key(elements: Sequence[dict[str, str]], types: dict[str, str]) -> KeySchema:
    names = [element["AttributeName"] for element in elements]
    if len(set(names)) < len(names) or len(types) < len(names):
        raise ValidationError("Invalid KeySchema: Some index key attribute have no definition")
    return _key(elements, names, types)


def index_key(elements: Sequence[dict[str, str]], types: dict[str, str], limits: Limits) -> KeySchema:
    names = [element["AttributeName"] for element in elements]
    if len(set(names)) < len(names):
        raise ValidationError(
            "Both the Hash Key and the Range Key element in the KeySchema have the same name"
            if len(names) == 2
            else "The KeySchema contains multiple key attributes with the same name"
        )
    key = _key(elements, names, types, parts=limits.global_key_parts)
    for kind, part in (("HASH", key.partition), ("RANGE", key.sort)):
        if len(part) > limits.global_key_parts:
            raise ValidationError(
                f"{INVALID}The KeySchema exceeds the maximum allowed number of {kind} key attributes"
            )
    return key


def _key(
    elements: Sequence[dict[str, str]], names: list[str], types: dict[str, str], parts: int = 1
) -> KeySchema:
    kinds = [element["KeyType"] for element in elements]
    if kinds[0] != "HASH":
        raise ValidationError("Invalid KeySchema: The first KeySchemaElement is not a HASH key type")
    if parts == 1 and kinds[1:] == ["HASH"]:
        raise ValidationError("Invalid KeySchema: The second KeySchemaElement is not a RANGE key type")
    if kinds != sorted(kinds):
        raise ValidationError(
            f"{INVALID}All HASH key attributes must precede RANGE key attributes in the KeySchema"
        )
    if any(name not in types for name in names):
        raise ValidationError(
            f"{INVALID}Some index key attributes are not defined in AttributeDefinitions. "
            f"Keys: [{', '.join(names)}], AttributeDefinitions: [{', '.join(types)}]"
        )
    attributes = [KeyAttribute(name, types[name]) for name in names]
    count = kinds.count("HASH")
    return KeySchema(tuple(attributes[:count]), tuple(attributes[count:]))


def check_definitions_used(types: dict[str, str], key: KeySchema, indexes: Iterable[IndexDefinition]) -> None:
    """Check that every defined attribute is part of a key."""
    used = used_attributes(key, indexes)
    if all(name in used for name in types):
        return
    if used == list(key.names):
        raise ValidationError(
            f"{INVALID}Number of attributes in KeySchema does not exactly match "
            "number of attributes defined in AttributeDefinitions"
        )
    raise ValidationError(
        f"{INVALID}Some AttributeDefinitions are not used. "
        f"AttributeDefinitions: [{', '.join(types)}], keys used: [{', '.join(used)}]"
    )


def local_indexes(
    requests: Sequence[dict[str, Any]] | None, table: KeySchema, types: dict[str, str], limits: Limits
) -> list[IndexDefinition]:
    """Return the definitions of LocalSecondaryIndexes, without ids."""
    if requests is None:
        return []
    if not requests:
        raise ValidationError(f"{INVALID}List of LocalSecondaryIndexes is empty")
    if not table.sort:
        raise ValidationError(
            f"{INVALID}Table KeySchema does not have a range key, "
            "which is required when specifying a LocalSecondaryIndex"
        )
    indexes = [_index(request, "LSI", types, limits) for request in requests]
    for index in indexes:
        _check_local_key(index, table)
    _check_names(indexes)
    if len(indexes) > limits.local_indexes:
        raise ValidationError(
            f"{INVALID}Number of LocalSecondaryIndexes exceeds per-table limit of {limits.local_indexes}"
        )
    return indexes


def _check_local_key(index: IndexDefinition, table: KeySchema) -> None:
    own, of_table = index.key.partition[0].name, table.partition[0].name
    if own != of_table:
        raise ValidationError(
            f"{INVALID}Index KeySchema does not have the same leading hash key as table KeySchema "
            f"for index: {index.name}. index hash key: {own}, table hash key: {of_table}"
        )
    if not index.key.sort:
        raise ValidationError(f"{INVALID}Index KeySchema does not have a range key for index: {index.name}")


def global_indexes(
    requests: Sequence[dict[str, Any]] | None, types: dict[str, str], limits: Limits, *, by_request: bool
) -> list[IndexDefinition]:
    """Return the definitions of GlobalSecondaryIndexes, without ids."""
    if requests is None:
        return []
    if not requests:
        raise ValidationError(f"{INVALID}List of GlobalSecondaryIndexes is empty")
    indexes = [
        global_index(request, types, limits, by_request=by_request, lacking="is not") for request in requests
    ]
    _check_names(indexes)
    return indexes


def global_index(
    request: dict[str, Any], types: dict[str, str], limits: Limits, *, by_request: bool, lacking: str
) -> IndexDefinition:
    """Return the definition of one global index, of a CreateTable or of a Create in an UpdateTable.

    `lacking` is the verb of the error for an index without throughput.
    """
    check_bounds(request.get("ProvisionedThroughput"), request["IndexName"])
    index = _index(request, "GSI", types, limits)
    if by_request and "ProvisionedThroughput" in request:
        raise ValidationError(
            f"{INVALID}ProvisionedThroughput should not be specified for index: {index.name} "
            "when BillingMode is PAY_PER_REQUEST"
        )
    if not by_request and "ProvisionedThroughput" not in request:
        raise ValidationError(f"{INVALID}ProvisionedThroughput {lacking} specified for index: {index.name}")
    warm = first_warm(request.get("WarmThroughput"), index.throughput, index.name, by_request=by_request)
    return replace(index, on_demand=first_on_demand(request.get("OnDemandThroughput"), index.name), warm=warm)


def check_indexes(indexes: Sequence[IndexDefinition], limits: Limits) -> None:
    """Check the names and limits of all indexes of a table together."""
    _check_names(indexes)
    if sum(index.kind == "GSI" for index in indexes) > limits.global_indexes:
        raise ValidationError(
            f"{INVALID}GlobalSecondaryIndex count exceeds the per-table limit of {limits.global_indexes}"
        )
    if sum(len(index.projection.attributes) for index in indexes) > limits.projected_attributes:
        raise ValidationError(
            f"{INVALID}Number of NonKeyAttributes of all indexes together "
            f"exceeds the per-table limit of {limits.projected_attributes}"
        )


def _check_names(indexes: Sequence[IndexDefinition]) -> None:
    names: set[str] = set()
    for index in indexes:
        if index.name in names:
            raise ValidationError(f"{INVALID}Duplicate index name: {index.name}")
        names.add(index.name)


def _index(
    request: dict[str, Any], kind: IndexKind, types: dict[str, str], limits: Limits
) -> IndexDefinition:
    projected = projection(request["Projection"])
    return IndexDefinition(
        id=0,
        name=request["IndexName"],
        kind=kind,
        key=index_key(request["KeySchema"], types, limits),
        projection=projected,
        throughput=read_throughput(request.get("ProvisionedThroughput")),
    )


def projection(request: dict[str, Any]) -> Projection:
    kind = request.get("ProjectionType")
    attributes = request.get("NonKeyAttributes")
    if kind is None:
        raise ValidationError(f"{INVALID}Unknown ProjectionType: null")
    if kind == "INCLUDE" and attributes is None:
        raise ValidationError(f"{INVALID}ProjectionType is INCLUDE, but NonKeyAttributes is not specified")
    if kind != "INCLUDE" and attributes is not None:
        raise ValidationError(f"{INVALID}ProjectionType is {kind}, but NonKeyAttributes is specified")
    return Projection(kind, tuple(dict.fromkeys(attributes or ())))


# GlobalSecondaryIndexUpdates


def update_indexes(
    definition: TableDefinition, request: dict[str, Any], *, next_id: int, time_ms: int, limits: Limits
) -> TableDefinition:
    """Return the table after the index part of an UpdateTable. `definition` has the new billing mode already."""
    updates = updates_of(request)
    if sum(action != "Update" for action, _ in updates) > limits.index_changes:
        raise _too_many_changes(limits)
    types = _with_attribute_types(definition.attribute_types, request.get("AttributeDefinitions", ()))
    changed = definition
    for action, details in updates:
        if action == "Create":
            changed = _create_index(changed, details, types, next_id, limits)
        elif action == "Delete":
            changed = _delete_index(changed, details["IndexName"])
        else:
            changed = _update_index(changed, details, time_ms)
    _check_provisioned(changed)
    used = used_attributes(changed.key, changed.indexes)
    if any(action == "Create" for action, _ in updates):
        check_definitions_used(types, changed.key, changed.indexes)
    return replace(changed, attribute_types={name: kind for name, kind in types.items() if name in used})


def updates_of(request: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the updates of indexes in an UpdateTable, each as its action and its details.

    Raises:
        ValidationError: An update has not exactly one action, or an index has several updates.
    """
    updates = [_update(update) for update in request.get("GlobalSecondaryIndexUpdates") or ()]
    names = [details["IndexName"] for _, details in updates]
    for name in names:
        if names.count(name) > 1:
            raise ValidationError(
                f"{INVALID}Only one global secondary index update per index is allowed simultaneously. "
                f"Index: {name}"
            )
    return updates


def _update(update: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    actions = [(action, update[action]) for action in ("Update", "Create", "Delete") if action in update]
    if len(actions) == 1:
        return actions[0]
    names = ", ".join(f"GlobalSecondaryIndexUpdate.{action}" for action in ("Update", "Create", "Delete"))
    if not actions:
        raise ValidationError(f"{INVALID}One of {names} must not be null")
    raise ValidationError(
        f"{INVALID}Only one global secondary index action is allowed per GlobalSecondaryIndexUpdate object"
    )


def _create_index(
    definition: TableDefinition, details: dict[str, Any], types: dict[str, str], index_id: int, limits: Limits
) -> TableDefinition:
    name = details["IndexName"]
    if definition.index(name) is not None:
        raise ValidationError("Attempting to create an index which already exists")
    if any(index.backfilling for index in definition.indexes):
        raise _too_many_changes(limits)
    by_request = definition.billing_mode == "PAY_PER_REQUEST"
    index = global_index(details, types, limits, by_request=by_request, lacking="must be")
    if len(definition.gsis) == limits.global_indexes:
        raise LimitExceededError(
            "Subscriber limit exceeded: Number of global secondary indexes exceeds "
            f"per-table limit of {limits.global_indexes}"
        )
    indexes = (*definition.indexes, replace(index, id=index_id, backfilling=True))
    check_indexes(indexes, limits)
    return replace(definition, indexes=indexes)


def _delete_index(definition: TableDefinition, name: str) -> TableDefinition:
    deleted = replace(_global(definition, name, "delete"), status="DELETING", backfilling=False)
    return _with_index(definition, deleted)


def _update_index(definition: TableDefinition, details: dict[str, Any], time_ms: int) -> TableDefinition:
    index = _global(definition, details["IndexName"], "update")
    if index.status != "ACTIVE":
        raise ResourceInUseError(
            f"Attempt to change a resource which is still in use: Index is being created: {index.name}"
        )
    requested = details.get("ProvisionedThroughput")
    check_bounds(requested, index.name)
    by_request = definition.billing_mode == "PAY_PER_REQUEST"
    if requested is not None and by_request:
        raise ValidationError(
            f"{INVALID}ProvisionedThroughput should not be specified for index: {index.name} "
            "when BillingMode is PAY_PER_REQUEST"
        )
    throughput = with_throughput(index.throughput, requested, f"index {index.name}", time_ms)
    ready = readiness(throughput, index.warm, by_request=by_request)
    return _with_index(
        definition,
        replace(
            index,
            status="UPDATING",
            throughput=throughput,
            on_demand=next_on_demand(details.get("OnDemandThroughput"), index.on_demand, index.name),
            warm=next_warm(details.get("WarmThroughput"), ready, index.name),
        ),
    )


def _global(definition: TableDefinition, name: str, action: str) -> IndexDefinition:
    index = definition.index(name)
    if index is not None and index.kind != "GSI":
        raise ValidationError(f"Cannot {action} an index that is not a GlobalSecondaryIndex: {name}")
    if index is None:
        raise ResourceNotFoundError(f"Requested resource not found: Index: {name} not found")
    return index


def _with_index(definition: TableDefinition, changed: IndexDefinition) -> TableDefinition:
    indexes = tuple(changed if index.id == changed.id else index for index in definition.indexes)
    return replace(definition, indexes=indexes)


def _check_provisioned(definition: TableDefinition) -> None:
    """Check that every index has its own throughput after a change from PAY_PER_REQUEST."""
    if definition.billing_mode == "PAY_PER_REQUEST":
        return
    for index in definition.gsis:
        if index.throughput.read == 0 and index.status != "DELETING":
            raise ValidationError(f"{INVALID}ProvisionedThroughput must be specified for index: {index.name}")


def _too_many_changes(limits: Limits) -> LimitExceededError:
    return LimitExceededError(
        f"Subscriber limit exceeded: Only {limits.index_changes} online index can be created or deleted "
        "simultaneously per table"
    )
