"""The syntax of cuts in the names of tables."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldb.model.cuts import (
    Ago,
    AtPositions,
    AtTime,
    NamedCut,
    NamedPosition,
    cut_text,
    parse_cut,
    split_name,
    time_text,
)

LAST_MS = 253_402_300_799_999  # the end of the year 9999

indexes = st.none() | st.integers(0, 99_999)
offsets = st.integers(0, 10**18 - 1)
vectors = st.lists(
    st.builds(NamedPosition, st.integers(0, 9999), offsets, indexes),
    min_size=2,
    max_size=5,
    unique_by=lambda position: position.partition,
).map(lambda positions: AtPositions(tuple(sorted(positions, key=lambda one: one.partition or 0))))
cuts = (
    st.builds(
        lambda position: AtPositions((position,)),
        st.builds(NamedPosition, st.none() | st.integers(0, 9999), offsets, indexes),
    )
    | vectors
    | st.builds(AtTime, st.integers(0, LAST_MS))
    | st.builds(Ago, st.integers(0, 10**9))
)


@given(cuts)
def test_the_text_of_a_cut_reads_back(cut: NamedCut) -> None:
    assert cut == parse_cut(cut_text(cut))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10482", AtPositions((NamedPosition(None, 10482),))),
        ("10482.3", AtPositions((NamedPosition(None, 10482, 3),))),
        ("2:10482.3", AtPositions((NamedPosition(2, 10482, 3),))),
        ("2:9,1:7", AtPositions((NamedPosition(1, 7), NamedPosition(2, 9)))),
        ("1970-01-01T00:00Z", AtTime(0)),
        ("2026-11-20T12:00:00Z", AtTime(1_795_176_000_000)),
        ("2026-11-20T12:00:00.5Z", AtTime(1_795_176_000_500)),
        ("-1h", Ago(3_600_000)),
        ("-0", Ago(0)),
    ],
)
def test_a_cut_is_a_position_a_time_or_an_age(text: str, expected: NamedCut) -> None:
    assert expected == parse_cut(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1.",
        "1:",
        ":1",
        "1:2:3",
        "1,2",
        "1:7,1:9",
        "1:7,9",
        "1:7,",
        " 1",
        "1\n",
        "٣",
        "+1",
        "-1",
        "--1h",
        "-1h\n",
        "-0.5ms",
        "9" * 19,
        "12345:1",
        "1@2",
        "2026-11-20",
        "2026-11-20T12:00:00",
        "2026-11-20T12:00:00+01:00",
        "2026-11-20T12:00:00.0000Z",
        "2026-13-20T12:00:00Z",
        "2026-02-30T12:00:00Z",
        "2026-11-20T24:00:00Z",
        "2026-11-20t12:00:00z",
        "1969-12-31T23:59:59Z",
        "0000-01-01T00:00:00Z",
        "T",
        "T" * 100_000,
        "1," * 100_000,
        ",".join(f"{partition}:1" for partition in range(5000)),
    ],
)
def test_other_texts_are_refused_with_the_forms_of_a_cut(text: str) -> None:
    with pytest.raises(ValueError, match="is not a cut: write a position") as refusal:
        parse_cut(text)
    assert len(str(refusal.value)) < 300


@given(st.text(alphabet="0123456789:.,-TZ@hms ", max_size=30))
def test_any_text_is_a_cut_or_refused(text: str) -> None:
    with suppress(ValueError):
        cut = parse_cut(text)
        assert cut == parse_cut(cut_text(cut))


def test_a_name_is_split_at_its_first_separator() -> None:
    arn = "arn:aws:dynamodb:us-east-1:000000000000:table/Orders"
    assert ("Orders", "10482.3") == split_name("Orders@10482.3")
    assert (arn, "-1h") == split_name(f"{arn}@-1h")
    assert ("Orders", None) == split_name("Orders")
    assert ("Orders", "") == split_name("Orders@")
    assert ("Orders", "1@2") == split_name("Orders@1@2")


def test_a_time_is_shown_with_milliseconds() -> None:
    assert "1970-01-01T00:00:00.007Z" == time_text(7)
