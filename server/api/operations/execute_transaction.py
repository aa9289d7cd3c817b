"""ExecuteTransaction: up to a hundred statements, all or none, executed as TransactGetItems or TransactWriteItems.

All statements read, or all write or check a condition with EXISTS. A malformed statement is an error of the request. A
statement whose table is missing, or that names no item, is a reason to cancel, unless another is malformed.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ....expressions import Plan
from ....expressions.partiql import Bound, KeyMismatchError, KeyRead, Select, reads_of, request_of
from ....materializer.fold.state import Table
from ....materializer.fold.storage import Stored
from ....materializer.partition import ResultPosition
from ....model.cuts import SEPARATOR
from ....model.errors import (
    DuplicateItemError,
    Reason,
    RequestError,
    ResourceNotFoundError,
    TransactionCanceledError,
    ValidationError,
)
from ....model.key_schema import KEY_MISMATCH
from ...auth.rights import Demand
from ...database import Database
from .. import statements
from ..as_of import open_past, past_request
from ..operation import operation
from ..reply import Reply
from ..response_json import members
from ..restores import latest_time
from .get_item import projected
from .transact_get_items import Show, read_items
from .transact_write_items import ParsedAction, parse_action, submit_transaction

_MIXED = "ExecuteTransaction API does not support both read and write operations in the same request."
_NO_KEY = "Select statements within ExecuteTransaction must specify the primary key in the where clause."
_NO_INDEX = "Reads on indices are not supported within transactions."
_NO_RETURNING = "RETURNING clause is not supported in ExecuteTransaction."


def _demands(body: dict[str, Any]) -> Iterator[Demand]:
    return statements.demands(body["TransactStatements"], body, "ExecuteTransaction")


@operation("ExecuteTransaction", _demands)
def execute_transaction(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Validate the statements and read the items, or submit one command."""
    limits = database.state.limits
    for member in body["TransactStatements"]:
        statements.checked_parameters(member, limits)
    bounds = [
        _in_member(nth, partial(statements.bound_statement, member, limits))
        for nth, member in enumerate(body["TransactStatements"])
    ]
    names = [bound.kind.table for bound in bounds]
    reads = {isinstance(bound.kind, Select) for bound in bounds}
    if len(reads) > 1:
        raise ValidationError(_MIXED)
    execute = _read if True in reads else _write
    if not any(SEPARATOR in name for name in names):
        statements.with_tables(database, names, reply, partial(execute, database, body, bounds, reply))
        return

    def proceed(at_cut: Database) -> None:
        statements.with_tables(at_cut, (), reply, partial(_read, at_cut, body, bounds, reply))

    operation_name = "TransactGetItems" if True in reads else "ExecuteTransaction"
    actions = [{"Get": {"TableName": name}} for name in names]
    past = past_request(operation_name, {"TransactItems": actions}, latest_time(database))
    if past is None:
        raise ValidationError(f"{names[0]} is not the name of a table")
    open_past(database, past, operation_name, reply, proceed)


def _in_member(nth: int, action: Callable[[], Any]) -> Any:
    """Return the result of an action; its errors name the statement."""
    try:
        return action()
    except ValidationError as error:
        text = statements.refusal(error).message
        raise ValidationError(f"Validation failed in TransactStatements[{nth}]: {text}") from None


def _classic(
    database: Database,
    body: dict[str, Any],
    bounds: list[Bound],
    compiled: Callable[[Bound, Table, dict[str, Any]], dict[str, Any] | Reason],
) -> dict[str, Any]:
    """Return the classic request of a transaction.

    Raises:
        ValidationError: A statement is not one of a transaction.
        TransactionCanceledError: A table does not exist, or a statement names no item.
    """
    actions: list[dict[str, Any]] = []
    reasons: list[Reason] = []
    for nth, (bound, member) in enumerate(zip(bounds, body["TransactStatements"], strict=True)):
        try:
            table = database.state.usable_table(bound.kind.table)
        except ResourceNotFoundError as error:
            reasons.append(Reason("ResourceNotFound", error.message))
            continue
        action = _in_member(nth, partial(compiled, bound, table, member))
        if isinstance(action, Reason):
            reasons.append(action)
        else:
            reasons.append(Reason("None"))
            actions.append(action)
    if len(actions) < len(bounds):
        raise TransactionCanceledError(reasons)
    classic: dict[str, Any] = {"TransactItems": actions}
    for name in ("ClientRequestToken", "ReturnConsumedCapacity"):
        if name in body:
            classic[name] = body[name]
    return classic


# Reads


def _read(database: Database, body: dict[str, Any], bounds: list[Bound], reply: Reply) -> None:
    classic = _classic(database, body, bounds, partial(_get, database))
    try:
        read_items(database, classic, reply, [_show(bound) for bound in bounds])
    except ValidationError as error:
        raise statements.refusal(error) from None


def _get(database: Database, bound: Bound, table: Table, _member: dict[str, Any]) -> dict[str, Any] | Reason:
    select = bound.kind
    assert isinstance(select, Select), "a transaction of reads has no other statement"
    if select.index is not None:
        raise ValidationError(_NO_INDEX)
    statements.check_where(bound, select, database.state.limits)
    schema = table.definition.key
    try:
        reads = reads_of(bound, select, schema, composite=False).reads
    except KeyMismatchError:
        return Reason("ValidationError", KEY_MISMATCH)
    if len(reads) != 1 or not isinstance(reads[0], KeyRead):
        raise ValidationError(_NO_KEY)
    return {"Get": request_of(reads[0], bound, select)}


def _show(bound: Bound) -> Show:
    assert isinstance(bound.kind, Select), "a transaction of reads has no other statement"
    columns = statements.shown_columns(bound.kind)
    if columns is None:
        return projected

    def show(stored: Stored, _plan: Plan | None) -> bytes:
        return columns(stored[0])

    return show


# Writes


def _write(database: Database, body: dict[str, Any], bounds: list[Bound], reply: Reply) -> None:
    parsed: list[ParsedAction] = []
    classic = _classic(database, body, bounds, partial(_action, database, parsed))
    inserts = ["Put" in action for action in classic["TransactItems"]]
    try:
        submit_transaction(database, classic, parsed, reply, partial(_answer, reply, inserts))
    except ValidationError as error:
        raise statements.refusal(error) from None


def _action(
    database: Database, parsed: list[ParsedAction], bound: Bound, table: Table, member: dict[str, Any]
) -> dict[str, Any] | Reason:
    if getattr(bound.kind, "returning", "NONE") != "NONE":
        raise ValidationError(_NO_RETURNING)
    try:
        action = statements.classic_write(bound, table.definition, member)
    except KeyMismatchError:
        return Reason("ValidationError", KEY_MISMATCH)
    parsed.append(parse_action(action.kind, action.request, database.state.limits))
    return {action.kind: action.request}


def _answer(
    reply: Reply,
    inserts: list[bool],
    answer: tuple[bytes, ...] | RequestError,
    position: ResultPosition,
) -> None:
    if isinstance(answer, TransactionCanceledError):
        answer = TransactionCanceledError(
            [
                Reason("DuplicateItem", DuplicateItemError().message)
                if is_insert and reason.code == "ConditionalCheckFailed"
                else reason
                for is_insert, reason in zip(inserts, answer.reasons, strict=True)
            ]
        )
    if isinstance(answer, RequestError):
        reply.error(answer, position)
    else:
        reply.ok(members(b'"Responses":[]', *answer), position)
