"""Reading and writing items."""

from decimal import Decimal
from itertools import zip_longest
from typing import Any

import pytest
from boto3.dynamodb.conditions import Attr, Key
from botocore.exceptions import ClientError

from tests.support.claims import KIB, everything, invalid, pages, refused, sized
from tests.support.tables import MakeTable


@pytest.fixture
def table(make_table: MakeTable) -> Any:
    return make_table("pk:S")


@pytest.mark.spec("S73")
def test_put_get_update_delete(table: Any) -> None:
    key = {"pk": "a"}
    assert "Attributes" not in table.put_item(Item=key | {"n": 1}, ReturnValues="ALL_OLD")
    assert {"pk": "a", "n": 1} == table.put_item(Item=key | {"n": 2, "s": "x"}, ReturnValues="ALL_OLD")[
        "Attributes"
    ]
    assert {"n": 2} == table.get_item(Key=key, ProjectionExpression="n")["Item"]
    assert {"pk": "a", "n": 2, "s": "x"} == table.delete_item(Key=key, ReturnValues="ALL_OLD")["Attributes"]
    assert "Item" not in table.get_item(Key=key, ConsistentRead=True)


RETURNED = {
    "NONE": None,
    "ALL_OLD": {"pk": "a", "n": 1, "s": "x"},
    "ALL_NEW": {"pk": "a", "n": 2, "s": "x"},
    "UPDATED_OLD": {"n": 1},
    "UPDATED_NEW": {"n": 2},
}


@pytest.mark.spec("S73")
@pytest.mark.parametrize("choice", RETURNED)
def test_an_update_returns_the_requested_return_values(table: Any, choice: str) -> None:
    table.put_item(Item={"pk": "a", "n": 1, "s": "x"})
    updated = table.update_item(
        Key={"pk": "a"},
        UpdateExpression="SET n = n + :one",
        ExpressionAttributeValues={":one": 1},
        ReturnValues=choice,
    )

    assert RETURNED[choice] == updated.get("Attributes")


@pytest.mark.spec("S73")
def test_an_update_makes_the_item_that_is_not_there(table: Any) -> None:
    table.update_item(Key={"pk": "a"}, UpdateExpression="ADD n :one", ExpressionAttributeValues={":one": 1})

    assert {"pk": "a", "n": 1} == table.get_item(Key={"pk": "a"})["Item"]


@pytest.fixture
def numbered(make_table: MakeTable) -> Any:
    """One collection, sort keys s0 to s9, and a stranger."""
    table = make_table("pk:S", "sk:S")
    for n in range(10):
        table.put_item(Item={"pk": "a", "sk": f"s{n}", "n": n})
    table.put_item(Item={"pk": "b", "sk": "s5", "n": 5})
    return table


SORT = Key("sk")
CONDITIONS = [
    (SORT.eq("s3"), [3]),
    (SORT.lt("s3"), [0, 1, 2]),
    (SORT.lte("s3"), [0, 1, 2, 3]),
    (SORT.gt("s7"), [8, 9]),
    (SORT.gte("s7"), [7, 8, 9]),
    (SORT.between("s3", "s5"), [3, 4, 5]),
    (SORT.begins_with("s"), list(range(10))),
    (SORT.begins_with("s1"), [1]),
    (SORT.begins_with("t"), []),
]


@pytest.mark.spec("S74")
@pytest.mark.parametrize(
    ("condition", "found"), CONDITIONS, ids=lambda v: getattr(v, "expression_operator", None)
)
def test_a_query_reads_a_range_of_one_collection(numbered: Any, condition: Any, found: list[int]) -> None:
    query = {"KeyConditionExpression": Key("pk").eq("a") & condition}

    assert found == [item["n"] for item in numbered.query(**query)["Items"]]
    assert found[::-1] == [item["n"] for item in numbered.query(**query, ScanIndexForward=False)["Items"]]
    assert found == [item["n"] for item in everything(numbered.query, **query, Limit=2)]


@pytest.mark.spec("S74")
def test_a_query_needs_its_partition_key(numbered: Any) -> None:
    with invalid("Query condition missed key schema element: pk"):
        numbered.query(KeyConditionExpression=SORT.eq("s3"))
    with invalid("Query key condition not supported"):
        numbered.query(KeyConditionExpression=Key("pk").gt("a"))


@pytest.mark.spec("S75")
@pytest.mark.parametrize("segments", [1, 3, 16])
def test_the_segments_of_a_scan_are_disjoint_and_complete(table: Any, segments: int) -> None:
    names = {f"k{n}" for n in range(300)}
    with table.batch_writer() as batch:
        for name in names:
            batch.put_item(Item={"pk": name})

    parts = [
        [item["pk"] for item in everything(table.scan, Segment=n, TotalSegments=segments, Limit=40)]
        for n in range(segments)
    ]

    assert names == set().union(*parts)
    assert len(names) == sum(map(len, parts))


@pytest.mark.spec("S75")
@pytest.mark.parametrize("segments", [1, 4])
def test_a_scan_beside_writes_misses_nothing_that_stood_still(table: Any, segments: int) -> None:
    """The segments go on in turn, and between any two pages an item comes and another goes."""
    still = {f"still{n}" for n in range(100)}
    with table.batch_writer() as batch:
        for name in still:
            batch.put_item(Item={"pk": name})

    seen: list[str] = []
    written = 0
    reads = [pages(table.scan, Limit=7, Segment=n, TotalSegments=segments) for n in range(segments)]
    for turn in zip_longest(*reads):
        for page in filter(None, turn):
            seen += [item["pk"] for item in page["Items"]]
            table.put_item(Item={"pk": f"new{written}"})
            table.delete_item(Key={"pk": f"new{written - 1}"})
            written += 1

    assert still == {name for name in seen if name.startswith("still")}
    assert len(seen) == len(set(seen))


ITEM: dict[str, Any] = {
    "pk": "a",
    "s": "foldb",
    "n": 5,
    "list": ["x", "y"],
    "set": {"red", "blue"},
    "map": {"in": {"deep": True}},
}
HOLDS = [
    "attribute_exists(n)",
    "attribute_not_exists(absent)",
    "attribute_type(n, :N)",
    "begins_with(s, :fo)",
    "contains(s, :old)",
    "contains(#list, :x)",
    "contains(#set, :red)",
    "size(s) = :5",
    "size(#list) < :5",
    "n BETWEEN :0 AND :5",
    "n IN (:0, :5)",
    "n <> :0 AND (n >= :5 OR absent = :0)",
    "NOT n < :5",
    "#map.#in.deep = :true",
    "#list[1] = :y",
    "n > :0 AND NOT attribute_exists(absent) OR s = :fo",
]
VALUES = {
    ":N": "N",
    ":fo": "fo",
    ":old": "old",
    ":x": "x",
    ":y": "y",
    ":red": "red",
    ":5": 5,
    ":0": 0,
    ":true": True,
}
NAMES = {"#list": "list", "#set": "set", "#map": "map", "#in": "in"}


def _placeholders(expression: str) -> dict[str, Any]:
    """Of the names and values, those that the expression uses."""
    values = {name: value for name, value in VALUES.items() if name in expression}
    names = {name: value for name, value in NAMES.items() if name in expression}
    request: dict[str, Any] = {}
    if values:
        request["ExpressionAttributeValues"] = values
    if names:
        request["ExpressionAttributeNames"] = names
    return request


@pytest.mark.spec("S76")
@pytest.mark.parametrize("expression", HOLDS)
def test_conditions_and_filters_speak_one_language(table: Any, expression: str) -> None:
    table.put_item(Item=ITEM)
    negated = f"NOT ({expression})"
    placeholders = _placeholders(expression)

    assert 1 == table.scan(FilterExpression=expression, **placeholders)["Count"]
    assert 0 == table.scan(FilterExpression=negated, **placeholders)["Count"]
    table.put_item(Item=ITEM, ConditionExpression=expression, **placeholders)
    with refused("ConditionalCheckFailedException"):
        table.put_item(Item=ITEM, ConditionExpression=negated, **placeholders)


UPDATES = [
    ("SET n = n + :v", 2, {"n": 7}),
    ("SET n = :v - n", 2, {"n": -3}),
    ("SET extra = if_not_exists(extra, :v)", 2, {"extra": 2}),
    ("SET n = if_not_exists(n, :v)", 2, {}),
    ("SET l = list_append(l, :v)", ["z"], {"l": ["x", "y", "z"]}),
    ("SET l = list_append(:v, l)", ["z"], {"l": ["z", "x", "y"]}),
    ("SET l[1] = :v", "z", {"l": ["x", "z"]}),
    ("SET m.deep.er = :v", 1, {"m": {"deep": {"er": 1}}}),
    ("ADD n :v", Decimal("0.5"), {"n": Decimal("5.5")}),
    ("ADD colours :v", {"green"}, {"colours": {"red", "blue", "green"}}),
    ("DELETE colours :v", {"red", "grey"}, {"colours": {"blue"}}),
]


@pytest.mark.spec("S76")
@pytest.mark.parametrize(("expression", "value", "changed"), UPDATES, ids=[update[0] for update in UPDATES])
def test_update_expressions(table: Any, expression: str, value: Any, changed: dict[str, Any]) -> None:
    item = {"pk": "a", "n": 5, "l": ["x", "y"], "colours": {"red", "blue"}, "m": {"deep": {}}}
    table.put_item(Item=item)
    table.update_item(Key={"pk": "a"}, UpdateExpression=expression, ExpressionAttributeValues={":v": value})

    assert item | changed == table.get_item(Key={"pk": "a"})["Item"]


@pytest.mark.spec("S76")
def test_an_update_reads_the_item_as_it_was_and_removes(table: Any) -> None:
    table.put_item(Item={"pk": "a", "x": 1, "y": 2, "gone": 3, "l": [0, 1, 2, 3]})
    table.update_item(Key={"pk": "a"}, UpdateExpression="SET x = y, y = x REMOVE gone, l[0], l[2]")

    assert {"pk": "a", "x": 2, "y": 1, "l": [1, 3]} == table.get_item(Key={"pk": "a"})["Item"]


@pytest.mark.spec("S77")
def test_a_page_ends_at_one_mib_of_evaluated_data(make_table: MakeTable) -> None:
    table = make_table("pk:S", "sk:N")
    with table.batch_writer() as batch:
        for n in range(50):
            batch.put_item(Item=sized(30 * KIB, pk="a", half="old" if n < 30 else "new") | {"sk": n})
    new = Attr("half").eq("new")
    read = list(pages(table.query, KeyConditionExpression=Key("pk").eq("a"), FilterExpression=new))

    assert [34, 16] == [page["ScannedCount"] for page in read]
    assert [4, 16] == [page["Count"] for page in read]
    assert {"pk": "a", "sk": 33} == read[0]["LastEvaluatedKey"]


@pytest.mark.spec("S78")
def test_a_condition_that_fails_changes_nothing(table: Any) -> None:
    table.put_item(Item={"pk": "a", "n": 1})

    with refused("ConditionalCheckFailedException", "The conditional request failed"):
        table.update_item(
            Key={"pk": "a"},
            UpdateExpression="SET n = :n",
            ConditionExpression="n > :n",
            ExpressionAttributeValues={":n": 2},
        )
    assert {"pk": "a", "n": 1} == table.get_item(Key={"pk": "a"})["Item"]


@pytest.mark.spec("S78")
@pytest.mark.parametrize(
    ("choice", "shown"), [("ALL_OLD", {"pk": {"S": "a"}, "n": {"N": "1"}}), ("NONE", None)]
)
def test_a_failed_condition_shows_the_item_on_request(table: Any, choice: str, shown: Any) -> None:
    table.put_item(Item={"pk": "a", "n": 1})

    with pytest.raises(ClientError) as caught:
        table.delete_item(
            Key={"pk": "a"},
            ConditionExpression=Attr("n").eq(2),
            ReturnValuesOnConditionCheckFailure=choice,
        )
    assert shown == caught.value.response.get("Item")


@pytest.mark.spec("S84")
def test_a_batch_puts_and_deletes_25_and_gets_100(table: Any) -> None:
    client = table.meta.client
    for start in range(0, 100, 25):
        puts = [{"PutRequest": {"Item": {"pk": f"k{n}", "n": n}}} for n in range(start, start + 25)]
        assert {} == client.batch_write_item(RequestItems={table.name: puts})["UnprocessedItems"]
    client.batch_write_item(RequestItems={table.name: [{"DeleteRequest": {"Key": {"pk": "k7"}}}]})
    found = client.batch_get_item(RequestItems={table.name: {"Keys": [{"pk": f"k{n}"} for n in range(100)]}})

    assert {} == found["UnprocessedKeys"]
    assert sorted(set(range(100)) - {7}) == sorted(item["n"] for item in found["Responses"][table.name])


@pytest.mark.spec("S84")
def test_a_larger_batch_is_refused(table: Any) -> None:
    client = table.meta.client
    puts = [{"PutRequest": {"Item": {"pk": f"k{n}"}}} for n in range(26)]

    with invalid("Member must have length less than or equal to 25"):
        client.batch_write_item(RequestItems={table.name: puts})
    with invalid("Member must have length less than or equal to 100"):
        client.batch_get_item(RequestItems={table.name: {"Keys": [{"pk": f"k{n}"} for n in range(101)]}})
    assert 0 == table.scan()["Count"]


@pytest.mark.spec("S84")
def test_a_batch_knows_neither_updates_nor_conditions(table: Any, client: Any) -> None:
    """The service model has no member for either: a batch consists of puts and deletes."""
    write = client.meta.service_model.shape_for("WriteRequest").members

    assert {"PutRequest", "DeleteRequest"} == set(write)
    assert {"Item"} == set(write["PutRequest"].members)
    with invalid():
        table.meta.client.batch_write_item(RequestItems={table.name: [{}]})
