"""Transactions, and an application of goods and containers."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.claims import invalid, refused
from tests.support.tables import MakeTable


@pytest.fixture
def table(make_table: MakeTable) -> Any:
    return make_table("pk:S")


def _put(table: Any, pk: str, **attributes: Any) -> dict[str, Any]:
    return {"Put": {"TableName": table.name, "Item": {"pk": pk, **attributes}}}


def _check(table: Any, pk: str, condition: str) -> dict[str, Any]:
    return {"ConditionCheck": {"TableName": table.name, "Key": {"pk": pk}, "ConditionExpression": condition}}


def _reasons(error: ClientError) -> list[str]:
    reasons: list[dict[str, Any]] = error.response["CancellationReasons"]
    return [reason["Code"] for reason in reasons]


@pytest.mark.spec("S80")
def test_a_transaction_writes_all_over_several_tables(make_table: MakeTable) -> None:
    left, right = make_table("pk:S"), make_table("pk:S")
    left.meta.client.transact_write_items(TransactItems=[_put(left, "a"), _put(right, "b")])

    assert (1, 1) == (left.scan()["Count"], right.scan()["Count"])


@pytest.mark.spec("S80", "S82")
def test_a_transaction_writes_nothing_when_one_condition_fails(table: Any) -> None:
    table.put_item(Item={"pk": "there"})

    with pytest.raises(ClientError) as caught:
        table.meta.client.transact_write_items(
            TransactItems=[
                _put(table, "new"),
                _check(table, "there", "attribute_not_exists(pk)"),
                _put(table, "x"),
            ]
        )

    assert ["None", "ConditionalCheckFailed", "None"] == _reasons(caught.value)
    assert [{"pk": "there"}] == table.scan()["Items"]


@pytest.mark.spec("S80")
def test_a_transaction_reads_its_items_in_order(table: Any) -> None:
    table.put_item(Item={"pk": "a", "n": 1})
    keys = ["a", "missing", "a2"]
    gets = [{"Get": {"TableName": table.name, "Key": {"pk": pk}}} for pk in keys]
    table.put_item(Item={"pk": "a2", "n": 2})
    found = table.meta.client.transact_get_items(TransactItems=gets)["Responses"]

    assert [{"Item": {"pk": "a", "n": 1}}, {}, {"Item": {"pk": "a2", "n": 2}}] == found


@pytest.mark.spec("S80")
def test_a_transaction_has_at_most_100_actions(table: Any) -> None:
    client = table.meta.client
    client.transact_write_items(TransactItems=[_put(table, f"k{n}") for n in range(100)])

    assert 100 == table.scan()["Count"]
    with invalid("Member must have length less than or equal to 100"):
        client.transact_write_items(TransactItems=[_put(table, f"k{n}") for n in range(101)])


@pytest.mark.spec("S80")
def test_a_transaction_has_at_most_four_mib(table: Any) -> None:
    large = "x" * 390_000

    with invalid("4"):
        table.meta.client.transact_write_items(
            TransactItems=[_put(table, f"k{n}", d=large) for n in range(11)]
        )
    assert 0 == table.scan()["Count"]


@pytest.mark.spec("S80")
def test_a_token_makes_a_repeated_transaction_one(table: Any) -> None:
    add = {
        "Update": {
            "TableName": table.name,
            "Key": {"pk": "a"},
            "UpdateExpression": "ADD n :one",
            "ExpressionAttributeValues": {":one": 1},
        }
    }
    token = f"token-{table.name}"
    for _ in range(3):
        table.meta.client.transact_write_items(TransactItems=[add], ClientRequestToken=token)

    assert 1 == table.get_item(Key={"pk": "a"})["Item"]["n"]
    with refused("IdempotentParameterMismatchException"):
        table.meta.client.transact_write_items(TransactItems=[_put(table, "b")], ClientRequestToken=token)


@pytest.mark.spec("S80")
def test_a_reader_sees_all_of_a_transaction_or_nothing(table: Any) -> None:
    """Two items that transactions always make equal are never read apart."""
    client = table.meta.client
    gets = [{"Get": {"TableName": table.name, "Key": {"pk": pk}}} for pk in "ab"]

    def write(n: int) -> None:
        client.transact_write_items(TransactItems=[_put(table, "a", n=n), _put(table, "b", n=n)])

    def read(_: int) -> bool:
        a, b = client.transact_get_items(TransactItems=gets)["Responses"]
        return bool(a == {} == b or a["Item"]["n"] == b["Item"]["n"])

    with ThreadPoolExecutor(8) as pool:
        writes = [pool.submit(write, n) for n in range(40)]
        assert all(pool.map(read, range(100)))
        for done in writes:
            done.result()


@pytest.mark.spec("S82", "X11")
def test_a_condition_check_writes_nothing_and_shows_no_other_item(table: Any) -> None:
    table.put_item(Item={"pk": "a", "n": 1})
    table.meta.client.transact_write_items(
        TransactItems=[_check(table, "a", "attribute_exists(n)"), _put(table, "b")]
    )

    assert {"pk": "a", "n": 1} == table.get_item(Key={"pk": "a"})["Item"]
    with invalid("Transaction request cannot include multiple operations on one item"):
        table.meta.client.transact_write_items(
            TransactItems=[_check(table, "a", "attribute_exists(n)"), _put(table, "a")]
        )


class Freight:
    """A shipping desk: item001 starts unmapped, and cx1 has one place left."""

    def __init__(self, make_table: MakeTable, room: int) -> None:
        self.goods, self.containers = make_table("id:S"), make_table("id:S")
        for item, what in (("item001", "Book shelf"), ("item002", "Computer desk")):
            self.goods.put_item(Item={"id": item, "description": {"Type": what}})
        self.goods.put_item(Item={"id": "item003", "container_id": "cx3"})
        self.containers.put_item(Item={"id": "cx1", "shipmentlist": [], "freecapacity": room})

    def load(self, item: str, container: str) -> list[str]:
        """Map the item to the container; answers [] or why not, a reason for each of the two actions."""
        try:
            self.goods.meta.client.transact_write_items(
                TransactItems=[self._map(item, container), self._add(item, container)]
            )
        except ClientError as error:
            return _reasons(error)
        return []

    def _map(self, item: str, container: str) -> dict[str, Any]:
        return {
            "Update": {
                "TableName": self.goods.name,
                "Key": {"id": item},
                "UpdateExpression": "SET container_id = :c",
                "ConditionExpression": "attribute_not_exists(container_id)",
                "ExpressionAttributeValues": {":c": container},
            }
        }

    def _add(self, item: str, container: str) -> dict[str, Any]:
        return {
            "Update": {
                "TableName": self.containers.name,
                "Key": {"id": container},
                "UpdateExpression": "SET freecapacity = freecapacity - :one, "
                "shipmentlist = list_append(shipmentlist, :i)",
                "ConditionExpression": "freecapacity > :zero",
                "ExpressionAttributeValues": {":one": 1, ":zero": 0, ":i": [item]},
            }
        }

    def container(self) -> tuple[int, list[str]]:
        cx1 = self.containers.get_item(Key={"id": "cx1"}, ConsistentRead=True)["Item"]
        return int(cx1["freecapacity"]), cx1["shipmentlist"]


@pytest.mark.spec("S83")
def test_an_item_is_mapped_to_a_container_with_room(make_table: MakeTable) -> None:
    freight = Freight(make_table, room=5)

    assert [] == freight.load("item001", "cx1")
    assert "cx1" == freight.goods.get_item(Key={"id": "item001"})["Item"]["container_id"]
    assert (4, ["item001"]) == freight.container()


@pytest.mark.spec("S83")
def test_an_item_that_is_already_mapped_is_refused(make_table: MakeTable) -> None:
    freight = Freight(make_table, room=5)

    assert ["ConditionalCheckFailed", "None"] == freight.load("item003", "cx1")
    assert (5, []) == freight.container()


@pytest.mark.spec("S83")
def test_a_full_container_is_refused(make_table: MakeTable) -> None:
    freight = Freight(make_table, room=0)

    assert ["None", "ConditionalCheckFailed"] == freight.load("item001", "cx1")
    assert "container_id" not in freight.goods.get_item(Key={"id": "item001"})["Item"]


@pytest.mark.spec("S83")
def test_of_two_that_race_for_the_last_place_one_wins(make_table: MakeTable) -> None:
    freight = Freight(make_table, room=1)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda item: freight.load(item, "cx1"), ["item001", "item002"]))
    free, loaded = freight.container()

    assert 1 == results.count([])
    assert (0, 1) == (free, len(loaded))
    winner = ["item001", "item002"][results.index([])]
    assert [winner] == loaded
