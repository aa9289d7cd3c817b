"""Avro's binary encoding of its own types: what the log's bytes are made of.

    long     zigzag, then seven bits a byte, the lowest first
    sized    long(length), then so many bytes: bytes, or a string in UTF-8
    optional 00, or 02 and the value
    array    long(count), so many elements, 00

A function that reads takes the bytes and where to begin, and returns what it read and where that ended. Bytes that are
nothing of the kind raise IndexError or ValueError, or end in the wrong place.
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


SMALL: Final = tuple(_zigzag(number) for number in range(8192))


def long(number: int) -> bytes:
    """An int or a long.

    >>> long(-1), long(64)
    (b'\\x01', b'\\x80\\x01')
    """
    return SMALL[number] if 0 <= number < 8192 else _zigzag(number)


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """An int or a long."""
    number = data[at]
    at += 1
    if number >= 0x80:
        number, at = read_more(data, at, number)
    return (number >> 1) ^ -(number & 1), at


def read_more(data: bytes, at: int, number: int) -> tuple[int, int]:
    """Go on with a number whose first byte says that there are more; the zigzag is left to the caller."""
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
    """Bytes, or a string in UTF-8."""
    return long(len(data)) + data


def read_sized(data: bytes, at: int) -> tuple[bytes, int]:
    """Bytes. Too few of them are found by whoever compares the end."""
    size = data[at]
    at += 1
    if size >= 0x80:
        size, at = read_more(data, at, size)
    end = at + (size >> 1)
    return data[at:end], end


def skip_sized(data: bytes, at: int) -> int:
    """Where bytes, or a string, end."""
    size = data[at]
    at += 1
    if size >= 0x80:
        size, at = read_more(data, at, size)
    return at + (size >> 1)


def text(string: str) -> bytes:
    """A string."""
    return sized(string.encode())


def read_text(data: bytes, at: int) -> tuple[str, int]:
    """A string."""
    encoded, at = read_sized(data, at)
    return encoded.decode(), at


def boolean(flag: bool) -> bytes:
    """A boolean."""
    return b"\x01" if flag else b"\0"


def read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    """A boolean."""
    flag = data[at]
    if flag > 1:
        raise ValueError(f"no boolean is {flag}")
    return flag == 1, at + 1


def read_symbol(data: bytes, at: int, symbols: Sequence[T]) -> tuple[T, int]:
    """An enum, as one of its symbols."""
    place, at = read_long(data, at)
    if place < 0:
        raise ValueError("no symbol has a negative number")
    return symbols[place], at


def optional(data: bytes | None) -> bytes:
    """Bytes, or none."""
    return b"\0" if data is None else b"\x02" + sized(data)


def optional_text(string: str | None) -> bytes:
    """A string, or none."""
    if string is None:
        return b"\0"
    data = string.encode()
    return b"\x02%b%b" % (long(len(data)), data)


def read_optional(data: bytes, at: int, read: Callable[[bytes, int], tuple[T, int]]) -> tuple[T | None, int]:
    """What `read` reads, or none."""
    branch = data[at]
    if branch == 0:
        return None, at + 1
    if branch != 2:
        raise ValueError(f"no branch {branch >> 1} of two")
    return read(data, at + 1)


def array(parts: Sequence[bytes]) -> bytes:
    """An array, or a map, of what is encoded already."""
    return b"".join((long(len(parts)), *parts, b"\0")) if parts else b"\0"


def read_count(data: bytes, at: int) -> tuple[int, int]:
    """How many follow in an array or a map; Avro may say with a minus sign that their size follows too."""
    count, at = read_long(data, at)
    if count < 0:
        _, at = read_long(data, at)
    return abs(count), at


def read_array(data: bytes, at: int, read: Callable[[bytes, int], tuple[T, int]]) -> tuple[list[T], int]:
    """An array of what `read` reads."""
    found: list[T] = []
    count, at = read_count(data, at)
    while count:
        for _ in range(count):
            each, at = read(data, at)
            found.append(each)
        count, at = read_count(data, at)
    return found, at


def read_union_array(
    data: bytes, at: int, readers: Sequence[Callable[[bytes, int], tuple[T, int]]]
) -> tuple[list[T], int]:
    """An array of a union of records, each read by its branch's reader."""
    found: list[T] = []
    count, at = read_count(data, at)
    while count:
        for _ in range(count):
            branch, at = read_long(data, at)
            if branch < 0:
                raise ValueError("no branch has a negative number")
            each, at = readers[branch](data, at)
            found.append(each)
        count, at = read_count(data, at)
    return found, at


def text_map(members: Mapping[str, str]) -> bytes:
    """A map of strings."""
    return array([text(name) + text(value) for name, value in members.items()])


def read_text_map(data: bytes, at: int) -> tuple[dict[str, str], int]:
    """A map of strings."""
    members: dict[str, str] = {}
    count, at = read_count(data, at)
    while count:
        for _ in range(count):
            name, at = read_text(data, at)
            members[name], at = read_text(data, at)
        count, at = read_count(data, at)
    return members, at
