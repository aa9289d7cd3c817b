"""Answers that are stored with their positions are given again, byte for byte, when the past is read there.

    random writes and tables ──► whole live answers, with x-foldb-position ──► the same requests to TABLE@POSITION
                           └───► the item before and after each write      ──► GetItem before, at and after its position

The answers themselves are the model: nothing is folded, and nothing is assumed about how a history is kept.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from foldb.log.local.filesystem import SystemFilesystem
from foldb.materializer.history.epoch_storage import read_list
from foldb.materializer.history.history import FOLDER
from foldb.model.cuts import NamedPosition, parse_positions
from tests.support.raw import Answer, ask
from tests.support.tables import table_request

NAMES = ("Orders", "Cars")
CLIENTS = 3
HOUR_MS = 3_600_000

_ATTEMPTS = 3  # the server answers each with an error after ten seconds
_BEFORE_HORIZON = b"The history of this database begins at position"

Item = dict[str, Any]
MoveClock = Callable[[int], None]
Horizon = Mapping[int | None, int]
"""The oldest offset that can be read, by partition; None where there is one partition."""


@dataclass
class StoredAnswer:
    """A read and the answer that it had. `named` returns the body of the request for a table's name."""

    operation: str
    table: str
    named: Callable[[str], dict[str, Any]]
    data: bytes
    position: str
    time_ms: int


@dataclass
class Written:
    """An acknowledged write of one item, with the item before and after it; None where there was no item."""

    table: str
    key: Item
    position: NamedPosition
    old: Item | None
    new: Item | None
    time_ms: int


class Difference(NamedTuple):
    """A read of the past whose answer is not the stored one. `found` and `again` are two answers to the request."""

    operation: str
    request: dict[str, Any]
    expected: object
    found: Answer
    again: Answer

    @property
    def text(self) -> str:
        """Everything that is needed to find the cause."""
        answers = (
            f"{each.status} {dict(each.headers)}\n    {each.data!r}" for each in (self.found, self.again)
        )
        first, second = answers
        return f"""{self.operation} {self.request}
  expected: {self.expected!r}
  found:    {first}
  again:    {second}"""


@dataclass
class Run:
    """A random run against a served database.

    Attributes:
        drops: Whether tables are deleted, and created again.
        move_clock: Moves the server's clock by milliseconds; None if that is impossible.
        stored: The answers of the reads so far.
        written: The writes so far.
        restored: The name of a table of this run alone, which restores create.
    """

    url: str
    dice: random.Random
    restored: str
    drops: bool = True
    move_clock: MoveClock | None = None
    stored: list[StoredAnswer] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)

    def live(self, steps: int) -> None:
        """Write and read at random."""
        for name in NAMES:
            self._create(name)
        for _ in range(steps):
            if self.dice.random() < 0.45:
                self._write()
            else:
                self._read()

    def forget_since(self, time_ms: int) -> None:
        """Forget the answers and writes at a log time and later."""
        self.stored = [each for each in self.stored if each.time_ms < time_ms]
        self.written = [each for each in self.written if each.time_ms < time_ms]

    def differing(self, url: str, horizon: Horizon) -> list[Difference]:
        """Read the stored answers and the written versions again, in any order; return those that differ."""
        self.dice.shuffle(self.stored)
        found = []
        for each in self.stored:
            past = f"{each.table}@{each.position}"
            answer = _read_past(url, each.operation, each.named(past))
            data = answer.data.replace(past.encode(), each.table.encode())
            if not _are_kept(each.position, horizon):
                if _BEFORE_HORIZON not in data:
                    found.append(_difference(url, each.operation, each.named(past), _BEFORE_HORIZON, answer))
            elif data != each.data:
                found.append(_difference(url, each.operation, each.named(past), each.data, answer))
        for version in self.written:
            if is_kept(_before(version.position), horizon):
                found += _differing_version(url, version)
        return found

    def _write(self) -> None:
        dice, name = self.dice, self.dice.choice(NAMES)
        match dice.randrange(28):
            case 0 if self.drops:
                ask(self.url, "DeleteTable", {"TableName": name})
                self._create(name)
            case 1 | 17:
                self._change_indexes(name)
            case 2:
                time_to_live = {"AttributeName": "at", "Enabled": dice.random() < 0.5}
                body = {"TableName": name, "TimeToLiveSpecification": time_to_live}
                ask(self.url, "UpdateTimeToLive", body)
            case 3 | 4 | 5:
                actions = [self._action(dice.choice(NAMES)) for _ in range(dice.randrange(1, 5))]
                ask(self.url, "TransactWriteItems", {"TransactItems": actions})
            case 6 | 7 | 8:
                self._note("DeleteItem", name, self._key(), {}, lambda _: None)
            case 9 | 10:
                requests = [{"PutRequest": {"Item": self._item()}} for _ in range(3)]
                ask(self.url, "BatchWriteItem", {"RequestItems": {name: requests}})
            case 11 | 12 | 13:
                key = self._key()
                update = {"UpdateExpression": "ADD n :n", "ExpressionAttributeValues": {":n": {"N": "1"}}}
                self._note("UpdateItem", name, key, update, lambda old: _added(old or key))
            case 14 if self.drops:
                self._restore(name)
            case 15 if self.written:
                position = position_text(dice.choice(self.written[-20:]).position)
                ask(self.url, "Foldb_20261121.Undo", {"Position": position, "SkipConflicts": True})
            case 16 if self.move_clock is not None:
                self.move_clock(dice.choice((-HOUR_MS, -1000, -20, 20, 1000, HOUR_MS)))
            case _:
                item = self._item()
                key = {attribute: item[attribute] for attribute in ("pk", "sk")}
                self._note("PutItem", name, key, {"Item": item}, lambda _: item)

    def _note(
        self,
        operation: str,
        table: str,
        key: Item,
        request: dict[str, Any],
        after: Callable[[Item | None], Item | None],
    ) -> None:
        """Write an item, and note the write with the item before and after it."""
        named = request if operation == "PutItem" else request | {"Key": key}
        answer = ask(self.url, operation, named | {"TableName": table, "ReturnValues": "ALL_OLD"})
        if answer.status == 200:
            [position] = parse_positions(answer.headers["x-foldb-position"])
            old = answer.body.get("Attributes")
            time_ms = int(answer.headers["x-foldb-log-time"])
            self.written.append(Written(table, key, position, old, after(old), time_ms))

    def _create(self, name: str) -> None:
        created = ask(
            self.url,
            "CreateTable",
            table_request(
                name, "pk:S", "sk:N", gsi={"by-kind": "kind:S KEYS_ONLY"}, lsi={"by-n": "n:N KEYS_ONLY"}
            ),
        )
        if created.status == 200:
            recovery = {"PointInTimeRecoveryEnabled": True}
            body = {"TableName": name, "PointInTimeRecoverySpecification": recovery}
            ask(self.url, "UpdateContinuousBackups", body)

    def _restore(self, source: str) -> None:
        """Restore a table under the same name again and again, from a backup or to the latest time."""
        ask(self.url, "DeleteTable", {"TableName": self.restored})
        target = {"TargetTableName": self.restored}
        if self.dice.random() < 0.5:
            backup = ask(self.url, "CreateBackup", {"TableName": source, "BackupName": "backup"})
            if backup.status == 200:
                arn = backup.body["BackupDetails"]["BackupArn"]
                ask(self.url, "RestoreTableFromBackup", target | {"BackupArn": arn})
        else:
            latest = {"SourceTableName": source, "UseLatestRestorableTime": True}
            ask(self.url, "RestoreTableToPointInTime", target | latest)

    def _change_indexes(self, name: str) -> None:
        create = {
            "IndexName": "by-v",
            "KeySchema": [{"AttributeName": "v", "KeyType": "HASH"}],
            "Projection": {"ProjectionType": "ALL"},
        }
        change = {"Create": create} if self.dice.random() < 0.75 else {"Delete": {"IndexName": "by-v"}}
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
        table = self.dice.choice((*NAMES, *NAMES, self.restored))
        answer = ask(self.url, operation, named(table))
        if answer.status == 200:
            position = answer.headers["x-foldb-position"]
            time_ms = int(answer.headers["x-foldb-log-time"])
            self.stored.append(StoredAnswer(operation, table, named, answer.data, position, time_ms))

    def _request(self) -> tuple[str, Callable[[str], dict[str, Any]]]:
        dice = self.dice
        consumed = {"ReturnConsumedCapacity": dice.choice(("NONE", "INDEXES"))}
        index = dice.choice((None, "by-kind", "by-n", "by-v"))
        page: dict[str, Any] = consumed | ({"IndexName": index} if index else {"ConsistentRead": True})
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


def live(urls: Sequence[str], seed: int, steps: int, move_clock: MoveClock | None = None) -> list[Run]:
    """Return the runs of concurrent clients.

    Several nodes drop no tables: a node whose catalog is behind answers for a table that a partition no longer has.
    """
    runs = [
        Run(
            urls[client % len(urls)],
            random.Random(f"stored answers {seed} {client}"),
            f"Restored{client}",
            len(urls) == 1,
            move_clock,
        )
        for client in range(CLIENTS)
    ]
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda run: run.live(steps), runs))
    return runs


def check_again(
    url: str, runs: list[Run], horizon: Horizon | None = None, folder: Path | None = None
) -> None:
    """Read all stored answers and written versions again at their positions.

    Those from before the horizon must be refused.

    Raises:
        AssertionError: Some answers differ. The text has them whole, and the epochs in the folder of the database.
    """
    differences = [difference for run in runs for difference in run.differing(url, horizon or {})]
    if differences:
        texts = [f"{len(differences)} answers differ; the horizon is {horizon}"]
        texts += [difference.text for difference in differences]
        for epochs in () if folder is None else sorted((folder / FOLDER).glob("*")):
            texts.append(f"{epochs}: {read_list(SystemFilesystem(), epochs)!r}")
        raise AssertionError("\n".join(texts))


def is_kept(position: NamedPosition, horizon: Horizon) -> bool:
    """Return whether a position is not before the horizon of its partition."""
    return position.offset >= horizon.get(position.partition, 0)


def _are_kept(positions: str, horizon: Horizon) -> bool:
    return all(is_kept(each, horizon) for each in parse_positions(positions))


def _differing_version(url: str, version: Written) -> list[Difference]:
    """Read an item right before a write, at it and up to the next command of the log."""
    found = []
    position = version.position
    after = NamedPosition(position.partition, position.offset + 1, 0)
    for cut, expected in ((_before(position), version.old), (position, version.new)):
        answer = _item_at(url, version, cut)
        if answer.status != 200 or answer.body.get("Item") != expected:
            found.append(_difference(url, "GetItem", _get_at(version, cut), expected, answer))
    answer = _item_at(url, version, after)
    is_dropped = answer.status == 400 and b"ResourceNotFoundException" in answer.data
    is_last = answer.status == 400 and b"The log ends before" in answer.data
    is_same = answer.status == 200 and answer.body.get("Item") == version.new
    if not (is_same or is_dropped or is_last or _is_written_at(url, version, after, answer)):
        found.append(_difference(url, "GetItem", _get_at(version, after), version.new, answer))
    return found


def _difference(
    url: str, operation: str, request: dict[str, Any], expected: object, found: Answer
) -> Difference:
    """Return a difference, and whether it remains: the request is sent again."""
    return Difference(operation, request, expected, found, _read_past(url, operation, request))


def _item_at(url: str, version: Written, cut: NamedPosition) -> Answer:
    return _read_past(url, "GetItem", _get_at(version, cut))


def _get_at(version: Written, cut: NamedPosition) -> dict[str, Any]:
    name = f"{version.table}@{position_text(cut)}"
    return {"TableName": name, "Key": version.key, "ConsistentRead": True}


def _is_written_at(url: str, version: Written, after: NamedPosition, answer: Answer) -> bool:
    """Return whether the next command, or a later one of the same entry, wrote the item or made the table again."""
    window = {"From": position_text(version.position), "To": position_text(after)}
    body = {"TableName": version.table, "Key": version.key} | window
    history = _read_past(url, "Foldb_20261121.ItemHistory", body).body
    later = [each for each in history.get("Versions", ()) if each["Kind"] != "refused"]
    if later:
        return bool(later[0].get("Item") == answer.body.get("Item"))
    is_new = _table_id(url, version, after) != _table_id(url, version, version.position)
    return is_new and "Item" not in answer.body


def _table_id(url: str, version: Written, cut: NamedPosition) -> str | None:
    """Return the id of a table at a cut; None if the catalog had deleted it, and a partition not yet."""
    body = {"TableName": f"{version.table}@{position_text(cut)}"}
    described = _read_past(url, "DescribeTable", body)
    if described.status == 400 and b"ResourceNotFoundException" in described.data:
        return None
    assert described.status == 200, f"{body}: {described.status} {described.data!r}"
    return str(described.body["Table"]["TableId"])


def _read_past(url: str, operation: str, body: dict[str, Any]) -> Answer:
    """Send a request, and repeat it after an error of the server, as an SDK does: its history may be folded again."""
    for _ in range(_ATTEMPTS - 1):
        answer = ask(url, operation, body)
        if answer.status < 500:
            return answer
    return ask(url, operation, body)


def _before(position: NamedPosition) -> NamedPosition:
    """Return the position of the command before."""
    if position.index:
        return NamedPosition(position.partition, position.offset, position.index - 1)
    return NamedPosition(position.partition, position.offset - 1)


def _added(item: Item) -> Item:
    """Return an item after ADD n 1."""
    return item | {"n": {"N": str(int(item.get("n", {"N": "0"})["N"]) + 1)}}


def position_text(position: NamedPosition) -> str:
    partition = "" if position.partition is None else f"{position.partition}:"
    index = "" if position.index is None else f".{position.index}"
    return f"{partition}{position.offset}{index}"
