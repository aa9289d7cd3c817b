"""Numbers, against Python's decimal and against tables."""

import time
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foldb.model import numbers
from foldb.model.errors import ValidationError

# Wide enough to hold every sum exactly; the judge must not round either.
EXACT = Context(prec=1000, Emax=MAX_EMAX, Emin=MIN_EMIN)

LARGEST = "9.9999999999999999999999999999999999999E+125"
SMALLEST = "1E-130"


@st.composite
def decimals(draw: st.DrawFn) -> Decimal:
    """A number that DynamoDB takes, of any length and magnitude."""
    digits = draw(st.text("0123456789", min_size=1, max_size=38)).lstrip("0")
    if not digits:
        return Decimal(0)
    magnitude = draw(st.one_of(st.integers(-130, 125), st.integers(-3, 40)))
    sign = draw(st.sampled_from(["", "-"]))
    return Decimal(f"{sign}{digits}E{magnitude - len(digits) + 1}")


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Any of the many ways to write one."""
    number = draw(decimals())
    text = draw(st.sampled_from([str(number), f"{number:e}", f"{number:f}", f"{number:E}"]))
    if draw(st.booleans()) and text[0] != "-":
        text = "+" + text
    return text


canonicals = texts().map(numbers.canonical)


def value(text: str) -> Decimal:
    return EXACT.create_decimal(text)


def in_range(number: Decimal) -> bool:
    return not number or (
        -130 <= number.adjusted() <= 125 and len(number.normalize(EXACT).as_tuple().digits) <= 38
    )


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("-0", "0"),
        ("-0.00", "0"),
        ("0e125", "0"),
        ("0e-130", "0"),
        ("000.000e7", "0"),
        ("00042", "42"),
        ("+1", "1"),
        ("1.0", "1"),
        ("3.1400", "3.14"),
        ("1.5E2", "150"),
        ("1e+5", "100000"),
        ("12e-3", "0.012"),
        (".5", "0.5"),
        ("5.", "5"),
        ("-2", "-2"),
        ("1E0000000000000000002", "100"),
        ("1" + "0" * 125, "1" + "0" * 125),
        (LARGEST, "9" * 38 + "0" * 88),
        (SMALLEST, "0." + "0" * 129 + "1"),
        ("1.0000000000000000000000000000000000000000000000000", "1"),
    ],
)
def test_the_canonical_text_has_no_exponent_or_extra_zeros(text: str, canonical: str) -> None:
    assert numbers.canonical(text) == canonical


@given(texts())
def test_the_canonical_text_is_the_same_number(text: str) -> None:
    assert value(numbers.canonical(text)) == value(text)


@given(texts(), texts())
def test_equal_numbers_have_equal_texts_and_only_they(a: str, b: str) -> None:
    assert (numbers.canonical(a) == numbers.canonical(b)) == (value(a) == value(b))


@given(canonicals)
def test_a_short_canonical_text_is_returned_as_the_same_object(text: str) -> None:
    assert numbers.canonical(text) == text
    if len(text) <= 38:
        assert numbers.canonical(text) is text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The parameter cannot be converted to a numeric value: "),
        *(
            (text, f"The parameter cannot be converted to a numeric value: {text}")
            for text in [
                *("abc", " 1", "1 ", "--1", "-", "+", ".", "-.", "e", "1e", "e1", "1e+", "1e1e1", "1e1.5"),
                *(
                    "1,5",
                    "1_0",
                    "0x1",
                    "NaN",
                    "Infinity",
                    "-Infinity",
                    "1.2.3",
                    "1\n",
                    "1\0",
                    "\uff11",
                    "1\uff12",
                ),
                *("\u00b2", "\u0663", "1e\u0663", "1E9223372036854775808", "1E99999999999999999999"),
            ]
        ),
        ("1E126", numbers.OVERFLOW),
        ("-1E126", numbers.OVERFLOW),
        ("1" + "0" * 126, numbers.OVERFLOW),
        ("1E9223372036854775807", numbers.OVERFLOW),
        ("0e126", numbers.OVERFLOW),
        ("0e-131", numbers.UNDERFLOW),
        ("1E-9223372036854775808", numbers.UNDERFLOW),
        ("1E-131", numbers.UNDERFLOW),
        ("-1E-131", numbers.UNDERFLOW),
        ("0." + "0" * 130 + "1", numbers.UNDERFLOW),
        ("1" * 39, numbers.TOO_PRECISE),
        ("1." + "0" * 37 + "1", numbers.TOO_PRECISE),
        ("-0." + "1" * 39, numbers.TOO_PRECISE),
    ],
)
def test_an_invalid_number_is_refused_with_dynamodbs_text(text: str, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        numbers.canonical(text)

    assert caught.value.message == message


@given(st.text("0123456789+-.eE \u0663\uff11_", max_size=50))
@example("1E126")
@example("1E-131")
@example("0.00E125")
@example("0E126")
@example("0E-131")
def test_a_text_is_taken_exactly_when_it_is_a_decimal_in_range(text: str) -> None:
    try:
        numbers.canonical(text)
        taken = True
    except ValidationError:
        taken = False
    allowed = text.isascii() and "_" not in text and text == text.strip()
    try:
        number = Decimal(text)
        exponent_of_zero = 0 if number else int(text.lower().partition("e")[2] or "0")
        expected = allowed and in_range(number) and -130 <= exponent_of_zero <= 125
    except ArithmeticError:
        expected = False

    assert taken == expected


@pytest.mark.parametrize(
    "text",
    ["1" * 1_000_000, "0" * 1_000_000 + "x", "1e" + "0" * 1_000_000 + "x", "." * 1_000_000, "1E-9999999999"],
    ids=["digits", "zeros", "exponent", "points", "power"],
)
def test_a_hostile_number_is_refused_in_linear_time(text: str) -> None:
    start = time.process_time()
    with pytest.raises(ValidationError):
        numbers.canonical(text)

    assert time.process_time() - start < 1


@given(canonicals, canonicals)
@example("1" + "0" * 125, numbers.canonical(SMALLEST))
@example("9" * 38, "1")
@example("9" * 38 + "0" * 88, "9" * 38 + "0" * 88)
@example("5", "-5")
def test_a_sum_is_exact_or_refused(a: str, b: str) -> None:
    check_exact_or_refused(numbers.add, a, b, EXACT.add(value(a), value(b)))


@given(canonicals, canonicals)
@example("0.1", "0.1")
@example("1", numbers.canonical(SMALLEST))
@example(numbers.canonical("1.5E-130"), numbers.canonical("1E-130"))
def test_a_difference_is_exact_or_refused(a: str, b: str) -> None:
    check_exact_or_refused(numbers.subtract, a, b, EXACT.subtract(value(a), value(b)))


def check_exact_or_refused(operation, a: str, b: str, exact: Decimal) -> None:  # type: ignore[no-untyped-def]
    if in_range(exact):
        result = operation(a, b)
        assert value(result) == exact
        assert numbers.canonical(result) == result
    else:
        with pytest.raises(ValidationError):
            operation(a, b)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ("9" * 38 + "0" * 88, "9" * 38 + "0" * 88, numbers.OVERFLOW),
        ("1" + "0" * 38, "1", numbers.TOO_PRECISE),
        (numbers.canonical("1.5E-130"), numbers.canonical("-1E-130"), numbers.UNDERFLOW),
    ],
)
def test_a_sum_out_of_range_is_refused_in_dynamodbs_words(a: str, b: str, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        numbers.add(a, b)

    assert caught.value.message == message


@given(canonicals, canonicals)
def test_comparing_and_key_bytes_follow_the_value(a: str, b: str) -> None:
    expected = (value(a) > value(b)) - (value(a) < value(b))
    left, right = numbers.encode(a), numbers.encode(b)

    assert numbers.compare(a, b) == expected
    assert (left > right) - (left < right) == expected


@given(canonicals)
def test_key_bytes_give_the_number_back_and_are_short(text: str) -> None:
    assert numbers.decode(numbers.encode(text)) == text
    assert len(numbers.encode(text)) <= 22


def test_neighbours_at_every_magnitude_sort_by_value() -> None:
    """Each power of ten, the numbers just around it, and their opposites: 4,096 in all."""
    around = [
        f"{digits}E{exponent}"
        for exponent in range(-130, 126)
        for digits in ("1", "1.0000000000000000000000000000000000001", "1.01", "1.1", "5", "9.9", "9.99", "9")
    ]
    positive = sorted((numbers.canonical(text) for text in around), key=value)
    ordered = [f"-{text}" for text in reversed(positive)] + ["0"] + positive

    assert sorted(ordered, key=numbers.encode) == ordered


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("0", "80"),
        ("1", "c1 01"),
        ("150", "c2 01 50"),
        ("-1.5", "3e 98 49 ff"),
        ("1E-130", "80 01"),
        ("9E125", "ff 90"),
        ("-9E125", "00 09 ff"),
    ],
)
def test_key_bytes_are_those_in_every_log_ever_written(text: str, data: str) -> None:
    assert numbers.encode(numbers.canonical(text)).hex(" ") == data


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *[
            ("0", 1),
            ("1", 2),
            ("10", 2),
            ("12", 2),
            ("123", 3),
            ("1234", 3),
            ("12345", 4),
            ("-1", 3),
            ("-10", 3),
        ],
        *[("100", 2), ("300", 2), ("1200", 2), ("1005", 3), ("10500", 3), ("101000", 3), ("1E100", 2)],
        *[("0.1", 2), ("0.001", 2), ("0.12", 2), ("0.0012", 2), ("0.123", 3), ("1E-130", 2)],
        *[("1.5", 3), ("-1.5", 4), ("10.5", 3), ("100.25", 4), ("1234.5", 4), ("123.456", 5)],
        *[("1" * 38, 20), ("-" + "1" * 38, 21), (LARGEST, 20)],
    ],
)
def test_a_number_costs_a_byte_for_two_digits_on_each_side(text: str, size: int) -> None:
    assert numbers.size(numbers.canonical(text)) == size


@given(canonicals)
def test_size_agrees_with_the_published_rule(text: str) -> None:
    """
    The rule read off the digits of the decimal: one, half the digits before the point and half
    of those after it, rounded up, and one for a minus; outer zeros are free.
    """
    sign, digits, exponent = value(text).normalize(EXACT).as_tuple()
    assert isinstance(exponent, int)
    before = min(max(len(digits) + min(exponent, 0), 0), len(digits)) if digits != (0,) else 0
    after = len(digits) - before if digits != (0,) else 0

    assert numbers.size(text) == 1 + (before + 1) // 2 + (after + 1) // 2 + sign


@pytest.mark.parametrize(
    ("text", "older"),
    [
        ("1e2147483647", numbers.UNDERFLOW),
        ("1e2147483646", numbers.OVERFLOW),
        ("0.1e2147483647", numbers.OVERFLOW),
        ("1e2147483648", f"{numbers.NOT_NUMERIC}: 1e2147483648"),
    ],
)
def test_the_older_text_has_an_exponent_that_wraps_around(text: str, older: str) -> None:
    with pytest.raises(ValidationError) as caught:
        numbers.canonical(text)

    assert [numbers.OVERFLOW, older] == [caught.value.message, caught.value.older]
