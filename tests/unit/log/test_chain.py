"""The chain of a partition covers every fact of its records, and nothing of their encoding."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from foldb.log.chain import Chain
from foldb.log.codec import decode_message, encode_message
from foldb.log.commands import Entry, Genesis, Put, Record, new_context
from foldb.log.copy import original
from foldb.log.local import LocalLog
from tests.unit.log.generate_golden import GOLDEN
from tests.unit.log.samples import ORIGIN, one_of_each, put_entry

GENESIS = Genesis(b"log of the chain", 0, 1, 0, 5, "blake2b-64", "modern")
RECORDS = [Record(0, offset, 1000 + offset, entry) for offset, entry in enumerate(one_of_each())]

[PUT] = put_entry(1).commands
assert isinstance(PUT, Put)


def value(records: Iterable[Record], genesis: Genesis = GENESIS) -> bytes:
    chain = Chain(genesis)
    for record in records:
        chain.extend(record)
    return chain.value


def test_a_copy_of_the_log_has_the_same_chain() -> None:
    """A copy has the original times in its entries, times of its own, and another encoding."""
    copied = [
        replace(record, time=record.time + 5000, entry=decode_message(encode_message(original(record))))
        for record in RECORDS
    ]

    assert value(RECORDS) == value(copied)


@pytest.mark.parametrize("folder", sorted(GOLDEN.iterdir()), ids=lambda folder: folder.name)
def test_a_golden_log_has_the_chain_of_its_copy(folder: Path) -> None:
    """The commands of the first layout are hashed as the present schema writes them."""
    reader = LocalLog.open_reader(folder)
    records = list(reader.read(0))
    copied = [replace(record, entry=decode_message(encode_message(original(record)))) for record in records]

    assert value(records, reader.genesis(0)) == value(copied, reader.genesis(0))


@pytest.mark.parametrize(
    "changed",
    [
        Record(0, 0, 7, put_entry(1)),
        Record(0, 0, 5, replace(put_entry(1), origin=b"another process.")),
        Record(0, 0, 5, put_entry(2)),
        Record(0, 0, 5, replace(put_entry(1), time=6)),
        Record(0, 0, 5, replace(put_entry(1), salt=bytes(16))),
        Record(0, 0, 5, replace(put_entry(1), commands=[])),
        Record(0, 0, 5, replace(put_entry(1), commands=[PUT, PUT])),
        Record(0, 0, 5, replace(put_entry(1), commands=put_entry(1, size=21).commands)),
        Record(0, 0, 5, Entry(ORIGIN, 1, [replace(PUT, context=new_context("other"))])),
    ],
)
def test_every_fact_of_a_record_changes_the_chain(changed: Record) -> None:
    record = Record(0, 0, 5, put_entry(1))

    assert value([record]) != value([changed])


def test_the_log_changes_the_chain() -> None:
    record = Record(0, 0, 5, put_entry(1))

    assert value([record]) != value([record], replace(GENESIS, log_id=bytes(16)))


def test_a_chain_continues_from_a_value() -> None:
    first = Chain(GENESIS)
    for record in RECORDS[:2]:
        first.extend(record)
    later = Chain(GENESIS, first.next_offset, first.value)
    for record in RECORDS[2:]:
        later.extend(record)

    assert value(RECORDS) == later.value
    assert len(RECORDS) == later.next_offset


def test_a_chain_refuses_a_gap() -> None:
    with pytest.raises(AssertionError, match="skipped or repeated"):
        Chain(GENESIS).extend(RECORDS[1])
