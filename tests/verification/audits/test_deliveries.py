"""The judge of deliveries finds every planted fault, and none in correct deliveries."""

from collections.abc import Callable

import pytest

from tests.verification.audits.deliveries import Call, judge_calls
from tests.verification.audits.judge import Seen

TRUTH = {
    "0001": [Seen(10, "a", 0, 1), Seen(11, "b", 0, 2), Seen(12, "a", 1, 3), Seen(13, "a", 3, 0)],
    "0002": [Seen(10, "c", 0, 4), Seen(12, "c", 4, 5)],
}
# After five calls another process continues after number 11 of the first partition, and before all of the second.
CHECKPOINTS = [(5, {1: 11})]
CALLS = [
    Call(501, 10, "a", False),
    Call(501, 10, "a", True),
    Call(501, 11, "b", True),
    Call(501, 10, "c", True),
    Call(501, 12, "a", True),
    Call(502, 10, "c", True),
    Call(502, 12, "a", True),
    Call(502, 12, "c", True),
    Call(502, 13, "a", True),
]


def without(*numbers: int) -> list[Call]:
    return [call for place, call in enumerate(CALLS) if place not in numbers]


FAULTS: dict[str, tuple[str, Callable[[], list[Call]]]] = {
    "a change is never handled": ("lost", lambda: without(8)),
    "one is tried and never done": ("lost", lambda: [*without(8), Call(502, 13, "a", False)]),
    "one that nobody made": ("stranger", lambda: [*CALLS, Call(502, 99, "a", True)]),
    "one comes before the one it follows": ("reorder", lambda: [*without(5), CALLS[5]]),
    "one is done twice by a process": ("reorder", lambda: [*CALLS, Call(502, 13, "a", True)]),
    "an earlier one comes again in a process": ("reorder", lambda: [*CALLS, Call(502, 12, "a", True)]),
    "the checkpoint is forgotten": ("repeated", lambda: [*CALLS[:5], Call(502, 10, "a", True), *CALLS[5:]]),
}


def test_correct_deliveries_have_no_findings() -> None:
    found = judge_calls(CALLS, TRUTH, CHECKPOINTS)

    assert {} == found.counts, found


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    kind, planted = FAULTS[fault]
    # The sixth call, in a log where key c is at 12 only, comes too early.
    calls = (
        [call for call in planted() if call != Call(501, 10, "c", True)] if "before" in fault else planted()
    )
    found = judge_calls(calls, TRUTH, CHECKPOINTS)

    assert found.counts[kind], found


def test_changes_after_a_dead_letter_of_their_key_are_dead() -> None:
    """A dead letter of number 12 of key c affects no other key."""
    truth = {"0001": TRUTH["0001"]}
    calls = [Call(501, 11, "b", True), Call(501, 10, "a", False)]
    found = judge_calls(calls, truth, CHECKPOINTS, dead_letters=[("a", 10), ("a", 12), ("a", 13)])
    assert {} == found.counts, found

    behind = [*calls, Call(501, 12, "a", True)]
    assert judge_calls(behind, truth, CHECKPOINTS, dead_letters=[("a", 10), ("a", 13)]).counts["skipped"]
    assert judge_calls(calls, truth, CHECKPOINTS, dead_letters=[("a", 10), ("a", 12)]).counts["lost"]
    assert judge_calls(CALLS, TRUTH, CHECKPOINTS, dead_letters=[("a", 13)]).counts["stranger"]
