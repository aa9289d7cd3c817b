"""Two nodes as processes on a real broker, called through boto3."""

import itertools
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from foldb.cli.lib.client import Client
from foldb.model.cuts import time_text
from tests.behaviour.cluster.processes import PARTITIONS, Nodes
from tests.support.log_times import LogTimes, reported
from tests.support.raw import Answer, ask, begin_to_ask
from tests.support.served import foldb
from tests.support.subscribed import until
from tests.support.tables import table_request

KEYS = 40
LEAVES_S = 10.0
SIGNS = {"region_name": "us-east-1", "aws_access_key_id": "key", "aws_secret_access_key": "secret"}


@pytest.fixture(scope="module")
def nodes(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with Nodes(tmp_path_factory.mktemp("nodes"), kafka, 2) as nodes:
        request = table_request("Cars", "pk:S")
        request["AttributeDefinitions"].append({"AttributeName": "colour", "AttributeType": "S"})
        request["GlobalSecondaryIndexes"] = [
            {
                "IndexName": "by-colour",
                "KeySchema": [{"AttributeName": "colour", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "ALL"},
            }
        ]
        first = client(nodes.urls[0])
        first.create_table(**request)
        # Nodes that have only begun may take longer than CreateTable waits for them.
        first.get_waiter("table_exists").wait(TableName="Cars", WaiterConfig={"Delay": 1, "MaxAttempts": 60})
        yield nodes


def client(url: str) -> Any:
    """Return an SDK client with default settings, except for its timeouts."""
    return boto3.client("dynamodb", endpoint_url=url, config=Config(read_timeout=20), **SIGNS)


def triggers(url: str) -> list[str]:
    """Return the names of the triggers that a node knows."""
    subscriptions = ask(url, "Foldb_20261121.ListSubscriptions", {}).body["Subscriptions"]
    return [each["Name"] for each in subscriptions]


def item(key: str, colour: str = "red") -> dict[str, Any]:
    return {"pk": {"S": key}, "colour": {"S": colour}}


@pytest.mark.spec("S70")
def test_either_node_answers_for_every_key(nodes: Nodes) -> None:
    one, two = map(client, nodes.urls)
    for n in range(KEYS):
        (one, two)[n % 2].put_item(TableName="Cars", Item=item(f"{n}"))
    for n in range(KEYS):
        got = (two, one)[n % 2].get_item(TableName="Cars", Key={"pk": {"S": f"{n}"}}, ConsistentRead=True)
        assert item(f"{n}") == got["Item"]

    for each in (one, two):
        scanned = each.scan(TableName="Cars", ConsistentRead=True)["Items"]
        assert {f"{n}" for n in range(KEYS)} <= {found["pk"]["S"] for found in scanned}


def test_a_transaction_over_partitions_reads_whole_at_another_node(nodes: Nodes) -> None:
    one, two = map(client, nodes.urls)
    keys = [f"transaction {n}" for n in range(10)]
    one.transact_write_items(
        TransactItems=[{"Put": {"TableName": "Cars", "Item": item(key)}} for key in keys]
    )

    read = two.transact_get_items(
        TransactItems=[{"Get": {"TableName": "Cars", "Key": {"pk": {"S": key}}}} for key in keys]
    )
    assert [item(key) for key in keys] == [response["Item"] for response in read["Responses"]]


def test_the_past_is_read_at_either_node(nodes: Nodes) -> None:
    """At positions and times, of keys whose partitions either node owns, after the items were deleted."""
    one, two = map(client, nodes.urls)
    keys = [f"past {n}" for n in range(12)]
    puts = [one.put_item(TableName="Cars", Item=item(key)) for key in keys]
    scanned = two.scan(TableName="Cars", ConsistentRead=True)["ResponseMetadata"]["HTTPHeaders"]
    for key in keys:
        two.delete_item(TableName="Cars", Key={"pk": {"S": key}})

    for each in (one, two):
        for key, put in zip(keys, puts, strict=True):
            past = f"Cars@{put['ResponseMetadata']['HTTPHeaders']['x-foldb-position']}"
            assert item(key) == each.get_item(TableName=past, Key={"pk": {"S": key}})["Item"]
        found = each.scan(TableName=f"Cars@{scanned['x-foldb-position']}")["Items"]
        assert set(keys) <= {one["pk"]["S"] for one in found}
        found = each.scan(TableName=f"Cars@{time_text(int(scanned['x-foldb-log-time']))}")["Items"]
        assert set(keys) <= {one["pk"]["S"] for one in found}
        now = each.scan(TableName="Cars@-0")["Items"]
        assert set(keys).isdisjoint(one["pk"]["S"] for one in now)


@pytest.mark.soak
@pytest.mark.spec("H5")
def test_the_history_of_an_item_is_read_at_either_node(nodes: Nodes) -> None:
    """Of a transaction over the partitions of both nodes, and of a refused one."""
    one = client(nodes.urls[0])
    keys = [f"history {n}" for n in range(8)]
    writes = [{"Put": {"TableName": "Cars", "Item": item(key)}} for key in keys]
    one.transact_write_items(TransactItems=writes)
    for write in writes:
        write["Put"]["ConditionExpression"] = "attribute_not_exists(pk)"
    with pytest.raises(ClientError, match="TransactionCanceledException"):
        one.transact_write_items(TransactItems=writes)

    histories = []
    for url in nodes.urls:
        admin = Client(url)
        answers = [
            admin.admin("ItemHistory", {"TableName": "Cars", "Key": {"pk": {"S": key}}})["Versions"]
            for key in keys
        ]
        histories.append(answers)
        for key, versions in zip(keys, answers, strict=True):
            assert ["refused", "put"] == [version["Kind"] for version in versions]
            members = versions[1]["Transaction"]["Members"]
            assert set(keys) - {key} == {member["Key"]["pk"]["S"] for member in members}
            position = versions[1]["Position"]
            changed = admin.admin("TableDifferences", {"TableName": "Cars", "From": position, "To": position})
            assert [] == changed["Differences"]
        admin.close()
    assert histories[0] == histories[1]


def test_a_stream_is_read_at_either_node_in_turn(nodes: Nodes) -> None:
    """The position of a reader is in its iterator alone, so another node accepts the iterator of the first."""
    one, two = map(client, nodes.urls)
    stream = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
    one.create_table(**table_request("Told", "pk:S", "sk:N", StreamSpecification=stream))
    one.get_waiter("table_exists").wait(TableName="Told", WaiterConfig={"Delay": 1, "MaxAttempts": 60})
    for n in range(KEYS * 3):
        key = {"pk": {"S": f"{n % KEYS}"}, "sk": {"N": f"{n // KEYS}"}}
        (one, two)[n % 2].put_item(TableName="Told", Item=key)
    readers = [boto3.client("dynamodbstreams", endpoint_url=url, **SIGNS) for url in nodes.urls]
    arn = one.describe_table(TableName="Told")["Table"]["LatestStreamArn"]

    first, second = (each.describe_stream(StreamArn=arn)["StreamDescription"] for each in readers)
    assert first == second
    reported: dict[str, list[int]] = {}
    for shard in first["Shards"]:
        at = readers[0].get_shard_iterator(
            StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        empty = 0
        for reader in itertools.cycle(readers):
            page = reader.get_records(ShardIterator=at, Limit=5)
            at = page["NextShardIterator"]
            for record in page["Records"]:
                keys = record["dynamodb"]["Keys"]
                reported.setdefault(keys["pk"]["S"], []).append(int(keys["sk"]["N"]))
            empty = 0 if page["Records"] else empty + 1
            if empty == len(readers):  # one of them owns the partition: it has all
                break

    assert {f"{n}": [0, 1, 2] for n in range(KEYS)} == reported


@pytest.mark.guarantee("G32")
@pytest.mark.spec("S23")
def test_a_wait_for_a_write_finds_it_in_another_nodes_index(nodes: Nodes) -> None:
    one, two = nodes.urls
    written = ask(one, "PutItem", {"TableName": "Cars", "Item": item("blue one", "blue")})
    query = {
        "TableName": "Cars",
        "IndexName": "by-colour",
        "KeyConditionExpression": "colour = :c",
        "ExpressionAttributeValues": {":c": {"S": "blue"}},
    }

    read = ask(two, "Query", query, x_foldb_position=written.headers["x-foldb-position"])

    assert [item("blue one", "blue")] == read.body["Items"]


def test_an_answer_of_the_other_node_names_log_time_there(nodes: Nodes) -> None:
    """A standby of a partition has folded another part of its log than the owner has."""
    answers = []
    for n in range(KEYS):
        key = {"pk": {"S": f"timed {n}"}}
        bodies = {
            "PutItem": {"TableName": "Cars", "Item": key},
            "GetItem": {"TableName": "Cars", "Key": key, "ConsistentRead": True},
            "TransactWriteItems": {
                "TransactItems": [
                    {"Put": {"TableName": "Cars", "Item": item(f"timed {n} {nth}")}} for nth in range(3)
                ]
            },
        }
        for url in nodes.urls:
            answers += [ask(url, operation, body) for operation, body in bodies.items()]

    times = LogTimes(str(nodes.address))
    assert [times.of(answer) for answer in answers] == [reported(answer) for answer in answers]


@pytest.mark.spec("S71")
def test_metrics_and_alarms_are_those_of_all_nodes(nodes: Nodes) -> None:
    for url in nodes.urls:
        client(url).put_item(TableName="Cars", Item=item("counted"))
    target = {"Sink": {"Kind": "webhook", "Url": "https://example.org/alarms"}}
    alarm = {"AlarmName": "busy", "MetricName": "UserErrors", "Threshold": 1, "Subscription": target}
    assert 200 == ask(nodes.urls[1], "Foldb_20261121.PutAlarm", alarm).status

    request = {"TableName": "Cars", "MetricName": "ConsumedWriteCapacityUnits"}
    answers = [ask(url, "Foldb_20261121.Metrics", request).body["Metrics"] for url in nodes.urls]
    alarms = [ask(url, "Foldb_20261121.DescribeAlarms", {}).body["Alarms"] for url in nodes.urls]
    assert 200 == ask(nodes.urls[0], "Foldb_20261121.DeleteAlarm", {"AlarmName": "busy"}).status

    samples = [sum(point["SampleCount"] for point in table["Datapoints"]) for table, *_ in answers]
    assert samples[0] == samples[1] >= 2
    assert ["busy"] == [each["AlarmName"] for each in alarms[0]]
    assert alarms[0] == alarms[1]


def test_an_alarm_is_whole_at_a_node_that_is_behind(nodes: Nodes) -> None:
    """Its target is described, and its trigger is removed with it, although the catalog has neither yet."""
    target = {"Sink": {"Kind": "webhook", "Url": "https://example.org/alarms"}}
    alarm = {"AlarmName": "often", "MetricName": "UserErrors", "Threshold": 1, "Subscription": target}
    for n in range(10):
        put_at, other = nodes.urls if n % 2 else reversed(nodes.urls)
        put = ask(put_at, "Foldb_20261121.PutAlarm", alarm)
        described = ask(other, "Foldb_20261121.DescribeAlarms", {"AlarmName": "often"})
        assert [put.body] == described.body["Alarms"]

        assert 200 == ask(put_at, "Foldb_20261121.DeleteAlarm", {"AlarmName": "often"}).status
        assert 200 == ask(other, "Foldb_20261121.PutAlarm", alarm).status
        assert 200 == ask(put_at, "Foldb_20261121.DeleteAlarm", {"AlarmName": "often"}).status
        until(lambda: not any(triggers(url) for url in nodes.urls))


def test_a_condition_and_its_error_cross_between_nodes(nodes: Nodes) -> None:
    for n, url in enumerate(nodes.urls * 2):
        each = client(url)
        put = {
            "TableName": "Cars",
            "Item": item(f"once {n}"),
            "ConditionExpression": "attribute_not_exists(pk)",
        }
        each.put_item(**put)
        with pytest.raises(each.exceptions.ConditionalCheckFailedException) as refused:
            each.put_item(**put, ReturnValuesOnConditionCheckFailure="ALL_OLD")
        assert item(f"once {n}") == refused.value.response["Item"]


def test_each_node_lists_the_owner_of_every_partition(nodes: Nodes) -> None:
    nodes.settle()
    for url in nodes.urls:
        status = foldb("--db", url, "cluster", "status")
        assert 0 == status.returncode, status.stderr
        assert "one replica" in status.stderr
        reported = ask(url, "Foldb_20261121.Cluster", {}).body
        addresses = {node["Address"] for node in reported["Nodes"]}
        assert 2 == len(addresses)
        assert list(range(PARTITIONS + 1)) == [one["Partition"] for one in reported["Partitions"]]
        for partition in reported["Partitions"]:
            assert addresses == {partition["Owner"], partition["Standby"]}
        assert list(range(PARTITIONS + 1)) == sorted(n for node in reported["Nodes"] for n in node["Leads"])
        assert all(node["Answers"] for node in reported["Nodes"])

    listed = foldb("--db", nodes.urls[0], "cluster", "nodes")
    assert 0 == listed.returncode, listed.stderr


def test_a_node_that_is_alone_has_no_cluster_to_tell_of(endpoint: str) -> None:
    answer = ask(endpoint, "Foldb_20261121.Cluster", {})

    assert (400, "com.amazon.coral.validate#ValidationException") == (answer.status, answer.body["__type"])


@pytest.mark.guarantee("G34")
def test_a_node_leaves_and_comes_back_and_no_sdk_notices(nodes: Nodes) -> None:
    """Clients of the other node see no error. Clients of the leaving node see a refused connection at its end."""
    stays, leaves = nodes.urls
    errors: list[Exception] = []
    done = [0]
    stopped = threading.Event()

    def write(n: int) -> None:
        each = client(stays)
        while not stopped.is_set():
            try:
                each.put_item(TableName="Cars", Item=item(f"meanwhile {n}"))
                each.get_item(TableName="Cars", Key={"pk": {"S": f"meanwhile {n + 1}"}}, ConsistentRead=True)
                done[0] += 1
            except Exception as error:
                errors.append(error)

    crowd = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in crowd:
        thread.start()
    try:
        wait_for(lambda: done[0] > 50)
        seconds = nodes.terminate(nodes.urls.index(leaves))
        more = done[0] + 50
        wait_for(lambda: done[0] > more)
        nodes.start(1)
        more = done[0] + 50
        wait_for(lambda: done[0] > more)
    finally:
        stopped.set()
        for thread in crowd:
            thread.join(30)

    assert [] == errors
    assert seconds < LEAVES_S, "it hands over what it has, and waits for nobody else"


def wait_for(holds: Callable[[], bool]) -> None:
    condition = threading.Condition()
    with condition:
        for _ in range(3000):
            if holds():
                return
            condition.wait(0.01)
    raise AssertionError("it took too long")


@pytest.mark.guarantee("G33")
def test_a_node_that_was_paused_does_no_harm(nodes: Nodes) -> None:
    """Other nodes take over. After the pause it answers its requests, and reads their writes."""
    one, two = nodes.urls
    sleeper, awake = client(two), client(one)
    sleeper.put_item(TableName="Cars", Item=item("sleeper", "red"))
    process = nodes._processes[1]
    process.signal(signal.SIGSTOP)
    try:
        for n in range(KEYS):
            awake.put_item(TableName="Cars", Item=item(f"{n}", "green"))
        awake.put_item(TableName="Cars", Item=item("sleeper", "green"))
    finally:
        process.signal(signal.SIGCONT)

    got = sleeper.get_item(TableName="Cars", Key={"pk": {"S": "sleeper"}}, ConsistentRead=True)
    assert item("sleeper", "green") == got["Item"]
    for n in range(KEYS):
        assert (
            item(f"{n}", "green")
            == sleeper.get_item(TableName="Cars", Key={"pk": {"S": f"{n}"}}, ConsistentRead=True)["Item"]
        )


MOST_ROUNDS = 200


@pytest.mark.guarantee("G32")
@pytest.mark.spec("S70")
def test_a_standby_that_is_behind_answers_stale_reads(nodes: Nodes) -> None:
    """The standby is paused while the owner writes. Then it receives both the write and a read.

    Their order is a race, so there are several rounds. A stale answer carries its position.
    A consistent read, or a read with the position of the write, is never stale.
    """
    nodes.settle()
    one, two = nodes.urls
    key = owned_by_first(nodes)
    get = {"TableName": "Cars", "Key": {"pk": {"S": key}}}
    stale = 0
    for n in range(MOST_ROUNDS):
        ask(two, "GetItem", get)  # a standby that is read from keeps itself up to date
        nodes.pause(1)
        try:
            written = ask(one, "PutItem", {"TableName": "Cars", "Item": item(key, f"{n}")})
            position = written.headers["x-foldb-position"]
            reads = [
                begin_to_ask(two, "GetItem", get),
                begin_to_ask(two, "GetItem", get | {"ConsistentRead": True}),
                begin_to_ask(two, "GetItem", get, x_foldb_position=position),
            ]
        finally:
            nodes.resume(1)
        eventual, *latest = (finish() for finish in reads)

        assert [item(key, f"{n}")] * 2 == [answer.body["Item"] for answer in latest]
        is_stale = eventual.body["Item"] != item(key, f"{n}")
        assert is_stale == (offset_of(eventual) < offset_of(written))
        stale += is_stale
        if stale and n >= 5:
            break

    assert stale, f"no read of {MOST_ROUNDS} was stale"


def owned_by_first(nodes: Nodes) -> str:
    """Return a key whose partition the first node owns."""
    reported = ask(nodes.urls[0], "Foldb_20261121.Cluster", {}).body
    owned = {one["Partition"] for one in reported["Partitions"] if one["Owner"] == reported["Address"]}
    for n in range(KEYS):
        written = ask(nodes.urls[0], "PutItem", {"TableName": "Cars", "Item": item(f"owned {n}", "new")})
        if int(written.headers["x-foldb-position"].partition(":")[0]) in owned:
            return f"owned {n}"
    raise AssertionError(f"the first node owns none of the partitions: {reported}")


def offset_of(answer: Answer) -> int:
    """Return the offset that an answer names, in its one partition."""
    return int(answer.headers["x-foldb-position"].partition(":")[2].partition(".")[0])


def test_a_log_of_one_partition_may_be_shared_too(kafka: str, tmp_path: Path) -> None:
    """The catalog and the data are in one partition then, and every node folds it."""
    with Nodes(tmp_path, kafka, 2, "--partitions", "1") as nodes:
        one, two = map(client, nodes.urls)
        one.create_table(**table_request("Cars", "pk:S"))
        for n in range(10):
            (two, one)[n % 2].put_item(TableName="Cars", Item=item(f"{n}"))

        assert 10 == one.scan(TableName="Cars", ConsistentRead=True)["Count"]
        nodes.kill(0)
        assert 10 == two.scan(TableName="Cars", ConsistentRead=True)["Count"]
        two.put_item(TableName="Cars", Item=item("after"))
