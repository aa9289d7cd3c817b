"""Reads of the past through boto3: tables named with a cut."""

import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from foldb.model.cuts import time_text
from tests.behaviour.spec.conftest import Served
from tests.support.raw import ask
from tests.support.tables import table_request

KEY = {"pk": {"S": "a"}, "sk": {"N": "1"}}
READS = "BatchGetItem, DescribeTable, GetItem, Query, Scan, TransactGetItems"


class Database(Served):
    """A served database."""

    def create(self, name: str) -> str:
        answer = self.client.create_table(
            **table_request(name, "pk:S", "sk:N", gsi={"by-kind": "kind:S sk:N"}, lsi={"by-size": "size:N"})
        )
        return position_of(answer)

    def put(self, name: str, n: int, **attributes: str) -> str:
        """Put the item `n` of the collection `a`, and return its position."""
        item = {"pk": {"S": "a"}, "sk": {"N": str(n)}, "kind": {"S": "k"}, "size": {"N": "7"}}
        item |= {attribute: {"S": value} for attribute, value in attributes.items()}
        return position_of(self.client.put_item(TableName=name, Item=item))

    def get(self, name: str) -> Any:
        """Return the text of the attribute `v` of item 1; None if there is no item."""
        return self.client.get_item(TableName=name, Key=KEY).get("Item", {}).get("v", {}).get("S")


@pytest.fixture(scope="module")
def database(each_kind: Served) -> Database:
    return Database(*each_kind)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return "t-" + re.sub("[^a-z]+", "-", request.node.name.partition("[")[0])[-60:]


def position_of(answer: Any) -> str:
    text: str = answer["ResponseMetadata"]["HTTPHeaders"]["x-foldb-position"]
    return text


def log_time_of(answer: Any) -> int:
    return int(answer["ResponseMetadata"]["HTTPHeaders"]["x-foldb-log-time"])


def message(call: Any, **request: Any) -> str:
    with pytest.raises(ClientError) as refusal:
        call(**request)
    assert "ValidationException" == refusal.value.response["Error"]["Code"]
    text: str = refusal.value.response["Error"]["Message"]
    return text


@pytest.mark.spec("H3")
def test_a_position_names_the_state_after_a_write(database: Database, name: str) -> None:
    database.create(name)
    positions = [database.put(name, 1, v=str(n)) for n in range(4)]
    database.client.delete_item(TableName=name, Key=KEY)

    assert ["0", "1", "2", "3"] == [database.get(f"{name}@{position}") for position in positions]
    assert database.get(name) is None


def test_a_position_in_an_entry_hides_later_commands(database: Database, name: str) -> None:
    """Writes that arrive together are one entry; its offset alone names the state after all of them."""
    database.create(name)
    with ThreadPoolExecutor(16) as pool:
        positions = list(pool.map(lambda n: database.put(name, 1, v=str(n)), range(80)))
    offset = Counter(position.partition(".")[0] for position in positions).most_common(1)[0][0]
    inside = {position: n for n, position in enumerate(positions) if position.startswith(f"{offset}.")}
    last = max(inside, key=lambda position: int(position.rpartition(".")[2]))

    assert len(inside) > 1, "no two writes had one entry"
    assert list(map(str, inside.values())) == [database.get(f"{name}@{position}") for position in inside]
    assert str(inside[last]) == database.get(f"{name}@{offset}")


def test_every_reading_operation_reads_the_past(database: Database, name: str) -> None:
    database.create(name)
    for n in range(1, 4):
        position = database.put(name, n, v="before")
    past = f"{name}@{position}"
    for n in range(1, 5):
        database.put(name, n, v="after")
    client = database.client
    key_condition = {
        "KeyConditionExpression": "pk = :a",
        "ExpressionAttributeValues": {":a": {"S": "a"}, ":v": {"S": "before"}},
        "FilterExpression": "v = :v",
    }

    got = client.get_item(TableName=past, Key=KEY, ConsistentRead=True, ReturnConsumedCapacity="TOTAL")
    assert "before" == got["Item"]["v"]["S"]
    assert {"TableName": past, "CapacityUnits": 1.0} == got["ConsumedCapacity"]
    query = client.query(TableName=past, **key_condition, ScanIndexForward=False)
    assert ["3", "2", "1"] == [item["sk"]["N"] for item in query["Items"]]
    assert 3 == client.query(TableName=past, IndexName="by-size", Select="COUNT", **key_condition)["Count"]
    scan = client.scan(TableName=past, Limit=2, ReturnConsumedCapacity="INDEXES")
    assert past == scan["ConsumedCapacity"]["TableName"]
    rest = client.scan(TableName=past, ExclusiveStartKey=scan["LastEvaluatedKey"])
    assert {"before"} == {item["v"]["S"] for item in scan["Items"] + rest["Items"]}
    assert 3 == scan["Count"] + rest["Count"]
    batch = client.batch_get_item(RequestItems={past: {"Keys": [KEY]}}, ReturnConsumedCapacity="TOTAL")
    assert [past] == list(batch["Responses"])
    assert [past] == [each["TableName"] for each in batch["ConsumedCapacity"]]
    assert "before" == batch["Responses"][past][0]["v"]["S"]
    transact = client.transact_get_items(TransactItems=[{"Get": {"TableName": past, "Key": KEY}}])
    assert "before" == transact["Responses"][0]["Item"]["v"]["S"]
    table = client.describe_table(TableName=past)["Table"]
    assert (name, 3) == (table["TableName"], table["ItemCount"])


def test_a_time_names_the_state_at_that_log_time(database: Database, name: str) -> None:
    database.create(name)
    database.put(name, 1, v="before")
    read = database.client.get_item(TableName=name, Key=KEY)
    before = time_text(log_time_of(read))
    wait_past(log_time_of(read))
    database.put(name, 1, v="after")

    assert "before" == database.get(f"{name}@{before}")
    assert "before" == database.get(f"arn:aws:dynamodb:us-east-1:000000000000:table/{name}@{before}")
    assert "after" == database.get(f"{name}@-0")
    assert "after" == database.get(f"{name}@{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z")


def wait_past(time_ms: int) -> None:
    while time.time_ns() // 1_000_000 <= time_ms + 1:
        pass


@pytest.mark.spec("H4")
def test_no_time_has_half_a_transaction(database: Database, name: str) -> None:
    database.create(name)
    times = []
    for n in range(6):
        items = [{"pk": {"S": pk}, "sk": {"N": "1"}, "n": {"N": str(n)}} for pk in "abcdef"]
        database.client.transact_write_items(
            TransactItems=[{"Put": {"TableName": name, "Item": item}} for item in items]
        )
        times.append(log_time_of(database.client.scan(TableName=name, ConsistentRead=True)))

    for time_ms in range(times[0], times[-1] + 1, 1 + (times[-1] - times[0]) // 40):
        found = database.client.scan(TableName=f"{name}@{time_text(time_ms)}")["Items"]
        assert 6 == len(found)
        assert 1 == len({item["n"]["N"] for item in found})


def test_dropped_and_recreated_tables_are_read_as_they_were(database: Database, name: str) -> None:
    database.create(name)
    first = database.put(name, 1, v="first")
    database.client.delete_table(TableName=name)
    database.create(name)
    second = database.put(name, 2, v="second")
    assert "first" == database.get(f"{name}@{first}")
    database.client.delete_table(TableName=name)

    assert "first" == database.get(f"{name}@{first}")
    assert database.get(f"{name}@{second}") is None
    with pytest.raises(database.client.exceptions.ResourceNotFoundException):
        database.get(f"{name}@-0")


def test_an_index_exists_from_its_creation(database: Database, name: str) -> None:
    database.create(name)
    before = database.put(name, 1, v="x")
    update = {
        "IndexName": "by-v",
        "KeySchema": [{"AttributeName": "v", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL"},
    }
    filling = position_of(
        database.client.update_table(
            TableName=name,
            AttributeDefinitions=[{"AttributeName": "v", "AttributeType": "S"}],
            GlobalSecondaryIndexUpdates=[{"Create": update}],
        )
    )
    while database.client.describe_table(TableName=name)["Table"]["GlobalSecondaryIndexes"][-1][
        "IndexStatus"
    ] != ("ACTIVE"):
        pass
    request: dict[str, Any] = {"IndexName": "by-v", "Select": "COUNT"}
    scan = database.client.scan

    assert 1 == scan(TableName=f"{name}@-0", **request)["Count"]
    assert "The table does not have the specified index: by-v" == message(
        scan, TableName=f"{name}@{before}", **request
    )
    text = message(scan, TableName=f"{name}@{filling}", **request)
    if database.partitions == 1:
        assert "Cannot read from backfilling global secondary index: by-v" == text
    else:  # its definition has not reached the other partitions
        assert "The table does not have the specified index: by-v" == text


def test_pages_of_a_relative_cut_show_one_state(database: Database, name: str) -> None:
    database.create(name)
    for n in range(4):
        database.put(name, n, v="before")
    past, client = f"{name}@-0", database.client
    page = client.scan(TableName=past, Limit=2)
    for n in range(8):
        database.put(name, n, v="after")

    assert page["LastEvaluatedKey"].keys() == {"pk", "sk", "@"}
    rest = client.scan(TableName=past, ExclusiveStartKey=page["LastEvaluatedKey"])
    assert ["before"] * 4 == [item["v"]["S"] for item in page["Items"] + rest["Items"]]
    lacking = {name: value for name, value in page["LastEvaluatedKey"].items() if name != "@"}
    assert "the member @" in message(client.scan, TableName=past, ExclusiveStartKey=lacking)
    assert "the member @" in message(
        client.scan, TableName=past, ExclusiveStartKey=lacking | {"@": {"S": "2999-01-01T00:00:00Z"}}
    )


def test_a_parallel_scan_needs_an_absolute_cut(database: Database, name: str) -> None:
    position = [database.create(name), database.put(name, 1)][-1]
    segment = {"Segment": 0, "TotalSegments": 2}

    text = message(database.client.scan, TableName=f"{name}@-1h", **segment)
    assert re.search("name the time itself, as 20..-..-..T", text)
    counts = [
        database.client.scan(TableName=f"{name}@{position}", Segment=each, TotalSegments=2)["Count"]
        for each in range(2)
    ]
    assert 1 == sum(counts)


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("PutItem", {"Item": KEY}),
        ("DeleteItem", {"Key": KEY}),
        ("UpdateItem", {"Key": KEY}),
        ("DeleteTable", {}),
        ("UpdateTable", {"BillingMode": "PAY_PER_REQUEST"}),
        ("DescribeTimeToLive", {}),
        ("CreateTable", {}),
    ],
)
def test_no_other_operation_uses_the_past(database: Database, operation: str, body: dict[str, Any]) -> None:
    answer = ask(database.url, operation, body | {"TableName": "Orders@10482"})

    assert 400 == answer.status
    assert (
        f"Orders@10482 names a state of the past, which {operation} cannot use: only {READS} can. "
        in (answer.body["message"])
    )


def test_no_batch_or_transaction_writes_the_past(database: Database) -> None:
    batch = {"Orders@10482": [{"PutRequest": {"Item": KEY}}]}
    action = {"Put": {"TableName": "Orders@-1h", "Item": KEY}}
    client = database.client

    assert "which BatchWriteItem cannot use" in message(client.batch_write_item, RequestItems=batch)
    assert "which TransactWriteItems cannot use" in message(
        client.transact_write_items, TransactItems=[action]
    )


@pytest.mark.parametrize(
    ("cut", "text"),
    [
        ("", "`` is not a cut: write a position"),
        ("yesterday", "`yesterday` is not a cut: write a position"),
        ("1@2", "`1@2` is not a cut"),
        ("2999-01-01T00:00:00Z", "2999-01-01T00:00:00.000Z is in the future"),
        ("77:1", "a position of this log is "),
    ],
)
def test_a_cut_that_cannot_be_read_is_refused(database: Database, cut: str, text: str) -> None:
    assert text in message(database.client.get_item, TableName=f"Orders@{cut}", Key=KEY)


def test_a_position_that_the_log_lacks_is_refused(database: Database) -> None:
    cut = "99999999" if database.partitions == 1 else "2:99999999"

    text = message(database.client.get_item, TableName=f"Orders@{cut}", Key=KEY)
    assert f"The log ends before position {cut}" == text


def test_a_time_before_the_history_is_refused(database: Database) -> None:
    text = message(database.client.get_item, TableName="Orders@1999-01-01T00:00:00Z", Key=KEY)
    assert "The history of this database begins at position 0" in text.replace(" 0:0", " 0")


def test_the_tables_of_a_request_have_one_cut(database: Database) -> None:
    get = {"Keys": [KEY]}
    call = database.client.batch_get_item

    text = "All tables of a request must be read at one cut: name each with the same cut"
    assert text == message(call, RequestItems={"Orders@1": get, "Cars@2": get})
    assert text == message(call, RequestItems={"Orders@1": get, "Cars": get})


def test_a_name_without_a_cut_keeps_the_error_of_dynamodb(database: Database) -> None:
    """No table has such a name, so nothing else than the pattern is wrong with it."""
    text = message(database.client.create_table, **table_request("Or@ders", "pk:S"))
    assert "Value 'Or@ders' at 'tableName' failed to satisfy constraint" in text
