"""Answers that are stored with their positions are given again, byte for byte, when the past is read there.

    random writes and tables ──► whole live answers, with x-foldb-position ──► the same requests to TABLE@POSITION

The answers themselves are the model: nothing is folded, and nothing is assumed about how a history is kept.
"""

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tests.support.raw import ask
from tests.support.tables import table_request

NAMES = ("Orders", "Cars")
CLIENTS = 3


@dataclass
class StoredAnswer:
    """A read and the answer that it had. `named` returns the body of the request for a table's name."""

    operation: str
    table: str
    named: Callable[[str], dict[str, Any]]
    data: bytes
    position: str


@dataclass
class Run:
    """A random run against a served database.

    Attributes:
        drops: Whether tables are deleted, and created again.
        stored: The answers of the reads so far.
    """

    url: str
    dice: random.Random
    drops: bool = True
    stored: list[StoredAnswer] = field(default_factory=list)

    def live(self, steps: int) -> None:
        """Write and read at random."""
        for name in NAMES:
            self._create(name)
        for _ in range(steps):
            if self.dice.random() < 0.45:
                self._write()
            else:
                self._read()

    def differing(self, url: str) -> list[tuple[str, str, bytes, bytes]]:
        """Read all stored answers again at their positions, in any order; return those that differ."""
        self.dice.shuffle(self.stored)
        found = []
        for each in self.stored:
            past = f"{each.table}@{each.position}"
            answer = ask(url, each.operation, each.named(past))
            data = answer.data.replace(past.encode(), each.table.encode())
            if data != each.data:
                found.append((each.operation, past, each.data, data))
        return found

    def _write(self) -> None:
        dice, name = self.dice, self.dice.choice(NAMES)
        match dice.randrange(22):
            case 0 if self.drops:
                ask(self.url, "DeleteTable", {"TableName": name})
                self._create(name)
            case 1:
                self._change_indexes(name)
            case 2:
                time_to_live = {"AttributeName": "at", "Enabled": dice.random() < 0.5}
                body = {"TableName": name, "TimeToLiveSpecification": time_to_live}
                ask(self.url, "UpdateTimeToLive", body)
            case 3 | 4 | 5:
                actions = [self._action(dice.choice(NAMES)) for _ in range(dice.randrange(1, 5))]
                ask(self.url, "TransactWriteItems", {"TransactItems": actions})
            case 6 | 7 | 8:
                ask(self.url, "DeleteItem", {"TableName": name, "Key": self._key()})
            case 9 | 10:
                requests = [{"PutRequest": {"Item": self._item()}} for _ in range(3)]
                ask(self.url, "BatchWriteItem", {"RequestItems": {name: requests}})
            case 11 | 12 | 13:
                update = {"UpdateExpression": "ADD n :n", "ExpressionAttributeValues": {":n": {"N": "1"}}}
                ask(self.url, "UpdateItem", {"TableName": name, "Key": self._key()} | update)
            case _:
                ask(self.url, "PutItem", {"TableName": name, "Item": self._item()})

    def _create(self, name: str) -> None:
        ask(
            self.url,
            "CreateTable",
            table_request(
                name, "pk:S", "sk:N", gsi={"by-kind": "kind:S KEYS_ONLY"}, lsi={"by-n": "n:N KEYS_ONLY"}
            ),
        )

    def _change_indexes(self, name: str) -> None:
        create = {
            "IndexName": "by-v",
            "KeySchema": [{"AttributeName": "v", "KeyType": "HASH"}],
            "Projection": {"ProjectionType": "ALL"},
        }
        change = {"Create": create} if self.dice.random() < 0.6 else {"Delete": {"IndexName": "by-v"}}
        ask(
            self.url,
            "UpdateTable",
            {
                "TableName": name,
                "AttributeDefinitions": [{"AttributeName": "v", "AttributeType": "S"}],
                "GlobalSecondaryIndexUpdates": [change],
            },
        )

    def _action(self, name: str) -> dict[str, Any]:
        if self.dice.random() < 0.3:
            return {"Delete": {"TableName": name, "Key": self._key()}}
        return {"Put": {"TableName": name, "Item": self._item()}}

    def _key(self) -> dict[str, Any]:
        return {"pk": {"S": self.dice.choice("abcdef")}, "sk": {"N": str(self.dice.randrange(4))}}

    def _item(self) -> dict[str, Any]:
        item = self._key() | {"n": {"N": str(self.dice.randrange(9))}, "v": {"S": self.dice.choice("xyz")}}
        if self.dice.random() < 0.7:
            item["kind"] = {"S": self.dice.choice("klm")}
        if self.dice.random() < 0.1:
            item["at"] = {"N": "1"}  # expired long ago: the sweep of a table with a time to live deletes it
        return item

    def _read(self) -> None:
        operation, named = self._request()
        table = self.dice.choice(NAMES)
        answer = ask(self.url, operation, named(table))
        if answer.status == 200:
            position = answer.headers["x-foldb-position"]
            self.stored.append(StoredAnswer(operation, table, named, answer.data, position))

    def _request(self) -> tuple[str, Callable[[str], dict[str, Any]]]:
        dice = self.dice
        consumed = {"ReturnConsumedCapacity": dice.choice(("NONE", "INDEXES"))}
        index = dice.choice((None, "by-kind", "by-n", "by-v"))
        page: dict[str, Any] = consumed | ({"IndexName": index} if index else {})
        if dice.random() < 0.5:
            page["Limit"] = dice.randrange(1, 9)
        match dice.randrange(7):
            case 0:
                return "DescribeTable", lambda name: {"TableName": name}
            case 1:
                keys = [{"pk": {"S": pk}, "sk": {"N": "1"}} for pk in "abcdef"]
                return "BatchGetItem", lambda name: {"RequestItems": {name: {"Keys": keys}}} | consumed
            case 2:
                gets = [{"pk": {"S": pk}, "sk": {"N": "2"}} for pk in "abc"]
                return (
                    "TransactGetItems",
                    lambda name: (
                        consumed
                        | {"TransactItems": [{"Get": {"TableName": name, "Key": key}} for key in gets]}
                    ),
                )
            case 3:
                key = self._key()
                return (
                    "GetItem",
                    lambda name: {"TableName": name, "Key": key, "ConsistentRead": True} | consumed,
                )
            case 4:
                return "Scan", lambda name: {"TableName": name} | page
            case 5:
                segment = {"Segment": dice.randrange(3), "TotalSegments": 3}
                return "Scan", lambda name: {"TableName": name, "IndexName": "by-kind"} | segment
            case _:
                attribute = {"by-kind": "kind", "by-v": "v"}.get(index or "", "pk")
                value = dice.choice({"kind": "klm", "v": "xyz", "pk": "abcdef"}[attribute])
                condition = {
                    "KeyConditionExpression": "#key = :key",
                    "ExpressionAttributeNames": {"#key": attribute},
                    "ExpressionAttributeValues": {":key": {"S": value}},
                    "ScanIndexForward": dice.random() < 0.5,
                }
                return "Query", lambda name: {"TableName": name} | condition | page


def live(urls: Sequence[str], seed: int, steps: int) -> list[Run]:
    """Return the runs of concurrent clients.

    Several nodes drop no tables: a node whose catalog is behind answers for a table that a partition no longer has.
    """
    runs = [
        Run(urls[client % len(urls)], random.Random(f"stored answers {seed} {client}"), len(urls) == 1)
        for client in range(CLIENTS)
    ]
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda run: run.live(steps), runs))
    return runs


def differing(url: str, runs: list[Run]) -> list[tuple[str, str, bytes, bytes]]:
    """Read all stored answers again at their positions; return those that differ."""
    return [difference for run in runs for difference in run.differing(url)]
