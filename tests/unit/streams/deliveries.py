"""Changes for tests of formats and sinks: of a table Orders with a string and a number as its key."""

from typing import Any

from foldb.log.commands import Source, new_context
from foldb.materializer.fold.outcomes import Change, Tx
from foldb.model.key_schema import KeyAttribute, KeySchema
from foldb.model.sequence_numbers import sequence_number
from foldb.model.values import Item, dump
from foldb.streams.formats.table_view import Delivery, TableView

LOG_ID = bytes(range(16))
TIME = 1_700_000_000_123
"""2023-11-14T22:13:20.123Z"""

ORDERS = TableView(
    id=7,
    name="Orders",
    key=KeySchema((KeyAttribute("customer", "S"),), (KeyAttribute("order", "N"),)),
    view="NEW_AND_OLD_IMAGES",
    stream_arn="arn:aws:dynamodb:us-east-1:000000000000:table/Orders/stream/2023-11-14T22:00:00.000",
    log_id=LOG_ID,
)


def order(customer: str = "ann", order: int = 1, **attributes: Any) -> Item:
    """Return an item of Orders; attributes are DynamoDB JSON."""
    return {"customer": {"S": customer}, "order": {"N": str(order)}, **attributes}


def delivery(
    old: Item | None,
    new: Item | None,
    offset: int = 10482,
    *,
    table: TableView = ORDERS,
    partition: int = 0,
    time: int = TIME,
    tx: Tx | None = None,
    is_read: bool = False,
    principal: str | None = "alice",
    source: Source = "api",
    depth: int = 0,
) -> Delivery:
    """Return the change from `old` to `new` by the first command of the entry at `offset`."""
    item = new or old
    assert item is not None
    pk, sk = table.key.pk(item), table.key.sk(item)
    assert pk is not None
    assert sk is not None
    context = new_context(f"request-{offset}", None, principal, source, depth)
    change = Change(
        table.id,
        pk,
        sk,
        None if old is None else dump(old),
        None if new is None else dump(new),
        sequence_number(offset, 0, 0),
        time,
        context,
        tx,
        0,
        is_read,
    )
    return Delivery(change, partition, table)


def numbered(count: int, start: int = 1) -> list[Delivery]:
    """Return `count` changes, one new order each."""
    return [delivery(None, order(order=nth), offset=nth) for nth in range(start, start + count)]
