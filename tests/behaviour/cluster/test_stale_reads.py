"""Two nodes on a real broker that answer reads with a lag."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.behaviour.cluster.processes import Nodes
from tests.support.raw import Answer, ask
from tests.support.tables import table_request

ROUNDS = 10


@pytest.fixture(scope="module", params=[1, 2], ids=["one partition", "two"])
def nodes(
    kafka: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Nodes]:
    options = ["--partitions", str(request.param), "--read-lag", "5s", "--index-lag", "5s"]
    with Nodes(tmp_path_factory.mktemp("nodes"), kafka, 2, *options) as nodes:
        ask(nodes.urls[0], "CreateTable", table_request("Cars", "pk:S", gsi={"by-colour": "colour:S"}))
        nodes.settle()
        yield nodes


@pytest.mark.guarantee("G32")
@pytest.mark.spec("S23", "S70")
def test_a_read_misses_a_write_unless_it_asks_for_it(nodes: Nodes) -> None:
    """At both nodes: of a key whose partition the node owns or follows, and of the index."""
    missed = {(url, name): 0 for url in nodes.urls for name in ("table", "index")}
    for number in range(ROUNDS):
        key, colour = {"pk": {"S": f"{number}"}}, {"colour": {"S": f"colour {number}"}}
        written = ask(nodes.urls[number % 2], "PutItem", {"TableName": "Cars", "Item": key | colour})
        position = written.headers["x-foldb-position"]
        get = {"TableName": "Cars", "Key": key}
        query = {
            "TableName": "Cars",
            "IndexName": "by-colour",
            "KeyConditionExpression": "colour = :c",
            "ExpressionAttributeValues": {":c": colour["colour"]},
        }
        for url in nodes.urls:
            missed[url, "table"] += not found(ask(url, "GetItem", get))
            missed[url, "index"] += not found(ask(url, "Query", query))
            assert found(ask(url, "GetItem", get | {"ConsistentRead": True}))
            assert found(ask(url, "GetItem", get, x_foldb_position=position))
            assert found(ask(url, "Query", query, x_foldb_position=position))

    assert all(missed.values()), missed


def found(answer: Answer) -> bool:
    assert answer.status == 200, answer
    body: dict[str, Any] = answer.body
    return "Item" in body or bool(body.get("Items"))
