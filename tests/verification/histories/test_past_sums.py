"""Transfers between accounts of several partitions: at every past time the sum of all accounts is the same.

The server is killed while clients transfer, and started again. Each past Scan reads all partitions at one time, so a
transaction that is visible in one of them alone changes the sum.
"""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from foldb.model.cuts import time_text
from tests.support.raw import ask
from tests.support.served import Process
from tests.support.tables import table_request

PARTITIONS = 4
ACCOUNTS = [f"account {n}" for n in range(24)]
BALANCE = 100
CLIENTS = 16


def transfer(url: str, dice: random.Random) -> int | None:
    """Transfer an amount; return the log time of the answer, or None if the server does not answer."""
    giver, taker = dice.sample(ACCOUNTS, 2)
    amount = dice.randrange(1, 20)
    actions = [
        {
            "Update": {
                "TableName": "Bank",
                "Key": {"pk": {"S": account}},
                "UpdateExpression": "ADD balance :amount",
                "ExpressionAttributeValues": {":amount": {"N": str(change)}},
            }
        }
        for account, change in ((giver, -amount), (taker, amount))
    ]
    try:
        return int(ask(url, "TransactWriteItems", {"TransactItems": actions}).headers["x-foldb-log-time"])
    except (OSError, HTTPException):
        return None


class Transfers:
    """Clients that transfer until the server is killed.

    Attributes:
        answered: Released for each answer.
        times: The log times of the answers.
    """

    def __init__(self, url: str, seed: str) -> None:
        self.answered = threading.Semaphore(0)
        self.times: list[int] = []
        self._url = url
        self._seed = seed
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def _run(self, client: int) -> None:
        dice = random.Random(f"transfers {self._seed} {client}")
        while (time_ms := transfer(self._url, dice)) is not None:
            self.times.append(time_ms)
            self.answered.release()

    def wait_for(self, answers: int) -> None:
        """Wait for that many answers."""
        for _ in range(answers):
            assert self.answered.acquire(timeout=30)

    def join(self) -> None:
        """Wait for the end of all clients."""
        for thread in self._threads:
            thread.join()


def log_time(url: str) -> int:
    """Return the log time of the last account."""
    return max(int(ask(url, "GetItem", read(account)).headers["x-foldb-log-time"]) for account in ACCOUNTS)


def read(account: str) -> dict[str, Any]:
    return {"TableName": "Bank", "Key": {"pk": {"S": account}}, "ConsistentRead": True}


def balances_at(url: str, time_ms: int) -> list[int]:
    """Return the balances at a log time, in the order of the accounts."""
    answer = ask(url, "Scan", {"TableName": f"Bank@{time_text(time_ms)}"})
    assert answer.status == 200, answer.body
    items = sorted(answer.body["Items"], key=lambda item: str(item["pk"]["S"]))
    return [int(item["balance"]["N"]) for item in items]


def check_sums(folder: Path, seed: int, kills: int, transfers: int, times: int) -> None:
    """Kill the server after up to `transfers` transfers, again and again, and read at random times of the transfers."""
    dice = random.Random(f"kills {seed}")
    options = ("--partitions", str(PARTITIONS))
    with Process(folder, *options) as server:
        ask(server.url, "CreateTable", table_request("Bank", "pk:S"))
        for account in ACCOUNTS:
            item = {"pk": {"S": account}, "balance": {"N": str(BALANCE)}}
            ask(server.url, "PutItem", {"TableName": "Bank", "Item": item})
        server.terminate()
    spans = []
    for kill in range(kills):
        with Process(folder, *options, *(("--history",) if kill % 2 else ())) as server:
            running = Transfers(server.url, f"{seed} {kill}")
            running.wait_for(dice.randrange(transfers // 2, transfers))
            server.kill()
            running.join()
        spans.append((min(running.times), max(running.times)))
    with Process(folder, *options) as server:
        last = log_time(server.url)
        chosen = [dice.randint(*dice.choice(spans)) for _ in range(times)]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda time_ms: balances_at(server.url, time_ms), chosen))
        assert sum(balances_at(server.url, last)) == len(ACCOUNTS) * BALANCE
        server.terminate()
    assert {len(ACCOUNTS) * BALANCE} == {sum(balances) for balances in found}
    assert len({tuple(balances) for balances in found}) > min(times, kills * transfers) / 10, (
        "few transfers were seen"
    )


@pytest.mark.spec("H4", served=False)
def test_no_past_time_has_half_a_transfer(tmp_path: Path) -> None:
    check_sums(tmp_path, seed=0, kills=2, transfers=60, times=60)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 6))
def test_no_past_time_of_many_has_half_a_transfer(seed: int, tmp_path: Path) -> None:
    check_sums(tmp_path, seed, kills=20, transfers=400, times=10_000)
