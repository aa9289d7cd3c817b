"""Judges whether a feed agrees with a ledger.

    gap          an acknowledged change is missing
    duplicate    a change occurs twice
    reorder      two changes of a key are in the wrong order
    break        an old image differs from the new image before it
    stranger     a change without a write: a refused write's, or that of a write without effect
    fall         a sequence number is not above the previous one, in its shard or of its key
    half         a transaction's changes are incomplete

A finding names the key and the sequence number, so that the change can be found in the log.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from tests.verification.audits.ledger import GONE, Ledger, Life, Step, is_counter

_MAX_SHOWN = 5  # of each kind


class Seen(NamedTuple):
    """A change as a reader saw it: sequence number, key, versions before and after, and whether it is an expiry."""

    number: int
    key: str
    old: int
    new: int
    expired: bool = False

    @property
    def step(self) -> Step:
        """Return the step of its key."""
        return Step(self.old, self.new)


Shards = dict[str, list[Seen]]
"""The changes of each shard that a reader saw, with the shards in reading order."""


@dataclass
class Findings:
    """The faults, by kind."""

    counts: Counter[str] = field(default_factory=Counter)
    said: list[str] = field(default_factory=list)

    def add(self, kind: str, what: str) -> None:
        """Add a finding."""
        self.counts[kind] += 1
        if self.counts[kind] <= _MAX_SHOWN:
            self.said.append(f"{kind}: {what}")

    def __str__(self) -> str:
        return "\n".join([str(dict(self.counts)), *self.said])


def judge(shards: Shards, ledger: Ledger) -> Findings:
    """Compare the changes that a reader saw from beginning to end with the writers' ledger."""
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
    """Check that numbers rise in the life of a key, across shards too, and that images form a chain."""
    version = GONE
    for place, change in enumerate(changes):
        if place and change.number <= changes[place - 1].number:
            found.add("fall", f"{change} follows {changes[place - 1]}")
        if change.old != version:
            found.add("break", f"{change}: the image before it is {version}")
        version = change.new


def _judge_counter(key: str, changes: list[Seen], ledger: Ledger, found: Findings) -> None:
    """Check that each addition adds one, and that their number agrees with the ledger."""
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
    """Check that each step of a key's life occurs once and in order."""
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
    """Check that expiries, and no other changes, are marked as expiries."""
    for place, change in enumerate(changes):
        if change.expired != (life.expires and place == len(changes) - 1 and change.new == GONE):
            found.add("stranger", f"{change}: who did it is told wrong")


def _happened(life: Life, steps: Iterable[Step]) -> bool:
    """Return whether a write in doubt happened: its change is in the feed."""
    if life.doubt is None:
        return False
    return (set(life.steps(doubted=True)) - set(life.steps(doubted=False))) <= set(steps)


def _judge_groups(ledger: Ledger, by_key: dict[str, list[Seen]], found: Findings) -> None:
    """Check that a transaction in doubt happened completely or not at all."""
    groups: dict[int, set[bool]] = defaultdict(set)
    for key, life in ledger.lives.items():
        if life.group is not None and life.doubt != life.version:
            groups[life.group].add(_happened(life, [change.step for change in by_key.get(key, [])]))
    for group, done in groups.items():
        if len(done) > 1:
            found.add("half", f"transaction {group}")


def pieces_not_of(whole: Shards, pieces: Iterable[tuple[str, list[Seen]]]) -> Iterator[str]:
    """Return the pieces that are not a contiguous part of the shards that another reader saw."""
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
