"""The records of a bulk operation: items, each perhaps with a condition.

    {"Item":{"id":{"S":"o-1"}},"ConditionExpression":"attribute_not_exists(id)"}
    $ion_1_0 {Item:{id:"o-1"},ConditionExpression:"attribute_not_exists(id)"}

The condition has the members of a PutItem. A record with another member is malformed: no member is ignored.
"""

from collections.abc import Callable
from typing import Any, BinaryIO, Final, NamedTuple

import orjson

from ...model.values import Item
from . import ion
from .item_files import ItemFormat, RecordError, Records, canonical, read_lines

_ITEM: Final = "Item"
_CONDITION: Final = "ConditionExpression"
_NAMES: Final = "ExpressionAttributeNames"
_VALUES: Final = "ExpressionAttributeValues"


class PutRecord(NamedTuple):
    """An item to put, and the members of a PutItem that are its condition."""

    item: Item
    condition: dict[str, Any]


def read_puts(file: BinaryIO, file_format: ItemFormat) -> Records[PutRecord]:
    """Return the records of a file. The errors are those of `item_files.read_items`."""
    return read_lines(file, _json_put if file_format == "DYNAMODB_JSON" else _ion_put)


def _json_put(line: bytes) -> PutRecord:
    try:
        members = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise RecordError(f"this is not JSON: {error}") from None
    return _put(members, lambda image: image)


def _ion_put(line: bytes) -> PutRecord:
    try:
        return _put(ion.read(line), ion.read_item)
    except ion.IonError as error:
        raise RecordError(str(error)) from None


def _put(members: Any, read: Callable[[Any], Any]) -> PutRecord:
    if type(members) is not dict:
        raise RecordError("this is not an object")
    unknown = members.keys() - {_ITEM, _CONDITION, _NAMES, _VALUES}
    if unknown or _ITEM not in members:
        raise RecordError(f"{min(unknown)} is not known" if unknown else "Item is missing")
    condition: dict[str, Any] = {}
    if _CONDITION in members:
        condition[_CONDITION] = _text(members[_CONDITION], _CONDITION)
    if _NAMES in members:
        names = _mapping(members[_NAMES], _NAMES)
        condition[_NAMES] = {name: _text(each, _NAMES) for name, each in names.items()}
    if _VALUES in members:
        condition[_VALUES] = dict(_mapping(read(members[_VALUES]), _VALUES))
    return PutRecord(canonical(read(members[_ITEM]), _ITEM), condition)


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise RecordError(f"{name} is not text")
    return str(value)


def _mapping(value: Any, name: str) -> dict[str, Any]:
    try:
        return dict(value.items())
    except AttributeError:
        raise RecordError(f"{name} is not an object") from None
