"""Restores, forks and undo on several nodes, asked at nodes that own none or some of the partitions."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from foldb.model.cuts import time_text
from tests.behaviour.cli.conftest import at, lines
from tests.behaviour.cluster.processes import Nodes
from tests.support.raw import Answer, ask
from tests.support.tables import table_request

KEYS = 12
_CLUSTER = "Foldb_20261121.Cluster"
_PATIENCE_S = 60

Items = dict[str, dict[str, Any]]


@pytest.fixture(scope="module", params=[1, 4])
def nodes(
    request: pytest.FixtureRequest, kafka: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nodes]:
    """Yield two nodes. One of them owns nothing if there is one partition."""
    folder = tmp_path_factory.mktemp("nodes")
    with Nodes(folder, kafka, 2, "--partitions", str(request.param)) as nodes:
        nodes.settle()
        yield nodes


def request(url: str, operation: str, body: dict[str, Any], **headers: str) -> Answer:
    """Send a request that must succeed."""
    answer = ask(url, operation, body, **headers)
    assert answer.status == 200, answer.body
    return answer


def wait_for_table(url: str, name: str) -> None:
    """Wait until a table is active at a node."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        found = ask(url, "DescribeTable", {"TableName": name})
        if found.status == 200 and found.body["Table"]["TableStatus"] == "ACTIVE":
            return
        assert time.monotonic() < until, found.body
        time.sleep(0.02)  # a poll, as SDKs do


def scan(url: str, table: str) -> Items:
    """Return all items of a table by their keys."""
    items, page = {}, {"TableName": table, "ConsistentRead": "@" not in table}
    while True:
        answer = request(url, "Scan", page).body
        items.update({item["pk"]["S"]: item for item in answer["Items"]})
        if "LastEvaluatedKey" not in answer:
            return items
        page["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


def put(url: str, table: str, key: str, colour: str, **headers: str) -> Answer:
    item = {"pk": {"S": key}, "colour": {"S": colour}}
    return request(url, "PutItem", {"TableName": table, "Item": item}, **headers)


def create(url: str, name: str) -> None:
    """Create a table with point-in-time recovery, and put items into it."""
    request(url, "CreateTable", table_request(name, "pk:S", gsi={"by-colour": "colour:S"}))
    wait_for_table(url, name)
    recovery = {"PointInTimeRecoveryEnabled": True}
    request(url, "UpdateContinuousBackups", {"TableName": name, "PointInTimeRecoverySpecification": recovery})
    for n in range(KEYS):
        put(url, name, f"{n}", "red")


def change(url: str, name: str) -> None:
    """Replace, delete and add items."""
    for n in range(0, KEYS, 3):
        put(url, name, f"{n}", "blue")
    for n in range(1, KEYS, 3):
        request(url, "DeleteItem", {"TableName": name, "Key": {"pk": {"S": f"{n}"}}})
    put(url, name, "new", "green")


def cut_after(url: str, name: str) -> str:
    """Return a time that all earlier writes are before, and all later ones after."""
    answer = request(url, "Scan", {"TableName": f"{name}@-0"})
    return time_text(int(answer.headers["x-foldb-log-time"]))


def test_each_node_restores_into_a_new_table(nodes: Nodes) -> None:
    """From a cut, from a backup, to a point in time, and by a fork; the request comes to either node."""
    first, second = nodes.urls
    create(first, "Source")
    backup = {"TableName": "Source", "BackupName": "before"}
    arn = request(second, "CreateBackup", backup).body["BackupDetails"]["BackupArn"]
    cut = cut_after(second, "Source")
    expected = scan(first, "Source")
    change(second, "Source")
    changed = scan(first, "Source")

    for n, url in enumerate((first, second)):
        foldb = at(url)
        assert 0 == foldb("restore", "Source", "--as-of", cut, "--into", f"Cut{n}").exit_code
        assert 0 == foldb("fork", "Source", f"Fork{n}").exit_code
        request(url, "RestoreTableFromBackup", {"TargetTableName": f"Backup{n}", "BackupArn": arn})
        latest = {
            "SourceTableName": "Source",
            "TargetTableName": f"Latest{n}",
            "UseLatestRestorableTime": True,
        }
        request(url, "RestoreTableToPointInTime", latest)
        for name in (f"Backup{n}", f"Latest{n}"):
            wait_for_table(url, name)

    for url in (first, second):
        for n in range(2):
            assert expected == scan(url, f"Cut{n}") == scan(url, f"Backup{n}") == scan(url, f"Source@{cut}")
            assert changed == scan(url, f"Fork{n}") == scan(url, f"Latest{n}")


def test_each_node_restores_in_place_and_undoes(nodes: Nodes) -> None:
    first, second = nodes.urls
    for n, url in enumerate((first, second)):
        name, foldb = f"InPlace{n}", at(url)
        create(first, name)
        cut = cut_after(second, name)
        expected = scan(first, name)

        change(second, name)
        one = foldb("restore", name, "--as-of", cut, "--key", "1", "--yes")
        assert [("put", {"pk": "1"})] == [(row["change"], row["key"]) for row in lines(one)]
        assert expected["1"] == scan(first, name)["1"]
        assert 0 == foldb("restore", name, "--as-of", cut, "--in-place", "--yes").exit_code
        assert expected == scan(first, name) == scan(second, name)

        mistake = put(second, name, "2", "wrong").headers["x-foldb-position"]
        assert 0 == foldb("undo", mistake, "--yes").exit_code
        assert expected == scan(first, name)

        for key in range(KEYS):
            put(first if key % 2 else second, name, f"{key}", "wrong", Authorization=_signed_by("mallory"))
        undone = foldb("undo", "--by", "mallory", "--from", cut, name, "--yes")
        assert 0 == undone.exit_code, undone.output
        assert expected == scan(first, name) == scan(second, name)


def _signed_by(principal: str) -> str:
    credential = f"Credential={principal}/20261121/us-east-1/dynamodb/aws4_request"
    return f"AWS4-HMAC-SHA256 {credential}, SignedHeaders=host, Signature=0"


LARGE = 9_000
"""Items of the table whose restore is interrupted: some pages in each partition."""


@pytest.mark.soak
@pytest.mark.parametrize("role", ["catalog", "source"])
def test_a_restore_goes_on_under_a_new_owner(kafka: str, role: str, tmp_path: Path) -> None:
    """The owner of the catalog copies the items; it, or an owner of source and target, is killed in the middle."""
    with Nodes(tmp_path, kafka, 3, "--partitions", "3") as nodes:
        nodes.settle()
        url = nodes.urls[0]
        request(url, "CreateTable", table_request("Source", "pk:S"))
        wait_for_table(url, "Source")
        for start in range(0, LARGE, 25):
            puts = [{"PutRequest": {"Item": _large(n)}} for n in range(start, min(start + 25, LARGE))]
            request(nodes.urls[start % 3], "BatchWriteItem", {"RequestItems": {"Source": puts}})
        backup = {"TableName": "Source", "BackupName": "large"}
        arn = request(url, "CreateBackup", backup).body["BackupDetails"]["BackupArn"]
        request(url, "DeleteItem", {"TableName": "Source", "Key": {"pk": {"S": "0"}}})
        scan(url, "Source@-0")  # the histories are folded: the copy does not wait for them

        killed = _number_of_owner(nodes, role)
        asked, other = [each for n, each in enumerate(list(nodes.urls)) if n != killed]
        request(asked, "RestoreTableFromBackup", {"TargetTableName": "Target", "BackupArn": arn})
        _wait_for_copy(asked)
        nodes.kill(killed)
        begun = ask(asked, "DescribeTable", {"TableName": "Target"}).body["Table"]["TableStatus"]
        wait_for_table(other, "Target")

        assert begun == "CREATING"
        assert {f"{n}": _large(n) for n in range(LARGE)} == scan(other, "Target")


def _large(n: int) -> dict[str, Any]:
    return {"pk": {"S": f"{n}"}, "text": {"S": f"{n} " * 60}}


def _number_of_owner(nodes: Nodes, role: str) -> int:
    """Return the node that owns the catalog, or one that owns a data partition and not the catalog."""
    owners = [each["Owner"] for each in request(nodes.urls[0], _CLUSTER, {}).body["Partitions"]]
    addresses = [request(url, _CLUSTER, {}).body["Address"] for url in nodes.urls]
    owner = owners[0] if role == "catalog" else next(each for each in owners if each != owners[0])
    return addresses.index(owner)


def _wait_for_copy(url: str) -> None:
    """Wait until a restore has copied items."""
    until = time.monotonic() + _PATIENCE_S
    while request(url, "Foldb_20261121.Status", {}).body["Items"] <= LARGE:
        assert time.monotonic() < until
