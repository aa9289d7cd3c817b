"""Exports, imports and bulk operations whose server is killed while they run."""

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.support.served import killed, served
from tests.support.tables import table_request

BUCKET = "shop"
ITEMS = 3_000  # of 2 KB: six pages
ARN = "arn:aws:dynamodb:us-east-1:000000000000:table/"


def item(n: int) -> dict[str, Any]:
    return {"pk": {"S": f"p{n}"}, "v": {"S": f"{n} " + "x" * 2_000}}


def client_of(url: str) -> Any:
    return boto3.client(
        "dynamodb",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="a",
        aws_secret_access_key="b",
        config=Config(retries={"total_max_attempts": 1}),
    )


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "the job makes no progress"


class Jobs:
    """Descriptions of the jobs that the test began."""

    def __init__(self, client: Any, arns: dict[str, str]) -> None:
        self.client = client
        self.arns = arns

    @property
    def exported(self) -> Any:
        return self.client.describe_export(ExportArn=self.arns["export"])["ExportDescription"]

    @property
    def imported(self) -> Any:
        return self.client.describe_import(ImportArn=self.arns["import"])["ImportTableDescription"]

    @property
    def bulk(self) -> Any:
        described = self.client.describe_bulk_operation(BulkOperationArn=self.arns["bulk"])
        return described["BulkOperationDescription"]

    def statuses(self) -> list[str]:
        return [
            self.exported["ExportStatus"],
            self.imported["ImportStatus"],
            self.bulk["BulkOperationStatus"],
        ]


@pytest.mark.spec("X12")
@pytest.mark.parametrize("partitions", ["1", "3"])
def test_jobs_continue_after_a_kill(tmp_path: Path, partitions: str) -> None:
    buckets = tmp_path / "buckets"
    files = buckets / BUCKET / "in"
    files.mkdir(parents=True)
    for nth in range(3):
        lines = [json.dumps({"Item": item(n)}) for n in range(nth, ITEMS, 3)]
        lines.append('{"Item":{}}')
        (files / f"{nth}.json.gz").write_bytes(gzip.compress("\n".join(lines).encode(), 1))
    options = ("--partitions", partitions, "--fsync", "never", "--buckets", str(buckets))
    source: dict[str, Any] = {"S3Bucket": BUCKET, "S3KeyPrefix": "in/"}
    with killed(tmp_path / "db", *options) as url:
        client = client_of(url)
        client.create_table(**table_request("target", "pk:S"))
        client.update_continuous_backups(
            TableName="target", PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
        )
        for n in range(100):
            client.put_item(TableName="target", Item=item(n))
        arns = {
            "import": client.import_table(
                S3BucketSource=source,
                InputFormat="DYNAMODB_JSON",
                InputCompressionType="GZIP",
                TableCreationParameters=table_request("made", "pk:S"),
            )["ImportTableDescription"]["ImportArn"],
            "bulk": client.start_bulk_put_items(
                TableName="target",
                InputS3Configuration=source
                | {"InputFormat": "DYNAMODB_JSON", "InputCompressionType": "GZIP"},
                OutputS3Configuration={"S3Bucket": BUCKET, "OutputType": ["ERROR"]},
            )["BulkOperationDescription"]["BulkOperationArn"],
            "export": client.export_table_to_point_in_time(TableArn=f"{ARN}target", S3Bucket=BUCKET)[
                "ExportDescription"
            ]["ExportArn"],
        }
        jobs = Jobs(client, arns)
        wait_for(lambda: 0 < jobs.imported["ProcessedItemCount"] and 0 < jobs.bulk["ProcessedItemCount"])
        before = jobs.statuses()
        client.close()

    with served(tmp_path / "db", *options) as url:
        jobs = Jobs(client_of(url), arns)
        wait_for(lambda: "IN_PROGRESS" not in jobs.statuses())
        ends = [jobs.exported, jobs.imported, jobs.bulk]
        found = {name: items_of(jobs.client, name) for name in ("made", "target")}
        jobs.client.close()

    assert "IN_PROGRESS" in before, "the jobs had ended before the kill"
    assert ["COMPLETED", "COMPLETED", "COMPLETED_WITH_ERRORS"] == [
        ends[0]["ExportStatus"],
        ends[1]["ImportStatus"],
        ends[2]["BulkOperationStatus"],
    ]
    assert (ITEMS, 3) == (ends[1]["ImportedItemCount"], ends[1]["ErrorCount"])
    assert (ITEMS + 3, 3) == (ends[2]["ProcessedItemCount"], ends[2]["FailedItemCount"])
    every = {f"p{n}": item(n) for n in range(ITEMS)}
    assert every == found["made"] == found["target"]
    exported = records(buckets, ends[0])
    assert len(exported) == ends[0]["ItemCount"] >= 100
    assert all(each == every[each["pk"]["S"]] for each in exported)
    assert [] == list(buckets.rglob("*.part"))


def items_of(client: Any, name: str) -> dict[str, Any]:
    pages = client.get_paginator("scan").paginate(TableName=name)
    return {each["pk"]["S"]: each for page in pages for each in page["Items"]}


def records(buckets: Path, export: Any) -> list[Any]:
    """Return the items of all data files of an export."""
    summary = json.loads((buckets / BUCKET / export["ExportManifest"]).read_text())
    manifest = (buckets / BUCKET / summary["manifestFilesS3Key"]).read_text()
    keys = [json.loads(line)["dataFileS3Key"] for line in manifest.splitlines()]
    return [json.loads(line)["Item"] for key in keys for line in gzip.open(buckets / BUCKET / key)]
