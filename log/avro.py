"""Avro's binary encoding of its primitive types, arrays and maps.

    long     zigzag, then seven bits a byte, the lowest first
    sized    long(length), then `length` bytes: bytes, or a string in UTF-8
    optional 00, or 02 and the value
    array    long(count), `count` elements, 00

A reader takes the bytes and a start index, and returns the value and the index after it. For invalid bytes it raises
IndexError or ValueError, or returns an index past the end, which the caller detects.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

T = TypeVar("T")


def _zigzag(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


# The numbers of one byte and of two, which `_zigzag` would make in four times the time.
SMALL: Final = (
    *(bytes((number << 1,)) for number in range(64)),
    *(bytes((low | 0x80, high)) for high in range(1, 128) for low in range(0, 128, 2)),
)


def long(number: int) -> bytes:
    """Encode an int or a long.

    >>> long(-1), long(64)
    (b'\\x01', b'\\x80\\x01')
    """
    return SMALL[number] if 0 <= number < 8192 else _zigzag(number)


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Decode an int or a long."""
    number = data[at]
    at += 1
    if number >= 0x80:
        number, at = read_more(data, at, number)
    return (number >> 1) ^ -(number & 1), at


def read_more(data: bytes, at: int, number: int) -> tuple[int, int]:
    """Decode the remaining bytes of a long of several bytes, without undoing the zigzag."""
    byte = data[at]
    number = number & 0x7F | (byte & 0x7F) << 7
    at += 1
    if byte < 0x80:
        return number, at
    for shift in range(14, 70, 7):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80 and not number >> 64:
            return number, at
    raise ValueError("a long has at most 64 bits")


def sized(data: bytes) -> bytes:
    """Encode bytes, or a string in UTF-8."""
    return long(len(data)) + data


def read_sized(data: bytes, at: int) -> tuple[bytes, int]:
    """Decode bytes. If the data is too short, the returned index is past its end."""
    size = data[at]
    at += 1
    if size >= 0x80:
        size, at = read_more(data, at, size)
    end = at + (size >> 1)
    return data[at:end], end


def skip_sized(data: bytes, at: int) -> int:
    """Return the index after bytes or a string."""
    size = data[at]
    at += 1
    if size >= 0x80:
        size, at = read_more(data, at, size)
    return at + (size >> 1)


def text(string: str) -> bytes:
    """Encode a string."""
    return sized(string.encode())


def read_text(data: bytes, at: int) -> tuple[str, int]:
    """Decode a string."""
    encoded, at = read_sized(data, at)
    return encoded.decode(), at


def boolean(flag: bool) -> bytes:
    """Encode a boolean."""
    return b"\x01" if flag else b"\0"


def read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    """Decode a boolean."""
    flag = data[at]
    if flag > 1:
        raise ValueError(f"a boolean is 0 or 1, not {flag}")
    return flag == 1, at + 1


def read_symbol(data: bytes, at: int, symbols: Sequence[T]) -> tuple[T, int]:
    """Decode an enum as one of its symbols."""
    index, at = read_long(data, at)
    if index < 0:
        raise ValueError("the index of a symbol cannot be negative")
    return symbols[index], at


def optional(data: bytes | None) -> bytes:
    """Encode bytes or None."""
    return b"\0" if data is None else b"\x02" + sized(data)


def optional_text(string: str | None) -> bytes:
    """Encode a string or None."""
    if string is None:
        return b"\0"
    data = string.encode()
    return b"\x02%b%b" % (long(len(data)), data)


def read_optional(data: bytes, at: int, read: Callable[[bytes, int], tuple[T, int]]) -> tuple[T | None, int]:
    """Decode a value by `read`, or None."""
    branch = data[at]
    if branch == 0:
        return None, at + 1
    if branch != 2:
        raise ValueError(f"a union of two has no branch {branch >> 1}")
    return read(data, at + 1)


def array(parts: Sequence[bytes]) -> bytes:
    """Encode an array or a map of elements that are encoded already."""
    return b"".join((long(len(parts)), *parts, b"\0")) if parts else b"\0"


def read_count(data: bytes, at: int) -> tuple[int, int]:
    """Decode the count of a block of an array or a map. A negative count is followed by the block's size."""
    count, at = read_long(data, at)
    if count < 0:
        _, at = read_long(data, at)
    return abs(count), at


def read_array(data: bytes, at: int, read: Callable[[bytes, int], tuple[T, int]]) -> tuple[list[T], int]:
    """Decode an array whose elements `read` decodes."""
    elements: list[T] = []
    count, at = read_count(data, at)
    while count:
        for _ in range(count):
            element, at = read(data, at)
            elements.append(element)
        count, at = read_count(data, at)
    return elements, at


def read_union_array(
    data: bytes, at: int, readers: Sequence[Callable[[bytes, int], tuple[T, int]]]
) -> tuple[list[T], int]:
    """Decode an array of a union of records, each by its branch's reader."""
    records: list[T] = []
    count, at = read_count(data, at)
    while count:
        for _ in range(count):
            branch, at = read_long(data, at)
            if branch < 0:
                raise ValueError("the index of a branch cannot be negative")
            record, at = readers[branch](data, at)
            records.append(record)
        count, at = read_count(data, at)
    return records, at


def text_map(members: Mapping[str, str]) -> bytes:
    """Encode a map of strings."""
    return array([text(name) + text(value) for name, value in members.items()])


def read_text_map(data: bytes, at: int) -> tuple[dict[str, str], int]:
    """Decode a map of strings."""
    members: dict[str, str] = {}
    count, at = read_count(data, at)
    while count:
        for _ in range(count):
            name, at = read_text(data, at)
            members[name], at = read_text(data, at)
        count, at = read_count(data, at)
    return members, at
