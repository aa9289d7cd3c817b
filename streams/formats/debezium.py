"""A change in Debezium's envelope, without its schema.

    {"before": item | null, "after": item | null, "source": {...}, "op": "c" | "u" | "d" | "r",
     "ts_ms": time of the delivery, "transaction": {"id": ..., "total_order": from 1} | null}

Items are DynamoDB JSON: most readers would round plain JSON numbers, and JSON has no sets.
"""

from typing import Final

from .table_view import ChangeOperation, Delivery, operation

_OP: Final[dict[ChangeOperation, bytes]] = {"INSERT": b"c", "MODIFY": b"u", "REMOVE": b"d", "READ": b"r"}


def envelope(delivery: Delivery, now_ms: int) -> bytes:
    change = delivery.change
    tx = change.tx
    transaction = b"null" if tx is None else b'{"id":"%b","total_order":%d}' % (tx.id.encode(), tx.n + 1)
    return b'{"before":%b,"after":%b,"source":%b,"op":"%b","ts_ms":%d,"transaction":%b}' % (
        change.old or b"null",
        change.new or b"null",
        _source(delivery),
        _OP[operation(change)],
        now_ms,
        transaction,
    )


def _source(delivery: Delivery) -> bytes:
    change, table = delivery.change, delivery.table
    return (
        b'{"connector":"foldb","name":"%b","ts_ms":%d,"snapshot":"%b","db":"%b","table":"%b","sequence":"%d",'
        b'"position":"%b"}'
    ) % (
        table.log_id.hex().encode(),
        change.time,
        b"true" if change.is_read else b"false",
        table.log_id.hex().encode(),
        table.name.encode(),
        delivery.sequence_number,
        delivery.position.encode(),
    )
