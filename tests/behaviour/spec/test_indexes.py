"""Local and global secondary indexes."""

from typing import Any

import pytest
from boto3.dynamodb.conditions import Attr, Key

from tests.support.claims import add_index, everything, invalid, refused, sized
from tests.support.raw import ask
from tests.support.tables import MakeTable, table_request

pytestmark = pytest.mark.divided

REPLIES = [
    {"Id": "S3#Thread 1", "ReplyDateTime": "2015-09-15T19:58:22", "PostedBy": "User A", "Message": "one"},
    {"Id": "S3#Thread 1", "ReplyDateTime": "2015-09-22T19:58:22", "PostedBy": "User B", "Message": "two"},
    {"Id": "S3#Thread 1", "ReplyDateTime": "2015-09-29T19:58:22", "PostedBy": "User A", "Message": "three"},
    {"Id": "S3#Thread 2", "ReplyDateTime": "2015-10-05T19:58:22", "PostedBy": "User A", "Message": "four"},
]

# A table of music, with genres and albums, and another with years.
GENRES = [
    {"Artist": "Kyuss", "Song": "Demon Cleaner", "Album": "Welcome To Sky Valley", "Genre": "Rock"},
    {"Artist": "Kyuss", "Song": "Space Cadet", "Album": "Welcome To Sky Valley", "Genre": "Rock"},
    {"Artist": "1000mods", "Song": "Claws", "Genre": "Rock"},
    {"Artist": "1000mods", "Song": "Vidage", "Album": "Super Van Vacation", "Genre": "Rock"},
    {"Artist": "Solar Fields", "Song": "Air Song", "Album": "Leaving Home", "Genre": "Electronic"},
]
YEARS = [
    {"Artist": "1000mods", "Song": "Claws", "Year": 2014},
    {"Artist": "1000mods", "Song": "Road To Burn", "Year": 2011},
    {"Artist": "1000mods", "Song": "Vidage", "Year": 2011},
    {"Artist": "Solar Fields", "Song": "Sombrero", "Year": 2011},
]


def _fill(table: Any, items: list[dict[str, Any]]) -> Any:
    for item in items:
        table.put_item(Item=item)
    return table


@pytest.fixture
def replies(make_table: MakeTable) -> Any:
    return _fill(make_table("Id:S", "ReplyDateTime:S", lsi={"PostedBy": "PostedBy:S KEYS_ONLY"}), REPLIES)


@pytest.fixture
def genres(make_table: MakeTable) -> Any:
    return _fill(make_table("Artist:S", "Song:S", gsi={"Genres": "Genre:S Album:S KEYS_ONLY"}), GENRES)


@pytest.fixture
def years(make_table: MakeTable) -> Any:
    return _fill(make_table("Artist:S", "Song:S", lsi={"Years": "Year:N KEYS_ONLY"}), YEARS)


@pytest.mark.spec("S06", "S19")
def test_an_lsi_finds_the_replies_of_one_user_in_a_thread(replies: Any) -> None:
    found = replies.query(
        IndexName="PostedBy",
        KeyConditionExpression=Key("Id").eq("S3#Thread 1") & Key("PostedBy").eq("User A"),
    )

    assert ["2015-09-15T19:58:22", "2015-09-29T19:58:22"] == [
        item["ReplyDateTime"] for item in found["Items"]
    ]


@pytest.mark.spec("S06")
def test_replies_of_a_thread_come_by_date_and_name_their_thread(replies: Any, make_table: MakeTable) -> None:
    """A reply's Id is its forum and its subject: parsing it is the way back, since nothing joins."""
    threads = make_table("ForumName:S", "Subject:S")
    threads.put_item(Item={"ForumName": "S3", "Subject": "Thread 1", "Views": 7})
    found = replies.query(
        KeyConditionExpression=Key("Id").eq("S3#Thread 1") & Key("ReplyDateTime").gt("2015-09-20"),
        ScanIndexForward=False,
    )["Items"]
    forum, subject = found[0]["Id"].split("#")

    assert ["three", "two"] == [reply["Message"] for reply in found]
    assert 7 == threads.get_item(Key={"ForumName": forum, "Subject": subject})["Item"]["Views"]


@pytest.mark.spec("S19")
def test_a_table_has_at_most_five_lsis(make_table: MakeTable, resource: Any) -> None:
    make_table("pk:S", "sk:S", lsi={f"Lsi{n}": f"a{n}:S KEYS_ONLY" for n in range(5)})

    with invalid("LocalSecondaryIndexes"):
        resource.create_table(
            **table_request("six", "pk:S", "sk:S", lsi={f"Lsi{n}": f"a{n}:S KEYS_ONLY" for n in range(6)})
        )


@pytest.mark.spec("S19")
def test_an_lsi_needs_a_sort_key_in_the_table(resource: Any) -> None:
    request = table_request("no-sort", "pk:S", lsi={"Lsi": "other:S"})

    with invalid():
        resource.create_table(**request)


@pytest.mark.spec("S19")
def test_an_lsi_cannot_be_added_later(make_table: MakeTable, endpoint: str) -> None:
    """UpdateTable has no word for it, so the request has to be written by hand."""
    table = make_table("pk:S", "sk:S")
    lsi = table_request("x", "pk:S", "sk:S", lsi={"Later": "other:S"})["LocalSecondaryIndexes"]
    answer = ask(
        endpoint, "UpdateTable", {"TableName": table.name, "LocalSecondaryIndexUpdates": [{"Create": lsi[0]}]}
    )
    table.reload()

    assert 400 == answer.status
    assert table.local_secondary_indexes is None


@pytest.mark.spec("S20")
def test_an_lsi_reads_consistently_and_fetches_attributes(replies: Any) -> None:
    request: dict[str, Any] = {
        "IndexName": "PostedBy",
        "KeyConditionExpression": Key("Id").eq("S3#Thread 1"),
        "ConsistentRead": True,
        "ReturnConsumedCapacity": "TOTAL",
    }
    keys = replies.query(**request)
    whole = replies.query(**request, Select="ALL_ATTRIBUTES")

    assert {"Id", "ReplyDateTime", "PostedBy"} == set(keys["Items"][0])
    assert "one" == whole["Items"][0]["Message"]
    # One page of keys is one unit; each of the three items fetched is one more.
    assert (1, 4) == (keys["ConsumedCapacity"]["CapacityUnits"], whole["ConsumedCapacity"]["CapacityUnits"])


@pytest.mark.spec("S20")
def test_the_cost_of_a_fetch_is_the_tables(replies: Any) -> None:
    found = replies.query(
        IndexName="PostedBy",
        KeyConditionExpression=Key("Id").eq("S3#Thread 1"),
        Select="ALL_ATTRIBUTES",
        ReturnConsumedCapacity="INDEXES",
    )["ConsumedCapacity"]

    assert 1.5 == found["Table"]["CapacityUnits"]
    assert 0.5 == found["LocalSecondaryIndexes"]["PostedBy"]["CapacityUnits"]


@pytest.mark.spec("S20", "S25")
@pytest.mark.parametrize("index", ["Lsi", "Gsi"])
def test_a_query_filter_needs_projected_attributes_a_scan_not(make_table: MakeTable, index: str) -> None:
    table = make_table("pk:S", "sk:S", lsi={"Lsi": "l:S KEYS_ONLY"}, gsi={"Gsi": "pk:S l:S KEYS_ONLY"})
    table.put_item(Item={"pk": "a", "sk": "b", "l": "c", "x": 1, "y": 2})
    beyond = Attr("y").eq(2) & Attr("x").eq(1)
    query = {"IndexName": index, "KeyConditionExpression": Key("pk").eq("a")}

    with invalid(f"Secondary index {index} does not project one or more filter attributes: [x, y]"):
        table.query(**query, FilterExpression=beyond)
    assert 1 == table.query(**query, FilterExpression=Attr("sk").eq("b"))["Count"]
    assert 0 == table.scan(IndexName=index, FilterExpression=beyond)["Count"]


@pytest.mark.spec("S20")
def test_projecting_other_attributes_of_an_lsi_fetches_them(replies: Any) -> None:
    found = replies.query(
        IndexName="PostedBy",
        KeyConditionExpression=Key("Id").eq("S3#Thread 1"),
        ProjectionExpression="Message",
        ReturnConsumedCapacity="INDEXES",
    )

    assert [{"Message": "one"}, {"Message": "three"}, {"Message": "two"}] == found["Items"]
    used = found["ConsumedCapacity"]
    assert (1.5, 0.5) == (
        used["Table"]["CapacityUnits"],
        used["LocalSecondaryIndexes"]["PostedBy"]["CapacityUnits"],
    )


@pytest.mark.spec("S22")
def test_a_gsi_can_be_added_is_filled_and_can_be_removed(make_table: MakeTable) -> None:
    table = _fill(make_table("Artist:S", "Song:S"), GENRES)
    add_index(table, "Genres", "Genre:S Album:S")

    assert 3 == table.query(IndexName="Genres", KeyConditionExpression=Key("Genre").eq("Rock"))["Count"]

    table.meta.client.update_table(
        TableName=table.name, GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "Genres"}}]
    )
    while table.global_secondary_indexes:
        table.reload()
    with invalid("The table does not have the specified index: Genres"):
        table.query(IndexName="Genres", KeyConditionExpression=Key("Genre").eq("Rock"))


@pytest.mark.spec("S22", "S24")
def test_a_gsi_has_throughput_of_its_own(make_table: MakeTable) -> None:
    request = table_request("x", "pk:S", gsi={"Slow": "other:S"})
    units = {"ReadCapacityUnits": 100, "WriteCapacityUnits": 100}
    slow = request["GlobalSecondaryIndexes"][0] | {
        "ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 1}
    }
    table = make_table(
        "pk:S", "other:S", KeySchema=request["KeySchema"], GlobalSecondaryIndexes=[slow],
        BillingMode="PROVISIONED", ProvisionedThroughput=units,
    )  # fmt: skip
    table.reload()
    throughput = table.global_secondary_indexes[0]["ProvisionedThroughput"]

    assert (5, 1) == (throughput["ReadCapacityUnits"], throughput["WriteCapacityUnits"])
    written = table.put_item(Item={"pk": "a", "other": "b"}, ReturnConsumedCapacity="INDEXES")[
        "ConsumedCapacity"
    ]
    assert 1 == written["Table"]["CapacityUnits"]
    assert 1 == written["GlobalSecondaryIndexes"]["Slow"]["CapacityUnits"]


@pytest.mark.spec("S22")
def test_a_table_has_at_most_twenty_gsis(make_table: MakeTable, resource: Any) -> None:
    table = make_table("pk:S", gsi={f"Gsi{n}": f"a{n}:S" for n in range(20)})

    with invalid("GlobalSecondaryIndex"):
        resource.create_table(
            **table_request("too-many", "pk:S", gsi={f"Gsi{n}": f"a{n}:S" for n in range(21)})
        )
    with refused(
        "LimitExceededException", "Number of global secondary indexes exceeds per-table limit of 20"
    ):
        add_index(table, "Gsi20", "a20:S")


@pytest.mark.spec("S23")
def test_a_gsi_is_not_read_consistently(genres: Any) -> None:
    with invalid("Consistent reads are not supported on global secondary indexes"):
        genres.query(IndexName="Genres", KeyConditionExpression=Key("Genre").eq("Rock"), ConsistentRead=True)


@pytest.mark.spec("S25")
def test_a_gsi_does_not_fetch(genres: Any) -> None:
    request: dict[str, Any] = {"IndexName": "Genres", "KeyConditionExpression": Key("Genre").eq("Rock")}
    genres.put_item(Item=GENRES[0] | {"Year": 1994})

    with invalid("Select type ALL_ATTRIBUTES is not supported for global secondary index Genres"):
        genres.query(**request, Select="ALL_ATTRIBUTES")
    with invalid("Global secondary index Genres does not project [Year]"):
        genres.query(**request, ProjectionExpression="Artist, #y", ExpressionAttributeNames={"#y": "Year"})
    assert all("Year" not in item for item in genres.query(**request)["Items"])


@pytest.mark.spec("S26", "S29")
def test_index_sort_keys_need_not_be_unique(genres: Any) -> None:
    condition = Key("Genre").eq("Rock") & Key("Album").eq("Welcome To Sky Valley")
    first, again = (
        genres.query(IndexName="Genres", KeyConditionExpression=condition)["Items"] for _ in range(2)
    )

    assert ["Demon Cleaner", "Space Cadet"] == sorted(item["Song"] for item in first)
    assert first == again


@pytest.mark.spec("S27", "S29")
def test_an_item_without_an_index_key_is_not_in_the_index(genres: Any) -> None:
    assert "Claws" not in [item["Song"] for item in genres.scan(IndexName="Genres")["Items"]]

    genres.update_item(
        Key={"Artist": "1000mods", "Song": "Claws"},
        UpdateExpression="SET Album = :a",
        ExpressionAttributeValues={":a": "Vultures"},
    )
    assert "Claws" in [item["Song"] for item in genres.scan(IndexName="Genres")["Items"]]

    genres.update_item(Key={"Artist": "1000mods", "Song": "Claws"}, UpdateExpression="REMOVE Genre")
    assert 4 == genres.scan(IndexName="Genres")["Count"]


@pytest.mark.spec("S27")
def test_an_index_key_of_another_type_is_refused(genres: Any) -> None:
    with invalid("Type mismatch for Index Key Album Expected: S Actual: N IndexName: Genres"):
        genres.put_item(Item={"Artist": "a", "Song": "b", "Genre": "Rock", "Album": 7})


PROJECTIONS = [("KEYS_ONLY", {"pk", "g"}), ("kept", {"pk", "g", "kept"}), ("", {"pk", "g", "kept", "left"})]


@pytest.mark.spec("S28")
@pytest.mark.parametrize(("projection", "attributes"), PROJECTIONS, ids=["KEYS_ONLY", "INCLUDE", "ALL"])
def test_an_index_holds_its_projection_and_nothing_else(
    make_table: MakeTable, projection: str, attributes: set[str]
) -> None:
    table = make_table("pk:S", gsi={"Index": f"g:S {projection}"})
    table.put_item(Item={"pk": "a", "g": "b", "kept": "c", "left": "d"})
    table.reload()

    assert [attributes] == [set(item) for item in table.scan(IndexName="Index")["Items"]]
    size = sum(len(name) + 1 for name in attributes)
    assert size + 100 == table.global_secondary_indexes[0]["IndexSizeBytes"]


@pytest.mark.spec("S29")
def test_the_genres_of_the_seeds(genres: Any) -> None:
    def songs(genre: str) -> list[tuple[str, str]]:
        found = genres.query(IndexName="Genres", KeyConditionExpression=Key("Genre").eq(genre))
        return [(item["Album"], item["Artist"]) for item in found["Items"]]

    rock, electronic = songs("Rock"), songs("Electronic")

    assert [
        ("Super Van Vacation", "1000mods"),
        ("Welcome To Sky Valley", "Kyuss"),
        ("Welcome To Sky Valley", "Kyuss"),
    ] == rock
    assert [("Leaving Home", "Solar Fields")] == electronic
    assert ["Super Van Vacation", "Welcome To Sky Valley"] == list(dict.fromkeys(album for album, _ in rock))


@pytest.mark.spec("S30")
def test_the_years_of_the_seeds(years: Any) -> None:
    def songs(condition: Any) -> list[tuple[int, str]]:
        found = years.query(IndexName="Years", KeyConditionExpression=condition)["Items"]
        return [(int(item["Year"]), item["Song"]) for item in found]

    in_order = songs(Key("Artist").eq("1000mods"))
    assert [2011, 2011, 2014] == [year for year, _ in in_order]
    assert {(2011, "Vidage"), (2011, "Road To Burn"), (2014, "Claws")} == set(in_order)
    assert in_order[:2] == songs(Key("Artist").eq("1000mods") & Key("Year").eq(2011))
    assert [(2011, "Sombrero")] == songs(Key("Artist").eq("Solar Fields"))


@pytest.mark.spec("S31")
def test_describe_table_returns_the_indexes(make_table: MakeTable) -> None:
    table = make_table("pk:S", "sk:S", gsi={"Global": "g:S KEYS_ONLY"}, lsi={"Local": "l:S"})
    table.put_item(Item={"pk": "a", "sk": "b", "g": "c", "l": "d"})
    table.put_item(Item={"pk": "a", "sk": "c", "l": "d"})
    described = table.meta.client.describe_table(TableName=table.name)["Table"]
    of_gsi, of_lsi = described["GlobalSecondaryIndexes"][0], described["LocalSecondaryIndexes"][0]

    assert ("ACTIVE", 1, 108) == (of_gsi["IndexStatus"], of_gsi["ItemCount"], of_gsi["IndexSizeBytes"])
    assert not of_gsi.get("Backfilling")
    assert (2, 218) == (of_lsi["ItemCount"], of_lsi["IndexSizeBytes"])
    assert f"{table.table_arn}/index/Global" == of_gsi["IndexArn"]


@pytest.mark.spec("S22", "S31")
def test_an_index_says_that_it_is_in_the_making(make_table: MakeTable) -> None:
    table = make_table("pk:S")
    request = table_request("x", "g:S", gsi={"Index": "g:S"})
    updated = table.meta.client.update_table(
        TableName=table.name,
        AttributeDefinitions=request["AttributeDefinitions"],
        GlobalSecondaryIndexUpdates=[{"Create": request["GlobalSecondaryIndexes"][0]}],
    )["TableDescription"]
    making = updated["GlobalSecondaryIndexes"][0]

    assert ("UPDATING", "CREATING", True) == (
        updated["TableStatus"],
        making["IndexStatus"],
        making["Backfilling"],
    )


@pytest.mark.spec("S19", "S28")
def test_an_index_is_paged_to_its_end(make_table: MakeTable) -> None:
    table = make_table("pk:S", "sk:N", gsi={"Global": "g:S"}, lsi={"Local": "l:S"})
    for n in range(23):
        table.put_item(Item=sized(200, pk="a", g="same", l="same") | {"sk": n})

    for request in (
        {"IndexName": "Global", "KeyConditionExpression": Key("g").eq("same")},
        {"IndexName": "Local", "KeyConditionExpression": Key("pk").eq("a")},
    ):
        found = everything(table.query, **request, Limit=5)
        assert list(range(23)) == sorted(item["sk"] for item in found)
        backward = everything(table.query, **request, Limit=4, ScanIndexForward=False)
        assert found == backward[::-1]


PLACES = [
    {"pk": "p1", "tenant": "T", "region": 1, "state": "open", "city": "b", "at": 1},
    {"pk": "p2", "tenant": "T", "region": 1, "state": "open", "city": "a", "at": 12},
    {"pk": "p3", "tenant": "T", "region": 1, "state": "open", "city": "a", "at": 3},
    {"pk": "p4", "tenant": "T", "region": 1, "state": "draft", "city": "c", "at": 1},
    {"pk": "p5", "tenant": "T", "region": 2, "state": "open", "city": "a", "at": 0},
    {"pk": "p6", "tenant": "T", "region": 1, "state": "open", "at": 1},  # without city, so not in the index
]


@pytest.mark.spec("X10")
def test_an_index_key_of_several_attributes_sorts_by_each(make_table: MakeTable) -> None:
    key = [("tenant", "HASH"), ("region", "HASH"), ("state", "RANGE"), ("city", "RANGE"), ("at", "RANGE")]
    table = make_table(
        "pk:S",
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": "N" if name in ("region", "at") else "S"}
            for name in ("pk", *(name for name, _ in key))
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "places",
                "KeySchema": [{"AttributeName": name, "KeyType": role} for name, role in key],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
    )
    _fill(table, PLACES)
    first = Key("tenant").eq("T") & Key("region").eq(1)

    def found(condition: Any, **options: Any) -> list[str]:
        page = table.query(IndexName="places", KeyConditionExpression=condition, **options)
        return [item["pk"] for item in page["Items"]]

    assert ["p4", "p3", "p2", "p1"] == found(first)
    assert ["p1", "p2", "p3", "p4"] == found(first, ScanIndexForward=False)
    assert ["p3", "p2", "p1"] == found(first & Key("state").eq("open"))
    assert ["p2"] == found(first & Key("state").eq("open") & Key("city").eq("a") & Key("at").gt(3))
    page = table.query(IndexName="places", KeyConditionExpression=first, Limit=2)
    assert {"pk", *(name for name, _ in key)} == set(page["LastEvaluatedKey"])
    assert ["p2", "p1"] == found(first, ExclusiveStartKey=page["LastEvaluatedKey"])
    with invalid("RANGE key attributes state must have equality conditions specified in the query"):
        found(first & Key("city").eq("a"))
