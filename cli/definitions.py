"""The short notation for tables and indexes.

key       ::= NAME ":" TYPE                            TYPE is S, N or B
index     ::= NAME "=" parts ["," parts] [" " projection]
parts     ::= key ("+" key)*                           more than one only in a global index
projection ::= "all" | "keys_only" | "include " NAME ("," NAME)*

foldb table create Music Artist:S Song:S --gsi 'Genres=Genre:S,Album:S' --lsi 'Years=Year:N keys_only'
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .failures import CommandError, ExitCode

_KEY = re.compile(r"(?P<name>[^:+,=\s]+):(?P<type>[SNB])")


def table_request(
    name: str,
    keys: Sequence[str],
    gsis: Sequence[str],
    lsis: Sequence[str],
    throughput: tuple[int, int] | None,
) -> dict[str, Any]:
    """The CreateTable request for a table in the short notation."""
    types: dict[str, str] = {}
    request: dict[str, Any] = {"TableName": name, "KeySchema": _schema(keys, types)}
    if gsis:
        request["GlobalSecondaryIndexes"] = [_index(text, types, None, throughput) for text in gsis]
    if lsis:
        request["LocalSecondaryIndexes"] = [_index(text, types, keys[0], None) for text in lsis]
    request["AttributeDefinitions"] = attribute_definitions(types)
    return request | billing(throughput)


def index_request(
    text: str, throughput: tuple[int, int] | None
) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """A global index to create by UpdateTable, and the attributes it needs declared."""
    types: dict[str, str] = {}
    return _index(text, types, None, throughput), attribute_definitions(types)


def request_like(description: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The CreateTable request for a table with the keys, indexes and throughput of a described one."""
    by_request = description.get("BillingModeSummary", {}).get("BillingMode") == "PAY_PER_REQUEST"
    request: dict[str, Any] = {"TableName": name, "KeySchema": description["KeySchema"]}
    request |= billing(None if by_request else _units(description))
    schemas = [request["KeySchema"]]
    for kind in ("LocalSecondaryIndexes", "GlobalSecondaryIndexes"):
        is_provisioned = kind.startswith("Global") and not by_request
        indexes = [
            {member: index[member] for member in ("IndexName", "KeySchema", "Projection")}
            | ({"ProvisionedThroughput": provisioned(_units(index))} if is_provisioned else {})
            for index in description.get(kind, ())
            if index.get("IndexStatus") != "DELETING"
        ]
        if indexes:
            request[kind] = indexes
            schemas += [index["KeySchema"] for index in indexes]
    used = {part["AttributeName"] for schema in schemas for part in schema}
    request["AttributeDefinitions"] = [
        part for part in description["AttributeDefinitions"] if part["AttributeName"] in used
    ]
    return request


def billing(throughput: tuple[int, int] | None) -> dict[str, Any]:
    """On-demand, or provisioned with read and write units."""
    if throughput is None:
        return {"BillingMode": "PAY_PER_REQUEST"}
    return {"BillingMode": "PROVISIONED", "ProvisionedThroughput": provisioned(throughput)}


def provisioned(throughput: tuple[int, int]) -> dict[str, int]:
    """ProvisionedThroughput of a request."""
    read, write = throughput
    return {"ReadCapacityUnits": read, "WriteCapacityUnits": write}


def attribute_definitions(types: dict[str, str]) -> list[dict[str, str]]:
    """AttributeDefinitions of a request."""
    return [{"AttributeName": name, "AttributeType": kind} for name, kind in types.items()]


def _index(
    text: str, types: dict[str, str], partition: str | None, throughput: tuple[int, int] | None
) -> dict[str, Any]:
    head, _, projection = text.strip().partition(" ")
    name, equals, keys = head.partition("=")
    if not equals or not name:
        raise CommandError(
            f"`{text}` is not an index: write NAME=ATTRIBUTE:S or NAME=A:S,B:N", ExitCode.USAGE
        )
    parts = keys.split(",")
    if partition is not None:
        parts = [partition, *parts]
    index: dict[str, Any] = {
        "IndexName": name,
        "KeySchema": _schema(parts, types),
        "Projection": _projection(projection.strip()),
    }
    if throughput is not None:
        index["ProvisionedThroughput"] = provisioned(throughput)
    return index


def _units(description: Mapping[str, Any]) -> tuple[int, int]:
    throughput = description["ProvisionedThroughput"]
    return throughput["ReadCapacityUnits"], throughput["WriteCapacityUnits"]


def _schema(parts: Sequence[str], types: dict[str, str]) -> list[dict[str, str]]:
    if not 1 <= len(parts) <= 2:
        raise CommandError(
            "a key has a partition key and at most one sort key: pk:S or pk:S sk:N", ExitCode.USAGE
        )
    schema = []
    for part, role in zip(parts, ("HASH", "RANGE"), strict=False):
        for text in part.split("+"):
            name, kind = _key(text)
            types.setdefault(name, kind)
            schema.append({"AttributeName": name, "KeyType": role})
    return schema


def _key(text: str) -> tuple[str, str]:
    match = _KEY.fullmatch(text)
    if match is None:
        raise CommandError(f"`{text}` is not a key: write NAME:S, NAME:N or NAME:B", ExitCode.USAGE)
    return match["name"], match["type"]


def _projection(text: str) -> dict[str, Any]:
    kind, _, names = text.partition(" ")
    match kind.lower():
        case "" | "all":
            return {"ProjectionType": "ALL"}
        case "keys_only":
            return {"ProjectionType": "KEYS_ONLY"}
        case "include" if names.strip():
            attributes = [name.strip() for name in names.split(",")]
            return {"ProjectionType": "INCLUDE", "NonKeyAttributes": attributes}
    raise CommandError(f"`{text}` is not a projection: write all, keys_only or include a,b", ExitCode.USAGE)
