"""A database with several partitions answers its clients like one with a single partition."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import foldb
from foldb.cli.lib.client import Client
from foldb.log.commands import Cut, Position
from foldb.model.errors import FoldbError, ValidationError
from foldb.server.api.min_position import parse_position
from tests.support.claims import everything, refused
from tests.support.positions import Positions
from tests.support.raw import ask
from tests.support.served import foldb as run
from tests.support.served import served
from tests.support.tables import table_request

PARTITIONS = 8
COUNT = 60

Connect = Callable[[str], Any]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with foldb.serve(partitions=PARTITIONS) as server:
        yield server.endpoint_url


@pytest.fixture
def admin(url: str) -> Iterator[Client]:
    client = Client(url)
    yield client
    client.close()


@pytest.fixture
def table(connect: Connect, url: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A table with items in every partition."""
    resource = connect(url)
    Positions().follow(resource.meta.client)
    asked = table_request("Things", "pk:S", gsi={"by-kind": "kind:S pk:S"}, lsi=None)
    table = resource.create_table(**asked)
    with table.batch_writer() as batch:
        for item in items():
            batch.put_item(Item=item)
    yield table
    table.delete()


def items() -> Iterator[dict[str, Any]]:
    return ({"pk": f"thing {n:02}", "kind": f"kind {n % 3}"} for n in range(COUNT))


def sorted_by_key(found: Any) -> list[Any]:
    return sorted(found, key=lambda item: str(item["pk"]))


def test_a_table_is_active_when_its_creator_is_answered(table: Any) -> None:
    table.reload()

    assert "ACTIVE" == table.table_status
    assert COUNT == table.item_count


def test_items_are_found_one_by_one_in_batches_and_all(table: Any) -> None:
    keys = [{"pk": item["pk"]} for item in items()]
    batch = table.meta.client.batch_get_item(RequestItems={table.name: {"Keys": keys}})

    assert all(
        item == table.get_item(Key={"pk": item["pk"]}, ConsistentRead=True)["Item"] for item in items()
    )
    assert list(items()) == sorted_by_key(batch["Responses"][table.name])
    assert list(items()) == sorted_by_key(everything(table.scan))


@pytest.mark.parametrize("limit", [1, 7])
@pytest.mark.parametrize("segments", [1, 3, 20])
def test_segments_and_pages_together_are_all_items_once(table: Any, segments: int, limit: int) -> None:
    found = []
    for segment in range(segments):
        found += everything(table.scan, Segment=segment, TotalSegments=segments, Limit=limit)

    assert list(items()) == sorted_by_key(found)


def test_a_global_index_read_with_a_position_sees_the_write(table: Any) -> None:
    kinds = [
        everything(
            table.query,
            IndexName="by-kind",
            KeyConditionExpression="kind = :kind",
            ExpressionAttributeValues={":kind": f"kind {kind}"},
        )
        for kind in range(3)
    ]

    assert [[item for item in items() if item["kind"] == f"kind {kind}"] for kind in range(3)] == kinds


def test_a_transaction_over_partitions_returns_its_positions(table: Any) -> None:
    client = table.meta.client
    puts = [{"Put": {"TableName": table.name, "Item": {"pk": f"new {n}", "n": n}}} for n in range(20)]
    done = client.transact_write_items(TransactItems=puts)
    gets = [{"Get": {"TableName": table.name, "Key": {"pk": f"new {n}"}}} for n in range(20)]
    read = client.transact_get_items(TransactItems=gets)

    assert list(range(20)) == [response["Item"]["n"] for response in read["Responses"]]
    assert ":" in done["ResponseMetadata"]["HTTPHeaders"]["x-foldb-position"]
    assert "," in read["ResponseMetadata"]["HTTPHeaders"]["x-foldb-position"]


def test_a_transaction_over_partitions_is_refused_whole(table: Any) -> None:
    actions: list[dict[str, Any]] = [
        {"Put": {"TableName": table.name, "Item": {"pk": f"new {n}"}}} for n in range(10)
    ]
    refusing = {
        "TableName": table.name,
        "Key": {"pk": "nobody"},
        "ConditionExpression": "attribute_exists(pk)",
    }
    actions.append({"ConditionCheck": refusing})

    with refused("TransactionCanceledException"):
        table.meta.client.transact_write_items(TransactItems=actions)
    assert list(items()) == sorted_by_key(everything(table.scan, ConsistentRead=True))


def test_a_token_is_recognized_with_other_keys(table: Any) -> None:
    for n in range(10):
        put = {"Put": {"TableName": table.name, "Item": {"pk": f"new {n}"}}}
        request = {"TransactItems": [put], "ClientRequestToken": "one token"}
        if n == 0:
            table.meta.client.transact_write_items(**request)
        else:
            with refused("IdempotentParameterMismatchException"):
                table.meta.client.transact_write_items(**request)


def test_a_deleted_table_is_absent_once_delete_is_answered(connect: Connect, url: str) -> None:
    client = connect(url).meta.client
    for _ in range(3):
        client.create_table(**table_request("Brief", "pk:S"))
        client.put_item(TableName="Brief", Item={"pk": "a"})
        client.delete_table(TableName="Brief")
        with refused("ResourceNotFoundException"):
            client.get_item(TableName="Brief", Key={"pk": "a"})


# foldb's own


def test_status_sums_the_counts_of_partitions(table: Any, admin: Client) -> None:
    status = admin.admin("Status")

    assert (PARTITIONS, [], COUNT) == (status["Partitions"], status["Unreachable"], status["Items"])
    assert PARTITIONS + 1 == len(status["Position"].split(","))


def test_digest_has_a_digest_per_partition(table: Any, admin: Client) -> None:
    answer = admin.admin("Digest")

    assert answer["Position"] == ",".join(each["Position"] for each in answer["Digests"])
    assert PARTITIONS + 1 == len({each["Digest"] for each in answer["Digests"]})


@pytest.mark.parametrize("index", [{}, {"IndexName": "by-kind"}], ids=["table", "index"])
def test_a_table_is_rebuilt_in_all_its_partitions(table: Any, admin: Client, index: dict[str, str]) -> None:
    admin.admin("Wait", {"Position": admin.admin("Status")["Position"]})
    answer = admin.admin("Rebuild", {"TableName": table.name, **index})
    while answer["Status"] == "RUNNING":
        answer = admin.admin("Rebuild", {"TableName": table.name, "Id": answer["Id"]})

    assert (True, COUNT) == (answer["Same"], answer["Items"])
    assert list(items()) == sorted_by_key(everything(table.scan))


def test_a_read_that_names_no_position_of_the_log_is_refused(url: str, table: Any) -> None:
    answer = ask(url, "Scan", {"TableName": table.name}, x_foldb_position="nowhere")

    assert (400, "nowhere") == (answer.status, answer.body["message"].split("`")[1])


@pytest.mark.parametrize("text", ["", "1", "x", "9:1", "1:-1", "1:2.3.4", "0:1,", ",".join(["1:1"] * 10)])
def test_a_malformed_position_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        parse_position(text, PARTITIONS + 1)


@pytest.mark.parametrize(
    "place",
    [Position(3, 7), Position(3, 7, 2), Cut((Position(0, 1), Position(8, 2, 0)))],
    ids=lambda place: place.text(PARTITIONS + 1),
)
def test_a_position_is_read_as_it_was_written(place: Position | Cut) -> None:
    assert place == parse_position(place.text(PARTITIONS + 1), PARTITIONS + 1)
    assert Position(0, 7) == parse_position(Position(0, 7).text(), 1)


# In a folder


def test_a_divided_database_comes_back_from_its_log(connect: Connect, tmp_path: Path) -> None:
    with served(tmp_path, "--partitions", "3") as url:
        client = connect(url).meta.client
        client.create_table(**table_request("Things", "pk:S", gsi={"by-kind": "kind:S"}))
        for item in items():
            client.put_item(TableName="Things", Item=item)
    with served(tmp_path) as url:
        client = Positions().follow(connect(url).meta.client)
        client.put_item(TableName="Things", Item={"pk": "another"})

        assert [{"pk": "another"}, *items()] == sorted_by_key(client.scan(TableName="Things")["Items"])
        assert COUNT == client.scan(TableName="Things", IndexName="by-kind")["Count"]


def test_a_log_keeps_its_number_of_partitions(tmp_path: Path) -> None:
    foldb.serve(tmp_path, partitions=3).stop()

    with foldb.serve(tmp_path):
        pass
    with pytest.raises(FoldbError, match="the log has 3 partitions, not 8"):
        foldb.serve(tmp_path, partitions=8)
    ran = run("serve", "--db", str(tmp_path), "--port", "0", "--partitions", "1")
    assert 2 == ran.returncode
    assert "the log has 3 partitions, not 1: that was settled when it was made." in ran.stderr


def test_wait_returns_once_indexes_have_the_writes(connect: Connect, tmp_path: Path) -> None:
    with served(tmp_path, "--partitions", "2", "--index-lag", "300ms") as url:
        client = connect(url).meta.client
        client.create_table(**table_request("Things", "pk:S", gsi={"by-kind": "kind:S"}))
        for item in items():
            put = client.put_item(TableName="Things", Item=item)
        query = {
            "TableName": "Things",
            "IndexName": "by-kind",
            "KeyConditionExpression": "kind = :kind",
            "ExpressionAttributeValues": {":kind": item["kind"]},
        }
        behind = client.query(**query)["Count"]
        admin = Client(url)
        run("wait", "--db", url, admin.admin("Status")["Position"])
        admin.close()

        assert put["ResponseMetadata"]["HTTPHeaders"]["x-foldb-position"].count(":") == 1
        assert (COUNT // 3 > behind, COUNT // 3) == (True, client.query(**query)["Count"])
