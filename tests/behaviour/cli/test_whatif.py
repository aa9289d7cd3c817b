"""`foldb whatif`: units and sizes of a changed definition, compared with a model that counts them from the items."""

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import boto3
import pytest
from botocore.exceptions import ClientError

import foldb
from foldb.cli.lib.client import Client
from tests.behaviour.cli.conftest import Foldb, at, lines
from tests.support.subscribed import until

Texts: TypeAlias = dict[str, str]
"""An item whose values are ASCII strings."""
Key: TypeAlias = tuple[str, str]

STATES = ("new", "paid", "sent")
KEYS = 12


def size(item: Texts | None) -> int:
    return 0 if item is None else sum(len(name) + len(text) for name, text in item.items())


def blocks(*sizes: int) -> int:
    return max(1, -(-max(sizes) // 1024))


def typed(item: Texts) -> dict[str, Any]:
    return {name: {"S": text} for name, text in item.items()}


@dataclass
class Model:
    """A table of strings by the rules of the developer guide, written without foldb's code.

    Attributes:
        index: The key attribute of its index, and the projected attributes; None for no index.
        key: Returns the key of an item; None if it has none.
        only: The attributes that it holds in addition to its key.
        without: The attributes that it does not hold.
    """

    index: tuple[str, tuple[str, ...] | None] | None = None
    key: Callable[[Texts], Any] = lambda item: item["id"]
    only: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    units: int = 0
    index_units: int = 0
    items: dict[Any, Texts] = field(default_factory=dict)
    units_of_keys: Counter[Any] = field(default_factory=Counter)

    def part(self, item: Texts | None) -> Texts | None:
        if item is None:
            return None
        if self.only is not None and not any(name in item for name in self.only):
            return None
        names = item if self.only is None else ("id", *self.only)
        return {name: item[name] for name in names if name in item and name not in self.without}

    def write(self, old: Texts | None, new: Texts | None, name: str, factor: int = 1) -> None:
        before, after = self.part(old), self.part(new)
        if before == after and (old != new or self.only is not None):
            return
        keys = [None if image is None else self.key(image) for image in (before, after)]
        if keys[0] is not None and keys[0] != keys[1]:
            self._replace(keys[0], before, None, factor)
            before = None
        if keys[1] is not None:
            self._replace(keys[1], None if keys[0] != keys[1] else before, after, factor)
        if old is None and new is None:
            self.count(name, factor)

    def _replace(self, key: Any, before: Texts | None, after: Texts | None, factor: int) -> None:
        self.count(key, factor * blocks(size(before), size(after)))
        if after is None:
            del self.items[key]
        else:
            self.items[key] = after
        old, new = self.entry(before), self.entry(after)
        if self.index is None or old == new:
            return
        if old is not None and new is not None and old[self.index[0]] != new[self.index[0]]:
            self.index_units += blocks(size(old)) + blocks(size(new))
        else:
            self.index_units += blocks(size(old), size(new))

    def count(self, key: Any, units: int) -> None:
        self.units += units
        self.units_of_keys[key] += units

    def entry(self, item: Texts | None) -> Texts | None:
        if self.index is None or item is None or self.index[0] not in item:
            return None
        attribute, projected = self.index
        names = item if projected is None else ("id", attribute, *projected)
        return {name: item[name] for name in names if name in item}

    @property
    def bytes(self) -> int:
        return sum(size(item) + 100 for item in self.items.values())

    @property
    def entries(self) -> list[Texts]:
        return [entry for item in self.items.values() if (entry := self.entry(item)) is not None]


class Traffic:
    """Random writes of a table through boto3, and the items that they should leave.

    Attributes:
        models: They follow the writes.
        consumed: The units of the table that the responses name.
        consumed_by_index: Those of the index `states`.
    """

    def __init__(self, client: Any, seed: int, models: list[Model]) -> None:
        self.client = client
        self.random = random.Random(seed)
        self.models = models
        self.items: dict[str, Texts] = {}
        self.consumed = self.consumed_by_index = 0
        for table in ("Orders", "Payments", "Events"):
            client.create_table(
                TableName=table,
                AttributeDefinitions=[
                    {"AttributeName": each, "AttributeType": "S"} for each in ("id", "state")
                ],
                KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
                BillingMode="PAY_PER_REQUEST",
                GlobalSecondaryIndexes=[
                    {
                        "IndexName": "states",
                        "KeySchema": [{"AttributeName": "state", "KeyType": "HASH"}],
                        "Projection": {"ProjectionType": "ALL"},
                    }
                ],
            )

    def run(self, writes: int) -> None:
        for _ in range(writes):
            self.random.choice(
                [self.put, self.put, self.update, self.delete, self.refused, self.transaction, self.noise]
            )()

    def item(self, name: str) -> Texts:
        made = {"id": name, "text": "x" * self.random.choice((0, 10, 900, 1100, 2500))}
        if self.random.random() < 0.7:
            made["state"] = self.random.choice(STATES)
        if self.random.random() < 0.7:
            made["serial"] = f"{name}-{self.random.randrange(3)}"
        if self.random.random() < 0.4:
            made["photo"] = "p" * self.random.choice((5, 1500))
        return made

    def any_id(self) -> str:
        return f"order-{self.random.randrange(KEYS)}"

    def put(self) -> None:
        item = self.item(self.any_id())
        self._note(
            self.client.put_item(TableName="Orders", Item=typed(item), ReturnConsumedCapacity="INDEXES")
        )
        self._write(item["id"], item)

    def update(self) -> None:
        name, photo = self.any_id(), "q" * self.random.choice((3, 1200))
        answer = self.client.update_item(
            TableName="Orders",
            Key=typed({"id": name}),
            UpdateExpression="SET photo = :p",
            ExpressionAttributeValues={":p": {"S": photo}},
            ReturnConsumedCapacity="INDEXES",
        )
        self._note(answer)
        self._write(name, self.items.get(name, {"id": name}) | {"photo": photo})

    def delete(self) -> None:
        name = self.any_id()
        self._note(
            self.client.delete_item(
                TableName="Orders", Key=typed({"id": name}), ReturnConsumedCapacity="INDEXES"
            )
        )
        self._write(name, None)

    def refused(self) -> None:
        """A refused write costs the units of the item that fails its condition, of every definition of the table."""
        name = self.any_id()
        with pytest.raises(ClientError):
            self.client.put_item(
                TableName="Orders", Item=typed({"id": name}), ConditionExpression="attribute_exists(nothing)"
            )
        units = blocks(size(self.items.get(name)))
        self.consumed += units
        for model in self.models:
            if model.only is None:
                model.units += units

    def transaction(self) -> None:
        """A transaction over two tables, which is refused if the payment exists."""
        item, payment = self.item(self.any_id()), f"payment-{self.random.randrange(2 * KEYS)}"
        actions = [
            {"Put": {"TableName": "Orders", "Item": typed(item)}},
            {
                "Put": {
                    "TableName": "Payments",
                    "Item": typed({"id": payment, "state": "new"}),
                    "ConditionExpression": "attribute_not_exists(id)",
                }
            },
        ]
        try:
            answer = self.client.transact_write_items(TransactItems=actions, ReturnConsumedCapacity="INDEXES")
        except ClientError:
            units = 2 * blocks(size(self.items.get(item["id"])), size(item))
            self.consumed += units
            for model in self.models:
                if model.only is None:
                    model.units += units
            return
        for each in answer["ConsumedCapacity"]:
            if each["TableName"] == "Orders":
                self._note({"ConsumedCapacity": each})
        self._write(item["id"], item, 2)

    def noise(self) -> None:
        """Write to a table that the refold passes over, or to the other table of the transactions."""
        item = {"id": self.any_id(), "state": self.random.choice(STATES)}
        self.client.put_item(TableName="Events", Item=typed(item))
        payment = {"id": f"payment-{self.random.randrange(2 * KEYS)}"}
        self.client.put_item(TableName="Payments", Item=typed(payment))

    def _note(self, answer: dict[str, Any]) -> None:
        consumed = answer["ConsumedCapacity"]
        self.consumed += consumed["Table"]["CapacityUnits"]
        self.consumed_by_index += sum(
            each["CapacityUnits"] for each in consumed.get("GlobalSecondaryIndexes", {}).values()
        )

    def _write(self, name: str, new: Texts | None, factor: int = 1) -> None:
        old = self.items.pop(name, None)
        if new is not None:
            self.items[name] = new
        for model in self.models:
            model.write(old, new, name, factor)


def figures(cli: Foldb, *options: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the rows of `foldb whatif Orders` by part and figure."""
    rows = lines(cli("whatif", "Orders", *options))
    return {(row["part"], row["figure"]): row for row in rows}


def column(found: dict[tuple[str, str], dict[str, Any]], part: str, side: str) -> list[Any]:
    names = ("write_units", "items", "bytes")
    return [found[part, name].get(side) for name in names]


def expected(model: Model) -> list[int]:
    return [model.units, len(model.items), model.bytes]


def expected_entries(model: Model) -> list[int]:
    entries = model.entries
    return [model.index_units, len(entries), sum(map(size, entries)) + 100 * len(entries)]


@pytest.fixture
def orders(cli: Foldb) -> Foldb:
    assert 0 == cli("table", "create", "Orders", "id:S", "--gsi", "states=state:S").exit_code
    return cli


def put(cli: Foldb, *items: str) -> None:
    for item in items:
        assert 0 == cli("item", "put", "Orders", item).exit_code


@pytest.mark.spec("S69")
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("seed", range(2))
def test_the_figures_are_those_of_a_model(partitions: int, seed: int, tmp_path: Path) -> None:
    """Random writes, with refused conditions and transactions over tables and partitions."""
    as_it_is = Model(("state", None))
    included = Model(("serial", ("photo",)))
    rekeyed = Model(("state", None), key=lambda item: item.get("serial"))
    kept, moved = Model(("state", None), without=("photo",)), Model(only=("photo",))
    with foldb.serve(tmp_path / "data", fsync="never", partitions=partitions) as server:
        client = boto3.client("dynamodb", **server.boto3)
        with closing(client):
            traffic = Traffic(client, seed, [as_it_is, included, rekeyed, kept, moved])
            traffic.run(120)

    cli = at(tmp_path / "data")
    added = figures(cli, "--add-index", "serials=serial:S include photo", "--log", str(tmp_path / "data"))
    other_key = figures(cli, "--key", "serial:S", "--log", str(tmp_path / "data"))
    split = figures(cli, "--move", "photo", "--log", str(tmp_path / "data"))

    assert expected(as_it_is) == column(added, "Orders", "as_it_is") == column(added, "Orders", "changed")
    assert expected_entries(as_it_is) == column(added, "Orders.states", "as_it_is")
    assert expected_entries(included) == column(added, "Orders.serials", "changed")
    assert (traffic.consumed, traffic.consumed_by_index) == (as_it_is.units, as_it_is.index_units)
    assert expected(kept) == column(split, "Orders", "changed")
    assert expected_entries(kept) == column(split, "Orders.states", "changed")
    assert expected(moved) == column(split, "Orders (moved)", "changed")
    assert expected(rekeyed) == column(other_key, "Orders", "changed")
    assert expected_entries(rekeyed) == column(other_key, "Orders.states", "changed")
    keyless = sum("serial" not in item for item in traffic.items.values())
    assert keyless == other_key.get(("Orders", "invalid_items"), {"changed": 0})["changed"]


@pytest.mark.spec("S69")
def test_moved_attributes_save_units(orders: Foldb, folder: Path) -> None:
    put(orders, f'{{"id": "a", "photo": "{"p" * 3000}", "n": "1"}}')
    for n in range(10):
        assert 0 == orders("item", "update", "Orders", "a", "--set", f"n = '{n}'").exit_code

    found = figures(orders, "--move", "photo")

    assert 11 * 3 == found["Orders", "write_units"]["as_it_is"]
    assert (11, 3) == (
        found["Orders", "write_units"]["changed"],
        found["Orders (moved)", "write_units"]["changed"],
    )


def test_items_without_the_new_key_and_collisions_count(orders: Foldb) -> None:
    put(orders, '{"id": "a", "cup": "x"}', '{"id": "b", "cup": "x"}', '{"id": "c", "cup": 1}', '{"id": "d"}')
    put(orders, '{"id": "e", "cup": "x"}', '{"id": "f", "cup": "y"}')
    assert 0 == orders("item", "delete", "Orders", "e", "--yes").exit_code

    found = figures(orders, "--key", "cup:S")

    names = ("items", "invalid_items", "collisions")
    assert [2, 2, 1] == [found["Orders", name]["changed"] for name in names]


def test_items_that_an_index_refuses_are_counted(orders: Foldb) -> None:
    put(orders, '{"id": "a", "cup": "x"}', '{"id": "b", "cup": 1}', '{"id": "c", "cup": ""}', '{"id": "d"}')

    found = figures(orders, "--add-index", "cups=cup:S")

    assert [1, 2] == [found["Orders.cups", name]["changed"] for name in ("items", "invalid_items")]


def test_the_largest_key_is_that_of_the_index(orders: Foldb) -> None:
    put(orders, *(f'{{"id": "{n}", "state": "{"hot" if n % 4 else "cold"}"}}' for n in range(8)))

    found = figures(orders, "--on-demand")

    assert ("hot", 75) == (
        found["Orders.states", "largest_key"]["as_it_is"],
        found["Orders.states", "largest_key_percent"]["as_it_is"],
    )


def test_reads_of_a_file_are_estimates(cli: Foldb, tmp_path: Path) -> None:
    """Five units a second for ten minutes: of 3,000 units 2 units a second serve 1,200."""
    assert 0 == cli("table", "create", "Orders", "id:S", "--read", "10", "--write", "1").exit_code
    buckets = [{"Time": 60_000 * n, "Rows": [100, 200]} for n in range(10)]
    reads = tmp_path / "reads.json"
    reads.write_text(
        json.dumps({"BucketMs": 60_000, "Parts": [{"TableName": "Orders", "Reads": {"Buckets": buckets}}]})
    )

    found = figures(cli, "--read-units", "2", "--reads", str(reads))

    assert [3000, 3000] == [found["Orders", "read_units"][side] for side in ("as_it_is", "changed")]
    throttled = found["Orders", "throttled_read_units"]
    assert (0, 1800) == (throttled["as_it_is"], throttled["changed"])


@pytest.mark.parametrize("heat", [False, True])
def test_reads_of_the_server_are_estimates(tmp_path: Path, heat: bool) -> None:
    """They are the units that it counted, with the heaviest keys if it measures them."""
    with foldb.serve(tmp_path / "db", heat=heat) as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Orders", "id:S", "--gsi", "states=state:S", "--read", "9", "--write", "9")
        put(cli, *(f'{{"id": "{n}", "state": "new"}}' for n in range(4)))
        for key in "0001":
            lines(cli("item", "get", "Orders", key, "--consistent"))
        lines(cli("query", "Orders", "new", "--index", "states"))

        found = figures(cli, "--key", "id:S,state:S", "--reads", "server")
        said = cli("whatif", "Orders", "--on-demand", "--reads", "server")

    sides = {side: found["Orders", "read_units"][side] for side in ("as_it_is", "changed")}
    assert {"as_it_is": 4, "changed": 4} == sides
    assert 0.5 == found["Orders.states", "read_units"]["as_it_is"]
    assert "samples of the server" == found["Orders", "read_units"]["estimated_from"]
    assert "estimated_from" not in found["Orders", "write_units"]
    assert "reads are estimated from samples of the server" in said.stderr
    keys = {name: row for name, row in found.items() if name[1] == "largest_read_key"}
    if heat:
        assert ("0", 75) == (
            keys["Orders", "largest_read_key"]["as_it_is"],
            found["Orders", "largest_read_key_percent"]["as_it_is"],
        )
        assert "changed" not in keys["Orders", "largest_read_key"], "its key is another one"
        assert "new" == keys["Orders.states", "largest_read_key"]["changed"]
    else:
        assert {} == keys


def test_reads_are_those_of_the_period(orders: Foldb, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is asked for the minutes between the counted records."""
    put(orders, *(f'{{"id": "{n}"}}' for n in range(3)))
    rows = [row for row in lines(orders("log", "cat")) if "key" in row]
    asked: list[dict[str, Any]] = []
    admin = Client.admin

    def spy(client: Client, operation: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        asked.extend([body] if body and operation == "Metrics" else [])
        return admin(client, operation, body)

    monkeypatch.setattr(Client, "admin", spy)
    change = ("whatif", "Orders", "--on-demand", "--reads", "server")
    lines(orders(*change))
    lines(orders(*change, "--from", rows[1]["position"], "--to", rows[1]["position"]))

    assert (0, False) == (asked[0]["StartTime"], "EndTime" in asked[0])
    time_ms = round(datetime.fromisoformat(rows[1]["time"]).timestamp() * 1000)
    assert (time_ms, time_ms + 1) == (asked[1]["StartTime"], asked[1]["EndTime"])


def test_reads_of_no_server_name_the_next_step(tmp_path: Path) -> None:
    with foldb.serve(tmp_path / "db") as server:
        at(server.endpoint_url)("table", "create", "Orders", "id:S")

    result = at(tmp_path / "db")("whatif", "Orders", "--read-units", "1", "--reads", "server")

    assert (8, 1) == (result.exit_code, len(result.stderr.splitlines()))
    assert f"no server serves {tmp_path / 'db'}: start it" in result.stderr


def test_a_file_without_reads_is_refused(orders: Foldb, tmp_path: Path) -> None:
    (tmp_path / "reads.json").write_text('{"BucketMs": 60000, "Parts": [{"TableName": "Orders"}]}')

    result = orders("whatif", "Orders", "--on-demand", "--reads", str(tmp_path / "reads.json"))

    assert (2, 1) == (result.exit_code, len(result.stderr.splitlines()))
    assert "has no reads of tables: it is JSON with BucketMs and Parts" in result.stderr


def test_only_the_period_is_counted(orders: Foldb) -> None:
    put(orders, *(f'{{"id": "{n}"}}' for n in range(6)))
    [*_, third, _, fifth, _] = [row["position"] for row in lines(orders("log", "cat")) if "key" in row]

    found = figures(orders, "--drop-index", "states", "--from", third, "--to", fifth)

    assert [3, 5] == [found["Orders", name]["changed"] for name in ("write_units", "items")]


def test_expired_and_restored_items_cost_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with foldb.serve(folder, fsync="never") as server:
        cli = at(server.endpoint_url)
        assert 0 == cli("table", "create", "Past", "id:S", "--ttl", "until").exit_code
        assert 0 == cli("item", "put", "Past", '{"id": "a"}').exit_code
        assert 0 == cli("fork", "Past", "Orders").exit_code
        assert 0 == cli("table", "update", "Orders", "--ttl", "until").exit_code
        put(cli, f'{{"id": "b", "until": {int(time.time()) - 1}}}')
        until(lambda: "b" not in cli("scan", "Orders", "--select", "id", "-o", "raw").stdout.split())
        found = figures(cli, "--on-demand")

    assert (1, 1) == tuple(found["Orders", name]["as_it_is"] for name in ("items", "write_units"))


def test_the_last_table_of_a_name_counts(orders: Foldb) -> None:
    put(orders, '{"id": "a"}', '{"id": "b"}')
    position = lines(orders("log", "cat"))[-1]["position"]
    assert 0 == orders("table", "delete", "Orders", "--yes").exit_code
    gone = orders("whatif", "Orders", "--on-demand")
    before = figures(orders, "--on-demand", "--to", position)
    assert 0 == orders("table", "create", "Orders", "id:S").exit_code
    put(orders, '{"id": "c"}')

    assert (3, True) == (gone.exit_code, "it existed until @" in gone.stderr)
    assert 2 == before["Orders", "items"]["as_it_is"]
    assert 1 == figures(orders, "--on-demand")["Orders", "write_units"]["as_it_is"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "name a change: --add-index"),
        (["--drop-index", "none"], "the table Orders has no such index none; its indexes: states"),
        (["--add-index", "n=state:N"], "state is a key of the table with the type S: write state:S"),
        (["--add-index", "states=n:N"], "DynamoDB would refuse this definition: "),
        (["--write-units", "5"], "the table is on demand: give both --read-units and --write-units"),
        (["--move", "id"], "id is a key of the table, and cannot be moved"),
        (["--move", "state"], "state is a key of the index states, and cannot be moved"),
        (["--move", "a", "--key", "a:S"], "--move keeps the key of the table"),
        (["--on-demand", "--read-units", "5"], "--on-demand has no units"),
        (["--on-demand", "--from", "1", "--to", "0"], "--from 1 is after --to 0"),
        (["--on-demand", "--from", "99"], "the log ends at @"),
    ],
)
def test_a_change_that_is_impossible_is_refused(options: list[str], sentence: str, orders: Foldb) -> None:
    result = orders("whatif", "Orders", *options)

    assert result.exit_code in (2, 3)
    assert sentence in result.stderr
    assert 1 == len(result.stderr.splitlines())
