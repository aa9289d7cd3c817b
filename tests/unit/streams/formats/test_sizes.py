"""The size of an item is the same from its bytes and from its values."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldb.model.limits import MODERN
from foldb.model.values import Item, dump, item_size
from foldb.streams.formats.stored_size import stored_size

TEXT = st.text(alphabet=st.sampled_from('ab"\\:{}SN,é€😀\n'), max_size=8)
SCALAR = st.one_of(
    st.builds(lambda text: {"S": text}, TEXT),
    st.sampled_from([{"N": text} for text in ("0", "-1.5", "1200", "0.003", "123456789.5")]),
)
VALUE: st.SearchStrategy[Any] = st.recursive(
    SCALAR
    | st.sampled_from([{"BOOL": True}, {"NULL": True}, {"B": "AAE="}, {"SS": ["a", "b"]}, {"NS": ["1"]}]),
    lambda inner: st.one_of(
        st.builds(lambda elements: {"L": elements}, st.lists(inner, max_size=3)),
        st.builds(lambda members: {"M": members}, st.dictionaries(TEXT, inner, max_size=3)),
    ),
    max_leaves=6,
)


@given(st.dictionaries(TEXT.filter(bool), SCALAR | VALUE, min_size=1, max_size=5))
def test_bytes_and_values_give_the_same_size(item: Item) -> None:
    assert item_size(item, MODERN) == stored_size(dump(item))


@pytest.mark.parametrize("text", ['":{"S":"', '":{"N":"1', "}", '"'])
def test_a_text_that_looks_like_an_item_counts_as_a_text(text: str) -> None:
    item: Item = {"name": {"S": text}, "map": {"M": {"name": {"S": "x"}}}}

    assert item_size(item, MODERN) == stored_size(dump(item))
