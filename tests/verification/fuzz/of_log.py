"""Decoders of the log with arbitrary bytes."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from foldb.log.binary import LayoutError, decode, decode_first, encode, encode_first
from foldb.log.codec import CURRENT, decode_resolved, encode_entry
from foldb.log.commands import Entry
from foldb.log.local import segment
from foldb.log.local.segment import Chain, DamageError
from foldb.log.schema_files import FIRST_LAYOUT
from foldb.model.errors import NewerVersionError
from tests.unit.log.samples import one_of_each, put_entry
from tests.verification.fuzz.target import Target

T = TypeVar("T")


def judge_entry(data: bytes) -> None:
    """Our decoder and fastavro decode the same entry, and our decoder refuses only bytes that no encoder wrote.

    We read a little that fastavro refuses, such as a size below zero: the hash of a record tells that, and sooner.
    """
    _judge(data, CURRENT, decode, encode)


def judge_first_entry(data: bytes) -> None:
    """The same for the layout of schemas 001 to 003."""
    _judge(data, FIRST_LAYOUT, decode_first, encode_first)


def _judge(
    data: bytes, schema: bytes, decode: Callable[[bytes], Entry], encode: Callable[[Entry], bytes]
) -> None:
    ours = attempt(lambda body: whole(decode(body)), data)
    theirs = attempt(lambda body: decode_resolved(body, schema), data)
    if ours is None:
        assert theirs is None or data != attempt(encode, theirs)
    elif theirs is not None:
        assert ours == theirs
        assert ours == decode(encode(ours))


def whole(entry: Entry) -> Entry:
    """Some parts of an entry are read, and may be refused, only when they are looked at."""
    repr(entry)
    return entry


# The schema is parsed for the first that fastavro reads, which is no input's doing.
decode_resolved(encode_entry(put_entry(0)), CURRENT)
decode_resolved(encode_first(put_entry(0)), FIRST_LAYOUT)


def attempt(do: Callable[[Any], T], given: Any) -> T | None:
    """Return the decoder's result, or None for a refusal."""
    try:
        return do(given)
    except ValueError:
        return None


def samples() -> list[bytes]:
    """Every command by itself: together they would be longer than the fuzzer goes."""
    whole = [*one_of_each(), put_entry(0)]
    alone = [replace(entry, commands=[command]) for entry in whole for command in entry.commands]
    return [encode_entry(entry) for entry in (*alone, *whole[1:])]


def first_samples() -> list[bytes]:
    """The samples that the first layout can express."""
    found = []
    for body in samples():
        with suppress(LayoutError):
            found.append(encode_first(decode(body)))
    return found


LOG_ID = b"the log of fuzz "


def sound() -> tuple[bytes, list[int]]:
    """A segment of some blocks, and where each ends, the header first."""
    chain = Chain.start(LOG_ID, 2)
    data = segment.header(LOG_ID, CURRENT, chain)
    marker = data[-segment.HASH_BYTES :]
    ends = [len(data)]
    for number in range(6):
        body = encode_entry(put_entry(number, size=5 * number))
        # The first three are durable one by one; the others were written before the first of them was.
        unsynced = 0 if number < 3 else len(data) - ends[3]
        data += segment.block(chain, marker, number % 2, 1_700_000_000_000 + number, unsynced, body)
        ends.append(len(data))
    return data, ends


SOUND, ENDS = sound()
HEAD = segment.read_header(SOUND)


def judge_segment(data: bytes) -> None:
    """The bytes say how a sound segment is damaged. All that precedes the damage is read, and nothing behind it."""
    damaged = damage(data)
    first = next((at for at, (a, b) in enumerate(zip(SOUND, damaged, strict=False)) if a != b), None)
    first = min(len(SOUND), len(damaged)) if first is None else first
    try:
        segment.read_header(damaged)
        assert first >= HEAD.size
    except (DamageError, NewerVersionError):
        assert first < HEAD.size
        return
    whole = max(end for end in ENDS if end <= first)
    scan = segment.scan(damaged, HEAD.size, HEAD.marker, HEAD.chain)
    assert scan.end == whole
    assert scan.synced <= scan.end
    assert scan.chain.sequence == ENDS.index(whole)
    assert (scan.damage is None) == (whole == len(damaged))
    if scan.damage is not None:
        torn = segment.is_torn(damaged, scan.end, HEAD.marker, scan.chain)
        assert torn in (True, False)
        if len(damaged) == first:
            assert torn, "the end is missing, as after a crash"


def damage(data: bytes) -> bytes:
    """Decode an edit from five bytes: its kind, its position and its byte."""
    damaged = bytearray(SOUND)
    for start in range(0, len(data) - 4, 5):
        what, value = data[start] % 8, data[start + 3]
        at = int.from_bytes(data[start + 1 : start + 3], "big") % (len(damaged) + 1)
        size = data[start + 4]
        match what:
            case 0:
                damaged[at : at + 1] = bytes([value])
            case 1:
                del damaged[at:]
            case 2:
                damaged[at : at + size] = bytes(min(size, len(damaged) - at))
            case 3:
                del damaged[at : at + size]
            case 4:
                damaged[at:at] = bytes([value]) * size
            case 5:
                damaged[at:at] = damaged[at : at + size]
            case 6:
                damaged[at:at] = data[start:]
            case _:
                damaged += SOUND[ENDS[value % len(ENDS)] :]
    return bytes(damaged)


TARGETS = (
    Target("entries", judge_entry, samples()),
    Target("entries of the first layout", judge_first_entry, first_samples()),
    Target(
        "segments",
        judge_segment,
        [
            bytes([what, at >> 8, at & 255, 2, 16])
            for what in range(8)
            for at in (40, ENDS[0] + 3, ENDS[3], ENDS[4] + 9)
        ],
        steps=(60_000, 2000),
        bytes_max=60,
    ),
)
