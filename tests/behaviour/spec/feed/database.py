"""A served database with tables, streams, triggers, and the notes that the functions of triggers write."""

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
"""A backoff that costs a test no time."""

_PROLOGUE = """
import json, os, time
from foldb import Change, ChangeError, Window, trigger

_NOTES = os.open({path!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

def note(*values):
    os.write(_NOTES, (json.dumps(values, default=str) + "\\n").encode())

"""


@dataclass
class Function:
    """Code that a trigger calls. It writes notes with `note(...)`, which the test reads.

    Attributes:
        sink: The Sink of subscriptions that call it.
    """

    path: Path
    notes_path: Path
    sink: dict[str, Any]

    def notes(self) -> list[Any]:
        """Return all notes in order."""
        if not self.notes_path.exists():
            return []
        data = self.notes_path.read_bytes()
        return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]

    def wait(self, count: int) -> list[Any]:
        """Return all notes once there are at least `count`."""
        until(lambda: len(self.notes()) >= count)
        return self.notes()

    def write(self, source: str) -> None:
        """Replace the file, as an editor does."""
        new = self.path.with_name(f"{self.path.name}~")
        new.write_text(_PROLOGUE.format(path=str(self.notes_path)) + source)
        new.rename(self.path)


@dataclass
class Database:
    """Clients and folders of a served database.

    Attributes:
        data: The folder of the log.
        triggers: The folder of functions and commands.
    """

    folder: Path
    url: str
    client: Any
    resource: Any
    streams: Any
    _counter: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def triggers(self) -> Path:
        return self.folder / "triggers"

    def table(self, *keys: str, view: str | None = BOTH, **settings: Any) -> Any:
        """Create a table, with a stream of `view` unless that is None. The default key is `pk`."""
        if view is not None:
            settings["StreamSpecification"] = {"StreamEnabled": True, "StreamViewType": view}
        request = table_request(f"t-{uuid.uuid4().hex[:8]}", *(keys or ("pk:S",)), **settings)
        table = self.resource.create_table(**request)
        until(lambda: self.client.describe_table(TableName=table.name)["Table"]["TableStatus"] == "ACTIVE")
        table.reload()
        return table

    def function(self, source: str, name: str = "handle", **sink: Any) -> Function:
        """Create a file in the folder of triggers; return its function as a sink."""
        module = f"code{next(self._counter)}"
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
        """Create an executable in the folder of triggers; it appends lines of JSON to `$NOTES`."""
        name = f"command{next(self._counter)}"
        path, notes = self.triggers / name, self.folder / f"{name}.notes"
        path.write_text(source.replace("$NOTES", str(notes)))
        path.chmod(0o700)
        return Function(path, notes, {"Kind": "command", "Command": [f"./{name}"]})

    def subscribe(self, table: Any, sink: dict[str, Any], **settings: Any) -> str:
        """Create a subscription and return its name."""
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
        """Call one of foldb's own operations."""
        return operate(self.url, operation, **request)

    def describe(self, name: str) -> dict[str, Any]:
        """Return the description of a subscription."""
        return described(self.url, name)

    def end_subscriptions(self) -> None:
        """Remove all subscriptions."""
        for each in self.operate("ListSubscriptions")["Subscriptions"]:
            self.operate("RemoveSubscription", Name=each["Name"])

    def settle(self) -> None:
        """Wait until every trigger has handled all changes."""
        settle(self.url)

    def dead_letters(self, name: str) -> list[dict[str, Any]]:
        """Return the dead letters of a subscription."""
        answer: list[dict[str, Any]] = self.operate("ListDeadLetters", Name=name)["DeadLetters"]
        return answer

    def changes(self, table: Any, count: int, **request: Any) -> list[dict[str, Any]]:
        """Return the changes of a table in the plain format, once there are at least `count`."""

        def read() -> list[dict[str, Any]]:
            changes: list[dict[str, Any]] = []
            page = self.operate("Changes", TableNames=[table.name], **request)
            while page["Changes"]:
                changes += page["Changes"]
                page = self.operate("Changes", TableNames=[table.name], After=page["Next"])
            return changes if len(changes) >= count else []

        found: list[dict[str, Any]] = until(read)
        return found

    def records(self, table: Any, count: int) -> list[dict[str, Any]]:
        """Return the records of a table's stream, once there are at least `count`."""
        arn = table.latest_stream_arn

        def read() -> list[dict[str, Any]]:
            found = read_stream(self.streams, arn)
            return found if len(found) >= count else []

        found: list[dict[str, Any]] = until(read)
        return found

    def cli(self, *arguments: str) -> str:
        """Run a `foldb` command and return its output."""
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
    """Return clients of a server, as the SDKs create them."""
    config = Config(retries={"total_max_attempts": 1}, max_pool_connections=20)
    at = {"endpoint_url": url, "region_name": "us-east-1", "config": config}
    resource = boto3.resource("dynamodb", **at)
    return Database(folder, url, resource.meta.client, resource, boto3.client("dynamodbstreams", **at))


def shards_of(streams: Any, arn: str) -> list[dict[str, Any]]:
    """Return all shards of a stream, page by page."""
    found: list[dict[str, Any]] = []
    request: dict[str, Any] = {"StreamArn": arn}
    while True:
        described = streams.describe_stream(**request)["StreamDescription"]
        found += described["Shards"]
        if "LastEvaluatedShardId" not in described:
            return found
        request["ExclusiveStartShardId"] = described["LastEvaluatedShardId"]


def iterator(streams: Any, arn: str, shard: str, kind: str = "TRIM_HORIZON", **where: Any) -> str:
    """Return an iterator of a shard."""
    given = {"StreamArn": arn, "ShardId": shard, "ShardIteratorType": kind} | where
    return str(streams.get_shard_iterator(**given)["ShardIterator"])


def read_shard(streams: Any, at: str | None, limit: int = 1000) -> list[dict[str, Any]]:
    """Return the records from an iterator to the current end of the shard."""
    found: list[dict[str, Any]] = []
    while at is not None:
        page = streams.get_records(ShardIterator=at, Limit=limit)
        found += page["Records"]
        at = page.get("NextShardIterator") if page["Records"] else None
    return found


def read_stream(streams: Any, arn: str) -> list[dict[str, Any]]:
    """Return all current records, parent shards before their children."""
    return [
        record
        for shard in shards_of(streams, arn)
        for record in read_shard(streams, iterator(streams, arn, shard["ShardId"]))
    ]


def images(records: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    """Return the images of stream records."""
    return [(record["dynamodb"].get("OldImage"), record["dynamodb"].get("NewImage")) for record in records]


def until_gone(path: Path) -> str:
    """Return code that waits while a file exists."""
    return f"while os.path.exists({os.fspath(path)!r}): time.sleep(0.005)"
