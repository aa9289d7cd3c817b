"""Debezium's envelope, as its consumers read it."""

import json

import pytest

from foldb.materializer.fold.outcomes import Tx
from foldb.streams.formats.debezium import envelope
from tests.unit.streams.deliveries import LOG_ID, TIME, delivery, order

NOW = TIME + 77


def test_an_envelope_has_both_images_the_source_and_the_transaction() -> None:
    old, new = order(), order(state={"S": "PAID"})

    assert {
        "before": old,
        "after": new,
        "source": {
            "connector": "foldb",
            "name": LOG_ID.hex(),
            "ts_ms": TIME,
            "snapshot": "false",
            "db": LOG_ID.hex(),
            "table": "Orders",
            "sequence": "100000000000001048200000000",
            "position": "10482.0",
        },
        "op": "u",
        "ts_ms": NOW,
        "transaction": {"id": "10482.0", "total_order": 2},
    } == json.loads(envelope(delivery(old, new, tx=Tx("10482.0", 1, 2)), NOW))


@pytest.mark.parametrize(
    ("old", "new", "is_read", "op"),
    [(None, order(), False, "c"), (order(), None, False, "d"), (None, order(), True, "r")],
)
def test_the_operation_is_one_letter(old: None, new: None, *, is_read: bool, op: str) -> None:
    reported = json.loads(envelope(delivery(old, new, is_read=is_read), NOW))

    assert (op, str(is_read).lower()) == (reported["op"], reported["source"]["snapshot"])
    assert (old, new, None) == (reported["before"], reported["after"], reported["transaction"])
