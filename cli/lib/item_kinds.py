"""The kinds of items in a table of several kinds, by the patterns of their keys.

    pk             sk                     kind
    USER#ada       PROFILE                USER#* / PROFILE
    USER#ada       ORDER#2026-11-23#7     USER#* / ORDER#*#*

A string key is split at a separator. A part without digits at an even place, such as USER and ORDER, is a word of the
pattern, and every other part is a `*`. A key without a separator is a word too, as PROFILE, if other keys of the table
or other values of an index's attribute have one. A place with many different words has names, not kinds: it is a `*`.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import field
from decimal import Decimal
from typing import Any, Final, TypeAlias

from ...model.lazy_dataclass import dataclass
from ...model.values import Item, Value
from .output import Row

_WORD: Final = re.compile(r"[A-Za-z][A-Za-z_.-]*")
_WORDS_MAX: Final = 20
"""More words at one place of an attribute are names. Designs with one table have up to about ten kinds of items."""
_OTHER_TYPES: Final = {"N": "number", "B": "binary"}

Pattern: TypeAlias = tuple[str, ...]
"""The patterns of the attributes of a key."""


@dataclass(slots=True)
class Kind:
    """The items with one pattern of keys.

    Attributes:
        bytes: The sizes of the items, as DynamoDB counts them.
        partition_keys: The values of their partition keys, as text.
        attributes: For each attribute, the number of items that have it with each type.
        indexes: For each index, the number of items that are in it, by the pattern of their index keys.
    """

    items: int = 0
    bytes: int = 0
    partition_keys: set[str] = field(default_factory=set)
    attributes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    indexes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))


class ItemKinds:
    """Groups items by the patterns of their keys.

    Args:
        keys: The names and types of the key attributes, of the table under "" and of each index under its name.
        separator: The text between the parts of a key.
        by: An attribute whose value is the kind of an item, instead of the pattern of its key.
    """

    def __init__(self, keys: dict[str, dict[str, str]], separator: str, by: str | None = None) -> None:
        self._keys = keys
        self._separator = separator
        self._by = by
        self._items: list[tuple[Item, int]] = []

    def add(self, item: Item, size: int) -> None:
        self._items.append((item, size))

    def rows(self, partition_key: str) -> list[Row]:
        """Return one row for each kind, that with the most items first."""
        pattern_of = self._patterns()
        kinds: dict[tuple[str, Pattern], Kind] = defaultdict(Kind)
        for item, size in self._items:
            own = tuple(pattern_of(name, item[name]) for name in self._keys[""])
            kind = kinds[(self._label(item), own)]
            kind.items += 1
            kind.bytes += size
            kind.partition_keys.add(str(item[partition_key]))
            for name, value in item.items():
                kind.attributes[name].update(value.keys())
            for index, types in self._keys.items():
                if index and all(types[name] in item.get(name, ()) for name in types):
                    text = " / ".join(pattern_of(name, item[name]) for name in types)
                    kind.indexes[index][text] += 1
        ordered = sorted(kinds.items(), key=lambda each: (-each[1].items, each[0]))
        return [self._row(*key, kind) for key, kind in ordered]

    def _label(self, item: Item) -> str:
        """Return the value of the attribute that names the kind; "" without one."""
        if self._by is None:
            return ""
        value = item.get(self._by, {"S": "(none)"})
        return str(next(iter(value.values())))

    def _patterns(self) -> Callable[[str, Value], str]:
        """Return the function that returns the pattern of a value of a key attribute."""
        names = dict.fromkeys(name for types in self._keys.values() for name in types)
        texts = {
            name: [item[name]["S"] for item, _ in self._items if "S" in item.get(name, ())] for name in names
        }
        split = {name for name, each in texts.items() if any(self._separator in text for text in each)}
        if not split.isdisjoint(self._keys[""]):
            split.update(self._keys[""])
        words = {name: _words(each, self._separator) for name, each in texts.items()}

        def pattern_of(name: str, value: Value) -> str:
            text = value.get("S")
            if not isinstance(text, str):
                return _OTHER_TYPES[next(iter(value))]
            parts = text.split(self._separator)
            if name not in split:
                return "*"
            return self._separator.join(
                part if part in words[name][nth] else "*" for nth, part in enumerate(parts)
            )

        return pattern_of

    def _row(self, label: str, patterns: Pattern, kind: Kind) -> Row:
        whole = len(self._items)
        row: dict[str, Any] = {"kind": label or " / ".join(patterns)}
        row |= dict(zip(self._keys[""], patterns, strict=True)) if label else {}
        return row | {
            "items": kind.items,
            "share": _share(kind.items, whole),
            "bytes": kind.bytes,
            "average": kind.bytes // kind.items,
            "collections": len(kind.partition_keys),
            "attributes": {
                name: {"share": _share(types.total(), kind.items), "types": sorted(types)}
                for name, types in sorted(kind.attributes.items())
            },
            "indexes": {
                name: {"share": _share(found.total(), kind.items), "keys": sorted(found)}
                for name, found in sorted(kind.indexes.items())
            },
        }


def in_words(row: Row) -> Row:
    """Return the row of a kind with its attributes and indexes as text, for a terminal: `Price N 50 %, Name S`."""
    attributes = (
        f"{name} {'|'.join(each['types'])}{_percent(each['share'])}"
        for name, each in row["attributes"].items()
    )
    indexes = (
        f"{name}{_percent(each['share'])}: {', '.join(each['keys'])}" for name, each in row["indexes"].items()
    )
    return {**row, "attributes": ", ".join(attributes), "indexes": "; ".join(indexes)}


def _percent(share: Decimal) -> str:
    return "" if share == 1 else f" {share * 100:.0f} %"


def _words(texts: Iterable[str], separator: str) -> defaultdict[int, set[str]]:
    """Return the words at each even place of the values of an attribute, if they are few."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    for text in texts:
        for nth, part in enumerate(text.split(separator)):
            if nth % 2 == 0 and _WORD.fullmatch(part):
                found[nth].add(part)
    for nth, words in found.items():
        if len(words) > _WORDS_MAX:
            found[nth] = set()
    return found


def _share(part: int, whole: int) -> Decimal:
    """Return a share of the whole, with two decimals."""
    return (Decimal(part) / whole).quantize(Decimal("0.01"))
