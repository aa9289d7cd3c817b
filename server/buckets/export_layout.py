"""The folder layout of an export, as DynamoDB writes it to S3.

    AWSDynamoDB/<export id>/_started
                            manifest-summary.json, manifest-summary.md5      the facts of the export; written last
                            manifest-files.json, manifest-files.md5          a line for each data file
                            data/<name>.json.gz                              the items of a full export
    AWSDynamoDB/data/<name>.json.gz                                          the changes of incremental exports

Data files have the suffix `.ion.gz` in Ion. A checksum is the MD5 in base64. The keys of a manifest are relative to the
bucket, which is a folder here. An export without manifest-summary.json is not complete.
"""

import os
from base64 import b32encode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b, md5
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NamedTuple, TypeAlias

import orjson

from ...model.cuts import AtTime, parse_cut, time_text
from ...model.errors import FoldbError
from ...model.lazy_dataclass import dataclass
from ...model.limits import MODERN
from ...model.values import Item, item_size
from .bucket_folders import path_while_written
from .compression import compressing
from .item_files import ItemChange, ItemFormat, encode_change, encode_item

ExportView: TypeAlias = Literal["NEW_AND_OLD_IMAGES", "NEW_IMAGE"]

FOLDER: Final = "AWSDynamoDB"
SUMMARY: Final = "manifest-summary"

FILE_BYTES: Final = 64 << 20
"""A data file ends when its records have this size, before compression."""

_FILES: Final = "manifest-files"
_FORMATS: Final[Mapping[str, ItemFormat]] = {"DYNAMODB_JSON": "DYNAMODB_JSON", "ION": "ION"}
_SUFFIXES: Final = {"DYNAMODB_JSON": ".json.gz", "ION": ".ion.gz"}
_FULL_VERSION: Final = "2020-06-30"
_INCREMENTAL_VERSION: Final = "2023-08-01"


class DamagedExportError(FoldbError):
    """A folder is no complete export, or a file of it is damaged."""


@dataclass(frozen=True, slots=True)
class ExportFacts:
    """The facts of an export that its manifest has. Times are in milliseconds since 1970.

    Attributes:
        export_id: `new_export_id` makes it.
        export_ms: The time of the state: the end of an incremental export.
        from_ms: The begin of an incremental export. None for a full export.
        view: The images of the changes of an incremental export.
        prefix: The prefix of the keys in the bucket, without a slash at its end.
    """

    export_id: str
    table_arn: str
    table_id: str
    started_ms: int
    export_ms: int
    from_ms: int | None = None
    view: ExportView = "NEW_AND_OLD_IMAGES"
    format: ItemFormat = "DYNAMODB_JSON"
    bucket: str = ""
    prefix: str = ""
    sse_algorithm: str | None = "AES256"
    sse_key_id: str | None = None

    @property
    def export_arn(self) -> str:
        return f"{self.table_arn}/export/{self.export_id}"

    @property
    def key(self) -> str:
        """The key of the export's folder."""
        return f"{self._root}/{self.export_id}"

    @property
    def data_key(self) -> str:
        """The key of the folder of its data files."""
        return f"{self.key}/data" if self.from_ms is None else f"{self._root}/data"

    @property
    def summary_key(self) -> str:
        """The key of the summary, which DescribeExport returns as ExportManifest."""
        return f"{self.key}/{SUMMARY}.json"

    @property
    def _root(self) -> str:
        return f"{self.prefix}/{FOLDER}" if self.prefix else FOLDER


class DataFile(NamedTuple):
    """A complete data file: a line of manifest-files.json."""

    item_count: int
    md5: str
    etag: str
    key: str

    def line(self) -> bytes:
        names = ("itemCount", "md5Checksum", "etag", "dataFileS3Key")
        return orjson.dumps(dict(zip(names, self, strict=True)), option=orjson.OPT_APPEND_NEWLINE)


def new_export_id(time_ms: int, token: bytes) -> str:
    """Return the id of an export: its time, and 8 digits that follow from `token`.

    >>> new_export_id(1693685827463, b"x")[:15]
    '01693685827463-'
    """
    return f"{time_ms:014d}-{blake2b(token, digest_size=4).hexdigest()}"


class ExportWriter:
    """Writes an export into the folder of a bucket.

    The files are equal for equal calls. An interrupted export goes on with the complete files of the first run, and the
    items behind those.

    Attributes:
        files: The complete data files.
        item_count: The items in them and in the open file.
        billed_bytes: The bytes of those items, as DynamoDB counts them.
    """

    def __init__(
        self,
        folder: Path,
        facts: ExportFacts,
        *,
        files: Sequence[DataFile] = (),
        billed_bytes: int = 0,
        file_bytes: int = FILE_BYTES,
    ) -> None:
        self.files = list(files)
        self.item_count = sum(file.item_count for file in files)
        self.billed_bytes = billed_bytes
        self._folder = folder
        self._facts = facts
        self._file_bytes = file_bytes
        self._open: _OpenFile | None = None
        for key in (facts.key, facts.data_key):
            (folder / key).mkdir(parents=True, exist_ok=True)
        (folder / facts.key / "_started").touch()

    def add(self, item: Item) -> int:
        """Write an item of a full export. Return the bytes of its record."""
        return self._add(encode_item(item, self._facts.format), item_size(item, MODERN))

    def add_change(self, change: ItemChange) -> int:
        """Write a change of an incremental export, with the images of its view. Return the bytes of its record."""
        if self._facts.view == "NEW_IMAGE":
            change = change._replace(old=None)
        images = [image for image in (change.old, change.new) if image is not None]
        return self._add(
            encode_change(change, self._facts.format), sum(item_size(image, MODERN) for image in images)
        )

    def end_file(self) -> None:
        """Complete the open data file, if there is one. The next item begins another."""
        if self._open is not None:
            self.files.append(self._open.close())
            self._open = None

    def finish(self, end_ms: int) -> dict[str, Any]:
        """Write the manifests, and return the summary. An export without items has one empty data file."""
        if not self.files:
            self._file()
        self.end_file()
        summary = self._summary(end_ms)
        self._manifest(_FILES, b"".join(file.line() for file in self.files))
        self._manifest(SUMMARY, orjson.dumps(summary))
        return summary

    def discard(self) -> None:
        """Close and remove the open data file."""
        if self._open is not None:
            self._open.discard()
            self._open = None

    def _add(self, line: bytes, size: int) -> int:
        file = self._file()
        file.write(line)
        self.item_count += 1
        self.billed_bytes += size
        if file.size >= self._file_bytes:
            self.end_file()
        return len(line)

    def _file(self) -> "_OpenFile":
        if self._open is None:
            facts = self._facts
            name = _file_name(facts.export_id, len(self.files)) + _SUFFIXES[facts.format]
            self._open = _OpenFile(self._folder, f"{facts.data_key}/{name}")
        return self._open

    def _manifest(self, name: str, content: bytes) -> None:
        """Write a manifest and its checksum. The summary must appear whole: it shows that the export is complete."""
        folder = self._folder / self._facts.key
        write_file(folder / f"{name}.md5", _checksum(content).encode())
        write_file(folder / f"{name}.json", content)

    def _summary(self, end_ms: int) -> dict[str, Any]:
        facts = self._facts
        summary: dict[str, Any] = {
            "version": _FULL_VERSION if facts.from_ms is None else _INCREMENTAL_VERSION,
            "exportArn": facts.export_arn,
            "startTime": time_text(facts.started_ms),
            "endTime": time_text(end_ms),
            "tableArn": facts.table_arn,
            "tableId": facts.table_id,
        }
        if facts.from_ms is None:
            summary["exportTime"] = time_text(facts.export_ms)
        else:
            summary["exportFromTime"] = time_text(facts.from_ms)
            summary["exportToTime"] = time_text(facts.export_ms)
        summary |= {
            "s3Bucket": facts.bucket,
            "s3Prefix": facts.prefix or None,
            "s3SseAlgorithm": facts.sse_algorithm,
            "s3SseKmsKeyId": facts.sse_key_id,
            "manifestFilesS3Key": f"{facts.key}/{_FILES}.json",
            "billedSizeBytes": self.billed_bytes,
            "itemCount": self.item_count,
            "outputFormat": facts.format,
        }
        if facts.from_ms is not None:
            summary["outputView"] = facts.view
        return summary | {"exportType": "FULL_EXPORT" if facts.from_ms is None else "INCREMENTAL_EXPORT"}


class _OpenFile:
    """A data file that is being written, and the MD5 of its bytes."""

    def __init__(self, folder: Path, key: str) -> None:
        self.size = 0
        self._key = key
        self._count = 0
        self._path = folder / key
        self._part = path_while_written(self._path)
        self._file = _Hashing(self._part.open("wb"))
        self._content = compressing(self._file, "GZIP")  # type: ignore[arg-type]  # it only writes

    def write(self, line: bytes) -> None:
        self._content.write(line)
        self.size += len(line)
        self._count += 1

    def close(self) -> DataFile:
        self._content.close()
        self._file.close()
        _name(self._part, self._path)
        digest = self._file.md5.digest()
        # S3's tag of an object that was uploaded in one part.
        etag = f"{md5(digest, usedforsecurity=False).hexdigest()}-1"
        return DataFile(self._count, b64encode(digest).decode(), etag, self._key)

    def discard(self) -> None:
        self._content.close()
        self._file.close()
        self._part.unlink()


def write_file(path: Path, content: bytes) -> None:
    """Write a file durably. It appears whole, or not at all."""
    part = path_while_written(path)
    part.write_bytes(content)
    _name(part, path)


def _name(part: Path, path: Path) -> None:
    """Sync a file that is complete, and give it its name."""
    _sync(part)
    part.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Hashing:
    """A file that hashes the bytes that are written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self.md5 = md5(usedforsecurity=False)
        self._file = file
        self.flush = file.flush
        self.close = file.close

    def write(self, data: bytes) -> int:
        self.md5.update(data)
        return self._file.write(data)


def _file_name(export_id: str, number: int) -> str:
    """Return 26 letters and digits, as the names of DynamoDB's data files have."""
    digest = blake2b(f"{export_id}/{number}".encode(), digest_size=16).digest()
    return b32encode(digest).decode().rstrip("=").lower()


def _checksum(content: bytes) -> str:
    return b64encode(md5(content, usedforsecurity=False).digest()).decode()


# Reading


class Export(NamedTuple):
    """A complete export.

    Attributes:
        folder: The folder of its manifests.
        table_arn: The ARN of the table.
        format: The format of its data files.
        export_ms: The time of the state: the end of an incremental export. In milliseconds since 1970.
        from_ms: The begin of an incremental export. None for a full export.
        files: The data files.
    """

    folder: Path
    table_arn: str
    format: ItemFormat
    export_ms: int
    from_ms: int | None
    files: list[DataFile]

    @property
    def item_count(self) -> int:
        return sum(file.item_count for file in self.files)

    def path(self, file: DataFile) -> Path:
        """Return the path of a data file.

        Raises:
            DamagedExportError: The file is missing.
        """
        _, _, below = file.key.rpartition(f"{FOLDER}/")
        name = file.key.rpartition("/")[2]
        # The second is for a copy of the export's folder alone.
        for path in (self.folder.parent / below, self.folder / "data" / name):
            if path.is_file():
                return path
        raise DamagedExportError(f"{self.folder}: the data file {file.key} is missing")

    def check(self, file: DataFile) -> Path:
        """Compare a data file with its checksum in the manifest, and return its path.

        Raises:
            DamagedExportError: The file is missing, or differs.
        """
        path = self.path(file)
        digest = md5(usedforsecurity=False)
        with path.open("rb") as data:
            while chunk := data.read(1 << 20):
                digest.update(chunk)
        if b64encode(digest.digest()).decode() != file.md5:
            raise DamagedExportError(f"{path}: the data differs from the checksum in the manifest")
        return path


def read_exports(folder: Path) -> list[Export]:
    """Return the complete exports in a folder: of an export, of a bucket, or between. They are ordered by their time.

    Raises:
        DamagedExportError: The folder has no export, or a manifest is damaged.
    """
    found = [read_export(path.parent) for path in sorted(folder.rglob(f"{SUMMARY}.json"))]
    if not found:
        raise DamagedExportError(f"{folder}: there is no complete export, which has a {SUMMARY}.json")
    return sorted(found, key=lambda export: (export.export_ms, export.from_ms is not None))


def read_export(folder: Path) -> Export:
    """Return the export whose manifests are in a folder.

    Raises:
        DamagedExportError: A manifest is missing or damaged.
    """
    summary = _Manifest(folder / f"{SUMMARY}.json", _parsed(folder, SUMMARY)[0])
    format_name = summary.text("outputFormat")
    if format_name not in _FORMATS:
        raise DamagedExportError(f"{summary.path}: the format {format_name} is not known")
    is_full = "exportFromTime" not in summary.members
    return Export(
        folder,
        summary.text("tableArn"),
        _FORMATS[format_name],
        summary.time("exportTime" if is_full else "exportToTime"),
        None if is_full else summary.time("exportFromTime"),
        list(_data_files(folder)),
    )


def _data_files(folder: Path) -> Iterator[DataFile]:
    for members in _parsed(folder, _FILES):
        line = _Manifest(folder / f"{_FILES}.json", members)
        count = members.get("itemCount")
        if type(count) is not int:
            raise line.damaged("itemCount")
        yield DataFile(count, line.text("md5Checksum"), line.text("etag"), line.text("dataFileS3Key"))


class _Manifest(NamedTuple):
    """An object of a manifest."""

    path: Path
    members: dict[str, Any]

    def text(self, name: str) -> str:
        value = self.members.get(name)
        if type(value) is not str:
            raise self.damaged(name)
        return value

    def time(self, name: str) -> int:
        """Return a time in milliseconds since 1970."""
        try:
            cut = parse_cut(self.text(name))
        except ValueError:
            raise self.damaged(name) from None
        if not isinstance(cut, AtTime):
            raise self.damaged(name)
        return cut.time_ms

    def damaged(self, name: str) -> DamagedExportError:
        return DamagedExportError(f"{self.path}: {name} is missing or malformed")


def _parsed(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the objects of a manifest, one in each line, or one over several lines.

    Raises:
        DamagedExportError: The file is missing, is no JSON, or differs from its checksum.
    """
    path = folder / f"{name}.json"
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DamagedExportError(f"{path} is missing") from None
    checksums: Iterable[Path] = (folder / f"{name}.md5", folder / f"{name}.checksum")
    for checksum in checksums:
        if checksum.is_file() and checksum.read_text().strip() != _checksum(content):
            raise DamagedExportError(f"{path} differs from its checksum in {checksum.name}")
    try:
        lines = [content] if name == SUMMARY else content.splitlines()
        objects = [orjson.loads(line) for line in lines if line.strip()]
    except orjson.JSONDecodeError as error:
        raise DamagedExportError(f"{path} is not JSON: {error}") from None
    if not all(isinstance(each, dict) for each in objects):
        raise DamagedExportError(f"{path} has a line that is no JSON object")
    return objects
