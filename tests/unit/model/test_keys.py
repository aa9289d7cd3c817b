"""Key bytes: their order, and the way back."""

import base64

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foldb.model import keys

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
# Few bytes and many zeros, where escaping can go wrong.
BYTES = st.lists(st.sampled_from([0x00, 0x01, 0x61, 0xFE, 0xFF]), max_size=6).map(bytes)


@given(TEXT)
def test_a_string_is_its_utf8(text: str) -> None:
    assert keys.encode({"S": text}) == text.encode()
    assert keys.decode("S", text.encode()) == {"S": text}


@given(st.binary())
def test_a_binary_is_its_own_bytes(data: bytes) -> None:
    value = {"B": base64.b64encode(data).decode()}

    assert keys.encode(value) == data
    assert keys.decode("B", data) == value


@pytest.mark.parametrize("text", ["0", "150", "-1.5"])
def test_a_number_comes_back_in_canonical_text(text: str) -> None:
    assert keys.decode("N", keys.encode({"N": text})) == {"N": text}


def test_strings_sort_by_character_code() -> None:
    """The founding documents' own two examples."""
    assert keys.encode({"S": "a"}) > keys.encode({"S": "A"})
    assert keys.encode({"S": "aa"}) > keys.encode({"S": "B"})


def test_binaries_sort_as_unsigned_bytes() -> None:
    assert keys.encode({"B": "fw=="}) < keys.encode({"B": "gA=="})


@given(st.lists(BYTES, min_size=1, max_size=4))
@example([b"\0", b"", b"\0\0"])
def test_a_composite_splits_into_its_keys(parts: list[bytes]) -> None:
    assert keys.split(b"".join(map(keys.part, parts))) == parts


@given(st.lists(BYTES, min_size=2, max_size=2), st.lists(BYTES, min_size=2, max_size=2))
@example([b"a", b"b"], [b"a\0", b""])
@example([b"a", b"\xff"], [b"ab", b""])
def test_composites_compare_like_lists_of_keys(a: list[bytes], b: list[bytes]) -> None:
    left, right = (b"".join(map(keys.part, parts)) for parts in (a, b))

    assert (left < right) == (a < b)


@given(BYTES, BYTES)
def test_no_part_is_the_beginning_of_another(a: bytes, b: bytes) -> None:
    assert a == b or not keys.part(a).startswith(keys.part(b))


def test_the_worked_example_has_the_stored_bytes() -> None:
    composite = keys.part(keys.encode({"S": "red"})) + keys.part(keys.encode({"N": "150"}))

    assert composite.hex(" ") == "72 65 64 00 00 c2 01 50 00 00"


def test_the_slot_of_a_key_never_changes() -> None:
    assert keys.key_hash(1, b"car") == 0x08B9_4A8E_C694_279C
    assert keys.slot(0xABC0_0000_0000_0001) == 0xABC


def test_the_same_key_lives_elsewhere_in_another_table() -> None:
    assert keys.key_hash(1, b"car") != keys.key_hash(2, b"car")


@given(st.binary(max_size=20))
def test_slots_are_in_the_order_of_hashes(data: bytes) -> None:
    hash_ = keys.key_hash(7, data)

    assert 0 <= hash_ < 2**64
    assert keys.slot(hash_) * 2**52 <= hash_ < (keys.slot(hash_) + 1) * 2**52
