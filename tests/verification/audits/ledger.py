"""The outcomes of a table's writes, and therefore the expected feed: each change once, and no other.

    acknowledged ──► its change is in the feed, if it had one
    refused      ──► it has no change
    in doubt     ──► it may have one; the key is not written again, so it is the last one of the key

One writer writes a key, one write at a time, so the life of the key is known without a request. A write with an effect
leaves an item that no other write leaves: its *version* is a unique number, from which all other attributes follow
(`item_of`). A change is therefore known by the versions before and after it, and whole images are compared.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any, NamedTuple

from tests.support.failing_servers import Fate

TABLE = "Audited"
GONE = 0
"""The version of a missing item."""

EXPIRES = "1790000000"
"""The expiry time of an item whose key `expires`: in the past."""

Item = dict[str, Any]


class Step(NamedTuple):
    """A change of a key: the versions before and after."""

    old: int
    new: int


@dataclass(slots=True)
class Life:
    """The life of one key.

    Attributes:
        versions: The version after each change, GONE after a delete.
        doubt: The version that a write in doubt may have left; None without one.
        group: Writes in doubt of the same group happened together or not at all.
        expires: Whether the item expires at the end.
    """

    versions: list[int] = field(default_factory=list)
    doubt: int | None = None
    group: int | None = None
    expires: bool = False

    @property
    def version(self) -> int:
        """Return the current version."""
        return self.versions[-1] if self.versions else GONE

    def steps(self, *, doubted: bool) -> list[Step]:
        """Return its changes, with or without the one in doubt."""
        versions = [GONE, *self.versions]
        if doubted and self.doubt is not None and self.doubt != versions[-1]:
            versions.append(self.doubt)
        if self.expires and versions[-1] != GONE:
            versions.append(GONE)
        return [Step(*pair) for pair in pairwise(versions)]


@dataclass
class Ledger:
    """The knowledge of all writers.

    Attributes:
        lives: By key. A writer changes only its own.
        additions: The outcomes of additions to the shared counters, by counter.
        answers: The number of writes by outcome, and the errors by name.
    """

    lives: dict[str, Life] = field(default_factory=dict)
    additions: dict[str, Counter[Fate]] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    _versions: "count[int]" = field(default_factory=lambda: count(1))
    _groups: "count[int]" = field(default_factory=lambda: count(1))

    def version(self) -> int:
        """Return a new version."""
        return next(self._versions)

    def note(self, fate: Fate, after: dict[str, int], *, atomic: bool = True) -> None:
        """Record a write's outcome, and the versions that it leaves if it happened."""
        group = next(self._groups) if atomic and len(after) > 1 else None
        for key, version in after.items():
            life = self.lives.setdefault(key, Life())
            assert life.doubt is None, "a key in doubt was written again"
            if fate == "acknowledged" and version != life.version:
                life.versions.append(version)
            elif fate == "in doubt":
                life.doubt, life.group = version, group

    def changes(self) -> int:
        """Return the number of certain changes."""
        return sum(len(life.versions) for life in self.lives.values())


def item_of(key: str, version: int, *, expires: bool = False) -> Item:
    """Return the item of a key at a version."""
    item: Item = {
        "pk": {"S": key},
        "v": {"N": str(version)},
        "name": {"S": f"name of {version}"},
        "tags": {"SS": sorted({f"a{version % 7}", f"b{version % 11}"})},
        "half": {"N": f"{version // 2}.5"},
        "nested": {"M": {"l": {"L": [{"N": str(version % 13)}, {"NULL": True}]}, "b": {"BOOL": True}}},
    }
    if expires:
        item["exp"] = {"N": EXPIRES}
    return item


def same_item_of(key: str, version: int) -> Item:
    """Return an equal item in another notation: a put of it has no effect."""
    item = item_of(key, version)
    item["v"] = {"N": f"{version}.0"}
    item["half"] = {"N": f"{version // 2}5e-1"} if version >= 2 else {"N": "0.50"}
    item["tags"] = {"SS": item["tags"]["SS"][::-1]}
    return dict(reversed(item.items()))


def is_counter(key: str) -> bool:
    """Return whether a key is a shared counter."""
    return key.startswith("counter ")


def expires(key: str) -> bool:
    """Return whether the key's item expires."""
    return key.startswith("expires ")


def canonical(item: Item) -> Item:
    """Return an item with sorted sets."""
    return {name: {"SS": sorted(value["SS"])} if "SS" in value else value for name, value in item.items()}


def version_of(item: Item | None) -> int:
    """Return the version of an image, after a check of all attributes."""
    if item is None:
        return GONE
    key, version = item["pk"]["S"], int(item["v"]["N"])
    if is_counter(key):
        assert {"pk": {"S": key}, "v": {"N": str(version)}} == item, "an image that no addition made"
    else:
        assert item_of(key, version, expires=expires(key)) == canonical(item), "an image that no write made"
    return version


def total(fates: Iterable[Counter[Fate]]) -> Counter[Fate]:
    """Return the sum of counters."""
    summed: Counter[Fate] = Counter()
    for each in fates:
        summed.update(each)
    return summed
