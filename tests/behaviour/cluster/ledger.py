"""Writers of a cluster whose nodes and brokers fail, and what they were told.

    acknowledged   must be there        in doubt   may be there, now or later        refused   must not be there

A writer whose node does not answer goes on at another. What it left in doubt may still happen, so it never touches the
keys of that write again; all is compared when the cluster is whole again and nothing is under way. Each writer asks
in turn for a put of its own, an overwrite with a number that rises, an addition to a counter that all share, and a
transaction of three items that live in several partitions.

`Probes` ask all the time for puts that may be repeated, each until it is done: what the longest took is how long
somebody was without service.
"""

import http.client
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias
from urllib.parse import urlsplit

import orjson

from tests.support.raw import SIGNED, ask
from tests.support.tables import table_request

Fate: TypeAlias = Literal["acknowledged", "refused", "in doubt"]

TABLE = "Ledger"
COUNTER = "counter"
_PATIENCE_S = 5.0
_PROBE_PATIENCE_S = 2.0
_STAY = 50  # requests to one node
_PAUSE_S = 0.02


@dataclass
class Ledger:
    """What the writers know.

    Attributes:
        items: The fate of each item that was put. Those of a transaction end in < and >.
        rising: By key, the highest number that was acknowledged and the highest that was sent.
        additions: The fates of the additions to the shared counter, `transactions` those of transactions, by writer.
        answers: How many writes met which fate.
    """

    items: dict[str, Fate] = field(default_factory=dict)
    rising: dict[str, tuple[int, int]] = field(default_factory=dict)
    additions: Counter[Fate] = field(default_factory=Counter)
    transactions: dict[str, Counter[Fate]] = field(default_factory=dict)
    answers: Counter[Fate] = field(default_factory=Counter)

    def check(self, numbers: dict[str, int]) -> None:
        """Compare with the number of each item that is served."""
        numbers = dict(numbers)
        assert_within(self.additions, numbers.pop(COUNTER, 0), "additions")
        counted = 0
        for key, fates in self.transactions.items():
            assert_within(fates, count := numbers.pop(key, 0), key)
            counted += count
        for key, (acknowledged, sent) in self.rising.items():
            assert acknowledged <= (number := numbers.pop(key, 0)) <= sent, (
                f"{key} is {number}, not from {acknowledged} to {sent}: an overwrite was lost, or never sent"
            )
        lost = [key for key, fate in self.items.items() if fate == "acknowledged" and key not in numbers]
        assert [] == lost, "acknowledged, and lost"
        alien = [key for key in numbers if self.items.get(key, "refused") == "refused"]
        assert [] == alien, "refused, and there"
        first, second = ({key[:-1] for key in numbers if key[-1] == end} for end in "<>")
        assert first == second, "half of a transaction"
        assert len(first) == counted, "a transaction without its addition, or an addition without"


def assert_within(fates: Counter[Fate], count: int, what: str) -> None:
    """What was acknowledged was done once; what is in doubt at most once."""
    sure = fates["acknowledged"]
    assert sure <= count <= sure + fates["in doubt"], f"{what}: {count} were made, and told: {dict(fates)}"


class Asking:
    """A client that goes to another node when one does not answer, and now and then without a reason."""

    def __init__(self, urls: list[str], dice: random.Random, patience_s: float) -> None:
        self._urls = urls
        self._dice = dice
        self._patience_s = patience_s
        self._asked = 0
        self._url = ""
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, operation: str, request: dict[str, Any]) -> Fate:
        """Ask once, and tell what that means for a write."""
        self._asked += 1
        if self._connection is None or self._url not in self._urls or self._asked % _STAY == 0:
            self.leave()
            self._url = self._dice.choice(self._urls)
            self._connection = http.client.HTTPConnection(
                urlsplit(self._url).netloc, timeout=self._patience_s
            )
            try:
                self._connection.connect()
                self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:
                self.leave()
                return "refused"
        headers = {
            "X-Amz-Target": f"DynamoDB_20120810.{operation}",
            "Content-Type": "application/x-amz-json-1.0",
            "Authorization": SIGNED,
        }
        try:
            self._connection.request("POST", "/", orjson.dumps(request), headers)
            response = self._connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException):
            self.leave()
            return "in doubt"
        if response.status == 200:
            return "acknowledged"
        return "in doubt" if response.status == 500 else "refused"

    def leave(self) -> None:
        """Ask another node next time."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class Writers:
    """Threads that write to the nodes in `urls`, which may change, from the start of the block to its end."""

    def __init__(self, ledger: Ledger, urls: list[str], *, writers: int = 16, seed: int = 0) -> None:
        self._ledger = ledger
        self._urls = urls
        self._seed = seed
        self._stopped = threading.Event()
        self._answered = threading.Condition()
        self._doubted: Counter[int] = Counter()
        self._threads = [threading.Thread(target=self._write, args=(n,)) for n in range(writers)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(timeout=60)
            assert not thread.is_alive(), "a request was never answered"

    def wait_for(self, writes: int, seconds: float = 60) -> None:
        """Return when so many more writes were acknowledged."""
        answers = self._ledger.answers
        with self._answered:
            enough = answers["acknowledged"] + writes
            assert self._answered.wait_for(lambda: answers["acknowledged"] >= enough, seconds), answers

    def _write(self, writer: int) -> None:
        client = Asking(self._urls, random.Random(f"{self._seed} {writer}"), _PATIENCE_S)
        for note, operation, request in self._writes(writer):
            if self._stopped.is_set():
                break
            fate = client.ask(operation, request)
            with self._answered:
                self._ledger.answers[fate] += 1
                note(fate)
                self._answered.notify_all()
            if fate != "acknowledged":
                self._stopped.wait(_PAUSE_S)
        client.leave()

    def _writes(self, writer: int) -> Iterator[tuple[Callable[[Fate], None], str, dict[str, Any]]]:
        """What one writer asks for, and how each fate is written down."""
        ledger = self._ledger
        for number in range(1_000_000):
            key = f"{self._seed}-{writer}-{number}"
            yield lambda fate, key=key: ledger.items.update({key: fate}), "PutItem", put(key)  # type: ignore[misc]

            rising = self._rising(writer)
            sent = ledger.rising.get(rising, (0, 0))[1] + 1

            def risen(fate: Fate, rising: str = rising, sent: int = sent) -> None:
                before = ledger.rising.get(rising, (0, 0))[0]
                ledger.rising[rising] = (sent if fate == "acknowledged" else before, sent)
                self._doubted[writer] += fate == "in doubt"

            yield risen, "PutItem", put(rising, sent)
            yield lambda fate: ledger.additions.update([fate]), "UpdateItem", addition(COUNTER)

            count = f"transactions {self._seed}-{writer}"

            def transacted(fate: Fate, key: str = key, count: str = count) -> None:
                ledger.items |= dict.fromkeys((key + "<", key + ">"), fate)
                ledger.transactions.setdefault(count, Counter()).update([fate])

            actions: list[dict[str, Any]] = [{"Put": put(key + end)} for end in "<>"]
            yield transacted, "TransactWriteItems", {"TransactItems": [*actions, {"Update": addition(count)}]}

    def _rising(self, writer: int) -> str:
        """A key whose last overwrite is not in doubt."""
        return f"rising {self._seed}-{writer}-{self._doubted[writer]}"


class Probes:
    """Clients that put one item each until it is done, over and over, from the start of the block to its end.

    Attributes:
        took: When each put was first asked for, and how many seconds later it was done.
    """

    def __init__(self, urls: list[str], keys: int = 12) -> None:
        self.took: list[tuple[float, float]] = []
        self._urls = urls
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._probe, args=(n,)) for n in range(keys)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(timeout=60)

    def longest_since(self, begun: float) -> float:
        """How long the slowest of the puts took that were under way at that moment or begun after it."""
        return max((seconds for since, seconds in self.took if since + seconds > begun), default=0.0)

    def _probe(self, number: int) -> None:
        client = Asking(self._urls, random.Random(number), _PROBE_PATIENCE_S)
        request = put(f"probe {number}") | {"TableName": PROBED}
        while not self._stopped.is_set():
            begun = time.monotonic()
            while client.ask("PutItem", request) != "acknowledged" and not self._stopped.is_set():
                self._stopped.wait(_PAUSE_S)
            self.took.append((begun, time.monotonic() - begun))
            self._stopped.wait(0.05)
        client.leave()


PROBED = "Probed"


def create(url: str) -> None:
    """Make the tables."""
    for table in (TABLE, PROBED):
        assert ask(url, "CreateTable", table_request(table, "pk:S")).status == 200


def put(key: str, number: int = 0) -> dict[str, Any]:
    """A put's request of an item with a number."""
    return {
        "TableName": TABLE,
        "Item": {"pk": {"S": key}, "n": {"N": str(number)}, "padding": {"S": "x" * 100}},
    }


def addition(key: str) -> dict[str, Any]:
    """An update's request to add one to an item's number."""
    return {
        "TableName": TABLE,
        "Key": {"pk": {"S": key}},
        "UpdateExpression": "ADD n :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }


def scan(url: str, seconds: float = 30) -> dict[str, int]:
    """The number of each item as it is now, once all can be read."""
    numbers: dict[str, int] = {}
    request: dict[str, Any] = {
        "TableName": TABLE,
        "ProjectionExpression": "pk, n",
        "ConsistentRead": True,
    }
    until = time.monotonic() + seconds
    while True:
        answer = ask(url, "Scan", request)
        if answer.status >= 500 and time.monotonic() < until:
            continue
        assert answer.status == 200, answer.data
        page = answer.body
        numbers |= {item["pk"]["S"]: int(item["n"]["N"]) for item in page["Items"]}
        if "LastEvaluatedKey" not in page:
            return numbers
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]
