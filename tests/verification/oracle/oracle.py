"""DynamoDB, slowly: two tables as plain dicts of plain Python values.

It was written from the documentation and shares nothing with the database. Every question is answered by going
through all items.
"""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.verification.oracle.language import (
    Condition,
    ConditionFailedError,
    InvalidError,
    PlainItem,
    Step,
    kind,
    order,
)

Key: TypeAlias = tuple[Any, ...]

# The rules of an index for an attribute of an item in it, or of any item.
INDEX_KEYS = {"g": "S", "l": "N"}


class CancelledError(Exception):
    """DynamoDB answers TransactionCanceledException with these codes."""

    def __init__(self, codes: list[str]) -> None:
        super().__init__(codes)
        self.codes = codes


@dataclass
class Model:
    """One table with the key `names`, and if `indexed` with the indexes `by-g` (g, l) and `by-l` (first key, l)."""

    names: tuple[str, ...]
    indexed: bool
    items: dict[Key, PlainItem] = field(default_factory=dict)

    def key(self, item: PlainItem) -> Key:
        return tuple(item[name] for name in self.names)

    def put(self, item: PlainItem, condition: Condition | None) -> PlainItem | None:
        """Store an item; returns the one before."""
        self._check_index_keys(item)
        before = self.items.get(self.key(item))
        self._require(condition, before)
        self.items[self.key(item)] = deepcopy(item)
        return before

    def delete(self, key: PlainItem, condition: Condition | None) -> PlainItem | None:
        before = self.items.get(self.key(key))
        self._require(condition, before)
        self.items.pop(self.key(key), None)
        return before

    def update(self, key: PlainItem, steps: list[Step], condition: Condition | None) -> PlainItem | None:
        """Carry out the steps; returns the item after."""
        before = self.items.get(self.key(key))
        self._require(condition, before)
        if before is None and all(step.clause in ("REMOVE", "DELETE") for step in steps):
            return None
        as_it_was = before if before is not None else dict(key)
        after = deepcopy(as_it_was)
        for step in steps:
            step.carry_out(as_it_was, after)
        self._check_index_keys(after)
        self.items[self.key(key)] = after
        return after

    def check(self, key: PlainItem, condition: Condition) -> None:
        self._require(condition, self.items.get(self.key(key)))

    def get(self, key: PlainItem) -> PlainItem | None:
        return self.items.get(self.key(key))

    def collection(self, partition: Any) -> list[PlainItem]:
        """The items of one partition key, in sort-key order."""
        return [
            item
            for key, item in sorted(self.items.items(), key=lambda pair: order(pair[0][-1]))
            if key[0] == partition
        ]

    def by_g(self, g: str) -> Iterator[PlainItem]:
        """The entries of the global index under `g`, in no order among equals."""
        return (item for item in self.items.values() if item.get("g") == g and "l" in item)

    def by_l(self, partition: Any) -> Iterator[PlainItem]:
        """The entries of the local index in a collection."""
        return (item for key, item in self.items.items() if key[0] == partition and "l" in item)

    def _require(self, condition: Condition | None, before: PlainItem | None) -> None:
        if condition is not None and not condition.holds(before if before is not None else {}):
            raise ConditionFailedError

    def _check_index_keys(self, item: PlainItem) -> None:
        for attribute, wanted in INDEX_KEYS.items() if self.indexed else ():
            if attribute in item and (kind(item[attribute]) != wanted or item[attribute] == ""):
                raise InvalidError


def transact(actions: Iterable[tuple[Model, str, tuple[Any, ...]]]) -> None:
    """All of the actions, (table, method, arguments) each, or none.

    Raises:
        CancelledError: With one code an action, "None" for those that could have gone through.
    """
    actions = list(actions)
    kept = [(model, dict(model.items)) for model, _, _ in actions]
    codes = []
    for model, method, arguments in actions:
        try:
            getattr(model, method)(*arguments)
            codes.append("None")
        except ConditionFailedError:
            codes.append("ConditionalCheckFailed")
        except InvalidError:
            codes.append("ValidationError")
    if any(code != "None" for code in codes):
        for model, items in reversed(kept):
            model.items = items
        raise CancelledError(codes)
