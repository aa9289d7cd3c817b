"""BatchExecuteStatement: up to twenty-five independent statements, which all read or all write.

Each SELECT reads one item by its key. Each statement has an answer of its own, also if another fails.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import orjson

from ....expressions.partiql import Bound, Exists, KeyRead, Select, reads_of
from ....materializer.partition import ResultPosition
from ....model.errors import (
    ConditionalCheckFailedError,
    RequestError,
    ValidationError,
    truncated,
)
from ....model.lazy_dataclass import dataclass
from ....model.limits import Limits
from ...auth.rights import Demand
from ...database import Database
from ...routing import joined
from ...routing.fan_in import FanIn
from .. import statements
from ..operation import operation
from ..reply import Reply
from ..response_json import Consumed, array, consumed_each, members, quoted
from ..statements import OnResult, StatementResult

_NO_KEY: Final = (
    "Select statements within BatchExecuteStatement must specify the primary key in the where clause."
)
_MIXED: Final = (
    "BatchExecuteStatement API does not support both read and write operations in the same request."
)
# The codes that are not the name of the exception without its ending.
_CODES: Final = {"ValidationException": "ValidationError", "ThrottlingException": "ThrottlingError"}


@dataclass(slots=True)
class _Member:
    """One statement; `error` if it is malformed, `has_run` if a partition has answered it."""

    body: dict[str, Any]
    bound: Bound | None = None
    error: ValidationError | None = None
    has_run: bool = False


def _demands(body: dict[str, Any]) -> Iterator[Demand]:
    return statements.demands(body["Statements"], body)


@operation("BatchExecuteStatement", _demands)
def batch_execute_statement(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Validate the statements and execute each."""
    batch = [_member(each, database.state.limits) for each in body["Statements"]]
    kinds = {isinstance(each.bound.kind, Select) for each in batch if each.bound is not None}
    if len(kinds) > 1:
        raise ValidationError(_MIXED)
    statements.with_tables(
        database,
        [each.bound.kind.table for each in batch if each.bound is not None],
        reply,
        partial(_execute, database, body, reply, batch),
    )


def _member(body: dict[str, Any], limits: Limits) -> _Member:
    try:
        return _Member(body, statements.bound_statement(body, limits))
    except ValidationError as error:
        return _Member(body, error=error)


def _execute(database: Database, body: dict[str, Any], reply: Reply, batch: list[_Member]) -> None:
    fan_in = FanIn(len(batch), partial(_answer, body, reply, batch))
    for nth, member in enumerate(batch):
        done: OnResult = partial(_on_result, fan_in, nth, member)
        try:
            if member.bound is None:
                assert member.error is not None, "a malformed statement has an error"
                raise member.error
            statements.execute_at_cut(database, member.bound, member.body, reply, done, check=_check_key)
        except RequestError as error:
            done(error, None)


def _on_result(
    fan_in: FanIn,
    nth: int,
    member: _Member,
    result: StatementResult | RequestError,
    position: ResultPosition | None,
) -> None:
    member.has_run = position is not None
    fan_in.add(nth, result, position)


def _check_key(database: Database, bound: Bound) -> None:
    """Refuse a SELECT that does not name one item of a table.

    Raises:
        RequestError: The table does not exist, or the statement names no item.
    """
    select = bound.kind
    if isinstance(select, Exists):
        raise ValidationError(statements.ONLY_IN_TRANSACTION)
    if not isinstance(select, Select):
        return
    source = statements.source_of(database, select)
    if source.index is not None:
        raise ValidationError(_NO_KEY)
    statements.check_where(bound, select, database.state.limits)
    reads = reads_of(bound, select, source.keys, composite=False).reads
    if len(reads) != 1 or not isinstance(reads[0], KeyRead):
        raise ValidationError(_NO_KEY)


def _answer(
    body: dict[str, Any],
    reply: Reply,
    batch: list[_Member],
    results: list[StatementResult | RequestError],
    positions: list[ResultPosition],
) -> None:
    consumed: list[Consumed] = []
    responses: list[bytes] = []
    for member, result in zip(batch, results, strict=True):
        if isinstance(result, RequestError):
            responses.append(_error(member, result))
            continue
        assert member.bound is not None, "a malformed statement has an error"
        table = b'"TableName":' + quoted(member.bound.kind.table)
        responses.append(members(table, b'"Item":' + result.items[0] if result.items else b""))
        if result.consumed is not None:
            consumed.append(result.consumed)
    answer = members(b'"Responses":' + array(responses), consumed_each(body, reply, consumed))
    reply.ok(answer, joined(positions) if positions else None)


def _error(member: _Member, error: RequestError) -> bytes:
    """Return the response for a failed statement. It has the table's name if the statement was executed."""
    name = error.wire_name
    fields: dict[str, Any] = {
        "Code": _CODES.get(name, name.removesuffix("Exception")),
        "Message": truncated(error.message),
    }
    if isinstance(error, ConditionalCheckFailedError) and error.item is not None:
        fields["Item"] = orjson.Fragment(error.item)
    table = b""
    if member.bound is not None and member.has_run:
        table = b'"TableName":' + quoted(member.bound.kind.table)
    return members(b'"Error":' + orjson.dumps(fields), table)
