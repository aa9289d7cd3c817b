"""A record of DynamoDB Streams, as its API reference describes it."""

import json
import re
from dataclasses import replace

import pytest
from botocore.parsers import create_parser
from botocore.session import get_session

from foldb.model.key_schema import KeyAttribute, KeySchema
from foldb.streams.formats.dynamodb import record
from foldb.streams.formats.table_view import Delivery, TableView, event_id
from tests.unit.streams.deliveries import LOG_ID, ORDERS, delivery, order

# The table of Lambda's documented example: a key Id of type N.
EXAMPLE = TableView(
    id=1,
    name="ExampleTableWithStream",
    key=KeySchema((KeyAttribute("Id", "N"),)),
    view="NEW_AND_OLD_IMAGES",
    stream_arn="arn:aws:dynamodb:us-east-1:000000000000:table/ExampleTableWithStream/stream/2015-06-27T00:48:05.899",
    log_id=LOG_ID,
)
NEW_ITEM = {"Id": {"N": "101"}, "Message": {"S": "New item!"}}
CHANGED = {"Id": {"N": "101"}, "Message": {"S": "This item has changed"}}


def reported(change: Delivery) -> dict[str, object]:
    members: dict[str, object] = json.loads(record(change))
    return members


def test_a_record_has_the_members_of_the_api_reference() -> None:
    change = delivery(NEW_ITEM, CHANGED, table=EXAMPLE)

    assert {
        "eventID": event_id(change),
        "eventName": "MODIFY",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1",
        "dynamodb": {
            "ApproximateCreationDateTime": 1700000000,
            "Keys": {"Id": {"N": "101"}},
            "NewImage": CHANGED,
            "OldImage": NEW_ITEM,
            "SizeBytes": 59,
            "SequenceNumber": "100000000000001048200000000",
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
    } == reported(change)


@pytest.mark.parametrize(
    ("old", "new", "name", "size"),
    [(None, NEW_ITEM, "INSERT", 26), (NEW_ITEM, CHANGED, "MODIFY", 59), (CHANGED, None, "REMOVE", 38)],
)
def test_sizes_are_those_of_the_documented_example(old: None, new: None, name: str, size: int) -> None:
    members = reported(delivery(old, new, table=EXAMPLE))

    assert (name, size) == (members["eventName"], members["dynamodb"]["SizeBytes"])  # type: ignore[index]


@pytest.mark.parametrize(
    ("view", "images", "size"),
    [
        ("KEYS_ONLY", set(), 5),
        ("NEW_IMAGE", {"NewImage"}, 38),
        ("OLD_IMAGE", {"OldImage"}, 26),
        ("NEW_AND_OLD_IMAGES", {"NewImage", "OldImage"}, 59),
    ],
)
def test_the_view_type_decides_which_images_a_record_has(view: str, images: set[str], size: int) -> None:
    members = json.loads(record(delivery(NEW_ITEM, CHANGED, table=replace(EXAMPLE, view=view))))["dynamodb"]

    assert images == {"NewImage", "OldImage"} & members.keys()
    assert (view, size) == (members["StreamViewType"], members["SizeBytes"])


def test_an_expired_item_was_removed_by_the_service() -> None:
    """The API's model capitalises the members of the identity; its documentation does not."""
    identity = {"PrincipalId": "dynamodb.amazonaws.com", "Type": "Service"}

    assert identity == reported(delivery(order(), None, source="ttl"))["userIdentity"]
    assert "userIdentity" not in reported(delivery(order(), None, source="api"))


def test_an_event_id_is_stable_and_unique() -> None:
    first, second = delivery(None, order(order=1), 1), delivery(None, order(order=2), 2)
    elsewhere = first._replace(partition=1)
    other_log = first._replace(table=replace(ORDERS, log_id=bytes(16)))
    found = [delivery(None, order(order=nth), 9, is_read=True) for nth in (1, 2)]

    names = [event_id(each) for each in (first, second, elsewhere, other_log, *found)]

    assert len(names) == len(set(names))
    assert all(re.fullmatch("[0-9a-f]{32}", name) for name in names)
    assert "b8fad9508974b67002591fc8fd461ba8" == event_id(first)


def test_botocore_reads_a_record() -> None:
    shape = get_session().get_service_model("dynamodbstreams").operation_model("GetRecords").output_shape
    body = b'{"Records":[%b]}' % record(delivery(order(), order(picture={"B": "AAE="}), source="api"))

    read = create_parser("json").parse({"status_code": 200, "headers": {}, "body": body}, shape)["Records"][0]

    assert b"\x00\x01" == read["dynamodb"]["NewImage"]["picture"]["B"]
    assert 1700000000 == read["dynamodb"]["ApproximateCreationDateTime"].timestamp()
