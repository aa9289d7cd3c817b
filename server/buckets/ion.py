r"""Items in Ion text, as DynamoDB exports and imports them.

    DynamoDB     Ion
    S            string
    N            decimal             103. and 1.5 and 6d2: an integer is written without its last zeros
    B            blob                {{aGk=}}
    BOOL, NULL   bool, null
    L, M         list, struct
    SS, NS, BS   list with the annotation $dynamodb_SS, $dynamodb_NS or $dynamodb_BS

Ion text is a superset of JSON, so a string is written as in JSON. The reader takes all of Ion text except for values
that items do not have: floats, timestamps, symbols, clobs and s-expressions.
"""

import re
from typing import Any, Final, NoReturn

import orjson

from ...model.values import Item, Value

VERSION_MARKER: Final = b"$ion_1_0"

_BINARY_MARKER: Final = b"\xe0\x01\x00\xea"
_SETS: Final = {"$dynamodb_SS": "S", "$dynamodb_NS": "N", "$dynamodb_BS": "B"}
_DEPTH_MAX: Final = 40  # an item has 32 levels, and a record three around it

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

# Each pattern matches in linear time: no two of its parts begin with the same character.
_SPACE: Final = re.compile(r"(?:\s|//[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)*(?://[^\n]*)?")
_STRING: Final = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
_LONG_STRING: Final = re.compile(r"'{3}((?:[^'\\]|\\.|'(?!''))*)'{3}", re.DOTALL)
_QUOTED: Final = re.compile(r"'([^'\\]*(?:\\.[^'\\]*)*)'", re.DOTALL)
_BLOB: Final = re.compile(r"\{\{([A-Za-z0-9+/=\s]*)\}\}")
_NUMBER: Final = re.compile(r"-?[0-9][0-9A-Za-z_.:+-]*")
_DECIMAL: Final = re.compile(r"-?(?:0|[1-9](?:_?[0-9])*)(?:\.(?:[0-9](?:_?[0-9])*)?)?(?:[dD][+-]?[0-9]+)?")
_NULL: Final = re.compile(
    r"null(?:\.(?:null|bool|int|float|decimal|timestamp|symbol|string|clob|blob|list|sexp|struct))?"
    r"(?![A-Za-z0-9_$])"
)
_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(\r?\n)|(.))", re.DOTALL
)
_ESCAPED: Final = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "v": "\v", '"': '"', "'": "'",
    "?": "?", "\\": "\\", "/": "/",
}  # fmt: skip


def read(text: bytes) -> dict[str, Value]:
    """Parse a struct. Return its members as values of DynamoDB JSON, which are not checked.

    Raises:
        IonError: The text is not one struct in Ion, or has a value that items do not have.
    """
    if text.startswith(_BINARY_MARKER):
        raise IonError("this is binary Ion; only Ion text is read")
    try:
        return _Parser(text.decode()).record()
    except UnicodeDecodeError:
        raise IonError("this is not UTF-8") from None


def read_item(value: Any) -> Item:
    """Return the members of a struct.

    Raises:
        IonError: The value is not a struct.
    """
    if "M" not in value:
        raise IonError("this is not a struct")
    members: Item = value["M"]
    return members


class _Parser:
    """A parser of one record."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def record(self) -> Item:
        self._skip()
        if self._text.startswith(VERSION_MARKER.decode(), self._at):
            self._at += len(VERSION_MARKER)
        value = self._value()
        if self._at < len(self._text):
            self._fail("expected one value")
        return read_item(value)

    def _value(self) -> Value:
        """Read a value with its annotations, and the space behind it."""
        self._skip()
        annotations: list[tuple[str, bool]] = []
        while (name := self._symbol()) is not None:
            if not self._take("::"):
                return self._word(name, annotations)
            annotations.append(name)
        if annotations:
            return self._set(annotations)
        match self._text[self._at : self._at + 1]:
            case "{":
                return self._blob() if self._text.startswith("{{", self._at) else {"M": self._members()}
            case "[":
                return {"L": self._elements()}
            case '"' | "'":
                return {"S": self._string()}
        return {"N": self._number()}

    def _word(self, name: tuple[str, bool], annotations: list[tuple[str, bool]]) -> Value:
        """Return the value of a symbol that is a keyword."""
        word, is_quoted = name
        if is_quoted or annotations or word not in ("true", "false", "null"):
            self._fail(f"items have no symbols: {word}")
        return {"NULL": True} if word == "null" else {"BOOL": word == "true"}

    def _symbol(self) -> tuple[str, bool] | None:
        """Read a symbol and the space behind it. Return it, and whether it was quoted; None if none is there."""
        if match := _NULL.match(self._text, self._at):
            self._end(match)
            return "null", False
        if match := _IDENTIFIER.match(self._text, self._at):
            self._end(match)
            return match[0], False
        if not self._text.startswith("'''", self._at) and (match := _QUOTED.match(self._text, self._at)):
            self._end(match)
            return self._unescaped(match[1]), True
        return None

    def _set(self, annotations: list[tuple[str, bool]]) -> Value:
        name = annotations[0][0]
        if len(annotations) > 1 or name not in _SETS or not self._text.startswith("[", self._at):
            self._fail(f"a value has the annotation {name}")
        tag = _SETS[name]
        elements = self._elements()
        if any(tag not in element for element in elements):
            self._fail(f"an element of {name} has another type")
        return {f"{tag}S": [element[tag] for element in elements]}

    def _members(self) -> Item:
        members: Item = {}
        self._open("{")
        while not self._take("}"):
            name = self._field_name()
            if not self._take(":"):
                self._fail("expected a colon")
            members[name] = self._value()
            if not self._take(",") and not self._text.startswith("}", self._at):
                self._fail("expected a comma or a brace")
        self._depth -= 1
        return members

    def _field_name(self) -> str:
        if self._text.startswith(('"', "'''"), self._at):
            return self._string()
        symbol = self._symbol()
        if symbol is None or (not symbol[1] and _NOT_A_NAME.fullmatch(symbol[0])):
            self._fail("expected the name of a field")
        return symbol[0]

    def _elements(self) -> list[Value]:
        elements = []
        self._open("[")
        while not self._take("]"):
            elements.append(self._value())
            if not self._take(",") and not self._text.startswith("]", self._at):
                self._fail("expected a comma or a bracket")
        self._depth -= 1
        return elements

    def _string(self) -> str:
        """Read a string; long strings behind one another are one string."""
        if match := _STRING.match(self._text, self._at):
            self._end(match)
            return self._unescaped(match[1])
        parts = []
        while match := _LONG_STRING.match(self._text, self._at):
            self._end(match)
            parts.append(self._unescaped(match[1]))
        if not parts:
            self._fail("expected the end of a string")
        return "".join(parts)

    def _unescaped(self, text: str) -> str:
        if "\\" in text:
            text = _ESCAPE.sub(self._escaped, text)
            try:
                # Two escapes can be the halves of one character.
                text = text.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError:
                self._fail("half of a character is escaped")
        return text

    def _escaped(self, match: re.Match[str]) -> str:
        digits = match[1] or match[2] or match[3]
        if digits:
            code = int(digits, 16)
            return chr(code) if code <= 0x10FFFF else self._fail(f"no character has the code {digits}")
        if match[4]:
            return ""
        return _ESCAPED[match[5]] if match[5] in _ESCAPED else self._fail(f"unknown escape {match[0]}")

    def _blob(self) -> Value:
        match = _BLOB.match(self._text, self._at)
        if match is None:
            self._fail("expected base64: items have no clobs")
        self._end(match)
        return {"B": "".join(match[1].split())}

    def _number(self) -> str:
        match = _NUMBER.match(self._text, self._at)
        if match is None:
            self._fail("expected a value")
        if not _DECIMAL.fullmatch(match[0]):
            self._fail(f"items have only decimals, such as 1.5: {match[0][:40]}")
        self._end(match)
        return match[0].replace("_", "").replace("d", "E").replace("D", "E")

    def _open(self, bracket: str) -> None:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            self._fail(f"there are more than {_DEPTH_MAX} levels")
        self._take(bracket)

    def _take(self, token: str) -> bool:
        """Read a token and the space behind it, if it is there."""
        if not self._text.startswith(token, self._at):
            return False
        self._at += len(token)
        self._skip()
        return True

    def _end(self, match: re.Match[str]) -> None:
        self._at = match.end()
        self._skip()

    def _skip(self) -> None:
        """Read spaces and comments."""
        match = _SPACE.match(self._text, self._at)
        assert match is not None, "the pattern matches nothing, too"
        self._at = match.end()

    def _fail(self, reason: str) -> NoReturn:
        raise IonError(f"this is not Ion of an item: {reason} at character {self._at}")
