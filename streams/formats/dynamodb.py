"""A record of DynamoDB Streams: a member of GetRecords' answer, and the core of Lambda's events and Kinesis's JSON.

The images are copies of the stored bytes. Images that the view type excludes are not read.
"""

from typing import Final

from ...model.tables import REGION
from .stored_size import stored_size
from .table_view import Delivery, event_id, operation

NEW: Final = frozenset(("NEW_IMAGE", "NEW_AND_OLD_IMAGES"))
OLD: Final = frozenset(("OLD_IMAGE", "NEW_AND_OLD_IMAGES"))
BOTH: Final = "NEW_AND_OLD_IMAGES"

# The API capitalises these names, Lambda does not.
_BY_TTL: Final = b',"userIdentity":{"PrincipalId":"dynamodb.amazonaws.com","Type":"Service"}'


def record(delivery: Delivery) -> bytes:
    """Return a member of GetRecords' Records."""
    return b"{%b%b}" % (head(delivery), _BY_TTL if is_expiry(delivery) else b"")


def head(delivery: Delivery) -> bytes:
    """Return the members of a record that are equal in the API and in Lambda's events."""
    change, table = delivery.change, delivery.table
    view = table.view or BOTH
    return (
        b'"eventID":"%b","eventName":"%b","eventVersion":"1.1","eventSource":"aws:dynamodb","awsRegion":"%b",'
        b'"dynamodb":{"ApproximateCreationDateTime":%d,%b,"SequenceNumber":"%d","StreamViewType":"%b"}'
    ) % (
        event_id(delivery).encode(),
        event_name(delivery),
        REGION.encode(),
        change.time // 1000,
        images(delivery, view),
        delivery.sequence_number,
        view.encode(),
    )


def images(delivery: Delivery, view: str) -> bytes:
    """Return Keys, SizeBytes and the existing images that `view` includes."""
    change, table = delivery.change, delivery.table
    keys = table.key.write(change.pk, change.sk)
    parts = b'"Keys":%b' % keys
    size = stored_size(keys)
    if change.new is not None and view in NEW:
        parts += b',"NewImage":%b' % change.new
        size += stored_size(change.new)
    if change.old is not None and view in OLD:
        parts += b',"OldImage":%b' % change.old
        size += stored_size(change.old)
    return b'%b,"SizeBytes":%d' % (parts, size)


def event_name(delivery: Delivery) -> bytes:
    """Return AWS's name of the operation; an item of a snapshot is an INSERT."""
    name = operation(delivery.change)
    return b"INSERT" if name == "READ" else name.encode()


def is_expiry(delivery: Delivery) -> bool:
    """Return whether TTL deleted the item."""
    change = delivery.change
    return change.new is None and change.context.source == "ttl"
