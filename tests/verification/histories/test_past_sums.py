"""Transfers between accounts of several partitions: at every past time the sum of all accounts is the same."""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import foldb
from foldb.model.cuts import time_text
from tests.support.raw import ask
from tests.support.tables import table_request

ACCOUNTS = [f"account {n}" for n in range(12)]
BALANCE = 100
CLIENTS = 4


def transfer(url: str, dice: random.Random) -> None:
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
    ask(url, "TransactWriteItems", {"TransactItems": actions})


def log_time(url: str) -> int:
    """Return the log time of the last account."""
    return max(int(ask(url, "GetItem", read(account)).headers["x-foldb-log-time"]) for account in ACCOUNTS)


def read(account: str) -> dict[str, Any]:
    return {"TableName": "Bank", "Key": {"pk": {"S": account}}, "ConsistentRead": True}


def balances_at(url: str, time_ms: int) -> list[int]:
    answer = ask(url, "Scan", {"TableName": f"Bank@{time_text(time_ms)}"})
    assert answer.status == 200, answer.body
    return sorted(int(item["balance"]["N"]) for item in answer.body["Items"])


def check_sums(folder: Path, seed: int, transfers: int, times: int) -> None:
    with foldb.serve(folder, partitions=4) as server:
        url = server.endpoint_url
        ask(url, "CreateTable", table_request("Bank", "pk:S"))
        for account in ACCOUNTS:
            item = {"pk": {"S": account}, "balance": {"N": str(BALANCE)}}
            ask(url, "PutItem", {"TableName": "Bank", "Item": item})
        first = log_time(url)

        def live(client: int) -> None:
            dice = random.Random(f"transfers {seed} {client}")
            for _ in range(transfers):
                transfer(url, dice)

        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(live, range(CLIENTS)))
        dice = random.Random(f"times {seed}")
        last = log_time(url)
        found = [balances_at(url, dice.randrange(first, last)) for _ in range(times)]
    assert {len(ACCOUNTS) * BALANCE} == {sum(balances) for balances in found}
    assert len({tuple(balances) for balances in found}) > times / 10, "few transfers were seen"


@pytest.mark.spec("H4", served=False)
def test_no_past_time_has_half_a_transfer(tmp_path: Path) -> None:
    check_sums(tmp_path, seed=0, transfers=25, times=40)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 6))
def test_no_past_time_of_many_has_half_a_transfer(seed: int, tmp_path: Path) -> None:
    check_sums(tmp_path, seed, transfers=1000, times=2000)
