r"""The size of an item, from its stored bytes.

The result equals `item_size(load(data))` and costs less: nearly every item has only strings and numbers, and nothing
that JSON escapes. Without a backslash every quotation mark belongs to JSON, and a string or number attribute has six,

    "name":{"S":"text"}

and 12 bytes, with the comma, in addition to its name and text. Every other value has quotation marks without that
pattern. So if the number of marks is six times the number of matches, the item has no other value.
"""

import re
from functools import lru_cache
from typing import Final

from ...model import numbers
from ...model.limits import MODERN
from ...model.values import item_size, load

_numbers: Final = re.compile(rb'":{"N":"([^"]*)').findall


def stored_size(data: bytes) -> int:
    """Return the bytes that DynamoDB counts for an item with these stored bytes."""
    numbers_found = _numbers(data)
    scalars = data.count(b'":{"S":"') + len(numbers_found)
    if data.count(b'"') != 6 * scalars or b"\\" in data:
        return item_size(load(data), MODERN)
    return len(data) - 12 * scalars - 1 - sum(map(_saved, numbers_found))


@lru_cache(8192)
def _saved(number: bytes) -> int:
    """Return by how many bytes a number's text exceeds its size. Most items repeat a few numbers, hence the cache."""
    return len(number) - numbers.size(number.decode())
