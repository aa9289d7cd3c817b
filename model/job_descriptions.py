"""Descriptions of exports, imports and bulk operations, in the form of DynamoDB's answers."""

from dataclasses import replace
from typing import Any, Final

from .descriptions import seconds
from .jobs import Job
from .tables import TableDefinition, name_of

_BY_EXPORT: Final = ("S3Bucket", "S3BucketOwner", "S3Prefix", "S3SseAlgorithm", "S3SseKmsKeyId")
_BY_IMPORT: Final = (
    "S3BucketSource",
    "InputFormat",
    "InputFormatOptions",
    "TableCreationParameters",
)
_BY_BULK: Final = ("InputS3Configuration", "OutputS3Configuration", "MaxWriteRequestUnits")


def describe_export(job: Job, manifest_key: str) -> dict[str, Any]:
    """Return the ExportDescription. The manifest is described when it is complete."""
    request = job.request
    assert job.cut_ms is not None, "an export has a cut"
    described = {
        "ExportArn": job.arn,
        "ExportStatus": job.status,
        "TableArn": job.table_arn,
        "TableId": job.table_uuid,
        "ExportFormat": request.get("ExportFormat", "DYNAMODB_JSON"),
        "ExportType": _export_type(job),
        **_common(job, _BY_EXPORT),
    }
    if job.since_ms is None:
        described["ExportTime"] = seconds(job.cut_ms)
    else:
        specification = request["IncrementalExportSpecification"]
        described["IncrementalExportSpecification"] = {
            "ExportFromTime": seconds(job.since_ms + 1),
            "ExportToTime": seconds(job.cut_ms + 1),
            "ExportViewType": specification.get("ExportViewType", "NEW_AND_OLD_IMAGES"),
        }
    if job.status == "COMPLETED":
        described |= {
            "ExportManifest": manifest_key,
            "ItemCount": job.counts.get("items", 0),
            "BilledSizeBytes": job.counts.get("bytes", 0),
        }
    return described


def export_summary(job: Job) -> dict[str, Any]:
    """Return the ExportSummary of ListExports."""
    return {"ExportArn": job.arn, "ExportStatus": job.status, "ExportType": _export_type(job)}


def import_as_seen(job: Job, table: TableDefinition | None) -> Job:
    """Return the job of an import as its client sees it: it has not ended while a partition does not serve its table.

    Args:
        table: The definition of its table in the catalog; None if the table is deleted.
    """
    if job.is_running or table is None or table.status != "CREATING":
        return job
    return replace(job, status="IN_PROGRESS", ended_ms=None, failure=None)


def describe_import(job: Job) -> dict[str, Any]:
    """Return the ImportTableDescription."""
    processed, errors = job.counts.get("processed", 0), job.counts.get("errors", 0)
    return {
        "ImportArn": job.arn,
        "ImportStatus": job.status,
        "TableArn": job.table_arn,
        "TableId": job.table_uuid,
        "InputCompressionType": job.request.get("InputCompressionType", "NONE"),
        "ErrorCount": errors,
        "ProcessedSizeBytes": job.counts.get("bytes", 0),
        "ProcessedItemCount": processed,
        "ImportedItemCount": processed - errors,
        **_common(job, _BY_IMPORT),
    }


def import_summary(job: Job) -> dict[str, Any]:
    """Return the ImportSummary of ListImports."""
    names = ("ImportArn", "ImportStatus", "TableArn", "S3BucketSource", "InputFormat", "StartTime", "EndTime")
    described = describe_import(job)
    return {name: described[name] for name in names if name in described}


def describe_bulk_operation(job: Job) -> dict[str, Any]:
    """Return the BulkOperationDescription."""
    counts = job.counts
    name = name_of(job.table_arn)
    put_bytes = counts.get("put_bytes", 0)
    described = {
        "BulkOperationArn": job.arn,
        "BulkOperationStatus": job.status,
        "TableDetails": [{"TableName": name, "TableId": job.table_uuid}],
        "PerformanceTier": job.request.get("PerformanceTier", "STANDARD"),
        "ProcessedItemCount": counts.get("processed", 0),
        "ProcessedInputBytes": counts.get("bytes", 0),
        "FailedItemCount": counts.get("errors", 0) + counts.get("failed", 0),
        "BulkOperationUsage": [
            {"TableName": name, "BulkPutBytes": put_bytes, "Table": {"BulkPutBytes": put_bytes}}
        ],
        **_common(job, _BY_BULK),
    }
    if "total_bytes" in counts:
        described["TotalInputBytes"] = counts["total_bytes"]
    return described


def bulk_operation_summary(job: Job) -> dict[str, Any]:
    """Return the BulkOperationSummary of ListBulkOperations."""
    names = ("BulkOperationArn", "BulkOperationStatus", "StartTime", "EndTime")
    described = describe_bulk_operation(job)
    return {name: described[name] for name in names if name in described}


def _export_type(job: Job) -> str:
    return "FULL_EXPORT" if job.since_ms is None else "INCREMENTAL_EXPORT"


def _common(job: Job, members: tuple[str, ...]) -> dict[str, Any]:
    """Return the times, the failure and the token of a job, and these members of its request."""
    described = {name: job.request[name] for name in members if name in job.request}
    described["StartTime"] = seconds(job.started_ms)
    if job.ended_ms is not None:
        described["EndTime"] = seconds(job.ended_ms)
    if job.token is not None:
        described["ClientToken"] = job.token
    if job.failure is not None:
        described["FailureCode"], described["FailureMessage"] = job.failure
    return described
