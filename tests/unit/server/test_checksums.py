"""The sum of a text is that of zlib, in parts or whole."""

import random
import zlib

import pytest

from foldb.server.api.checksums import SummedText


@pytest.mark.parametrize("size", [0, 1, 2, 255, 256, 257, 48 * 1024, 128 * 1024 - 1, 1_000_003])
def test_a_sum_after_another_is_that_of_the_joined_text(size: int) -> None:
    before, data = b"before", random.Random(size).randbytes(size)

    assert zlib.crc32(before + data) == SummedText(data).sum_after(zlib.crc32(before))


def test_many_parts_have_the_sum_of_their_text() -> None:
    dice = random.Random(20261127)
    parts = [dice.randbytes(dice.randrange(3_000)) for _ in range(200)]
    found = 0
    for part in parts:
        found = SummedText(part).sum_after(found)

    assert zlib.crc32(b"".join(parts)) == found
