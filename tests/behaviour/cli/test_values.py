"""Plain JSON and DynamoDB JSON represent the same items."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldb.cli.lib.errors import CommandError
from foldb.cli.lib.values import plain, plain_item, read_item, read_json, typed, write_json
from foldb.model.numbers import canonical

EXAMPLES = [
    ({"S": "Bicycle"}, '"Bicycle"'),
    ({"N": "300"}, "300"),
    ({"N": "-0.10000000000000000000000000000000000001"}, "-0.10000000000000000000000000000000000001"),
    ({"B": "dGhpcw=="}, '"b64:dGhpcw=="'),
    ({"SS": ["Black", "Red"]}, '{"$set":["Black","Red"]}'),
    ({"NS": ["42.2", "-19", "7.5", "3.14"]}, '{"$set":[42.2,-19,7.5,3.14]}'),
    ({"BS": ["U3Vubnk="]}, '{"$set":["b64:U3Vubnk="]}'),
    ({"BOOL": False}, "false"),
    ({"NULL": True}, "null"),
    ({"L": [{"S": "a"}, {"N": "1"}]}, '["a",1]'),
    ({"M": {"a": {"M": {}}}}, '{"a":{}}'),
    ({"S": "b64:not binary"}, '"str:b64:not binary"'),
    ({"S": "str:b64:nor this"}, '"str:str:b64:nor this"'),
    ({"M": {"$set": {"L": []}}}, '{"$map":{"$set":[]}}'),
    ({"M": {"$map": {"S": "x"}}}, '{"$map":{"$map":"x"}}'),
]


@pytest.mark.parametrize(("value", "text"), EXAMPLES)
@pytest.mark.spec("S10", "S13", served=False)
def test_a_value_has_a_plain_form_and_comes_back_from_it(value: dict[str, Any], text: str) -> None:
    assert text == write_json(plain(value))
    assert value == typed(read_json(text, "the value"))


_NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, places=8).map(
    lambda number: {"N": canonical(str(number))}
)
_TEXTS = st.text() | st.sampled_from(["b64:", "str:b64:", "str:", "$set", "$map", "b64:aGk="])
_BINARIES = st.binary().map(lambda data: base64.b64encode(data).decode())
_SCALARS = (
    _TEXTS.map(lambda text: {"S": text})
    | _NUMBERS
    | _BINARIES.map(lambda text: {"B": text})
    | st.booleans().map(lambda truth: {"BOOL": truth})
    | st.just({"NULL": True})
    | st.lists(_TEXTS, min_size=1, unique=True).map(lambda texts: {"SS": texts})
    | st.lists(_BINARIES, min_size=1, unique=True).map(lambda texts: {"BS": texts})
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda values: {"L": values})
        | st.dictionaries(_TEXTS, inner, max_size=3).map(lambda members: {"M": members})
    ),
    max_leaves=12,
)


@given(item=st.dictionaries(_TEXTS, _VALUES, max_size=4))
def test_every_item_survives_the_way_through_plain_json(item: dict[str, Any]) -> None:
    assert item == read_item(write_json(plain_item(item)), "the item", is_typed=False)


@pytest.mark.parametrize(
    "text",
    ['{"a": "b64:???"}', '{"a": {"$set": []}}', '{"a": {"$set": ["x", 1]}}', "[]", "{", "NaN", "[" * 99999],
)
def test_an_invalid_item_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(CommandError) as caught:
        read_item(text, "the item", is_typed=False)

    assert "\n" not in caught.value.sentence
