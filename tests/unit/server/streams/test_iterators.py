"""Iterators as text: ours come back as they were, and nothing else is taken for one."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldb.model.errors import ExpiredIteratorError, ValidationError
from foldb.server.api.operations.streams.iterators import LIFE_MS, ShardIterator, read, write

LOG = bytes(range(16))
ARN = "arn:aws:dynamodb:us-east-1:000000000000:table/Cars/stream/2026-11-21T10:00:00.123"


@given(
    st.builds(
        ShardIterator,
        arn=st.just(ARN),
        partition=st.integers(0, 4096),
        nth=st.integers(0, 1 << 40),
        after=st.integers(0, 10**40),
        horizon=st.booleans(),
    )
)
def test_a_written_iterator_parses_to_itself(iterator: ShardIterator) -> None:
    text = write(iterator, LOG, now_ms=1000)

    assert iterator == read(text, LOG, now_ms=1000 + LIFE_MS)
    assert len(text) <= 2048


def test_it_is_good_for_a_quarter_of_an_hour() -> None:
    text = write(ShardIterator(ARN, 0, 0, 7), LOG, now_ms=1000)

    with pytest.raises(ExpiredIteratorError):
        read(text, LOG, now_ms=1001 + LIFE_MS)


def test_another_log_has_other_iterators() -> None:
    text = write(ShardIterator(ARN, 0, 0, 7), LOG, now_ms=0)

    with pytest.raises(ValidationError, match="Invalid ShardIterator"):
        read(text, bytes(16), now_ms=0)


@pytest.mark.parametrize("seed", range(20))
def test_one_that_was_changed_anywhere_is_refused(seed: int) -> None:
    dice = random.Random(seed)
    text = write(ShardIterator(ARN, 3, 2, 10**26), LOG, now_ms=0)
    place = dice.randrange(len(text))
    others = [chr(code) for code in range(33, 127) if chr(code) not in (text[place], "=")]
    changed = text[:place] + dice.choice(others) + text[place + 1 :]

    with pytest.raises(ValidationError, match="Invalid ShardIterator"):
        read(changed, LOG, now_ms=0)


@given(st.text(max_size=300))
def test_any_other_text_is_refused(text: str) -> None:
    for each in (text, f"{ARN}|1|{text}"):
        with pytest.raises(ValidationError, match="Invalid ShardIterator"):
            read(each, LOG, now_ms=0)
