"""The short notation for tables and indexes.

key       ::= NAME ":" TYPE                            TYPE is S, N or B
index     ::= NAME "=" parts ["," parts] [" " projection] [" " units]
parts     ::= key ("+" key)*                           more than one only in a global index
projection ::= "all" | "keys_only" | "include " NAME ("," NAME)*
units     ::= READ "/" WRITE                           provisioned; only of a global index

foldb table create Music Artist:S Song:S --gsi 'Genres=Genre:S,Album:S' --lsi 'Years=Year:N keys_only'
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import CommandError, ExitCode

_KEY = re.compile(r"(?P<name>[^:+,=\s]+):(?P<type>[SNB])")
_UNITS = re.compile(r"([0-9]{1,12})/([0-9]{1,12})")


def table_request(
    name: str,
    keys: Sequence[str],
    gsis: Sequence[str],
    lsis: Sequence[str],
    throughput: tuple[int, int] | None,
) -> dict[str, Any]:
    """Return the CreateTable request for a table in the short notation."""
    types: dict[str, str] = {}
    request: dict[str, Any] = {"TableName": name, "KeySchema": _schema(keys, types)}
    if gsis:
        request["GlobalSecondaryIndexes"] = [_global_index(text, types, throughput) for text in gsis]
    if lsis:
        request["LocalSecondaryIndexes"] = [_local_index(text, types, keys[0]) for text in lsis]
    request["AttributeDefinitions"] = attribute_definitions(types)
    return request | billing(throughput)


def index_request(
    text: str, throughput: tuple[int, int] | None
) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Return a global index for UpdateTable, and the definitions of its attributes.

    Args:
        text: The index in the short notation.
        throughput: The units of the table, if they are provisioned, for an index without units of its own.
    """
    types: dict[str, str] = {}
    return _global_index(text, types, throughput), attribute_definitions(types)


def local_index_request(text: str, partition: str) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Return a local index, and the definitions of its attributes. `partition` is the table's, in the notation."""
    types: dict[str, str] = {}
    return _local_index(text, types, partition), attribute_definitions(types)


def key_request(text: str) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Return the KeySchema of a key in the short notation, `A:S,B:N`, and the definitions of its attributes."""
    types: dict[str, str] = {}
    return _schema(text.split(","), types), attribute_definitions(types)


def units_request(text: str) -> dict[str, Any]:
    """Return the update of UpdateTable for `NAME=READ/WRITE`, the throughput of a global index.

    Raises:
        CommandError: `text` has another form.
    """
    name, _, units = text.rpartition("=")
    match = _UNITS.fullmatch(units)
    if not name or match is None:
        raise CommandError(f"--index {text}: write NAME=READ/WRITE, such as Genres=10/5", ExitCode.USAGE)
    return index_units(name, (int(match[1]), int(match[2])))


def index_units(name: str, throughput: tuple[int, int]) -> dict[str, Any]:
    """Return the update of UpdateTable that sets the throughput of a global index."""
    return {"Update": {"IndexName": name, "ProvisionedThroughput": provisioned(throughput)}}


def request_like(description: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the CreateTable request for a table with the keys, indexes and throughput of a described table."""
    by_request = description.get("BillingModeSummary", {}).get("BillingMode") == "PAY_PER_REQUEST"
    request: dict[str, Any] = {"TableName": name, "KeySchema": description["KeySchema"]}
    request |= billing(None if by_request else units_of(description))
    schemas = [request["KeySchema"]]
    for kind in ("LocalSecondaryIndexes", "GlobalSecondaryIndexes"):
        is_provisioned = kind.startswith("Global") and not by_request
        indexes = [
            {member: index[member] for member in ("IndexName", "KeySchema", "Projection")}
            | ({"ProvisionedThroughput": provisioned(units_of(index))} if is_provisioned else {})
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
    """Return the billing members of a request. None is on-demand."""
    if throughput is None:
        return {"BillingMode": "PAY_PER_REQUEST"}
    return {"BillingMode": "PROVISIONED", "ProvisionedThroughput": provisioned(throughput)}


def provisioned(throughput: tuple[int, int]) -> dict[str, int]:
    """Return the ProvisionedThroughput of a request."""
    read, write = throughput
    return {"ReadCapacityUnits": read, "WriteCapacityUnits": write}


def attribute_definitions(types: dict[str, str]) -> list[dict[str, str]]:
    return [{"AttributeName": name, "AttributeType": kind} for name, kind in types.items()]


def _global_index(text: str, types: dict[str, str], throughput: tuple[int, int] | None) -> dict[str, Any]:
    rest, _, units = text.strip().rpartition(" ")
    match = _UNITS.fullmatch(units)
    if match is None:
        index = _index(text, types, None)
    elif throughput is None:
        raise CommandError(
            f"`{text}`: an index of an on-demand table has no units: provision the table with --read and --write",
            ExitCode.USAGE,
        )
    else:
        index = _index(rest, types, None)
        throughput = int(match[1]), int(match[2])
    return index if throughput is None else index | {"ProvisionedThroughput": provisioned(throughput)}


def _local_index(text: str, types: dict[str, str], partition: str) -> dict[str, Any]:
    if _UNITS.fullmatch(text.strip().rpartition(" ")[2]):
        raise CommandError(
            f"`{text}`: a local index has no units: it uses those of its table", ExitCode.USAGE
        )
    return _index(text, types, partition)


def _index(text: str, types: dict[str, str], partition: str | None) -> dict[str, Any]:
    head, _, projection = text.strip().partition(" ")
    name, equals, keys = head.partition("=")
    if not equals or not name:
        raise CommandError(
            f"`{text}` is not an index: write NAME=ATTRIBUTE:S or NAME=A:S,B:N", ExitCode.USAGE
        )
    parts = keys.split(",")
    if partition is not None:
        parts = [partition, *parts]
    return {
        "IndexName": name,
        "KeySchema": _schema(parts, types),
        "Projection": _projection(projection.strip()),
    }


def units_of(description: Mapping[str, Any]) -> tuple[int, int]:
    """Return the provisioned read and write units of a described table or index. They are 0 if it is on-demand."""
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
