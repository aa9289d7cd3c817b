"""Readers of files of items: malformed records are named, and all others are items that are written and read again."""

import io
from typing import Final

from foldb.model.limits import MODERN
from foldb.model.values import check_item, dump
from foldb.server.buckets.item_files import (
    CsvOptions,
    InputFormat,
    ItemFormat,
    MalformedRecord,
    encode_change,
    encode_item,
    read_changes,
    read_items,
)
from tests.verification.fuzz.target import Target

FORMATS: Final[tuple[InputFormat, ...]] = ("DYNAMODB_JSON", "ION", "CSV")
WRITTEN: Final[tuple[ItemFormat, ...]] = ("DYNAMODB_JSON", "ION")


def judge_items(data: bytes) -> None:
    """The first byte chooses the format; the rest is a file."""
    file_format = FORMATS[data[0] % len(FORMATS)] if data else "CSV"
    options = CsvOptions(types={"n": "N", "b": "B"})
    place = (0, -1)
    for record in read_items(io.BytesIO(data[1:]), file_format, options):
        if isinstance(record, MalformedRecord):
            assert place < record[:2], "records are in the order of the file"
            assert record.reason
            place = record[:2]
            continue
        stored = dump(record)
        check_item(record, MODERN)
        assert stored == dump(record), "an item is canonical"
        for each in WRITTEN:
            assert [record] == list(read_items(io.BytesIO(encode_item(record, each)), each))


def judge_changes(data: bytes) -> None:
    """The first byte chooses the format; the rest is a file of an incremental export."""
    file_format = WRITTEN[data[0] & 1] if data else "ION"
    for record in read_changes(io.BytesIO(data[1:]), file_format):
        if not isinstance(record, MalformedRecord):
            again = record._replace(written_us=record.written_us or 0)
            assert [again] == list(read_changes(io.BytesIO(encode_change(record, file_format)), file_format))


ITEMS: Final = (
    b'\x00{"Item":{"a":{"SS":["x"]},"n":{"N":"1e3"}}}\n\n[1]\n',
    b"\x01$ion_1_0 {Item:{a:$dynamodb_SS::[\"x\"],'b c':[{{aGk=}},null,true,{d:1.5d-3}]}}\n$ion_1_0 {\n",
    b'\x02n,b,c\n1,aGk=,"x\n""y"\n2\n3,,z\n',
)
CHANGES: Final = (
    b'\x00{"Metadata":{"WriteTimestampMicros":{"N":"7"}},"Keys":{"a":{"S":"x"}},"NewImage":{"a":{"S":"x"}}}\n',
    b'\x01$ion_1_0 {Record:{Metadata:{WriteTimestampMicros:7.},Keys:{a:"x"},OldImage:{a:"x"}}}\n',
)
WORDS: Final = (
    "$ion_1_0 ", "{Item:{", '{"Item":{', "$dynamodb_NS::[", "$dynamodb_BS::[", "{{", "}}", "'''", '"', "\\u00e9",
    "null.", "2026T", "1d999999999999", "0x7f", "+inf", "$10", "::", "/*", "//", '{"N":"', '{"M":{', "\r\n", '""', ",",
)  # fmt: skip

TARGETS = (
    Target("item files", judge_items, ITEMS, WORDS, steps=(10_000, 400)),
    Target("change files", judge_changes, CHANGES, WORDS, steps=(10_000, 400)),
)
