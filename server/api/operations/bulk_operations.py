"""StartBulkPutItems, DescribeBulkOperation, ListBulkOperations and CancelBulkOperation: puts of the items of files.

The owner of the catalog reads the files and puts the items (materializer/owner/jobs.py). The owners of the partitions
fold the puts as those of a PutItem.
"""

from collections.abc import Iterator
from typing import Any

from ....model.errors import ResourceInUseError, ResourceNotFoundError, ValidationError
from ....model.job_descriptions import bulk_operation_summary
from ....model.job_descriptions import describe_bulk_operation as description
from ....model.jobs import CANCEL, START_BULK, Job
from ...auth.rights import EVERYTHING, Demand, Right
from ...buckets.bucket_folders import check_bucket, check_prefix
from ...node import Node
from .. import jobs
from ..operation import Answer, operation
from ..reply import Caller

_PAGE = 10


@operation("StartBulkPutItems", Right.WRITE)
async def start_bulk_put_items(node: Node, body: dict[str, Any], caller: Caller) -> Answer:
    """Begin to put the items of the files into a table."""
    jobs.check_buckets(node)
    source, target = body["InputS3Configuration"], body["OutputS3Configuration"]
    if "S3Bucket" not in target:
        raise ValidationError("OutputS3Configuration.S3Bucket must be specified")
    for each in (source, target):
        check_bucket(each["S3Bucket"])
        check_prefix(each.get("S3KeyPrefix", ""), "S3KeyPrefix")
    if "S3SseKmsKeyId" in target and target.get("S3SseAlgorithm") != "KMS":
        raise ValidationError("S3SseKmsKeyId can only be specified when S3SseAlgorithm is KMS")
    definition = node.table_in_any_status(body["TableName"]).definition
    if definition.status not in ("ACTIVE", "UPDATING") or any(
        index.backfilling for index in definition.indexes
    ):
        raise ResourceInUseError(
            f"The table or an index of it is being created or deleted: {definition.name}"
        )
    job, position = await jobs.begin(node, START_BULK, body, caller.context, table=definition.id)
    return _answer(job)._replace(position=position)


@operation("DescribeBulkOperation", Right.READ, member="BulkOperationArn")
async def describe_bulk_operation(node: Node, body: dict[str, Any], _: Caller) -> Answer:
    """Describe the bulk operation."""
    return _answer(await _find(node, body))


def _list_demands(_: dict[str, Any]) -> Iterator[Demand]:
    yield "dynamodb:ListBulkOperations", Right.READ, EVERYTHING


@operation("ListBulkOperations", _list_demands)
async def list_bulk_operations(node: Node, body: dict[str, Any], _: Caller) -> dict[str, Any]:
    """Return a page of bulk operations, the newest first."""
    limit = body.get("MaxResults", _PAGE)
    page, token = jobs.page_of(node.state.jobs.values(), "bulk-operation", body, limit)
    return {"BulkOperationsSummaryList": [bulk_operation_summary(job) for job in page], **token}


@operation("CancelBulkOperation", Right.WRITE, member="BulkOperationArn")
async def cancel_bulk_operation(node: Node, body: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """Stop a bulk operation after the items that are being put."""
    job = await _find(node, body)
    job, _ = await jobs.submit(node, CANCEL, {"Arn": job.arn}, caller.context)
    return {"BulkOperationArn": job.arn, "BulkOperationStatus": job.status}


async def _find(node: Node, body: dict[str, Any]) -> Job:
    return await jobs.find_job(node, "bulk-operation", body["BulkOperationArn"], ResourceNotFoundError)


def _answer(job: Job) -> Answer:
    return jobs.answer("BulkOperationDescription", description(job))
