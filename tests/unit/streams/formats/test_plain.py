"""A change in foldb's own words."""

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


def test_an_image_that_is_not_there_is_null_and_a_line_break_in_a_text_stays_inside_the_line() -> None:
    inserted = plain(delivery(None, order("a\nb")))
    removed = json.loads(plain(delivery(order(), None, principal=None, source="ttl")))

    assert b"\n" not in inserted
    assert (None, "a\nb") == (json.loads(inserted)["old"], json.loads(inserted)["keys"]["customer"]["S"])
    assert ("REMOVE", None, None, "ttl") == tuple(
        removed[name] for name in ("op", "new", "principal", "source")
    )


def test_an_item_of_a_snapshot_was_read() -> None:
    assert "READ" == json.loads(plain(delivery(None, order(), is_read=True)))["op"]


def test_a_position_names_its_partition_where_there_are_several() -> None:
    change = delivery(None, order(), table=replace(ORDERS, partitions=9), partition=2)

    assert "2:10482.0" == json.loads(plain(change))["position"]


def test_what_is_delivered_again_says_so() -> None:
    assert True is json.loads(plain(delivery(None, order()), replay=True))["replay"]
