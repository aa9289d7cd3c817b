"""A change in the plain format."""

import json
from dataclasses import replace

from foldb.materializer.fold.outcomes import Tx
from foldb.streams.formats.plain import plain
from tests.unit.streams.deliveries import ORDERS, delivery, order


def test_a_change_is_one_line_of_json() -> None:
    old, new = order(), order(state={"S": "paid"})

    line = plain(delivery(old, new, tx=Tx("10482.0", 0, 2), depth=3))

    assert b"\n" not in line
    assert {
        "table": "Orders",
        "op": "MODIFY",
        "keys": {"customer": {"S": "ann"}, "order": {"N": "1"}},
        "old": old,
        "new": new,
        "number": "100000000000001048200000000",
        "position": "10482.0",
        "time": "2023-11-14T22:13:20.123Z",
        "tx": {"id": "10482.0", "n": 0, "of": 2},
        "principal": "alice",
        "requestId": "request-10482",
        "source": "api",
        "depth": 3,
        "replay": False,
    } == json.loads(line)


def test_an_absent_image_is_null_and_line_breaks_are_escaped() -> None:
    inserted = plain(delivery(None, order("a\nb")))
    removed = json.loads(plain(delivery(order(), None, principal=None, source="ttl")))

    assert b"\n" not in inserted
    assert (None, "a\nb") == (json.loads(inserted)["old"], json.loads(inserted)["keys"]["customer"]["S"])
    assert ("REMOVE", None, None, "ttl") == tuple(
        removed[name] for name in ("op", "new", "principal", "source")
    )


def test_an_item_of_a_snapshot_is_a_read() -> None:
    assert "READ" == json.loads(plain(delivery(None, order(), is_read=True)))["op"]


def test_one_of_several_partitions_is_in_the_position() -> None:
    change = delivery(None, order(), table=replace(ORDERS, partitions=9), partition=2)

    assert "2:10482.0" == json.loads(plain(change))["position"]


def test_a_replayed_change_is_marked() -> None:
    assert True is json.loads(plain(delivery(None, order()), replay=True))["replay"]
