"""Keys on the command line: `foldb item get Music Kyuss 'Space Cadet'`.

The table defines the type of each key attribute, so a bare word is enough. A key may also be JSON:
'{"Artist": "Kyuss", "Song": "Space Cadet"}'.
"""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from ...model.lazy_dataclass import dataclass
from ...model.values import Item, Value
from .errors import CommandError, ExitCode
from .values import Plain, read_item, typed


@dataclass(frozen=True, slots=True)
class KeyArguments:
    """The result of DescribeTable, to read keys with."""

    description: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.description["TableName"])

    @property
    def indexes(self) -> list[dict[str, Any]]:
        """Return all indexes, local ones first."""
        return [
            *self.description.get("LocalSecondaryIndexes", ()),
            *self.description.get("GlobalSecondaryIndexes", ()),
        ]

    def key_names(self, index: str | None = None, role: str | None = None) -> list[str]:
        """Return the key attributes of the table or an index, of both roles or of HASH or RANGE."""
        schema = self.description["KeySchema"] if index is None else self._index(index)["KeySchema"]
        return [part["AttributeName"] for part in schema if role in (None, part["KeyType"])]

    def columns(self, index: str | None = None) -> list[str]:
        """Return the first columns of a printed table: the keys of the index, then those of the table."""
        return list(dict.fromkeys([*self.key_names(index), *self.key_names()]))

    def read_key(self, words: Sequence[str], *, is_typed: bool) -> Item:
        """Return the Key of a request from words of the command line.

        Raises:
            CommandError: The words are not a key of the table.
        """
        if len(words) == 1 and words[0].lstrip().startswith("{"):
            return read_item(words[0], "the key", is_typed=is_typed)
        names = self.key_names()
        if len(words) != len(names):
            raise CommandError(f"the key of {self.name} is {' and '.join(names)}", ExitCode.USAGE)
        return {name: self.value(name, word) for name, word in zip(names, words, strict=True)}

    def value(self, name: str, word: str) -> Value:
        """Return the value of a key attribute from one word, by its declared type."""
        return typed(self.plain(name, word))

    def plain(self, name: str, word: str) -> Plain:
        """Return the value of a key attribute from one word, in plain form."""
        match self._types().get(name):
            case "N":
                return _number(name, word)
            case "B":
                return f"b64:{word.removeprefix('b64:')}"
        return f"str:{word}" if word.startswith(("b64:", "str:b64:")) else word

    def _index(self, name: str) -> dict[str, Any]:
        for index in self.indexes:
            if index["IndexName"] == name:
                return index
        known = ", ".join(index["IndexName"] for index in self.indexes) or "none"
        raise CommandError(f"{self.name} has no index {name}; its indexes: {known}", ExitCode.NOT_FOUND)

    def _types(self) -> dict[str, str]:
        return {
            part["AttributeName"]: part["AttributeType"] for part in self.description["AttributeDefinitions"]
        }


def _number(name: str, word: str) -> Decimal:
    try:
        number = Decimal(word)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise CommandError(f"{name} is a number, but `{word}` is not", ExitCode.USAGE)
    return number
