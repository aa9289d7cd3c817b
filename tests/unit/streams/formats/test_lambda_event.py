"""The event that Lambda's documentation shows, member for member."""

import json
from dataclasses import replace
from typing import Any

from foldb.streams.formats.lambda_event import event, windowed
from foldb.streams.formats.table_view import Delivery, TableView, event_id
from tests.unit.streams.deliveries import ORDERS, delivery, order

UNPAID, PAID = order(), order(state={"S": "PAID"})


def shown(change: Delivery, name: str, size: int, **images: Any) -> dict[str, Any]:
    """Return a record of Lambda's documentation."""
    number = str(change.change.sequence_number)
    return {
        "eventID": event_id(change),
        "eventName": name,
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1",
        "dynamodb": {
            "Keys": {"customer": {"S": "ann"}, "order": {"N": "1"}},
            **images,
            "ApproximateCreationDateTime": 1700000000,
            "SequenceNumber": number,
            "SizeBytes": size,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
        "eventSourceARN": ORDERS.stream_arn,
    }


def test_an_event_holds_a_record_for_each_change() -> None:
    changes = [delivery(None, UNPAID, 1), delivery(UNPAID, PAID, 2), delivery(PAID, None, 3)]

    assert {
        "Records": [
            shown(changes[0], "INSERT", 36, NewImage=UNPAID),
            shown(changes[1], "MODIFY", 63, NewImage=PAID, OldImage=UNPAID),
            shown(changes[2], "REMOVE", 45, OldImage=PAID),
        ]
    } == json.loads(event(changes))


def test_an_expired_item_has_the_identity_of_the_service() -> None:
    [record] = json.loads(event([delivery(PAID, None, source="ttl")]))["Records"]

    assert {"type": "Service", "principalId": "dynamodb.amazonaws.com"} == record["userIdentity"]


def test_an_item_of_a_snapshot_is_an_insert_to_a_handler() -> None:
    [record] = json.loads(event([delivery(None, PAID, is_read=True)]))["Records"]

    assert "INSERT" == record["eventName"]


def test_a_table_without_a_stream_has_both_images() -> None:
    watched: TableView = replace(ORDERS, view=None)
    [record] = json.loads(event([delivery(UNPAID, PAID, table=watched)]))["Records"]

    assert "NEW_AND_OLD_IMAGES" == record["dynamodb"]["StreamViewType"]
    assert (UNPAID, PAID) == (record["dynamodb"]["OldImage"], record["dynamodb"]["NewImage"])


def test_an_event_of_a_tumbling_window_has_its_window_and_state() -> None:
    reported = windowed(
        [],
        start_ms=1_596_128_400_000,
        end_ms=1_596_128_700_000,
        state={"1": "state1"},
        is_final=True,
        shard_id="shardId-00000001596128400000-00000000",
        stream_arn=ORDERS.stream_arn,
    )

    assert {
        "Records": [],
        "window": {"start": "2020-07-30T17:00:00Z", "end": "2020-07-30T17:05:00Z"},
        "state": {"1": "state1"},
        "shardId": "shardId-00000001596128400000-00000000",
        "eventSourceARN": ORDERS.stream_arn,
        "isFinalInvokeForWindow": True,
        "isWindowTerminatedEarly": False,
    } == json.loads(reported)
