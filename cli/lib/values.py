"""Items as people write them: plain JSON in, plain JSON out.

    DynamoDB JSON                    plain JSON
    {"S": "text"}                    "text"
    {"N": "1.50"}                    1.5            every digit is kept: numbers are Decimals, never floats
    {"B": "aGk="}                    "b64:aGk="
    {"SS": ["a", "b"]}               {"$set": ["a", "b"]}      so are NS and BS: the elements tell
    {"BOOL": true}, {"NULL": true}   true, null
    {"L": [...]}, {"M": {...}}       [...], {...}

Every item has a plain form and comes back from it unchanged. Two things could be mistaken for
something else, and are marked: a string that itself begins with `b64:` is written `str:b64:...`,
and a map whose only member is called `$set` or `$map` is written `{"$map": {...}}`.
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
_LOOKS_MARKED = re.compile(r"(str:)*b64:")
_SETS = ("$set", "$map")


def plain(value: Value) -> Plain:
    """The plain form of one attribute value.

    >>> plain({"M": {"n": {"N": "0.10"}, "s": {"SS": ["a"]}}})
    {'n': Decimal('0.10'), 's': {'$set': ['a']}}
    """
    [(kind, content)] = value.items()
    match kind:
        case "S":
            return f"str:{content}" if _LOOKS_MARKED.match(content) else content
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
            return {"$map": members} if _is_marked(members) else members
        case "SS" | "NS" | "BS":
            return {"$set": [plain({kind[0]: element}) for element in content]}
    raise AssertionError(f"no attribute type {kind}")


def plain_item(item: Item) -> dict[str, Plain]:
    """The plain form of an item; at the top level nothing needs a mark."""
    return {name: plain(value) for name, value in item.items()}


def typed(value: Plain) -> Value:
    """The attribute value that `value` is the plain form of.

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
    """The item that `item` is the plain form of."""
    return {name: typed(value) for name, value in item.items()}


def _is_marked(members: dict[str, Plain]) -> bool:
    return len(members) == 1 and next(iter(members)) in _SETS


def _typed_string(text: str) -> Value:
    if text.startswith(_BINARY):
        return {"B": _base64(text.removeprefix(_BINARY))}
    return {"S": text.removeprefix("str:") if _LOOKS_MARKED.match(text) else text}


def _base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        _refuse(f"`{_BINARY}{text}` is not base64; a string that begins so is written `str:{_BINARY}...`")
    return text


def _typed_set(elements: list[Plain]) -> Value:
    values = [typed(element) for element in elements]
    kinds = {kind for value in values for kind in value}
    if len(kinds) != 1 or not kinds <= {"S", "N", "B"}:
        _refuse(
            'a set holds strings, numbers or binaries of one type, and is never empty: {"$set": ["a", "b"]}'
        )
    [kind] = kinds
    return {f"{kind}S": [value[kind] for value in values]}


def read_json(text: str | bytes, what: str) -> Any:
    """Parse JSON with every digit of its numbers; `what` names it for the error."""
    try:
        return json.loads(text, parse_float=Decimal, parse_int=Decimal, parse_constant=_no_constant)
    except RecursionError:
        _refuse(f"{what} is nested too deeply")
    except InvalidOperation:
        _refuse(f"{what} holds a number with too large an exponent")
    except ValueError as error:
        _refuse(f"{what} is not JSON: {error}")


def read_item(text: str | bytes, what: str, *, is_typed: bool) -> Item:
    """Parse one item, plain or in DynamoDB JSON."""
    return item_of(read_json(text, what), what, is_typed=is_typed)


def item_of(value: Any, what: str, *, is_typed: bool) -> Item:
    """Return the item that parsed JSON holds, plain or in DynamoDB JSON; `what` names it for the error.

    Raises:
        CommandError: `value` is no object, or holds a set or a binary that there cannot be.
    """
    if not isinstance(value, dict):
        _refuse(f"{what} is not an item: write a JSON object such as '{{\"id\": 1}}'")
    try:
        return value if is_typed else typed_item(value)
    except CommandError as error:
        _refuse(f"{what}: {error.sentence}")


def read_text(path: str, step: str = "") -> str:
    """What is in a file, or on stdin where it is `-`; `step` says what to do where it cannot be read.

    Raises:
        CommandError: It cannot be read, or is not UTF-8.
    """
    if path == "-" and sys.stdin is None:
        _refuse("there is no stdin to read")
    try:
        return (sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()).decode()
    except OSError as error:
        _refuse(f"cannot read {path}: {error.strerror}{step}")
    except UnicodeDecodeError:
        _refuse(f"{path} is not UTF-8{step}")


def read_folder(text: str) -> Path:
    """A folder that is there; what an option is read by.

    Raises:
        typer.BadParameter: It is not there, or no folder.
    """
    path = Path(text)
    if text and path.is_file():
        raise typer.BadParameter(f"{text} is a file: name the folder that it is in")
    if not text or not path.is_dir():
        raise typer.BadParameter(f"there is no folder {text!r}")
    return path


def read_lines(source: str) -> Iterator[str]:
    """The lines of a file, or of stdin where `source` is `-`.

    Raises:
        CommandError: It cannot be read, or a line is not UTF-8.
    """
    if source == "-" and sys.stdin is None:
        _refuse("there is no stdin to read")
    try:
        # Bytes, because how stdin decodes them is up to the locale.
        with nullcontext(sys.stdin.buffer) if source == "-" else Path(source).open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                yield _utf8(line, line_name(source, number))
    except OSError as error:
        _refuse(f"cannot read {source}: {error.strerror}")


def line_name(source: str, number: int) -> str:
    """Name a line of a file, or of stdin where `source` is `-`, for an error."""
    return f"{'stdin' if source == '-' else source} line {number}"


def _utf8(line: bytes, name: str) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        _refuse(f"{name} is not UTF-8")


def write_json(value: Any, *, indent: bool = False) -> str:
    """JSON text with every digit of its numbers.

    >>> write_json({"n": Decimal("0.1000000000000000000000000000000000001")})
    '{"n":0.1000000000000000000000000000000000001}'
    """
    option = orjson.OPT_INDENT_2 if indent else None
    return orjson.dumps(value, default=_number, option=option).decode()


def number_text(number: Decimal) -> str:
    """Written out while that is short, with an exponent beyond."""
    return f"{number:f}" if -20 < number.adjusted() < 40 else str(number)


def _number(value: object) -> orjson.Fragment:
    if isinstance(value, Decimal):
        return orjson.Fragment(number_text(value))
    raise TypeError(f"not JSON: {value!r}")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _refuse(sentence: str) -> NoReturn:
    raise CommandError(sentence, ExitCode.USAGE)
