"""A transaction over partitions that is repeated with its token is applied once, however often its server dies."""

import random
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from threading import Condition

import pytest

from tests.support.raw import ask
from tests.support.served import Process
from tests.support.tables import table_request

TABLE, COUNTERS, TOKENS, CLIENTS, RUNS = "Counters", 12, 120, 8, 3
PATIENCE_S = 30


class _Current:
    """The server of this run, and the number of answered tokens."""

    def __init__(self) -> None:
        self.url = ""
        self.done = 0
        self._changed = Condition()

    def serve(self, url: str) -> None:
        with self._changed:
            self.url = url
            self._changed.notify_all()

    def wait_for_another(self, than: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.url != than, PATIENCE_S), "no server came back"

    def count(self) -> None:
        with self._changed:
            self.done += 1
            self._changed.notify_all()

    def wait_for_done(self, tokens: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.done >= tokens, PATIENCE_S), f"{self.done} are done"


@pytest.mark.parametrize("seed", [0])
def test_a_request_repeated_with_its_token_is_applied_once(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    wanted = [dice.sample(range(COUNTERS), 3) for _ in range(TOKENS)]
    current = _Current()

    def client(token: int) -> None:
        """Send the request until it is answered."""
        body = {
            "TransactItems": [_add_one(counter) for counter in wanted[token]],
            "ClientRequestToken": f"t{token}",
        }
        while True:
            url = current.url
            try:
                status = ask(url, "TransactWriteItems", body).status
            except (OSError, HTTPException):
                current.wait_for_another(url)
                continue
            if status == 200:
                current.count()
                return

    with ThreadPoolExecutor(CLIENTS) as clients:
        for run in range(RUNS):
            with Process(tmp_path, "--partitions", "4") as server:
                if run == 0:
                    ask(server.url, "CreateTable", table_request(TABLE, "pk:S"))
                current.serve(server.url)
                if run == 0:
                    asked = [clients.submit(client, token) for token in range(TOKENS)]
                current.wait_for_done(TOKENS * (run + 1) // RUNS)
                if run == RUNS - 1:
                    items = ask(server.url, "Scan", {"TableName": TABLE, "ConsistentRead": True}).body[
                        "Items"
                    ]
    for one in asked:
        one.result()

    counted = {item["pk"]["S"]: int(item["n"]["N"]) for item in items}
    assert counted == {
        str(counter): sum(counter in counters for counters in wanted) for counter in range(COUNTERS)
    }


def _add_one(counter: int) -> dict[str, object]:
    return {
        "Update": {
            "TableName": TABLE,
            "Key": {"pk": {"S": str(counter)}},
            "UpdateExpression": "ADD n :one",
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        }
    }
