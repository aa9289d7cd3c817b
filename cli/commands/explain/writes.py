"""`foldb explain put`, `update` and `delete`: let the fold decide the write in this process, and write nothing.

    current item ──► an empty table with the ──► decide ──► bytes and units of the table
                     same keys and indexes       (fold)     and of each index that changes

Conditions, the size after an update, and index changes are computed by the same code as in the server.
"""

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import typer

from ....log.commands import Delete, Expression, Put, Update, new_context
from ....materializer.fold import LEVEL
from ....materializer.fold.index_entries import IndexUpdate, entry_of
from ....materializer.fold.outcomes import Refused
from ....materializer.fold.state import Table
from ....materializer.fold.writes import Decision, decide, units_of
from ....model.capacity import transaction_write_units
from ....model.errors import ConditionalCheckFailedError, RequestError
from ....model.limits import Limits, limits_named
from ....model.table_requests import create
from ....model.tables import TableDefinition
from ....model.values import Item, check_item, dump, item_size, load
from ....server.api import parameters
from ....server.api.write_requests import check_key_paths
from ...lib.definitions import request_like
from ...lib.errors import RequestFailedError
from ...lib.key_arguments import KeyArguments
from ...lib.literals import Lifted
from ...lib.options import ConditionOption, KeyWords, Placeholders, TableArgument, UpdateClauses
from ...lib.output import Row, units_text
from ...lib.session import Session
from ...lib.values import read_item
from ..item import update_of
from .reads import POINT, item_at

Write: TypeAlias = Put | Update | Delete

_NO_CONTEXT = new_context("")


def put(
    session: Session,
    table: TableArgument,
    item: Annotated[str, typer.Argument(help="A JSON object.")],
    condition: ConditionOption = None,
    *,
    placeholders: Placeholders,
) -> None:
    """Print the bytes and units of a PutItem, which is not executed.

    Example: foldb explain put Music '{"Artist": "Kyuss", "Song": "Space Cadet", "Year": 1994}'
    """
    body = {"Item": read_item(item, "the item", is_typed=session.settings.typed)}
    _explain(session, table, _put, body, condition, placeholders.lifted())


def update(
    session: Session,
    table: TableArgument,
    key: KeyWords,
    condition: ConditionOption = None,
    *,
    clauses: UpdateClauses,
    placeholders: Placeholders,
) -> None:
    """Print the bytes and units of an UpdateItem, which is not executed.

    Example: foldb explain update Counters home --set 'visits = visits + 1'
    """
    lifted = placeholders.lifted()
    body = {
        "Key": session.shape(table).read_key(key, is_typed=session.settings.typed),
        "UpdateExpression": update_of(lifted, clauses),
    }
    _explain(session, table, _update, body, condition, lifted)


def delete(
    session: Session,
    table: TableArgument,
    key: KeyWords,
    condition: ConditionOption = None,
    *,
    placeholders: Placeholders,
) -> None:
    """Print the bytes and units of a DeleteItem, which is not executed.

    Example: foldb explain delete Music Kyuss 'Space Cadet'
    """
    body = {"Key": session.shape(table).read_key(key, is_typed=session.settings.typed)}
    _explain(session, table, _delete, body, condition, placeholders.lifted())


def _explain(
    session: Session,
    name: str,
    command: Callable[[TableDefinition, dict[str, Any], Limits], Write],
    body: dict[str, Any],
    condition: str | None,
    lifted: Lifted,
) -> None:
    if condition is not None:
        body["ConditionExpression"] = lifted.lift(condition)
    limits = limits_named(session.limits)
    try:
        table = _table_like(session.shape(name), limits)
        write = command(table.definition, body | lifted.body(), limits)
        _fetch(session, table, write, limits)
        decision = decide(table, write, limits, LEVEL)
        if isinstance(decision, Refused):
            rows = [_refused(table, write, decision)]
        else:
            rows = [
                _of_table(table, decision),
                *(_of_index(table, update, decision, limits) for update in decision.index_updates),
            ]
    except RequestError as error:
        raise RequestFailedError(error.wire_name, error.status, error.body()) from error
    session.output.rows(rows, first=("access", "table", "index"))
    units, doubled = sum(row["wcu"] for row in rows), sum(row["wcu_transaction"] for row in rows)
    session.output.say(
        f"{units_text(units)} WCU, in a transaction {units_text(doubled)} · nothing was written"
    )


def _table_like(shape: KeyArguments, limits: Limits) -> Table:
    """Return an empty table with the same keys and indexes."""
    request = request_like(shape.description, shape.name)
    return Table(create(request, table_id=1, uuid="", time_ms=0, limits=limits))


def _fetch(session: Session, table: Table, write: Write, limits: Limits) -> None:
    """Read the current item of the key, and put it into `table`."""
    definition = table.definition
    found = item_at(session, definition.name, definition.key.decode(write.pk, write.sk))
    if found is not None:
        table.items.put(write.pk, write.sk, (dump(found), item_size(found, limits)))


def _put(definition: TableDefinition, body: dict[str, Any], limits: Limits) -> Put:
    expression = _expression(definition, body, limits, "PutItem")
    item: Item = body["Item"]
    size = check_item(item, limits)
    pk, sk = definition.key.item_key(item, limits)
    return Put(definition.id, pk, sk, dump(item), size, _NO_CONTEXT, expression)


def _update(definition: TableDefinition, body: dict[str, Any], limits: Limits) -> Update:
    expression = _expression(definition, body, limits, "UpdateItem")
    return Update(definition.id, *_key(definition, body, limits), _NO_CONTEXT, expression)


def _delete(definition: TableDefinition, body: dict[str, Any], limits: Limits) -> Delete:
    expression = _expression(definition, body, limits, "DeleteItem")
    return Delete(definition.id, *_key(definition, body, limits), _NO_CONTEXT, expression)


def _key(definition: TableDefinition, body: dict[str, Any], limits: Limits) -> tuple[bytes, bytes]:
    check_item(body["Key"], limits)
    return definition.key.read_key(body["Key"], limits)


def _expression(
    definition: TableDefinition, body: dict[str, Any], limits: Limits, operation: str
) -> Expression | None:
    item = body["Item" if operation == "PutItem" else "Key"]
    expression = parameters.parse_write(body, item, limits, operation).expression
    if expression is not None:
        check_key_paths(definition, expression)
    return expression


def _of_table(table: Table, decision: Decision) -> Row:
    old, new = decision.old, decision.new
    before, after = 0 if old is None else old[1], 0 if new is None else new[1]
    return _row(table, before, after, writes=1, units=units_of(decision).table) | {
        "wcu_transaction": transaction_write_units(max(before, after))
    }


def _of_index(table: Table, update: IndexUpdate, decision: Decision, limits: Limits) -> Row:
    """Return the row of an index: one write to put, change or remove an entry, two if the entry's key changes.

    A transaction does not double the units of an index.
    """
    before = 0
    if update.old_key is not None and decision.old is not None:
        before = entry_of(update.index, load(decision.old[0]), decision.old, limits)[1]
    after = 0 if update.entry is None else update.entry[1]
    is_moved = None not in (update.old_key, update.new_key) and update.old_key != update.new_key
    name = update.index.definition.name
    return _row(table, before, after, writes=2 if is_moved else 1, units=update.units, index=name)


def _refused(table: Table, write: Write, refused: Refused) -> Row:
    """Return the row of a write whose condition fails. It costs the size of the current item.

    Raises:
        RequestError: The write is refused for another reason.
    """
    if not isinstance(refused.error, ConditionalCheckFailedError):
        raise refused.error
    old = table.items.get(write.pk, write.sk)
    size = 0 if old is None else old[1]
    return _row(table, size, size, writes=0, units=refused.units) | {
        "wcu_transaction": transaction_write_units(size),
        "refused": refused.error.wire_name,
    }


def _row(
    table: Table, before: int, after: int, *, writes: int, units: int, index: str | None = None
) -> dict[str, Any]:
    named = {"access": POINT, "table": table.definition.name} | ({} if index is None else {"index": index})
    return named | {
        "bytes_before": before,
        "bytes_after": after,
        "writes": writes,
        "rounded": f"{units} x 1 KB",
        "wcu": units,
        "wcu_transaction": units,
    }
