"""A record of DynamoDB Streams: a member of GetRecords' answer, and the core of Lambda's events and Kinesis's JSON.

The images are copies of the stored bytes. Images that the view type excludes are not read. The sizes of the items are
those that the fold computed; only of a change that was read from a file they are computed again.
"""

from typing import Final

from ...model.tables import REGION
from .stored_size import stored_size
from .table_view import ChangeOperation, Delivery, event_digits, operation

NEW: Final = frozenset(("NEW_IMAGE", "NEW_AND_OLD_IMAGES"))
OLD: Final = frozenset(("OLD_IMAGE", "NEW_AND_OLD_IMAGES"))
BOTH: Final = "NEW_AND_OLD_IMAGES"

# The API capitalises these names, Lambda does not.
_BY_TTL: Final = b',"userIdentity":{"PrincipalId":"dynamodb.amazonaws.com","Type":"Service"}'

_SOURCE: Final = (
    b'","eventVersion":"1.1","eventSource":"aws:dynamodb","awsRegion":"%b",'
    b'"dynamodb":{"ApproximateCreationDateTime":'
) % REGION.encode()

_NAMES: Final[dict[ChangeOperation, bytes]] = {
    "INSERT": b"INSERT",
    "READ": b"INSERT",
    "MODIFY": b"MODIFY",
    "REMOVE": b"REMOVE",
}


def record(delivery: Delivery) -> bytes:
    """Return a member of GetRecords' Records."""
    return record_with(delivery, _BY_TTL if is_expiry(delivery) else b"")


def record_with(delivery: Delivery, more: bytes) -> bytes:
    """Return a record, which is equal in the API and in Lambda's events apart from its last members, `more`."""
    change, _, table, _ = delivery
    view = table.view or BOTH
    number = b"%d" % delivery.sequence_number
    # Joined in one step: images are long, and each step would copy them. A format takes three times as long.
    return b"".join(
        (
            b'{"eventID":"',
            event_digits(delivery, number),
            b'","eventName":"',
            event_name(delivery),
            _SOURCE,
            b"%d" % (change.time // 1000),
            *images(delivery, view),
            b',"SequenceNumber":"',
            number,
            b'","StreamViewType":"',
            view.encode(),
            b'"}',
            more,
            b"}",
        )
    )


def images(delivery: Delivery, view: str) -> list[bytes]:
    """Return the parts of keys, of the images that exist and that `view` includes, and of the size of all of them."""
    change, _, table, _ = delivery
    schema, new, old = table.key, change.new, change.old
    keys = schema.write(change.pk, change.sk)
    parts = [b',"Keys":', keys]
    size = schema.names_size
    size = stored_size(keys) if size is None else size + len(change.pk) + len(change.sk)
    if new is not None and view in NEW:
        parts += (b',"NewImage":', new)
        size += change.new_size or stored_size(new)
    if old is not None and view in OLD:
        parts += (b',"OldImage":', old)
        size += change.old_size or stored_size(old)
    parts.append(b',"SizeBytes":%d' % size)
    return parts


def event_name(delivery: Delivery) -> bytes:
    """Return AWS's name of the operation; an item of a snapshot is an INSERT."""
    return _NAMES[operation(delivery.change)]


def is_expiry(delivery: Delivery) -> bool:
    """Return whether TTL deleted the item."""
    change = delivery.change
    return change.new is None and change.context.source == "ttl"
