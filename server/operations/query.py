"""Query: one page of one item collection, of a table or an index, in the order of its sort keys."""

from typing import TYPE_CHECKING, Any

from ...expressions import KeyRange, key_range, refuse_key_filter
from ...materializer.fold.state import Index, Table
from ...materializer.partition import QueryRequest
from ...model.errors import ValidationError
from .. import pages, parameters
from ..parameters import Read
from ..reply import Reply

if TYPE_CHECKING:
    from ..node import Node

_NO_CONDITION = (
    "Either the KeyConditions or KeyConditionExpression parameter must be specified in the request."
)


def query(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Check the request and read a page."""
    limits = node.limits
    asked = pages.check_request(body, limits, "Query")
    plan = asked.plan
    if plan is None or plan.key_condition is None:
        raise ValidationError(_NO_CONDITION)

    table = node.table(body["TableName"])
    index = pages.index_of(body, table)
    wanted = _range(asked, table, index)
    _check_filter(asked, table, index)
    parameters.check_key_paths(plan, table.definition)
    start = pages.start_place(body, table, index, limits)
    forward = body.get("ScanIndexForward", True)
    if start is not None:
        _check_start(start, wanted)
    request = QueryRequest(
        table=table.definition.id,
        index=None if index is None else index.definition.name,
        pk=wanted.pk,
        low=wanted.low,
        high=wanted.high,
        forward=forward,
        start=None if start is None else start[1],
        limit=body.get("Limit"),
        consistent=body.get("ConsistentRead", False),
        plan=plan,
        values=asked.values,
        count_only=body.get("Select") == "COUNT",
        all_attributes=pages.fetches(body, index, plan),
    )
    node.partition.query(request, pages.answering(body, table, index, reply))


def _range(asked: Read, table: Table, index: Index | None) -> KeyRange:
    assert asked.plan is not None
    assert asked.plan.key_condition is not None
    schema = table.definition.key if index is None else index.definition.key
    return key_range(asked.plan.key_condition, schema, asked.values or {}, composite=index is not None)


def _check_filter(asked: Read, table: Table, index: Index | None) -> None:
    """A filter is for what the key condition cannot say."""
    if asked.plan is not None and asked.plan.filter is not None:
        key = table.definition.key if index is None else index.definition.key
        refuse_key_filter(asked.plan.filter, key.names)


def _check_start(start: tuple[bytes, bytes], wanted: KeyRange) -> None:
    """A page can only begin inside of what is asked for."""
    pk, sk = start
    if pk != wanted.pk:
        raise ValidationError(
            "The provided starting key is outside query boundaries based on provided conditions"
        )
    if sk < wanted.low or (wanted.high is not None and sk >= wanted.high):
        raise ValidationError("The provided starting key does not match the range key predicate")
