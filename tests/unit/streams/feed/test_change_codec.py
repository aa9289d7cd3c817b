"""The bytes of a change segment: any Avro tool reads them, and reading returns the written changes."""

import io
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldb.log.commands import new_context
from foldb.materializer.fold.outcomes import Change, Tx
from foldb.model.sequence_numbers import sequence_number
from foldb.streams.feed import change_codec
from foldb.streams.feed.change_codec import DamagedError, SegmentOwner
from tests.unit.log.samples import contexts

OWNER = SegmentOwner(b"l" * 16, 3, 7)
HEADER = change_codec.header(OWNER, 41)
MARKER = HEADER[-change_codec.MARKER_BYTES :]

numbers = st.builds(
    sequence_number, st.integers(0, 10**17), st.integers(0, 9999), st.integers(0, 9999)
) | st.integers(1, 10**7)
images = st.none() | st.binary(max_size=200)
changes = st.builds(
    Change,
    st.just(OWNER.table),
    st.binary(max_size=70),
    st.binary(max_size=70),
    images,
    images,
    numbers,
    st.integers(0, 2**45),
    contexts,
    st.none() | st.builds(Tx, st.text(max_size=20), st.integers(0, 9999), st.integers(1, 9999)),
    st.integers(0, 2**45),
    st.booleans(),
)
blocks = st.lists(changes, min_size=1, max_size=5)


@given(blocks, st.integers(0, 10**6))
def test_a_block_is_read_as_it_was_written(written: list[Change], shard: int) -> None:
    data = change_codec.block(written, shard, MARKER)

    assert written == change_codec.read_block(data, MARKER, OWNER.table)

    head = change_codec.read_head(data[: change_codec.HEAD_BYTES], 1000)
    first = written[0]
    assert (1000, len(data), len(written)) == (head.at, head.size, head.changes)
    assert (first.sequence_number, first.time, first.stream, shard) == (
        head.sequence_number,
        head.time,
        head.stream,
        head.shard,
    )


@given(st.lists(blocks, max_size=3))
def test_any_avro_tool_reads_a_segment(written: list[list[Change]]) -> None:
    data = HEADER + b"".join(change_codec.block(each, 5, MARKER) for each in written)

    rows: list[Any] = list(fastavro.reader(io.BytesIO(data)))

    for row, change in zip(rows, [change for each in written for change in each], strict=True):
        assert change.sequence_number == 10**26 + row["offset"] * 10**8 + row["place"]
        assert (change.pk, change.sk, change.old, change.new) == (
            row["pk"],
            row["sk"],
            row["old"],
            row["new"],
        )
        assert (change.time, change.stream, 5) == (row["time"], row["stream"], row["shard"])
        assert row["tx"] == (None if change.tx is None else change.tx._asdict())
        assert change.is_read == row["is_read"]
        assert change.context.fields() == tuple(row["context"].values())


@given(blocks, st.data())
def test_a_flipped_bit_is_damage(written: list[Change], data: st.DataObject) -> None:
    """A flipped bit of the marker is found by the next block, or by a start."""
    block = change_codec.block(written, 0, MARKER)
    place = data.draw(st.integers(0, 8 * len(block) - 1))
    damaged = bytearray(block)
    damaged[place // 8] ^= 1 << place % 8

    with pytest.raises(DamagedError):
        change_codec.read_block(bytes(damaged), MARKER, OWNER.table)


def test_every_bit_of_a_block_except_its_marker_counts() -> None:
    change = Change(OWNER.table, b"a", b"", None, b"{}", 10**26, 7, new_context("r"))
    block = change_codec.block([change], 0, MARKER)
    for place in range(8 * (len(block) - len(MARKER))):
        damaged = bytearray(block)
        damaged[place // 8] ^= 1 << place % 8
        with pytest.raises(DamagedError):
            change_codec.read_block(bytes(damaged), MARKER, OWNER.table)


@given(st.binary(max_size=80))
def test_random_bytes_are_damage(junk: bytes) -> None:
    with pytest.raises(DamagedError):
        change_codec.read_block(junk, MARKER, OWNER.table)
