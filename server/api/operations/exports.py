"""ExportTableToPointInTime, DescribeExport and ListExports: copies of tables in files, with DynamoDB's layout.

The owner of the catalog writes the files (materializer/owner/jobs.py), in the folder of the bucket.
"""

from collections.abc import Iterator
from typing import Any

from ....model.errors import (
    ExportNotFoundError,
    InvalidExportTimeError,
    PointInTimeRecoveryUnavailableError,
    ValidationError,
)
from ....model.job_descriptions import describe_export as description
from ....model.job_descriptions import export_summary
from ....model.jobs import START_EXPORT, Job
from ....model.table_requests import not_supported
from ....model.tables import TableDefinition, name_of
from ...auth.rights import EVERYTHING, Demand, Right, check_history
from ...buckets.bucket_folders import check_bucket, check_prefix
from ...buckets.job_files import facts_of
from ...node import Node
from .. import jobs
from ..operation import Answer, operation
from ..reply import Caller
from ..restores import find_table, present_time, restorable_time

_PAGE = 25


@operation("ExportTableToPointInTime", Right.READ, member="TableArn")
async def export_table_to_point_in_time(node: Node, body: dict[str, Any], caller: Caller) -> Answer:
    """Begin an export of the items at a time, or of the changes between two."""
    if caller.bearer is not None:
        demand = "foldb:ReadHistory", Right.READ, name_of(body["TableArn"])
        check_history(caller.bearer, [demand], node.state)
    jobs.check_buckets(node)
    _check_members(body)
    source = find_table(node, body["TableArn"]).definition
    repeated = jobs.find_repeated(node, "export", body)
    if repeated is not None:
        return _answer(repeated)
    if source.recovery is None:
        raise PointInTimeRecoveryUnavailableError(
            f"Point in time recovery is not enabled for table '{source.name}'"
        )
    times = _times(node, source, body, await present_time(node))
    job, position = await jobs.begin(node, START_EXPORT, body, caller.context, table=source.id, job=times)
    return _answer(job)._replace(position=position)


@operation("DescribeExport", Right.READ, member="ExportArn")
async def describe_export(node: Node, body: dict[str, Any], _: Caller) -> Answer:
    """Describe the export."""
    return _answer(await jobs.find_job(node, "export", body["ExportArn"], ExportNotFoundError))


def _list_demands(body: dict[str, Any]) -> Iterator[Demand]:
    yield "dynamodb:ListExports", Right.READ, body.get("TableArn", EVERYTHING)


@operation("ListExports", _list_demands)
async def list_exports(node: Node, body: dict[str, Any], _: Caller) -> dict[str, Any]:
    """Return a page of exports, the newest first."""
    page, token = jobs.page_of(node.state.jobs.values(), "export", body, body.get("MaxResults", _PAGE))
    return {"ExportSummaries": [export_summary(job) for job in page], **token}


def _answer(job: Job) -> Answer:
    return jobs.answer("ExportDescription", description(job, facts_of(job).summary_key))


def _check_members(body: dict[str, Any]) -> None:
    """Check the members that need no table.

    Raises:
        ValidationError: A member is not supported, or does not fit the others.
    """
    if "FilterSpecification" in body:
        raise not_supported("FilterSpecification")
    check_bucket(body["S3Bucket"])
    check_prefix(body.get("S3Prefix", ""), "S3Prefix")
    is_incremental = body.get("ExportType") == "INCREMENTAL_EXPORT"
    if is_incremental != ("IncrementalExportSpecification" in body):
        raise ValidationError(
            "An IncrementalExportSpecification is required for INCREMENTAL_EXPORT, and for no other ExportType"
        )
    if is_incremental and "ExportTime" in body:
        raise ValidationError("ExportTime cannot be specified for INCREMENTAL_EXPORT")
    if is_incremental and "ExportFromTime" not in body["IncrementalExportSpecification"]:
        raise ValidationError("ExportFromTime must be specified for INCREMENTAL_EXPORT")
    if "S3SseKmsKeyId" in body and body.get("S3SseAlgorithm") != "KMS":
        raise ValidationError("S3SseKmsKeyId can only be specified when S3SseAlgorithm is KMS")


def _times(node: Node, source: TableDefinition, body: dict[str, Any], now_ms: int) -> dict[str, int]:
    """Return the cut of the export in the form of its command, and of an incremental one the cut before its changes.

    Raises:
        InvalidExportTimeError: A time is outside the range from which the table can be restored.
        ValidationError: An incremental export ends before it begins.
    """

    def of(seconds: float) -> int:
        time_ms = restorable_time(node, source, seconds, now_ms)
        if time_ms is None:
            raise InvalidExportTimeError(
                "The export time must be between EarliestRestorableDateTime and LatestRestorableDateTime"
            )
        return time_ms

    specification = body.get("IncrementalExportSpecification")
    if specification is None:
        return {"TimeMs": of(body["ExportTime"]) if "ExportTime" in body else now_ms}
    # The range has its beginning and not its end; a cut has its own millisecond.
    since_ms = of(specification["ExportFromTime"]) - 1
    cut_ms = of(specification["ExportToTime"]) - 1 if "ExportToTime" in specification else now_ms
    if cut_ms <= since_ms:
        raise ValidationError("ExportToTime must be later than ExportFromTime")
    return {"TimeMs": cut_ms, "SinceMs": since_ms}
