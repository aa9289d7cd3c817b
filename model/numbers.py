"""Exact decimal numbers in text form.

DynamoDB's number has up to 38 significant digits and a magnitude from 1E-130 to
9.9999999999999999999999999999999999999E+125, or is zero. This module uses neither float nor `decimal`: it splits a
text into digits and an exponent, and adds integers. So no operation rounds, and none depends on a decimal context.

The canonical text of a number, which is stored, returned and compared:

    number   := "0" | "-"? magnitude
    magnitude:= integer | integer "." fraction | "0." fraction
    integer  := [1-9] [0-9]*
    fraction := [0-9]* [1-9]

It has no exponent, no leading "+", no leading or trailing zero and no negative zero, for any magnitude: DynamoDB
returns `1E3` as `1000` and `1E-130` as a fraction of 130 digits. Equal numbers have equal texts.

The key bytes of a number, which sort like the values:

    key      := zero | positive | negative
    zero     := 80
    positive := head pairs               // head = 80 + k
    negative := head pairs' FF           // head = 7F - k; pairs' = each pair p as 99 - p
    pairs    := pair+                    // two decimal digits a byte, as hexadecimal shows them

The value is 0.pairs (in base 100) times 100 ** (k - 64), with the first and the last pair not 00. For
d.ddd * 10 ** e, k = floor(e / 2) + 65: the 256 decimal exponents from -130 to 125 map to the 128 values of k, and
zero sorts below 80 followed by any byte. FF makes -1 greater than -1.5.

    0        80
    1        C1 01
    150      C2 01 50
    -1.5     3E 98 49 FF
    1E-130   80 01
    9E+125   FF 90
"""

import re
from typing import Final

from .errors import ValidationError

# Every stored key depends on these constants: never change them.
DIGITS_MAX: Final = 38
EXPONENT_MIN: Final = -130
EXPONENT_MAX: Final = 125
_ZERO: Final = b"\x80"
_END: Final = b"\xff"
_BIAS: Final = 65
_COMPLEMENT: Final = bytes((0x99 - byte) % 256 for byte in range(256))

# Linear time: the groups match disjoint characters, so the pattern never backtracks.
_SYNTAX: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?)([0-9]+))?")
# A text with a larger exponent is not a number to DynamoDB.
_WRITTEN_EXPONENT_MAX: Final = (1 << 63) - 1
_WRITTEN_EXPONENT_DIGITS_MAX: Final = len(str(_WRITTEN_EXPONENT_MAX))

_INT_MAX: Final = (1 << 31) - 1

NOT_NUMERIC: Final = "The parameter cannot be converted to a numeric value"
OVERFLOW: Final = "Number overflow. Attempting to store a number with magnitude larger than supported range"
UNDERFLOW: Final = (
    "Number underflow. Attempting to store a number with magnitude smaller than supported range"
)
TOO_PRECISE: Final = "Attempting to store more than 38 significant digits in a Number"


def canonical(text: str) -> str:
    """Return the canonical text of a number; the same object if it is canonical already.

    >>> canonical("+001.50E1")
    '15'

    Raises:
        ValidationError: The text is not a number, out of range, or has too many digits.
    """
    if text.isascii() and 0 < len(text) <= DIGITS_MAX:
        plain = text[1:] if text[0] == "-" else text
        if plain.isdigit():
            if plain[0] != "0" or text == "0":
                return text
        else:
            integer, _, fraction = plain.partition(".")
            if (
                integer.isdigit()
                and fraction.isdigit()
                and fraction[-1] != "0"
                and (integer[0] != "0" or integer == "0")
            ):
                return text
    return _canonical_slow(text)


def _canonical_slow(text: str) -> str:
    match = _SYNTAX.fullmatch(text)
    if match is None:
        raise _not_numeric(text)
    sign, integer, fraction, exponent_sign, exponent = match.groups(default="")
    exponent = exponent.lstrip("0") or "0"
    if not (integer or fraction) or len(exponent) > _WRITTEN_EXPONENT_DIGITS_MAX:
        raise _not_numeric(text)
    written = int(exponent_sign + exponent)
    if not -_WRITTEN_EXPONENT_MAX - 1 <= written <= _WRITTEN_EXPONENT_MAX:
        raise _not_numeric(text)
    digits = integer + fraction
    if not fits_32_bits(written, len(fraction)):
        raise ValidationError(OVERFLOW if written > 0 else UNDERFLOW, older=f"{NOT_NUMERIC}: {text}")
    if len(digits.lstrip("0")) - len(fraction) + written > _INT_MAX:
        # The older checks add precision and exponent in 32 bits, so the largest exponents appear as the smallest.
        raise ValidationError(OVERFLOW, older=UNDERFLOW)
    if not digits.strip("0"):
        _write(negative=False, digits="1", exponent=written)  # the range of exponents holds for zero, too
    return _write(sign == "-", digits, written - len(fraction))


def fits_32_bits(exponent: int, fraction: int) -> bool:
    """Return whether an exponent, and the scale of a number with `fraction` digits behind the point, fit 32 bits.

    DynamoDB's older checks convert no other number: Java's BigDecimal has a scale of 32 bits.
    """
    return -_INT_MAX - 1 <= exponent <= _INT_MAX and -_INT_MAX - 1 <= fraction - exponent <= _INT_MAX


def _not_numeric(text: str) -> ValidationError:
    return ValidationError(f"{NOT_NUMERIC}: {text}", older=f"{NOT_NUMERIC}: {text}" if text else NOT_NUMERIC)


def _write(negative: bool, digits: str, exponent: int) -> str:
    """Return the canonical text of digits * 10 ** exponent.

    Raises:
        ValidationError: The number is out of range, or has too many digits.
    """
    digits = digits.lstrip("0")
    if not digits:
        return "0"
    significant = digits.rstrip("0")
    exponent += len(digits) - len(significant)
    magnitude = exponent + len(significant) - 1
    if magnitude > EXPONENT_MAX:
        raise ValidationError(OVERFLOW)
    if magnitude < EXPONENT_MIN:
        raise ValidationError(UNDERFLOW)
    if len(significant) > DIGITS_MAX:
        raise ValidationError(TOO_PRECISE)
    text = _plain(significant, exponent)
    return "-" + text if negative else text


def _plain(digits: str, exponent: int) -> str:
    """Write digits * 10 ** exponent without an exponent; `digits` has no zero at either end."""
    if exponent >= 0:
        return digits + "0" * exponent
    point = len(digits) + exponent
    if point > 0:
        return f"{digits[:point]}.{digits[point:]}"
    return "0." + "0" * -point + digits


def add(a: str, b: str) -> str:
    """Return a + b exactly; both are canonical.

    Raises:
        ValidationError: The sum is out of range or needs more than 38 digits.
    """
    if len(a) < DIGITS_MAX and len(b) < DIGITS_MAX and "." not in a and "." not in b:
        return str(int(a) + int(b))
    return _sum(a, b, 1)


def subtract(a: str, b: str) -> str:
    """Return a - b exactly; both are canonical.

    Raises:
        ValidationError: The difference is out of range or needs more than 38 digits.
    """
    if len(a) < DIGITS_MAX and len(b) < DIGITS_MAX and "." not in a and "." not in b:
        return str(int(a) - int(b))
    return _sum(a, b, -1)


def _sum(a: str, b: str, sign: int) -> str:
    a_integer, _, a_fraction = a.partition(".")
    b_integer, _, b_fraction = b.partition(".")
    places = max(len(a_fraction), len(b_fraction))
    total = int(a_integer + a_fraction.ljust(places, "0")) + sign * int(
        b_integer + b_fraction.ljust(places, "0")
    )
    return _write(total < 0, str(abs(total)), -places)


def compare(a: str, b: str) -> int:
    """Return -1, 0 or 1 as a is less than, equal to or greater than b; both are canonical."""
    if a == b:
        return 0
    if a.isdigit() and b.isdigit():
        return -1 if (len(a), a) < (len(b), b) else 1
    return -1 if encode(a) < encode(b) else 1


def size(text: str) -> int:
    """Return the bytes that DynamoDB charges for a canonical number.

    The size is one byte, one for every two digits before and after the point, and one for a minus. Trailing zeros of
    an integer and leading zeros of a fraction below one are not charged.
    """
    if text.isdigit():
        return 1 + (len(text.rstrip("0")) + 1 >> 1)
    if text[0] == "-":
        return 1 + size(text[1:])
    integer, _, fraction = text.partition(".")
    if integer == "0":
        return 1 + (len(fraction.lstrip("0")) + 1 >> 1)
    return 1 + (len(integer) + 1 >> 1) + (len(fraction) + 1 >> 1)


def encode(text: str) -> bytes:
    """Return the key bytes of a canonical number."""
    if text == "0":
        return _ZERO
    negative = text[0] == "-"
    integer, _, fraction = (text[1:] if negative else text).partition(".")
    if integer == "0":
        digits = fraction.lstrip("0")
        magnitude = len(digits) - len(fraction) - 1
    else:
        digits = integer + fraction
        magnitude = len(integer) - 1
    if not magnitude & 1:
        digits = "0" + digits
    if not fraction:
        digits = digits.rstrip("0")
    if len(digits) & 1:
        digits += "0"
    k = (magnitude >> 1) + _BIAS
    pairs = bytes.fromhex(digits)
    if negative:
        return bytes((0x7F - k,)) + pairs.translate(_COMPLEMENT) + _END
    return bytes((0x80 + k,)) + pairs


def decode(data: bytes) -> str:
    """Return the canonical number of key bytes, the reverse of `encode`."""
    if data == _ZERO:
        return "0"
    head = data[0]
    negative = head < 0x80
    k = 0x7F - head if negative else head - 0x80
    pairs = (data[1:-1].translate(_COMPLEMENT) if negative else data[1:]).hex()
    # If k is the bias, the decimal point follows the first pair; each step of k moves it by two digits.
    exponent = 2 * (k - _BIAS + 1) - len(pairs)
    return _write(negative, pairs, exponent)
