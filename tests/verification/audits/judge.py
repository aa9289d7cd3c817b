"""Whether a feed is the one that a ledger tells of.

    gap          a change that was acknowledged and is not there
    duplicate    one that is there twice
    reorder      two of a key in another order than they happened
    break        an old image that is not the new image before it
    stranger     one that nobody made: a refused write's, or of a write that changed nothing
    fall         a sequence number that is not above the one before it, in its shard or of its key
    half         some of a transaction's changes, and not the others

A finding is said in words with the key and the number, so that whoever sees one can look it up in the log.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from tests.verification.audits.ledger import GONE, Ledger, Life, Step, is_counter

_SAID = 5  # of each kind


class Seen(NamedTuple):
    """A change as a reader saw it: its number, its key, the versions before and after, and whether it expired."""

    number: int
    key: str
    old: int
    new: int
    expired: bool = False

    @property
    def step(self) -> Step:
        """What it did to its key."""
        return Step(self.old, self.new)


Shards = dict[str, list[Seen]]
"""What a reader saw of each shard, shards in the order in which it read them."""


@dataclass
class Findings:
    """What is wrong, by kind."""

    counts: Counter[str] = field(default_factory=Counter)
    said: list[str] = field(default_factory=list)

    def add(self, kind: str, what: str) -> None:
        """One more."""
        self.counts[kind] += 1
        if self.counts[kind] <= _SAID:
            self.said.append(f"{kind}: {what}")

    def __str__(self) -> str:
        return "\n".join([str(dict(self.counts)), *self.said])


def judge(shards: Shards, ledger: Ledger) -> Findings:
    """Compare what a reader saw from beginning to end with what writers were told."""
    found = Findings()
    for shard, changes in shards.items():
        for before, after in pairwise(changes):
            if after.number <= before.number:
                found.add("fall", f"{shard}: {after} follows {before}")
    by_key: dict[str, list[Seen]] = defaultdict(list)
    for changes in shards.values():
        for change in changes:
            by_key[change.key].append(change)
    for key, changes in by_key.items():
        _judge_numbers(changes, found)
        if is_counter(key):
            _judge_counter(key, changes, ledger, found)
        elif key not in ledger.lives:
            found.add("stranger", f"{changes[0]}: nobody wrote this key")
    for key, life in ledger.lives.items():
        _judge_life(key, life, by_key.get(key, []), found)
    for counter, fates in ledger.additions.items():
        if fates["acknowledged"] and counter not in by_key:
            found.add("gap", f"{counter}: nothing of {fates}")
    _judge_groups(ledger, by_key, found)
    return found


def _judge_numbers(changes: list[Seen], found: Findings) -> None:
    """Numbers rise in the life of a key, from shard to shard too; each old image is the new one before it."""
    version = GONE
    for place, change in enumerate(changes):
        if place and change.number <= changes[place - 1].number:
            found.add("fall", f"{change} follows {changes[place - 1]}")
        if change.old != version:
            found.add("break", f"{change}: the image before it is {version}")
        version = change.new


def _judge_counter(key: str, changes: list[Seen], ledger: Ledger, found: Findings) -> None:
    """Each addition adds one; as many as were acknowledged, and at most as many more as are in doubt."""
    fates = ledger.additions.get(key, Counter())
    for step, times in Counter(change.step for change in changes).items():
        if times > 1:
            found.add("duplicate", f"{key}: {step}, {times} times")
        if step.new != step.old + 1:
            found.add("stranger", f"{key}: {step}")
    if len(changes) < fates["acknowledged"]:
        found.add("gap", f"{key}: {len(changes)} additions of {dict(fates)}")
    if len(changes) > fates["acknowledged"] + fates["in doubt"]:
        found.add("stranger", f"{key}: {len(changes)} additions of {dict(fates)}")


def _judge_life(key: str, life: Life, changes: list[Seen], found: Findings) -> None:
    """What a key went through is what is there, each step once and in order."""
    certain = life.steps(doubted=False)
    steps = [change.step for change in changes]
    if steps == certain or (life.doubt is not None and steps == life.steps(doubted=True)):
        _judge_expiry(life, changes, found)
        return
    expected = life.steps(doubted=_happened(life, steps))
    places = {step: place for place, step in enumerate(expected)}
    times = Counter(steps)
    for step in expected:
        if step not in times:
            found.add("gap", f"{key}: {step} of {len(expected)} changes")
    for step, count in times.items():
        if step not in places:
            found.add("stranger", f"{key}: {step}")
        elif count > 1:
            found.add("duplicate", f"{key}: {step}, {count} times")
    for before, after in pairwise(places[step] for step in dict.fromkeys(steps) if step in places):
        if after < before:
            found.add("reorder", f"{key}: {expected[before]} before {expected[after]}")


def _judge_expiry(life: Life, changes: list[Seen], found: Findings) -> None:
    """What went by itself says so, and nothing else does."""
    for place, change in enumerate(changes):
        if change.expired != (life.expires and place == len(changes) - 1 and change.new == GONE):
            found.add("stranger", f"{change}: who did it is told wrong")


def _happened(life: Life, steps: Iterable[Step]) -> bool:
    """Whether a write in doubt was done: its change is there."""
    if life.doubt is None:
        return False
    return (set(life.steps(doubted=True)) - set(life.steps(doubted=False))) <= set(steps)


def _judge_groups(ledger: Ledger, by_key: dict[str, list[Seen]], found: Findings) -> None:
    """Of a transaction in doubt all is there or nothing."""
    groups: dict[int, set[bool]] = defaultdict(set)
    for key, life in ledger.lives.items():
        if life.group is not None and life.doubt != life.version:
            groups[life.group].add(_happened(life, [change.step for change in by_key.get(key, [])]))
    for group, done in groups.items():
        if len(done) > 1:
            found.add("half", f"transaction {group}")


def pieces_not_of(whole: Shards, pieces: Iterable[tuple[str, list[Seen]]]) -> Iterator[str]:
    """Pieces of shards that are not, as they are, a stretch of what another reader saw of the whole."""
    places = {
        shard: {change.number: place for place, change in enumerate(changes)}
        for shard, changes in whole.items()
    }
    for shard, piece in pieces:
        if not piece:
            continue
        first = places.get(shard, {}).get(piece[0].number)
        if first is None or whole[shard][first : first + len(piece)] != piece:
            yield f"{shard}: {len(piece)} changes from {piece[0]} on"
