"""The syntax of durations in flags and in triggers."""

from decimal import Decimal

import pytest

from foldb.model.durations import duration, milliseconds, seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("0s", 0),
        ("200ms", 200),
        ("1.5s", 1500),
        ("5m", 300_000),
        ("4h", 14_400_000),
        ("7d", 604_800_000),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, expected: int) -> None:
    assert expected == milliseconds(text)
    assert Decimal(expected) / 1000 == seconds(text)


@pytest.mark.parametrize("text", ["", "10", "-5", "-5s", "5 s", "1w", "s", "٣s", "1e3s", "9999999999s"])
def test_other_texts_are_refused_with_the_syntax(text: str) -> None:
    with pytest.raises(ValueError, match="write a number and a unit, like 200ms, 10s, 5m, 4h or 7d"):
        milliseconds(text)


def test_a_fraction_of_a_millisecond_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`1\.5ms` has a fraction of a millisecond"):
        milliseconds("1.5ms")


@pytest.mark.parametrize("text", ["0s", "1ms", "90s", "5m", "24h", "1500ms"])
def test_a_shown_duration_reads_back(text: str) -> None:
    assert text == duration(milliseconds(text))
