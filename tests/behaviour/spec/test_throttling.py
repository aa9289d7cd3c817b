"""Requests beyond the throughput of a table, as boto3 sees them."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
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


def refusal(call: Callable[[], Any], tries: int = 200) -> ClientError:
    """Repeat a call until it is refused."""
    for _ in range(tries):
        try:
            call()
        except ClientError as error:
            return error
    pytest.fail(f"{tries} calls were admitted")


def served(call: Callable[[], Any]) -> Any:
    """Repeat a throttled call until it is admitted, as an SDK does."""
    while True:
        try:
            return call()
        except ClientError as error:
            reason(error)


def reason(error: ClientError) -> tuple[str, str, str]:
    response: dict[str, Any] = error.response
    reasons = response.get("ThrottlingReasons") or response.get("throttlingReasons")
    assert isinstance(reasons, list), error
    return response["Error"]["Code"], reasons[0]["reason"], reasons[0]["resource"]


@pytest.mark.spec("S58", "S59")
def test_writes_beyond_the_provisioned_rate_are_refused(client: Any) -> None:
    client.create_table(**table_request("Cars", "pk:S") | provisioned(1, 1))
    error = refusal(lambda: client.put_item(TableName="Cars", Item={"pk": "a"}))
    expected = "ProvisionedThroughputExceededException", "TableWriteProvisionedThroughputExceeded", _ARN
    assert expected == reason(error)
    assert "UpdateTable API" in error.response["Error"]["Message"]


@pytest.mark.spec("S58")
def test_reads_beyond_the_provisioned_rate_are_refused(client: Any) -> None:
    client.create_table(**table_request("Cars", "pk:S") | provisioned(1, 1000))
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
    request["GlobalSecondaryIndexes"][0] |= provisioned(1, 1) | {}
    request["GlobalSecondaryIndexes"][0].pop("BillingMode")
    client.create_table(**request)
    error = refusal(lambda: served_or(client, {"pk": "a", "colour": str(time.monotonic_ns())}))
    code, cause, resource = reason(error)
    assert "ProvisionedThroughputExceededException" == code
    assert ("IndexWriteProvisionedThroughputExceeded", f"{_ARN}/index/ByColour") == (cause, resource)
    assert "global secondary indexes of the table was exceeded" in error.response["Error"]["Message"]
    served(lambda: client.put_item(TableName="Cars", Item={"pk": "without the index"}))


def served_or(client: Any, item: dict[str, Any]) -> None:
    """Put an item; repeat the put while the table itself, whose bucket is empty at first, refuses it."""
    while True:
        try:
            client.put_item(TableName="Cars", Item=item)
        except ClientError as error:
            if reason(error)[1].startswith("Index"):
                raise
        else:
            return


@pytest.mark.spec("S84")
def test_throttled_parts_of_a_batch_are_unprocessed(client: Any) -> None:
    client.create_table(**table_request("Cars", "pk:S") | provisioned(2, 2))
    client.create_table(**table_request("Free", "pk:S"))
    puts = [{"PutRequest": {"Item": {"pk": str(n)}}} for n in range(10)]
    free = [{"PutRequest": {"Item": {"pk": "a"}}}]
    answer = served(lambda: client.batch_write_item(RequestItems={"Cars": puts, "Free": free}))
    left = answer["UnprocessedItems"]["Cars"]
    assert 0 < len(left) <= 10
    assert all(put in puts for put in left)
    refusal(lambda: client.get_item(TableName="Cars", Key={"pk": "a"}))
    keys = {"Cars": {"Keys": [{"pk": str(n)} for n in range(10)]}, "Free": {"Keys": [{"pk": "a"}]}}
    read = served(lambda: client.batch_get_item(RequestItems=keys))
    assert 0 < len(read["UnprocessedKeys"]["Cars"]["Keys"]) <= 10
    assert [{"pk": "a"}] == read["Responses"]["Free"]


def test_a_throttled_action_cancels_its_transaction(client: Any) -> None:
    client.create_table(**table_request("Cars", "pk:S") | provisioned(1, 1))
    client.create_table(**table_request("Free", "pk:S"))
    refusal(lambda: client.put_item(TableName="Cars", Item={"pk": "a"}))
    actions = [{"Put": {"TableName": name, "Item": {"pk": "b"}}} for name in ("Free", "Cars")]
    error = refusal(lambda: client.transact_write_items(TransactItems=actions), tries=3)
    codes = [each["Code"] for each in error.response["CancellationReasons"]]
    assert ["None", "ProvisionedThroughputExceeded"] == codes


@pytest.mark.spec("S61")
def test_a_maximum_on_demand_throttles(client: Any) -> None:
    maximum = {"OnDemandThroughput": {"MaxReadRequestUnits": 1, "MaxWriteRequestUnits": 1}}
    client.create_table(**table_request("Cars", "pk:S") | maximum)
    error = refusal(lambda: client.put_item(TableName="Cars", Item={"pk": "a"}))
    assert ("ThrottlingException", "TableWriteMaxOnDemandThroughputExceeded", _ARN) == reason(error)


@pytest.mark.spec("S59")
def test_a_throttled_write_is_not_in_the_log(client: Any, server: Server) -> None:
    client.create_table(**table_request("Cars", "pk:S") | provisioned(1, 1))
    refusal(lambda: client.put_item(TableName="Cars", Item={"pk": "a"}))
    before = client.describe_table(TableName="Cars")["ResponseMetadata"]["HTTPHeaders"]["x-foldb-position"]
    refusal(lambda: client.put_item(TableName="Cars", Item={"pk": "a"}), tries=1)
    after = client.describe_table(TableName="Cars")["ResponseMetadata"]["HTTPHeaders"]["x-foldb-position"]
    assert before == after


@pytest.mark.spec("S67")
@pytest.mark.parametrize("count", [250, pytest.param(3000, marks=pytest.mark.soak)])
def test_boto3_loads_a_table_within_its_throughput(server: Server, client: Any, count: int) -> None:
    """With boto3's default retries no call of the program fails, and the table takes 100 items a second."""
    client.create_table(**table_request("Cars", "pk:S") | provisioned(100, 100))
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
    assert seconds > count / 100 - 1.1  # the first second of capacity is there at the start
    found = served(lambda: client.scan(TableName="Cars", Select="COUNT"))
    assert count == found["Count"]
