"""Clients that write to the audited table in every way, and record the outcomes in the ledger.

put, update, delete          of existing and missing items, with conditions that hold and that do not
batches and transactions     of several keys, with refused transactions among them
writes without effect        an equal item in another notation, an update to the same, a delete of a missing item
additions                    to counters that all writers share
items that expire            and are swept by the server
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from types import TracebackType
from typing import Any, Self, TypeAlias

from tests.support.failing_servers import Addresses, Answer, Client
from tests.support.raw import ask
from tests.support.subscribed import until
from tests.support.tables import table_request
from tests.verification.audits.ledger import GONE, TABLE, Item, Ledger, Life, expires, item_of, same_item_of

Request: TypeAlias = tuple[str, dict[str, Any]]
Write: TypeAlias = tuple[Request, Callable[[Answer], None]]
"""An operation, its request, and the function that receives the answer."""

_KEYS = 12
_BATCH = 25
_COUNTERS = 3
_CHECK_FAILED = ("ConditionalCheckFailedException", "TransactionCanceledException")


class Writers:
    """Threads that write from the start of the block to its end, or until `changes` are certain.

    Args:
        run: Distinguishes their keys from those of other runs with the same ledger.
        batches: How many of ten writes are batches of 25: more batches make more changes per second.
        keys: The number of keys that each writer uses at a time.
    """

    def __init__(
        self,
        ledger: Ledger,
        addresses: Addresses,
        *,
        run: int = 0,
        writers: int = 4,
        batches: int = 1,
        keys: int = _KEYS,
        seed: int = 0,
    ) -> None:
        self._ledger = ledger
        self._addresses = addresses
        self._stopped = threading.Event()
        self._answered = threading.Condition()
        self._error: BaseException | None = None
        self._plans = [
            Plan(ledger, f"{run}-{n}", random.Random(f"{seed} {run} {n}"), batches, keys)
            for n in range(writers)
        ]
        self._threads = [threading.Thread(target=self._write, args=(plan,)) for plan in self._plans]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(timeout=90)
            assert not thread.is_alive(), "a request was never answered"
        if self._error is not None:
            raise self._error

    def wait_for(self, writes: int, seconds: float = 120) -> None:
        """Wait until `writes` more writes are acknowledged."""
        answers = self._ledger.answers
        with self._answered:
            enough = answers["acknowledged"] + writes
            done = self._answered.wait_for(
                lambda: answers["acknowledged"] >= enough or self._error is not None, seconds
            )
        assert done, f"writers are stuck: {answers}"
        assert self._error is None, self._error

    def _write(self, plan: "Plan") -> None:
        client = Client(self._addresses, plan.dice)
        try:
            for (operation, request), note in plan.writes():
                if self._stopped.is_set():
                    break
                answer = client.ask(operation, request)
                with self._answered:
                    note(answer)
                    self._ledger.answers[answer.fate] += 1
                    if answer.error:
                        self._ledger.answers[answer.error] += 1
                    self._answered.notify_all()
                if answer.fate == "in doubt":
                    self._stopped.wait(0.02)
        except BaseException as error:
            self._error = error
            with self._answered:
                self._answered.notify_all()
            raise
        finally:
            client.close()


class Plan:
    """The writes of one writer."""

    def __init__(self, ledger: Ledger, name: str, dice: random.Random, batches: int, keys: int) -> None:
        self.dice = dice
        self._ledger = ledger
        self._name = name
        self._numbers = count(1)
        self._kinds: list[Callable[[], Write]] = [
            self._put,
            self._put,
            self._update,
            self._delete,
            self._nothing,
            self._conditional,
            self._failing,
            self._addition,
            self._transaction,
            self._expiring,
        ] + [self._batch] * batches
        self._keys = [self._new_key() for _ in range(keys)]

    def writes(self) -> Iterator[Write]:
        """Yield writes without end; each is answered before the next is taken."""
        while True:
            yield self.dice.choice(self._kinds)()

    def _put(self) -> Write:
        key = self._key()
        return self._writing("PutItem", {"Item": item_of(key, version := self._version())}, {key: version})

    def _update(self) -> Write:
        key = self._key()
        return self._writing("UpdateItem", update(key, version := self._version()), {key: version})

    def _delete(self) -> Write:
        key = self._key()
        return self._writing("DeleteItem", {"Key": {"pk": {"S": key}}}, {key: GONE})

    def _nothing(self) -> Write:
        """Write without effect: an equal item, an update to the same, a delete of a missing item."""
        key, version = self._key_and_version()
        if version == GONE:
            return self._writing("DeleteItem", {"Key": {"pk": {"S": key}}}, {key: GONE})
        if self.dice.random() < 0.5:
            return self._writing("PutItem", {"Item": same_item_of(key, version)}, {key: version})
        return self._writing("UpdateItem", update(key, version), {key: version})

    def _conditional(self) -> Write:
        key, before = self._key_and_version()
        version = self._version()
        request = {"Item": item_of(key, version)} | _condition(before)
        return self._writing("PutItem", request, {key: version})

    def _failing(self) -> Write:
        """Write with a condition that does not hold, alone or in a transaction."""
        key = self._key()
        wrong = _condition(self._version())
        version = self._version()
        if self.dice.random() < 0.5:
            put = {"TableName": TABLE, "Item": item_of(key, version)} | wrong
            return ("PutItem", put), self._refused
        other = next(each for each in self._keys if each != key)
        check = {"ConditionCheck": {"TableName": TABLE, "Key": {"pk": {"S": key}}} | wrong}
        put = {"Put": {"TableName": TABLE, "Item": item_of(other, version)}}
        return ("TransactWriteItems", {"TransactItems": [put, check]}), self._refused

    def _addition(self) -> Write:
        counter = f"counter {self.dice.randrange(_COUNTERS)}"

        def note(answer: Answer) -> None:
            self._ledger.additions.setdefault(counter, Counter())[answer.fate] += 1

        return ("UpdateItem", addition(counter)), note

    def _transaction(self) -> Write:
        """Put, update, delete, check, and write without effect, each with a key of its own."""
        actions, after = [], {}
        for key in self.dice.sample(self._keys, self.dice.randrange(2, 7)):
            action, version = self._action(key)
            actions.append(action)
            if version is not None:
                after[key] = version
        return ("TransactWriteItems", {"TransactItems": actions}), lambda answer: self._note(answer, after)

    def _action(self, key: str) -> tuple[dict[str, Any], int | None]:
        """Return one action of a transaction and the version that it leaves; None for a check."""
        before, version = self._now(key), self._version()
        kind = self.dice.randrange(5)
        if kind == 0:
            return {"Delete": {"TableName": TABLE, "Key": {"pk": {"S": key}}}}, GONE
        if kind == 1:
            return {"Update": {"TableName": TABLE} | update(key, version)}, version
        if kind == 2:
            check = {"TableName": TABLE, "Key": {"pk": {"S": key}}} | _condition(before)
            return {"ConditionCheck": check}, None
        if kind == 3 and before != GONE:
            return {"Put": {"TableName": TABLE, "Item": same_item_of(key, before)}}, before
        return {"Put": {"TableName": TABLE, "Item": item_of(key, version)}}, version

    def _batch(self) -> Write:
        """Write 25 items, most of them new; some are deleted or unchanged."""
        requests, after = [], {}
        new = [self._new_key() for _ in range(_BATCH - 6)]
        for key in [*self.dice.sample(self._keys, 6), *new]:
            before, version = self._now(key), self._version()
            kind = self.dice.randrange(8)
            if kind == 0:
                requests.append({"DeleteRequest": {"Key": {"pk": {"S": key}}}})
                version = GONE
            elif kind == 1 and before != GONE:
                requests.append({"PutRequest": {"Item": same_item_of(key, before)}})
                version = before
            else:
                requests.append({"PutRequest": {"Item": item_of(key, version)}})
            after[key] = version

        def note(answer: Answer) -> None:
            for left in answer.body.get("UnprocessedItems", {}).get(TABLE, []):
                (of_request,) = left.values()
                after.pop((of_request.get("Item") or of_request["Key"])["pk"]["S"])
            self._note(answer, after, atomic=False)
            # Certain keys may be written again: so items of a batch are changed and deleted too.
            self._keys[-6:] = [self._fresh(key) for key in new[:6]]

        return ("BatchWriteItem", {"RequestItems": {TABLE: requests}}), note

    def _expiring(self) -> Write:
        key = f"expires {self._name}-{next(self._numbers)}"
        version = self._version()

        def note(answer: Answer) -> None:
            self._ledger.lives[key] = Life(expires=True)
            self._ledger.note(answer.fate, {key: version})

        return ("PutItem", {"TableName": TABLE, "Item": item_of(key, version, expires=True)}), note

    def _writing(self, operation: str, request: dict[str, Any], after: dict[str, int]) -> Write:
        return (operation, {"TableName": TABLE} | request), lambda answer: self._note(answer, after)

    def _note(self, answer: Answer, after: dict[str, int], *, atomic: bool = True) -> None:
        """Record the outcome, and never write a key in doubt again."""
        wrong = answer.error in (*_CHECK_FAILED, "ValidationException") and "Conflict" not in str(answer.body)
        assert not wrong, answer
        self._ledger.note(answer.fate, after, atomic=atomic)
        self._keys = [self._fresh(key) for key in self._keys]

    def _fresh(self, key: str) -> str:
        life = self._ledger.lives.get(key)
        return self._new_key() if life is not None and life.doubt is not None else key

    def _refused(self, answer: Answer) -> None:
        assert answer.fate != "acknowledged", "a condition that does not hold let a write through"

    def _key(self) -> str:
        return self.dice.choice(self._keys)

    def _key_and_version(self) -> tuple[str, int]:
        return (key := self._key()), self._now(key)

    def _now(self, key: str) -> int:
        life = self._ledger.lives.get(key)
        return life.version if life is not None else GONE

    def _new_key(self) -> str:
        return f"{self._name}-{next(self._numbers)}"

    def _version(self) -> int:
        return self._ledger.version()


def update(key: str, version: int) -> dict[str, Any]:
    """Return an UpdateItem that brings a key's item to a version, from any current one."""
    attributes = {name: value for name, value in item_of(key, version).items() if name != "pk"}
    return {
        "Key": {"pk": {"S": key}},
        "UpdateExpression": "SET " + ", ".join(f"#{name} = :{name}" for name in attributes),
        "ExpressionAttributeNames": {f"#{name}": name for name in attributes},
        "ExpressionAttributeValues": {f":{name}": value for name, value in attributes.items()},
    }


def addition(counter: str) -> dict[str, Any]:
    """Return an UpdateItem that adds one to a counter."""
    return {
        "TableName": TABLE,
        "Key": {"pk": {"S": counter}},
        "UpdateExpression": "ADD v :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }


def _condition(version: int) -> dict[str, Any]:
    """Return a condition that holds for a key at this version."""
    if version == GONE:
        return {"ConditionExpression": "attribute_not_exists(pk)"}
    values = {":v": {"N": str(version)}}
    return {"ConditionExpression": "v = :v", "ExpressionAttributeValues": values}


def create(url: str, *, stream: bool = True) -> str:
    """Create the table whose items expire. Return its stream's ARN, or an empty string."""
    settings: dict[str, Any] = {}
    if stream:
        settings["StreamSpecification"] = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    made = ask(url, "CreateTable", table_request(TABLE, "pk:S") | settings)
    assert made.status == 200, made.data
    while ask(url, "DescribeTable", {"TableName": TABLE}).body["Table"]["TableStatus"] != "ACTIVE":
        pass
    expiry = {"AttributeName": "exp", "Enabled": True}
    answer = ask(url, "UpdateTimeToLive", {"TableName": TABLE, "TimeToLiveSpecification": expiry})
    assert answer.status == 200, answer.data
    described = ask(url, "DescribeTable", {"TableName": TABLE}).body["Table"]
    return str(described.get("LatestStreamArn", ""))


def expired(url: str) -> None:
    """Wait until every item that is to expire has expired."""
    until(lambda: not any(expires(item["pk"]["S"]) for item in scan(url)))


def scan(url: str) -> Iterator[Item]:
    """Yield every current item of the table."""
    request: dict[str, Any] = {"TableName": TABLE, "ConsistentRead": True}
    while True:
        page = ask(url, "Scan", request).body
        yield from page["Items"]
        if "LastEvaluatedKey" not in page:
            return
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]
