"""Clients that write while their server dies, and a ledger of what they were told.

    sent ──► acknowledged      must be there, whatever happens
        ├──► refused           must not be there
        └──► in doubt          may be there or not; once it was seen it stays

The ledger is kept outside of the server, and compared with a Scan of what the next one serves. Each writer asks in
turn for

    a put            of an item of its own
    an overwrite     of its one item with a number that rises
    an addition      to a counter that all share: acks <= counter <= acks + in doubt
    a transaction    of two items and an addition: all of it is there, or nothing
"""

import http.client
import threading
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias
from urllib.parse import urlsplit

import orjson

from tests.support.raw import SIGNED, ask
from tests.support.tables import table_request
from tests.verification import histories
from tests.verification.histories import Clients, History

Fate: TypeAlias = Literal["acknowledged", "refused", "in doubt"]
Request: TypeAlias = tuple[str, dict[str, Any]]

TABLE = "Ledger"
COUNTER, TRANSACTIONS = "counter", "transactions"


@dataclass
class Ledger:
    """What the clients know.

    Attributes:
        items: The fate of each item that was put, by key. Those of a transaction end in < and >.
        rising: By key, the highest number that was acknowledged and the highest that was sent.
        additions: The fates of the additions to the counter.
        answers: How many writes met which fate, over all.
        history: What other clients were told meanwhile, of reads and transactions too; see `under_load`.
    """

    items: dict[str, Fate] = field(default_factory=dict)
    rising: dict[str, tuple[int, int]] = field(default_factory=dict)
    additions: Counter[Fate] = field(default_factory=Counter)
    answers: Counter[Fate] = field(default_factory=Counter)
    history: History = field(default_factory=History)

    def check(self, url: str) -> None:
        """Compare with what is served at `url`. What is there must be there from now on, what is not must not."""
        numbers = scan(url)
        added, transactions = numbers.pop(COUNTER, 0), numbers.pop(TRANSACTIONS, 0)
        sure = self.additions["acknowledged"]
        assert sure <= added <= sure + self.additions["in doubt"], (
            f"{added} additions, some lost or made twice: {self.additions}"
        )
        self.additions = Counter({"acknowledged": added})

        for key, (acknowledged, sent) in self.rising.items():
            number = numbers.pop(key, 0)
            assert acknowledged <= number <= sent, f"{key}: an overwrite lost, or never sent"
            self.rising[key] = (number, sent)

        expected = {key for key, fate in self.items.items() if fate == "acknowledged"}
        assert set() == expected - numbers.keys(), "acknowledged, and lost"
        assert set() == {key for key in numbers if self.items.get(key, "refused") == "refused"}, (
            "refused, and there"
        )
        self.items = {key: "acknowledged" if key in numbers else "refused" for key in self.items}

        first, second = ({key[:-1] for key in numbers if key[-1] == end} for end in "<>")
        assert first == second, "half of a transaction"
        assert len(first) == transactions, "a transaction without its addition, or an addition without"

    def doubt(self) -> None:
        """Be sure of nothing any more: the server had not promised to keep it."""
        self.items = {key: "refused" if fate == "refused" else "in doubt" for key, fate in self.items.items()}
        self.rising = {key: (0, sent) for key, (_, sent) in self.rising.items()}
        self.additions = Counter({"in doubt": self.additions.total() - self.additions["refused"]})
        self.history = History()


class Writers:
    """Threads that write to `url` from the start of the block to its end, or until nobody answers.

    `run` tells their keys from those of other runs with the same ledger.
    """

    def __init__(
        self, ledger: Ledger, url: str, *, run: int = 0, writers: int = 8, padding: int = 200
    ) -> None:
        self._ledger = ledger
        self._address = urlsplit(url).netloc
        self._run = run
        self._padding = {"S": "x" * padding}
        self._stopped = False
        self._answered = threading.Condition()
        self._threads = [threading.Thread(target=self._send, args=(n,)) for n in range(writers)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Send nothing more, and return when everything was answered."""
        self._stopped = True
        self.join()

    def join(self) -> None:
        """Return when they have stopped, or met a server that did not answer."""
        for thread in self._threads:
            thread.join(timeout=30)
            assert not thread.is_alive(), "a request was never answered"

    def wait_for(self, writes: int, fate: Fate = "acknowledged") -> None:
        """Return when so many more writes have met this fate."""
        with self._answered:
            enough = self._ledger.answers[fate] + writes
            assert self._answered.wait_for(lambda: self._ledger.answers[fate] >= enough, timeout=30), fate

    def _send(self, writer: int) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=30)
        writes = self._writes(writer)
        request = next(writes)
        fate: Fate = "acknowledged"
        while fate != "in doubt" and not self._stopped:
            fate = send(connection, *request)
            with self._answered:
                self._ledger.answers[fate] += 1
                request = writes.send(fate)
                self._answered.notify_all()
        connection.close()

    def _writes(self, writer: int) -> Generator[Request, Fate, None]:
        """What one writer asks for, each with its fate written down."""
        ledger = self._ledger
        rising = f"rising {writer}"
        for number in count(1):
            key = f"{self._run}-{writer}-{number}"
            ledger.items[key] = yield put(key, self._padding)

            acknowledged, sent = ledger.rising.get(rising, (0, 0))
            fate = yield put(rising, self._padding, sent + 1)
            ledger.rising[rising] = (sent + 1 if fate == "acknowledged" else acknowledged, sent + 1)

            ledger.additions[(yield "UpdateItem", addition(COUNTER))] += 1

            actions = [{"Put": put(key + end, self._padding)[1]} for end in "<>"]
            actions.append({"Update": addition(TRANSACTIONS)})
            fate = yield "TransactWriteItems", {"TransactItems": actions}
            ledger.items |= dict.fromkeys((key + "<", key + ">"), fate)


@contextmanager
def under_load(ledger: Ledger, url: str, *, run: int, writers: int) -> Iterator[Writers]:
    """Writers, and beside them clients who write down every answer, for the judges of histories."""
    with (
        Writers(ledger, url, run=run, writers=writers) as busy,
        Clients(ledger.history, url, run=run, clients=4, keys=100, seed=run),
    ):
        yield busy


def create(url: str) -> None:
    """Make the table that ledgers are about, and that of their histories."""
    assert ask(url, "CreateTable", table_request(TABLE, "pk:S")).status == 200
    histories.create(url)


def put(key: str, padding: dict[str, str], number: int = 0) -> Request:
    """Ask for an item with a number, as large as the padding makes it."""
    item = {"pk": {"S": key}, "n": {"N": str(number)}, "padding": padding}
    return "PutItem", {"TableName": TABLE, "Item": item}


def addition(key: str) -> dict[str, Any]:
    """An update's request to add one to an item's number."""
    return {
        "TableName": TABLE,
        "Key": {"pk": {"S": key}},
        "UpdateExpression": "ADD n :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }


def send(connection: http.client.HTTPConnection, operation: str, request: dict[str, Any]) -> Fate:
    """Ask once, and tell what that means for the write."""
    headers = {
        "X-Amz-Target": f"DynamoDB_20120810.{operation}",
        "Content-Type": "application/x-amz-json-1.0",
        "Authorization": SIGNED,
    }
    try:
        connection.request("POST", "/", orjson.dumps(request), headers)
        response = connection.getresponse()
        response.read()
    except (OSError, http.client.HTTPException):
        return "in doubt"
    if response.status == 200:
        return "acknowledged"
    return "in doubt" if response.status == 500 else "refused"


def scan(url: str) -> dict[str, int]:
    """The number of each item that is served."""
    numbers: dict[str, int] = {}
    request: dict[str, Any] = {"TableName": TABLE, "ProjectionExpression": "pk, n"}
    while True:
        page = ask(url, "Scan", request).body
        numbers |= {item["pk"]["S"]: int(item["n"]["N"]) for item in page["Items"]}
        if "LastEvaluatedKey" not in page:
            return numbers
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]
