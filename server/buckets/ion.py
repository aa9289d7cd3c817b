r"""Items in Ion text, as DynamoDB exports and imports them.

    DynamoDB     Ion
    S            string
    N            decimal             103. and 1.5 and 6d2: an integer is written without its last zeros
    B            blob                {{aGk=}}
    BOOL, NULL   bool, null
    L, M         list, struct
    SS, NS, BS   list with the annotation $dynamodb_SS, $dynamodb_NS or $dynamodb_BS

Ion text is a superset of JSON, so a string is written as in JSON. Reading needs `pip install "foldb[exports]"`.
"""

import re
from base64 import b64encode
from decimal import Decimal
from typing import Any, Final

import orjson

from ...model.values import Item, Value
from .compression import MissingExtraError

VERSION_MARKER: Final = b"$ion_1_0"

_BINARY_MARKER: Final = b"\xe0\x01\x00\xea"
_SETS: Final = {"$dynamodb_SS": "S", "$dynamodb_NS": "N", "$dynamodb_BS": "B"}

# A field name is a symbol: an identifier, or quoted. `$10` would be a reference to a table of symbols.
_IDENTIFIER: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_NOT_A_NAME: Final = re.compile(r"\$[0-9]+|null|true|false|nan")


class IonError(ValueError):
    """A text is not Ion, or is no item."""


# Writing


def write_struct(members: Item) -> bytes:
    """Return the text of an item, or of the members of a map."""
    return b"{%b}" % b",".join(b"%b:%b" % (_symbol(name), write(value)) for name, value in members.items())


def write(value: Value) -> bytes:
    """Return the text of a canonical value."""
    [(tag, content)] = value.items()
    match tag:
        case "S":
            return orjson.dumps(content)
        case "N":
            return _decimal(content)
        case "B":
            return b"{{%b}}" % content.encode()
        case "BOOL":
            return b"true" if content else b"false"
        case "NULL":
            return b"null"
        case "L":
            return b"[%b]" % b",".join(map(write, content))
        case "M":
            return write_struct(content)
        case "SS" | "NS" | "BS":
            elements = b",".join(write({tag[0]: element}) for element in content)
            return b"$dynamodb_%b::[%b]" % (tag.encode(), elements)
    raise AssertionError(f"no attribute type {tag}")


def _symbol(name: str) -> bytes:
    if _IDENTIFIER.fullmatch(name) and not _NOT_A_NAME.fullmatch(name):
        return name.encode()
    return b"'%b'" % orjson.dumps(name)[1:-1].replace(b"'", b"\\'")


def _decimal(text: str) -> bytes:
    """Return a decimal: a number without point or exponent would be an int."""
    if "." in text:
        return text.encode()
    digits = text.rstrip("0")
    zeros = len(text) - len(digits)
    return f"{digits}d{zeros}".encode() if digits and zeros else f"{text}.".encode()


# Reading


def read(text: bytes) -> dict[str, Any]:
    """Parse one value, a struct. Return its members as Ion values, for `read_item`.

    Raises:
        IonError: The text is not one struct in Ion.
        MissingExtraError: The library is not installed.
    """
    try:
        from amazon.ion.exceptions import IonException
        from amazon.ion.simpleion import loads
    except ImportError:
        raise MissingExtraError("reading Ion") from None
    if text.startswith(_BINARY_MARKER):
        raise IonError("this is binary Ion; only Ion text is read")
    try:
        value = loads(text)
        return _members(value)
    except (IonException, ValueError, ArithmeticError, RecursionError) as error:
        if isinstance(error, IonError):
            raise
        raise IonError(f"this is not Ion text: {' '.join(str(error).split())}") from error


def read_item(value: Any) -> Item:
    """Return the item of a struct, in the form of requests: it is not checked.

    Raises:
        IonError: The value is not a struct, or a member has a type that items do not have.
    """
    return {name: _value(member) for name, member in _members(value).items()}


def _members(value: Any) -> dict[str, Any]:
    if _type(value) != "STRUCT":
        raise IonError(f"expected a struct, found a value of the type {_type(value).lower()}")
    members = dict(value.items())
    if not all(isinstance(name, str) for name in members):
        raise IonError("a field has a symbol without text as its name")
    return members


def _type(value: Any) -> str:
    """Return the name of the Ion type; NULL for a null of any type."""
    from amazon.ion.simple_types import IonPyNull

    return "NULL" if isinstance(value, IonPyNull) else str(value.ion_type.name)


def _value(value: Any) -> Value:
    kind = _type(value)
    annotations = [each.text for each in value.ion_annotations]
    if annotations:
        if kind != "LIST" or len(annotations) > 1 or annotations[0] not in _SETS:
            raise IonError(f"a {kind.lower()} has the annotation {', '.join(map(str, annotations))}")
        return _set(value, _SETS[annotations[0]])
    match kind:
        case "STRING":
            return {"S": str(value)}
        case "DECIMAL" | "INT":
            return {"N": str(Decimal(value))}
        case "BLOB":
            return {"B": b64encode(bytes(value)).decode()}
        case "BOOL":
            return {"BOOL": bool(value)}
        case "NULL":
            return {"NULL": True}
        case "LIST":
            return {"L": [_value(element) for element in value]}
        case "STRUCT":
            return {"M": read_item(value)}
    raise IonError(f"items have no values of the type {kind.lower()}")


def _set(elements: Any, tag: str) -> Value:
    values = [_value(element) for element in elements]
    if any(tag not in value for value in values):
        raise IonError(f"an element of $dynamodb_{tag}S has another type")
    return {f"{tag}S": [value[tag] for value in values]}
