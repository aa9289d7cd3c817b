"""Tables rebuilt from the log, a verified log, and history that only the log shows."""

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from boto3.dynamodb.conditions import Attr, Key
from botocore.exceptions import BotoCoreError

from tests.support.claims import KIB, everything, refused, sized
from tests.support.served import foldb, killed, served
from tests.support.tables import table_request

Connect = Callable[[str], Any]


@dataclass
class Database:
    """A folder of its own, and the process that serves it."""

    folder: Path
    url: str
    resource: Any

    def orders(self) -> Any:
        """A table with some history: 40 items, some changed, some deleted, an index."""
        table = self.resource.create_table(**table_request("Orders", "pk:S", gsi={"ByState": "state:S pk:S"}))
        for n in range(40):
            table.put_item(Item={"pk": f"order{n:02}", "state": "new", "n": n})
        for n in range(0, 40, 2):
            table.update_item(
                Key={"pk": f"order{n:02}"},
                UpdateExpression="SET #s = :s",
                ExpressionAttributeNames={"#s": "state"},
                ExpressionAttributeValues={":s": "paid"},
            )
        for n in range(0, 40, 5):
            table.delete_item(Key={"pk": f"order{n:02}"})
        return table

    def position(self) -> str:
        """Return the position of the log."""
        answer = self.resource.meta.client.scan(TableName="Orders", Limit=1)
        return str(answer["ResponseMetadata"]["HTTPHeaders"]["x-foldb-position"])

    def history(self, table: str) -> list[dict[str, Any]]:
        """Return the lines of `foldb log cat` about a table."""
        ran = foldb("log", "cat", self.folder, "--table", table, "-o", "jsonl")
        assert 0 == ran.returncode, ran.stderr
        return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.fixture
def database(tmp_path: Path, connect: Connect) -> Iterator[Database]:
    with served(tmp_path) as url:
        yield Database(tmp_path, url, connect(url))


def _contents(table: Any) -> tuple[list[Any], list[Any]]:
    return everything(table.scan), everything(table.scan, IndexName="ByState")


@pytest.mark.spec("H1")
def test_a_table_is_rebuilt_while_it_serves(database: Database) -> None:
    table = database.orders()
    before = _contents(table)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(foldb, "rebuild", "Orders", "--db", database.url)
        for n in range(100, 130):
            table.put_item(Item={"pk": f"order{n}", "n": n})
        rebuilt = running.result()

    assert 0 == rebuilt.returncode, rebuilt.stderr
    for n in range(100, 130):
        table.delete_item(Key={"pk": f"order{n}"})
    assert before == _contents(table)
    assert 0 == foldb("verify", "--db", database.folder).returncode


@pytest.mark.spec("H1")
def test_a_table_that_was_dropped_comes_back(database: Database) -> None:
    table = database.orders()
    before, position = _contents(table), database.position()
    table.put_item(Item={"pk": "too late"})
    table.delete()
    ran = foldb("restore", "Orders", "--as-of", position, "--into", "Orders2", "--db", database.url)
    again = database.resource.Table("Orders2")

    def by_key(items: list[Any]) -> list[Any]:
        return sorted(items, key=lambda item: str(item["pk"]))

    assert 0 == ran.returncode, ran.stderr
    assert [by_key(items) for items in before] == [by_key(items) for items in _contents(again)]
    paid = again.query(IndexName="ByState", KeyConditionExpression=Key("state").eq("paid"))
    assert [n for n in range(0, 40, 2) if n % 5] == [item["n"] for item in paid["Items"]]


@pytest.mark.spec("H1", "S80")
def test_a_killed_server_comes_back_as_it_was_and_rebuilds(tmp_path: Path, connect: Connect) -> None:
    with killed(tmp_path) as url:
        database = Database(tmp_path, url, connect(url))
        before = _contents(database.orders())
    with served(tmp_path) as url:
        table = connect(url).Table("Orders")

        assert before == _contents(table)
        assert 0 == foldb("rebuild", "Orders", "--db", url).returncode
        assert before == _contents(table)


@pytest.mark.guarantee("G22")
@pytest.mark.spec("S80")
def test_a_kill_leaves_all_or_nothing_of_each_transaction(tmp_path: Path, connect: Connect) -> None:
    """Eight writers are writing; every acknowledged write is in the backup."""
    acknowledged: list[int] = []
    enough = threading.Event()

    def write(client: Any, n: int) -> None:
        puts = [{"Put": {"TableName": "Pairs", "Item": {"pk": side, "sk": n}}} for side in ("left", "right")]
        with suppress(BotoCoreError):  # the connection broke: the outcome is unknown
            client.transact_write_items(TransactItems=puts)
            acknowledged.append(n)
            if len(acknowledged) == 100:
                enough.set()

    with ThreadPoolExecutor(8) as pool:
        with killed(tmp_path) as url:
            resource = connect(url)
            resource.create_table(**table_request("Pairs", "pk:S", "sk:N"))
            for n in range(2000):
                pool.submit(write, resource.meta.client, n)
            assert enough.wait(30)
        pool.shutdown(cancel_futures=True)
    with served(tmp_path) as url:
        table = connect(url).Table("Pairs")
        left, right = (
            {int(item["sk"]) for item in everything(table.query, KeyConditionExpression=Key("pk").eq(side))}
            for side in ("left", "right")
        )

    assert left == right
    assert set(acknowledged) <= left


@pytest.mark.spec("H2")
def test_a_log_that_is_whole_is_verified(database: Database) -> None:
    database.orders()
    ran = foldb("verify", "--db", database.folder, "-o", "jsonl")

    assert 0 == ran.returncode, ran.stderr
    assert 0 == json.loads(ran.stdout)["differences"]


def _flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, connect: Connect) -> Path:
    """A folder that a server has written and left."""
    folder = tmp_path_factory.mktemp("written")
    with served(folder) as url:
        Database(folder, url, connect(url)).orders()
    return folder


@pytest.fixture
def segment(written: Path, tmp_path: Path) -> Path:
    """The one segment of a copy of it, to be damaged."""
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    (segment,) = tmp_path.glob("*.avro")
    return segment


@pytest.mark.spec("H2", served=False)
@pytest.mark.parametrize("tenth", [1, 5, 8])
def test_a_flipped_bit_is_found_and_named(segment: Path, tenth: int) -> None:
    data = bytearray(segment.read_bytes())
    data[len(data) * tenth // 10] ^= 1
    segment.write_bytes(data)
    ran = foldb("verify", "--db", segment.parent)

    assert 9 == ran.returncode
    assert segment.name in ran.stderr


@pytest.mark.spec("H2", served=False)
def test_a_missing_block_is_found(segment: Path) -> None:
    data = segment.read_bytes()
    marker = data[-16:]  # an Avro container's blocks each end with the file's sync marker
    blocks = data.split(marker)
    segment.write_bytes(marker.join(blocks[:10] + blocks[11:]))

    assert 9 == foldb("verify", "--db", segment.parent).returncode


@pytest.mark.spec("S44", "S78")
@pytest.mark.parametrize(("size", "units"), [(1 * KIB, 1), (2 * KIB, 2), (None, 1)])
def test_a_refused_write_is_in_the_log_with_its_units(
    database: Database, size: int | None, units: int
) -> None:
    table = database.resource.create_table(**table_request("Orders", "pk:S"))
    if size:
        table.put_item(Item=sized(size, pk="a"))
    with refused("ConditionalCheckFailedException"):
        table.put_item(Item={"pk": "a"}, ConditionExpression=Attr("version").eq(7))
    last = database.history("Orders")[-1]

    assert ("Put", "refused", units) == (last["command"], last["outcome"], last["units"])


@pytest.mark.spec("S54")
def test_a_refused_transaction_is_charged_twice_too(database: Database) -> None:
    table = database.resource.create_table(**table_request("Orders", "pk:S"))
    table.put_item(Item=sized(3 * KIB, pk="a"))
    put = {"TableName": "Orders", "Item": {"pk": "a"}, "ConditionExpression": "attribute_not_exists(pk)"}
    with refused("TransactionCanceledException"):
        table.meta.client.transact_write_items(TransactItems=[{"Put": put}])
    last = database.history("Orders")[-1]

    assert ("1 of 1", "refused", 6) == (last["transaction"], last["outcome"], last["units"])


@pytest.mark.spec("S83")
def test_both_racers_for_the_last_place_are_in_its_history(database: Database) -> None:
    containers = database.resource.create_table(**table_request("Containers", "id:S"))
    containers.put_item(Item={"id": "cx1", "freecapacity": 1})
    take = {
        "TableName": "Containers",
        "Key": {"id": "cx1"},
        "UpdateExpression": "SET freecapacity = freecapacity - :one",
        "ConditionExpression": "freecapacity >= :one",
        "ExpressionAttributeValues": {":one": 1},
    }

    def race(_: int) -> bool:
        try:
            containers.meta.client.transact_write_items(TransactItems=[{"Update": take}])
        except containers.meta.client.exceptions.TransactionCanceledException:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        won = list(pool.map(race, range(2)))
    outcomes = [
        reported["outcome"] for reported in database.history("Containers") if "transaction" in reported
    ]

    assert [False, True] == sorted(won)
    assert ["applied", "refused"] == outcomes
