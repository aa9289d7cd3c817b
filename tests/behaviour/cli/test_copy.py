"""`foldb copy --from-aws`: the copy has the table and the items of another endpoint, also after an interrupt."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

import foldb
from foldb.cli.lib.batch_writer import BatchWriter
from foldb.cli.lib.dynamodb_source import DynamoDBSource, from_boto, to_boto
from foldb.cli.lib.errors import CommandError, ExitCode
from tests.behaviour.cli.conftest import Foldb, lines
from tests.behaviour.cli.test_refusals import check


@pytest.fixture
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve a second database as the source, and yield its address."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.chdir(tmp_path)  # the state of the copy
    with foldb.serve(tmp_path / "aws", fsync="never") as server:
        yield server.endpoint_url


@pytest.fixture
def target(url: str) -> Iterator[Any]:
    client = boto3.client("dynamodb", endpoint_url=url)
    yield client
    client.close()


@pytest.fixture
def source(aws: str) -> Iterator[Any]:
    """Yield a client of the source, which has a table with 60 items of every type."""
    client = boto3.client("dynamodb", endpoint_url=aws)
    client.create_table(
        TableName="Orders",
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": kind}
            for name, kind in (("id", "B"), ("at", "N"), ("total", "N"))
        ],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}, {"AttributeName": "at", "KeyType": "RANGE"}],
        BillingMode="PROVISIONED",
        ProvisionedThroughput={"ReadCapacityUnits": 7, "WriteCapacityUnits": 8},
        GlobalSecondaryIndexes=[
            {
                "IndexName": "totals",
                "KeySchema": [{"AttributeName": "total", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["n"]},
                "ProvisionedThroughput": {"ReadCapacityUnits": 3, "WriteCapacityUnits": 4},
            }
        ],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
        Tags=[{"Key": "team", "Value": "shop"}],
    )
    specification = {"Enabled": True, "AttributeName": "expires"}
    client.update_time_to_live(TableName="Orders", TimeToLiveSpecification=specification)
    for n in range(60):
        put(client, n)
    yield client
    client.close()


def put(client: Any, n: int, **more: Any) -> None:
    item = {
        "id": {"B": bytes([n % 7, 255])},
        "at": {"N": str(n)},
        "total": {"N": f"{n}.10"},
        "deep": {"M": {"list": {"L": [{"BS": [b"a", b"\xff"]}, {"NULL": True}]}, "set": {"SS": ["x", "y"]}}},
        "text": {"S": "x" * 2000},
    }
    client.put_item(TableName="Orders", Item=item | more)


def items(client: Any) -> list[Any]:
    """Return all items, in an order that follows from them."""
    return sorted(client.scan(TableName="Orders", ConsistentRead=True)["Items"], key=repr)


def copied(cli: Foldb, aws: str, *flags: str) -> dict[str, Any]:
    [row] = lines(cli("copy", "Orders", "--from-aws", "--endpoint-url", aws, *flags))
    return dict(row)


def test_a_copy_has_the_items_and_the_settings_of_the_source(
    cli: Foldb, aws: str, source: Any, target: Any
) -> None:
    row = copied(cli, aws)

    assert (60, 60, 0) == (row["items"], row["source_items"], row["changes"])
    assert items(source) == items(target)
    theirs, ours = (each.describe_table(TableName="Orders")["Table"] for each in (source, target))
    for member in ("KeySchema", "AttributeDefinitions", "StreamSpecification"):
        assert theirs[member] == ours[member]
    assert (7, 8) == tuple(
        ours["ProvisionedThroughput"][f"{kind}CapacityUnits"] for kind in ("Read", "Write")
    )
    for member in ("IndexName", "KeySchema", "Projection"):
        assert theirs["GlobalSecondaryIndexes"][0][member] == ours["GlobalSecondaryIndexes"][0][member]
    expiry = target.describe_time_to_live(TableName="Orders")["TimeToLiveDescription"]
    assert ("ENABLED", "expires") == (expiry["TimeToLiveStatus"], expiry["AttributeName"])
    tags = target.list_tags_of_resource(ResourceArn=ours["TableArn"])["Tags"]
    assert [{"Key": "team", "Value": "shop"}] == tags
    assert not [*Path().glob("*.copy.json*")]
    check(
        cli("copy", "Orders", "--from-aws", "--endpoint-url", aws),
        7,
        "the table Orders exists; give another name",
    )


@pytest.mark.usefixtures("source")
def test_an_interrupted_copy_continues_where_it_stopped(
    cli: Foldb, aws: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source answers pages of few items, and the writer fails after some of them."""
    pages = page_of(monkeypatch, 5)
    loads = iter(range(4))
    load = BatchWriter.load

    def failing(self: BatchWriter, *arguments: Any) -> None:
        if next(loads, None) is None:
            raise CommandError("the disk is full", ExitCode.UNREACHABLE)
        load(self, *arguments)

    monkeypatch.setattr(BatchWriter, "load", failing)
    command = ("copy", "Orders", "--from-aws", "--endpoint-url", aws, "--segments", "2")
    check(cli(*command), 8, "the disk is full")
    saved = json.loads(Path("Orders.copy.json").read_text())
    done = sum(segment["items"] for segment in saved["segments"])
    assert 0 < done < 60

    monkeypatch.setattr(BatchWriter, "load", load)
    pages.clear()
    result = cli(*command)
    assert (60, 60) == (lines(result)[0]["items"], lines(result)[0]["source_items"])
    assert f"continued after {done} items" in result.stderr
    assert sum(pages) == 60 - done, "no page is read twice"


def page_of(monkeypatch: pytest.MonkeyPatch, size: int) -> list[int]:
    """Make the source answer pages of `size` items; return the list of the sizes of pages, which grows."""
    sizes: list[int] = []
    page = DynamoDBSource.page

    def counted(self: DynamoDBSource, *arguments: Any) -> Any:
        found = page(self, *arguments)
        sizes.append(len(found[0]))
        return found

    monkeypatch.setattr("foldb.cli.lib.dynamodb_source._PAGE", size)
    monkeypatch.setattr(DynamoDBSource, "page", counted)
    return sizes


def test_changes_during_the_scan_are_applied_until_caught_up(
    cli: Foldb, aws: str, source: Any, target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are written while the scan runs, to items before and after its place."""
    monkeypatch.setattr("foldb.cli.lib.dynamodb_source._POLL_S", 0.01)
    page = DynamoDBSource.page
    changes = iter(range(100))

    def with_changes(self: DynamoDBSource, *arguments: Any) -> Any:
        found = page(self, *arguments)
        n = next(changes)
        put(source, n, changed={"S": "during the scan"})
        put(source, 100 + n)
        source.delete_item(
            TableName="Orders", Key={"id": {"B": bytes([(30 + n) % 7, 255])}, "at": {"N": str(30 + n)}}
        )
        return found

    monkeypatch.setattr(DynamoDBSource, "page", with_changes)
    row = copied(cli, aws, "--until-caught-up", "--segments", "1")

    assert items(source) == items(target)
    assert row["changes"] > 60
    assert row["items"] == row["source_items"]


def test_different_counts_exit_with_different(
    cli: Foldb, aws: str, source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = DynamoDBSource.page

    def losing(self: DynamoDBSource, *arguments: Any) -> Any:
        found, after = counted(self, *arguments)
        return [*found, *found[:1]], after  # one item is counted twice

    monkeypatch.setattr(DynamoDBSource, "page", losing)
    result = cli("copy", "Orders", "--from-aws", "--endpoint-url", aws, "--segments", "1")

    assert 1 == result.exit_code
    assert "Orders has 60 items and the source 61" in result.stderr


def test_a_bad_copy_is_refused_in_one_sentence(
    cli: Foldb, aws: str, source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foldb.cli.lib.dynamodb_source._ATTEMPTS", 1)
    from_aws = ("--from-aws", "--endpoint-url", aws)
    check(cli("copy", "Orders"), 2, "name the source: --from-aws")
    check(cli("copy", "Nowhere", *from_aws), 3, "not found. Check the table's name")
    unreachable = cli("copy", "Orders", "--from-aws", "--endpoint-url", "http://127.0.0.1:1")
    check(unreachable, 8, "the source cannot be read: Could not connect")
    malformed = cli("copy", "Orders", "--from-aws", "--endpoint-url", "localhost")
    check(malformed, 8, "the source cannot be read: Invalid endpoint: localhost. Check --endpoint-url")
    source.create_table(
        TableName="Plain",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    check(cli("copy", "Plain", *from_aws, "--follow"), 2, "Plain has no stream with new images")


def test_binary_values_keep_their_bytes() -> None:
    item = {"a": {"B": b"\x00\xff"}, "l": {"L": [{"M": {"s": {"BS": [b"1"]}}}, {"N": "1.50"}]}}

    assert item == to_boto(from_boto(item))
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", from_boto(item)["a"]["B"])
