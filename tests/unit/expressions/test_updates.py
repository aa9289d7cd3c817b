"""The results of updates."""

import re
from typing import Any

import pytest

from foldb import expressions
from foldb.expressions import CompiledUpdate
from foldb.model.errors import ValidationError
from foldb.model.limits import MODERN
from foldb.model.values import Item, item_size

ITEM: Item = {
    "pk": {"S": "car"},
    "a": {"N": "1"},
    "b": {"N": "2"},
    "word": {"S": "x"},
    "seq": {"L": [{"S": "0"}, {"S": "1"}, {"S": "2"}, {"S": "3"}]},
    "doc": {"M": {"x": {"N": "1"}, "y": {"M": {"z": {"L": [{"N": "5"}, {"M": {"k": {"S": "v"}}}]}}}}},
    "tags": {"SS": ["b", "d"]},
    "nums": {"NS": ["-1", "2", "10"]},
    "bins": {"BS": ["AQ==", "/w=="]},
}
VALUES: dict[str, dict[str, Any]] = {
    ":n": {"N": "5"},
    ":s": {"S": "new"},
    ":t": {"S": "other"},
    ":l": {"L": [{"S": "e"}]},
    ":e": {"L": []},
    ":ss": {"SS": ["a", "b", "c"]},
    ":gone": {"SS": ["b", "d", "z"]},
    ":ns": {"NS": ["2", "3"]},
    ":bs": {"BS": ["Ag=="]},
}


def made(text: str) -> tuple[CompiledUpdate, dict[str, dict[str, Any]]]:
    values = {name: VALUES[name] for name in re.findall(r":\w+", text)}
    update = expressions.compile(update=text, values=values or None).update
    assert update is not None
    return update, values


def after(text: str, item: Item | None = ITEM) -> Item:
    """Return the item after an update, after comparing its growth with the sizes before and after."""
    update, values = made(text)
    found = update.apply(item, values, MODERN).item
    before = item or {}
    grown = item_size(found, MODERN) - item_size(before, MODERN)
    assert grown == update.growth(before, found, MODERN)
    return found


def strings(value: dict[str, Any]) -> list[str]:
    return [element["S"] for element in value["L"]]


def refusal(text: str, item: Item | None = ITEM) -> str:
    with pytest.raises(ValidationError) as caught:
        after(text, item)
    return caught.value.message


@pytest.mark.spec("S76")
@pytest.mark.parametrize(
    ("text", "attribute", "value"),
    [
        ("SET c = :s", "c", {"S": "new"}),
        ("SET c = word", "c", {"S": "x"}),
        ("SET a = a + :n", "a", {"N": "6"}),
        ("SET a = :n - b", "a", {"N": "3"}),
        ("SET c = doc.y.z[0]", "c", {"N": "5"}),
        ("SET c = if_not_exists(word, :s)", "c", {"S": "x"}),
        ("SET c = if_not_exists(c, :s)", "c", {"S": "new"}),
        ("SET c = if_not_exists(c, if_not_exists(d, a))", "c", {"N": "1"}),
        ("SET c = if_not_exists(c, :n) + :n", "c", {"N": "10"}),
        ("SET c = list_append(:l, if_not_exists(c, :e))", "c", {"L": [{"S": "e"}]}),
        ("ADD a :n", "a", {"N": "6"}),
        ("ADD c :n", "c", {"N": "5"}),
        ("ADD tags :ss", "tags", {"SS": ["a", "b", "c", "d"]}),
        ("ADD nums :ns", "nums", {"NS": ["-1", "2", "3", "10"]}),
        ("ADD bins :bs", "bins", {"BS": ["AQ==", "Ag==", "/w=="]}),
        ("ADD c :ss", "c", {"SS": ["a", "b", "c"]}),
        ("DELETE tags :ss", "tags", {"SS": ["d"]}),
        ("DELETE nums :ns", "nums", {"NS": ["-1", "10"]}),
    ],
)
def test_an_action_gives_a_canonical_value(text: str, attribute: str, value: dict[str, Any]) -> None:
    assert {**ITEM, attribute: value} == after(text)


@pytest.mark.parametrize("text", ["REMOVE word", "REMOVE word, missed", "REMOVE word DELETE c :ss"])
def test_a_remove_of_a_missing_attribute_is_not_an_error(text: str) -> None:
    assert {name: value for name, value in ITEM.items() if name != "word"} == after(text)


def test_a_set_whose_last_element_is_deleted_goes_with_it() -> None:
    assert "tags" not in after("DELETE tags :gone")


def test_all_actions_read_the_item_as_it_was() -> None:
    swapped = after("SET a = b, b = a")
    assert ({"N": "2"}, {"N": "1"}) == (swapped["a"], swapped["b"])

    moved = after("REMOVE word SET c = word")
    assert "word" not in moved
    assert {"S": "x"} == moved["c"]


def test_list_elements_are_named_by_where_they_stood() -> None:
    assert ["0", "2", "new"] == strings(after("REMOVE seq[1] SET seq[3] = :s")["seq"])
    assert ["0", "2", "new"] == strings(after("SET seq[3] = :s REMOVE seq[1]")["seq"])
    assert ["1"] == strings(after("REMOVE seq[3], seq[0], seq[2], seq[17]")["seq"])


def test_list_elements_past_the_end_are_appended_in_index_order() -> None:
    assert ["0", "1", "2", "3", "other", "new"] == strings(after("SET seq[84] = :s, seq[17] = :t")["seq"])
    assert ["0", "2", "3", "new"] == strings(after("REMOVE seq[1] SET seq[9] = :s")["seq"])


def test_a_nested_change_leaves_its_siblings() -> None:
    document = after("SET doc.y.z[1].k = :s, doc.w = :t REMOVE doc.x, doc.y.z[0]")["doc"]

    assert {"M": {"w": {"S": "other"}, "y": {"M": {"z": {"L": [{"M": {"k": {"S": "new"}}}]}}}}} == document


def test_add_and_delete_reach_into_documents() -> None:
    assert {"N": "6"} == after("ADD doc.x :n")["doc"]["M"]["x"]
    assert {"SS": ["a", "b", "c"]} == after("ADD doc.new1 :ss")["doc"]["M"]["new1"]
    assert ITEM["doc"] == after("DELETE doc.nothing :ss")["doc"]


def test_an_emptied_map_or_list_stays() -> None:
    item: Item = {"m": {"M": {"x": {"N": "1"}}}, "l": {"L": [{"N": "1"}]}}

    assert {"m": {"M": {}}, "l": {"L": []}} == after("REMOVE m.x, l[0]", item)


def test_an_update_shares_unchanged_parts_with_the_old_item() -> None:
    before = {name: dict(value) for name, value in ITEM.items()}
    new = after("SET doc.y.z[0] = :s, a = :n REMOVE seq[0]")

    assert before == ITEM
    assert new["tags"] is ITEM["tags"]
    assert new["doc"]["M"]["x"] is ITEM["doc"]["M"]["x"]
    assert new["doc"]["M"]["y"]["M"]["z"]["L"][1] is ITEM["doc"]["M"]["y"]["M"]["z"]["L"][1]


def test_an_update_creates_a_missing_item() -> None:
    assert {"c": {"S": "new"}, "n": {"N": "5"}} == after("SET c = :s ADD n :n", None)
    assert {} == after("REMOVE c DELETE d :ss", None)


@pytest.mark.parametrize("text", ["SET c = missed", "SET c = list_append(missed, :l)", "SET c = a + missed"])
def test_an_operand_must_be_there(text: str) -> None:
    message = "The provided expression refers to an attribute that does not exist in the item"
    assert message == refusal(text)
    assert message == refusal(text, None)


@pytest.mark.parametrize(
    "text",
    [
        "SET c = word + :n",
        "SET c = list_append(word, :l)",
        "ADD word :n",
        "ADD a :ss",
        "ADD nums :ss",
        "DELETE a :ss",
    ],
)
def test_an_operand_must_be_of_its_type(text: str) -> None:
    assert "An operand in the update expression has an incorrect data type" == refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "SET missed.x = :s",
        "SET word.x = :s",
        "SET seq.x = :s",
        "SET word[0] = :s",
        "SET doc[0] = :s",
        "SET doc.missed.x = :s",
        "SET seq[9].x = :s",
        "REMOVE missed.x",
        "REMOVE word[0]",
        "ADD missed.x :n",
        "DELETE missed.x :ss",
    ],
)
def test_the_way_to_a_target_must_be_there(text: str) -> None:
    assert "The document path provided in the update expression is invalid for update" == refusal(text)


def test_a_remove_from_a_missing_item_passes_even_with_a_path() -> None:
    """DynamoDB refuses the same update where the item exists without the attribute."""
    assert {"c": {"S": "new"}} == after("REMOVE x.y, z[0] SET c = :s", None)
    assert "path" in refusal("SET x.y = :s", None)


def test_a_document_cannot_grow_beyond_32_levels() -> None:
    deep: dict[str, Any] = {"M": {}}
    for _ in range(30):
        deep = {"M": {"d": deep}}
    item: Item = {"deep": deep, "m": {"M": {}}}

    assert {"M": {"x": deep}} == after("SET m.x = deep", item)["m"]
    with pytest.raises(ValidationError, match="Nesting Levels have exceeded supported limits"):
        after("SET deep.d.d = deep", item)


def test_a_sum_that_no_number_can_hold_is_refused() -> None:
    item: Item = {"a": {"N": "9" * 38 + "0" * 88}}

    assert "Number overflow" in refusal("SET a = a + a", item)


def test_updated_old_and_new_show_the_written_paths_only() -> None:
    update, values = made("SET a = :n, doc.y.z[1].k = :s, seq[2] = :t REMOVE word, doc.x")
    updated = update.apply(ITEM, values, MODERN)

    assert {
        "a": {"N": "1"},
        "word": {"S": "x"},
        "seq": {"L": [{"S": "2"}]},
        "doc": {"M": {"x": {"N": "1"}, "y": {"M": {"z": {"L": [{"M": {"k": {"S": "v"}}}]}}}}},
    } == update.select(ITEM, updated.touched)
    assert {
        "a": {"N": "5"},
        "seq": {"L": [{"S": "other"}]},
        "doc": {"M": {"y": {"M": {"z": {"L": [{"M": {"k": {"S": "new"}}}]}}}}},
    } == update.select(updated.item, updated.touched)


def test_a_projection_keeps_the_maps_and_lists_of_its_parts() -> None:
    projection = expressions.compile(
        projection="doc.y.z[1].k, seq[3], seq[0], pk, missed.x, word.x"
    ).projection

    assert projection is not None
    assert {
        "doc": {"M": {"y": {"M": {"z": {"L": [{"M": {"k": {"S": "v"}}}]}}}}},
        "seq": {"L": [{"S": "0"}, {"S": "3"}]},
        "pk": {"S": "car"},
    } == projection.apply(ITEM)


def test_a_projection_of_missing_parts_is_empty() -> None:
    projection = expressions.compile(projection="missed, doc.missed, seq[9]").projection

    assert projection is not None
    assert {} == projection.apply(ITEM)


def test_an_update_that_only_removes_has_nothing_to_give() -> None:
    assert made("REMOVE c DELETE d :ss")[0].only_removes
    assert not made("REMOVE c SET d = :s")[0].only_removes
    assert not made("ADD d :ss")[0].only_removes


@pytest.mark.parametrize("target", ["c", "doc.c"])
@pytest.mark.parametrize("value", ["list_append(seq, seq)", "seq"])
def test_an_update_far_above_the_limit_is_refused_early(target: str, value: str) -> None:
    """
    Four kilobytes of SET could make a hundred copies of a list, which would be elements by the million and seconds
    of counting them.
    """
    item = {**ITEM, "seq": {"L": [{"S": ""}] * 200_000}}
    text = "SET " + ", ".join(f"{target}{n} = {value}" for n in range(100))

    assert "Item size to update has exceeded the maximum allowed size" == refusal(text, item)
