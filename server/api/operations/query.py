"""Query: one page of one item collection, of a table or an index, in the order of its sort keys."""

from functools import partial
from typing import Any, Final

from ....expressions import KeyRange, key_range, refuse_key_filter
from ....materializer.fold.state import Index
from ....materializer.partition import QueryRequest
from ....model.errors import ValidationError
from ...auth.rights import Right
from ...database import Database
from .. import page_requests, parameters
from ..operation import operation
from ..reply import Reply

_NO_CONDITION: Final = (
    "Either the KeyConditions or KeyConditionExpression parameter must be specified in the request."
)


@operation("Query", Right.READ)
def query(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Validate the request and read a page."""
    request, index = query_request(database, body, reply.after is not None)
    database.counted.query(request, partial(page_requests.answer, body, index, reply))


def query_request(
    database: Database, body: dict[str, Any], fresh: bool, *, filters_any: bool = False
) -> tuple[QueryRequest, Index | None]:
    """Validate a Query; return its page and the index that it reads.

    Args:
        database: The tables.
        body: The request.
        fresh: Whether the page must be no older than the request.
        filters_any: Whether the filter may name attributes of the key, and attributes that the index does not project.

    Raises:
        RequestError: The request is invalid.
    """
    limits = database.state.limits
    parsed = page_requests.check_request(body, limits, "Query")
    plan = parsed.plan
    if plan is None or plan.key_condition is None:
        raise ValidationError(_NO_CONDITION)

    table = database.state.usable_table(body["TableName"])
    index = page_requests.index_of(body, table)
    schema = table.definition.key if index is None else index.definition.key
    start = page_requests.start_key(body, table, index, limits, "Query")
    key_condition = key_range(plan.key_condition, schema, parsed.values or {}, composite=index is not None)
    if start is not None:
        _check_start(start, key_condition, ranged=len(plan.key_condition.terms) > len(schema.partition))
    if plan.filter is not None and not filters_any:
        refuse_key_filter(plan.filter, schema.names)  # a filter must not name key attributes
    parameters.check_key_paths(plan, table.definition)
    fetches = page_requests.fetches(body, index, plan)
    if not filters_any:
        page_requests.check_filter(index, plan)
    request = QueryRequest(
        table=table.definition.id,
        index=None if index is None else index.definition.name,
        pk=key_condition.pk,
        low=key_condition.low,
        high=key_condition.high,
        forward=body.get("ScanIndexForward", True),
        start=None if start is None else start[1],
        limit=body.get("Limit"),
        consistent=body.get("ConsistentRead", False),
        plan=plan,
        values=parsed.values,
        count_only=body.get("Select") == "COUNT",
        all_attributes=fetches,
        source=body,
        fresh=fresh,
    )
    return request, index


def _check_start(start: tuple[bytes, bytes], key_condition: KeyRange, *, ranged: bool) -> None:
    """Refuse a start key outside of the key condition, which may be a range of sort keys.

    Raises:
        ValidationError: The start key is outside.
    """
    pk, sk = start
    if ranged and (sk < key_condition.low or (key_condition.high is not None and sk >= key_condition.high)):
        raise ValidationError("The provided starting key does not match the range key predicate")
    if pk != key_condition.pk:
        # DynamoDB has the first message for every range, not only for one that holds a single row.
        raise ValidationError(
            "The query can return at most one row and cannot be restarted"
            if ranged
            else "The provided starting key is outside query boundaries based on provided conditions"
        )
