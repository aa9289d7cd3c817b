"""`foldb explain`: how a request finds its items, how many bytes that is, and how bytes become units."""

from typing import Annotated, Any

import typer

from ...model import capacity
from ...model.limits import limits_named
from ...model.values import Item, item_size
from ..literals import Lifted
from ..output import units_text
from ..reading import Reading, key_condition, read_request
from ..session import Session, consumed
from ..shapes import Shape
from ..values import read_item
from .options import Index, KeyWords, Names, TableName, Values, Where

app = typer.Typer(no_args_is_help=True, help="Say what a request reads or would write, and what it costs.")

POINT = "point"
RANGE = "range in one collection"
FULL_SCAN = "full scan"


@app.command()
def get(ctx: typer.Context, table: TableName, key: KeyWords) -> None:
    """Explain a GetItem; it is carried out.

    Example: foldb explain get Music Kyuss 'Space Cadet'
    """
    session: Session = ctx.obj
    found = _current(session, table, session.shape(table).read_key(key, is_typed=session.settings.typed))
    size = 0 if found is None else _size(session, found)
    _show_read(session, POINT, table, None, [size], items=0 if found is None else 1)


@app.command()
def query(
    ctx: typer.Context,
    table: TableName,
    partition: Annotated[list[str], typer.Argument(metavar="PK...", help="The value of the partition key.")],
    sort: Annotated[
        str | None,
        typer.Option("--sk", metavar="'>= X'", help="=, <, <=, >, >=, begins_with X, between X and Y."),
    ] = None,
    index: Index = None,
    where: Where = None,
    values: Values = None,
    names: Names = None,
) -> None:
    """Explain a Query; all its pages are read.

    Example: foldb explain query Reply 'Amazon DynamoDB#Thread 1' --sk '>= 2026-01'
    """
    session: Session = ctx.obj
    lifted = Lifted(names or [], values or [])
    condition = key_condition(session.shape(table), index, partition, sort, lifted)
    _explain(session, "Query", RANGE, table, index, where, lifted, {"KeyConditionExpression": condition})


@app.command()
def scan(
    ctx: typer.Context,
    table: TableName,
    index: Index = None,
    where: Where = None,
    values: Values = None,
    names: Names = None,
) -> None:
    """Explain a Scan; all its pages are read, whatever --where leaves of them.

    Example: foldb explain scan ProductCatalog --where 'Price > 100'
    """
    _explain(ctx.obj, "Scan", FULL_SCAN, table, index, where, Lifted(names or [], values or []), {})


@app.command()
def put(
    ctx: typer.Context,
    table: TableName,
    item: Annotated[str, typer.Argument(help="A JSON object.")],
) -> None:
    """Explain a PutItem; nothing is written.

    Example: foldb explain put Music '{"Artist": "Kyuss", "Song": "Space Cadet", "Year": 1994}'
    """
    session: Session = ctx.obj
    shape = session.shape(table)
    after = read_item(item, "the item", is_typed=session.settings.typed)
    before = _current(session, table, {name: after[name] for name in shape.key_names() if name in after})
    _show_write(session, shape, before, after)


@app.command()
def delete(ctx: typer.Context, table: TableName, key: KeyWords) -> None:
    """Explain a DeleteItem; nothing is deleted.

    Example: foldb explain delete Music Kyuss 'Space Cadet'
    """
    session: Session = ctx.obj
    shape = session.shape(table)
    before = _current(session, table, shape.read_key(key, is_typed=session.settings.typed))
    _show_write(session, shape, before, None)


def _explain(
    session: Session,
    operation: str,
    path: str,
    table: str,
    index: str | None,
    where: str | None,
    lifted: Lifted,
    condition: dict[str, Any],
) -> None:
    """Read all pages without the filter, for the bytes, and count again with it."""
    request: dict[str, Any] = {"consistent": False, "select": None, "start": None, "is_typed": False}
    body = read_request(table, lifted, index=index, where=None, **request) | condition
    reading = Reading(session.client, operation, body | lifted.body(), everything=True)
    sizes = [sum(_size(session, item) for item in page["Items"]) for page in reading.answers()]
    returned = reading.count
    if where is not None:
        body = (
            read_request(table, lifted, index=index, where=where, **request | {"select": "count"}) | condition
        )
        filtered = Reading(session.client, operation, body | lifted.body(), everything=True)
        for _ in filtered.answers():
            pass
        returned = filtered.count
    _show_read(session, path, table, index, sizes, items=reading.count, returned=returned)


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
    """`sizes` are those of the pages: each is rounded up by itself."""
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


def _show_write(session: Session, shape: Shape, before: Item | None, after: Item | None) -> None:
    sizes = [0 if item is None else _size(session, item) for item in (before, after)]
    larger = max(sizes)
    units = capacity.write_units(larger)
    touched = [
        index["IndexName"]
        for index in shape.indexes
        for item in (before, after)
        if item is not None and all(name in item for name in shape.key_names(index["IndexName"]))
    ]
    session.output.row(
        {
            "access": POINT,
            "table": shape.name,
            "bytes_before": sizes[0],
            "bytes_after": sizes[1],
            "rounded": f"{units} x 1 KB",
            "wcu": units,
            "wcu_transaction": capacity.transaction_write_units(larger),
            "indexes": list(dict.fromkeys(touched)),
        }
    )


def _current(session: Session, table: str, key: Item) -> Item | None:
    body = {"TableName": table, "Key": key, "ConsistentRead": True, "ReturnConsumedCapacity": "TOTAL"}
    answer = session.client.call("GetItem", body)
    session.output.say(f"read with {units_text(consumed(answer))} RCU to find out")
    found: Item | None = answer.get("Item")
    return found


def _size(session: Session, item: Item) -> int:
    return item_size(item, limits_named(session.limits))


def _half(half_units: int) -> float | int:
    return half_units // 2 if half_units % 2 == 0 else half_units / 2
