"""Attribute values in the form of requests and responses: checked once, and canonical after that.

A value is a dict with one entry, its type and its content:

    {"S": "x"}  {"N": "1.5"}  {"B": "eA=="}  {"SS": [...]}  {"NS": [...]}  {"BS": [...]}
    {"BOOL": true}  {"NULL": true}  {"L": [value, ...]}  {"M": {name: value, ...}}

`check_item`, `check_value` and `check_values` validate values of requests. They raise DynamoDB's errors, make the
value canonical *in place* and return its size. A canonical value has:

    numbers    canonical text, see `numbers`
    sets       sorted: strings by UTF-8 bytes, numbers by value, binaries by their bytes
    binaries   the strict base64 of their bytes
    members    one type; null members and unknown types are removed

So two values are equal to DynamoDB iff they are equal in Python, and two items iff their canonical bytes (`dump`: JSON
without spaces, map keys sorted) are equal. Strings compare by code point, which is also the order of their UTF-8 bytes.

DynamoDB reports a wrong JSON type (a number instead of a string) as SerializationException, and all other errors as
ValidationException. Some texts differ between its operations: BatchWriteItem, Scan and statements send the older one
(`ValidationError.older`). PutItem, UpdateItem and DeleteItem put "1 validation error detected: " before each.
"""

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeAlias

import orjson

from . import numbers
from .errors import SerializationError, ValidationError
from .limits import MODERN, Limits

Value: TypeAlias = dict[str, Any]
Item: TypeAlias = dict[str, Value]

COLLECTION_BYTES: Final = 3  # charged for a list or a map, in addition to its content

ITEM_TOO_LARGE: Final = "Item size has exceeded the maximum allowed size"
UPDATE_TOO_LARGE: Final = "Item size to update has exceeded the maximum allowed size"

_EMPTY: Final = "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
_SEVERAL: Final = (
    "Supplied AttributeValue has more than one datatypes set, "
    "must contain exactly one of the supported datatypes"
)
_NESTED: Final = (
    "Nesting Levels have exceeded supported limits: "
    "Attributes in the item have nested levels beyond supported limit"
)
_INVALID: Final = "One or more parameter values were invalid: "
NAME_TOO_LONG: Final = "Attribute name is too large, must be less than 65536 bytes"
_NAME_EMPTY: Final = "Empty attribute name"
_NOT_TRUE: Final = _INVALID + "Null attribute value types must have the value of true"
_EMPTY_STRING: Final = _INVALID + "An AttributeValue may not contain an empty string"
_EMPTY_BINARY: Final = _INVALID + "An AttributeValue may not contain a null or empty binary type."
# Compiled, these are found at once, and members of a module by two lookups for each use.
_loads: Final = orjson.loads
_dumps: Final = orjson.dumps
_SORTED: Final = orjson.OPT_SORT_KEYS


# Validation


def check_item(raw: Any, limits: Limits) -> int:
    """Check an item of a request, make it canonical and return its size in bytes."""
    if type(raw) is not dict:
        raise _wrong_map(raw)
    try:
        size = _check_members(raw, limits, 1)
    except ValidationError as error:
        if error.message == _NAME_EMPTY and "" not in raw:
            _check_depth(raw.values(), limits)  # DynamoDB checks it before the names inside of values
        raise
    if size > limits.item_bytes:
        raise ValidationError(ITEM_TOO_LARGE)
    return size


def _check_depth(values: Iterable[Any], limits: Limits) -> None:
    """Check only the depth of values, which may be malformed.

    Raises:
        ValidationError: A value is nested too deep.
    """
    level = list(values)
    for _ in range(limits.depth):
        level = [inner for value in level if type(value) is dict for inner in _inside(value)]
    if level:
        raise ValidationError(_NESTED)


def _inside(value: Value) -> Iterable[Any]:
    members, elements = value.get("M"), value.get("L")
    return (
        *(members.values() if type(members) is dict else ()),
        *(elements if type(elements) is list else ()),
    )


def check_value(raw: Any, limits: Limits) -> int:
    """Check one value of a request, make it canonical and return its size in bytes."""
    return _check((raw,), limits, 1)


def check_values(raw: Any, limits: Limits) -> int:
    """Check a request's ExpressionAttributeValues, make them canonical and return their size with their names.

    The names are checked with the expressions.
    """
    if type(raw) is not dict:
        raise _wrong_map(raw)
    return names_size(raw) + _check(raw.values(), limits, 1)


def check_named_values(raw: Any, limits: Limits) -> int:
    """Check values as `check_values` does, with the errors of a Scan, which name the placeholder.

    Raises:
        ValidationError: A value is invalid.
    """
    try:
        return check_values(raw, limits)
    except ValidationError:
        for name, value in raw.items():
            try:
                _check((value,), limits, 1)
            except ValidationError as error:
                raise ValidationError(
                    f"ExpressionAttributeValues contains invalid value: {error.older} for key {name}"
                ) from None
        raise


def check_kinds(value: Any) -> None:
    """Check only the kinds of JSON in a value, which `check_value` may not have reached before another error.

    Raises:
        SerializationError: A part of the value has the wrong JSON type, or malformed base64.
    """
    if type(value) is list or (value is not None and type(value) is not dict):
        _check_irregular(value, MODERN, 1)
    for tag, content in (value or {}).items():
        if content is None:
            continue
        inner = content if type(content) is list else [content]
        match tag:
            case "S" | "N" if type(content) is not str:
                raise _wrong_string(content)
            case "B":
                _bytes_of(content)
            case "BOOL" | "NULL" if type(content) is not bool:
                raise _wrong_boolean(content)
            case "L" | "SS" | "NS" | "BS" if type(content) is not list:
                raise _wrong_list(content)
            case "M" if type(content) is not dict:
                raise _wrong_map(content)
            case "SS" | "NS" | "BS":
                _check_kinds_of_set(tag, inner)
            case "L" | "M":
                for member in inner if tag == "L" else content.values():
                    check_kinds(member)


def _check_kinds_of_set(tag: str, members: list[Any]) -> None:
    for member in members:
        if member is not None and (tag == "BS" or type(member) is not str):
            check_kinds({tag[0]: member})


def _check_members(members: dict[str, Any], limits: Limits, depth: int) -> int:
    size = names_size(members)
    if "" in members or size > limits.attribute_name_bytes:
        _check_names(members, limits)
    return size + _check(members.values(), limits, depth)


def _check_names(names: Iterable[str], limits: Limits) -> None:
    for name in names:
        if not 0 < len(name.encode()) <= limits.attribute_name_bytes:
            raise ValidationError(NAME_TOO_LONG if name else _NAME_EMPTY)


def _check(values: Iterable[Any], limits: Limits, depth: int) -> int:
    """Check the members of a map or the elements of a list. This is the inner loop of every write.

    The most frequent types do without a look into the table, and compiled without the boxes of a call through it.
    """
    size = 0
    tag: str
    for value in values:
        if type(value) is not dict or len(value) != 1:
            size += _check_irregular(value, limits, depth)
            continue
        for tag, content in value.items():  # compiled, this one turn needs no iterator
            if tag == "S":
                size += _check_string(value, content, limits, depth)
            elif tag == "N":
                size += _check_number(value, content, limits, depth)
            elif tag in _CHECKS:
                size += _CHECKS[tag](value, content, limits, depth)
            else:
                size += _check_irregular(value, limits, depth)
    return size


def _check_irregular(value: Any, limits: Limits, depth: int) -> int:
    """Check a value that has not exactly one member. Null members and unknown types are ignored."""
    if type(value) is list:
        raise _unrecognized("class com.amazonaws.dynamodb.v20120810.AttributeValue")
    if value is None:
        raise ValidationError(_EMPTY)
    if type(value) is not dict:
        raise SerializationError("Unexpected value type in payload")
    present = [tag for tag in value if tag in _CHECKS and value[tag] is not None]
    if not present:
        raise ValidationError(_EMPTY)
    # DynamoDB checks the content of each type before it reports that there are several.
    sizes = [_CHECKS[tag](value, value[tag], limits, depth) for tag in present]
    if len(present) > 1:
        raise ValidationError(_SEVERAL)
    content = value[present[0]]
    value.clear()
    value[present[0]] = content
    return sizes[0]


def _check_string(_: Value, content: Any, limits: Limits, _depth: int) -> int:
    if type(content) is not str:
        raise _wrong_string(content)
    if not content and not limits.empty_allowed:
        raise ValidationError(_EMPTY_STRING)
    return len(content) if content.isascii() else len(content.encode())


def _check_number(value: Value, content: Any, _limits: Limits, _depth: int) -> int:
    if type(content) is not str:
        raise _wrong_string(content)
    text = numbers.canonical(content)
    if text is not content:
        value["N"] = text
    return numbers.size(text)


def _check_binary(_: Value, content: Any, limits: Limits, _depth: int) -> int:
    if not content and content == "" and not limits.empty_allowed:
        raise ValidationError(_EMPTY_BINARY)
    return len(_bytes_of(content))


def _check_boolean(_: Value, content: Any, _limits: Limits, _depth: int) -> int:
    if type(content) is not bool:
        raise _wrong_boolean(content)
    return 1


def _check_null(_: Value, content: Any, limits: Limits, _depth: int) -> int:
    if type(content) is not bool:
        raise _wrong_boolean(content)
    if not limits.null_allowed:
        # There was no such type in 2012.
        raise ValidationError(_EMPTY)
    if not content:
        raise ValidationError(_NOT_TRUE)
    return 1


def _check_count(content: list[Any], limits: Limits) -> None:
    """Refuse a set with more members than an item has space for: different members have two bytes or more each."""
    if len(content) > limits.item_bytes >> 1:
        raise ValidationError(ITEM_TOO_LARGE)


def _check_string_set(value: Value, content: Any, limits: Limits, _depth: int) -> int:
    if type(content) is not list:
        raise _wrong_list(content)
    if not content:
        raise ValidationError(_INVALID + "An string set  may not be empty")
    _check_count(content, limits)
    for text in content:
        if type(text) is not str:
            raise _wrong_string(text)
        if not text and not limits.empty_allowed:
            raise ValidationError(_INVALID + "An string set may not have a empty string as a member")
    if len(set(content)) < len(content):
        quoted = ", ".join(f'"{text}"' for text in _with_repeat(content, sorted))
        raise ValidationError(
            f"{_INVALID}Input collection [{quoted}] contains duplicates.",
            older=f"{_INVALID}Input collection [{', '.join(content)}] contains duplicates.",
        )
    value["SS"] = sorted(content)
    return sum(len(text.encode()) for text in content)


def _check_number_set(value: Value, content: Any, limits: Limits, _depth: int) -> int:
    if type(content) is not list:
        raise _wrong_list(content)
    if not content:
        raise ValidationError(_INVALID + "An number set  may not be empty")
    _check_count(content, limits)
    for text in content:
        if type(text) is not str:
            raise _wrong_string(text)
    texts = [numbers.canonical(text) for text in content]
    if len(set(texts)) < len(texts):
        older = "Input collection contains duplicates"
        raise ValidationError(f"{_INVALID}{older}.", older)
    value["NS"] = sorted(texts, key=numbers.encode)
    return sum(map(numbers.size, texts))


def _check_binary_set(value: Value, content: Any, limits: Limits, _depth: int) -> int:
    if type(content) is not list:
        raise _wrong_list(content)
    if not content:
        raise ValidationError(_INVALID + "Binary sets should not be empty")
    _check_count(content, limits)
    binaries = {text: _bytes_of(text) for text in content}
    if "" in binaries and not limits.empty_allowed:
        raise ValidationError(_INVALID + "Binary sets may not contain null or empty values")
    if len(binaries) < len(content):
        in_order = partial(sorted, key=binaries.__getitem__)
        quoted = ",".join(f'"{text}"' for text in _with_repeat(content, in_order))
        raise ValidationError(
            f"{_INVALID}Input collection [{quoted}]of type BS contains duplicates.",
            older=f"{_INVALID}Input collection [{', '.join(content)}]of type BS contains duplicates.",
        )
    value["BS"] = sorted(content, key=binaries.__getitem__)
    return sum(map(len, binaries.values()))


def _with_repeat(content: list[str], in_order: Callable[[list[str]], list[str]]) -> list[str]:
    """Return the members of a set as DynamoDB shows them: in order up to the first repeat, and the rest as sent."""
    different = dict.fromkeys(content)
    pairs = enumerate(zip(content, different, strict=False))
    first = next((nth for nth, (text, other) in pairs if text != other), len(different))
    return in_order(content[:first]) + content[first:]


def _check_list(_: Value, content: Any, limits: Limits, depth: int) -> int:
    if type(content) is not list:
        raise _wrong_list(content)
    if depth >= limits.depth and content:
        raise ValidationError(_NESTED)
    own = COLLECTION_BYTES + limits.element_bytes * len(content)
    return own + _check(content, limits, depth + 1)


def _check_map(_: Value, content: Any, limits: Limits, depth: int) -> int:
    if type(content) is not dict:
        raise _wrong_map(content)
    if depth >= limits.depth and content:
        raise ValidationError(_NESTED)
    own = COLLECTION_BYTES + limits.element_bytes * len(content)
    return own + _check_members(content, limits, depth + 1)


_Check: TypeAlias = Callable[[Value, Any, Limits, int], int]

_CHECKS: Final[dict[str, _Check]] = {
    "S": _check_string,
    "N": _check_number,
    "B": _check_binary,
    "SS": _check_string_set,
    "NS": _check_number_set,
    "BS": _check_binary_set,
    "M": _check_map,
    "L": _check_list,
    "NULL": _check_null,
    "BOOL": _check_boolean,
}


def _bytes_of(content: Any) -> bytes:
    """Decode a request's base64. DynamoDB accepts the strict form only."""
    if type(content) is not str:
        raise _wrong_binary(content)
    if len(content) % 4:
        found = f"Base64 encoded length is expected a multiple of 4 bytes but found: {len(content)}"
        raise SerializationError(found)
    try:
        data = a2b_base64(content, strict_mode=True)
    except ValueError:
        data = None
    if data is None or b2a_base64(data, newline=False).decode("ascii") != content:
        raise _wrong_base64(content)
    return data


# Wrong kinds of JSON


def _wrong_string(content: Any) -> SerializationError | ValidationError:
    return _wrong_scalar(content, "String", "java.lang.String")


def _wrong_boolean(content: Any) -> SerializationError | ValidationError:
    if type(content) is str:
        return SerializationError("Unexpected token received from parser")
    return _wrong_scalar(content, "Boolean", "java.lang.Boolean")


def _wrong_binary(content: Any) -> SerializationError | ValidationError:
    if content is None or type(content) in (list, dict):
        return _wrong_scalar(content, "", "java.nio.ByteBuffer")
    return SerializationError("only base-64-encoded strings are convertible to bytes")


def _wrong_scalar(content: Any, wanted: str, java_class: str) -> SerializationError | ValidationError:
    if content is None:
        return ValidationError(_EMPTY)
    if type(content) is list:
        return _unrecognized(f"class {java_class}")
    if type(content) is dict:
        return _unexpected_start()
    return SerializationError(f"{_token(content)} cannot be converted to {wanted}")


def _token(content: Any) -> str:
    """Return the name that DynamoDB's parser has for a JSON scalar other than a string."""
    if type(content) is bool:
        return "TRUE_VALUE" if content else "FALSE_VALUE"
    return "NUMBER_VALUE" if type(content) is int else "DECIMAL_VALUE"


def _wrong_list(content: Any) -> SerializationError | ValidationError:
    if content is None:
        return ValidationError(_EMPTY)
    return _unexpected_start() if type(content) is dict else SerializationError("Unexpected field type")


def _wrong_map(content: Any) -> SerializationError | ValidationError:
    if content is None:
        return ValidationError(_EMPTY)
    if type(content) is list:
        return _unrecognized(
            "java.util.Map<java.lang.String, com.amazonaws.dynamodb.v20120810.AttributeValue>"
        )
    return SerializationError("Unexpected field type")


def _wrong_base64(content: str) -> SerializationError:
    for character in content:
        if not (character.isascii() and (character.isalnum() or character in "+/=")):
            return SerializationError(f"Invalid Base64 character: '{character}'")
    # DynamoDB's own spelling.
    return SerializationError("Invalid last non-pad Base64 character dectected")


def _unrecognized(java_type: str) -> SerializationError:
    return SerializationError(f"Unrecognized collection type {java_type}")


def _unexpected_start() -> SerializationError:
    return SerializationError("Start of structure or map found where not expected")


# Functions of canonical values


def item_size(item: Item, limits: Limits) -> int:
    """Return the bytes that DynamoDB counts for an item: names and values.

    Counting ends when the sum exceeds the maximum item size: an update of a few kilobytes that copies one large list
    many times would compute an item of gigabytes.
    """
    size = names_size(item)
    most = limits.item_bytes
    for value in item.values():
        size += value_size(value, limits)
        if size > most:
            break
    return size


def names_size(names: Iterable[str]) -> int:
    """Return the total bytes of names."""
    joined = "".join(names)
    return len(joined) if joined.isascii() else len(joined.encode())


def value_size(value: Value, limits: Limits = MODERN) -> int:
    """Return the bytes that DynamoDB counts for a value, as `item_size` does."""
    tag = type_of(value)
    content = value[tag]
    if tag == "S":
        return len(content) if content.isascii() else len(content.encode())
    if tag == "N":
        return numbers.size(content)
    if tag == "M":
        return COLLECTION_BYTES + limits.element_bytes * len(content) + item_size(content, limits)
    if tag == "L":
        size = COLLECTION_BYTES + limits.element_bytes * len(content)
        most = limits.item_bytes
        for element in content:
            if size > most:
                break
            size += value_size(element, limits)
        return size
    return _SIZES[tag](content)


def _binary_size(content: str) -> int:
    return (len(content) >> 2) * 3 - content.count("=", -2)


_SIZES: Final[dict[str, Callable[[Any], int]]] = {
    "B": _binary_size,
    "BOOL": lambda _: 1,
    "NULL": lambda _: 1,
    "SS": lambda content: sum(len(text.encode()) for text in content),
    "NS": lambda content: sum(map(numbers.size, content)),
    "BS": lambda content: sum(map(_binary_size, content)),
}


def dump(item: Item) -> bytes:
    """Return the canonical bytes of an item."""
    # The bytes that orjson returns keep its buffer of about 4 KB alive; a copy does not.
    return b"%b" % (_dumps(item, None, _SORTED),)  # compiled, a tuple is formatted at once


def load(data: bytes) -> Item:
    """Return a new item from canonical bytes, which the caller may change."""
    item: Item = _loads(data)
    return item


def type_of(value: Value) -> str:
    """Return "S", "N", "M", ..."""
    for tag in value:  # compiled, a loop needs no iterator
        return tag
    raise AssertionError("a value has one member")


def depth_of(value: Value) -> int:
    """Return the levels of a value: 1 for a scalar or a set, one more for each list or map around it."""
    tag = type_of(value)
    if tag == "M":
        return 1 + max(map(depth_of, value["M"].values()), default=0)
    if tag == "L":
        return 1 + max(map(depth_of, value["L"]), default=0)
    return 1


def equal(a: Value, b: Value) -> bool:
    """Return whether two values are equal to DynamoDB. Values of different types are never equal."""
    return a == b


def compare(a: Value, b: Value) -> int:
    """Return -1, 0 or 1 as a is less than, equal to or greater than b: two S, two N or two B."""
    tag = type_of(a)
    if tag == "N":
        return numbers.compare(a["N"], b["N"])
    left, right = a[tag], b[tag]
    if left == right:
        return 0
    if tag == "B":
        return -1 if a2b_base64(left) < a2b_base64(right) else 1
    return -1 if left < right else 1


def contains(container: Value, operand: Value) -> bool:
    """Return whether a string or binary contains another, a set an element, or a list a value."""
    tag, wanted = type_of(container), type_of(operand)
    if tag == "L":
        return operand in container["L"]
    if tag == wanted + "S":
        return operand[wanted] in container[tag]
    if tag != wanted or tag not in ("S", "B"):
        return False
    if tag == "B":
        return a2b_base64(operand["B"]) in a2b_base64(container["B"])
    return operand["S"] in container["S"]
