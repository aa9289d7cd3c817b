"""A table's changes sent to a Kinesis data stream, through boto3; without Kafka a stream is a folder."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.support.served import served
from tests.support.subscribed import operate, until
from tests.support.tables import table_request
from tests.unit.server.streams.clocked import Clock, clocked

ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/cars"
OTHER = "arn:aws:kinesis:us-east-1:000000000000:stream/others"
NOT_IN_A_STATE = "Table is not in a valid state to enable Kinesis Streaming Destination: "
FINER = {"ApproximateCreationDateTimePrecision": "MICROSECOND"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kinesis")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Any]:
    config = Config(retries={"total_max_attempts": 1}, parameter_validation=False)
    with served(folder / "db") as endpoint:
        client = boto3.client("dynamodb", endpoint_url=endpoint, region_name="us-east-1", config=config)
        yield client
        client.close()


@pytest.fixture
def table(client: Any, request: pytest.FixtureRequest) -> str:
    name = "".join(each for each in request.node.name if each.isalnum())[:200]
    client.create_table(**table_request(name, "pk:S"))
    return name


def described(client: Any, table: str) -> dict[str, tuple[str, str | None]]:
    """Status and precision of each destination, by its stream."""
    answer = client.describe_kinesis_streaming_destination(TableName=table)
    assert table == answer["TableName"]
    return {
        each["StreamArn"]: (
            each["DestinationStatus"],
            each.get("ApproximateCreationDateTimePrecision"),
        )
        for each in answer["KinesisDataStreamDestinations"]
    }


def sent(folder: Path, stream: str, count: int) -> list[dict[str, Any]]:
    """Return this many records of a stream, once it has them."""
    records: list[dict[str, Any]] = []
    while len(records) < count:
        files = sorted((folder / "db" / "kinesis" / stream).rglob("*.jsonl"))
        records = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return records


def message(caught: pytest.ExceptionInfo[ClientError]) -> str:
    assert "ValidationException" == caught.value.response["Error"]["Code"]
    return str(caught.value.response["Error"]["Message"])


@pytest.mark.spec("S90")
def test_changes_are_sent_to_the_kinesis_stream(client: Any, table: str, folder: Path) -> None:
    client.put_item(TableName=table, Item={"pk": {"S": "before"}})
    answer = client.enable_kinesis_streaming_destination(
        TableName=table, StreamArn=ARN, EnableKinesisStreamingConfiguration=FINER
    )
    assert (table, ARN, "ENABLING", FINER) == tuple(
        answer[name]
        for name in ("TableName", "StreamArn", "DestinationStatus", "EnableKinesisStreamingConfiguration")
    )
    assert {ARN: ("ACTIVE", "MICROSECOND")} == described(client, table)
    client.put_item(TableName=table, Item={"pk": {"S": "a"}})
    client.delete_item(TableName=table, Key={"pk": {"S": "a"}})

    records = [record for record in sent(folder, "cars", 2) if record["tableName"] == table]

    assert [("INSERT", "a"), ("REMOVE", "a")] == [
        (record["eventName"], record["dynamodb"]["Keys"]["pk"]["S"]) for record in records
    ]
    assert records[0]["dynamodb"]["ApproximateCreationDateTime"] > 1e15
    assert "LatestStreamArn" not in client.describe_table(TableName=table)["Table"]
    assert [] == [name for name in client.list_tables()["TableNames"] if name.startswith("kinesis")]


def test_a_destination_is_enabled_disabled_and_enabled_again(client: Any, table: str) -> None:
    """It stays DISABLED in descriptions, and is the same destination when it is enabled again."""
    client.enable_kinesis_streaming_destination(TableName=table, StreamArn=ARN)
    assert {ARN: ("ACTIVE", None)} == described(client, table)
    answer = client.disable_kinesis_streaming_destination(TableName=table, StreamArn=ARN)
    assert "DISABLING" == answer["DestinationStatus"]
    assert {ARN: ("DISABLED", None)} == described(client, table)
    client.enable_kinesis_streaming_destination(TableName=table, StreamArn=OTHER)
    assert {ARN: ("DISABLED", None), OTHER: ("ACTIVE", None)} == described(client, table)
    client.disable_kinesis_streaming_destination(TableName=table, StreamArn=OTHER)
    client.enable_kinesis_streaming_destination(TableName=table, StreamArn=ARN)

    assert {ARN: ("ACTIVE", None), OTHER: ("DISABLED", None)} == described(client, table)


def test_changes_before_the_disable_are_sent(client: Any, table: str, folder: Path) -> None:
    client.enable_kinesis_streaming_destination(TableName=table, StreamArn=ARN)
    for start in range(0, 1000, 25):
        puts = [{"PutRequest": {"Item": {"pk": {"S": f"{n}"}}}} for n in range(start, start + 25)]
        client.batch_write_item(RequestItems={table: puts})
    client.disable_kinesis_streaming_destination(TableName=table, StreamArn=ARN)

    assert 1000 == sum(each["tableName"] == table for each in sent(folder, "cars", 1))


def test_a_table_that_comes_or_goes_takes_no_destination(tmp_path: Path, connect: Any) -> None:
    clock = Clock()
    with clocked(tmp_path, clock) as endpoint:
        connect(endpoint).meta.client.create_table(**table_request("Goes", "pk:S"))
    with clocked(tmp_path, clock, table_delay_ms=60_000) as endpoint:
        client = connect(endpoint).meta.client
        client.create_table(**table_request("Comes", "pk:S"))
        client.delete_table(TableName="Goes")
        for name, doing in (("Comes", "created"), ("Goes", "deleted")):
            with pytest.raises(ClientError, match=f"Table is being {doing}: {name}") as caught:
                client.enable_kinesis_streaming_destination(TableName=name, StreamArn=ARN)
            assert "ResourceInUseException" == caught.value.response["Error"]["Code"]


def test_the_precision_can_be_changed(client: Any, table: str) -> None:
    client.enable_kinesis_streaming_destination(TableName=table, StreamArn=ARN)
    answer = client.update_kinesis_streaming_destination(
        TableName=table, StreamArn=ARN, UpdateKinesisStreamingConfiguration=FINER
    )

    assert ("UPDATING", FINER) == (
        answer["DestinationStatus"],
        answer["UpdateKinesisStreamingConfiguration"],
    )
    assert {ARN: ("ACTIVE", "MICROSECOND")} == described(client, table)


def test_a_table_has_one_destination_at_a_time(client: Any, table: str) -> None:
    client.enable_kinesis_streaming_destination(TableName=table, StreamArn=ARN)
    for stream in (ARN, OTHER):
        with pytest.raises(ClientError) as caught:
            client.enable_kinesis_streaming_destination(TableName=table, StreamArn=stream)
        assert message(caught) == (
            f"{NOT_IN_A_STATE}EnableKinesisStreamingDestination must be DISABLED or ENABLE_FAILED "
            "to perform ENABLE operation."
        )


def test_an_inactive_destination_cannot_be_disabled_or_updated(client: Any, table: str) -> None:
    for stream in (ARN, "not-an-arn"):
        with pytest.raises(ClientError) as caught:
            client.disable_kinesis_streaming_destination(TableName=table, StreamArn=stream)
        assert message(caught) == (
            f"{NOT_IN_A_STATE}KinesisStreamingDestination must be ACTIVE to perform DISABLE operation."
        )
    with pytest.raises(ClientError) as caught:
        client.update_kinesis_streaming_destination(
            TableName=table, StreamArn=ARN, UpdateKinesisStreamingConfiguration=FINER
        )
    assert message(caught).startswith(f"{NOT_IN_A_STATE}No streaming destination with streamArn: {ARN}")

    client.enable_kinesis_streaming_destination(TableName=table, StreamArn=ARN)
    client.disable_kinesis_streaming_destination(TableName=table, StreamArn=ARN)
    with pytest.raises(ClientError) as caught:
        client.update_kinesis_streaming_destination(
            TableName=table, StreamArn=ARN, UpdateKinesisStreamingConfiguration=FINER
        )
    assert message(caught).startswith(f"{NOT_IN_A_STATE}Kinesis streaming is not in ACTIVE state.")


def test_settings_that_say_nothing_new_are_refused(client: Any, table: str) -> None:
    client.enable_kinesis_streaming_destination(TableName=table, StreamArn=ARN)
    nothings: list[dict[str, Any]] = [{}, {"UpdateKinesisStreamingConfiguration": {}}]
    for nothing in nothings:
        with pytest.raises(ClientError) as caught:
            client.update_kinesis_streaming_destination(TableName=table, StreamArn=ARN, **nothing)
        assert message(caught).startswith("Streaming destination cannot be updated with given parameters")
    same = {"ApproximateCreationDateTimePrecision": "MILLISECOND"}  # which is the default
    with pytest.raises(ClientError) as caught:
        client.update_kinesis_streaming_destination(
            TableName=table, StreamArn=ARN, UpdateKinesisStreamingConfiguration=same
        )
    assert message(caught).startswith("Invalid Request: Precision is already set to the desired value")
    with pytest.raises(ClientError) as caught:
        client.disable_kinesis_streaming_destination(
            TableName=table, StreamArn=ARN, EnableKinesisStreamingConfiguration=same
        )
    assert message(caught) == (
        "Stream cannot be disabled using EnableKinesisStreamingConfiguration parameters"
    )


def test_destinations_go_with_their_table(client: Any, table: str, folder: Path) -> None:
    """One that is disabled at once, one that is not when all is sent."""
    for stream in (OTHER, ARN):
        client.enable_kinesis_streaming_destination(TableName=table, StreamArn=stream)
        if stream == OTHER:
            client.disable_kinesis_streaming_destination(TableName=table, StreamArn=stream)
    url = client.meta.endpoint_url
    assert 2 == len(of_table(url, table))
    client.put_item(TableName=table, Item={"pk": {"S": "last"}})
    client.delete_table(TableName=table)

    until(lambda: not of_table(url, table))
    assert "last" in [
        each["dynamodb"]["Keys"]["pk"]["S"] for each in sent(folder, "cars", 1) if each["tableName"] == table
    ]


def of_table(url: str, table: str) -> list[Any]:
    """The subscriptions that the destinations of a table are."""
    subscriptions = operate(url, "ListSubscriptions")["Subscriptions"]
    return [each for each in subscriptions if each["TableNames"] == [table]]


@pytest.mark.parametrize("arn", ["x", "arn:aws:kinesis:us-east-1:000000000000:stream/", f"{ARN}/more"])
def test_an_arn_that_is_no_streams_is_refused(client: Any, table: str, arn: str) -> None:
    with pytest.raises(ClientError) as caught:
        client.enable_kinesis_streaming_destination(TableName=table, StreamArn=arn)
    assert message(caught) == "Invalid StreamArn"


def test_a_table_that_is_not_there_has_none(client: Any) -> None:
    named = {"TableName": "nowhere"}
    for ask, request in (
        (client.describe_kinesis_streaming_destination, named),
        (client.enable_kinesis_streaming_destination, named | {"StreamArn": ARN}),
        (client.disable_kinesis_streaming_destination, named | {"StreamArn": ARN}),
    ):
        with pytest.raises(ClientError, match="Table: nowhere not found") as caught:
            ask(**request)
        assert "ResourceNotFoundException" == caught.value.response["Error"]["Code"]
