"""ListStreams: the ARNs of all streams that can be read, a page at a time."""

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import orjson

from .....model.descriptions import stream_label
from ...reply import Reply
from .stream_arns import arn_of, read_arn, streams

if TYPE_CHECKING:
    from ....node import Node

_MOST = 100


def list_streams(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Answer the page after ExclusiveStartStreamArn, which need not be a stream's any more."""
    table = body.get("TableName")
    found = {arn_of(window): window for window in streams(node) if table in (None, window.name)}
    arns, start = sorted(found), 0
    if "ExclusiveStartStreamArn" in body:
        read_arn(body["ExclusiveStartStreamArn"])
        start = bisect_right(arns, body["ExclusiveStartStreamArn"])
    end = start + body.get("Limit", _MOST)
    listed = [
        {"StreamArn": arn, "TableName": found[arn].name, "StreamLabel": stream_label(found[arn].label)}
        for arn in arns[start:end]
    ]
    answer: dict[str, Any] = {"Streams": listed}
    if end < len(arns):
        answer["LastEvaluatedStreamArn"] = arns[end - 1]
    reply.ok(orjson.dumps(answer))
