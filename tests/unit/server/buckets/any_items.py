"""Random items in canonical form, as a table has them."""

import base64
from typing import Any

from hypothesis import strategies as st

from foldb.model.limits import MODERN
from foldb.model.values import Item, check_item


def _canonical(item: Item) -> Item:
    check_item(item, MODERN)
    return item


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    [
        "$10",
        "null",
        "null1",
        "nulls",
        "a'b",
        '"',
        "\\",
        "\\'",
        "b64:",
        "$dynamodb_SS::[]",
        "{{}}",
        "\n",
        "\x00",
        "1.",
        "a,b",
        "Item",
    ]
)
NUMBERS = st.integers(-(10**38) + 1, 10**38 - 1).map(str) | st.builds(
    lambda digits, exponent: f"{digits}E{exponent}", st.integers(-9999, 9999), st.integers(-120, 120)
)
BINARIES = st.binary(max_size=6).map(lambda data: base64.b64encode(data).decode())
_SCALARS: st.SearchStrategy[Any] = (
    TEXTS.map(lambda text: {"S": text})
    | NUMBERS.map(lambda text: {"N": text})
    | BINARIES.map(lambda text: {"B": text})
    | st.booleans().map(lambda truth: {"BOOL": truth})
    | st.just({"NULL": True})
    | st.lists(TEXTS, min_size=1, max_size=3, unique=True).map(lambda texts: {"SS": texts})
    | st.lists(st.integers(-(10**30), 10**30), min_size=1, max_size=3, unique=True).map(
        lambda each: {"NS": list(map(str, each))}
    )
    | st.lists(BINARIES, min_size=1, max_size=3, unique=True).map(lambda texts: {"BS": texts})
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda values: {"L": values})
        | st.dictionaries(TEXTS.filter(bool), inner, max_size=3).map(lambda members: {"M": members})
    ),
    max_leaves=6,
)
ITEMS: st.SearchStrategy[Item] = st.dictionaries(TEXTS.filter(bool), VALUES, max_size=4).map(_canonical)
"""Items without a key: a format does not know it."""
