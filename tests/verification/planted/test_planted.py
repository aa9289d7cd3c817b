"""Tests must find bugs: each planted bug must make a test fail.

`python -m tests.verification.planted` prints the test that finds each.
"""

from collections import Counter

import pytest

from tests.verification.planted.__main__ import main
from tests.verification.planted.bug import Bug
from tests.verification.planted.bugs import BUGS
from tests.verification.planted.workshop import ROOT


def name_of(bug: Bug) -> str:
    return bug.what


@pytest.mark.parametrize("bug", BUGS, ids=name_of)
def test_a_bug_can_still_be_planted(bug: Bug) -> None:
    """Its old text is in the file, and its tests exist."""
    texts = {edit.path: (ROOT / edit.path).read_text() for edit in bug.edits}
    for edit in bug.edits:
        texts[edit.path] = edit.applied(texts[edit.path])
    for path, text in texts.items():
        compile(text, path, "exec")

    for test in bug.tests:
        path, _, function = test.partition("::")
        assert f"def {function.partition('[')[0]}" in (ROOT / path).read_text()


def test_every_bug_is_another() -> None:
    assert [] == [what for what, count in Counter(bug.what for bug in BUGS).items() if count > 1]


@pytest.mark.soak
def test_every_bug_is_caught() -> None:
    assert 0 == main([])
