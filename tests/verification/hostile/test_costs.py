"""The most expensive well-formed requests cost a limited number of steps.

The server handles no other request during one step. These tests count work, not time: items that a page examines,
elements that are compared, lines of Python that run.
"""

import base64
import json
from typing import Any

import pytest

from foldb.materializer.fold.reads import WORK_BYTES
from tests.verification.fuzz.inside import Inside
from tests.verification.fuzz.steps import bounded

TABLE: dict[str, Any] = {"TableName": "costs"}


@pytest.fixture
def inside() -> Inside:
    inside = Inside()
    ok(inside, "CreateTable", **table())
    return inside


def table(indexes: int = 0) -> dict[str, Any]:
    names = ["p", "q", *(f"k{number}" for number in range(indexes))]
    request: dict[str, Any] = {
        **TABLE,
        "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "q", "KeyType": "RANGE"}],
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in names],
        "BillingMode": "PAY_PER_REQUEST",
    }
    if indexes:
        request["GlobalSecondaryIndexes"] = [
            {
                "IndexName": f"i-{name}",
                "KeySchema": [{"AttributeName": name, "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["l"]},
            }
            for name in names[2:]
        ]
    return request


def ok(inside: Inside, operation: str, **members: Any) -> Any:
    status, answer = inside.ask(operation, {**TABLE, **members} if operation != "CreateTable" else members)
    assert 200 == status, answer
    return answer


def key(number: int) -> dict[str, Any]:
    return {"p": {"S": "a"}, "q": {"S": f"{number:05}"}}


def fill(inside: Inside, items: int) -> None:
    for start in range(0, items, 25):
        puts = [{"PutRequest": {"Item": key(number)}} for number in range(start, min(start + 25, items))]
        assert inside.ask("BatchWriteItem", {"RequestItems": {"costs": puts}})[0] == 200


def pages(inside: Inside, operation: str, **members: Any) -> list[int]:
    """How many items each page looked at."""
    scanned: list[int] = []
    start: dict[str, Any] = {}
    while True:
        answer = ok(inside, operation, **members, **start)
        scanned.append(answer["ScannedCount"])
        if "LastEvaluatedKey" not in answer:
            return scanned
        start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}


MANY_LOOKS = " OR ".join(["attribute_exists(z)"] * 150)


@pytest.mark.parametrize("operation", ["Scan", "Query"])
@pytest.mark.parametrize(
    ("asked", "looks"),
    [
        ({"FilterExpression": MANY_LOOKS}, 150),
        ({"ProjectionExpression": "p,q," + ",".join(f"a[{n}]" for n in range(500))}, 500),
    ],
    ids=["filter", "projection"],
)
def test_a_page_looks_only_so_often_at_tiny_items(
    inside: Inside, operation: str, asked: dict[str, str], looks: int
) -> None:
    fill(inside, 4000)
    query = {
        "KeyConditionExpression": "p = :p",
        "ExpressionAttributeValues": {":p": {"S": "a"}},
    }
    scanned = pages(inside, operation, **asked, **(query if operation == "Query" else {}))

    assert 4000 == sum(scanned), "what is left out of a page is in the next"
    assert 1 < len(scanned)
    assert max(scanned) * looks * 32 <= WORK_BYTES


def test_an_ordinary_filter_cuts_no_page_short(inside: Inside) -> None:
    fill(inside, 4000)

    assert [4000] == pages(inside, "Scan", FilterExpression=" OR ".join(["attribute_exists(z)"] * 10))


def dense(elements: int) -> dict[str, Any]:
    return {"L": [{"S": ""}] * elements}


def test_a_batch_limits_decoded_bytes_and_returns_the_other_keys(inside: Inside) -> None:
    many = b",".join([b'{"S":""}'] * 400_000)
    put = b'{"TableName":"costs","Item":{"p":{"S":"a"},"q":{"S":"%05d"},"l":{"L":[%b]}}}'
    for number in range(5):
        assert 200 == inside.ask("PutItem", put % (number, many))[0]
    batch = {"costs": {"Keys": [key(number) for number in range(5)], "ProjectionExpression": "q"}}
    found: list[int] = []
    while batch:
        answer = inside.ask("BatchGetItem", {"RequestItems": batch})[1]
        found.append(len(answer["Responses"]["costs"]))
        batch = answer["UnprocessedKeys"]

    assert 5 == sum(found)
    assert max(found) <= 4


def test_a_transaction_examines_at_most_4_mb_of_items(inside: Inside) -> None:
    text = "x" * 399_000
    for number in range(11):
        ok(inside, "PutItem", Item={**key(number), "l": {"S": text}})

    def checks(count: int) -> tuple[int, Any]:
        check = {**TABLE, "ConditionExpression": "attribute_exists(p)"}
        actions = [{"ConditionCheck": {**check, "Key": key(number)}} for number in range(count)]
        return inside.ask("TransactWriteItems", {"TransactItems": actions})

    assert 200 == checks(10)[0]
    status, answer = checks(11)
    assert (400, "The aggregate size of the items in the transaction exceeds 4 MB") == (
        status,
        answer["message"],
    )


def test_names_and_values_have_at_most_2_mb(inside: Inside) -> None:
    values = {f":v{number}": {"S": "x" * 390_000} for number in range(6)}
    text = " OR ".join(f"a = {name}" for name in values)
    status, answer = inside.ask(
        "DeleteItem",
        {**TABLE, "Key": key(1), "ConditionExpression": text, "ExpressionAttributeValues": values},
    )

    assert 400 == status
    assert "Combined size of ExpressionAttributeNames and" in answer["message"]


def steps(inside: Inside, operation: str, members: dict[str, Any], most: int = 10**8) -> int:
    body = json.dumps({**TABLE, **members}).encode()
    (status, answer), count = bounded(most, inside.ask, operation, body)
    assert 200 == status, answer
    return count


def test_an_index_costs_nothing_for_unchanged_elements() -> None:
    """With twenty indexes an update measures and writes a large attribute once, not forty times."""
    costs = []
    for indexes in (1, 20):
        inside = Inside()
        ok(inside, "CreateTable", **table(indexes))
        keys = {f"k{number}": {"S": "a"} for number in range(indexes)}
        ok(inside, "PutItem", Item={**key(1), **keys, "l": dense(2000)})
        update = {"UpdateExpression": "SET k0 = :v", "ExpressionAttributeValues": {":v": {"S": "b"}}}
        costs.append(steps(inside, "UpdateItem", {"Key": key(1), **update}))

    assert costs[1] < costs[0] + 20 * 200


@pytest.mark.parametrize("kind", ["SS", "NS", "BS"])
def test_a_member_added_to_a_set_is_not_compared_with_all(inside: Inside, kind: str) -> None:
    def members(numbers: range) -> list[str]:
        if kind == "BS":
            return [base64.b64encode(b"%06d" % number).decode() for number in numbers]
        return [str(number) for number in numbers]

    costs = []
    for count in (500, 5000):
        ok(inside, "PutItem", Item={**key(count), "s": {kind: members(range(count))}})
        add = {
            "UpdateExpression": "ADD s :v",
            "ExpressionAttributeValues": {":v": {kind: members(range(9000, 9001))}},
        }
        costs.append(steps(inside, "UpdateItem", {"Key": key(count), **add}))
    sized = 6 * 4500  # the item is measured again, a line or some for each member

    assert costs[1] < costs[0] + sized * (3 if kind == "NS" else 1)


def test_a_set_larger_than_any_item_is_refused_unexamined(inside: Inside) -> None:
    def refused(count: int) -> int:
        body = json.dumps({**TABLE, "Item": {**key(1), "s": {"NS": ["+1.0E0"] * count}}}).encode()
        (status, answer), taken = bounded(10**8, inside.ask, "PutItem", body)
        assert (400, "Item size has exceeded the maximum allowed size") == (status, answer["message"])
        return taken

    # Some steps are those of a timer of the server, or of its first request.
    assert abs(refused(210_000) - refused(420_000)) < 100
