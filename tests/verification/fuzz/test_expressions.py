"""Random expressions of all five kinds: each is refused with a ValidationError, or read and evaluated.

How long one may take is counted in lines of Python. A failing expression is in the message; its seed is in the name.
FOLDB_SOAK=1 makes a million of them.
"""

import os
import random
from collections import Counter

import pytest

from foldb import expressions
from tests.unit.expressions.printing import ROOMY, printed
from tests.verification import reliability
from tests.verification.fuzz.any_expression import Expressions
from tests.verification.fuzz.of_expressions import substitutions, try_expression
from tests.verification.fuzz.steps import bounded

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []
SEEDS = range(20 if SOAK else 2)
TEXTS = 50_000 if SOAK else 5_000

# Lines that an expression and its evaluation on a small item may execute: a constant, and a number a character.
STEPS, STEPS_EACH = 4000, 120


@pytest.mark.guarantee("G48", "SEC15")
@pytest.mark.parametrize("seed", SEEDS)
def test_any_expression_is_refused_in_words_or_evaluated(seed: int) -> None:
    drawn = Expressions(random.Random(seed))
    counts: Counter[str] = Counter()
    for _ in range(TEXTS):
        kind, text = drawn.one()
        try:
            plan, _ = bounded(STEPS + STEPS_EACH * len(text), try_expression, kind, text, drawn.item())
        except BaseException as error:
            error.add_note(f"{kind}: {text!r}")
            raise
        counts[f"{kind} {'refused' if plan is None else 'evaluated'}"] += 1
    reliability.record(test="random expressions", seeds=str(seed), checked=TEXTS, faults=counts)

    assert all(count > TEXTS / 50 for count in counts.values()), counts


@pytest.mark.parametrize("seed", SEEDS)
def test_a_printed_condition_parses_to_the_same_tree(seed: int) -> None:
    drawn = Expressions(random.Random(seed))
    read = 0
    for _ in range(TEXTS // 10):
        plan = try_expression("condition", drawn.condition())
        if plan is None or plan.condition is None:
            continue
        text = printed(plan.condition.tree)
        again = expressions.compile(condition=text, values=substitutions(text)[1], limits=ROOMY).condition
        assert again is not None
        assert plan.condition.tree == again.tree, text
        read += 1
    assert read > TEXTS / 100
