"""Served processes of several partitions: indexes that follow their table, and transactions that conflict.

In a database of one partition neither exists, so each test drives a server of its own with `--partitions`.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.positions import Positions
from tests.support.raw import Answer, ask
from tests.support.served import killed
from tests.support.tables import table_request

Connect = Callable[[str], Any]

ITEMS = 40
INDEXED = {"TableName": "Things", "IndexName": "by-kind"}


class Lagging:
    """A table with an index that is read with a lag; every item has a `kind` of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._positions = Positions()
        self.ask("CreateTable", table_request("Things", "pk:S", gsi={"by-kind": "kind:S"}))

    def ask(self, operation: str, body: dict[str, Any], **headers: str) -> Answer:
        answer = ask(self._url, operation, body, **headers)
        self._positions.note(answer.headers["x-foldb-position"])
        return answer

    def put(self, version: str) -> None:
        """Put all items, each with `version` in its key of the index."""
        for n in range(ITEMS):
            item = {"pk": {"S": f"{n}"}, "kind": {"S": f"{n} {version}"}}
            assert 200 == self.ask("PutItem", {"TableName": "Things", "Item": item}).status

    def kinds(self, **request: Any) -> Counter[str]:
        """Return how many items a scan shows of each version."""
        answer = self.ask("Scan", request)
        assert 200 == answer.status
        return Counter(item["kind"]["S"].partition(" ")[2] for item in answer.body["Items"])

    def scan_at_writes(self) -> Answer:
        """Scan the index as of every write so far; the server waits for that up to its own deadline."""
        return self.ask("Scan", INDEXED, x_foldb_position=self._positions.cut)


@pytest.fixture
def lagging(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lagging]:
    with killed(tmp_path, "--partitions", "4", "--index-lag", f"{request.param}ms") as url:
        yield Lagging(url)


@pytest.mark.guarantee("G32")
@pytest.mark.spec("S23", "S70")
@pytest.mark.parametrize("lagging", [0, 300], indirect=True)
def test_an_index_shows_every_write_that_a_read_waits_for(lagging: Lagging) -> None:
    for version in ("old", "new"):
        lagging.put(version)
        answer = lagging.scan_at_writes()

        assert 200 == answer.status
        assert {f"{n} {version}" for n in range(ITEMS)} == {i["kind"]["S"] for i in answer.body["Items"]}


CLIENTS = 6
MOST_ROUNDS = 300
KEYS = [f"{n}" for n in range(6)]


class Contended:
    """Clients that write the same few items at the same time, until each of `wanted` was answered to one of them.

    Attributes:
        answers: How often each error was answered; `""` counts successes.
        added: How often `n` of each item was incremented, by the answers.
    """

    def __init__(self, client: Any, *wanted: str, rounds: int = MOST_ROUNDS) -> None:
        self._client = client
        self._wanted = set(wanted)
        self._rounds = rounds
        self._lock = threading.Lock()
        self.answers: Counter[str] = Counter()
        self.added: Counter[str] = Counter()

    def run(self) -> None:
        with ThreadPoolExecutor(CLIENTS) as pool:
            for done in [pool.submit(self._write, nth) for nth in range(CLIENTS)]:
                done.result()

    def stored(self) -> dict[str, int]:
        """Return `n` of each item, read consistently."""
        items = self._client.scan(TableName="Things", ConsistentRead=True)["Items"]
        return {item["pk"]: int(item["n"]) for item in items}

    def _write(self, nth: int) -> None:
        ask = (self._update, self._transact, self._read)[nth % 3]
        for n in range(self._rounds):
            if self._wanted and self._wanted <= self.answers.keys():
                return
            error, keys = ask(KEYS[n % len(KEYS)])
            with self._lock:
                self.answers[error] += 1
                if not error:
                    self.added.update(keys)

    def _update(self, key: str) -> tuple[str, list[str]]:
        return answered(lambda: self._client.update_item(**self.increment(key))), [key]

    def _transact(self, _: str) -> tuple[str, list[str]]:
        actions = [{"Update": self.increment(key)} for key in KEYS]
        return answered(lambda: self._client.transact_write_items(TransactItems=actions)), KEYS

    def _read(self, _: str) -> tuple[str, list[str]]:
        gets = [{"Get": {"TableName": "Things", "Key": {"pk": key}}} for key in KEYS]
        return answered(lambda: self._client.transact_get_items(TransactItems=gets)), []

    def increment(self, key: str) -> dict[str, Any]:
        return {
            "TableName": "Things",
            "Key": {"pk": key},
            "UpdateExpression": "ADD n :one",
            "ExpressionAttributeValues": {":one": 1},
        }


def answered(request: Callable[[], Any]) -> str:
    """Return the error of a request, with the operation and the distinct reasons of a cancelled transaction."""
    try:
        request()
    except ClientError as error:
        reasons = {reason["Code"] for reason in error.response.get("CancellationReasons", [])} - {"None"}
        return " ".join([error.operation_name, error.response["Error"]["Code"], *sorted(reasons)])
    return ""


CONFLICTS = (
    "UpdateItem TransactionConflictException",
    "TransactWriteItems TransactionCanceledException TransactionConflict",
)
IN_PROGRESS = "TransactWriteItems TransactionInProgressException"


@pytest.mark.guarantee("G30", "G54")
@pytest.mark.spec("S81")
def test_concurrent_writers_get_every_conflict(connect: Connect, tmp_path: Path) -> None:
    """A write and a transaction at keys that another transaction holds. The reads of these keys get none."""
    with killed(tmp_path, "--partitions", "4") as url:
        client = connect(url).meta.client
        client.create_table(**table_request("Things", "pk:S"))
        contended = Contended(client, *CONFLICTS)
        contended.run()

        assert {*CONFLICTS, ""} == set(contended.answers)
        assert contended.added == contended.stored(), "a request that was refused left its mark"


@pytest.mark.spec("S81")
def test_one_partition_answers_no_conflict(connect: Connect, tmp_path: Path) -> None:
    """Each command is one step there, so nothing is held between two of them."""
    with killed(tmp_path) as url:
        client = connect(url).meta.client
        client.create_table(**table_request("Things", "pk:S"))
        contended = Contended(client, rounds=50)
        contended.run()

        assert {""} == set(contended.answers)
        assert contended.added == contended.stored()


@pytest.mark.guarantee("G30")
@pytest.mark.spec("S81")
def test_a_token_in_use_is_answered_as_in_progress(connect: Connect, tmp_path: Path) -> None:
    """Several clients send one transaction with one token; the item shows that it had its effect once."""
    with killed(tmp_path, "--partitions", "4") as url:
        client = connect(url).meta.client
        client.create_table(**table_request("Things", "pk:S"))
        contended = Contended(client)
        actions = [{"Update": contended.increment(key)} for key in KEYS]
        answers: Counter[str] = Counter()
        rounds = 0

        def send(token: str) -> str:
            request = {"TransactItems": actions, "ClientRequestToken": token}
            return answered(lambda: client.transact_write_items(**request))

        with ThreadPoolExecutor(CLIENTS) as pool:
            while IN_PROGRESS not in answers:
                rounds += 1
                assert rounds <= MOST_ROUNDS, answers
                answers.update(pool.map(send, [f"token {rounds}"] * CLIENTS))

        assert {"", IN_PROGRESS} == set(answers)
        assert dict.fromkeys(KEYS, rounds) == contended.stored()
