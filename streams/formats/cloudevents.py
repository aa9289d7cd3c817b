"""A change as a CloudEvent 1.0, in the three modes of its HTTP binding.

    structured   one event, attributes and data in one JSON object
    batch        several of them in a JSON array
    binary       the data alone is the body, the attributes are headers

The data is the plain format. `id` is the change's event id and the same whenever it is told, so a receiver knows what
comes twice; `sequence` (an extension that CloudEvents documents) is its number, of one length, rising for each item.
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

# What a header may hold as it is, but for the letters and digits: printable, and neither space, quotation mark nor %.
_PRINTABLE: Final = "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"


def attributes(delivery: Delivery) -> dict[str, str]:
    """What the event says about itself, its data's type left out."""
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
    """The event as one JSON object."""
    about = orjson.dumps({**attributes(delivery), "datacontenttype": DATA})
    return b'%b,"data":%b}' % (about[:-1], plain(delivery, replay=replay))


def batch(changes: Iterable[Delivery], *, replay: bool = False) -> bytes:
    """Several events as a JSON array."""
    return b"[%b]" % b",".join(structured(delivery, replay=replay) for delivery in changes)


def headers(delivery: Delivery) -> dict[str, str]:
    """The headers of binary mode; the body is the plain format."""
    about = {f"ce-{name}": quote(text, safe=_PRINTABLE) for name, text in attributes(delivery).items()}
    return {**about, "content-type": DATA}
