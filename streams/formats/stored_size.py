r"""How large an item is, from the bytes that it is kept as.

`item_size(load(data))`, for less: nearly every item has only strings and numbers, and nothing that JSON escapes. Where
there is no backslash every quotation mark is one of the JSON's own, and an attribute of a string or a number has six,

    "name":{"S":"text"}

besides 12 bytes that are not its name or text, with the comma. Any other value has marks without that pattern, so if
there are six for each time that it is met there is no other value.
"""

import re
from functools import lru_cache
from typing import Final

from ...model import numbers
from ...model.limits import MODERN
from ...model.values import item_size, load

_numbers: Final = re.compile(rb'":{"N":"([^"]*)').findall


def stored_size(data: bytes) -> int:
    """The bytes that DynamoDB counts for an item that is kept as `data`."""
    found = _numbers(data)
    scalars = data.count(b'":{"S":"') + len(found)
    if data.count(b'"') != 6 * scalars or b"\\" in data:
        return item_size(load(data), MODERN)
    return len(data) - 12 * scalars - 1 - sum(map(_saved, found))


@lru_cache(8192)
def _saved(number: bytes) -> int:
    """How many bytes less than its text a number counts; the same few numbers are in most items."""
    return len(number) - numbers.size(number.decode())
