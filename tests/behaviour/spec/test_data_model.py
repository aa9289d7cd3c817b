"""Tables, items, keys, the ten types, and the size of an item."""

from decimal import Decimal
from typing import Any

import pytest
from boto3.dynamodb.conditions import Key
from boto3.dynamodb.types import Binary

from tests.support.claims import KIB, everything, invalid, refused, sized, stored_size
from tests.support.tables import MakeTable, table_request

# A product catalog, and the size of each item: the UTF-8 bytes of names plus the bytes of values.
PRODUCTS: list[tuple[int, dict[str, Any]]] = [
    (
        150,
        {
            "Id": {"N": "101"},
            "ProductName": {"S": "Book 101 Title"},
            "ISBN": {"S": "111-1111111111"},
            "Authors": {"SS": ["Author 1", "Author 2"]},
            "Price": {"N": "-2"},
            "Dimensions": {"S": "8.5 x 11.0 x 0.5"},
            "PageCount": {"N": "500"},
            "InPublication": {"N": "1"},
            "ProductCategory": {"S": "Book"},
        },
    ),
    (
        137,
        {
            "Id": {"N": "201"},
            "ProductName": {"S": "18-Bicycle 201"},
            "Description": {"S": "201 description"},
            "BicycleType": {"S": "Road"},
            "Brand": {"S": "Brand-Company A"},
            "Price": {"N": "100"},
            "Gender": {"S": "M"},
            "Color": {"SS": ["Black", "Red"]},
            "ProductCategory": {"S": "Bike"},
        },
    ),
    (
        139,
        {
            "Id": {"N": "202"},
            "ProductName": {"S": "21-Bicycle 202"},
            "Description": {"S": "202 description"},
            "BicycleType": {"S": "Road"},
            "Brand": {"S": "Brand-Company A"},
            "Price": {"N": "200"},
            "Gender": {"S": "M"},
            "Color": {"SS": ["Black", "Green"]},
            "ProductCategory": {"S": "Bike"},
        },
    ),
]


@pytest.mark.spec("S01")
def test_items_of_one_table_share_nothing_but_the_key(make_table: MakeTable) -> None:
    table = make_table("pk:S")
    items: list[dict[str, Any]] = [
        {"pk": "book", "title": "A", "pages": 12},
        {"pk": "bike", "gears": [1, 2], "title": {"maker": "B"}},
        {"pk": "bare"},
    ]
    for item in items:
        table.put_item(Item=item)

    assert items == sorted(table.scan()["Items"], key=lambda item: ["book", "bike", "bare"].index(item["pk"]))


@pytest.mark.spec("S01", "S05")
def test_only_the_key_is_declared_and_its_type_checked(make_table: MakeTable) -> None:
    table = make_table("pk:S", "sk:N")

    with invalid("Type mismatch for key sk expected: N actual: S"):
        table.put_item(Item={"pk": "a", "sk": "one"})
    with invalid("Missing the key sk in the item"):
        table.put_item(Item={"pk": "a"})
    with invalid("The provided key element does not match the schema"):
        table.get_item(Key={"pk": "a", "sk": "one"})


@pytest.mark.spec("S02", "S32", "S33")
@pytest.mark.parametrize(("size", "item"), PRODUCTS, ids=["101", "201", "202"])
def test_a_product_of_the_catalog_comes_back_as_it_went(
    make_table: MakeTable, client: Any, size: int, item: dict[str, Any]
) -> None:
    table = make_table("Id:N")
    client.put_item(TableName=table.name, Item=item)

    assert item == client.get_item(TableName=table.name, Key={"Id": item["Id"]})["Item"]
    assert size == stored_size(table)


@pytest.mark.spec("S02")
def test_a_negative_price_stays_a_negative_number(make_table: MakeTable, client: Any) -> None:
    table = make_table("Id:N")
    client.put_item(TableName=table.name, Item=PRODUCTS[0][1])
    table.update_item(
        Key={"Id": 101},
        UpdateExpression="SET Price = Price - :d",
        ExpressionAttributeValues={":d": Decimal("0.5")},
    )

    assert Decimal("-2.5") == table.get_item(Key={"Id": 101})["Item"]["Price"]


@pytest.mark.spec("S03")
def test_a_second_put_on_a_key_replaces_the_item(make_table: MakeTable) -> None:
    table = make_table("pk:S")
    table.put_item(Item={"pk": "a", "first": 1})
    table.put_item(Item={"pk": "a", "second": 2})

    assert [{"pk": "a", "second": 2}] == table.scan()["Items"]


@pytest.mark.spec("S03")
def test_a_scan_has_a_stable_order_by_hash_of_partition_key(
    make_table: MakeTable,
) -> None:
    table = make_table("pk:S")
    names = [f"k{n}" for n in range(50)]
    for name in names:
        table.put_item(Item={"pk": name})
    order = [item["pk"] for item in table.scan()["Items"]]

    assert sorted(order) == sorted(names)
    assert order != names
    assert order == [item["pk"] for item in everything(table.scan, Limit=7)]


SORT_KEYS = [
    pytest.param("S", ["A", "B", "a", "aa", "b", "é", "\uffff", "\U0001f6b2"], id="strings-by-UTF-8"),
    pytest.param(
        "N", [Decimal(n) for n in ("-1E+3", "-19", "-0.5", "0", "3.14", "7.5", "42", "1E+37")], id="numbers"
    ),
    pytest.param("B", [b"\x00", b"\x7f", b"\x7f\x00", b"\x80", b"\xff"], id="binary-unsigned"),
]


@pytest.mark.spec("S04", "S12", "S13", "S14")
@pytest.mark.parametrize(("kind", "ascending"), SORT_KEYS)
def test_a_collection_is_read_in_both_directions_of_its_sort_key(
    make_table: MakeTable, kind: str, ascending: list[Any]
) -> None:
    table = make_table("pk:S", f"sk:{kind}")
    for value in sorted(ascending, key=str, reverse=True):
        table.put_item(Item={"pk": "a", "sk": value})
        table.put_item(Item={"pk": "another", "sk": value})
    condition = Key("pk").eq("a")

    forward = [item["sk"] for item in table.query(KeyConditionExpression=condition)["Items"]]
    backward = [
        item["sk"] for item in table.query(KeyConditionExpression=condition, ScanIndexForward=False)["Items"]
    ]

    assert ascending == [value.value if isinstance(value, Binary) else value for value in forward]
    assert forward[::-1] == backward


@pytest.mark.spec("S05")
@pytest.mark.parametrize("kind", ["SS", "NS", "BS", "BOOL", "NULL", "L", "M"])
def test_a_key_is_a_string_a_number_or_binary(resource: Any, kind: str) -> None:
    with invalid("Member must satisfy enum value set: [B, N, S]"):
        resource.create_table(**table_request("no-such-key", f"pk:{kind}"))


@pytest.mark.spec("S05")
def test_keys_have_their_longest_and_their_shortest(make_table: MakeTable) -> None:
    table = make_table("pk:S", "sk:B")
    longest = {"pk": "é" * 1024, "sk": b"\x00" * 1024}
    table.put_item(Item=longest)

    assert longest["pk"] == table.get_item(Key=longest)["Item"]["pk"]
    with invalid("Size of hashkey has exceeded the maximum size limit of2048 bytes"):
        table.put_item(Item=longest | {"pk": "x" * 2049})
    with invalid("Aggregated size of all range keys has exceeded the size limit of 1024 bytes"):
        table.put_item(Item=longest | {"sk": b"x" * 1025})
    with invalid("The AttributeValue for a key attribute cannot contain an empty string value. Key: pk"):
        table.put_item(Item=longest | {"pk": ""})
    with invalid("The AttributeValue for a key attribute cannot contain an empty binary value. Key: sk"):
        table.put_item(Item=longest | {"sk": b""})


@pytest.mark.spec("S05")
@pytest.mark.parametrize(("attribute", "longest"), [("ihash", 2048), ("isort", 1024)])
def test_index_keys_are_no_longer_than_table_keys(
    make_table: MakeTable, attribute: str, longest: int
) -> None:
    table = make_table("pk:S", gsi={"Index": "ihash:S isort:S"})
    item = {"pk": "a", "ihash": "h", "isort": "s"}
    table.put_item(Item=item | {attribute: "x" * longest})

    with invalid("One or more parameter values were invalid"):
        table.put_item(Item=item | {attribute: "x" * (longest + 1)})


@pytest.mark.spec("S07")
def test_an_item_collection_shares_a_partition_key(make_table: MakeTable) -> None:
    table = make_table("pk:S", "sk:N")
    for n in range(5):
        table.put_item(Item={"pk": "many", "sk": n})
    table.put_item(Item={"pk": "one", "sk": 0})

    counted = table.query(KeyConditionExpression=Key("pk").eq("many"), Select="COUNT")

    assert (5, 5) == (counted["Count"], counted["ScannedCount"])


@pytest.mark.spec("S07")
def test_a_table_with_an_lsi_returns_the_size_of_a_collection(make_table: MakeTable) -> None:
    plain, indexed = make_table("pk:S", "sk:S"), make_table("pk:S", "sk:S", lsi={"Index": "other:S"})
    item = {"pk": "a", "sk": "b"}

    metrics = indexed.put_item(Item=item, ReturnItemCollectionMetrics="SIZE")["ItemCollectionMetrics"]

    assert {"ItemCollectionKey": {"pk": "a"}, "SizeEstimateRangeGB": [0, 1]} == metrics
    assert "ItemCollectionMetrics" not in plain.put_item(Item=item, ReturnItemCollectionMetrics="SIZE")


@pytest.mark.spec("S09")
def test_a_request_reads_one_table(make_table: MakeTable) -> None:
    """Nothing joins; BatchGetItem is the one read that names several tables, and gives each its own answer."""
    left, right = make_table("pk:S"), make_table("pk:S")
    left.put_item(Item={"pk": "a", "l": 1})
    right.put_item(Item={"pk": "a", "r": 2})
    keys = {"Keys": [{"pk": "a"}]}

    found = left.meta.client.batch_get_item(RequestItems={left.name: keys, right.name: keys})["Responses"]

    assert {left.name: [{"pk": "a", "l": 1}], right.name: [{"pk": "a", "r": 2}]} == found


SEED_VALUES = [
    {"S": "Bicycle"},
    {"N": "300"},
    {"B": b"this text is base64-encoded"},
    {"SS": ["Black", "Green", "Red"]},
    {"NS": ["-19", "3.14", "7.5", "42.2"]},
    {"BS": [b"Rainy", b"Snowy", b"Sunny"]},
]


def _unordered(value: dict[str, Any]) -> dict[str, Any]:
    return {kind: sorted(v) if kind in ("SS", "NS", "BS") else v for kind, v in value.items()}


@pytest.mark.spec("S10")
@pytest.mark.parametrize("value", SEED_VALUES, ids=lambda value: next(iter(value)))
def test_the_seeds_values_round_trip(make_table: MakeTable, client: Any, value: dict[str, Any]) -> None:
    table = make_table("pk:S")
    client.put_item(TableName=table.name, Item={"pk": {"S": "a"}, "v": value})
    found = client.get_item(TableName=table.name, Key={"pk": {"S": "a"}})["Item"]["v"]

    assert _unordered(value) == _unordered(found)


def _nested(depth: int) -> Any:
    value: Any = "leaf"
    for level in range(depth):
        value = [value] if level % 2 else {"m": value}
    return value


@pytest.mark.spec("S11")
def test_all_ten_types_nest_and_paths_reach_into_them(make_table: MakeTable) -> None:
    table = make_table("pk:S")
    document = {
        "s": "x",
        "n": Decimal("1.5"),
        "b": Binary(b"\x00"),
        "ss": {"a"},
        "ns": {Decimal(1)},
        "bs": {Binary(b"\x01")},
        "bool": True,
        "null": None,
        "list": [1, {"deep": ["x", "y"]}],
        "map": {},
    }
    table.put_item(Item={"pk": "a", "doc": document})
    table.update_item(
        Key={"pk": "a"},
        UpdateExpression="SET doc.#l[1].deep[0] = :v",
        ExpressionAttributeNames={"#l": "list"},
        ExpressionAttributeValues={":v": "changed"},
    )
    found = table.get_item(
        Key={"pk": "a"}, ProjectionExpression="doc.#l[1].deep[0]", ExpressionAttributeNames={"#l": "list"}
    )["Item"]

    assert {"doc": {"list": [{"deep": ["changed"]}]}} == found
    changed = {**document, "list": [1, {"deep": ["changed", "y"]}]}
    assert changed == table.get_item(Key={"pk": "a"})["Item"]["doc"]


@pytest.mark.spec("S11")
def test_documents_nest_to_32_levels(make_table: MakeTable) -> None:
    table = make_table("pk:S")
    table.put_item(Item={"pk": "a", "d": _nested(31)})

    with invalid("Nesting Levels have exceeded supported limits"):
        table.put_item(Item={"pk": "a", "d": _nested(32)})


class Comparisons:
    """Conditions on an attribute `v` of one item, as a served process evaluates them."""

    def __init__(self, client: Any, table: str) -> None:
        self._client = client
        self._table = table

    def put(self, value: dict[str, Any]) -> None:
        self._client.put_item(TableName=self._table, Item={"pk": {"S": "a"}, "v": value})

    def holds(self, condition: str, **values: dict[str, Any]) -> bool:
        """Return whether a condition holds for the item. `values` are its placeholders without the colon."""
        try:
            self._client.update_item(
                TableName=self._table,
                Key={"pk": {"S": "a"}},
                ConditionExpression=condition,
                ExpressionAttributeValues={f":{name}": value for name, value in values.items()},
            )
        except self._client.exceptions.ConditionalCheckFailedException:
            return False
        return True

    def true_of(self, value: dict[str, Any], other: dict[str, Any], among: str) -> str:
        """Return those of the comparators in `among` that hold between two values."""
        self.put(value)
        return " ".join(sign for sign in among.split() if self.holds(f"v {sign} :x", x=other))


@pytest.fixture
def compare(make_table: MakeTable, client: Any) -> Comparisons:
    return Comparisons(client, make_table("pk:S").name)


COMPARATORS = "= <> < <= > >="


@pytest.mark.spec("S12")
@pytest.mark.parametrize(
    ("less", "more"),
    [("A", "a"), ("B", "aa"), ("a", "aa"), ("10", "9"), ("z", "é"), ("\uffff", "\U0001f6b2")],
)
def test_strings_compare_by_their_utf8_bytes(compare: Comparisons, less: str, more: str) -> None:
    """The last pair has the other order in UTF-16."""
    small, large = {"S": less}, {"S": more}

    assert "<> < <=" == compare.true_of(small, large, COMPARATORS)
    assert "<> > >=" == compare.true_of(large, small, COMPARATORS)
    assert "= <= >=" == compare.true_of(small, small, COMPARATORS)


@pytest.mark.spec("S12")
def test_equal_strings_have_equal_bytes(compare: Comparisons) -> None:
    """An accent of its own and a letter with an accent look alike, and are two strings."""
    compare.put({"S": "é"})

    assert compare.holds("v = :x", x={"S": "\u00e9"})
    assert not compare.holds("v = :x", x={"S": "e\u0301"})
    assert not compare.holds("v = :x", x={"S": "É"})


@pytest.mark.spec("S12")
def test_strings_begin_with_and_contain_exact_bytes(compare: Comparisons) -> None:
    compare.put({"S": "Bicycle"})

    for condition, true, false in (
        ("begins_with(v, :x)", ["B", "Bicycle"], ["b", "icycle", "Bicycles"]),
        ("contains(v, :x)", ["cycle", "Bicycle"], ["Cycle", "bicycle", "Bicycles"]),
        ("v IN (:x)", ["Bicycle"], ["bicycle", "Bicycl"]),
        ("v BETWEEN :x AND :x", ["Bicycle"], ["Bicycl", "Bicycles"]),
    ):
        assert true == [text for text in [*true, *false] if compare.holds(condition, x={"S": text})], (
            condition
        )


@pytest.mark.spec("S04", "S12")
def test_a_sort_key_range_goes_by_utf8_bytes(make_table: MakeTable) -> None:
    table = make_table("pk:S", "sk:S")
    ascending = ["A", "B", "a", "aa", "b", "é", "\uffff", "\U0001f6b2"]
    for name in ascending:
        table.put_item(Item={"pk": "a", "sk": name})

    for nth, name in enumerate(ascending):
        for condition, expected in (
            (Key("sk").lt(name), ascending[:nth]),
            (Key("sk").lte(name), ascending[: nth + 1]),
            (Key("sk").gt(name), ascending[nth + 1 :]),
            (Key("sk").gte(name), ascending[nth:]),
        ):
            found = table.query(KeyConditionExpression=Key("pk").eq("a") & condition)["Items"]
            assert expected == [item["sk"] for item in found]


@pytest.mark.spec("S13")
@pytest.mark.parametrize(
    ("less", "more"),
    [("9", "10"), ("-10", "-9"), ("-1", "0"), ("1E-130", "2E-130"), ("-1E-130", "1E-130"), ("1", "1.01")],
)
def test_numbers_compare_by_their_value(compare: Comparisons, less: str, more: str) -> None:
    small, large = {"N": less}, {"N": more}

    assert "<> < <=" == compare.true_of(small, large, COMPARATORS)
    assert "<> > >=" == compare.true_of(large, small, COMPARATORS)
    assert "= <= >=" == compare.true_of(large, large, COMPARATORS)


@pytest.mark.spec("S13")
def test_arithmetic_is_exact(make_table: MakeTable) -> None:
    table = make_table("pk:S")
    a, b = Decimal("0.1"), Decimal("12345678901234567890123456789012345.67")
    table.put_item(Item={"pk": "a", "a": a, "b": b})
    table.update_item(Key={"pk": "a"}, UpdateExpression="SET c = a + b, d = b - a")
    found = table.get_item(Key={"pk": "a"})["Item"]

    assert Decimal("12345678901234567890123456789012345.77") == found["c"]
    assert Decimal("12345678901234567890123456789012345.57") == found["d"]


@pytest.mark.spec("S13")
@pytest.mark.parametrize(
    ("text", "canonical"),
    [("0001.500", "1.5"), ("-0", "0"), ("1E2", "100"), ("+7", "7"), ("1e-3", "0.001")],
)
def test_numbers_lose_their_zeros(make_table: MakeTable, client: Any, text: str, canonical: str) -> None:
    table = make_table("pk:S")
    client.put_item(TableName=table.name, Item={"pk": {"S": "a"}, "n": {"N": text}})

    assert {"N": canonical} == client.get_item(TableName=table.name, Key={"pk": {"S": "a"}})["Item"]["n"]


NINES = "9" * 38
OVERFLOW = "Number overflow. Attempting to store a number with magnitude larger than supported range"
UNDERFLOW = "Number underflow. Attempting to store a number with magnitude smaller than supported range"
TOO_PRECISE = "Attempting to store more than 38 significant digits in a Number"


@pytest.mark.spec("S13")
@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("text", [f"{NINES}E+88", NINES, f"0.{NINES}", "1E-130", f"1.{'0' * 36}1E-93"])
def test_the_bounds_of_numbers_are_in_range(make_table: MakeTable, client: Any, sign: str, text: str) -> None:
    table = make_table("pk:S")
    client.put_item(TableName=table.name, Item={"pk": {"S": "a"}, "n": {"N": sign + text}})
    found = client.get_item(TableName=table.name, Key={"pk": {"S": "a"}})["Item"]["n"]["N"]

    assert Decimal(sign + text) == Decimal(found)


@pytest.mark.spec("S13")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1E126", OVERFLOW),
        ("-1E126", OVERFLOW),
        ("1E-131", UNDERFLOW),
        ("-1E-131", UNDERFLOW),
        (f"{NINES[:37]}E-168", UNDERFLOW),
        (f"{NINES}9", TOO_PRECISE),
        (f"-{NINES}9", TOO_PRECISE),
        (f"0.1{'0' * 37}1", TOO_PRECISE),
        ("one", "The parameter cannot be converted to a numeric value: one"),
    ],
)
def test_numbers_out_of_range_are_refused(
    make_table: MakeTable, client: Any, text: str, message: str
) -> None:
    table = make_table("pk:S")

    with invalid(message):
        client.put_item(TableName=table.name, Item={"pk": {"S": "a"}, "n": {"N": text}})


LEAST = "1E-130"


@pytest.mark.spec("S13")
@pytest.mark.parametrize("sign", ["", "-"], ids=["above-zero", "below-zero"])
@pytest.mark.parametrize(
    ("before", "operation", "message"),
    [
        ("9E125", "n + 1E125", OVERFLOW),
        ("9E125", "ADD 1E125", OVERFLOW),
        ("1.1E-130", f"n - {LEAST}", UNDERFLOW),
        (LEAST, "n - 1.1E-130", UNDERFLOW),
        (NINES, "n + 0.1", TOO_PRECISE),
        ("1E125", "ADD 1", TOO_PRECISE),
    ],
)
def test_an_update_may_not_leave_the_range_of_numbers(
    make_table: MakeTable, client: Any, sign: str, before: str, operation: str, message: str
) -> None:
    """The result is refused though both numbers are in range, and the item stays as it was."""
    table = make_table("pk:S")
    client.put_item(TableName=table.name, Item={"pk": {"S": "a"}, "n": {"N": sign + before}})
    *how, operand = operation.split()

    with invalid(message):
        client.update_item(
            TableName=table.name,
            Key={"pk": {"S": "a"}},
            UpdateExpression="ADD n :n" if how == ["ADD"] else f"SET n = {' '.join(how)} :n",
            ExpressionAttributeValues={":n": {"N": sign + operand}},
        )
    found = client.get_item(TableName=table.name, Key={"pk": {"S": "a"}})["Item"]["n"]["N"]
    assert Decimal(sign + before) == Decimal(found)


@pytest.mark.spec("S13")
@pytest.mark.parametrize(
    ("before", "operation", "after"),
    [
        (LEAST, f"n - {LEAST}", "0"),
        ("1.1E-129", f"n - {LEAST}", "1E-129"),
        ("-1.1E-129", f"n + {LEAST}", "-1E-129"),
        (NINES, f"n - {NINES}", "0"),
        (NINES, "n + 1", "1" + "0" * 38),
        ("8E125", "n + 1E125", "9E125"),
    ],
)
def test_an_update_may_reach_the_bounds_of_numbers(
    make_table: MakeTable, client: Any, before: str, operation: str, after: str
) -> None:
    table = make_table("pk:S")
    client.put_item(TableName=table.name, Item={"pk": {"S": "a"}, "n": {"N": before}})
    *how, operand = operation.split()
    client.update_item(
        TableName=table.name,
        Key={"pk": {"S": "a"}},
        UpdateExpression=f"SET n = {' '.join(how)} :n",
        ExpressionAttributeValues={":n": {"N": operand}},
    )

    found = client.get_item(TableName=table.name, Key={"pk": {"S": "a"}})["Item"]["n"]["N"]
    assert Decimal(after) == Decimal(found)


@pytest.mark.spec("S14", "S32")
def test_binary_counts_its_raw_bytes(make_table: MakeTable) -> None:
    table = make_table("pk:S")
    table.put_item(Item={"pk": "a", "b": bytes(range(256))})

    assert len("pk") + len("a") + len("b") + 256 == stored_size(table)


@pytest.mark.spec("S15")
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"SS": []}, "may not be empty"),
        ({"SS": ["a", "a"]}, "contains duplicates"),
        ({"BS": [b"a", b"a"]}, "contains duplicates"),
        ({"NS": ["1", "1.0"]}, "contains duplicates"),
        ({"NS": ["100", "2", "1E2"]}, "contains duplicates"),
        ({"NS": ["0", "-0"]}, "contains duplicates"),
    ],
    ids=["empty", "a-string", "bytes", "a-number-spelt-twice", "an-exponent", "a-zero-below-zero"],
)
def test_a_set_is_not_empty_and_holds_each_value_once(
    make_table: MakeTable, client: Any, value: dict[str, Any], message: str
) -> None:
    table = make_table("pk:S")

    with invalid(message):
        client.put_item(TableName=table.name, Item={"pk": {"S": "a"}, "v": value})


@pytest.mark.spec("S15")
@pytest.mark.parametrize(
    "value",
    [{"SS": ["1", "1.0", "a", "A", "a "]}, {"NS": ["1", "-1", "1.01", "10"]}, {"BS": [b"a", b"A", b"a\0"]}],
    ids=lambda value: next(iter(value)),
)
def test_values_that_look_alike_are_several_members_of_a_set(
    make_table: MakeTable, client: Any, value: dict[str, Any]
) -> None:
    table = make_table("pk:S")
    client.put_item(TableName=table.name, Item={"pk": {"S": "a"}, "v": value})

    assert _unordered(value) == _unordered(
        client.get_item(TableName=table.name, Key={"pk": {"S": "a"}})["Item"]["v"]
    )


@pytest.mark.spec("S15")
@pytest.mark.parametrize(
    ("value", "equal", "unequal"),
    [
        (
            {"NS": ["2", "1.0"]},
            [{"NS": ["1", "2.00"]}, {"NS": ["2", "1"]}],
            [{"NS": ["1"]}, {"NS": ["1", "2", "3"]}, {"NS": ["1", "2.01"]}, {"SS": ["1", "2"]}],
        ),
        (
            {"SS": ["a", "b"]},
            [{"SS": ["b", "a"]}],
            [{"SS": ["a"]}, {"SS": ["a", "B"]}, {"SS": ["a", "b", "c"]}, {"L": [{"S": "a"}, {"S": "b"}]}],
        ),
        (
            {"BS": [b"a", b"b"]},
            [{"BS": [b"b", b"a"]}],
            [{"BS": [b"a"]}, {"BS": [b"a", b"B"]}, {"SS": ["a", "b"]}],
        ),
    ],
    ids=["numbers", "strings", "binary"],
)
def test_sets_are_equal_if_their_members_are(
    compare: Comparisons, value: dict[str, Any], equal: list[Any], unequal: list[Any]
) -> None:
    assert ["="] * len(equal) == [compare.true_of(value, other, "= <>") for other in equal]
    assert ["<>"] * len(unequal) == [compare.true_of(value, other, "= <>") for other in unequal]


@pytest.mark.spec("S15")
def test_one_and_one_point_zero_are_one_member_of_a_set(compare: Comparisons) -> None:
    compare.put({"NS": ["1.0", "2"]})

    assert compare.holds("contains(v, :x)", x={"N": "1"})
    assert compare.holds("contains(v, :x)", x={"N": "1.00"})
    assert compare.holds("size(v) = :x", x={"N": "2"})
    assert not compare.holds("contains(v, :x)", x={"N": "1.1"})
    assert not compare.holds("contains(v, :x)", x={"S": "1"})
    assert not compare.holds("size(v) = :x", x={"N": "3"})


@pytest.mark.spec("S15")
def test_an_update_adds_and_deletes_members_by_their_value(make_table: MakeTable, client: Any) -> None:
    table = make_table("pk:S")
    client.put_item(TableName=table.name, Item={"pk": {"S": "a"}, "v": {"NS": ["1", "2"]}})

    def update(expression: str, *members: str) -> list[Decimal]:
        after = client.update_item(
            TableName=table.name,
            Key={"pk": {"S": "a"}},
            UpdateExpression=expression,
            ExpressionAttributeValues={":x": {"NS": list(members)}},
            ReturnValues="ALL_NEW",
        )["Attributes"]["v"]["NS"]
        return sorted(map(Decimal, after))

    assert [1, 2, 3] == update("ADD v :x", "1.0", "3")
    assert [2, 3] == update("DELETE v :x", "1.00", "4")


LARGEST = 400 * KIB
TOO_LARGE = "Item size has exceeded the maximum allowed size"


@pytest.mark.spec("S16", "S18")
def test_an_item_may_have_400_kib_and_not_a_byte_more(make_table: MakeTable) -> None:
    table = make_table("pk:S")
    table.put_item(Item=sized(LARGEST, pk="a"))

    assert LARGEST == stored_size(table)
    with invalid(TOO_LARGE):
        table.put_item(Item=sized(LARGEST + 1, pk="a"))


@pytest.mark.spec("S16")
def test_an_update_may_not_make_an_item_too_large(make_table: MakeTable) -> None:
    table = make_table("pk:S")
    table.put_item(Item=sized(LARGEST - 10, pk="a"))
    add = {"UpdateExpression": "SET e = :e", "Key": {"pk": "a"}}

    with invalid("Item size to update has exceeded the maximum allowed size"):
        table.update_item(**add, ExpressionAttributeValues={":e": "x" * 10})
    table.update_item(**add, ExpressionAttributeValues={":e": "x" * 9})
    assert LARGEST == stored_size(table)


@pytest.mark.spec("S16")
def test_a_transaction_may_not_make_an_item_too_large(make_table: MakeTable) -> None:
    table = make_table("pk:S")
    table.put_item(Item=sized(LARGEST, pk="a"))
    update = {
        "TableName": table.name,
        "Key": {"pk": "a"},
        "UpdateExpression": "SET e = :e",
        "ExpressionAttributeValues": {":e": "x"},
    }

    with refused("TransactionCanceledException", "[ValidationError, None]"):
        table.meta.client.transact_write_items(
            TransactItems=[{"Update": update}, {"Put": {"TableName": table.name, "Item": {"pk": "b"}}}]
        )
    assert 1 == table.scan()["Count"]


@pytest.mark.spec("S16", "S21")
def test_with_an_lsi_item_and_entries_are_measured_together(make_table: MakeTable) -> None:
    table = make_table("pk:S", "sk:S", lsi={"Lsi": "l:S"})
    table.put_item(Item=sized(LARGEST // 2 - KIB, pk="a", sk="b", l="c"))

    with invalid("exceeded the maximum allowed size"):
        table.put_item(Item=sized(LARGEST // 2 + KIB, pk="a", sk="b", l="c"))
    table.put_item(Item=sized(LARGEST, pk="a", sk="b"))


@pytest.mark.spec("S17")
@pytest.mark.parametrize("name", ["xyz", "X.y-z_9", "x" * 255])
def test_table_names_are_case_sensitive_words_of_3_to_255(client: Any, name: str) -> None:
    client.create_table(**table_request(name, "pk:S"))
    client.create_table(**table_request(name.swapcase(), "pk:S"))
    client.put_item(TableName=name, Item={"pk": {"S": "a"}})

    assert 1 == client.scan(TableName=name)["Count"]
    assert 0 == client.scan(TableName=name.swapcase())["Count"]
    client.delete_table(TableName=name)
    client.delete_table(TableName=name.swapcase())


@pytest.mark.spec("S17")
@pytest.mark.parametrize("name", ["ab", "x" * 256, "a b c", "a/b", "tablé"])
def test_other_table_names_are_refused(resource: Any, name: str) -> None:
    with invalid("tableName" if name != "a/b" else ""):
        resource.create_table(**table_request(name, "pk:S"))


@pytest.mark.spec("S18")
def test_a_larger_value_is_stored_in_parts(make_table: MakeTable) -> None:
    """The pattern of docs/recipes.md: parts of a collection, written and read together."""
    table = make_table("pk:S", "part:N")
    document = "".join(f"{n:07}," for n in range(100_000))
    step = 300 * KIB
    with table.batch_writer() as batch:
        for n, start in enumerate(range(0, len(document), step)):
            batch.put_item(Item={"pk": "document", "part": n, "text": document[start : start + step]})

    parts = everything(table.query, KeyConditionExpression=Key("pk").eq("document"))

    assert document == "".join(part["text"] for part in parts)
