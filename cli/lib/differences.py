"""Versions and differences of items, as the server returns them and as the terminal shows them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from ...model.values import Item, Value
from .client import Client
from .output import Row
from .values import plain, plain_item, write_json

Version: TypeAlias = dict[str, Any]

_CONTEXT: Final = {
    "Principal": "principal",
    "RequestId": "request_id",
    "Source": "source",
    "Reason": "reason",
}
_REFUSED: Final = {
    "Operation": "operation",
    "Error": "error",
    "Reason": "cancellation_reason",
    "Message": "message",
    "ConditionExpression": "condition",
    "Expected": "expected",
    "ItemDigest": "digest",
    "UpdateExpression": "update",
    "AttributeUpdates": "attribute_updates",
    "ExpressionAttributeNames": "names",
}
_SIGNS: Final = {"put": "+", "change": "~", "remove": "-"}


class Pages:
    """The pages of ItemHistory or TableDifferences, all of one cut.

    Attributes:
        answer: The last answer.
    """

    def __init__(self, client: Client, operation: str, body: Mapping[str, Any]) -> None:
        self._client = client
        self._operation = operation
        self._body = dict(body)
        self.answer: dict[str, Any] = {}

    def entries(self, member: str, limit: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield the entries in a member of the answers, at most `limit`."""
        count = 0
        while True:
            if limit is not None:
                self._body["Limit"] = min(limit - count, 1000)
            self.answer = self._client.admin(self._operation, self._body)
            yield from self.answer[member]
            count += len(self.answer[member])
            if "Next" not in self.answer or count == limit:
                return
            self._body |= {name: self.answer[name] for name in ("From", "To", "Next") if name in self.answer}


def shower(*, is_typed: bool) -> Callable[[Item], Any]:
    """Return the function that converts items for the output."""
    return (lambda item: item) if is_typed else plain_item


def version_row(version: Version, *, is_typed: bool) -> Row:
    """Return a version of an item, or a refused write, as a row."""
    show = shower(is_typed=is_typed)
    row: dict[str, Any] = {"position": version["Position"], "time": version["Time"], "kind": version["Kind"]}
    if version["EffectiveTime"] != version["Time"]:
        row["effective_time"] = version["EffectiveTime"]
    if "Item" in version:
        row["item"] = show(version["Item"])
    refused = version.get("Refused", {})
    row |= {name: refused[member] for member, name in _REFUSED.items() if member in refused}
    if "ExpressionAttributeValues" in refused:
        row["values"] = show(refused["ExpressionAttributeValues"])
    row |= context_row(version)
    if "Transaction" in version:
        transaction = version["Transaction"]
        members = [
            {"table": each["TableName"], "key": show(each["Key"]), "operation": each["Operation"]}
            for each in transaction["Members"]
        ]
        row["transaction"] = {"position": transaction["Position"], "members": members}
    return row


def context_row(version: Version) -> dict[str, Any]:
    """Return the author of a version: principal, request id, source and reason."""
    return {name: version[member] for member, name in _CONTEXT.items() if member in version}


def attributes(old: Item | None, new: Item | None, *, is_typed: bool) -> Iterator[Row]:
    """Yield a row for each attribute that differs between two items."""
    show: Callable[[Value], Any] = (lambda value: value) if is_typed else plain
    before, after = old or {}, new or {}
    for name in dict.fromkeys([*before, *after]):
        if name not in before:
            yield {"kind": "put", "attribute": name, "new": show(after[name])}
        elif name not in after:
            yield {"kind": "remove", "attribute": name, "old": show(before[name])}
        elif before[name] != after[name]:
            yield {"kind": "change", "attribute": name, "old": show(before[name]), "new": show(after[name])}


def difference_row(difference: dict[str, Any], *, is_typed: bool) -> Row:
    """Return an item that differs as a row."""
    show = shower(is_typed=is_typed)
    row: dict[str, Any] = {"kind": difference["Kind"], "key": show(difference["Key"])}
    row |= {name.lower(): show(difference[name]) for name in ("Old", "New") if name in difference}
    if "Position" in difference:
        row |= {"position": difference["Position"], "time": difference["Time"]}
    return row


def difference_text(difference: dict[str, Any], *, is_typed: bool) -> str:
    """Return an item that differs as text: the item that was put or removed, or the key and each changed attribute."""
    show = shower(is_typed=is_typed)
    kind = difference["Kind"]
    if kind != "change":
        return f"{_SIGNS[kind]} {write_json(show(difference['New' if kind == 'put' else 'Old']))}"
    lines = [f"~ {write_json(show(difference['Key']))}"]
    for row in attributes(difference["Old"], difference["New"], is_typed=is_typed):
        sides = [write_json(row[side]) for side in ("old", "new") if side in row]
        lines.append(f"    {_SIGNS[row['kind']]} {row['attribute']}: {' → '.join(sides)}")
    return "\n".join(lines)


def blamed(versions: Iterator[Version]) -> Iterator[tuple[str, Value, Version]]:
    """Yield each attribute of the newest version, its value, and the version that set it.

    It stops at the version that set the last attribute. Nothing is yielded if there is no item.
    """
    written = (version for version in versions if version["Kind"] != "refused")
    newest = next(written, None)
    if newest is None or "Item" not in newest:
        return
    item: Item = newest["Item"]
    found: dict[str, Version] = {}
    later = newest
    for version in written:
        before = version.get("Item", {})
        found |= {name: later for name in item if name not in found and before.get(name) != item[name]}
        later = version
        if len(found) == len(item) or "Item" not in version:
            break
    for name, value in item.items():
        yield name, value, found.get(name, later)
