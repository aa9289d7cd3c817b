"""`foldb explain get`, `query` and `scan`: run the read, all its pages, and compute its bytes and units here."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

from ....model import capacity
from ....model.limits import limits_named
from ....model.values import Item, item_size
from ...lib.literals import Lifted
from ...lib.options import (
    IndexOption,
    KeyWords,
    PartitionKeyWords,
    Placeholders,
    ReadOptions,
    SortOption,
    TableArgument,
    Where,
)
from ...lib.output import units_text
from ...lib.read_requests import Reading, key_condition, read_request
from ...lib.session import Session, consumed

POINT = "point"
RANGE = "range in one collection"
FULL_SCAN = "full scan"


def get(session: Session, table: TableArgument, key: KeyWords) -> None:
    """Run a GetItem, and print its bytes and units.

    Example: foldb explain get Music Kyuss 'Space Cadet'
    """
    found = item_at(session, table, session.shape(table).read_key(key, is_typed=session.settings.typed))
    size = 0 if found is None else _size(session, found)
    _show_read(session, POINT, table, None, [size], items=0 if found is None else 1)


def query(
    session: Session,
    table: TableArgument,
    partition: PartitionKeyWords,
    sorts: SortOption = None,
    index: IndexOption = None,
    where: Where = None,
    *,
    placeholders: Placeholders,
) -> None:
    """Run a Query, all its pages, and print its bytes and units.

    Example: foldb explain query Reply 'Amazon DynamoDB#Thread 1' --sk '>= 2026-01'
    """
    lifted = placeholders.lifted()
    condition = key_condition(session.shape(table), index, partition, sorts, lifted)
    body = {"KeyConditionExpression": condition}
    _explain(session, "Query", table, ReadOptions(index, where), lifted, body)


def scan(
    session: Session,
    table: TableArgument,
    index: IndexOption = None,
    where: Where = None,
    *,
    placeholders: Placeholders,
) -> None:
    """Run a Scan, all its pages, and print its bytes and units. --where does not reduce them.

    Example: foldb explain scan ProductCatalog --where 'Price > 100'
    """
    _explain(session, "Scan", table, ReadOptions(index, where), placeholders.lifted(), {})


def _explain(
    session: Session,
    operation: str,
    table: str,
    options: ReadOptions,
    lifted: Lifted,
    condition: dict[str, Any],
) -> None:
    """Read all pages without the filter, for the bytes, and again with the filter, for the count."""

    def reading(options: ReadOptions) -> Reading:
        body = read_request(table, options, lifted, is_typed=False) | condition
        return Reading(session.client, operation, body | lifted.body(), everything=True)

    unfiltered = reading(replace(options, where=None))
    sizes = [sum(_size(session, item) for item in page["Items"]) for page in unfiltered.answers()]
    returned = unfiltered.count
    if options.where is not None:
        filtered = reading(replace(options, select="count"))
        for _ in filtered.answers():
            pass
        returned = filtered.count
    path = RANGE if operation == "Query" else FULL_SCAN
    _show_read(session, path, table, options.index, sizes, items=unfiltered.count, returned=returned)


def _show_read(
    session: Session,
    path: str,
    table: str,
    index: str | None,
    sizes: list[int],
    *,
    items: int,
    returned: int | None = None,
) -> None:
    """Print the row of a read whose pages have `sizes`. DynamoDB rounds up each page."""
    blocks = sum(capacity.blocks(size, capacity.READ_BLOCK) for size in sizes)
    strong = sum(capacity.read_half_units(size, consistent=True) for size in sizes)
    eventual = sum(capacity.read_half_units(size, consistent=False) for size in sizes)
    row: dict[str, Any] = {"access": path, "table": table}
    if index is not None:
        row["index"] = index
    row |= {"pages": len(sizes), "items": items, "returned": items if returned is None else returned}
    row |= {
        "bytes": sum(sizes),
        "rounded": f"{blocks} x 4 KB",
        "rcu_strong": _half(strong),
        "rcu_eventual": _half(eventual),
    }
    session.output.row(row)


def item_at(session: Session, table: str, key: Item) -> Item | None:
    """Return the item with a key, or None, and print the units of this read."""
    body = {"TableName": table, "Key": key, "ConsistentRead": True, "ReturnConsumedCapacity": "TOTAL"}
    answer = session.client.call("GetItem", body)
    session.output.say(f"read with {units_text(consumed(answer))} RCU to find out")
    found: Item | None = answer.get("Item")
    return found


def _size(session: Session, item: Item) -> int:
    return item_size(item, limits_named(session.limits))


def _half(half_units: int) -> Decimal | int:
    return half_units // 2 if half_units % 2 == 0 else Decimal(half_units) / 2
