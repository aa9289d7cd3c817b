"""The records of a bulk operation: items, each perhaps with a condition.

    {"Item":{"id":{"S":"o-1"}},"ConditionExpression":"attribute_not_exists(id)"}
    $ion_1_0 {Item:{id:"o-1"},ConditionExpression:"attribute_not_exists(id)"}

The condition has the members of a PutItem. A record with another member is malformed: no member is ignored.
"""

from typing import Any, BinaryIO, Final, NamedTuple

import orjson

from ...model.values import Item, Value
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
        return _put(orjson.loads(line))
    except orjson.JSONDecodeError as error:
        raise RecordError(f"this is not JSON: {error}") from None


def _ion_put(line: bytes) -> PutRecord:
    try:
        return _put({name: _json_of(name, value) for name, value in ion.read(line).items()})
    except ion.IonError as error:
        raise RecordError(str(error)) from None


def _json_of(name: str, value: Value) -> Any:
    """Return the JSON of a member in Ion, whose texts are values with a type."""
    if name == _CONDITION:
        return value.get("S", value)
    if name == _NAMES:
        return {each: text.get("S", text) for each, text in ion.read_item(value).items()}
    return ion.read_item(value) if name in (_ITEM, _VALUES) else value


def _put(members: Any) -> PutRecord:
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
        condition[_VALUES] = _mapping(members[_VALUES], _VALUES)
    return PutRecord(canonical(members[_ITEM], _ITEM), condition)


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise RecordError(f"{name} is not text")
    return value


def _mapping(value: Any, name: str) -> dict[str, Any]:
    if type(value) is not dict:
        raise RecordError(f"{name} is not an object")
    return dict(value)
