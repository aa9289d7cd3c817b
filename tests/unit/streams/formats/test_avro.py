"""A change in Avro, as other Avro tools read it."""

from io import BytesIO
from typing import Any

import fastavro
from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

from foldb.materializer.fold.outcomes import Tx
from foldb.model.values import load
from foldb.streams.formats.avro import SCHEMA, message
from tests.unit.streams.deliveries import TIME, delivery, order


def test_another_reader_finds_the_schema_and_reads_the_change() -> None:
    old, new = order(), order(state={"S": "PAID"})

    reported = BytesIO(message(delivery(old, new, tx=Tx("10482.0", 1, 2))))

    assert b"\xc3\x01" == reported.read(2)
    assert (
        fingerprint(to_parsing_canonical_form(parse_schema(SCHEMA)), "CRC-64-AVRO") == reported.read(8).hex()
    )
    read: Any = fastavro.schemaless_reader(reported, parse_schema(SCHEMA), None)
    assert b"" == reported.read()
    assert TIME == round(read.pop("time").timestamp() * 1000)
    assert {
        "table": "Orders",
        "op": "MODIFY",
        "keys": b'{"customer":{"S":"ann"},"order":{"N":"1"}}',
        "number": "100000000000001048200000000",
        "position": "10482.0",
        "tx": {"id": "10482.0", "n": 1, "of": 2},
        "principal": "alice",
        "requestId": "request-10482",
        "source": "api",
        "depth": 0,
    } == {name: value for name, value in read.items() if name not in ("old", "new")}
    assert (old, new) == (load(read["old"]), load(read["new"]))


def test_the_schema_never_changes() -> None:
    """Every existing message holds its fingerprint."""
    assert "c3014fba3789261964bc" == message(delivery(None, order()))[:10].hex()
