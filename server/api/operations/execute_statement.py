"""ExecuteStatement: one PartiQL statement, executed as GetItem, Query, Scan, PutItem, UpdateItem or DeleteItem."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import orjson

from ....materializer.partition import ResultPosition
from ....model.errors import RequestError
from ...auth.rights import Demand
from ...database import Database
from .. import statements
from ..operation import operation
from ..reply import Reply
from ..response_json import array, consumed_one, members
from ..statements import StatementResult


def _demands(body: dict[str, Any]) -> Iterator[Demand]:
    return statements.demands([body])


@operation("ExecuteStatement", _demands)
def execute_statement(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Validate the statement and execute it."""
    bound = statements.bound_statement(body, database.state.limits)
    statements.execute_at_cut(database, bound, body, reply, partial(_answer, body, reply))


def _answer(
    body: dict[str, Any],
    reply: Reply,
    result: StatementResult | RequestError,
    position: ResultPosition | None,
) -> None:
    if isinstance(result, RequestError):
        reply.error(result, position)
        return
    consumed = b"" if result.consumed is None else consumed_one(body, reply, result.consumed)
    answer = members(
        b'"Items":' + array(result.items),
        b"" if result.last is None else b'"LastEvaluatedKey":' + result.last,
        b"" if result.token is None else b'"NextToken":' + orjson.dumps(result.token),
        consumed,
    )
    reply.ok(answer, position)
