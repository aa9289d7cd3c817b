"""After any faults the feed equals the list of changes: each once, in order, with its first sequence number."""

import os
import random

import pytest

from tests.unit.streams.feed.life import Life

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.usefixtures("small"), *([pytest.mark.soak] if SOAK else [])]

SEEDS = 3000 if SOAK else 40
STEPS = 60


@pytest.mark.guarantee("G35")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_feed_equals_the_list_of_changes(seed: int) -> None:
    dice = random.Random(seed)
    life = Life(dice, retention_ms=dice.choice([3000, 20_000, 10**9]))
    names = iter(range(10**6))
    tables = [life.create(f"T{next(names)}")]

    def write() -> None:
        table = dice.choice(tables)
        keys = [dice.choice("abcd") for _ in range(dice.randrange(1, 6))]
        life.write(
            table,
            *(
                (
                    key,
                    None
                    if dice.random() < 0.2
                    else {"n": {"N": str(dice.randrange(4))}, "x": {"S": "x" * 90}},
                )
                for key in keys
            ),
        )

    def change_stream() -> None:
        table = dice.choice(tables)
        if table in life.books.labels:
            life.disable(table)
        else:
            life.now += 1
            life.enable(table)

    def make_table() -> None:
        if len(tables) < 4:
            tables.append(life.create(f"T{next(names)}", stream=dice.random() < 0.7))

    def drop_table() -> None:
        if len(tables) > 1:
            life.drop(tables.pop(dice.randrange(len(tables))))

    def pass_time() -> None:
        life.now += dice.choice([1, 300, 1000, 5000])
        life.loop.advance(dice.choice([0.001, 1, 11]))

    def work() -> None:
        # A temporarily full disk: unwritten changes stay in memory and are written later.
        if dice.random() < 0.15:
            life.disk.space = life.disk.used() + dice.randrange(2000)
        life.writing.run(dice.randrange(1, 4))
        life.disk.space = None

    often = [write] * 12 + [pass_time] * 4 + [work] * 4 + [life.check] * 2
    seldom = [change_stream, make_table, drop_table, life.snapshot, life.stop, life.kill, life.cut_power]
    seldom.append(life.trim_log)
    for _ in range(STEPS):
        dice.choice(often + seldom)()
    if dice.random() < 0.3:
        life.kill()
        life.remove_changes()
        life.kill()
    life.check()
