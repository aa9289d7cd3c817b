"""The layout of an export: files, manifests and checksums, written and read."""

import gzip
import io
from base64 import b64encode
from hashlib import md5
from pathlib import Path
from typing import Any

import orjson
import pytest

from foldb.model.values import Item
from foldb.server.buckets.export_layout import (
    DamagedExportError,
    ExportFacts,
    ExportWriter,
    new_export_id,
    read_exports,
)
from foldb.server.buckets.item_files import ItemChange, read_changes, read_items

ARN = "arn:aws:dynamodb:us-east-1:123456789012:table/ProductCatalog"
ID = "12345a12-abcd-123a-ab12-1234abc12345"
NOON = 1_604_491_200_000
FULL = ExportFacts("01604491200000-a1b2c3d4", ARN, ID, NOON, NOON, bucket="exports", prefix="2020-Nov")
CHANGES = ExportFacts(
    "01604494800000-b1b2c3d4",
    ARN,
    ID,
    NOON + 5,
    NOON + 3_600_000,
    from_ms=NOON,
    format="ION",
    view="NEW_IMAGE",
)


def item(number: int) -> Item:
    return {"Id": {"N": str(number)}, "Title": {"S": f"Book {number}"}}


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_full_export_has_the_documented_files(tmp_path: Path) -> None:
    writer = ExportWriter(tmp_path, FULL, file_bytes=90)
    for number in range(5):
        writer.add(item(number))

    summary = writer.finish(NOON + 1000)

    base = "2020-Nov/AWSDynamoDB/01604491200000-a1b2c3d4"
    files = content(tmp_path)
    data = [path for path in files if path.startswith(f"{base}/data/") and path.endswith(".json.gz")]
    manifests = {f"{base}/{name}" for name in ("_started", *(f"manifest-{each}" for each in NAMES))}
    assert files.keys() == {*data, *manifests}
    assert len(data) == 3
    assert all(len(Path(path).name.removesuffix(".json.gz")) == 26 for path in data)
    assert summary == orjson.loads(files[f"{base}/manifest-summary.json"])
    assert summary == {
        "version": "2020-06-30",
        "exportArn": f"{ARN}/export/01604491200000-a1b2c3d4",
        "startTime": "2020-11-04T12:00:00.000Z",
        "endTime": "2020-11-04T12:00:01.000Z",
        "tableArn": ARN,
        "tableId": ID,
        "exportTime": "2020-11-04T12:00:00.000Z",
        "s3Bucket": "exports",
        "s3Prefix": "2020-Nov",
        "s3SseAlgorithm": "AES256",
        "s3SseKmsKeyId": None,
        "manifestFilesS3Key": f"{base}/manifest-files.json",
        "billedSizeBytes": 74,
        "itemCount": 5,
        "outputFormat": "DYNAMODB_JSON",
        "exportType": "FULL_EXPORT",
    }
    lines = [orjson.loads(line) for line in files[f"{base}/manifest-files.json"].splitlines()]
    assert [2, 2, 1] == [line["itemCount"] for line in lines]
    for line in lines:
        compressed = files[line["dataFileS3Key"]]
        assert checksum(compressed) == line["md5Checksum"]
        assert line["etag"].endswith("-1")
        assert gzip.decompress(compressed).count(b'{"Item":') == line["itemCount"]
    for name in ("files", "summary"):
        assert (
            checksum(files[f"{base}/manifest-{name}.json"]) == files[f"{base}/manifest-{name}.md5"].decode()
        )


NAMES = ("summary.json", "summary.md5", "files.json", "files.md5")


def checksum(data: bytes) -> str:
    return b64encode(md5(data).digest()).decode()


def test_an_incremental_export_has_its_data_beside(tmp_path: Path) -> None:
    writer = ExportWriter(tmp_path, CHANGES)
    writer.add_change(ItemChange({"Id": {"N": "1"}}, item(1), item(1), NOON * 1000))
    writer.add_change(ItemChange({"Id": {"N": "2"}}, item(2), None, NOON * 1000))

    summary = writer.finish(NOON)

    assert {
        "version": "2023-08-01",
        "exportFromTime": "2020-11-04T12:00:00.000Z",
        "exportToTime": "2020-11-04T13:00:00.000Z",
        "outputView": "NEW_IMAGE",
        "exportType": "INCREMENTAL_EXPORT",
        "s3Prefix": None,
    }.items() <= summary.items()
    [export] = read_exports(tmp_path)
    [file] = export.files
    assert file.key.startswith("AWSDynamoDB/data/")
    assert file.key.endswith(".ion.gz")
    with gzip.open(export.check(file)) as data:
        assert list(read_changes(data, export.format)) == [  # type: ignore[arg-type]
            ItemChange({"Id": {"N": "1"}}, None, item(1), NOON * 1000),
            ItemChange({"Id": {"N": "2"}}, None, None, NOON * 1000),
        ]


def test_an_export_without_items_has_an_empty_file(tmp_path: Path) -> None:
    ExportWriter(tmp_path, FULL).finish(NOON)

    [export] = read_exports(tmp_path)
    [file] = export.files
    assert (0, b"") == (export.item_count, gzip.decompress(export.path(file).read_bytes()))


def test_a_continued_export_has_the_same_files(tmp_path: Path) -> None:
    """The second run begins behind the complete files of the first, which was interrupted in its third file."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    writer = ExportWriter(whole, FULL, file_bytes=90)
    for number in range(7):
        writer.add(item(number))
    writer.finish(NOON)

    first = ExportWriter(parts, FULL, file_bytes=90)
    billed = 0
    for number in range(5):
        first.add(item(number))
        billed = first.billed_bytes if number == 3 else billed
    complete = list(first.files)
    first.end_file()  # the file is there, and the second run writes it again
    second = ExportWriter(parts, FULL, files=complete, billed_bytes=billed, file_bytes=90)
    for number in range(4, 7):
        second.add(item(number))
    second.finish(NOON)

    assert content(whole) == content(parts)


def test_exports_are_read_in_the_order_of_time(tmp_path: Path) -> None:
    ExportWriter(tmp_path, CHANGES).finish(NOON)
    ExportWriter(tmp_path, FULL).finish(NOON)

    exports = read_exports(tmp_path)

    assert [(NOON, None), (NOON + 3_600_000, NOON)] == [(each.export_ms, each.from_ms) for each in exports]
    assert [exports[1]] == read_exports(tmp_path / CHANGES.key)


def test_a_copy_of_the_folder_of_an_export_is_read(tmp_path: Path) -> None:
    ExportWriter(tmp_path, FULL).finish(NOON)
    alone = (tmp_path / FULL.key).rename(tmp_path / "alone")

    [export] = read_exports(alone)

    assert alone / "data" == export.check(export.files[0]).parent


def damaged_summary(folder: Path) -> None:
    path = folder / "manifest-summary.json"
    path.write_bytes(path.read_bytes().replace(b"ION", b"JSON"))


def other_format(folder: Path) -> None:
    damaged_summary(folder)
    (folder / "manifest-summary.md5").unlink()


def damaged_data(folder: Path) -> None:
    next((folder.parent / "data").iterdir()).write_bytes(gzip.compress(b"{}"))


def no_data(folder: Path) -> None:
    next((folder.parent / "data").iterdir()).unlink()


def no_files(folder: Path) -> None:
    (folder / "manifest-files.json").unlink()


def no_summary(folder: Path) -> None:
    (folder / "manifest-summary.json").unlink()


def no_json(folder: Path) -> None:
    (folder / "manifest-files.json").write_bytes(b"{")
    (folder / "manifest-files.md5").unlink()


def no_count(folder: Path) -> None:
    (folder / "manifest-files.json").write_bytes(b"{}")
    (folder / "manifest-files.md5").unlink()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (damaged_summary, "manifest-summary.json differs from its checksum in manifest-summary.md5"),
        (other_format, "manifest-summary.json: the format JSON is not known"),
        (damaged_data, "the data differs from the checksum in the manifest"),
        (no_data, "is missing"),
        (no_files, "manifest-files.json is missing"),
        (no_summary, "there is no complete export"),
        (no_json, "manifest-files.json is not JSON"),
        (no_count, "manifest-files.json: itemCount is missing or malformed"),
    ],
)
def test_a_damaged_export_is_an_error(tmp_path: Path, damage: Any, reason: str) -> None:
    ExportWriter(tmp_path, CHANGES).finish(NOON)
    damage(tmp_path / CHANGES.key)

    with pytest.raises(DamagedExportError, match=reason):
        checked(tmp_path)


def checked(folder: Path) -> list[Path]:
    return [export.check(file) for export in read_exports(folder) for file in export.files]


def test_the_documented_manifest_is_read(tmp_path: Path) -> None:
    """The shapes of the developer guide's page about the output of exports, with data of this test."""
    folder = tmp_path / "AWSDynamoDB" / "01693685827463-2d8752fd"
    (folder / "data").mkdir(parents=True)
    data = gzip.compress(b'{"Item":{"ISBN":{"S":"333-3333333333"},"Id":{"N":"103"}}}\n')
    (folder / "data" / "asdl123dasas.json.gz").write_bytes(data)
    summary = {
        "version": "2020-06-30",
        "exportArn": f"{ARN}/export/01693685827463-2d8752fd",
        "startTime": "2020-11-04T07:28:34.028Z",
        "endTime": "2020-11-04T07:33:43.897Z",
        "tableArn": ARN,
        "tableId": ID,
        "exportTime": "2020-11-04T07:28:34.028Z",
        "s3Bucket": "ddb-productcatalog-export",
        "s3Prefix": "2020-Nov",
        "s3SseAlgorithm": "AES256",
        "s3SseKmsKeyId": None,
        "manifestFilesS3Key": "AWSDynamoDB/01693685827463-2d8752fd/manifest-files.json",
        "billedSizeBytes": 0,
        "itemCount": 1,
        "outputFormat": "DYNAMODB_JSON",
        "exportType": "FULL_EXPORT",
    }
    text = orjson.dumps(summary, option=orjson.OPT_INDENT_2)
    (folder / "manifest-summary.json").write_bytes(text)
    (folder / "manifest-summary.checksum").write_text(checksum(text))
    line = {
        "itemCount": 1,
        "md5Checksum": checksum(data),
        "etag": "af83d6f217c19b8b0fff8023d8ca4716-1",
        "dataFileS3Key": "AWSDynamoDB/01693685827463-2d8752fd/data/asdl123dasas.json.gz",
    }
    (folder / "manifest-files.json").write_bytes(orjson.dumps(line) + b"\n")

    [export] = read_exports(tmp_path)

    assert ("DYNAMODB_JSON", 1, 1604474914028) == (export.format, export.item_count, export.export_ms)
    decompressed = io.BytesIO(gzip.decompress(export.check(export.files[0]).read_bytes()))
    assert [{"ISBN": {"S": "333-3333333333"}, "Id": {"N": "103"}}] == list(
        read_items(decompressed, export.format)
    )


def test_an_export_id_has_its_time_first() -> None:
    assert new_export_id(NOON, b"a").startswith("01604491200000-")
    assert new_export_id(NOON, b"a") != new_export_id(NOON, b"b")
