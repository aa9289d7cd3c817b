"""Requests beyond the throughput of a table, as boto3 sees them."""

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import pytest
from boto3.dynamodb.types import TypeSerializer
from botocore.exceptions import ClientError

import foldb
from foldb.embedded import Server
from tests.support.tables import table_request

_ARN = "arn:aws:dynamodb:us-east-1:000000000000:table/Cars"


@pytest.fixture(scope="module", params=[1, 3], ids=["one partition", "three"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with foldb.serve(throttle=True, partitions=request.param) as server:
        yield server


@pytest.fixture
def client(server: Server, connect: Callable[[str], Any]) -> Iterator[Any]:
    client = connect(server.endpoint_url).meta.client
    yield client
    for name in client.list_tables()["TableNames"]:
        client.delete_table(TableName=name)


def provisioned(read: int, write: int) -> dict[str, Any]:
    units = {"ReadCapacityUnits": read, "WriteCapacityUnits": write}
    return {"BillingMode": "PROVISIONED", "ProvisionedThroughput": units}


def cars(client: Any, read: int, write: int, **members: Any) -> None:
    """Create the table whose requests are throttled."""
    client.create_table(**table_request("Cars", "pk:S") | provisioned(read, write) | members)


def in_debt(client: Any, **attributes: str) -> None:
    """Write an item of 300 KB, and read it: requests at one unit a second are refused for minutes."""
    client.put_item(TableName="Cars", Item={"pk": "large", "text": "x" * 300 * 1024} | attributes)
    client.get_item(TableName="Cars", Key={"pk": "large"}, ConsistentRead=True)


def refusal(call: Callable[[], Any]) -> ClientError:
    with pytest.raises(ClientError) as refused:
        call()
    return refused.value


def reason(error: ClientError) -> tuple[str, str, str]:
    response: dict[str, Any] = error.response
    reasons = response.get("ThrottlingReasons") or response.get("throttlingReasons")
    assert isinstance(reasons, list), error
    return response["Error"]["Code"], reasons[0]["reason"], reasons[0]["resource"]


@pytest.mark.spec("S58", "S59")
def test_writes_beyond_the_provisioned_rate_are_refused(client: Any) -> None:
    cars(client, 1, 1)
    in_debt(client)
    error = refusal(lambda: client.put_item(TableName="Cars", Item={"pk": "a"}))
    expected = "ProvisionedThroughputExceededException", "TableWriteProvisionedThroughputExceeded", _ARN
    assert expected == reason(error)
    assert "UpdateTable API" in error.response["Error"]["Message"]


@pytest.mark.spec("S58")
def test_reads_beyond_the_provisioned_rate_are_refused(client: Any) -> None:
    cars(client, 1, 1)
    in_debt(client)
    for read in (
        lambda: client.get_item(TableName="Cars", Key={"pk": "a"}),
        lambda: client.query(
            TableName="Cars", KeyConditionExpression="pk = :a", ExpressionAttributeValues={":a": "a"}
        ),
        lambda: client.scan(TableName="Cars"),
        lambda: client.transact_get_items(TransactItems=[{"Get": {"TableName": "Cars", "Key": {"pk": "a"}}}]),
    ):
        code, cause, _ = reason(refusal(read))
        assert ("ProvisionedThroughputExceededException", "TableReadProvisionedThroughputExceeded") == (
            code,
            cause,
        )


@pytest.mark.spec("S24")
def test_an_index_without_capacity_refuses_writes_of_its_table(client: Any) -> None:
    request = table_request("Cars", "pk:S", gsi={"ByColour": "colour:S"}) | provisioned(100, 1000)
    request["GlobalSecondaryIndexes"][0]["ProvisionedThroughput"] = provisioned(1, 1)["ProvisionedThroughput"]
    client.create_table(**request)
    in_debt(client, colour="red")
    error = refusal(lambda: client.put_item(TableName="Cars", Item={"pk": "a", "colour": "blue"}))
    code, cause, resource = reason(error)
    assert "ProvisionedThroughputExceededException" == code
    assert ("IndexWriteProvisionedThroughputExceeded", f"{_ARN}/index/ByColour") == (cause, resource)
    assert "global secondary indexes of the table was exceeded" in error.response["Error"]["Message"]
    client.put_item(TableName="Cars", Item={"pk": "without the index"})


@pytest.mark.spec("S84")
@pytest.mark.parametrize("consistent", [False, True])
def test_throttled_parts_of_a_batch_are_unprocessed(client: Any, consistent: bool) -> None:
    """The parts of a batch with both consistencies are read apart."""
    cars(client, 1, 1)
    client.create_table(**table_request("Free", "pk:S"))
    in_debt(client)
    puts = [{"PutRequest": {"Item": {"pk": str(n)}}} for n in range(10)]
    free = [{"PutRequest": {"Item": {"pk": "a"}}}]
    answer = client.batch_write_item(RequestItems={"Cars": puts, "Free": free})
    assert {"Cars": puts} == answer["UnprocessedItems"]
    keys = {
        "Cars": {"Keys": [{"pk": str(n)} for n in range(10)], "ConsistentRead": consistent},
        "Free": {"Keys": [{"pk": "a"}]},
    }
    read = client.batch_get_item(RequestItems=keys)
    assert {"Cars": keys["Cars"]} == read["UnprocessedKeys"]
    assert {"Cars": [], "Free": [{"pk": "a"}]} == {"Cars": []} | read["Responses"]


@pytest.mark.spec("S84")
def test_a_batch_is_processed_up_to_the_capacity(client: Any) -> None:
    cars(client, 1, 1)
    puts = [{"PutRequest": {"Item": {"pk": str(n), "text": "x" * 10_000}}} for n in range(25)]
    left = client.batch_write_item(RequestItems={"Cars": puts})["UnprocessedItems"]["Cars"]
    assert 0 < len(left) < 25
    keys = [{"pk": put["PutRequest"]["Item"]["pk"]} for put in puts if put not in left]
    assert client.get_item(TableName="Cars", Key=keys[0])["Item"]["pk"] == keys[0]["pk"]


@pytest.mark.spec("S84")
def test_a_batch_of_which_all_is_throttled_is_an_error(client: Any) -> None:
    cars(client, 1, 1)
    in_debt(client)
    put = {"PutRequest": {"Item": {"pk": "a"}}}
    error = refusal(lambda: client.batch_write_item(RequestItems={"Cars": [put]}))
    assert "TableWriteProvisionedThroughputExceeded" == reason(error)[1]


def test_a_throttled_action_cancels_its_transaction(client: Any) -> None:
    cars(client, 1, 1)
    client.create_table(**table_request("Free", "pk:S"))
    in_debt(client)
    actions = [{"Put": {"TableName": name, "Item": {"pk": "b"}}} for name in ("Free", "Cars")]
    error = refusal(lambda: client.transact_write_items(TransactItems=actions))
    codes = [each["Code"] for each in error.response["CancellationReasons"]]
    assert ["None", "ProvisionedThroughputExceeded"] == codes


@pytest.mark.spec("S61")
def test_a_maximum_on_demand_throttles(client: Any) -> None:
    maximum = {"OnDemandThroughput": {"MaxReadRequestUnits": 1, "MaxWriteRequestUnits": 1}}
    client.create_table(**table_request("Cars", "pk:S") | maximum)
    in_debt(client)
    error = refusal(lambda: client.put_item(TableName="Cars", Item={"pk": "a"}))
    assert ("ThrottlingException", "TableWriteMaxOnDemandThroughputExceeded", _ARN) == reason(error)


@pytest.mark.spec("S59")
def test_a_throttled_write_is_not_in_the_log(client: Any) -> None:
    cars(client, 1, 1)
    in_debt(client)
    before = client.describe_table(TableName="Cars")["ResponseMetadata"]["HTTPHeaders"]["x-foldb-position"]
    refusal(lambda: client.put_item(TableName="Cars", Item={"pk": "a"}))
    after = client.describe_table(TableName="Cars")["ResponseMetadata"]["HTTPHeaders"]["x-foldb-position"]
    assert before == after


@pytest.mark.spec("S67")
@pytest.mark.parametrize("count", [250, pytest.param(3000, marks=pytest.mark.soak)])
def test_boto3_loads_a_table_within_its_throughput(server: Server, client: Any, count: int) -> None:
    """With boto3's default retries no call of the program fails, and the table takes 100 items a second."""
    cars(client, 1000, 100)
    client.put_item(TableName="Cars", Item={"pk": "large", "text": "x" * 100 * 1024})  # empties the bucket
    loader = boto3.client("dynamodb", **server.boto3)
    serialize = TypeSerializer().serialize
    start = time.monotonic()
    with ThreadPoolExecutor(4) as threads:
        list(
            threads.map(
                lambda n: loader.put_item(TableName="Cars", Item={"pk": serialize(str(n))}), range(count)
            )
        )
    seconds = time.monotonic() - start
    loader.close()
    assert seconds > count / 100 - 0.1
    found = client.scan(TableName="Cars", Select="COUNT")
    assert count + 1 == found["Count"]


@pytest.mark.spec("S64")
def test_a_hot_key_is_throttled_and_many_keys_are_not(client: Any) -> None:
    """Of 10,000 units a second one key has 1,000: a hundred items of 10 KB."""
    client.create_table(**table_request("Cars", "pk:S", "sk:N") | provisioned(10, 10_000))
    numbers = itertools.count()

    def put_25(pk: str) -> bool:
        """Put items of 10 units, and return whether some were throttled."""
        items = [{"pk": pk.format(n), "sk": next(numbers), "text": "x" * (10 * 1024 - 30)} for n in range(25)]
        puts = [{"PutRequest": {"Item": item}} for item in items]
        return bool(client.batch_write_item(RequestItems={"Cars": puts})["UnprocessedItems"])

    for n in range(12):
        assert not put_25(f"{n} {{}}")  # 3,000 units
    start = time.monotonic()
    batches = 0
    while not put_25("hot"):
        batches += 1
        assert time.monotonic() - start < 60, "nothing was throttled"
    assert 250 * batches < 1000 * (time.monotonic() - start + 1) + 10

    def put_390_units() -> None:
        while time.monotonic() - start < 60:
            client.put_item(TableName="Cars", Item={"pk": "hot", "sk": 0, "text": "x" * 390 * 1024})

    assert "TableWriteKeyRangeThroughputExceeded" == reason(refusal(put_390_units))[1]


@pytest.mark.spec("S60")
def test_a_restart_does_not_forget_decreases(tmp_path: Path, connect: Callable[[str], Any]) -> None:
    def lower(client: Any, units: int) -> None:
        client.update_table(TableName="Cars", **provisioned(units, units))

    with foldb.serve(tmp_path / "data", throttle=True) as server:
        client = connect(server.endpoint_url).meta.client
        client.create_table(**table_request("Cars", "pk:S") | provisioned(10, 10))
        for units in (9, 8, 7, 6):
            lower(client, units)
    with foldb.serve(tmp_path / "data", throttle=True) as server:
        client = connect(server.endpoint_url).meta.client
        error = refusal(lambda: lower(client, 5))
        assert "LimitExceededException" == error.response["Error"]["Code"]
        assert "Number of decreases today: 4. Last decrease at" in error.response["Error"]["Message"]
        table = client.describe_table(TableName="Cars")["Table"]
        assert 4 == table["ProvisionedThroughput"]["NumberOfDecreasesToday"]
    with foldb.serve(tmp_path / "data") as server:
        lower(connect(server.endpoint_url).meta.client, 5)
