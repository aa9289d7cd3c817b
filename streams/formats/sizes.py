r"""How large an item is, from the bytes that it is kept as.

`item_size(load(data))`, for less: nearly every item has only strings and numbers, and nothing that JSON escapes. Where
there is no backslash every quotation mark is one of the JSON's own, and an attribute of a string or a number has six,

    "name":{"S":"text"}

besides 12 bytes that are not its name or text, with the comma. Any other value has marks without that pattern, so if
there are six for each time that it is met there is no other value.
"""

from ...model import numbers
from ...model.limits import MODERN
from ...model.values import item_size, load


def stored_size(data: bytes) -> int:
    """The bytes that DynamoDB counts for an item that is kept as `data`."""
    marks = data.count(b'"')
    behind_numbers = data.split(b'":{"N":"')
    scalars = data.count(b'":{"S":"') + len(behind_numbers) - 1
    if marks != 6 * scalars or b"\\" in data:
        return item_size(load(data), MODERN)
    size = len(data) - 12 * scalars - 1
    for rest in behind_numbers[1:]:
        text = rest[: rest.index(b'"')].decode()
        size += numbers.size(text) - len(text)
    return size
