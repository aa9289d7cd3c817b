"""The sample data sets: one JSON file for each, with items in plain JSON.

    {"about": ..., "tables": [...], "items": {TABLE: [...]}, "then": [...], "queries": [...], "transactions": {...}}

`tables` and `then` are requests of CreateTable and UpdateTable; `queries` are questions, with the arguments of `foldb`
that answer them. In `queries` and `transactions` a table is written {Name}, which gets the prefix.
"""

from functools import cache
from importlib.resources import files
from typing import Any

from ..lib.values import read_json


def names() -> list[str]:
    """Return the names of all samples."""
    return sorted(
        file.name.removesuffix(".json") for file in files(__name__).iterdir() if file.name.endswith(".json")
    )


@cache
def sample(name: str) -> dict[str, Any]:
    """Return the content of a sample's file."""
    content: dict[str, Any] = read_json(files(__name__).joinpath(f"{name}.json").read_bytes(), name)
    return content


def tables(name: str) -> list[str]:
    return [request["TableName"] for request in sample(name)["tables"]]
