"""Stored answers of two nodes on Kafka, read again at their positions through each, also after the owners moved."""

from pathlib import Path
from typing import Any

import pytest

from foldb.server.api.dispatch import ADMIN_API
from tests.behaviour.cluster.processes import Nodes
from tests.support.raw import ask
from tests.support.subscribed import until
from tests.support.tables import table_request
from tests.verification.histories.stored_answers import Run, check_again, live


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_stored_answers_are_given_again_by_each_node(kafka: str, seed: int, tmp_path: Path) -> None:
    with Nodes(tmp_path, kafka, 2) as nodes:
        runs = live(nodes.urls, seed, steps=150)
        assert sum(len(run.stored) for run in runs) > 100
        for url in nodes.urls:
            check_again(url, runs)
        check_moves(nodes, runs)


@pytest.mark.soak
def test_old_changes_are_the_same_through_each_node(kafka: str, tmp_path: Path) -> None:
    """The table gets its stream last, so most of its changes are in the histories of the partitions' nodes."""
    with Nodes(tmp_path, kafka, 2) as nodes:
        url = nodes.urls[0]
        ask(url, "CreateTable", table_request("Orders", "id:S"))
        for n in range(40):
            put = {"TableName": "Orders", "Item": {"id": {"S": f"o{n % 10}"}, "n": {"N": str(n)}}}
            until(lambda put=put: ask(url, "PutItem", put).status == 200)  # type: ignore[misc]
        stream = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
        ask(url, "UpdateTable", {"TableName": "Orders", "StreamSpecification": stream})
        nodes.settle()
        found = [old_changes(url) for url in nodes.urls]
        nodes.kill(0)
        nodes.settle()
        found.append(old_changes(nodes.urls[0]))

    assert list(range(40)) == sorted(int(change["new"]["n"]["N"]) for change in found[0])
    assert found[0] == found[1] == found[2]


def old_changes(url: str) -> list[Any]:
    """Return all changes of the table from its beginning, read by pages."""
    found: list[Any] = []
    request: dict[str, Any] = {"TableNames": ["Orders"], "Limit": 3, "Start": {"At": "BEGINNING"}}
    while True:
        page = until(lambda: answered(url, request))
        found += page["Changes"]
        if page["IsEnd"] and not page["Changes"]:
            return sorted(found, key=lambda each: (each["time"], each["number"]))
        request["After"] = page["Next"]


def answered(url: str, request: dict[str, Any]) -> Any:
    """Return the answer; None for an error that a client retries."""
    answer = ask(url, f"{ADMIN_API}Changes", request)
    return answer.body if answer.status == 200 else None


def check_moves(nodes: Nodes, runs: list[Run]) -> None:
    """Kill each node in turn: the other owns all partitions, and then some of them move back."""
    for number in range(2):
        nodes.settle()
        nodes.kill(number)
        nodes.settle()
        check_again(nodes.urls[0], runs)
        nodes.start(number)
    nodes.settle()
    for url in nodes.urls:
        check_again(url, runs)
