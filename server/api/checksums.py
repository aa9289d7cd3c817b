"""CRC-32 of a text from the sums of its parts, so that a part of many answers is summed once.

    sum of A ──► times x to the power of 8 * len(B) ──► plus the sum of B ──► sum of A B

A sum is a polynomial over GF(2), modulo that of CRC-32. Bit 31 of its number is the coefficient of x^0. Addition is
XOR. zlib has the same function, which Python does not have.
"""

from functools import lru_cache
from typing import Final
from zlib import crc32

_POLYNOMIAL: Final = 0xEDB88320
_ONE: Final = 1 << 31
_X_8: Final = 1 << 23  # for one byte


class SummedText:
    """A part of answers, which is summed at its first use."""

    __slots__ = ("_factor", "_sum", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._sum = self._factor = 0

    def sum_after(self, before: int) -> int:
        """Return the sum of a text and this part; `before` is the sum of the text."""
        if not self._factor:  # which is never 0
            self._sum = crc32(self.data)
            size = len(self.data)
            self._factor = _product(_power(size & ~0xFF), _power(size & 0xFF))
        return _product(before, self._factor) ^ self._sum


@lru_cache(4096)
def _power(size: int) -> int:
    """Return x to the power of 8 * size. Parts of less than 128 KB need fewer powers than the cache holds."""
    if size < 2:
        return _X_8 if size else _ONE
    half = _power(size >> 1)
    square = _product(half, half)
    return _product(square, _X_8) if size & 1 else square


def _product(one: int, other: int) -> int:
    product, bit = 0, _ONE
    while one:
        if one & bit:
            product ^= other
            one ^= bit
        bit >>= 1
        other = other >> 1 ^ _POLYNOMIAL if other & 1 else other >> 1
    return product
