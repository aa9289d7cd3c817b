"""The feed and triggers of nodes that share a log: every node answers for all."""

from pathlib import Path

from tests.behaviour.cli.conftest import at, lines
from tests.behaviour.cluster.processes import Nodes
from tests.support.broker import kafka

__all__ = ["kafka"]


def test_every_node_has_all_changes_and_triggers(kafka: str, tmp_path: Path, triggers: Path) -> None:
    with Nodes(tmp_path, kafka, 2, "--triggers", str(triggers)) as nodes:
        nodes.settle()
        first, second = (at(url) for url in nodes.urls)
        assert 0 == first("table", "create", "Orders", "id:N", "--stream").exit_code
        added = first("trigger", "add", "receipts", "--table", "Orders", "--python", "receipts.py:send")
        assert 0 == added.exit_code, added.output
        items = "".join(f'{{"id": {number}}}\n' for number in range(40))
        assert 0 == second("item", "put", "Orders", "-", stdin=items).exit_code

        for cli in (first, second):
            changes = lines(cli("stream", "tail", "--table", "Orders"))
            assert list(range(40)) == sorted(change["keys"]["id"] for change in changes)
            partitions = {change["position"].partition(":")[0] for change in changes}
            assert 1 < len(partitions)
            [described] = lines(cli("stream", "describe", "Orders"))
            assert partitions <= {str(each["Partition"]) for each in described["Partitions"]}
            [listed] = lines(cli("trigger", "list"))
            assert ("receipts", "ACTIVE") == (listed["trigger"], listed["status"])
            waited = cli("wait", "--triggers", "--timeout", "60s")
            assert 0 == waited.exit_code, waited.output
            assert 0 == sum(row["changes"] for row in lines(cli("trigger", "lag")))
