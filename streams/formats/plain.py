"""A change in foldb's own format, one line of JSON: `foldb stream` prints it, and commands read it.

    {"table": "Orders", "op": "MODIFY", "keys": {...}, "old": {...}, "new": {...},
     "number": "100000000000001048200030000", "position": "2:10482.3", "time": "2026-11-20T12:00:00.123Z",
     "tx": {"id": "2:10482.3", "n": 0, "of": 2}, "principal": "alice", "requestId": "...", "source": "api",
     "depth": 0, "replay": false}

Items are DynamoDB JSON. `old` or `new` is null if the item did not or does not exist. `number`, the sequence number, is
text because few JSON parsers keep 27 digits.
"""

from functools import lru_cache

import orjson

from ...model.descriptions import stream_label
from .table_view import Delivery, operation


def plain(delivery: Delivery, *, replay: bool = False) -> bytes:
    """Return the change as one line without a line end. `replay` marks a change that a user requested again."""
    change, _, table, _ = delivery
    request_id, _, principal, source, depth, _ = change.context.fields()
    tx = change.tx
    return b"".join(
        (
            b'{"table":"',
            table.name.encode(),
            b'","op":"',
            operation(change).encode(),
            b'","keys":',
            table.key.write(change.pk, change.sk),
            b',"old":',
            change.old or b"null",
            b',"new":',
            change.new or b"null",
            b',"number":"',
            b"%d" % delivery.sequence_number,
            b'","position":"',
            delivery.position.encode(),
            b'","time":"',
            _time(change.time),
            b"null" if tx is None else b'{"id":"%b","n":%d,"of":%d}' % (tx.id.encode(), tx.n, tx.of),
            b',"principal":',
            _principal(principal),
            b',"requestId":',
            orjson.dumps(request_id),
            b',"source":"',
            source.encode(),
            b'","depth":',
            b"%d" % depth,
            b',"replay":true}' if replay else b',"replay":false}',
        )
    )


@lru_cache(64)
def _time(time_ms: int) -> bytes:
    """Return a time up to the next value. The changes of a record have one time, hence the cache."""
    return b'%bZ","tx":' % stream_label(time_ms).encode()


@lru_cache(1024)
def _principal(name: str | None) -> bytes:
    """Return the name of a principal as JSON. It is cached, because few principals write."""
    return orjson.dumps(name)
