"""Assertions and helpers of tests that use a client."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.tables import table_request

KIB = 1024


class Refusal:
    """The message of a refused request, once the block has ended."""

    message = ""


@contextmanager
def refused(code: str, text: str = "") -> Iterator[Refusal]:
    """Assert that the block's request is refused with this error, whose message contains `text`."""
    refusal = Refusal()
    with pytest.raises(ClientError) as caught:
        yield refusal
    error = caught.value.response["Error"]
    assert code == error["Code"], error
    assert text in error["Message"]
    refusal.message = error["Message"]


def invalid(text: str = "") -> AbstractContextManager[Refusal]:
    """Assert that the block's request is refused as a ValidationException."""
    return refused("ValidationException", text)


def sized(size: int, **attributes: Any) -> dict[str, Any]:
    """Return an item of exactly `size` bytes: these strings, and `d`, which fills the rest."""
    taken = sum(len(name.encode()) + len(value.encode()) for name, value in attributes.items())
    return attributes | {"d": "x" * (size - taken - len("d"))}


def stored_size(table: Any) -> int:
    """Return the bytes of a table's items by DynamoDB's rule: DescribeTable adds 100 for each."""
    table.reload()
    return int(table.table_size_bytes) - 100 * int(table.item_count)


def read_units(response: Any) -> Any:
    """Return the capacity of a read; the request asked for TOTAL."""
    return response["ConsumedCapacity"]["CapacityUnits"]


def pages(read: Any, **request: Any) -> Iterator[Any]:
    """Yield all pages of a Query or Scan."""
    while True:
        page = read(**request)
        yield page
        if "LastEvaluatedKey" not in page:
            return
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def everything(read: Any, **request: Any) -> list[Any]:
    """Return all items of a Query or Scan."""
    return [item for page in pages(read, **request) for item in page["Items"]]


def load(client: Any, table: str, items: Iterable[dict[str, Any]]) -> None:
    """Put many items, as on the wire, with BatchWriteItem."""
    puts = ({"PutRequest": {"Item": item}} for item in items)
    while batch := list(islice(puts, 25)):
        assert {} == client.batch_write_item(RequestItems={table: batch})["UnprocessedItems"]


def add_index(table: Any, name: str, keys: str) -> None:
    """Add a global index to a table in use, and wait until it is filled. `keys` as in `make_table`."""
    request = table_request("x", *(key for key in keys.split() if ":" in key), gsi={name: keys})
    table.meta.client.update_table(
        TableName=table.name,
        AttributeDefinitions=request["AttributeDefinitions"],
        GlobalSecondaryIndexUpdates=[{"Create": request["GlobalSecondaryIndexes"][0]}],
    )
    while [index["IndexStatus"] for index in table.global_secondary_indexes or []] != ["ACTIVE"]:
        table.reload()
