"""Scan: one page of a table or an index, whole or one segment of many, in the order of hashes."""

from functools import partial
from typing import Any

from ....materializer.fold.state import Index
from ....materializer.partition import ScanRequest
from ....model.errors import ValidationError
from ...auth.rights import Right
from ...database import Database
from .. import page_requests, parameters
from ..operation import operation
from ..reply import Reply


@operation("Scan", Right.READ)
def scan(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Validate the request and read a page."""
    request, index = scan_request(database, body, reply.after is not None)
    database.counted.scan(request, partial(page_requests.answer, body, index, reply))


def scan_request(database: Database, body: dict[str, Any], fresh: bool) -> tuple[ScanRequest, Index | None]:
    """Validate a Scan; return its page, which is no older than the request if `fresh`, and the index that it reads.

    Raises:
        RequestError: The request is invalid.
    """
    limits = database.state.limits
    parsed = page_requests.check_request(body, limits, "Scan")
    segment, segments = _segment(body)

    table = database.state.usable_table(body["TableName"])
    index = page_requests.index_of(body, table)
    start = page_requests.start_key(body, table, index, limits, "Scan")
    parameters.check_key_paths(parsed.plan, table.definition)
    request = ScanRequest(
        table=table.definition.id,
        index=None if index is None else index.definition.name,
        segment=segment,
        segments=segments,
        start=start,
        limit=body.get("Limit"),
        consistent=body.get("ConsistentRead", False),
        plan=parsed.plan,
        values=parsed.values,
        count_only=body.get("Select") == "COUNT",
        all_attributes=page_requests.fetches(body, index, parsed.plan),
        source=body,
        fresh=fresh,
    )
    return request, index


def _segment(body: dict[str, Any]) -> tuple[int, int]:
    segment, segments = body.get("Segment"), body.get("TotalSegments")
    if segment is None and segments is None:
        return 0, 1
    if segments is None:
        raise ValidationError(
            "The TotalSegments parameter is required but was not present in the request "
            "when Segment parameter is present"
        )
    if segment is None:
        raise ValidationError(
            "The Segment parameter is required but was not present in the request "
            "when parameter TotalSegments is present"
        )
    if segment >= segments:
        raise ValidationError(
            "The Segment parameter is zero-based and must be less than parameter TotalSegments: "
            f"Segment: {segment} is not less than TotalSegments: {segments}"
        )
    return segment, segments
