"""The judge of feeds finds every planted fault, and none in a correct feed.

A checker that cannot fail proves nothing: each kind of fault is planted in a correct feed at a place that a seed
chooses.
"""

import random
from collections import Counter
from collections.abc import Callable
from itertools import count, pairwise

import pytest

from tests.support.failing_servers import Fate
from tests.verification.audits.judge import Seen, Shards, judge, pieces_not_of
from tests.verification.audits.ledger import EXPIRES, GONE, Ledger, Life, item_of, same_item_of, version_of

SEEDS = range(8)
Fault = Callable[[random.Random, Shards, Ledger], None]


def true_feed(dice: random.Random) -> tuple[Shards, Ledger]:
    """Return a ledger of some writers, and the feed of a correct database in three shards."""
    ledger, changes = Ledger(), []
    numbers = count(1000, 7)
    for _ in range(300):
        key = f"key {dice.randrange(20)}"
        life = ledger.lives.setdefault(key, Life())
        before, after = life.version, dice.choice([GONE, life.version, ledger.version(), ledger.version()])
        if dice.random() < 0.9:
            ledger.note("acknowledged", {key: after})
            if before != after:
                changes.append(Seen(next(numbers), key, before, after))
    for n in range(4):
        pair = {f"doubt {n} {side}": ledger.version() for side in "lr"}
        ledger.note("in doubt", pair)
        if n % 2:
            changes += [Seen(next(numbers), key, GONE, version) for key, version in pair.items()]
        ledger.lives[f"expires {n}"] = Life(expires=True)
        ledger.note("acknowledged", {f"expires {n}": (version := ledger.version())})
        changes.append(Seen(next(numbers), f"expires {n}", GONE, version))
        changes.append(Seen(next(numbers), f"expires {n}", version, GONE, expired=True))
    ledger.additions["counter 0"] = dice.choice(
        [_fates(acknowledged=5), _fates(acknowledged=4, doubt=3), _fates(acknowledged=5, doubt=1)]
    )
    changes += [Seen(next(numbers), "counter 0", n, n + 1) for n in range(5)]
    cuts = [0, *sorted(dice.sample(range(1, len(changes)), 2)), len(changes)]
    return {f"shard {n}": changes[a:b] for n, (a, b) in enumerate(pairwise(cuts))}, ledger


def _fates(acknowledged: int, doubt: int = 0) -> Counter[Fate]:
    return Counter({"acknowledged": acknowledged, "in doubt": doubt})


def certain(shards: Shards, dice: random.Random) -> tuple[list[Seen], int]:
    """Choose a certain change. Return the changes of its shard, and its index."""
    places = [
        (changes, place)
        for changes in shards.values()
        for place, change in enumerate(changes)
        if change.key.startswith("key ")
    ]
    return dice.choice(places)


def one_is_missing(dice: random.Random, shards: Shards, _: Ledger) -> None:
    changes, place = certain(shards, dice)
    del changes[place]


def one_is_there_twice(dice: random.Random, shards: Shards, _: Ledger) -> None:
    changes, place = certain(shards, dice)
    changes.insert(place, changes[place])


def one_comes_again_at_the_end(dice: random.Random, shards: Shards, _: Ledger) -> None:
    """Repeat a change with another sequence number, as a faulty refold would."""
    changes, place = certain(shards, dice)
    last = list(shards.values())[-1]
    last.append(changes[place]._replace(number=last[-1].number + 1))


def two_of_a_key_change_places(dice: random.Random, shards: Shards, _: Ledger) -> None:
    """Swap two changes of a key, but not their sequence numbers: only the key shows it."""
    flat = [(changes, place) for changes in shards.values() for place in range(len(changes))]
    for (one, first), (two, second) in dice.sample(
        [(a, b) for at, a in enumerate(flat) for b in flat[at + 1 :]], len(flat)
    ):
        before, after = one[first], two[second]
        if before.key == after.key and before.key.startswith("key "):
            one[first] = after._replace(number=before.number)
            two[second] = before._replace(number=after.number)
            return


def an_old_image_is_older(dice: random.Random, shards: Shards, ledger: Ledger) -> None:
    changes, place = certain(shards, dice)
    changes[place] = changes[place]._replace(old=ledger.version())


def a_refused_write_is_there(dice: random.Random, shards: Shards, ledger: Ledger) -> None:
    changes, place = certain(shards, dice)
    changes.insert(place + 1, changes[place]._replace(old=changes[place].new, new=ledger.version()))


def a_write_that_changed_nothing_is_there(dice: random.Random, shards: Shards, _: Ledger) -> None:
    changes, place = certain(shards, dice)
    changes.insert(place + 1, changes[place]._replace(old=changes[place].new))


def a_number_falls(dice: random.Random, shards: Shards, _: Ledger) -> None:
    changes = max(shards.values(), key=len)
    place = dice.randrange(1, len(changes))
    changes[place] = changes[place]._replace(number=changes[place - 1].number)


def half_a_transaction_is_there(dice: random.Random, shards: Shards, _: Ledger) -> None:
    for changes in shards.values():
        for place, change in enumerate(changes):
            if change.key.startswith("doubt"):
                del changes[place]
                return


def an_addition_is_missing(dice: random.Random, shards: Shards, ledger: Ledger) -> None:
    ledger.additions["counter 0"] = _fates(acknowledged=6)


def an_addition_was_made_twice(dice: random.Random, shards: Shards, ledger: Ledger) -> None:
    ledger.additions["counter 0"] = _fates(acknowledged=4)


def an_expiry_looks_like_a_delete(dice: random.Random, shards: Shards, _: Ledger) -> None:
    for changes in shards.values():
        changes[:] = [change._replace(expired=False) for change in changes]


def another_runs_key_is_there(dice: random.Random, shards: Shards, ledger: Ledger) -> None:
    last = list(shards.values())[-1]
    last.append(Seen(last[-1].number + 1, "alien", GONE, ledger.version()))


FAULTS: dict[Fault, str] = {
    one_is_missing: "gap",
    one_is_there_twice: "duplicate",
    one_comes_again_at_the_end: "duplicate",
    two_of_a_key_change_places: "reorder",
    an_old_image_is_older: "break",
    a_refused_write_is_there: "stranger",
    a_write_that_changed_nothing_is_there: "stranger",
    a_number_falls: "fall",
    half_a_transaction_is_there: "half",
    an_addition_is_missing: "gap",
    an_addition_was_made_twice: "stranger",
    an_expiry_looks_like_a_delete: "stranger",
    another_runs_key_is_there: "stranger",
}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_correct_feed_has_no_findings(seed: int) -> None:
    found = judge(*true_feed(random.Random(seed)))

    assert {} == found.counts, found


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found_by_its_kind(fault: Fault, seed: int) -> None:
    dice = random.Random(seed)
    shards, ledger = true_feed(dice)
    fault(dice, shards, ledger)
    found = judge(shards, ledger)

    assert found.counts[FAULTS[fault]], found


def test_an_image_with_any_difference_is_refused() -> None:
    item = item_of("k", 17)

    assert 17 == version_of(item)
    assert GONE == version_of(None)
    for name in item.keys() - {"pk"}:
        with pytest.raises((AssertionError, KeyError)):
            version_of({key: value for key, value in item.items() if key != name})
    with pytest.raises(AssertionError):
        version_of(item | {"exp": {"N": EXPIRES}})
    assert same_item_of("k", 17) != item


def test_a_piece_of_a_shard_is_contiguous() -> None:
    changes = [Seen(n, "k", n, n + 1) for n in range(1, 9)]
    whole = {"shard": changes}

    assert [] == list(pieces_not_of(whole, [("shard", changes[2:5]), ("shard", []), ("shard", changes)]))
    for wrong in (changes[2:4] + changes[5:], changes[3:1:-1], [changes[0]._replace(new=7)]):
        assert list(pieces_not_of(whole, [("shard", wrong)]))
    assert list(pieces_not_of(whole, [("other", changes[:1])]))
