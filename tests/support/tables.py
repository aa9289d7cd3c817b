"""Requests for tables in tests: the keys as text, in one line.

    make_table("Artist:S", "Song:S", gsi={"Genres": "Genre:S Album:S"}, lsi={"Years": "Year:N KEYS_ONLY"})

A key is `name:type`. An index is its keys, followed by its projection: ALL by default, KEYS_ONLY, or the attributes
that it includes, separated by commas. An LSI names its sort key alone.
"""

from collections.abc import Mapping
from typing import Any, Protocol


class MakeTable(Protocol):
    """The fixture `make_table`: boto3's Table, active, with a unique name."""

    def __call__(
        self,
        *keys: str,
        gsi: Mapping[str, str] | None = None,
        lsi: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> Any: ...


def table_request(
    name: str,
    *keys: str,
    gsi: Mapping[str, str] | None = None,
    lsi: Mapping[str, str] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Return CreateTable's request; `settings` are its other members and take precedence."""
    types = dict(key.split(":") for key in keys)
    request: dict[str, Any] = {
        "TableName": name,
        "KeySchema": _schema(list(types)),
        "BillingMode": "PAY_PER_REQUEST",
    }
    for member, indexes in (("GlobalSecondaryIndexes", gsi), ("LocalSecondaryIndexes", lsi)):
        for index, text in (indexes or {}).items():
            words = text.split()
            of_index = dict(word.split(":") for word in words if ":" in word)
            types |= of_index
            names = list(of_index) if member[0] == "G" else [next(iter(types)), *of_index]
            request.setdefault(member, []).append(
                {"IndexName": index, "KeySchema": _schema(names), "Projection": _projection(words[-1])}
            )
    request["AttributeDefinitions"] = [{"AttributeName": n, "AttributeType": t} for n, t in types.items()]
    return request | settings


def _schema(names: list[str]) -> list[dict[str, str]]:
    return [
        {"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ("HASH", "RANGE"), strict=False)
    ]


def _projection(word: str) -> dict[str, Any]:
    if ":" in word:
        return {"ProjectionType": "ALL"}
    if word == "KEYS_ONLY":
        return {"ProjectionType": "KEYS_ONLY"}
    return {"ProjectionType": "INCLUDE", "NonKeyAttributes": word.split(",")}
