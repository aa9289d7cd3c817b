"""A change in foldb's own format, one line of JSON: `foldb stream` prints it, and commands read it.

    {"table": "Orders", "op": "MODIFY", "keys": {...}, "old": {...}, "new": {...},
     "number": "100000000000001048200030000", "position": "2:10482.3", "time": "2026-11-20T12:00:00.123Z",
     "tx": {"id": "2:10482.3", "n": 0, "of": 2}, "principal": "alice", "requestId": "...", "source": "api",
     "depth": 0, "replay": false}

Items are DynamoDB JSON. `old` or `new` is null if the item did not or does not exist. `number`, the sequence number, is
text because few JSON parsers keep 27 digits.
"""

from typing import Final

import orjson

from ...model.descriptions import stream_label
from .table_view import Delivery, operation

_LINE: Final = (
    b'{"table":"%b","op":"%b","keys":%b,"old":%b,"new":%b,"number":"%d","position":"%b","time":"%bZ","tx":%b,'
    b'"principal":%b,"requestId":%b,"source":"%b","depth":%d,"replay":%b}'
)


def plain(delivery: Delivery, *, replay: bool = False) -> bytes:
    """Return the change as one line without a line end. `replay` marks a change that a user requested again."""
    change, _, table, _ = delivery
    request_id, _, principal, source, depth, _ = change.context.fields()
    tx = change.tx
    return _LINE % (
        table.name.encode(),
        operation(change).encode(),
        table.key.write(change.pk, change.sk),
        change.old or b"null",
        change.new or b"null",
        delivery.sequence_number,
        delivery.position.encode(),
        stream_label(change.time).encode(),
        b"null" if tx is None else b'{"id":"%b","n":%d,"of":%d}' % (tx.id.encode(), tx.n, tx.of),
        b"null" if principal is None else orjson.dumps(principal),
        orjson.dumps(request_id),
        source.encode(),
        depth,
        b"true" if replay else b"false",
    )
