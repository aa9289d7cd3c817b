"""A record of DynamoDB Streams: a member of GetRecords' answer, and the core of Lambda's events and Kinesis's JSON.

The images are copies of the stored bytes. Images that the view type excludes are not read. The sizes of the items are
those that the fold computed; only of a change that was read from a file they are computed again.
"""

from typing import Final

from ...model.tables import REGION
from .stored_size import stored_size
from .table_view import Delivery, event_digits, operation

NEW: Final = frozenset(("NEW_IMAGE", "NEW_AND_OLD_IMAGES"))
OLD: Final = frozenset(("OLD_IMAGE", "NEW_AND_OLD_IMAGES"))
BOTH: Final = "NEW_AND_OLD_IMAGES"

# The API capitalises these names, Lambda does not.
_BY_TTL: Final = b',"userIdentity":{"PrincipalId":"dynamodb.amazonaws.com","Type":"Service"}'

_HEAD: Final = (
    b'"eventID":"%%b","eventName":"%%b","eventVersion":"1.1","eventSource":"aws:dynamodb","awsRegion":"%b",'
    b'"dynamodb":{"ApproximateCreationDateTime":%%d,%%b,"SequenceNumber":"%%d","StreamViewType":"%%b"}'
) % REGION.encode()


def record(delivery: Delivery) -> bytes:
    """Return a member of GetRecords' Records."""
    return b"{%b%b}" % (head(delivery), _BY_TTL if is_expiry(delivery) else b"")


def head(delivery: Delivery) -> bytes:
    """Return the members of a record that are equal in the API and in Lambda's events."""
    change, _, table, _ = delivery
    view = table.view or BOTH
    return _HEAD % (
        event_digits(delivery),
        event_name(delivery),
        change.time // 1000,
        images(delivery, view),
        delivery.sequence_number,
        view.encode(),
    )


def images(delivery: Delivery, view: str) -> bytes:
    """Return Keys, SizeBytes and the existing images that `view` includes."""
    change, _, table, _ = delivery
    schema, new, old = table.key, change.new, change.old
    keys = schema.write(change.pk, change.sk)
    size = schema.names_size
    size = stored_size(keys) if size is None else size + len(change.pk) + len(change.sk)
    if new is None or view not in NEW:
        new_image = b""
    else:
        new_image = b',"NewImage":%b' % new
        size += change.new_size or stored_size(new)
    if old is None or view not in OLD:
        return b'"Keys":%b%b,"SizeBytes":%d' % (keys, new_image, size)
    size += change.old_size or stored_size(old)
    return b'"Keys":%b%b,"OldImage":%b,"SizeBytes":%d' % (keys, new_image, old, size)


def event_name(delivery: Delivery) -> bytes:
    """Return AWS's name of the operation; an item of a snapshot is an INSERT."""
    name = operation(delivery.change)
    return b"INSERT" if name == "READ" else name.encode()


def is_expiry(delivery: Delivery) -> bool:
    """Return whether TTL deleted the item."""
    change = delivery.change
    return change.new is None and change.context.source == "ttl"
