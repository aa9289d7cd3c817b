"""Exports, imports and bulk operations through boto3, against folders that stand for buckets."""

import gzip
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import pyarrow.json
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

import foldb
from tests.support.raw import ask
from tests.support.tables import table_request

PITR = {"PointInTimeRecoveryEnabled": True}
BUCKET = "shop"


@dataclass
class Jobs:
    """A served database with a folder of buckets."""

    client: Any
    buckets: Path
    made: int = 0

    def name(self) -> str:
        self.made += 1
        return f"table-{self.made}"

    def parameters(self, name: str) -> dict[str, Any]:
        return table_request(name, "pk:S", "sk:N", gsi={"by-kind": "kind:S sk:N"})

    def create(self, items: int = 0) -> str:
        """Create a table with point-in-time recovery."""
        name = self.name()
        self.client.create_table(**self.parameters(name))
        self.client.update_continuous_backups(TableName=name, PointInTimeRecoverySpecification=PITR)
        for first in range(0, items, 25):
            puts = [{"PutRequest": {"Item": item(n)}} for n in range(first, min(items, first + 25))]
            self.client.batch_write_item(RequestItems={name: puts})
        return name

    def put(self, name: str, n: int, value: str = "v") -> None:
        self.client.put_item(TableName=name, Item=item(n, value))

    def delete(self, name: str, n: int) -> None:
        self.client.delete_item(TableName=name, Key={"pk": item(n)["pk"], "sk": item(n)["sk"]})

    def items(self, name: str, **read: Any) -> list[Any]:
        pages = self.client.get_paginator("scan").paginate(TableName=name, **read)
        return in_order(one for page in pages for one in page["Items"])

    def arn(self, name: str) -> str:
        return f"arn:aws:dynamodb:us-east-1:000000000000:table/{name}"

    def export(self, name: str, **members: Any) -> Any:
        """Export a table, and return the description of the complete export."""
        request = {"TableArn": self.arn(name), "S3Bucket": BUCKET, **members}
        arn = self.client.export_table_to_point_in_time(**request)["ExportDescription"]["ExportArn"]
        return self.ended(lambda: self.client.describe_export(ExportArn=arn)["ExportDescription"], "Export")

    def increment(self, name: str, since: Any, **specification: Any) -> Any:
        """Export the changes since a time."""
        begin = {"ExportFromTime": since.timestamp(), **specification}
        return self.export(name, ExportType="INCREMENTAL_EXPORT", IncrementalExportSpecification=begin)

    def settled_time(self, name: str) -> Any:
        """Return the time of an export: the writes that follow are later."""
        return self.export(name)["ExportTime"] + timedelta(milliseconds=1)

    def import_table(self, prefix: str, name: str, **members: Any) -> Any:
        """Import files into a table, and return the description of the complete import."""
        request = {
            "S3BucketSource": {"S3Bucket": BUCKET, "S3KeyPrefix": prefix},
            "InputFormat": "DYNAMODB_JSON",
            "TableCreationParameters": self.parameters(name),
            **members,
        }
        arn = self.client.import_table(**request)["ImportTableDescription"]["ImportArn"]
        described = self.ended(
            lambda: self.client.describe_import(ImportArn=arn)["ImportTableDescription"], "Import"
        )
        assert self.client.describe_table(TableName=name)["Table"]["TableStatus"] == "ACTIVE"
        return described

    def bulk(self, name: str, prefix: str, **members: Any) -> Any:
        """Put the items of files, and return the description of the complete bulk operation."""
        request = {
            "TableName": name,
            "InputS3Configuration": {
                "S3Bucket": BUCKET,
                "S3KeyPrefix": prefix,
                "InputFormat": "DYNAMODB_JSON",
            },
            "OutputS3Configuration": {
                "S3Bucket": BUCKET,
                "S3KeyPrefix": "reports",
                "OutputType": ["ERROR", "CONDITION_CHECK_FAILURE"],
            },
            **members,
        }
        arn = self.client.start_bulk_put_items(**request)["BulkOperationDescription"]["BulkOperationArn"]
        return self.ended(
            lambda: self.client.describe_bulk_operation(BulkOperationArn=arn)["BulkOperationDescription"],
            "BulkOperation",
        )

    def ended(self, describe: Callable[[], Any], kind: str) -> Any:
        until = time.monotonic() + 30
        while (described := describe())[f"{kind}Status"] in ("IN_PROGRESS", "CANCELLING"):
            assert time.monotonic() < until, f"{described} has not ended"
        return described

    def write(self, key: str, *lines: Any) -> None:
        """Write a file with a line of JSON for each object."""
        path = self.buckets / BUCKET / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    def data_files(self, export: Any) -> list[dict[str, Any]]:
        """Return the lines of manifest-files.json of an export."""
        summary = json.loads((self.buckets / BUCKET / export["ExportManifest"]).read_text())
        manifest = self.buckets / BUCKET / summary["manifestFilesS3Key"]
        return [json.loads(line) for line in manifest.read_text().splitlines()]

    def report(self, bulk: Any) -> list[Any]:
        """Return the entries of the report of a bulk operation."""
        identity = bulk["BulkOperationArn"].rpartition("/")[2]
        files = sorted((self.buckets / BUCKET / "reports" / "AWSDynamoDB" / identity / "data").iterdir())
        return [json.loads(line) for path in files for line in path.read_text().splitlines()]

    def records(self, export: Any) -> list[Any]:
        """Return the records of all data files of an export in DYNAMODB_JSON."""
        paths = [self.buckets / BUCKET / each["dataFileS3Key"] for each in self.data_files(export)]
        return [json.loads(line) for path in paths for line in gzip.open(path)]


def item(n: int, value: str = "v") -> dict[str, Any]:
    return {
        "pk": {"S": f"p{n % 7}"},
        "sk": {"N": str(n)},
        "kind": {"S": f"k{n % 3}"},
        "value": {"M": {"text": {"S": value}, "bytes": {"B": b"\x00\xff"}, "set": {"NS": ["1", "2.5"]}}},
    }


@pytest.fixture(scope="module", params=[1, 3], ids=["1 partition", "3 partitions"])
def jobs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    buckets = tmp_path_factory.mktemp("buckets")
    (buckets / BUCKET).mkdir()
    with foldb.serve(None, partitions=request.param, buckets=buckets) as server:
        config = Config(retries={"total_max_attempts": 1}, parameter_validation=False)
        client = boto3.client("dynamodb", **server.boto3, config=config)
        yield Jobs(client, buckets)
        client.close()


@contextmanager
def refused(name: str) -> Iterator[None]:
    with pytest.raises(ClientError) as error:
        yield
    assert name == error.value.response["Error"]["Code"]


@pytest.mark.spec("X12")
@pytest.mark.parametrize("kind", ["DYNAMODB_JSON", "ION"])
def test_an_export_imports_into_an_equal_table(jobs: Jobs, kind: str) -> None:
    source, target = jobs.create(60), jobs.name()

    export = jobs.export(source, ExportFormat=kind, S3Prefix=f"nightly/{kind}")
    data = export["ExportManifest"].replace("manifest-summary.json", "data/")
    made = jobs.import_table(data, target, InputFormat=kind, InputCompressionType="GZIP")

    assert ("COMPLETED", 60) == (export["ExportStatus"], export["ItemCount"])
    assert ("COMPLETED", 60, 0) == (made["ImportStatus"], made["ImportedItemCount"], made["ErrorCount"])
    assert jobs.items(source) == jobs.items(target)
    assert jobs.items(source, IndexName="by-kind") == jobs.items(target, IndexName="by-kind")
    assert "ACTIVE" == jobs.client.describe_table(TableName=target)["Table"]["TableStatus"]


@pytest.mark.spec("X12")
def test_a_full_export_has_the_items_of_its_time(jobs: Jobs) -> None:
    source = jobs.create(10)
    before = jobs.items(source)

    export = jobs.export(source)
    jobs.put(source, 99)

    assert before == in_order(decoded(each["Item"]) for each in jobs.records(export))


@pytest.mark.spec("X12")
def test_incremental_exports_in_order_equal_the_full_one(jobs: Jobs) -> None:
    source = jobs.create(20)
    full = jobs.export(source)
    since, incremental = full["ExportTime"], []
    for step in range(3):
        for n in range(step, 30, 3):
            jobs.put(source, n, f"of step {step}")
        jobs.delete(source, step + 10)
        jobs.put(source, 50)
        jobs.delete(source, 50)
        incremental.append(jobs.increment(source, since))
        since = incremental[-1]["IncrementalExportSpecification"]["ExportToTime"]

    found = {str(each["Item"]["sk"]): each["Item"] for each in jobs.records(full)}
    for export in incremental:
        for record in jobs.records(export):
            key = str(record["Keys"]["sk"])
            if "NewImage" in record:
                found[key] = record["NewImage"]
            else:
                del found[key]

    last = jobs.export(source)
    assert in_order(each["Item"] for each in jobs.records(last)) == in_order(found.values())
    assert jobs.items(source) == in_order(map(decoded, found.values()))


@pytest.mark.spec("X12")
@pytest.mark.parametrize(
    ("view", "members"),
    [
        (
            "NEW_AND_OLD_IMAGES",
            [{"Keys", "NewImage"}, {"Keys", "NewImage", "OldImage"}, {"Keys", "OldImage"}],
        ),
        ("NEW_IMAGE", [{"Keys", "NewImage"}, {"Keys", "NewImage"}, {"Keys"}]),
    ],
)
def test_a_change_has_the_images_of_the_view(jobs: Jobs, view: str, members: list[set[str]]) -> None:
    source = jobs.create(2)
    since = jobs.settled_time(source)
    jobs.put(source, 5)
    jobs.put(source, 0, "other")
    jobs.delete(source, 1)

    export = jobs.increment(source, since, ExportViewType=view)

    records = {int(each["Keys"]["sk"]["N"]): each for each in jobs.records(export)}
    assert [{"Metadata", *each} for each in members] == [set(records[n]) for n in (5, 0, 1)]
    assert all(each["Metadata"]["WriteTimestampMicros"]["N"].isdigit() for each in records.values())


@pytest.mark.spec("X12")
def test_an_export_is_described_and_listed(jobs: Jobs) -> None:
    source = jobs.create(3)
    settings = {
        "S3BucketOwner": "123456789012",
        "S3Prefix": "a/b",
        "S3SseAlgorithm": "KMS",
        "S3SseKmsKeyId": "k",
    }

    first = jobs.export(source, ClientToken="one", **settings)
    second = jobs.increment(source, first["ExportTime"])

    assert "one" == first["ClientToken"]
    assert settings == {name: first[name] for name in settings}
    assert first["ExportManifest"].startswith("a/b/AWSDynamoDB/")
    assert first["StartTime"] <= first["EndTime"]
    table = jobs.arn(source)
    pages = [jobs.client.list_exports(TableArn=table, MaxResults=1)]
    pages.append(jobs.client.list_exports(TableArn=table, MaxResults=1, NextToken=pages[0]["NextToken"]))
    kinds = [("INCREMENTAL_EXPORT", second), ("FULL_EXPORT", first)]
    assert [
        [{"ExportArn": export["ExportArn"], "ExportStatus": "COMPLETED", "ExportType": kind}]
        for kind, export in kinds
    ] == [page["ExportSummaries"] for page in pages]
    assert "NextToken" not in pages[1]


@pytest.mark.spec("X12")
def test_a_token_begins_one_export(jobs: Jobs) -> None:
    request = {"TableArn": jobs.arn(jobs.create(1)), "S3Bucket": BUCKET, "ClientToken": "once"}
    begun = [
        jobs.client.export_table_to_point_in_time(**request)["ExportDescription"]["ExportArn"]
        for _ in range(2)
    ]

    assert begun[0] == begun[1]
    with refused("ExportConflictException"):
        jobs.client.export_table_to_point_in_time(**request, S3Prefix="other")


@pytest.mark.spec("X12")
def test_impossible_exports_are_refused(jobs: Jobs) -> None:
    source = jobs.create(1)
    plain = jobs.name()
    jobs.client.create_table(**jobs.parameters(plain))
    export = jobs.client.export_table_to_point_in_time

    with refused("PointInTimeRecoveryUnavailableException"):
        export(TableArn=jobs.arn(plain), S3Bucket=BUCKET)
    with refused("TableNotFoundException"):
        export(TableArn=jobs.arn("lost"), S3Bucket=BUCKET)
    with refused("InvalidExportTimeException"):
        export(TableArn=jobs.arn(source), S3Bucket=BUCKET, ExportTime=1)
    with refused("ExportNotFoundException"):
        jobs.client.describe_export(ExportArn=f"{jobs.arn(source)}/export/01790001482112-4e03bb28")
    for members in (
        {"ExportType": "INCREMENTAL_EXPORT"},
        {"IncrementalExportSpecification": {"ExportFromTime": 1}},
        {"ExportType": "INCREMENTAL_EXPORT", "IncrementalExportSpecification": {}},
        {"S3SseKmsKeyId": "key"},
        {"FilterSpecification": {"FilterExpression": "a = b"}},
    ):
        with refused("ValidationException"):
            export(TableArn=jobs.arn(source), S3Bucket=BUCKET, **members)


@pytest.mark.spec("X12")
def test_a_time_that_is_too_large_is_refused(jobs: Jobs) -> None:
    for seconds in (1e308, -1e308):
        request = {"TableArn": jobs.arn(jobs.create()), "S3Bucket": BUCKET, "ExportTime": seconds}

        answer = ask(jobs.client.meta.endpoint_url, "ExportTableToPointInTime", request)

        assert 400 == answer.status
        assert answer.body["__type"].endswith("#InvalidExportTimeException")


@pytest.mark.spec("X12")
def test_a_missing_bucket_fails_the_job(jobs: Jobs) -> None:
    source, target = jobs.create(1), jobs.name()

    export = jobs.export(source, S3Bucket="missing")
    made = jobs.import_table("", target, S3BucketSource={"S3Bucket": "missing"})
    empty = jobs.import_table("no-such-prefix/", jobs.name())

    assert ("FAILED", "S3NoSuchBucket") == (export["ExportStatus"], export["FailureCode"])
    assert ("FAILED", "S3NoSuchBucket") == (made["ImportStatus"], made["FailureCode"])
    assert ("FAILED", "S3NoSuchKey") == (empty["ImportStatus"], empty["FailureCode"])
    assert "ACTIVE" == jobs.client.describe_table(TableName=target)["Table"]["TableStatus"]


@pytest.mark.spec("X12")
def test_a_hostile_bucket_or_prefix_is_refused(jobs: Jobs) -> None:
    source = jobs.create()

    for prefix in ("../up", "a/../../b", "/abs", "a//b", "./a", "a\\b", "a/..", "a\0b"):
        with refused("ValidationException"):
            jobs.client.export_table_to_point_in_time(
                TableArn=jobs.arn(source), S3Bucket=BUCKET, S3Prefix=prefix
            )
        with refused("ValidationException"):
            jobs.import_table(prefix, jobs.name())
    for bucket in ("..", "a..b", ".a", "a/b", "ünder", "shop\n", ""):
        with refused("ValidationException"):
            jobs.client.export_table_to_point_in_time(TableArn=jobs.arn(source), S3Bucket=bucket)


@pytest.mark.spec("X12")
def test_a_link_out_of_a_bucket_is_not_followed(jobs: Jobs, tmp_path: Path) -> None:
    source = jobs.create(1)
    (tmp_path / "secret.json").write_text(json.dumps({"Item": {"pk": {"S": "s"}, "sk": {"N": "1"}}}))
    folder = jobs.buckets / BUCKET / "linked"
    folder.mkdir(exist_ok=True)
    for name, to in (("out", tmp_path), ("secret.json", tmp_path / "secret.json")):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(to)
    if not (jobs.buckets / "elsewhere").is_symlink():
        (jobs.buckets / "elsewhere").symlink_to(tmp_path)

    ends = [
        jobs.export(source, S3Prefix="linked/out"),
        jobs.export(source, S3Bucket="elsewhere"),
    ]
    made = [jobs.import_table(prefix, jobs.name()) for prefix in ("linked/secret.json", "linked/out/")]

    assert [("FAILED", "S3AccessDenied")] * 2 == [(end["ExportStatus"], end["FailureCode"]) for end in ends]
    assert [("FAILED", "S3AccessDenied")] * 2 == [(end["ImportStatus"], end["FailureCode"]) for end in made]
    assert ["secret.json"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.spec("X12")
def test_a_file_whose_name_is_no_unicode_fails_the_job(jobs: Jobs) -> None:
    target = jobs.create()
    jobs.write("odd/named", {"Item": {"pk": {"S": "p"}, "sk": {"N": "1"}}})
    folder = jobs.buckets / BUCKET / "odd"
    (folder / "named").rename(folder / os.fsdecode(b"\xff.json"))

    made, put = jobs.import_table("odd/", jobs.name()), jobs.bulk(target, "odd/")

    assert ("FAILED", "S3InvalidKey") == (made["ImportStatus"], made["FailureCode"])
    assert ("FAILED", "S3InvalidKey") == (put["BulkOperationStatus"], put["FailureCode"])


@pytest.mark.spec("X12")
def test_an_export_of_dynamodb_imports(jobs: Jobs) -> None:
    """The files have the form of the samples in DynamoDB's documentation of exports."""
    folder = jobs.buckets / BUCKET / "2020-Nov" / "AWSDynamoDB" / "01693685827463-2d8752fd" / "data"
    folder.mkdir(parents=True, exist_ok=True)
    json_lines = [
        b'{"Item":{"Authors":{"SS":["Author1","Author2"]},"Dimensions":{"S":"8.5 x 11.0 x 1.5"},'
        b'"ISBN":{"S":"333-3333333333"},"Id":{"N":"103"},"InPublication":{"BOOL":false},'
        b'"PageCount":{"N":"600"},"Price":{"N":"2000"},"ProductCategory":{"S":"Book"},'
        b'"Title":{"S":"Book 103 Title"}}}\n',
        b'{"Item":{"Id":{"N":"205"},"Description":{"S":"205 Description"},"BicycleType":{"S":"Hybrid"},'
        b'"Color":{"L":[{"S":"Red"},{"S":"Black"}]},"Title":{"S":"18-Bike-204"}}}\n',
    ]
    (folder / "asdl123dasas7sdhkhqzse7zsa.json.gz").write_bytes(gzip.compress(json_lines[0]))
    (folder / "asdgh3dasas7sdhkhqzse7zsb.json.gz").write_bytes(gzip.compress(json_lines[1]))
    ion_folder = folder.parent / "ion"
    ion_folder.mkdir(exist_ok=True)
    (ion_folder / "asdl123dasas7sdhkhqzse7zsa.ion.gz").write_bytes(
        gzip.compress(
            b'$ion_1_0 {Item:{Authors:$dynamodb_SS::["Author1","Author2"],Dimensions:"8.5 x 11.0 x 1.5",'
            b'ISBN:"333-3333333333",Id:103.,InPublication:false,PageCount:6d2,Price:2d3,'
            b'ProductCategory:"Book",Title:"Book 103 Title"}}\n'
            b'$ion_1_0 {Item:{Id:205.,Description:"205 Description",BicycleType:"Hybrid",'
            b'Color:["Red","Black"],Title:"18-Bike-204"}}\n'
        )
    )
    found = []
    for kind, prefix in (("DYNAMODB_JSON", "data/"), ("ION", "ion/")):
        name = jobs.name()
        jobs.import_table(
            f"2020-Nov/AWSDynamoDB/01693685827463-2d8752fd/{prefix}",
            name,
            InputFormat=kind,
            InputCompressionType="GZIP",
            TableCreationParameters=table_request(name, "Id:N"),
        )
        pages = jobs.client.scan(TableName=name)["Items"]
        found.append({one["Id"]["N"]: one for one in pages})

    assert {"103", "205"} == set(found[0])
    assert {json.dumps(each["Item"]["Title"]) for each in map(json.loads, json_lines)} == {
        json.dumps(one["Title"]) for one in found[0].values()
    }
    assert {"N": "2000"} == found[0]["103"]["Price"]
    assert {"SS": ["Author1", "Author2"]} == found[0]["103"]["Authors"]
    assert found[0] == found[1]


@pytest.mark.spec("X12")
def test_pyarrow_reads_an_export(jobs: Jobs) -> None:
    source = jobs.create(12)

    export = jobs.export(source)

    found = []
    for each in jobs.data_files(export):
        path = jobs.buckets / BUCKET / each["dataFileS3Key"]
        if each["itemCount"]:
            rows = pyarrow.json.read_json(path).to_pylist()
            assert each["itemCount"] == len(rows)
            found += [row["Item"] for row in rows]
    assert [
        (one["pk"], one["sk"], one["value"]["M"]["text"], one["value"]["M"]["set"])
        for one in jobs.items(source)
    ] == [
        (one["pk"], one["sk"], one["value"]["M"]["text"], one["value"]["M"]["set"]) for one in in_order(found)
    ]


@pytest.mark.spec("X12")
def test_an_import_leaves_out_and_counts_invalid_records(jobs: Jobs) -> None:
    good = {"pk": {"S": "p"}, "sk": {"N": "1"}}
    lines = [
        {"Item": good},
        {"Item": {"pk": {"S": "p"}}},
        {"Item": {**good, "sk": {"N": "x"}}},
        {"Item": {**good, "sk": {"N": "2"}, "kind": {"N": "1"}}},
        {"Item": {**good, "sk": {"N": "3"}, "long": {"S": "x" * 410_000}}},
        {"NoItem": {}},
        {"Item": {**good, "sk": {"N": "4"}}},
    ]
    jobs.write("invalid/a.json", *lines)
    jobs.write("invalid/b.json", {"Item": {**good, "v": {"S": "second"}}})
    name = jobs.name()

    made = jobs.import_table("invalid/", name)

    counts = ("ProcessedItemCount", "ErrorCount", "ImportedItemCount")
    assert [8, 5, 3] == [made[count] for count in counts]
    assert (
        sum(path.stat().st_size for path in (jobs.buckets / BUCKET / "invalid").iterdir())
        == made["ProcessedSizeBytes"]
    )
    assert [{**good, "v": {"S": "second"}}, {**good, "sk": {"N": "4"}}] == jobs.items(name)


@pytest.mark.spec("X12")
def test_an_import_is_described_and_listed(jobs: Jobs) -> None:
    jobs.write("listed/a.csv", "only text")
    (jobs.buckets / BUCKET / "listed" / "a.csv").write_text("p0;1;k\np1;2;\n")
    name = jobs.name()
    options = {"Csv": {"Delimiter": ";", "HeaderList": ["pk", "sk", "kind"]}}

    made = jobs.import_table("listed/", name, InputFormat="CSV", InputFormatOptions=options, ClientToken="i")

    assert ("COMPLETED", "CSV", options, "NONE", "i") == tuple(
        made[member]
        for member in (
            "ImportStatus",
            "InputFormat",
            "InputFormatOptions",
            "InputCompressionType",
            "ClientToken",
        )
    )
    assert jobs.parameters(name) == made["TableCreationParameters"]
    assert [
        {"pk": {"S": "p0"}, "sk": {"N": "1"}, "kind": {"S": "k"}},
        {"pk": {"S": "p1"}, "sk": {"N": "2"}},
    ] == jobs.items(name)
    [listed] = jobs.client.list_imports(TableArn=jobs.arn(name))["ImportSummaryList"]
    assert made["ImportArn"] == listed["ImportArn"]
    assert "RestoreSummary" not in jobs.client.describe_table(TableName=name)["Table"]
    page = jobs.client.list_imports(PageSize=1)
    more = jobs.client.list_imports(PageSize=1, NextToken=page["NextToken"])
    assert page["ImportSummaryList"] != more["ImportSummaryList"]


@pytest.mark.spec("X12")
def test_an_import_creates_a_new_table_once(jobs: Jobs) -> None:
    jobs.write("once/a.json", {"Item": item(1) | {"value": {"S": "v"}}})
    name = jobs.name()

    first = jobs.import_table("once/", name, ClientToken="import-once")
    again = jobs.import_table("once/", name, ClientToken="import-once")

    assert first == again
    with refused("ImportConflictException"):
        jobs.import_table("other/", name, ClientToken="import-once")
    with refused("ResourceInUseException"):
        jobs.import_table("once/", name, ClientToken="another")
    with refused("ImportNotFoundException"):
        jobs.client.describe_import(ImportArn=f"{jobs.arn(name)}/import/01790001482112-4e03bb28")
    with refused("ValidationException"):
        jobs.import_table("once/", jobs.name(), InputFormatOptions={"Csv": {}})


@pytest.mark.spec("X12")
def test_a_bulk_operation_puts_and_reports(jobs: Jobs) -> None:
    target = jobs.create(2)
    jobs.write(
        "bulk/a.json",
        {"Item": item(1) | {"value": {"S": "replaced"}}},
        {"Item": item(7) | {"value": {"S": "new"}}},
        {"Item": {"pk": {"S": "p"}}},
    )

    made = jobs.bulk(target, "bulk/")

    assert "COMPLETED_WITH_ERRORS" == made["BulkOperationStatus"]
    assert (3, 1) == (made["ProcessedItemCount"], made["FailedItemCount"])
    assert made["ProcessedInputBytes"] == made["TotalInputBytes"] > 0
    assert made["BulkOperationUsage"][0]["BulkPutBytes"] > 0
    assert [{"M"}, {"S"}, {"S"}] == [set(one["value"]) for one in jobs.items(target)]
    [report] = jobs.report(made)
    assert ("ERROR", "ValidationException", "bulk/a.json", 3) == tuple(
        report[name] for name in ("Type", "Code", "File", "Record")
    )
    listed = jobs.client.list_bulk_operations(MaxResults=1)["BulkOperationsSummaryList"]
    assert [made["BulkOperationArn"]] == [each["BulkOperationArn"] for each in listed]


@pytest.mark.spec("X12")
@pytest.mark.parametrize("kind", ["DYNAMODB_JSON", "ION"])
def test_a_bulk_operation_evaluates_conditions(jobs: Jobs, kind: str) -> None:
    target = jobs.create(2)
    jobs.write(
        "conditions/DYNAMODB_JSON/a",
        {
            "Item": {"pk": {"S": "p0"}, "sk": {"N": "0"}},
            "ConditionExpression": "attribute_not_exists(pk)",
        },
        {
            "Item": {"pk": {"S": "p1"}, "sk": {"N": "1"}},
            "ConditionExpression": "#k = :k",
            "ExpressionAttributeNames": {"#k": "kind"},
            "ExpressionAttributeValues": {":k": {"S": "k1"}},
        },
        {"Item": {"pk": {"S": "p2"}, "sk": {"N": "2"}}, "Condition": "attribute_exists(pk)"},
    )
    jobs.write("conditions/ION/a")
    (jobs.buckets / BUCKET / "conditions" / "ION" / "a").write_text(
        '$ion_1_0 {Item:{pk:"p0",sk:0.},ConditionExpression:"attribute_not_exists(pk)"}\n'
        """{Item:{pk:"p1",sk:1.},ConditionExpression:"#k = :k",ExpressionAttributeNames:{'#k':"kind"},"""
        """ExpressionAttributeValues:{':k':"k1"}}\n"""
        '{Item:{pk:"p2",sk:2.},Condition:"attribute_exists(pk)"}\n'
    )
    before = jobs.items(target)

    source = {"S3Bucket": BUCKET, "S3KeyPrefix": f"conditions/{kind}/", "InputFormat": kind}
    made = jobs.bulk(target, "", InputS3Configuration=source)

    assert (3, 1) == (made["ProcessedItemCount"], made["FailedItemCount"])
    assert [before[0], {"pk": {"S": "p1"}, "sk": {"N": "1"}}] == jobs.items(target)
    reports = {each["Type"]: each for each in jobs.report(made)}
    assert {"ERROR", "CONDITION_CHECK_FAILURE"} == set(reports)
    assert ("MalformedRecord", "Condition is not known") == tuple(
        reports["ERROR"][name] for name in ("Code", "Message")
    )
    refused_put = reports["CONDITION_CHECK_FAILURE"]
    assert {"pk": {"S": "p0"}, "sk": {"N": "0"}} == refused_put["Item"]
    assert before[0] == decoded(refused_put["ExistingItem"])


@pytest.mark.spec("X12")
def test_a_bulk_operation_is_cancelled(jobs: Jobs) -> None:
    target = jobs.create()
    jobs.write("slow/a.json", *({"Item": item(n) | {"value": {"S": "v" * 4000}}} for n in range(1000)))

    begun = jobs.client.start_bulk_put_items(
        TableName=target,
        InputS3Configuration={"S3Bucket": BUCKET, "S3KeyPrefix": "slow/", "InputFormat": "DYNAMODB_JSON"},
        OutputS3Configuration={"S3Bucket": BUCKET, "OutputType": ["ERROR"]},
        MaxWriteRequestUnits=1024,
    )["BulkOperationDescription"]
    arn = begun["BulkOperationArn"]
    cancelled = jobs.client.cancel_bulk_operation(BulkOperationArn=arn)
    ended = jobs.ended(
        lambda: jobs.client.describe_bulk_operation(BulkOperationArn=arn)["BulkOperationDescription"],
        "BulkOperation",
    )

    assert "CANCELLING" == cancelled["BulkOperationStatus"]
    assert "CANCELLED" == ended["BulkOperationStatus"]
    assert 1000 > ended["ProcessedItemCount"]
    with refused("ResourceNotFoundException"):
        jobs.client.cancel_bulk_operation(BulkOperationArn=f"{jobs.arn(target)}/bulk-operation/0-4e03bb28")


@pytest.mark.spec("X12")
def test_a_deleted_table_cancels_its_import(jobs: Jobs) -> None:
    jobs.write("large/a.json", *({"Item": item(n) | {"value": {"S": "v" * 500}}} for n in range(6_000)))
    name = jobs.name()
    begun = jobs.client.import_table(
        S3BucketSource={"S3Bucket": BUCKET, "S3KeyPrefix": "large/"},
        InputFormat="DYNAMODB_JSON",
        TableCreationParameters=jobs.parameters(name),
    )["ImportTableDescription"]

    jobs.client.delete_table(TableName=name)

    described = jobs.client.describe_import(ImportArn=begun["ImportArn"])["ImportTableDescription"]
    assert "CANCELLED" == described["ImportStatus"]


@pytest.mark.spec("X12")
def test_without_buckets_the_operations_name_the_option(client: Any, make_table: Any) -> None:
    table = make_table("pk:S", "sk:N")

    with pytest.raises(ClientError, match="foldb serve --buckets DIR"):
        client.export_table_to_point_in_time(TableArn=table.table_arn, S3Bucket=BUCKET)


def in_order(items: Iterable[Any]) -> list[Any]:
    return sorted(items, key=lambda one: float(one["sk"]["N"]))


def decoded(one: Any) -> Any:
    """Return an item of a file as boto3 returns it."""
    binary = {"B": b"\x00\xff"}
    return {**one, "value": {"M": {**one["value"]["M"], "bytes": binary}}}
