"""ListStreams: the ARNs of all readable streams, one page at a time."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from .....model.descriptions import stream_label
from ....auth.rights import EVERYTHING, Demand, Right
from ....database import Database
from ...operation import operation
from ...reply import Caller
from .stream_arns import arn_of, read_arn, streams

_PAGE = 100


def _demands(body: dict[str, Any]) -> Iterator[Demand]:
    yield "dynamodb:ListStreams", Right.READ, body.get("TableName", EVERYTHING)


@operation("ListStreams", _demands, eager=True)
async def list_streams(database: Database, body: dict[str, Any], _: Caller) -> dict[str, Any]:
    """Return the page after ExclusiveStartStreamArn, which may be the ARN of a removed stream."""
    table = body.get("TableName")
    found = {arn_of(period): period for period in streams(database) if table in (None, period.name)}
    arns, start = sorted(found), 0
    if "ExclusiveStartStreamArn" in body:
        read_arn(body["ExclusiveStartStreamArn"])
        start = bisect_right(arns, body["ExclusiveStartStreamArn"])
    end = start + body.get("Limit", _PAGE)
    listed = [
        {"StreamArn": arn, "TableName": found[arn].name, "StreamLabel": stream_label(found[arn].label)}
        for arn in arns[start:end]
    ]
    answer: dict[str, Any] = {"Streams": listed}
    if end < len(arns):
        answer["LastEvaluatedStreamArn"] = arns[end - 1]
    return answer
