"""The files of exports, imports and bulk operations, in the folders of buckets.

    export:         pages ──► ExportWriter ──► data files, synced ──► manifests
    import, bulk:   files under the prefix, in order of their keys ──► items, checked as PutItem checks them ──► pages

All methods block, and run in one thread. A place of an input is [key of a file, records of it that were read].
"""

import logging
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from ...log.commands import Put, new_context
from ...materializer.history.requests import Difference
from ...materializer.owner.job_files import ExportOutput, InputPage, JobInput, OutputProgress
from ...model.errors import JobFailedError, RequestError
from ...model.index_keys import index_key_error
from ...model.jobs import Job
from ...model.limits import Limits
from ...model.tables import TableDefinition
from ...model.values import dump, load
from ..api import parameters
from .bucket_folders import BucketFolder
from .compression import DamagedFileError, MissingExtraError, open_compressed
from .export_layout import FILE_BYTES, DataFile, ExportFacts, ExportWriter, write_file
from .item_files import CsvOptions, ItemChange, MalformedRecord, read_items
from .put_records import PutRecord, read_puts

_ERRORS_LOGGED: Final = 100
_PAGE_BYTES: Final = 1 << 20

logger = logging.getLogger(__name__)


def open_export(root: Path | None, job: Job) -> ExportOutput:
    """Open the files of an export in a bucket, which is a folder of `root`."""
    with _failures():
        return _Output(BucketFolder(root, job.request["S3Bucket"]), job)


def open_input(
    root: Path | None, job: Job, definition: TableDefinition, place: Any, limits: Limits
) -> JobInput:
    """Open the files of an import, or of a bulk operation, at a place."""
    with _failures():
        source = job.request["S3BucketSource" if job.kind == "import" else "InputS3Configuration"]
        return _Input(BucketFolder(root, source["S3Bucket"]), job, definition, place, limits)


def write_report(root: Path | None, job: Job, number: int, errors: Sequence[dict[str, Any]]) -> None:
    """Write the errors of a page of a bulk operation."""
    target = job.request["OutputS3Configuration"]
    name = target.get("S3Bucket", job.request["InputS3Configuration"]["S3Bucket"])
    with _failures():
        folder = BucketFolder(root, name).folder(f"{report_key(target, job.id)}/data")
        content = b"".join(orjson.dumps(each, option=orjson.OPT_APPEND_NEWLINE) for each in errors)
        write_file(folder / f"{number:012d}.json", content)


def facts_of(job: Job) -> ExportFacts:
    """Return the facts of an export for its manifests."""
    request = job.request
    assert job.cut_ms is not None, "an export has a cut"
    incremental = {}
    if job.since_ms is not None:
        view = request["IncrementalExportSpecification"].get("ExportViewType", "NEW_AND_OLD_IMAGES")
        incremental = {"from_ms": job.since_ms + 1, "view": view}
    return ExportFacts(
        export_id=job.id,
        table_arn=job.table_arn,
        table_id=job.table_uuid,
        started_ms=job.started_ms,
        # The cut of an incremental export is the last millisecond before its end.
        export_ms=job.cut_ms if job.since_ms is None else job.cut_ms + 1,
        format=request.get("ExportFormat", "DYNAMODB_JSON"),
        bucket=request["S3Bucket"],
        prefix=request.get("S3Prefix", "").removesuffix("/"),
        sse_algorithm=request.get("S3SseAlgorithm", "AES256"),
        sse_key_id=request.get("S3SseKmsKeyId"),
        **incremental,
    )


def report_key(target: dict[str, Any], job_id: str) -> str:
    """Return the key of the folder with the report of a bulk operation."""
    prefix = target.get("S3KeyPrefix", "").removesuffix("/")
    return f"{prefix}/AWSDynamoDB/{job_id}" if prefix else f"AWSDynamoDB/{job_id}"


class _Output:
    """The files of an export."""

    def __init__(self, bucket: BucketFolder, job: Job) -> None:
        facts = facts_of(job)
        self._key = job.key
        for key in (facts.key, facts.data_key):
            bucket.folder(key)
        self._folder = bucket.path
        self._writer = ExportWriter(
            bucket.path,
            facts,
            files=[DataFile(**each) for each in job.files],
            billed_bytes=job.counts.get("bytes", 0),
            file_bytes=1 << 62,  # a file ends where a page ends, because a cursor is there
        )
        self._reported = len(self._writer.files)
        self._begin = self._writer.billed_bytes

    def add_items(self, items: Sequence[bytes]) -> bool:
        with _failures():
            for item in items:
                self._writer.add(load(item))
        return self._is_full

    def add_changes(self, differences: Sequence[Difference]) -> bool:
        with _failures():
            for each in differences:
                change = ItemChange(
                    self._key.decode(each.pk, each.sk),
                    None if each.old is None else load(each.old),
                    None if each.new is None else load(each.new),
                    each.log_time * 1000,
                )
                self._writer.add_change(change)
        return self._is_full

    def end_file(self) -> OutputProgress:
        writer = self._writer
        with _failures():
            writer.end_file()
        files = writer.files[self._reported :]
        self._reported, self._begin = len(writer.files), writer.billed_bytes
        return OutputProgress([each._asdict() for each in files], writer.item_count, writer.billed_bytes)

    def finish(self, end_ms: int) -> None:
        with _failures():
            self._writer.finish(end_ms)

    def discard(self) -> None:
        with _failures():
            self._writer.discard()

    @property
    def _is_full(self) -> bool:
        return self._writer.billed_bytes - self._begin >= FILE_BYTES


class _Input:
    """The items of the files of an import or a bulk operation."""

    def __init__(
        self, bucket: BucketFolder, job: Job, definition: TableDefinition, place: Any, limits: Limits
    ) -> None:
        request = job.request
        source = request["S3BucketSource"] if job.kind == "import" else request["InputS3Configuration"]
        options = request if job.kind == "import" else source
        self._bucket = bucket
        self._job = job
        self._definition = definition
        self._limits = limits
        self._context = new_context(request_id=job.id)
        self._compression = options.get("InputCompressionType", "NONE")
        self._format = options["InputFormat"]
        csv = request.get("InputFormatOptions", {}).get("Csv", {})
        self._csv = CsvOptions(csv.get("Delimiter", ","), csv.get("HeaderList"), definition.attribute_types)
        prefix = source.get("S3KeyPrefix", "")
        self._keys = list(bucket.keys(prefix))
        if not self._keys:
            raise JobFailedError("S3NoSuchKey", f"The bucket {source['S3Bucket']} has no file {prefix}*")
        total = sum(bucket.file(key).stat().st_size for key in self._keys)
        self._counts = {"total_bytes": total} if place is None else {}
        self._place = place or [self._keys[0], 0]
        self._events = self._scan(*self._place)
        self._logged = 0

    def read(self, limit: int) -> InputPage:
        puts: list[Put] = []
        errors: list[dict[str, Any]] = []
        counts = {"processed": 0, "errors": 0, "bytes": 0, **self._counts}
        self._counts, size, is_last = {}, 0, False
        with _failures():
            while counts["processed"] < limit and size < _PAGE_BYTES:
                event = next(self._events, None)
                if event is None:
                    is_last = True
                    break
                self._place, found = event
                if isinstance(found, int):
                    counts["bytes"] += found
                    continue
                counts["processed"] += 1
                if isinstance(found, Put):
                    puts.append(found)
                    size += len(found.item)
                else:
                    counts["errors"] += 1
                    errors.append(found)
                    self._log(found)
        return InputPage(puts, self._place, counts, errors, is_last)

    def close(self) -> None:
        self._events.close()

    def _scan(
        self, first: str, skipped: int
    ) -> Generator[tuple[list[Any], Put | dict[str, Any] | int], None, None]:
        """Yield each record with the place after it: its Put or the entry of its error; and the size of each file."""
        if first not in self._keys:
            raise JobFailedError("S3NoSuchKey", f"The file does not exist any longer: {first}")
        for nth, key in enumerate(self._keys[self._keys.index(first) :], self._keys.index(first) + 1):
            path = self._bucket.file(key)
            count = 0
            with closing(open_compressed(path, self._compression)) as file:
                for record in _whole(self._records(file)):
                    count += 1
                    if count > skipped:
                        yield [key, count], self._put(key, count, record)
            skipped = 0
            yield ([self._keys[nth], 0] if nth < len(self._keys) else [key, count]), path.stat().st_size

    def _records(self, file: BinaryIO) -> Iterator[PutRecord | MalformedRecord]:
        if self._job.kind == "import":
            for each in read_items(file, self._format, self._csv):
                yield each if isinstance(each, MalformedRecord) else PutRecord(each, {})
        else:
            yield from read_puts(file, self._format)

    def _put(
        self, key: str, number: int, record: PutRecord | MalformedRecord | DamagedFileError
    ) -> Put | dict[str, Any]:
        """Return the write of a record, or the entry of its error in a report."""
        place = {"Type": "ERROR", "File": key, "Record": number}
        if isinstance(record, DamagedFileError):
            return place | {"Code": "DamagedFile", "Message": str(record)}
        if isinstance(record, MalformedRecord):
            return place | {"Code": "MalformedRecord", "Message": record.reason, "Line": record.line}
        definition, limits = self._definition, self._limits
        item, condition = record
        try:
            request = parameters.parse_write(condition, item, limits, "PutItem")
            if request.expression is not None:
                parameters.check_key_paths(request.expression.plan, definition)
            pk, sk = definition.key.item_key(item, limits)
            if (error := index_key_error(definition, item, limits)) is not None:
                raise error
        except RequestError as refused:
            return place | {"Code": refused.wire_name, "Message": refused.message, "Item": item}
        return Put(
            definition.id,
            pk,
            sk,
            dump(item),
            request.size,
            self._context,
            request.expression,
            show_refused=True,
        )

    def _log(self, error: dict[str, Any]) -> None:
        """Log the first errors, because an import has no report."""
        if self._job.kind == "import" and self._logged < _ERRORS_LOGGED:
            self._logged += 1
            logger.warning(
                "the import %s leaves out record %d of %s: %s",
                self._job.id,
                error["Record"],
                error["File"],
                error["Message"],
            )


def _whole(
    records: Iterator[PutRecord | MalformedRecord],
) -> Iterator[PutRecord | MalformedRecord | DamagedFileError]:
    """Yield the records of a file, and at last the error if its rest is damaged."""
    try:
        yield from records
    except DamagedFileError as error:
        yield error


@contextmanager
def _failures() -> Iterator[None]:
    """Turn errors of the disk and of missing libraries into failures of the job.

    Raises:
        JobFailedError: A file cannot be read or written, or a library is not installed.
    """
    try:
        yield
    except OSError as error:
        raise JobFailedError("FileError", f"{error.filename or 'the file'}: {error.strerror}") from error
    except MissingExtraError as error:
        raise JobFailedError("MissingLibrary", str(error)) from error
