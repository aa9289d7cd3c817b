"""Sequence numbers: the order of the changes of one partition.

    100000000000001048200030007
    └──────┬──────────┘└─┬┘└─┬┘
    10^18 + offset     index  nth      offset of the entry, index of the command in it, nth change of the command

A change has the same sequence number on every refold. Its text is the decimal digits. JSON carries text, because its
readers keep fewer digits. The widths are visible in every feed: 10^18 entries, 10^4 commands an entry, 10^4 changes a
command.

The type is an alias of int. The fold makes a number for every command, and the feed compares and adds them: a
subclass of int was measured to cost 125 ns a number, a NewType 60 ns.
"""

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

SequenceNumber: TypeAlias = int

SequenceNumbers: TypeAlias = dict[int, SequenceNumber]
"""By partition id. Numbers of different partitions do not compare."""

_OFFSETS: Final = 10**18
_WIDTH: Final = 10**4
NEXT_COMMAND: Final = _WIDTH
"""The distance from the sequence number of a command's first change to that of the next command."""

_TEXT: Final = re.compile(r"[0-9]{1,40}")
_PARTITION_ID: Final = re.compile(r"0|[1-9][0-9]{0,4}")


def sequence_number(offset: int, index: int, nth: int) -> SequenceNumber:
    """Return the sequence number of a change.

    >>> sequence_number(10482, 3, 7)
    100000000000001048200030007
    """
    return ((_OFFSETS + offset) * _WIDTH + index) * _WIDTH + nth


def number_before(offset: int, index: int = 0) -> SequenceNumber:
    """Return the highest sequence number before a command, or before an entry.

    >>> number_before(10482)
    100000000000001048199999999
    """
    return sequence_number(offset, index, 0) - 1


def position_of(number: SequenceNumber) -> tuple[int, int]:
    """Return the offset and the index of a sequence number.

    >>> position_of(sequence_number(10482, 3, 7))
    (10482, 3)
    """
    offset, index = divmod(number // _WIDTH, _WIDTH)
    return offset - _OFFSETS, index


def first_offset_after(number: SequenceNumber) -> int:
    """Return the offset of the first entry that may have changes after a sequence number.

    It is the entry of the number itself, unless no change of it can follow.

    >>> first_offset_after(sequence_number(10482, 3, 7)), first_offset_after(number_before(10482))
    (10482, 10482)
    """
    offset, _ = position_of(number)
    return max(0, offset if number < number_before(offset + 1) else offset + 1)


def nth_of(number: SequenceNumber) -> int:
    """Return the index of a change among the changes of its command."""
    return number % _WIDTH


def last_of_command(number: SequenceNumber) -> SequenceNumber:
    """Return the highest sequence number of the same command."""
    return number - nth_of(number) + _WIDTH - 1


def parse_number(text: str) -> SequenceNumber:
    """Return the sequence number of a text.

    Raises:
        ValueError: `text` is not 1 to 40 digits.
    """
    if not _TEXT.fullmatch(text):
        raise ValueError(f"{text!r} is not a sequence number")
    return int(text)


def parse_numbers(texts: object) -> SequenceNumbers:
    """Return sequence numbers by partition id, both of which are text in JSON.

    Raises:
        ValueError: `texts` is not an object, or has a malformed partition id or sequence number.
    """
    if not isinstance(texts, dict):
        raise ValueError("sequence numbers by partition id are an object")
    numbers = {}
    for partition_id, text in texts.items():
        if not _PARTITION_ID.fullmatch(partition_id) or not isinstance(text, str):
            raise ValueError(f"{partition_id!r} is not a partition id with a sequence number as text")
        numbers[int(partition_id)] = parse_number(text)
    return numbers


def number_texts(numbers: Mapping[int, SequenceNumber]) -> dict[str, str]:
    """Return the text of sequence numbers by partition id.

    >>> number_texts({1: 7})
    {'1': '7'}
    """
    return {str(partition_id): str(number) for partition_id, number in numbers.items()}
