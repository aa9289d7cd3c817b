"""What a reader of the log makes of bytes that nobody wrote."""

from collections.abc import Callable
from typing import Any, TypeVar

from foldb.log.binary import decode
from foldb.log.codec import CURRENT, decode_resolved, encode_entry
from tests.log.samples import one_of_each, put_entry

from .target import Target

T = TypeVar("T")


def judge_entry(data: bytes) -> None:
    """What our decoder and fastavro both read is the same. What one of them refuses, no encoder wrote."""
    ours = attempt(decode, data)
    theirs = attempt(lambda body: decode_resolved(body, CURRENT), data)
    if ours is not None and theirs is not None:
        assert ours == theirs
        assert ours == decode(encode_entry(ours))
    else:
        for entry in (ours, theirs):
            assert entry is None or data != attempt(encode_entry, entry)


def attempt(do: Callable[[Any], T], given: Any) -> T | None:
    """What it returns, or None if it refuses."""
    try:
        return do(given)
    except ValueError:
        return None


TARGETS = (Target("entries", judge_entry, [encode_entry(entry) for entry in (*one_of_each(), put_entry(0))]),)
