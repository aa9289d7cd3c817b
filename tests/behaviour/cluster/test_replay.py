"""Three nodes in this process on a real broker: their states are compared, rebuilt, snapshotted and restored."""

import json
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import foldb
from foldb.embedded import Server
from foldb.log.local.filesystem import SystemFilesystem
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.refold import refold_log
from foldb.materializer.snapshot import SnapshotHead, write_snapshot
from foldb.materializer.snapshot_scheduler import COMMAND
from foldb.materializer.snapshot_worker import SnapshotJob
from foldb.model.slots import CATALOG
from foldb.server.cluster import catalog_copy
from tests.behaviour.cli.conftest import at, lines
from tests.support.raw import Answer, ask
from tests.support.tables import table_request

ITEMS = 60
PARTITIONS = 2
_CLUSTER = "Foldb_20261121.Cluster"
_PATIENCE_S = 30


def wait_for(holds: Callable[[], bool]) -> None:
    """Poll until a condition holds that no event announces."""
    until = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.02)


def create(url: str, table: str, **settings: Any) -> None:
    """Create a table, and wait until it is active."""
    assert 200 == ask(url, "CreateTable", table_request(table, "pk:S", **settings)).status
    wait_until_active(url, table)


def wait_until_active(url: str, table: str) -> None:
    describe = {"TableName": table}
    wait_for(lambda: ask(url, "DescribeTable", describe).body["Table"]["TableStatus"] == "ACTIVE")


class Three:
    """Three nodes with the table Cars; a node can be started and stopped."""

    def __init__(self, folder: Path, log: str) -> None:
        self.folder = folder
        self.log = log
        with ThreadPoolExecutor(3) as starts:
            self.nodes = list(starts.map(self.start, ["node-0", "node-1", "node-2"]))
        self.settle()
        self.create("Cars")
        for n in range(ITEMS):
            put = {"TableName": "Cars", "Item": {"pk": {"S": f"{n}"}, "colour": {"S": "red"}}}
            assert 200 == ask(self.urls[n % 3], "PutItem", put).status

    def start(self, name: str) -> Server:
        return foldb.serve(self.folder / name, log=self.log, partitions=PARTITIONS)

    def create(self, table: str, **settings: Any) -> None:
        create(self.urls[0], table, **settings)

    @property
    def urls(self) -> list[str]:
        return [node.endpoint_url for node in self.nodes]

    def cluster(self, url: str) -> dict[str, Any]:
        body: dict[str, Any] = ask(url, _CLUSTER, {}).body
        return body

    def settle(self) -> None:
        """Wait until every partition has an owner and a standby, and every node knows it."""
        wait_for(lambda: all(self._is_settled(self.cluster(url)) for url in self.urls))

    def _is_settled(self, reported: dict[str, Any]) -> bool:
        return sum(each["Answers"] for each in reported["Nodes"]) == len(self.nodes) and all(
            not one["Moving"] and one["OwnerLag"] == one["StandbyLag"] == 0 for one in reported["Partitions"]
        )

    def node_of(self, partition: int, role: str) -> tuple[str, Server]:
        """Return the address and the server of a partition's owner or standby."""
        address = self.cluster(self.urls[0])["Partitions"][partition][role]
        found = [node for node in self.nodes if self.cluster(node.endpoint_url)["Address"] == address]
        return address, found[0]


@pytest.fixture(scope="module")
def three(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    three = Three(tmp_path_factory.mktemp("three"), f"kafka://{kafka}/{uuid.uuid4().hex[:12]}")
    yield three
    for node in three.nodes:
        node.stop()


def plant(node: Server, partition: int) -> None:
    """Replace an item of the node's state, as a bug or a bit of its memory might."""
    table = node._serving.node.partitions.hosted[partition].state.table_named("Cars")
    assert table is not None
    _, pk, sk, (_, size) = next(iter(table.items.scan()))
    done = threading.Event()

    def put() -> None:
        table.items.put(pk, sk, (b"{}", size))
        done.set()

    node._loop.call_soon_threadsafe(put)
    assert done.wait(_PATIENCE_S)


@pytest.mark.spec("H1", "H2")
@pytest.mark.parametrize("role", ["Owner", "Standby"])
def test_a_wrong_item_of_one_node_is_found_and_mended(
    three: Three, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, node = three.node_of(1, role)
    plant(node, 1)
    asked = next(url for url in three.urls if url != node.endpoint_url)

    found = at(asked)("verify")
    with monkeypatch.context() as without_access:
        without_access.setenv("FOLDB_KAFKA_SECURITY_PROTOCOL", "NONE")
        compared = at(asked)("verify")
    mended = at(asked)("rebuild", "Cars")

    assert 9 == found.exit_code, found.output
    assert "position 1:" in found.stderr
    assert f"node {address} has the digest" in found.stderr
    assert "the table Cars differs. `foldb rebuild Cars`" in found.stderr
    assert found.stderr.count("has the digest") == 1, "the other nodes are right"
    assert 9 == compared.exit_code, compared.output
    assert "have different states: the table Cars differs" in compared.stderr
    assert f"node {address}" in compared.stderr
    assert (1, False) == (mended.exit_code, json.loads(mended.stdout)["same"])
    assert f"Cars differed from its log on node {address} and was replaced" in mended.stderr
    for url in three.urls:
        assert [1 + 2 * PARTITIONS + 2] == sorted({row["compared"] for row in lines(at(url)("verify"))})


def test_verify_compares_all_nodes_beside_writes(three: Three) -> None:
    """The owner and the standby of a partition are never at the same entry for long."""
    stopped = threading.Event()

    def write(n: int) -> int:
        written = 0
        while not stopped.is_set():
            item = {"pk": {"S": f"{n % ITEMS}"}, "colour": {"S": f"{written}"}}
            written += ask(three.urls[n % 3], "PutItem", {"TableName": "Cars", "Item": item}).status == 200
        return written

    with ThreadPoolExecutor(8) as writers:
        written = [writers.submit(write, n) for n in range(8)]
        try:
            answers = [ask(url, "Foldb_20261121.Digest", {}).body for url in three.urls]
        finally:
            stopped.set()

    assert all(each.result() for each in written)
    for answer in answers:
        assert [] == answer["Errors"]
        digests = [(each["Position"], each["Digest"]) for each in answer["Digests"]]
        assert 3 + 2 * PARTITIONS == len(digests)
        assert 1 + PARTITIONS == len({*digests}) == len({position for position, _ in digests})


def test_every_node_rebuilds_a_table_and_finds_no_difference(three: Three) -> None:
    for url in three.urls:
        [row] = lines(at(url)("rebuild", "Cars"))
        assert (ITEMS, True) == (row["items"], row["same"])


@pytest.mark.spec("H1")
def test_any_node_restores_a_table_as_of_a_time(three: Three) -> None:
    """The table is deleted by then."""
    first = three.urls[0]
    three.create("Past")
    for n in range(9):
        written = ask(first, "PutItem", {"TableName": "Past", "Item": {"pk": {"S": f"{n}"}}})
    last_ms = int(written.headers["x-foldb-log-time"])
    wait_for(lambda: time.time() * 1000 > last_ms + 20)  # the next record has a later log time
    assert 200 == ask(first, "DeleteItem", {"TableName": "Past", "Key": {"pk": {"S": "0"}}}).status
    assert 200 == ask(first, "DeleteTable", {"TableName": "Past"}).status
    moment = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(last_ms / 1000))}.{last_ms % 1000:03}Z"

    for n, url in enumerate(three.urls):
        restored = at(url)("restore", "Past", "--as-of", moment, "--into", f"Restored{n}")
        assert 0 == restored.exit_code, restored.output
        assert 9 == ask(url, "Scan", {"TableName": f"Restored{n}", "ConsistentRead": True}).body["Count"]


def test_the_present_has_every_write_whatever_a_node_s_clock(
    three: Three, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node's clock is behind, and it does not fold the partition of the item."""
    slow = next(node for node in three.nodes if 1 not in node._serving.node.partitions.hosted)
    database = slow._serving.node
    clock = database.clock
    monkeypatch.setattr(database, "clock", lambda: clock() - 5_000)
    key = next(f"{n}" for n in range(ITEMS) if "1" == position_of(put_car(three, f"{n}", "red"))[0])

    written = position_of(put_car(three, key, "blue"))
    history = ask(
        slow.endpoint_url, "Foldb_20261121.ItemHistory", {"TableName": "Cars", "Key": {"pk": {"S": key}}}
    )
    backup = ask(slow.endpoint_url, "CreateBackup", {"TableName": "Cars", "BackupName": "now"})
    forked = ask(slow.endpoint_url, "Foldb_20261121.Fork", {"TableName": "Cars", "TargetTableName": "Forked"})
    put_car(three, key, "green")
    arn = backup.body["BackupDetails"]["BackupArn"]
    target = {"TargetTableName": "Backup", "BackupArn": arn}
    restored = ask(slow.endpoint_url, "RestoreTableFromBackup", target)

    assert (200, 200) == (forked.status, restored.status)
    assert written == history.body["Versions"][0]["Position"]
    for table in ("Forked", "Backup"):
        wait_until_active(three.urls[0], table)
        found = ask(three.urls[0], "GetItem", {"TableName": table, "Key": {"pk": {"S": key}}})
        assert {"S": "blue"} == found.body["Item"]["colour"]


def put_car(three: Three, key: str, colour: str) -> Answer:
    """Put an item through the first node."""
    item = {"pk": {"S": key}, "colour": {"S": colour}}
    answer = ask(three.urls[0], "PutItem", {"TableName": "Cars", "Item": item})
    assert answer.status == 200
    return answer


def position_of(answer: Answer) -> str:
    return answer.headers["x-foldb-position"]


@pytest.mark.spec("H10")
@pytest.mark.guarantee("G16")
def test_a_node_with_an_empty_disk_copies_snapshots(three: Three, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other nodes fold the log up to the snapshots before it starts. The catalog's snapshot is copied too."""
    monkeypatch.setattr(catalog_copy, "FEWEST_RECORDS", 1)
    made = lines(at(three.folder / "node-0")("snapshot", "make", three.log))
    leaves = next(node for node in three.nodes if node.settings.path != three.folder / "node-0")
    three.nodes.remove(leaves)
    leaves.stop()

    node = three.start("node-3")
    three.nodes.append(node)
    three.settle()

    hosted = node._serving.node.partitions.hosted
    folded = {each.partition_id: each.worker.statistics().refolded for each in hosted.values()}
    positions = {row["position"] for row in lines(at(three.folder / "node-3")("snapshot", "list"))}
    assert positions, "the node has copied no snapshot"
    assert positions <= {row["position"] for row in made}
    partitions = {int(position.partition(":")[0]) for position in positions}
    assert CATALOG in partitions
    assert all(folded[partition] < 10 for partition in partitions & folded.keys()), "it folds the rest alone"
    assert 0 == at(node.endpoint_url)("verify").exit_code


@pytest.mark.spec("H10")
@pytest.mark.guarantee("G16")
def test_the_only_partition_is_copied_to_an_empty_disk(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its snapshot is copied before the node joins the group, because it holds the catalog."""
    monkeypatch.setattr(catalog_copy, "FEWEST_RECORDS", 1)
    log = f"kafka://{kafka}/{uuid.uuid4().hex[:12]}"
    with foldb.serve(tmp_path / "first", log=log) as first:
        create(first.endpoint_url, "Cars")
        for n in range(ITEMS):
            put = {"TableName": "Cars", "Item": {"pk": {"S": f"{n}"}}}
            assert 200 == ask(first.endpoint_url, "PutItem", put).status
        [made] = lines(at(tmp_path / "first")("snapshot", "make", log))
        with caplog.at_level("INFO"), foldb.serve(tmp_path / "second", log=log) as second:
            folded = second._serving.node.partitions.hosted[CATALOG].worker.statistics().refolded
            scans = [ask(url.endpoint_url, "Scan", {"TableName": "Cars"}).body for url in (first, second)]

    assert f"copied the snapshot @0:{made['position']} from node" in caplog.text
    assert folded < ITEMS / 2
    assert scans[0] == scans[1]
    assert ITEMS == scans[0]["Count"]


def test_a_node_folds_a_catalog_that_no_peer_offers(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other node has no snapshot; then there is no other node."""
    monkeypatch.setattr(catalog_copy, "FEWEST_RECORDS", 1)
    log = f"kafka://{kafka}/{uuid.uuid4().hex[:12]}"
    with foldb.serve(tmp_path / "first", log=log) as first:
        create(first.endpoint_url, "Cars")
        with foldb.serve(tmp_path / "second", log=log) as second:
            assert ["Cars"] == ask(second.endpoint_url, "ListTables", {}).body["TableNames"]
    with foldb.serve(tmp_path / "third", log=log) as third:
        assert ["Cars"] == ask(third.endpoint_url, "ListTables", {}).body["TableNames"]


@pytest.mark.guarantee("G36")
def test_a_restart_from_a_snapshot_keeps_the_feed(three: Three) -> None:
    """The changes are in the node's folder; those after the snapshot's position are folded again.

    A partition that the node did not fold before is folded from its beginning, which makes its changes.
    """
    stream = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
    three.create("Streamed", StreamSpecification=stream)

    def put(numbers: range) -> None:
        for n in numbers:
            item = {"TableName": "Streamed", "Item": {"pk": {"S": f"{n}"}}}
            assert 200 == ask(three.urls[n % len(three.urls)], "PutItem", item).status

    put(range(20))
    restarts = three.nodes[1]
    folder = restarts.settings.path
    assert folder is not None
    subprocess.run(COMMAND, input=SnapshotJob(str(folder), kafka=three.log).encode(), check=True)
    put(range(20, 30))
    before = {*restarts._serving.node.partitions.hosted}
    three.nodes.remove(restarts)
    restarts.stop()
    put(range(30, 40))

    node = three.start(folder.name)
    three.nodes.append(node)
    three.settle()

    hosted = node._serving.node.partitions.hosted
    folded = {each.partition_id: each.worker.statistics().refolded for each in hosted.values()}
    assert all(folded[partition] < ITEMS / 2 for partition in before & folded.keys()), folded
    tailed = lines(at(node.endpoint_url)("stream", "tail", "--table", "Streamed", "--from", "horizon"))
    assert {f"{n}" for n in range(40)} == {row["keys"]["pk"] for row in tailed}
    assert 40 == len(tailed)


@pytest.mark.guarantee("G16")
def test_a_snapshot_of_another_history_is_named_by_verify(three: Three) -> None:
    """Its head has the right log and record, and a chain that this log does not have."""
    address, node = three.node_of(2, "Owner")
    log: Any = node._serving.node.log
    state = PartitionState()
    refold_log(state, log, 2)
    snapshots = node._serving.node.partitions.snapshots(2)
    assert snapshots is not None
    head = SnapshotHead.of(state, log.hash_of(2, state.next_offset - 1), bytes(16))
    snapshots.folder.mkdir(exist_ok=True)
    path = snapshots.path(head.offset)
    write_snapshot(SystemFilesystem().open(path, create=True), head, state)

    found = at(three.urls[0])("verify")
    path.unlink()

    assert 9 == found.exit_code, found.output
    assert (
        f"the snapshot of node {address} has the chain {'00' * 16}, the log has another history"
        in found.stderr
    )
