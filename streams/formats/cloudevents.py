"""A change as a CloudEvent 1.0, in the three modes of its HTTP binding.

    structured   one event: attributes and data in one JSON object
    batch        a JSON array of events
    binary       the body is the data, the headers are the attributes

The data is the plain format. `id` is the change's event id, equal in all deliveries, so a receiver can drop duplicates.
`sequence` (an extension that CloudEvents documents) is the sequence number: all have one length, and those of an item
rise.
"""

from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

import orjson

from ...model.descriptions import stream_label
from ...model.tables import table_arn
from .plain import plain
from .table_view import Delivery, event_id, operation

STRUCTURED: Final = "application/cloudevents+json; charset=utf-8"
BATCH: Final = "application/cloudevents-batch+json; charset=utf-8"
DATA: Final = "application/json"

# The characters, other than letters and digits, that a header holds unescaped: printable, without space, " and %.
_PRINTABLE: Final = "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"


def attributes(delivery: Delivery) -> dict[str, str]:
    """Return the event's attributes without the type of its data."""
    change, table = delivery.change, delivery.table
    return {
        "specversion": "1.0",
        "id": event_id(delivery),
        "source": table_arn(table.name),
        "type": f"foldb.item.{operation(change).lower()}",
        "subject": table.key.write(change.pk, change.sk).decode(),
        "time": stream_label(change.time) + "Z",
        "sequence": str(delivery.sequence_number),
    }


def structured(delivery: Delivery, *, replay: bool = False) -> bytes:
    """Return the event as one JSON object."""
    head = orjson.dumps({**attributes(delivery), "datacontenttype": DATA})
    return b'%b,"data":%b}' % (head[:-1], plain(delivery, replay=replay))


def batch(changes: Iterable[Delivery], *, replay: bool = False) -> bytes:
    """Return events as a JSON array."""
    return b"[%b]" % b",".join(structured(delivery, replay=replay) for delivery in changes)


def headers(delivery: Delivery) -> dict[str, str]:
    """Return the headers of binary mode, whose body is the plain format."""
    named = {f"ce-{name}": quote(text, safe=_PRINTABLE) for name, text in attributes(delivery).items()}
    return {**named, "content-type": DATA}
