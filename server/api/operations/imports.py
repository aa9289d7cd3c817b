"""ImportTable, DescribeImport and ListImports: new tables with the items of files.

The table is CREATING until the owner of the catalog has loaded the items (materializer/owner/restores.py).
"""

from collections.abc import Iterator
from typing import Any

from ....model.errors import ImportNotFoundError, ResourceInUseError, ValidationError
from ....model.job_descriptions import describe_import as description
from ....model.job_descriptions import import_as_seen, import_summary
from ....model.jobs import START_IMPORT, Job
from ....model.tables import name_of
from ...auth.rights import EVERYTHING, Demand, Right
from ...buckets.bucket_folders import check_bucket, check_prefix
from ...node import Node
from .. import jobs, table_commands
from ..operation import Answer, operation
from ..reply import Caller

_PAGE = 25


def _demands(body: dict[str, Any]) -> Iterator[Demand]:
    yield "dynamodb:ImportTable", Right.ADMIN, body["TableCreationParameters"]["TableName"]


@operation("ImportTable", _demands)
async def import_table(node: Node, body: dict[str, Any], caller: Caller) -> Answer:
    """Create a table, and begin to load the items of the files into it."""
    jobs.check_buckets(node)
    source = body["S3BucketSource"]
    check_bucket(source["S3Bucket"])
    check_prefix(source.get("S3KeyPrefix", ""), "S3KeyPrefix")
    if "Csv" in body.get("InputFormatOptions", {}) and body["InputFormat"] != "CSV":
        raise ValidationError("InputFormatOptions can only be specified when InputFormat is CSV")
    repeated = jobs.find_repeated(node, "import", body)
    if repeated is not None:
        return _answer(node, repeated)
    parameters = body["TableCreationParameters"]
    name = name_of(parameters["TableName"])
    if name in node.state.names:
        raise ResourceInUseError(f"Table already exists: {name}")
    uuid = table_commands.new_uuid(node)
    members = table_commands.check_create(node, parameters, uuid)
    job, position = await jobs.begin(node, START_IMPORT, body, caller.context, uuid=uuid, **members)
    return _answer(node, job)._replace(position=position)


@operation("DescribeImport", Right.READ, member="ImportArn")
async def describe_import(node: Node, body: dict[str, Any], _: Caller) -> Answer:
    """Describe the import."""
    return _answer(node, await jobs.find_job(node, "import", body["ImportArn"], ImportNotFoundError))


def _list_demands(body: dict[str, Any]) -> Iterator[Demand]:
    yield "dynamodb:ListImports", Right.READ, body.get("TableArn", EVERYTHING)


@operation("ListImports", _list_demands)
async def list_imports(node: Node, body: dict[str, Any], _: Caller) -> dict[str, Any]:
    """Return a page of imports, the newest first."""
    page, token = jobs.page_of(node.state.jobs.values(), "import", body, body.get("PageSize", _PAGE))
    return {"ImportSummaryList": [import_summary(_as_seen(node, job)) for job in page], **token}


def _answer(node: Node, job: Job) -> Answer:
    return jobs.answer("ImportTableDescription", description(_as_seen(node, job)))


def _as_seen(node: Node, job: Job) -> Job:
    table = node.state.tables.get(job.table_id)
    return import_as_seen(job, None if table is None else table.definition)
