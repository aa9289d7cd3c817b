"""The JSON that DynamoDB writes to a Kinesis data stream, with its members in order."""

import json
from uuid import UUID

from foldb.streams.formats.kinesis import record
from foldb.streams.formats.table_view import event_id
from tests.unit.streams.deliveries import delivery, order


def test_a_record_has_the_members_of_kinesis() -> None:
    change = delivery(order(), order(state={"S": "PAID"}))

    reported = json.loads(record(change))

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
    } == reported
    assert [
        "awsRegion",
        "eventID",
        "eventName",
        "userIdentity",
        "recordFormat",
        "tableName",
        "dynamodb",
        "eventSource",
    ] == list(reported)


def test_a_time_in_microseconds_names_its_precision() -> None:
    reported = json.loads(record(delivery(None, order()), "MICROSECOND"))["dynamodb"]

    assert (1700000000123000, "MICROSECOND") == (
        reported["ApproximateCreationDateTime"],
        reported["ApproximateCreationDateTimePrecision"],
    )


def test_an_expired_item_has_the_identity_of_the_service() -> None:
    reported = json.loads(record(delivery(order(), None, source="ttl")))

    assert {"type": "Service", "principalId": "dynamodb.amazonaws.com"} == reported["userIdentity"]
    assert "NewImage" not in reported["dynamodb"]
