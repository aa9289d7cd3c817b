"""What writers of a table were told, and so what its feed must show: each change once, and no other.

    acknowledged ──► its change is in the feed, if it was one
    refused      ──► is not
    in doubt     ──► may be; nobody writes the key again, so it is the last of the key

One writer writes a key, one write at a time, so what the key went through is known without asking anybody. A write
that changes something leaves an item that no other write leaves: its *version*, a number that is given once, from which
all other attributes follow (`item_of`). So a change is known by the versions before and after it, and images are
compared whole.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any, NamedTuple

from tests.support.failing_servers import Fate

TABLE = "Audited"
GONE = 0
"""The version of an item that is not there."""

EXPIRES = "1790000000"
"""When an item of a key that `expires` has expired: a moment that has passed."""

Item = dict[str, Any]


class Step(NamedTuple):
    """A change of a key: the versions before and after."""

    old: int
    new: int


@dataclass(slots=True)
class Life:
    """What one key went through.

    Attributes:
        versions: After each change, GONE where it was deleted.
        doubt: The version that a write in doubt may have left; None where there is no doubt.
        group: Writes in doubt of the same group happened together or not at all.
        expires: The item goes by itself, after all else.
    """

    versions: list[int] = field(default_factory=list)
    doubt: int | None = None
    group: int | None = None
    expires: bool = False

    @property
    def version(self) -> int:
        """What is there now."""
        return self.versions[-1] if self.versions else GONE

    def steps(self, *, doubted: bool) -> list[Step]:
        """Its changes, with the one in doubt or without it."""
        versions = [GONE, *self.versions]
        if doubted and self.doubt is not None and self.doubt != versions[-1]:
            versions.append(self.doubt)
        if self.expires and versions[-1] != GONE:
            versions.append(GONE)
        return [Step(*pair) for pair in pairwise(versions)]


@dataclass
class Ledger:
    """What all writers know.

    Attributes:
        lives: By key. A writer touches only its own.
        additions: The fates of additions to counters that all writers share, by counter.
        answers: How many writes met which fate, and the errors by name.
    """

    lives: dict[str, Life] = field(default_factory=dict)
    additions: dict[str, Counter[Fate]] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    _versions: "count[int]" = field(default_factory=lambda: count(1))
    _groups: "count[int]" = field(default_factory=lambda: count(1))

    def version(self) -> int:
        """One that nobody had before."""
        return next(self._versions)

    def note(self, fate: Fate, after: dict[str, int], *, atomic: bool = True) -> None:
        """Write down what one write leaves in each of its keys, were it done."""
        group = next(self._groups) if atomic and len(after) > 1 else None
        for key, version in after.items():
            life = self.lives.setdefault(key, Life())
            assert life.doubt is None, "a key in doubt was written again"
            if fate == "acknowledged" and version != life.version:
                life.versions.append(version)
            elif fate == "in doubt":
                life.doubt, life.group = version, group

    def changes(self) -> int:
        """How many changes are certain."""
        return sum(len(life.versions) for life in self.lives.values())


def item_of(key: str, version: int, *, expires: bool = False) -> Item:
    """The item that a key has at a version."""
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
    """The same item to DynamoDB, in other words: to put it changes nothing."""
    item = item_of(key, version)
    item["v"] = {"N": f"{version}.0"}
    item["half"] = {"N": f"{version // 2}5e-1"} if version >= 2 else {"N": "0.50"}
    item["tags"] = {"SS": item["tags"]["SS"][::-1]}
    return dict(reversed(item.items()))


def is_counter(key: str) -> bool:
    """Whether all writers add to it."""
    return key.startswith("counter ")


def expires(key: str) -> bool:
    """Whether the key's item goes by itself."""
    return key.startswith("expires ")


def canonical(item: Item) -> Item:
    """An item as it came, with what has no order in one."""
    return {name: {"SS": sorted(value["SS"])} if "SS" in value else value for name, value in item.items()}


def version_of(item: Item | None) -> int:
    """The version of an image, which must be all that the version says."""
    if item is None:
        return GONE
    key, version = item["pk"]["S"], int(item["v"]["N"])
    if is_counter(key):
        assert {"pk": {"S": key}, "v": {"N": str(version)}} == item, "an image that no addition made"
    else:
        assert item_of(key, version, expires=expires(key)) == canonical(item), "an image that no write made"
    return version


def total(fates: Iterable[Counter[Fate]]) -> Counter[Fate]:
    """All together."""
    summed: Counter[Fate] = Counter()
    for each in fates:
        summed.update(each)
    return summed
