"""The request for a copy of a table: a restored table or a fork.

A copy begins as a table command whose request has the members of a CreateTable, and the source of its items.
"""

from typing import Any, Final

from .descriptions import describe_index, describe_key, describe_maximum, describe_units
from .errors import ValidationError
from .index_requests import INVALID
from .table_requests import not_supported
from .tables import IndexDefinition, TableDefinition, used_attributes

RESTORE: Final = "Restore"
"""The member of a table command that has the source of the items. No client's request has it."""

_INDEX_KINDS: Final = {"LocalSecondaryIndex": "LSI", "GlobalSecondaryIndex": "GSI"}


def copy_request(source: TableDefinition, name: str, overrides: dict[str, Any]) -> dict[str, Any]:
    """Return the members of a CreateTable for a copy of a table: its keys, indexes, capacity and encryption.

    A copy has no stream, time to live, tags, deletion protection and point-in-time recovery, as in DynamoDB.

    Args:
        source: The table whose settings the copy gets.
        name: The name of the copy.
        overrides: The members of a restore that replace settings, such as BillingModeOverride.

    Raises:
        ValidationError: An override is not supported, or names an index that the source does not have.
    """
    if overrides.get("VectorIndexOverride"):
        raise not_supported("VectorIndexOverride")
    mode = overrides.get("BillingModeOverride", source.billing_mode)
    request = {
        "TableName": name,
        "KeySchema": describe_key(source.key),
        "BillingMode": mode,
        **_capacity(source, overrides, mode),
        **_indexes(source, overrides, mode),
        **_encryption(source, overrides),
    }
    if source.table_class is not None:
        request["TableClass"] = source.table_class
    kept = {index["IndexName"] for kind in _INDEX_KINDS for index in request.get(f"{kind}es", ())}
    used = used_attributes(source.key, [index for index in source.indexes if index.name in kept])
    request["AttributeDefinitions"] = [
        {"AttributeName": attribute, "AttributeType": kind}
        for attribute, kind in source.attribute_types.items()
        if attribute in used
    ]
    return request


def _capacity(source: TableDefinition, overrides: dict[str, Any], mode: str) -> dict[str, Any]:
    capacity: dict[str, Any] = {}
    throughput = overrides.get("ProvisionedThroughputOverride")
    if throughput is None and mode == source.billing_mode == "PROVISIONED":
        throughput = describe_units(source.throughput)
    if throughput is not None:
        capacity["ProvisionedThroughput"] = throughput
    on_demand = overrides.get("OnDemandThroughputOverride")
    if on_demand is None and mode == "PAY_PER_REQUEST":
        on_demand = source.on_demand and describe_maximum(source.on_demand)
    if on_demand:
        capacity["OnDemandThroughput"] = on_demand
    return capacity


def _indexes(source: TableDefinition, overrides: dict[str, Any], mode: str) -> dict[str, Any]:
    """Return the indexes of the copy by the member of CreateTable. An override may leave out indexes, but add none."""
    requested = {}
    for member, kind in _INDEX_KINDS.items():
        present = {
            index.name: _index_request(index, mode)
            for index in source.indexes
            if index.kind == kind and index.status != "DELETING"
        }
        override = overrides.get(f"{member}Override")
        for index in override or ():
            _check_index(index, present, f"{member}Override")
        chosen = list(present.values()) if override is None else override
        if chosen:
            requested[f"{member}es"] = chosen
    return requested


def _check_index(index: dict[str, Any], present: dict[str, dict[str, Any]], member: str) -> None:
    same = present.get(index["IndexName"])
    if same is None or any(
        _sorted(index[name]) != _sorted(same[name]) for name in ("KeySchema", "Projection")
    ):
        raise ValidationError(
            f"{INVALID}The index {index['IndexName']} in {member} does not match an index of the source table"
        )


def _sorted(part: Any) -> Any:
    """Return a key schema, or a projection in one order of its attributes."""
    if isinstance(part, list):
        return part
    return {**part, "NonKeyAttributes": sorted(part.get("NonKeyAttributes", ()))}


def _index_request(index: IndexDefinition, mode: str) -> dict[str, Any]:
    request = describe_index(index)
    if index.kind == "LSI":
        return request
    if mode == "PROVISIONED" and index.throughput.read:
        request["ProvisionedThroughput"] = describe_units(index.throughput)
    elif mode == "PAY_PER_REQUEST" and index.on_demand is not None:
        request["OnDemandThroughput"] = describe_maximum(index.on_demand)
    return request


def _encryption(source: TableDefinition, overrides: dict[str, Any]) -> dict[str, Any]:
    specification = overrides.get("SSESpecificationOverride")
    if specification is None and source.kms_key is not None:
        specification = {"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": source.kms_key}
    return {} if specification is None else {"SSESpecification": specification}
