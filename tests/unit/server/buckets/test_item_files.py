"""Items in files: each format and compression returns the items that were written, and names malformed records."""

import io
import sys
import time
import tracemalloc
from base64 import b64encode
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from amazon.ion import simpleion
from hypothesis import given, settings
from hypothesis import strategies as st

from foldb.model.numbers import canonical
from foldb.model.values import Item
from foldb.server.buckets import ion, item_files
from foldb.server.buckets.compression import (
    Compression,
    DamagedFileError,
    MissingExtraError,
    compressing,
    compression_of,
    open_compressed,
)
from foldb.server.buckets.item_files import (
    CsvOptions,
    InputFormat,
    ItemChange,
    ItemFormat,
    MalformedRecord,
    encode_change,
    encode_item,
    read_changes,
    read_items,
)
from tests.unit.server.buckets.any_items import ITEMS

FORMATS: list[ItemFormat] = ["DYNAMODB_JSON", "ION"]
COMPRESSIONS: list[Compression] = ["NONE", "GZIP", "ZSTD"]

# The item of the pages of the developer guide about the formats of exports and imports.
BOOK: Item = {
    "Authors": {"SS": ["Author1", "Author2"]},
    "Dimensions": {"S": "8.5 x 11.0 x 1.5"},
    "ISBN": {"S": "333-3333333333"},
    "Id": {"N": "103"},
    "InPublication": {"BOOL": False},
    "PageCount": {"N": "600"},
    "Price": {"N": "2000"},
    "ProductCategory": {"S": "Book"},
    "Title": {"S": "Book 103 Title"},
}
BOOK_IN_ION = (
    b'$ion_1_0 {Item:{Authors:$dynamodb_SS::["Author1","Author2"],Dimensions:"8.5 x 11.0 x 1.5",'
    b'ISBN:"333-3333333333",Id:103.,InPublication:false,PageCount:6d2,Price:2d3,ProductCategory:"Book",'
    b'Title:"Book 103 Title"}}\n'
)


def read(
    data: bytes, file_format: InputFormat, csv: CsvOptions | None = None
) -> list[Item | MalformedRecord]:
    return list(read_items(io.BytesIO(data), file_format, csv))


@settings(max_examples=30)
@given(items=st.lists(ITEMS, min_size=2, max_size=4), time=st.integers(0, 10**17))
def test_items_and_changes_come_back_from_each_format(items: list[Item], time: int) -> None:
    key, image, *_ = items
    changes = [ItemChange(key, old, new, time) for old, new in ((None, image), (image, key), (image, None))]

    for file_format in FORMATS:
        assert items == read(b"".join(encode_item(item, file_format) for item in items), file_format)
        lines = b"".join(encode_change(change, file_format) for change in changes)
        assert changes == list(read_changes(io.BytesIO(lines), file_format))


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_appended_streams_are_read_as_one(compression: Compression, tmp_path: Path) -> None:
    path = tmp_path / "items"
    for _ in range(3):
        with path.open("ab") as target, compressing(target, compression) as content:
            content.write(encode_item(BOOK, "ION"))

    with open_compressed(path, compression) as file:
        assert [BOOK] * 3 == list(read_items(file, "ION"))


@pytest.mark.parametrize("compression", COMPRESSIONS[1:])
def test_a_damaged_compressed_file_is_an_error(compression: Compression, tmp_path: Path) -> None:
    path = tmp_path / "items"
    with path.open("wb") as target, compressing(target, compression) as content:
        content.write(encode_item(BOOK, "ION") * 100)
    whole = path.read_bytes()

    for damaged in (whole[:-9], whole + b"junk", b"junk"):
        path.write_bytes(damaged)
        with open_compressed(path, compression) as file, pytest.raises(DamagedFileError, match="is damaged"):
            list(read_items(file, "ION"))


def test_the_suffix_shows_the_compression() -> None:
    assert ["GZIP", "ZSTD", "NONE"] == [compression_of(name) for name in ("a.ion.gz", "a.zst", "a.json")]


def test_a_book_is_written_as_dynamodb_does() -> None:
    assert BOOK_IN_ION == encode_item(BOOK, "ION")
    assert [BOOK] == read(BOOK_IN_ION, "ION")


@pytest.mark.parametrize(
    ("file_format", "line", "reason"),
    [
        ("DYNAMODB_JSON", b"{", "this is not JSON: unexpected end of data: line 1 column 2 (char 1)"),
        ("DYNAMODB_JSON", b"[]", "this is not a JSON object"),
        ("DYNAMODB_JSON", b"\xff", "this is not JSON: str is not valid UTF-8: surrogates not allowed"),
        ("DYNAMODB_JSON", b'{"id":{"S":"x"}}', "Item is missing"),
        ("DYNAMODB_JSON", b'{"Item":7}', "Item: Unexpected field type"),
        ("DYNAMODB_JSON", b'{"Item":{"id":{"N":"x"}}}', "cannot be converted to a numeric value: x"),
        ("DYNAMODB_JSON", b'{"Item":{"id":{"SS":["a","a"]}}}', "contains duplicates"),
        ("DYNAMODB_JSON", b'{"Keys":{}}', "this is a change of an incremental export"),
        ("ION", b"$ion_1_0 {Item:", "this is not Ion of an item: expected a value at character 15"),
        ("ION", b"$ion_1_0 {Item:{}} {Item:{}}", "expected one value"),
        ("ION", b"$ion_1_0 7", "this is not a struct"),
        ("ION", b"$ion_1_0 {Item:[]}", "this is not a struct"),
        ("ION", b"$ion_1_0 {Item:{a:1e0}}", "items have only decimals, such as 1.5: 1e0"),
        ("ION", b"$ion_1_0 {Item:{a:b::1.}}", "a value has the annotation b"),
        ("ION", b"$ion_1_0 {Item:{a:$dynamodb_SS::[1.]}}", "an element of $dynamodb_SS has another type"),
        ("ION", b"$ion_1_0 {Item:{a:1d200}}", "Number overflow"),
        ("ION", b"$ion_1_0 {Item:{a:" + b"[" * 200_000, "there are more than 40 levels"),
        ("ION", b"{Item:{a:sym}}", "items have no symbols: sym"),
        ("ION", b"{Item:{a:2026T}}", "items have only decimals, such as 1.5: 2026T"),
        ("ION", b'{Item:{a:{{"clob"}}}}', "expected base64: items have no clobs"),
        ("ION", b"{Item:{a:(b)}}", "expected a value"),
        ("ION", b"{Item:{null:1}}", "expected the name of a field"),
        ("ION", b"{Item:{a 1}}", "expected a colon"),
        ("ION", b"{Item:{a:1 b:2}}", "expected a comma or a brace"),
        ("ION", b"{Item:{a:[1 2]}}", "expected a comma or a bracket"),
        ("ION", b'{Item:{a:"b}}', "expected the end of a string"),
        ("ION", b'{Item:{a:"\\q"}}', "unknown escape \\q"),
        ("ION", b'{Item:{a:"\\ud800"}}', "half of a character is escaped"),
        ("ION", b'{Item:{a:"\\U00110000"}}', "no character has the code 00110000"),
        ("ION", b"{Item:{a:{{a}}}}", "Item: "),
        ("ION", b"\xff", "this is not UTF-8"),
        ("ION", b"\xe0\x01\x00\xea\x0f", "this is binary Ion"),
        ("CSV", b'1,"2', "this is not CSV: unexpected end of data"),
        ("CSV", b"1", "the row has 1 columns, and the header 2"),
        ("CSV", b"1,\xff", "the text is not UTF-8"),
        ("CSV", b"x,1", "the row: The parameter cannot be converted to a numeric value: x"),
    ],
)
def test_a_malformed_record_is_named_and_skipped(file_format: InputFormat, line: bytes, reason: str) -> None:
    good = b"1,a\n" if file_format == "CSV" else encode_item({"id": {"N": "1"}}, file_format)
    behind = b"" if b'"2' in line else good  # an open quote holds the rest of a CSV
    options = CsvOptions(header=["id", "name"], types={"id": "N"})

    first, malformed, *rest = read(good + line + b"\n" + behind, file_format, options)

    assert isinstance(malformed, MalformedRecord)
    assert (2, len(good)) == malformed[:2]
    assert reason in malformed.reason
    assert rest == [first] * bool(behind)


def test_empty_lines_and_version_markers_are_no_records() -> None:
    assert [BOOK] * 2 == read(b"$ion_1_0\n\n" + BOOK_IN_ION + b"\r\n" + BOOK_IN_ION[9:], "ION")


@pytest.mark.parametrize(
    "name", ["null", "null1", "nullable", "null.string", "true", "nan", "$1", "$a", "a-b"]
)
def test_any_name_of_an_attribute_is_written_and_read(name: str) -> None:
    item: Item = {name: {"M": {name: {"S": name}}}}

    assert [item] == read(encode_item(item, "ION"), "ION")


def test_ion_numbers_become_canonical() -> None:
    assert [{"a": {"N": "0"}, "b": {"N": "5"}, "c": {"NULL": True}, "d": {"N": "0.015"}}] == read(
        b"{Item:{a:-0., b:5, c:null.string, d:1.50d-2}}", "ION"
    )


def test_csv_has_the_columns_of_its_first_line() -> None:
    data = '\ufeffid;n;text\n1;2;"a;\n""b"""\n3;;ü\n'.encode()

    assert [
        {"id": {"S": "1"}, "n": {"N": "2"}, "text": {"S": 'a;\n"b"'}},
        {"id": {"S": "3"}, "text": {"S": "ü"}},
    ] == read(data, "CSV", CsvOptions(";", types={"n": "N", "absent": "B"}))


def test_csv_with_a_repeated_column_has_no_items() -> None:
    assert [MalformedRecord(1, 0, "the header has an empty or a repeated name")] == read(b"a,a\n1,2\n", "CSV")


def test_a_large_column_of_a_csv_is_read() -> None:
    text = "x" * 390_000

    assert [{"a": {"S": text}}] == read(f"a\n{text}\n".encode(), "CSV")


@pytest.mark.parametrize("file_format", ["DYNAMODB_JSON", "CSV"])
def test_a_long_line_is_skipped_in_bounded_memory(
    file_format: InputFormat,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(item_files, "RECORD_BYTES_MAX", 1 << 16)
    path = tmp_path / "items.gz"
    with path.open("wb") as target, compressing(target, "GZIP") as content:
        for _ in range(200):
            content.write(b"x" * 100_000)
        content.write(b"\n")
        content.write(b"a\n" if file_format == "CSV" else encode_item(BOOK, file_format))
    tracemalloc.start()

    with open_compressed(path, "GZIP") as file:
        long, *rest = read_items(file, file_format, CsvOptions(header=["id"]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert isinstance(long, MalformedRecord)
    assert (1, 0) == long[:2]
    assert "the line is longer than" in long.reason
    assert [{"id": {"S": "a"}}] == rest if file_format == "CSV" else [BOOK] == rest
    assert peak < 4 << 20


@settings(max_examples=20)
@given(items=st.lists(ITEMS, min_size=1, max_size=3))
def test_the_ion_of_items_is_that_of_aws_s_library(items: list[Item]) -> None:
    """AWS's reader finds the same values, and its text is read as the same items."""
    for item in items:
        line = encode_item(item, "ION")
        value = simpleion.loads(line)
        assert ion_item(value["Item"]) == item
        if b"'$" not in line:  # the library writes a name such as $10 without quotes
            assert [item] == read(simpleion.dumps(value, binary=False).encode(), "ION")


def ion_item(struct: Any) -> Item:
    return {str(name): ion_value(value) for name, value in struct.items()}


def ion_value(value: Any) -> Any:
    """Return the value of DynamoDB JSON by the types of AWS's library."""
    sets = {"$dynamodb_SS": "SS", "$dynamodb_NS": "NS", "$dynamodb_BS": "BS"}
    [annotation] = [each.text for each in value.ion_annotations] or [None]
    match value.ion_type.name:
        case "LIST" if annotation is not None:
            return {sets[annotation]: [next(iter(ion_value(each).values())) for each in value]}
        case "LIST":
            return {"L": list(map(ion_value, value))}
        case "STRUCT":
            return {"M": ion_item(value)}
        case "STRING":
            return {"S": str(value)}
        case "DECIMAL":
            return {"N": canonical(str(Decimal(value)))}
        case "BLOB":
            return {"B": b64encode(value).decode()}
        case "BOOL":
            return {"BOOL": bool(value)}
    assert value.ion_type.name == "NULL"
    return {"NULL": True}


def test_all_of_ion_text_is_read() -> None:
    text = rb"""$ion_1_0 /* a * comment */ {'a':"x\ny\0\xe9\ud83d\ude00z", // a line
        'b\x20c':[-1_000.5d-2, 0, 10.D3,], d:null.list, '''e''':'''one'''
        '''two'three''', "f":{{ aG
        k= }}, g:{h:true,}, '\'':'$dynamodb_SS'::["x"]}"""

    assert ion.read(text) == {
        "a": {"S": "x\ny\0\xe9\U0001f600z"},
        "b c": {"L": [{"N": "-1000.5E-2"}, {"N": "0"}, {"N": "10.E3"}]},
        "d": {"NULL": True},
        "e": {"S": "onetwo'three"},
        "f": {"B": "aGk="},
        "g": {"M": {"h": {"BOOL": True}}},
        "'": {"SS": ["x"]},
    }


@pytest.mark.parametrize(
    "part", [b"[", b"{a:", b"a::", b"'''a''' ", b"/*", b"//", b"'", b'"', b"\\", b"{{ ", b"1_", b" "]
)
def test_hostile_ion_takes_linear_time(part: bytes) -> None:
    began = time.process_time()

    [record] = read(b"{Item:{a:" + part * 100_000, "ION")

    assert isinstance(record, MalformedRecord)
    assert time.process_time() - began < 2


def test_without_the_extra_one_sentence_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "backports", None)
    monkeypatch.setattr(sys, "version_info", (3, 11))

    with pytest.raises(MissingExtraError) as caught:
        open_compressed(tmp_path, "ZSTD")

    assert 'ZSTD needs a library that is not installed: pip install "foldb[exports]"' == str(caught.value)
