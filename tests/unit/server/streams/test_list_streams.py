"""ListStreams: of one table, or all, a page at a time."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.unit.server.streams.conftest import enabled

pytestmark = pytest.mark.divided


def listed(streams: Any, **request: Any) -> list[str]:
    """The ARNs, page by page."""
    found: list[str] = []
    while True:
        page = streams.list_streams(**request)
        found += [stream["StreamArn"] for stream in page["Streams"]]
        if "LastEvaluatedStreamArn" not in page:
            return found
        request["ExclusiveStartStreamArn"] = page["LastEvaluatedStreamArn"]


def test_the_streams_of_a_table_are_listed(
    client: Any, streams: Any, make_streamed: Callable[..., Any]
) -> None:
    """Those that were disabled too, as long as they can be read."""
    table = make_streamed()
    old = table.latest_stream_arn
    client.update_table(TableName=table.name, StreamSpecification={"StreamEnabled": False})
    client.update_table(TableName=table.name, StreamSpecification=enabled())
    table.load()

    found = streams.list_streams(TableName=table.name)["Streams"]

    assert [(arn, table.name, arn.rpartition("/")[2]) for arn in (old, table.latest_stream_arn)] == [
        (stream["StreamArn"], stream["TableName"], stream["StreamLabel"]) for stream in found
    ]


def test_a_table_without_a_stream_has_none(streams: Any, make_table: Any) -> None:
    assert [] == listed(streams, TableName=make_table("pk:S").name)
    assert [] == listed(streams, TableName="no-such-table")


def test_all_streams_come_in_pages(streams: Any, make_streamed: Callable[..., Any]) -> None:
    made = {make_streamed().latest_stream_arn for _ in range(5)}

    found = listed(streams, Limit=2)

    assert made <= set(found)
    assert listed(streams) == found == sorted(set(found))


def test_where_to_go_on_must_be_a_streams_name(streams: Any) -> None:
    for wrong in ("x" * 40, "arn:aws:dynamodb:us-east-1:000000000000:table/Cars"):
        with pytest.raises(ClientError, match=r"ValidationException.*Invalid StreamArn"):
            streams.list_streams(ExclusiveStartStreamArn=wrong)
    for limit in (0, 101):
        with pytest.raises(ClientError, match=r"ValidationException.*at 'limit'"):
            streams.list_streams(Limit=limit)
