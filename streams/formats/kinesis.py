"""A change in the JSON that DynamoDB writes to a Kinesis data stream.

Records always have both images. The time is in milliseconds, or in microseconds if the destination asks for them; the
record then names its precision. Records have no sequence number; duplicates have the same eventID.
"""

from typing import Final, Literal, TypeAlias
from uuid import UUID

from ...model.tables import REGION
from .dynamodb import BOTH, event_name, images, is_expiry
from .table_view import Delivery, event_id

Precision: TypeAlias = Literal["MILLISECOND", "MICROSECOND"]

_BY_TTL: Final = b'{"type":"Service","principalId":"dynamodb.amazonaws.com"}'
_MICROSECOND: Final = b',"ApproximateCreationDateTimePrecision":"MICROSECOND"'

_HEAD: Final = b'{"awsRegion":"%b","eventID":"' % REGION.encode()


def record(delivery: Delivery, precision: Precision = "MILLISECOND") -> bytes:
    is_microsecond = precision == "MICROSECOND"
    change = delivery.change
    return b"".join(
        (
            _HEAD,
            str(UUID(event_id(delivery))).encode(),
            b'","eventName":"',
            event_name(change),
            b'","userIdentity":',
            _BY_TTL if is_expiry(change) else b"null",
            b',"recordFormat":"application/json","tableName":"',
            delivery.table.name.encode(),
            b'","dynamodb":{"ApproximateCreationDateTime":%d'
            % (change.time * 1000 if is_microsecond else change.time),
            b',"Keys":',
            *images(change, delivery.table.key, BOTH),
            _MICROSECOND if is_microsecond else b"",
            b'},"eventSource":"aws:dynamodb"}',
        )
    )
