"""A change in Avro: the members of the plain format with types, in single-object encoding.

    message ::= C3 01 fingerprint body

A reader finds the schema by its fingerprint, the CRC-64-AVRO of its canonical form. Items are bytes of DynamoDB JSON.
Existing topics hold messages of this schema: a changed schema is a further schema, and this one must stay.
"""

from functools import cache
from typing import Any, Final

from ...log.avro import long, optional, optional_text, sized, text
from ...materializer.fold.outcomes import Tx
from .table_view import Delivery, operation

_OPERATIONS: Final = ("INSERT", "MODIFY", "REMOVE", "READ")

SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "foldb.Change",
    "fields": [
        {"name": "table", "type": "string"},
        {"name": "op", "type": {"type": "enum", "name": "foldb.Op", "symbols": list(_OPERATIONS)}},
        {"name": "keys", "type": "bytes"},
        {"name": "old", "type": ["null", "bytes"]},
        {"name": "new", "type": ["null", "bytes"]},
        {"name": "number", "type": "string"},
        {"name": "position", "type": "string"},
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "tx",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "foldb.Tx",
                    "fields": [
                        {"name": "id", "type": "string"},
                        {"name": "n", "type": "int"},
                        {"name": "of", "type": "int"},
                    ],
                },
            ],
        },
        {"name": "principal", "type": ["null", "string"]},
        {"name": "requestId", "type": "string"},
        {"name": "source", "type": "string"},
        {"name": "depth", "type": "int"},
    ],
}


def message(delivery: Delivery) -> bytes:
    """Return the change with the fingerprint of its schema."""
    change, table = delivery.change, delivery.table
    request_id, _, principal, source, depth, _ = change.context.fields()
    return b"".join(
        (
            _head(),
            text(table.name),
            long(_OPERATIONS.index(operation(change))),
            sized(table.key.write(change.pk, change.sk)),
            optional(change.old),
            optional(change.new),
            text(str(delivery.sequence_number)),
            text(delivery.position),
            long(change.time),
            _tx(change.tx),
            optional_text(principal),
            text(request_id),
            text(source),
            long(depth),
        )
    )


def _tx(tx: Tx | None) -> bytes:
    return long(0) if tx is None else b"%b%b%b%b" % (long(1), text(tx.id), long(tx.n), long(tx.of))


@cache
def _head() -> bytes:
    from fastavro.schema import fingerprint, to_parsing_canonical_form

    return b"\xc3\x01" + bytes.fromhex(fingerprint(to_parsing_canonical_form(SCHEMA), "CRC-64-AVRO"))
