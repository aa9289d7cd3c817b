"""Costs that grow with the data, and costs that a batch lowers."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from boto3.dynamodb.conditions import Key

from tests.support.claims import load, pages, read_units
from tests.support.tables import MakeTable

COLLECTIONS = [5_000, pytest.param(1_000_000, marks=pytest.mark.soak)]


@pytest.mark.spec("S102")
@pytest.mark.parametrize("size", COLLECTIONS)
def test_the_last_page_of_a_collection_costs_like_the_first(
    make_table: MakeTable, client: Any, size: int
) -> None:
    """Each page goes on where the one before it ended: it looks at as many items, and costs as many units.

    That the server takes no more steps for it is in tests/unit/materializer/test_reads.py, how long it takes
    in benchmarks/.
    """
    table = make_table("pk:S", "sk:S")
    load(client, table.name, ({"pk": {"S": "a"}, "sk": {"S": f"{n:07}"}} for n in range(size)))
    limit = size // 50

    found = [
        (page["ScannedCount"], read_units(page), page["Items"][0]["sk"])
        for page in pages(
            table.query, KeyConditionExpression=Key("pk").eq("a"), Limit=limit, ReturnConsumedCapacity="TOTAL"
        )
        if page["Items"]
    ]

    assert 50 == len(found)
    assert {(limit, found[0][1])} == {(scanned, units) for scanned, units, _ in found}
    assert [f"{place * limit:07}" for place in range(50)] == [first for _, _, first in found]


@pytest.mark.spec("S103")
def test_a_batch_is_quicker_than_single_calls(make_table: MakeTable) -> None:
    """The figures are benchmarks/'s; here it has to be true."""
    table = make_table("pk:S")
    items = [{"pk": f"k{n}", "n": n} for n in range(25)]
    puts = [{"PutRequest": {"Item": item}} for item in items]
    keys = [{"pk": item["pk"]} for item in items]
    client = table.meta.client

    def single() -> None:
        for item in items:
            table.put_item(Item=item)
        for key in keys:
            table.get_item(Key=key)

    def batched() -> None:
        client.batch_write_item(RequestItems={table.name: puts})
        client.batch_get_item(RequestItems={table.name: {"Keys": keys}})

    assert 2 * min(_seconds(batched) for _ in range(3)) < min(_seconds(single) for _ in range(3))


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
