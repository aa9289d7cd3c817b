"""Items in plain JSON, as the command line reads and prints them.

    DynamoDB JSON                    plain JSON
    {"S": "text"}                    "text"
    {"N": "1.50"}                    1.5            every digit is kept: numbers are Decimals, never floats
    {"B": "aGk="}                    "b64:aGk="
    {"SS": ["a", "b"]}               {"$set": ["a", "b"]}      NS and BS too, by the type of the elements
    {"BOOL": true}, {"NULL": true}   true, null
    {"L": [...]}, {"M": {...}}       [...], {...}

Every item has a plain form, and the conversion back returns the same item. Two values are escaped: a string that
begins with `b64:` is written `str:b64:...`, and a map whose only member is `$set` or `$map` is written
`{"$map": {...}}`.
"""

import base64
import binascii
import json
import re
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import orjson
import typer

from ...model.values import Item, Value
from .errors import CommandError, ExitCode

Plain: TypeAlias = Any  # str | Decimal | bool | None | list[Plain] | dict[str, Plain]

_BINARY = "b64:"
_NEEDS_ESCAPE = re.compile(r"(str:)*b64:")
_SETS = ("$set", "$map")


def plain(value: Value) -> Plain:
    """Return the plain form of an attribute value.

    >>> plain({"M": {"n": {"N": "0.10"}, "s": {"SS": ["a"]}}})
    {'n': Decimal('0.10'), 's': {'$set': ['a']}}
    """
    [(kind, content)] = value.items()
    match kind:
        case "S":
            return f"str:{content}" if _NEEDS_ESCAPE.match(content) else content
        case "N":
            return Decimal(content)
        case "B":
            return _BINARY + content
        case "BOOL":
            return content
        case "NULL":
            return None
        case "L":
            return [plain(element) for element in content]
        case "M":
            members = plain_item(content)
            return {"$map": members} if _needs_escape(members) else members
        case "SS" | "NS" | "BS":
            return {"$set": [plain({kind[0]: element}) for element in content]}
    raise AssertionError(f"no attribute type {kind}")


def plain_item(item: Item) -> dict[str, Plain]:
    """Return the plain form of an item. Its top level needs no escape."""
    return {name: plain(value) for name, value in item.items()}


def typed(value: Plain) -> Value:
    """Return the attribute value of a plain form.

    >>> typed({"$set": [Decimal(1), Decimal("2.5")]})
    {'NS': ['1', '2.5']}
    """
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case Decimal():
            return {"N": number_text(value)}
        case str():
            return _typed_string(value)
        case list():
            return {"L": [typed(element) for element in value]}
        case {"$set": list(elements)} if len(value) == 1:
            return _typed_set(elements)
        case {"$map": dict(members)} if len(value) == 1:
            return {"M": typed_item(members)}
        case dict():
            return {"M": typed_item(value)}
    raise AssertionError(f"not JSON: {value!r}")


def typed_item(item: dict[str, Plain]) -> Item:
    return {name: typed(value) for name, value in item.items()}


def _needs_escape(members: dict[str, Plain]) -> bool:
    return len(members) == 1 and next(iter(members)) in _SETS


def _typed_string(text: str) -> Value:
    if text.startswith(_BINARY):
        return {"B": _base64(text.removeprefix(_BINARY))}
    return {"S": text.removeprefix("str:") if _NEEDS_ESCAPE.match(text) else text}


def _base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        _refuse(f"`{_BINARY}{text}` is not base64; write a string with this prefix as `str:{_BINARY}...`")
    return text


def _typed_set(elements: list[Plain]) -> Value:
    values = [typed(element) for element in elements]
    kinds = {kind for value in values for kind in value}
    if len(kinds) != 1 or not kinds <= {"S", "N", "B"}:
        _refuse(
            'a set has strings, numbers or binaries of one type, and is never empty: {"$set": ["a", "b"]}'
        )
    [kind] = kinds
    return {f"{kind}S": [value[kind] for value in values]}


def read_json(text: str | bytes, name: str) -> Any:
    """Parse JSON with every digit of its numbers.

    Raises:
        CommandError: `text` is not JSON. The error calls it `name`.
    """
    try:
        return json.loads(text, parse_float=Decimal, parse_int=Decimal, parse_constant=_no_constant)
    except RecursionError:
        _refuse(f"{name} is nested too deeply")
    except InvalidOperation:
        _refuse(f"{name} has a number with too large an exponent")
    except ValueError as error:
        _refuse(f"{name} is not JSON: {error}")


def read_item(text: str | bytes, name: str, *, is_typed: bool) -> Item:
    """Parse an item, plain or in DynamoDB JSON. The errors are those of `read_json` and `item_of`."""
    return item_of(read_json(text, name), name, is_typed=is_typed)


def item_of(value: Any, name: str, *, is_typed: bool) -> Item:
    """Return the item of parsed JSON, plain or in DynamoDB JSON.

    Raises:
        CommandError: `value` is not an object, or has an invalid set or binary. The error calls it `name`.
    """
    if not isinstance(value, dict):
        _refuse(f"{name} is not an item: write a JSON object such as '{{\"id\": 1}}'")
    try:
        return value if is_typed else typed_item(value)
    except CommandError as error:
        _refuse(f"{name}: {error.sentence}")


def read_text(path: str, next_step: str = "") -> str:
    """Return the text of a file, or of stdin for `-`.

    Raises:
        CommandError: The file cannot be read, or is not UTF-8. The error ends with `next_step`.
    """
    if path == "-" and sys.stdin is None:
        _refuse("there is no stdin to read")
    try:
        return (sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()).decode()
    except OSError as error:
        _refuse(f"cannot read {path}: {error.strerror}{next_step}")
    except UnicodeDecodeError:
        _refuse(f"{path} is not UTF-8{next_step}")


def read_folder(text: str) -> Path:
    """Return the path of an existing folder, for a flag.

    Raises:
        typer.BadParameter: `text` is not a folder.
    """
    path = Path(text)
    if text and path.is_file():
        raise typer.BadParameter(f"{text} is a file: give the folder that it is in")
    if not text or not path.is_dir():
        raise typer.BadParameter(f"there is no folder {text!r}")
    return path


def read_lines(source: str) -> Iterator[str]:
    """Yield the lines of a file, or of stdin if `source` is `-`.

    Raises:
        CommandError: The file cannot be read, or a line is not UTF-8.
    """
    if source == "-" and sys.stdin is None:
        _refuse("there is no stdin to read")
    try:
        # Bytes, because the locale would decide how stdin is decoded.
        with nullcontext(sys.stdin.buffer) if source == "-" else Path(source).open("rb") as lines:
            for line_number, line in enumerate(lines, start=1):
                yield _utf8(line, line_name(source, line_number))
    except OSError as error:
        _refuse(f"cannot read {source}: {error.strerror}")


def line_name(source: str, line_number: int) -> str:
    """Return the name of a line of a file, or of stdin if `source` is `-`, for an error."""
    return f"{'stdin' if source == '-' else source} line {line_number}"


def _utf8(line: bytes, name: str) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        _refuse(f"{name} is not UTF-8")


def write_json(value: Any, *, indent: bool = False) -> str:
    """Return JSON text with every digit of its numbers.

    >>> write_json({"n": Decimal("0.1000000000000000000000000000000000001")})
    '{"n":0.1000000000000000000000000000000000001}'
    """
    option = orjson.OPT_INDENT_2 if indent else None
    return orjson.dumps(value, default=_number, option=option).decode()


def number_text(number: Decimal) -> str:
    """Return the digits of a number, with an exponent if the number is very large or small."""
    return f"{number:f}" if -20 < number.adjusted() < 40 else str(number)


def _number(value: object) -> orjson.Fragment:
    if isinstance(value, Decimal):
        return orjson.Fragment(number_text(value))
    raise TypeError(f"not JSON: {value!r}")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _refuse(sentence: str) -> NoReturn:
    raise CommandError(sentence, ExitCode.USAGE)
