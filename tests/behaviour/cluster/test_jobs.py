"""Exports and imports on several nodes: any node begins and describes them, and the next owner continues them."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.cluster.processes import Nodes
from tests.support.raw import ask
from tests.support.tables import table_request

ARN = "arn:aws:dynamodb:us-east-1:000000000000:table/"
ITEMS = 5_000  # of 2 KB: 10 pages
_PATIENCE_S = 90
_CLUSTER = "Foldb_20261121.Cluster"


def request(url: str, operation: str, body: dict[str, Any]) -> Any:
    """Send a request that must succeed."""
    answer = ask(url, operation, body)
    assert answer.status == 200, answer.body
    return answer.body


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < until, "the job makes no progress"
        time.sleep(0.02)  # a poll, as SDKs do


@pytest.mark.spec("X12")
def test_another_node_continues_an_import_and_exports_it(kafka: str, tmp_path: Path) -> None:
    files = tmp_path / "buckets" / "shop" / "in"
    files.mkdir(parents=True)
    for nth in range(2):
        items = ({"pk": {"S": f"p{n}"}, "v": {"S": "x" * 2_000}} for n in range(nth, ITEMS, 2))
        (files / f"{nth}.json").write_text("".join(f"{json.dumps({'Item': item})}\n" for item in items))
    options = ("--partitions", "2", "--buckets", str(tmp_path / "buckets"))
    with Nodes(tmp_path, kafka, 2, *options) as nodes:
        nodes.settle()
        owner = catalog_owner(nodes)
        other = 1 - owner
        begun = request(
            nodes.url_of(other),
            "ImportTable",
            {
                "S3BucketSource": {"S3Bucket": "shop", "S3KeyPrefix": "in/"},
                "InputFormat": "DYNAMODB_JSON",
                "TableCreationParameters": table_request("made", "pk:S"),
            },
        )["ImportTableDescription"]

        def described() -> Any:
            found = request(nodes.url_of(other), "DescribeImport", {"ImportArn": begun["ImportArn"]})
            return found["ImportTableDescription"]

        wait_until(lambda: 0 < described()["ProcessedItemCount"])
        before = described()
        nodes.kill(owner)
        wait_until(lambda: described()["ImportStatus"] != "IN_PROGRESS")
        ended = described()
        survivor = nodes.url_of(other)
        wait_until(
            lambda: (
                request(survivor, "DescribeTable", {"TableName": "made"})["Table"]["TableStatus"] == "ACTIVE"
            )
        )
        request(
            survivor,
            "UpdateContinuousBackups",
            {"TableName": "made", "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}},
        )
        target = {"TableArn": f"{ARN}made", "S3Bucket": "shop"}
        made = request(survivor, "ExportTableToPointInTime", target)["ExportDescription"]

        def exported() -> Any:
            found = request(survivor, "DescribeExport", {"ExportArn": made["ExportArn"]})
            return found["ExportDescription"]

        wait_until(lambda: exported()["ExportStatus"] != "IN_PROGRESS")
        export = exported()

    assert "IN_PROGRESS" == before["ImportStatus"]
    assert ("COMPLETED", ITEMS, 0) == (ended["ImportStatus"], ended["ImportedItemCount"], ended["ErrorCount"])
    assert ("COMPLETED", ITEMS) == (export["ExportStatus"], export["ItemCount"])


def catalog_owner(nodes: Nodes) -> int:
    """Return the number of the node that owns the catalog."""
    clusters = [request(nodes.url_of(number), _CLUSTER, {}) for number in range(len(nodes))]
    owner = clusters[0]["Partitions"][0]["Owner"]
    return [cluster["Address"] for cluster in clusters].index(owner)
