"""The counters of tables are those of the answers to their clients."""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from foldb.log.commands import Put
from foldb.materializer.fold.outcomes import Applied
from foldb.server.usage.usage import Statistics, TableUsage, Usage, merged, statistics_of
from tests.verification.fuzz.inside import Inside

TABLES = ("Cars", "Vans")


def create(inside: Inside, name: str, **members: Any) -> None:
    keys = [{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "s", "KeyType": "RANGE"}]
    kinds = [{"AttributeName": each, "AttributeType": "S"} for each in ("p", "s", "g")]
    by_g = [{"AttributeName": "g", "KeyType": "HASH"}]
    by_p = [{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "g", "KeyType": "RANGE"}]
    everything = {"ProjectionType": "ALL"}
    request = {
        "TableName": name,
        "KeySchema": keys,
        "AttributeDefinitions": kinds,
        "GlobalSecondaryIndexes": [{"IndexName": "Global", "KeySchema": by_g, "Projection": everything}],
        "LocalSecondaryIndexes": [{"IndexName": "Local", "KeySchema": by_p, "Projection": everything}],
        "BillingMode": "PAY_PER_REQUEST",
        **members,
    }
    if members.get("BillingMode") == "PROVISIONED":
        request["GlobalSecondaryIndexes"][0]["ProvisionedThroughput"] = members["ProvisionedThroughput"]
    status, body = inside.ask("CreateTable", request)
    assert status == 200, body


@pytest.fixture(params=[1, 3], ids=["one partition", "three"])
def inside(request: pytest.FixtureRequest) -> Iterator[Inside]:
    inside = Inside(partitions=request.param)
    for name in TABLES:
        create(inside, name)
    yield inside
    inside.close()


def usage_of(inside: Inside, name: str) -> TableUsage:
    inside.node.usage.settle(inside.node.state.tables)
    return inside.node.usage[inside.node.state.names[name]]


def total(counter: Any) -> int:
    return int(counter.total[0])


def item(draw: random.Random) -> dict[str, Any]:
    made = {**key(draw), "x": {"S": "x" * draw.choice((0, 10, 1500, 5000))}}
    if draw.random() < 0.7:
        made["g"] = {"S": f"g{draw.randrange(2)}"}
    return made


def key(draw: random.Random) -> dict[str, Any]:
    return {"p": {"S": f"p{draw.randrange(3)}"}, "s": {"S": f"s{draw.randrange(4)}"}}


def requests(draw: random.Random) -> tuple[str, dict[str, Any]]:
    """Return the name and the members of a random request."""
    table = draw.choice(TABLES)
    named: dict[str, Any] = {"TableName": table}
    consistent = {"ConsistentRead": draw.random() < 0.5}
    put = {**named, "Item": item(draw)}
    condition = {"ConditionExpression": "attribute_exists(p)"} if draw.random() < 0.5 else {}
    set_g = {
        "UpdateExpression": "SET g = :g",
        "ExpressionAttributeValues": {":g": {"S": f"g{draw.randrange(2)}"}},
    }
    of_p = {"KeyConditionExpression": "p = :p", "ExpressionAttributeValues": {":p": {"S": "p1"}}}
    of_g = {"KeyConditionExpression": "g = :g", "ExpressionAttributeValues": {":g": {"S": "g1"}}}
    other = {"TableName": "Vans" if table == "Cars" else "Cars"}
    return draw.choice(
        [
            ("PutItem", {**put, **condition}),
            ("DeleteItem", {**named, "Key": key(draw), **condition}),
            ("UpdateItem", {**named, "Key": key(draw), **set_g, **condition}),
            ("GetItem", {**named, "Key": key(draw), **consistent}),
            ("GetItem", {**named, "Key": key(draw), "ProjectionExpression": "g"}),
            ("Query", {**named, **of_p, **consistent}),
            ("Query", {**named, **of_g, "IndexName": "Global"}),
            ("Query", {**named, **of_p, "IndexName": "Local", **consistent}),
            ("Scan", {**named, "Limit": 5, **consistent}),
            ("Scan", {**named, "IndexName": "Global"}),
            ("BatchGetItem", {"RequestItems": {table: {"Keys": [key(draw)], **consistent}}}),
            (
                "BatchWriteItem",
                {
                    "RequestItems": {
                        "Cars": [{"PutRequest": {"Item": item(draw)}}],
                        "Vans": [{"PutRequest": {"Item": item(draw)}}],
                    }
                },
            ),
            ("TransactWriteItems", {"TransactItems": [{"Put": put}, {"Put": {**other, "Item": item(draw)}}]}),
            (
                "TransactGetItems",
                {
                    "TransactItems": [
                        {"Get": {**named, "Key": key(draw)}},
                        {"Get": {**other, "Key": key(draw)}},
                    ]
                },
            ),
            ("ExecuteStatement", {"Statement": f"SELECT * FROM \"{table}\" WHERE p = 'p1'"}),
        ]
    )


def consumed(answer: dict[str, Any], is_write: bool) -> Iterator[tuple[tuple[str, str, str], float]]:
    """Yield the units of an answer by table, index and direction, as ConsumedCapacity reports them."""
    reported = answer.get("ConsumedCapacity", [])
    direction = "write" if is_write else "read"
    for each in reported if isinstance(reported, list) else [reported]:
        table, whole = each["TableName"], each["CapacityUnits"]
        for name, units in each.get("GlobalSecondaryIndexes", {}).items():
            whole -= units["CapacityUnits"]
            yield (table, name, direction), units["CapacityUnits"]
        yield (table, "", direction), whole


@pytest.mark.spec("S71", served=False)
@pytest.mark.parametrize("seed", range(3))
def test_counted_units_are_those_of_the_answers(inside: Inside, seed: int) -> None:
    draw, answered = random.Random(seed), Counter[tuple[str, str, str]]()
    for _ in range(150):
        operation, members = requests(draw)
        status, body = inside.ask(operation, {**members, "ReturnConsumedCapacity": "INDEXES"})
        if status == 200:
            is_write = not operation.startswith(
                ("Get", "Query", "Scan", "BatchGet", "TransactGet", "Execute")
            )
            answered.update(dict(consumed(body, is_write)))
        else:  # of its condition; a new item fails it at the cost of a block, else the old item's
            assert body["__type"].endswith("ConditionalCheckFailedException"), body
            answered[members["TableName"], "", "write"] += 1

    counted = Counter[tuple[str, str, str]]()
    for table in TABLES:
        usage = usage_of(inside, table)
        for index, part in (("", usage), *usage.indexes.items()):
            counted[table, index, "read"] += total(part.reads)
            counted[table, index, "write"] += total(part.writes)
    assert {each: 2 * units for each, units in answered.items() if units} == +counted


def test_errors_are_counted_by_their_table(inside: Inside) -> None:
    put = {"TableName": "Cars", "Item": {"p": {"S": "a"}, "s": {"S": "a"}}}
    failing = {**put, "ConditionExpression": "attribute_exists(p)"}

    inside.ask("PutItem", failing)
    inside.ask(
        "TransactWriteItems", {"TransactItems": [{"Put": failing}, {"Put": {**put, "TableName": "Vans"}}]}
    )

    assert 2 == total(usage_of(inside, "Cars").failed_conditions)
    assert 0 == total(usage_of(inside, "Vans").failed_conditions)


def test_conflicts_are_counted() -> None:
    inside = Inside(transaction_conflicts=1.0)
    create(inside, "Cars")
    put = {"TableName": "Cars", "Item": {"p": {"S": "a"}, "s": {"S": "a"}}}

    inside.ask("PutItem", put)
    inside.ask("TransactWriteItems", {"TransactItems": [{"Put": put}]})
    inside.ask("TransactGetItems", {"TransactItems": [{"Get": {"TableName": "Cars", "Key": put["Item"]}}]})

    assert 3 == total(usage_of(inside, "Cars").conflicts)


def test_throttled_requests_are_counted_once() -> None:
    inside = Inside(throttle=True)
    units = {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}
    create(inside, "Cars", BillingMode="PROVISIONED", ProvisionedThroughput=units)
    keys = [{"p": {"S": "a"}, "s": {"S": str(each)}} for each in range(3)]
    put = {"TableName": "Cars", "Item": {**keys[0], "x": {"S": "x" * 5000}}}
    get = {"TableName": "Cars", "Key": keys[0], "ConsistentRead": True}

    answers = [inside.ask("PutItem", put)[0] for _ in range(3)] + [
        inside.ask("GetItem", get)[0] for _ in range(3)
    ]
    inside.ask("BatchGetItem", {"RequestItems": {"Cars": {"Keys": keys}}})

    usage = usage_of(inside, "Cars")
    assert [200, 400, 400, 200, 400, 400] == answers
    assert (2, 5) == (total(usage.write_throttles), total(usage.read_throttles))


def test_reads_of_the_past_are_not_counted(inside: Inside) -> None:
    inside.ask("PutItem", {"TableName": "Cars", "Item": {"p": {"S": "a"}, "s": {"S": "a"}}})
    inside.loop.advance(1)

    status, _ = inside.ask("GetItem", {"TableName": "Cars@-1s", "Key": {"p": {"S": "a"}, "s": {"S": "a"}}})

    assert status == 200
    assert 0 == total(usage_of(inside, "Cars").reads)


def test_counters_of_dropped_tables_are_dropped(inside: Inside) -> None:
    inside.ask("Scan", {"TableName": "Cars"})
    inside.ask("DeleteTable", {"TableName": "Cars"})

    inside.node.usage.settle(inside.node.state.tables)

    assert [] == list(inside.node.usage)


class Observed:
    """An observer that keeps its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def read(self, index: str | None, pk: bytes, half_units: int) -> None:
        self.calls.append(("read", index, pk, half_units))

    def wrote(self, pk: bytes, half_units: int, applied: Applied | None) -> None:
        put = None if applied is None else applied.action
        self.calls.append(("wrote", pk, half_units, isinstance(put, Put)))

    def throttled(self, index: str | None, pk: bytes, is_write: bool) -> None:
        self.calls.append(("throttled", index, pk, is_write))


def test_an_observer_receives_keys_and_half_units() -> None:
    inside = Inside(throttle=True)
    seen = Observed()
    inside.node.usage = Usage(lambda _: seen)
    units = {"ReadCapacityUnits": 100, "WriteCapacityUnits": 1}
    create(inside, "Cars", BillingMode="PROVISIONED", ProvisionedThroughput=units)
    own = {"p": {"S": "a"}, "s": {"S": "b"}}
    of_p = {"KeyConditionExpression": "p = :p", "ExpressionAttributeValues": {":p": {"S": "a"}}}

    for _ in range(2):
        inside.ask("PutItem", {"TableName": "Cars", "Item": {**own, "x": {"S": "x" * 1500}}})
    inside.ask("GetItem", {"TableName": "Cars", "Key": own})
    inside.ask("Query", {"TableName": "Cars", **of_p})

    assert [
        ("wrote", b"a", 4, True),
        ("throttled", None, b"a", True),
        ("read", None, b"a", 1),
        ("read", None, b"a", 1),
    ] == seen.calls


def test_statistics_are_those_of_all_samples() -> None:
    draw = random.Random(7)
    values = [draw.randrange(50) for _ in range(1000)]

    each = [statistics_of(Counter(values[at : at + 100])) for at in range(0, 1000, 100)]

    assert Statistics(sum(values), 1000, min(values), max(values)) == merged(each)
    assert merged([]) is None


def test_a_closed_minute_stays_in_the_total() -> None:
    usage = TableUsage()
    for size in (300, 5000, 5000):
        usage.count_get(b"a", (b"", size), consistent=True)
    usage.settle()

    assert Statistics(10, 3, 2, 4) == usage.reads.close()
    usage.count_get(b"a", None, consistent=False)
    usage.settle()
    assert (11, 4) == usage.reads.total
    assert Statistics(1, 1, 1, 1) == usage.reads.close()
    assert usage.reads.close() is None
