"""A record of DynamoDB Streams: a member of GetRecords' answer, and the core of Lambda's events and Kinesis's JSON.

The images are copies of the stored bytes. Images that the view type excludes are not read. The sizes of the items are
those that the fold computed; only of a change that was read from a file they are computed again.
"""

from typing import Final, TypeAlias

from ...materializer.fold.outcomes import Change
from ...model.key_schema import KeySchema
from ...model.tables import REGION
from .stored_size import stored_size
from .table_view import ChangeOperation, Delivery, event_digits, operation

NEW: Final = frozenset(("NEW_IMAGE", "NEW_AND_OLD_IMAGES"))
OLD: Final = frozenset(("OLD_IMAGE", "NEW_AND_OLD_IMAGES"))
BOTH: Final = "NEW_AND_OLD_IMAGES"

Images: TypeAlias = tuple[bytes, bytes, bytes, bytes, bytes, bytes]

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
    return record_with(delivery, _BY_TTL if is_expiry(delivery.change) else b"")


def record_with(delivery: Delivery, more: bytes) -> bytes:
    """Return a record, which is equal in the API and in Lambda's events apart from its last members, `more`."""
    change, _, table, snapshot = delivery
    view = table.view or BOTH
    number = b"%d" % (snapshot or change.sequence_number)
    keys, new_name, new, old_name, old, size = images(change, table.key, view)
    # Joined in one step: images are long, and each step would copy them. A format takes three times as long.
    return b"".join(
        (
            b'{"eventID":"',
            event_digits(delivery, number),
            b'","eventName":"',
            event_name(change),
            _SOURCE,
            b'%d,"Keys":' % (change.time // 1000),
            keys,
            new_name,
            new,
            old_name,
            old,
            size,
            b',"SequenceNumber":"',
            number,
            b'","StreamViewType":"',
            view.encode(),
            b'"}',
            more,
            b"}",
        )
    )


def images(change: Change, schema: KeySchema, view: str) -> Images:
    """Return keys, the existing images that `view` includes, each behind its name, and the size of all of them."""
    new, old = change.new, change.old
    keys = schema.write(change.pk, change.sk)
    size = schema.names_size
    size = stored_size(keys) if size is None else size + len(change.pk) + len(change.sk)
    new_name = old_name = b""
    if new is None or view not in NEW:
        new = b""
    else:
        new_name = b',"NewImage":'
        size += change.new_size or stored_size(new)
    if old is None or view not in OLD:
        old = b""
    else:
        old_name = b',"OldImage":'
        size += change.old_size or stored_size(old)
    return keys, new_name, new, old_name, old, b',"SizeBytes":%d' % size


def event_name(change: Change) -> bytes:
    """Return AWS's name of the operation; an item of a snapshot is an INSERT."""
    return _NAMES[operation(change)]


def is_expiry(change: Change) -> bool:
    """Return whether TTL deleted the item."""
    return change.new is None and change.context.source == "ttl"
