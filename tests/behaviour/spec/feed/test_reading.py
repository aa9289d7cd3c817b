"""Reading a stream: order, successive shards, starts of readers, and retention."""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from boto3.dynamodb.types import TypeDeserializer

from tests.behaviour.spec.feed.database import Database, iterator, read_shard, read_stream, shards_of
from tests.support.claims import refused
from tests.support.subscribed import until


def number(record: dict[str, Any]) -> int:
    return int(record["dynamodb"]["SequenceNumber"])


def keys_of(records: list[dict[str, Any]]) -> list[str]:
    return [record["dynamodb"]["Keys"]["pk"]["S"] for record in records]


@pytest.mark.spec("F2")
def test_changes_of_a_key_are_read_in_order(database: Database, table: Any) -> None:
    """Eight writers add to three counters; each old image equals the previous new image."""

    def add(n: int) -> None:
        table.update_item(
            Key={"pk": f"counter {n % 3}"},
            UpdateExpression="ADD n :one",
            ExpressionAttributeValues={":one": 1},
        )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(90)))
    records = database.records(table, 90)
    read = TypeDeserializer()
    for n in range(3):
        mine = [record for record in records if keys_of([record]) == [f"counter {n}"]]
        news = [read.deserialize(record["dynamodb"]["NewImage"]["n"]) for record in mine]
        assert list(range(1, 31)) == news
        assert [record["dynamodb"]["NewImage"] for record in mine[:-1]] == [
            record["dynamodb"]["OldImage"] for record in mine[1:]
        ]
        assert sorted(map(number, mine)) == [number(record) for record in mine]


@pytest.mark.spec("F2")
def test_a_table_is_read_in_the_order_of_log_time(divided: Database) -> None:
    """The feed merges several partitions; a shard covers one."""
    table = divided.table()
    for n in range(60):
        table.put_item(Item={"pk": f"item {n}"})
    changes = divided.changes(table, 60)

    assert {f"item {n}" for n in range(60)} == {change["keys"]["pk"]["S"] for change in changes}
    assert len({change["position"].partition(":")[0] for change in changes}) == 3
    assert sorted(change["time"] for change in changes) == [change["time"] for change in changes]


@pytest.mark.spec("F3")
def test_a_change_is_in_the_feed_once_with_one_event_id(database: Database, table: Any) -> None:
    """The event id is also the same at the third call, so receivers can detect duplicates."""
    function = database.function(
        "calls = 0\n"
        "def handle(event, context):\n"
        "    global calls\n"
        "    calls += 1\n"
        "    [record] = event['Records']\n"
        "    note(record['eventID'], record['dynamodb']['SequenceNumber'])\n"
        "    if calls < 3: raise RuntimeError('once more')\n",
        Kind="lambda",
    )
    database.subscribe(table, function.sink)
    table.put_item(Item={"pk": "one"})
    database.settle()
    [record] = database.records(table, 1)

    assert [[record["eventID"], record["dynamodb"]["SequenceNumber"]]] * 3 == function.notes()


@pytest.mark.guarantee("G37")
@pytest.mark.spec("F6")
def test_many_readers_read_all_records_independently(database: Database, table: Any) -> None:
    """DynamoDB allows two readers per shard."""
    functions = [database.function("def handle(change): note(change.keys['pk'])") for _ in range(3)]
    for function in functions:
        database.subscribe(table, function.sink)
    for n in range(30):
        table.put_item(Item={"pk": f"{n:02}"})
    [shard] = shards_of(database.streams, table.latest_stream_arn)
    expected = [f"{n:02}" for n in range(30)]
    assert expected == keys_of(database.records(table, 30))

    def read(limit: int) -> list[str]:
        at = iterator(database.streams, table.latest_stream_arn, shard["ShardId"])
        return keys_of(read_shard(database.streams, at, limit))

    with ThreadPoolExecutor(6) as pool:
        assert [expected] * 6 == list(pool.map(read, [1, 2, 7, 30, 500, 1000]))
    database.settle()
    assert [expected] * 3 == [[pk for (pk,) in function.notes()] for function in functions]


@pytest.mark.guarantee("G37")
@pytest.mark.spec("F7", "F27")
def test_a_reader_across_shards_reads_each_record_once(
    open_database: Callable[..., Any],
) -> None:
    """A child names its parent. A closed shard has a range, and a child unless the stream was disabled."""
    with open_database("--shard-age", "200ms", "--partitions", "2") as database:
        table = database.table()
        arn = table.latest_stream_arn
        numbers = itertools.count()
        until(lambda: put_next(table, numbers) and len(shards_of(database.streams, arn)) >= 7)
        count = next(numbers)
        table.update(StreamSpecification={"StreamEnabled": False})
        shards = until(lambda: closed(database.streams, arn))
        status = database.streams.describe_stream(StreamArn=arn)["StreamDescription"]["StreamStatus"]
        pages = database.streams.describe_stream(StreamArn=arn, Limit=2)["StreamDescription"]
        children = database.streams.describe_stream(
            StreamArn=arn, ShardFilter={"Type": "CHILD_SHARDS", "ShardId": shards[0]["ShardId"]}
        )["StreamDescription"]["Shards"]
        records = {shard["ShardId"]: read_to_end(database.streams, arn, shard) for shard in shards}

    by_id = {shard["ShardId"]: shard for shard in shards}
    parents = [shard["ParentShardId"] for shard in shards if "ParentShardId" in shard]
    assert "DISABLED" == status
    assert 2 == len([shard for shard in shards if "ParentShardId" not in shard])
    assert 2 == len(set(by_id) - set(parents)), "of each partition the last has no child"
    assert len(parents) == len(set(parents))
    assert 2 == len(pages["Shards"])
    assert "LastEvaluatedShardId" in pages
    assert [shard["ShardId"] for shard in shards if shard.get("ParentShardId") == shards[0]["ShardId"]] == [
        child["ShardId"] for child in children
    ]
    assert {f"{n}" for n in range(count)} == {key for each in records.values() for key in keys_of(each)}
    assert count == sum(map(len, records.values()))
    for name, each in records.items():
        range_ = by_id[name]["SequenceNumberRange"]
        assert 28 <= len(name) <= 65
        for record in each:
            assert (
                int(range_["StartingSequenceNumber"]) <= number(record) <= int(range_["EndingSequenceNumber"])
            )


@pytest.mark.guarantee("G37")
@pytest.mark.spec("F7", "S62", "S63")
def test_a_reader_across_splits_reads_parents_first(open_database: Callable[..., Any]) -> None:
    """Partitions split by size while items are written; records of a key stay in order over parents and children."""
    flags = ("--throttle", "--split-delay", "0s", "--split-size", "1000", "--partitions", "2")
    with open_database(*flags) as database:
        table = database.table()
        arn = table.latest_stream_arn
        counts = dict.fromkeys(range(40), 0)

        def write() -> bool:
            for key in counts:
                counts[key] += 1
                table.put_item(Item={"pk": f"{key}", "n": counts[key], "x": "x" * 400})
            return len(shards_of(database.streams, arn)) >= 8

        until(write)
        write()
        shards = shards_of(database.streams, arn)
        table.update(StreamSpecification={"StreamEnabled": False})
        shards = until(lambda: closed(database.streams, arn))
        records = {shard["ShardId"]: read_to_end(database.streams, arn, shard) for shard in shards}

    by_id = {shard["ShardId"]: shard for shard in shards}
    parents = [shard["ParentShardId"] for shard in shards if "ParentShardId" in shard]
    assert 2 == len(shards) - len(parents)
    assert {2} == {parents.count(parent) for parent in parents}

    def line_to(shard: str) -> list[str]:
        parent = by_id[shard].get("ParentShardId")
        return [*([] if parent is None else line_to(parent)), shard]

    seen: dict[int, list[int]] = {key: [] for key in counts}
    for shard in sorted(by_id, key=lambda name: len(line_to(name))):
        for record in records[shard]:
            image = record["dynamodb"]["NewImage"]
            seen[int(image["pk"]["S"])].append(int(image["n"]["N"]))
    assert {key: list(range(1, count + 1)) for key, count in counts.items()} == seen


def put_next(table: Any, numbers: "itertools.count[int]") -> bool:
    table.put_item(Item={"pk": f"{next(numbers)}"})
    return True


def closed(streams: Any, arn: str) -> list[dict[str, Any]]:
    """Return the shards if all are closed."""
    shards = shards_of(streams, arn)
    ends = ["EndingSequenceNumber" in shard["SequenceNumberRange"] for shard in shards]
    return shards if all(ends) else []


def read_to_end(streams: Any, arn: str, shard: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all records of a closed shard, up to the page without a next iterator."""
    at: str | None = iterator(streams, arn, shard["ShardId"])
    found: list[dict[str, Any]] = []
    while at is not None:
        page = streams.get_records(ShardIterator=at, Limit=5)
        found += page["Records"]
        at = page.get("NextShardIterator")
    return found


@pytest.mark.spec("F8")
def test_a_reader_starts_at_any_iterator_type(database: Database, table: Any) -> None:
    for n in range(4):
        table.put_item(Item={"pk": f"{n}"})
    records = database.records(table, 4)
    arn, streams = table.latest_stream_arn, database.streams
    [shard] = shards_of(streams, arn)
    second = records[1]["dynamodb"]["SequenceNumber"]

    def keys(kind: str, **where: Any) -> list[str]:
        return keys_of(read_shard(streams, iterator(streams, arn, shard["ShardId"], kind, **where)))

    assert ["0", "1", "2", "3"] == keys("TRIM_HORIZON")
    assert ["1", "2", "3"] == keys("AT_SEQUENCE_NUMBER", SequenceNumber=second)
    assert ["2", "3"] == keys("AFTER_SEQUENCE_NUMBER", SequenceNumber=second)
    assert [] == keys("LATEST")
    assert ["0", "1", "2", "3"] == keys("AT_TIMESTAMP", Timestamp=datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.spec("F8")
def test_a_start_by_time_reads_from_the_first_later_change(database: Database, table: Any) -> None:
    table.put_item(Item={"pk": "early"})
    [early] = database.changes(table, 1)
    late = until(lambda: later_than(database, table, early["time"]))
    arn, streams = table.latest_stream_arn, database.streams
    [shard] = shards_of(streams, arn)
    moment = datetime.fromisoformat(late["time"])
    at = iterator(streams, arn, shard["ShardId"], "AT_TIMESTAMP", Timestamp=moment.timestamp())

    found = keys_of(read_shard(streams, at))
    assert late["keys"]["pk"]["S"] in found
    assert "early" not in found


def later_than(database: Database, table: Any, time: str) -> dict[str, Any] | None:
    """Write a change in a later second."""
    count = len(database.changes(table, 1))
    table.put_item(Item={"pk": f"{count}"})
    last = database.changes(table, count + 1)[-1]
    return last if last["time"][:19] > time[:19] else None


@pytest.mark.spec("F8")
def test_latest_misses_no_change_after_the_request(database: Database, table: Any) -> None:
    arn, streams = table.latest_stream_arn, database.streams
    [shard] = shards_of(streams, arn)
    for n in range(30):
        table.put_item(Item={"pk": f"before {n}"})
        at = iterator(streams, arn, shard["ShardId"], "LATEST")
        table.put_item(Item={"pk": f"after {n}"})
        assert [f"after {n}"] == keys_of(until(lambda at=at: read_shard(streams, at)))  # type: ignore[misc]


@pytest.mark.guarantee("G37")
@pytest.mark.spec("F5")
def test_changes_past_the_retention_are_in_the_log_only(
    open_database: Callable[..., Any],
) -> None:
    with open_database("--stream-retention", "300ms") as database:
        table = database.table()
        table.put_item(Item={"pk": "first"})
        [first] = database.records(table, 1)
        arn, numbers = table.latest_stream_arn, itertools.count()
        [shard] = shards_of(database.streams, arn)
        until(lambda: put_next(table, numbers) and "first" not in keys_of(read_stream(database.streams, arn)))
        with refused("TrimmedDataAccessException"):
            at = iterator(
                database.streams,
                arn,
                shard["ShardId"],
                "AT_SEQUENCE_NUMBER",
                SequenceNumber=first["dynamodb"]["SequenceNumber"],
            )
            database.streams.get_records(ShardIterator=at)
        function = database.function("def handle(change): note(change.keys['pk'])")
        database.subscribe(table, function.sink, Start={"At": "BEGINNING"})
        database.settle()

    assert ["first"] == function.notes()[0]


@pytest.mark.spec("F5")
def test_a_disabled_stream_stays_readable_beside_a_new_one(database: Database, table: Any) -> None:
    table.put_item(Item={"pk": "one"})
    arn = table.latest_stream_arn
    table.update(StreamSpecification={"StreamEnabled": False})
    table.put_item(Item={"pk": "between"})
    until(lambda: database.client.describe_table(TableName=table.name)["Table"]["TableStatus"] == "ACTIVE")
    table.update(StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"})
    table.put_item(Item={"pk": "two"})
    table.reload()

    assert arn != table.latest_stream_arn
    assert 37 <= len(arn)
    assert ["two"] == keys_of(database.records(table, 1))
    assert ["one"] == keys_of(read_stream(database.streams, arn))
    listed = database.streams.list_streams(TableName=table.name)["Streams"]
    assert {arn, table.latest_stream_arn} == {stream["StreamArn"] for stream in listed}
    with refused("ValidationException"):
        table.update(StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"})


@pytest.mark.spec("F12")
def test_a_page_has_at_most_1000_records_and_a_megabyte(database: Database, table: Any) -> None:
    for n in range(5):
        table.put_item(Item={"pk": f"{n}", "d": "x" * 300_000})
    database.records(table, 5)
    [shard] = shards_of(database.streams, table.latest_stream_arn)
    at = iterator(database.streams, table.latest_stream_arn, shard["ShardId"])
    page = database.streams.get_records(ShardIterator=at)

    assert ["0", "1", "2"] == keys_of(page["Records"])
    with refused("ValidationException"):
        database.streams.get_records(ShardIterator=at, Limit=1001)


@pytest.mark.parametrize("readers", [2])
def test_a_shard_read_by_one_trigger_remains_for_others(database: Database, table: Any, readers: int) -> None:
    function = database.function("def handle(change): note(change.keys['pk'])")
    database.subscribe(table, function.sink)
    table.put_item(Item={"pk": "one"})
    assert [["one"]] == function.wait(1)
    database.settle()

    for _ in range(readers):
        assert ["one"] == keys_of(database.records(table, 1))
    late = database.function("def handle(change): note(change.keys['pk'])")
    database.subscribe(table, late.sink, Start={"At": "HORIZON"})
    database.settle()
    assert [["one"]] == late.notes()
