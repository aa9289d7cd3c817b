"""Every operation at once by several clients, while the table comes and goes.

Each request is a sample, so it succeeds on its own. Here the table, its indexes, its stream or a job may be gone before
the request or in the middle of it: each answer is a success or a documented error, the server reports no bug, and a
refold of its log gives its tables. FOLDB_SOAK=1 sends more requests, of more seeds.
"""

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.raw import ask
from tests.support.served import served
from tests.verification import reliability
from tests.verification.hostile.judge import Connection, check, check_refold, documented
from tests.verification.hostile.samples import (
    ADMIN_API,
    CREATE,
    ITEM,
    KEY,
    MADE,
    ON_TABLE,
    SAMPLES,
    Told,
    make_buckets,
)
from tests.verification.hostile.test_every_operation import remove_tables

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []
SEEDS = range(10) if SOAK else range(1)
REQUESTS = 2_000 if SOAK else 400  # of each client
CLIENTS = 6
FRESH = 25  # requests of a client after which it asks for the names of streams and jobs

Request = tuple[str, dict[str, Any]]

# What the samples have to meet: a table that comes and goes, writes of it, and undos of all of them.
BESIDE: list[Request] = [
    *(("CreateTable", {**CREATE, "TableName": name}) for name in ("abc", "other")),
    *(("DeleteTable", {"TableName": name}) for name in ("abc", "other", "restored", "forked", "imported")),
    *(("PutItem", {"TableName": name, "Item": ITEM}) for name in ("abc", "other")),
    (
        "TransactWriteItems",
        {"TransactItems": [{"Put": {"TableName": name, "Item": ITEM}} for name in ("abc", "other")]},
    ),
    (ADMIN_API + "Undo", {"Principal": "key", "From": "-1m"}),
    (ADMIN_API + "Undo", {**ON_TABLE, "Principal": "key", "From": "-1s"}),
    (ADMIN_API + "ItemHistory", {**ON_TABLE, "Key": KEY}),
    (ADMIN_API + "TableDifferences", {**ON_TABLE, "From": "-1s"}),
]


class Client:
    """Sends random requests over a connection of its own.

    Attributes:
        answered: How often each operation had each status.
    """

    def __init__(self, url: str, dice: random.Random) -> None:
        self.answered = Counter[str]()
        self._connection = Connection(url)
        self._dice = dice
        self._allowed = documented()
        self._names: Told | None = None

    def run(self) -> None:
        """Send all requests."""
        with closing(self._connection):
            for nth, (operation, body) in enumerate(self._requests()):
                if nth % FRESH == 0:
                    # Another client may have deleted the table, or made it a moment ago.
                    with suppress(LookupError):
                        self._names = Told(self._ask)
                self._ask(operation, body)

    def _requests(self) -> Iterator[Request]:
        for _ in range(REQUESTS):
            yield self._dice.choice(self._dice.choice((MADE, BESIDE, SAMPLES, SAMPLES)))

    def _ask(self, operation: str, body: dict[str, Any]) -> Any:
        data = json.dumps(body).encode()
        self._connection.send(operation, data if self._names is None else self._names.fill(data))
        status, answer = self._connection.answer()
        check(operation, status, answer, self._allowed)
        self.answered[f"{operation} {status}"] += 1
        return answer


@pytest.mark.guarantee("G48")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("partitions", [1, 4])
def test_no_request_breaks_the_server_while_tables_come_and_go(
    tmp_path: Path, partitions: int, seed: int
) -> None:
    options = ("--fsync", "never", "--partitions", str(partitions), "--buckets", str(make_buckets(tmp_path)))
    with served(tmp_path / "db", *options) as url:
        clients = [Client(url, random.Random(f"concurrent {seed} {number}")) for number in range(CLIENTS)]
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(Client.run, clients))
        remove_tables(url)
        live = ask(url, f"{ADMIN_API}Digest", {}).body

    answered = sum((client.answered for client in clients), Counter[str]())
    assert {operation for operation, _ in SAMPLES} == {each.rpartition(" ")[0] for each in answered}
    check_refold(tmp_path / "db", live)
    reliability.record(test="every operation at once", seeds=str(seed), checked=answered.total())
