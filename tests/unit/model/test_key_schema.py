"""Encoding the keys of items, and the rules for keys."""

from typing import Any

import pytest

from foldb.model import keys
from foldb.model.errors import ValidationError
from foldb.model.key_schema import KeyAttribute, KeySchema
from foldb.model.limits import MODERN

MUSIC = KeySchema((KeyAttribute("Artist", "S"),), (KeyAttribute("Year", "N"),))
SINGLE = KeySchema((KeyAttribute("Id", "B"),))
MANY = KeySchema(
    (KeyAttribute("a", "S"), KeyAttribute("b", "N")), (KeyAttribute("c", "B"), KeyAttribute("d", "S"))
)
CLAWS = {"Artist": {"S": "1000mods"}, "Year": {"N": "2014"}, "Song": {"S": "Claws"}}


def test_a_key_of_one_attribute_is_the_values_own_bytes() -> None:
    assert b"1000mods" == MUSIC.pk(CLAWS)
    assert keys.encode({"N": "2014"}) == MUSIC.sk(CLAWS)
    assert b"\x00\xff" == SINGLE.pk({"Id": {"B": "AP8="}})


def test_a_schema_without_sort_key_reads_an_empty_one() -> None:
    assert b"" == SINGLE.sk({"Id": {"B": "AP8="}})


def test_a_key_of_several_attributes_is_made_of_parts() -> None:
    item = {"a": {"S": "x\0"}, "b": {"N": "1"}, "c": {"B": "AA=="}, "d": {"S": "y"}}

    assert keys.part(b"x\0") + keys.part(keys.encode({"N": "1"})) == MANY.pk(item)
    assert keys.part(b"\0") + keys.part(b"y") == MANY.sk(item)


def test_the_sort_part_is_composite_for_one_attribute_too() -> None:
    assert keys.part(keys.encode({"N": "2014"})) == MUSIC.sort_part(CLAWS)
    assert b"" == SINGLE.sort_part({})


@pytest.mark.parametrize("lacking", [{}, {"a": {"S": "x"}}, {"a": {"S": "x"}, "b": {"S": "1"}}])
def test_a_missing_or_wrongly_typed_attribute_has_no_key(lacking: dict[str, Any]) -> None:
    assert MANY.pk(lacking) is None


@pytest.mark.parametrize(
    ("schema", "item"),
    [
        (MUSIC, {"Artist": {"S": "1000mods"}, "Year": {"N": "2014"}}),
        (SINGLE, {"Id": {"B": "AP8="}}),
        (MANY, {"a": {"S": "x\0"}, "b": {"N": "1"}, "c": {"B": "AA=="}, "d": {"S": "y"}}),
    ],
)
def test_a_key_can_be_read_back(schema: KeySchema, item: dict[str, Any]) -> None:
    pk, sk = schema.pk(item), schema.sk(item)

    assert pk is not None
    assert sk is not None
    assert item == schema.decode(pk, sk) == schema.of({**item, "more": {"S": "z"}})
    assert schema == KeySchema.from_json(schema.to_json())


KEY = {"Artist": {"S": "a"}, "Year": {"N": "1"}}
WRONG_KEYS: list[dict[str, Any]] = [
    {},
    {"Artist": {"S": "a"}},
    {"Artist": {"S": "a"}, "Song": {"N": "1"}},
    {"Artist": {"S": "a"}, "Year": {"S": "1"}},
    KEY | {"Song": {"S": "x"}},
]


@pytest.mark.parametrize("key", WRONG_KEYS)
def test_a_requests_key_must_be_the_schemas(key: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"^The provided key element does not match the schema$"):
        MUSIC.read_key(key, MODERN)


def test_a_stored_item_must_have_its_key() -> None:
    with pytest.raises(
        ValidationError, match=r"^One or more parameter values were invalid: Missing the key Year"
    ):
        MUSIC.item_key({"Artist": {"S": "a"}}, MODERN)
    mismatch = r"invalid: Type mismatch for key Year expected: N actual: S$"
    with pytest.raises(ValidationError, match=mismatch):
        MUSIC.item_key({"Artist": {"S": "a"}, "Year": {"S": "1"}}, MODERN)


SONGS = KeySchema((KeyAttribute("Artist", "S"),), (KeyAttribute("Song", "S"),))
LENGTHS = [
    ("", "x", "The AttributeValue for a key attribute cannot contain an empty string value. Key: Artist"),
    ("x", "", "The AttributeValue for a key attribute cannot contain an empty string value. Key: Song"),
    ("x" * 2049, "x", "Size of hashkey has exceeded the maximum size limit of2048 bytes"),
    ("x", "x" * 1025, "Aggregated size of all range keys has exceeded the size limit of 1024 bytes"),
]


@pytest.mark.spec("S05")
@pytest.mark.parametrize(("pk", "sk", "message"), LENGTHS)
def test_a_key_is_neither_empty_nor_too_long(pk: str, sk: str, message: str) -> None:
    item = {"Artist": {"S": pk}, "Song": {"S": sk}}
    for read in (SONGS.read_key, SONGS.item_key):
        with pytest.raises(ValidationError) as caught:
            read(item, MODERN)
        assert caught.value.message.endswith(message)


@pytest.mark.spec("S05")
def test_a_key_may_be_as_long_as_the_limit() -> None:
    item = {"Artist": {"S": "x" * 2048}, "Song": {"S": "x" * 1024}}

    assert (b"x" * 2048, b"x" * 1024) == SONGS.read_key(item, MODERN) == SONGS.item_key(item, MODERN)
