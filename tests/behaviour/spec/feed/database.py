"""A served database as its user sees it: tables with streams, functions that triggers call, and what they noted."""

import itertools
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from tests.support.served import foldb, served
from tests.support.subscribed import described, operate, settle, until
from tests.support.tables import table_request

BOTH = "NEW_AND_OLD_IMAGES"
QUICK = {"First": "0.01", "Most": "0.02"}
"""A backoff that no test has to wait for."""

_PROLOGUE = """
import json, os, time
from foldb import Change, ChangeError, Window, trigger

_NOTES = os.open({path!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

def note(*what):
    os.write(_NOTES, (json.dumps(what, default=str) + "\\n").encode())

"""


@dataclass
class Function:
    """Code that a trigger calls. It has `note(...)`, and the test reads what was noted.

    Attributes:
        sink: What to name as a subscription's Sink.
    """

    path: Path
    notes_path: Path
    sink: dict[str, Any]

    def notes(self) -> list[Any]:
        """All of them, in the order in which they were made."""
        if not self.notes_path.exists():
            return []
        data = self.notes_path.read_bytes()
        return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]

    def wait(self, count: int) -> list[Any]:
        """So many, once there are so many."""
        until(lambda: len(self.notes()) >= count)
        return self.notes()

    def write(self, source: str) -> None:
        """Save other code in its file, as an editor does."""
        new = self.path.with_name(f"{self.path.name}~")
        new.write_text(_PROLOGUE.format(path=str(self.notes_path)) + source)
        new.rename(self.path)


@dataclass
class Database:
    """See the module.

    Attributes:
        data: The folder of the log.
        triggers: That of functions and commands.
    """

    folder: Path
    url: str
    client: Any
    resource: Any
    streams: Any
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def triggers(self) -> Path:
        return self.folder / "triggers"

    def table(self, *keys: str, view: str | None = BOTH, **settings: Any) -> Any:
        """A new table, with a stream or without; its key is `pk` where nothing is said."""
        if view is not None:
            settings["StreamSpecification"] = {"StreamEnabled": True, "StreamViewType": view}
        request = table_request(f"t-{uuid.uuid4().hex[:8]}", *(keys or ("pk:S",)), **settings)
        table = self.resource.create_table(**request)
        until(lambda: self.client.describe_table(TableName=table.name)["Table"]["TableStatus"] == "ACTIVE")
        table.reload()
        return table

    def function(self, source: str, name: str = "handle", **sink: Any) -> Function:
        """A file of its own in the folder of triggers, and the function in it as a sink."""
        module = f"code{next(self._numbers)}"
        function = Function(
            self.triggers / f"{module}.py",
            self.folder / f"{module}.notes",
            {"Kind": "python", "Function": f"{module}:{name}"} | sink,
        )
        if sink.get("Kind") == "lambda":
            function.sink = {"Kind": "lambda", "Handler": f"{module}.{name}"}
        function.write(source)
        return function

    def command(self, source: str) -> Function:
        """The same for a file that is executed; `$NOTES` in it is where it notes lines of JSON."""
        name = f"command{next(self._numbers)}"
        path, notes = self.triggers / name, self.folder / f"{name}.notes"
        path.write_text(source.replace("$NOTES", str(notes)))
        path.chmod(0o700)
        return Function(path, notes, {"Kind": "command", "Command": [f"./{name}"]})

    def subscribe(self, table: Any, sink: dict[str, Any], **settings: Any) -> str:
        """Have changes delivered; the subscription's name."""
        name = f"s-{uuid.uuid4().hex[:8]}"
        tables = table if isinstance(table, list) else [table]
        operate(
            self.url,
            "CreateSubscription",
            Name=name,
            TableNames=[each.name for each in tables],
            Sink=sink,
            **({"Backoff": QUICK} | settings),
        )
        return name

    def operate(self, operation: str, **request: Any) -> Any:
        """One of foldb's own operations."""
        return operate(self.url, operation, **request)

    def describe(self, name: str) -> dict[str, Any]:
        """What is known of a subscription."""
        return described(self.url, name)

    def end_subscriptions(self) -> None:
        """Remove all there are."""
        for each in self.operate("ListSubscriptions")["Subscriptions"]:
            self.operate("RemoveSubscription", Name=each["Name"])

    def settle(self) -> None:
        """Wait until every trigger has handled what was written."""
        settle(self.url)

    def letters(self, name: str) -> list[dict[str, Any]]:
        """The dead letters of a subscription."""
        told: list[dict[str, Any]] = self.operate("ListDeadLetters", Name=name)["DeadLetters"]
        return told

    def changes(self, table: Any, count: int, **request: Any) -> list[dict[str, Any]]:
        """So many changes of a table in foldb's own words, once there are so many."""

        def read() -> list[dict[str, Any]]:
            told: list[dict[str, Any]] = []
            page = self.operate("Changes", TableNames=[table.name], **request)
            while page["Changes"]:
                told += page["Changes"]
                page = self.operate("Changes", TableNames=[table.name], After=page["Next"])
            return told if len(told) >= count else []

        found: list[dict[str, Any]] = until(read)
        return found

    def records(self, table: Any, count: int) -> list[dict[str, Any]]:
        """All records of a table's stream, once there are at least so many."""
        arn = table.latest_stream_arn

        def read() -> list[dict[str, Any]]:
            found = read_stream(self.streams, arn)
            return found if len(found) >= count else []

        found: list[dict[str, Any]] = until(read)
        return found

    def cli(self, *arguments: str) -> str:
        """What a `foldb` command prints."""
        ran = foldb("--db", self.url, *arguments)
        assert 0 == ran.returncode, ran.stderr
        return ran.stdout


@contextmanager
def opened(folder: Path, *options: str) -> Iterator[Database]:
    """Serve a database from the start of the block to its end."""
    (folder / "triggers").mkdir(exist_ok=True)
    (folder / "data").mkdir(exist_ok=True)
    given = [
        *("--triggers", str(folder / "triggers"), "--webhooks", "127.0.0.1", "--ttl-interval", "20ms"),
        *options,
    ]
    with served(folder / "data", *given) as url:
        yield connected(folder, url)


def connected(folder: Path, url: str) -> Database:
    """Clients of a server, as SDKs come."""
    config = Config(retries={"total_max_attempts": 1}, max_pool_connections=20)
    at = {"endpoint_url": url, "region_name": "us-east-1", "config": config}
    resource = boto3.resource("dynamodb", **at)
    return Database(folder, url, resource.meta.client, resource, boto3.client("dynamodbstreams", **at))


def shards_of(streams: Any, arn: str) -> list[dict[str, Any]]:
    """All shards of a stream, page by page."""
    found: list[dict[str, Any]] = []
    request: dict[str, Any] = {"StreamArn": arn}
    while True:
        described = streams.describe_stream(**request)["StreamDescription"]
        found += described["Shards"]
        if "LastEvaluatedShardId" not in described:
            return found
        request["ExclusiveStartShardId"] = described["LastEvaluatedShardId"]


def iterator(streams: Any, arn: str, shard: str, kind: str = "TRIM_HORIZON", **where: Any) -> str:
    """An iterator."""
    given = {"StreamArn": arn, "ShardId": shard, "ShardIteratorType": kind} | where
    return str(streams.get_shard_iterator(**given)["ShardIterator"])


def read_shard(streams: Any, at: str | None, limit: int = 1000) -> list[dict[str, Any]]:
    """What an iterator leads to, up to where there is nothing more now."""
    found: list[dict[str, Any]] = []
    while at is not None:
        page = streams.get_records(ShardIterator=at, Limit=limit)
        found += page["Records"]
        at = page.get("NextShardIterator") if page["Records"] else None
    return found


def read_stream(streams: Any, arn: str) -> list[dict[str, Any]]:
    """All there is now, parents before their children."""
    return [
        record
        for shard in shards_of(streams, arn)
        for record in read_shard(streams, iterator(streams, arn, shard["ShardId"]))
    ]


def images(records: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    """The images of stream records."""
    return [(record["dynamodb"].get("OldImage"), record["dynamodb"].get("NewImage")) for record in records]


def until_gone(path: Path) -> str:
    """Code that waits while a file is there."""
    return f"while os.path.exists({os.fspath(path)!r}): time.sleep(0.005)"
