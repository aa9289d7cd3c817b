"""The JSON that DynamoDB puts into a Kinesis data stream, member for member and in that order."""

import json
from uuid import UUID

from foldb.streams.formats.kinesis import record
from foldb.streams.formats.table_view import event_id
from tests.unit.streams.deliveries import delivery, order


def test_a_record_has_the_members_that_kinesis_consumers_know() -> None:
    change = delivery(order(), order(state={"S": "PAID"}))

    told = json.loads(record(change))

    assert {
        "awsRegion": "us-east-1",
        "eventID": str(UUID(event_id(change))),
        "eventName": "MODIFY",
        "userIdentity": None,
        "recordFormat": "application/json",
        "tableName": "Orders",
        "dynamodb": {
            "ApproximateCreationDateTime": 1700000000123,
            "Keys": {"customer": {"S": "ann"}, "order": {"N": "1"}},
            "NewImage": order(state={"S": "PAID"}),
            "OldImage": order(),
            "SizeBytes": 63,
        },
        "eventSource": "aws:dynamodb",
    } == told
    assert [
        "awsRegion",
        "eventID",
        "eventName",
        "userIdentity",
        "recordFormat",
        "tableName",
        "dynamodb",
        "eventSource",
    ] == list(told)


def test_microseconds_are_told_as_such() -> None:
    told = json.loads(record(delivery(None, order()), "MICROSECOND"))["dynamodb"]

    assert (1700000000123000, "MICROSECOND") == (
        told["ApproximateCreationDateTime"],
        told["ApproximateCreationDateTimePrecision"],
    )


def test_an_expired_item_says_that_the_service_removed_it() -> None:
    told = json.loads(record(delivery(order(), None, source="ttl")))

    assert {"type": "Service", "principalId": "dynamodb.amazonaws.com"} == told["userIdentity"]
    assert "NewImage" not in told["dynamodb"]
