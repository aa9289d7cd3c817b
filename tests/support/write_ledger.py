"""Clients that write while servers fail, and a ledger of the answers.

    sent ──► acknowledged      must be there, whichever failure follows
        ├──► refused           must not be there
        └──► in doubt          may be there or not; once it was seen it stays

The ledger is outside of the servers, and is compared with a Scan when they run again. Each writer sends in turn

    a put            of a new item
    an overwrite     of its one item, with a number that rises
    an addition      to a counter that all share: acknowledged <= counter <= acknowledged + in doubt
    a transaction    of two items and an addition to the writer's counter: all of it is there, or nothing
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Any, Self, TypeAlias

from tests.support.failing_servers import UNREACHABLE, Addresses, Client, Fate
from tests.support.raw import ask
from tests.support.tables import table_request
from tests.verification import histories
from tests.verification.histories import Clients, History

Request: TypeAlias = tuple[str, dict[str, Any]]

TABLE = "Ledger"
COUNTER = "counter"
_PAUSE_S = 0.02


@dataclass
class Ledger:
    """The answers of all writers.

    Attributes:
        items: The fate of each item that was put, by key. The keys of a transaction end in < and >.
        rising: By key, the highest number that was acknowledged and the highest that was sent.
        additions: The fates of the additions to the shared counter.
        transactions: The fates of the transactions, by the key of their writer's counter.
        answers: The number of writes by fate.
        history: The reads and transactions of other clients; see `under_load`.
    """

    items: dict[str, Fate] = field(default_factory=dict)
    rising: dict[str, tuple[int, int]] = field(default_factory=dict)
    additions: Counter[Fate] = field(default_factory=Counter)
    transactions: dict[str, Counter[Fate]] = field(default_factory=dict)
    answers: Counter[Fate] = field(default_factory=Counter)
    history: History = field(default_factory=History)

    def check(self, url: str) -> None:
        """Compare with the items that are served at `url`."""
        self.compare(scan(url))

    def compare(self, numbers: dict[str, int]) -> None:
        """Compare with the number of each served item. They are certain from now on, all others are absent."""
        numbers = dict(numbers)
        self.additions = _certain(self.additions, numbers.pop(COUNTER, 0), COUNTER)
        for key, fates in self.transactions.items():
            self.transactions[key] = _certain(fates, numbers.pop(key, 0), key)

        for key, (acknowledged, sent) in self.rising.items():
            number = numbers.pop(key, 0)
            assert acknowledged <= number <= sent, (
                f"{key} is {number}, not from {acknowledged} to {sent}: an overwrite was lost, or never sent"
            )
            self.rising[key] = (number, sent)

        expected = {key for key, fate in self.items.items() if fate == "acknowledged"}
        assert set() == expected - numbers.keys(), "acknowledged, and lost"
        assert set() == {key for key in numbers if self.items.get(key, "refused") == "refused"}, (
            "refused, and there"
        )
        self.items = {key: "acknowledged" if key in numbers else "refused" for key in self.items}

        first, second = ({key[:-1] for key in numbers if key[-1] == end} for end in "<>")
        assert first == second, "half of a transaction"
        counted = sum(fates.total() for fates in self.transactions.values())
        assert len(first) == counted, "a transaction without its addition, or an addition without"

    def doubt(self) -> None:
        """Regard every write as in doubt: the server had not promised to keep it."""
        self.items = {key: "refused" if fate == "refused" else "in doubt" for key, fate in self.items.items()}
        self.rising = {key: (0, sent) for key, (_, sent) in self.rising.items()}
        self.additions = _doubtful(self.additions)
        self.transactions = {key: _doubtful(fates) for key, fates in self.transactions.items()}
        self.history = History()


def _certain(fates: Counter[Fate], served: int, key: str) -> Counter[Fate]:
    """Return the fates after `served` additions were seen: acknowledged ones once, those in doubt once at most."""
    acknowledged = fates["acknowledged"]
    assert acknowledged <= served <= acknowledged + fates["in doubt"], (
        f"{key}: {served} additions, some lost or made twice: {dict(fates)}"
    )
    return Counter({"acknowledged": served})


def _doubtful(fates: Counter[Fate]) -> Counter[Fate]:
    return Counter({"in doubt": fates.total() - fates["refused"]})


class Writers:
    """Threads that write from the start of the block to its end.

    With one URL a writer stops when the server does not answer. With a list of URLs, which may change, it continues at
    another server, and never again writes the keys of a write in doubt, which may still be executed. `run`
    distinguishes the keys from those of other runs with the same ledger. A test that waits for something else than
    writes gives a pause in seconds between the writes of each thread: the load would otherwise take all processor time.
    """

    def __init__(
        self,
        ledger: Ledger,
        urls: str | list[str],
        *,
        run: int = 0,
        writers: int = 8,
        padding: int = 200,
        timeout_s: float = 30.0,
        pause_s: float = 0.0,
    ) -> None:
        self._ledger = ledger
        self._addresses = Addresses([urls] if isinstance(urls, str) else urls)
        self._continues = not isinstance(urls, str)
        self._run = run
        self._padding = {"S": "x" * padding}
        self._timeout_s = timeout_s
        self._pause_s = pause_s
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
        """Stop sending requests, and return when all are answered."""
        self._addresses.stopped.set()
        self.join()

    def join(self) -> None:
        """Return when all writers have stopped, by `stop` or because their server does not answer."""
        for thread in self._threads:
            thread.join(timeout=60)
            assert not thread.is_alive(), "a request was never answered"

    def wait_for(
        self, writes: int, fate: Fate = "acknowledged", *, after: Callable[[], object] | None = None
    ) -> None:
        """Return when that many more writes have that fate, counted from before the call of `after`."""
        answers = self._ledger.answers
        with self._answered:
            enough = answers[fate] + writes
        if after:
            after()
        with self._answered:
            assert self._answered.wait_for(lambda: answers[fate] >= enough, timeout=60), answers

    def _send(self, writer: int) -> None:
        dice = random.Random(f"{self._run} {writer}")
        client = Client(self._addresses, dice, self._timeout_s, unavailable="refused")
        writes = self._writes(writer)
        request = next(writes)
        while not self._addresses.stopped.is_set():
            answer = client.ask(*request)
            with self._answered:
                self._ledger.answers[answer.fate] += 1
                request = writes.send(answer.fate)
                self._answered.notify_all()
            if self._continues and answer.fate != "acknowledged":
                self._addresses.stopped.wait(_PAUSE_S)
            elif answer.fate == "in doubt" or answer.error == UNREACHABLE:
                break
            elif self._pause_s:
                self._addresses.stopped.wait(self._pause_s)
        client.close()

    def _writes(self, writer: int) -> Generator[Request, Fate, None]:
        """Yield the requests of one writer, and record the fate of each."""
        ledger, doubts = self._ledger, 0
        transactions = f"transactions {self._run}-{writer}"
        for number in count(1):
            key = f"{self._run}-{writer}-{number}"
            ledger.items[key] = yield put(key, self._padding)

            rising = f"rising {writer} after {doubts} doubts"
            acknowledged, sent = ledger.rising.get(rising, (0, 0))
            fate = yield put(rising, self._padding, sent + 1)
            ledger.rising[rising] = (sent + 1 if fate == "acknowledged" else acknowledged, sent + 1)
            doubts += fate == "in doubt"

            ledger.additions[(yield "UpdateItem", addition(COUNTER))] += 1

            actions = [{"Put": put(key + end, self._padding)[1]} for end in "<>"]
            actions.append({"Update": addition(transactions)})
            fate = yield "TransactWriteItems", {"TransactItems": actions}
            ledger.items |= dict.fromkeys((key + "<", key + ">"), fate)
            ledger.transactions.setdefault(transactions, Counter())[fate] += 1


@contextmanager
def under_load(ledger: Ledger, url: str, *, run: int, writers: int) -> Iterator[Writers]:
    """Run writers, and clients that record every answer for the judges of histories."""
    with (
        Writers(ledger, url, run=run, writers=writers) as busy,
        Clients(ledger.history, url, run=run, clients=4, keys=100, seed=run),
    ):
        yield busy


def create(url: str) -> None:
    """Create the table of the writers and that of the histories."""
    assert ask(url, "CreateTable", table_request(TABLE, "pk:S")).status == 200
    histories.create(url)


def put(key: str, padding: dict[str, str], number: int = 0) -> Request:
    """Return the request for a put of an item with a number."""
    item = {"pk": {"S": key}, "n": {"N": str(number)}, "padding": padding}
    return "PutItem", {"TableName": TABLE, "Item": item}


def addition(key: str) -> dict[str, Any]:
    """Return the request that adds one to an item's number."""
    return {
        "TableName": TABLE,
        "Key": {"pk": {"S": key}},
        "UpdateExpression": "ADD n :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }


def scan(url: str, timeout_s: float = 30) -> dict[str, int]:
    """Return the number of each served item, as soon as all partitions can be read."""
    numbers: dict[str, int] = {}
    request: dict[str, Any] = {
        "TableName": TABLE,
        "ProjectionExpression": "pk, n",
        "ConsistentRead": True,
    }
    deadline = time.monotonic() + timeout_s
    while True:
        answer = ask(url, "Scan", request)
        if answer.status >= 500 and time.monotonic() < deadline:
            continue
        assert answer.status == 200, answer.data
        page = answer.body
        numbers |= {item["pk"]["S"]: int(item["n"]["N"]) for item in page["Items"]}
        if "LastEvaluatedKey" not in page:
            return numbers
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]
