"""The sample data sets: one JSON file each, items in plain notation.

    {"about": ..., "tables": [...], "items": {TABLE: [...]}, "then": [...], "queries": [...], "transactions": {...}}

`tables` and `then` hold requests of CreateTable and UpdateTable, `queries` the questions that the data answers, as
arguments of `foldb`. In `queries` and `transactions` a table stands as {Name}, so that a prefix can be put before it.
"""

from functools import cache
from importlib.resources import files
from typing import Any

from ..lib.values import read_json


def names() -> list[str]:
    """The names of all samples."""
    return sorted(
        file.name.removesuffix(".json") for file in files(__name__).iterdir() if file.name.endswith(".json")
    )


@cache
def sample(name: str) -> dict[str, Any]:
    """One sample, as its file has it."""
    content: dict[str, Any] = read_json(files(__name__).joinpath(f"{name}.json").read_bytes(), name)
    return content


def tables(name: str) -> list[str]:
    """The names of a sample's tables."""
    return [request["TableName"] for request in sample(name)["tables"]]
