"""Commands, webhooks, topics of Kafka, files and SQLite."""

import base64
import hashlib
import hmac
import json
import sqlite3
import stat
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer

from tests.behaviour.spec.feed.database import Database
from tests.support.raw import ask
from tests.support.subscribed import until

NOTIFY = """#!/bin/sh
while read -r line; do printf '%s\\n' "$line" >> $NOTES; done
"""
EVIL = "; touch $HOME/evil; $(touch evil) `touch evil` | \n %0a \" '"


@pytest.mark.spec("T3")
def test_a_command_gets_json_lines_and_returns_an_exit_code(database: Database, table: Any) -> None:
    once = database.folder / "failed-once"
    command = database.command(NOTIFY + f"if [ ! -e {once} ]; then touch {once}; exit 3; fi\nexit 0\n")
    name = database.subscribe(table, command.sink, BatchSize=10)
    table.put_item(Item={"pk": "car", "colour": "red"})
    database.settle()
    [change] = database.changes(table, 1)

    assert [change, change] == command.notes(), "the first call failed"
    assert "exit status 3" in str(database.describe(name)["LastError"])
    assert command.path.stat().st_mode & stat.S_IXUSR


@pytest.mark.spec("T3")
def test_an_item_reaches_a_command_on_stdin_only(database: Database, table: Any) -> None:
    """No shell parses it."""
    command = database.command(
        '#!/bin/sh\ncat >> $NOTES\nenv | grep -c touch >> $NOTES\necho "$#" >> $NOTES\n'
    )
    database.subscribe(table, command.sink)
    table.put_item(Item={"pk": EVIL})
    database.settle()
    [change, environment, arguments] = command.notes()

    assert {"S": EVIL} == change["new"]["pk"]
    assert (0, 0) == (environment, arguments)
    assert [] == list(database.triggers.rglob("evil"))


@pytest.mark.spec("T3")
def test_a_command_is_added_on_the_command_line(database: Database, table: Any) -> None:
    command = database.command(NOTIFY)
    name = f"cli-{uuid.uuid4().hex[:6]}"
    database.cli("trigger", "add", name, "--table", table.name, "--run", f"./{command.path.name}")
    table.put_item(Item={"pk": "one"})
    database.settle()

    assert ["one"] == [change["keys"]["pk"]["S"] for change in command.notes()]


@dataclass
class Hook:
    """A server that responds as the test asks.

    Attributes:
        answers: The status and headers of the next answers; then it answers 204.
        got: Headers, body and time of each request.
    """

    url: str = ""
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    got: list[tuple[dict[str, str], bytes, float]] = field(default_factory=list)
    hang: threading.Event = field(default_factory=threading.Event)

    def bodies(self) -> list[Any]:
        return [json.loads(body) for _, body, _ in self.got]


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            hook.got.append((headers, body, time.monotonic()))
            status, more = hook.answers.pop(0) if hook.answers else (204, {})
            if status == 0:
                hook.hang.wait(20)
                status = 204
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    hook.url = f"http://127.0.0.1:{server.server_port}/hook"
    yield hook
    hook.hang.set()
    server.shutdown()
    thread.join()
    server.server_close()


SECRET = "whsec_" + base64.b64encode(b"a secret of 24 characters").decode()


def webhook(hook: Hook, **more: Any) -> dict[str, Any]:
    return {"Kind": "webhook", "Url": hook.url, "Secrets": [SECRET]} | more


@pytest.mark.spec("T4")
def test_a_webhook_gets_a_signed_cloudevent_per_change(database: Database, table: Any, hook: Hook) -> None:
    database.subscribe(table, webhook(hook))
    table.put_item(Item={"pk": "car", "colour": "red"})
    database.settle()
    [(headers, body, _)] = hook.got
    event = json.loads(body)
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.new(base64.b64decode(SECRET.removeprefix("whsec_")), signed, hashlib.sha256).digest()

    assert "1.0" == event["specversion"]
    assert headers["content-type"].startswith("application/cloudevents+json")
    assert {"id", "source", "type", "time", "data"} <= event.keys()
    assert {"S": "red"} == event["data"]["new"]["colour"]
    assert f"v1,{base64.b64encode(digest).decode()}" in headers["webhook-signature"].split()


@pytest.mark.spec("T4")
def test_in_binary_mode_attributes_are_headers(database: Database, table: Any, hook: Hook) -> None:
    database.subscribe(table, webhook(hook, Mode="binary"))
    table.put_item(Item={"pk": "car"})
    database.settle()
    [(headers, body, _)] = hook.got

    assert ("1.0", database.changes(table, 1)[0]) == (headers["ce-specversion"], json.loads(body))


@pytest.mark.spec("T4")
def test_a_failed_webhook_is_retried_after_its_retry_after(
    database: Database, table: Any, hook: Hook
) -> None:
    hook.answers += [(500, {}), (429, {"Retry-After": "1"}), (503, {})]
    name = database.subscribe(table, webhook(hook))
    table.put_item(Item={"pk": "one"})
    table.put_item(Item={"pk": "two"})
    database.settle()

    assert ["one"] * 4 + ["two"] == [event["data"]["keys"]["pk"]["S"] for event in hook.bodies()]
    times = [moment for *_, moment in hook.got]
    assert times[2] - times[1] >= 1.0
    assert 1 == len({headers["webhook-id"] for headers, *_ in hook.got[:4]}), "by which it knows them"
    assert [] == database.dead_letters(name)


@pytest.mark.spec("T4")
def test_a_410_ends_the_subscription(database: Database, table: Any, hook: Hook) -> None:
    hook.answers += [(410, {})]
    name = database.subscribe(table, webhook(hook))
    table.put_item(Item={"pk": "one"})
    until(lambda: database.describe(name)["Status"] == "STOPPED")
    table.put_item(Item={"pk": "two"})

    assert "410" in database.describe(name)["Reason"]
    assert 1 == len(hook.got)


@pytest.mark.spec("T4")
def test_a_webhook_that_does_not_respond_times_out(database: Database, table: Any, hook: Hook) -> None:
    hook.answers += [(0, {})]
    database.subscribe(table, webhook(hook), TimeoutSeconds="0.3")
    table.put_item(Item={"pk": "one"})
    database.settle()

    assert 2 == len(hook.got)


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:10.0.0.1]/",
        "http://10.1.2.3/",
        "ftp://127.0.0.1/",
        "http://user:password@127.0.0.1/",
    ],
)
@pytest.mark.spec("T4")
def test_a_webhook_calls_only_permitted_addresses(database: Database, table: Any, url: str) -> None:
    answer = ask(
        database.url,
        "Foldb_20261121.CreateSubscription",
        {"Name": "x", "TableNames": [table.name], "Sink": {"Kind": "webhook", "Url": url}},
    )

    assert 400 == answer.status, "refused when it is made"


@pytest.mark.parametrize(
    "format_", ["debezium", *(pytest.param(each, marks=pytest.mark.soak) for each in ("plain", "kinesis"))]
)
@pytest.mark.spec("T5")
def test_a_topic_has_each_change_in_order_of_its_key(
    open_database: Callable[..., Any], kafka: str, format_: str
) -> None:
    prefix = f"feed-{uuid.uuid4().hex[:8]}"
    with open_database("--kafka-sink", f"kafka://{kafka}/{prefix}") as database:
        table = database.table()
        database.subscribe(table, {"Kind": "kafka", "Topic": "orders", "Format": format_})
        for n in range(10):
            table.put_item(Item={"pk": f"{n % 3}", "n": n})
        database.settle()
        changes = database.changes(table, 10)
    consumer = KafkaConsumer(
        f"{prefix}.orders",
        bootstrap_servers=kafka,
        auto_offset_reset="earliest",
        consumer_timeout_ms=5000,
        enable_auto_commit=False,
    )
    messages = []
    for message in consumer:
        messages.append(message)
        if len(messages) == 10:
            break
    consumer.close()
    by_key: dict[bytes, list[int]] = {}
    for message in messages:
        value = json.loads(message.value)
        new = {"plain": value.get("new"), "debezium": value.get("after")}.get(
            format_, value.get("dynamodb", {}).get("NewImage")
        )
        by_key.setdefault(message.key, []).append(int(new["n"]["N"]))

    assert [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]] == sorted(by_key.values())
    headers = [{name: value.decode() for name, value in message.headers} for message in messages]
    assert {change["position"] for change in changes} == {
        next(value for name, value in each.items() if "position" in name) for each in headers
    }


@pytest.mark.spec("T5", "S92")
def test_each_file_of_a_folder_is_written_once(open_database: Callable[..., Any], tmp_path: Path) -> None:
    with open_database() as database:
        table = database.table()
        database.subscribe(table, {"Kind": "file", "Folder": "archive", "Format": "jsonl"}, BatchSize=10)
        for n in range(30):
            table.put_item(Item={"pk": f"{n}"})
        database.settle()
    files = [path for path in tmp_path.rglob("*.jsonl") if "archive" in path.parts]
    rows = [json.loads(line) for path in files for line in path.read_text().splitlines()]

    assert sorted(f"{n}" for n in range(30)) == sorted(row["keys"]["pk"]["S"] for row in rows)
    assert len(files) == len({path.name for path in files})


@pytest.mark.spec("F8", "S92")
def test_items_of_two_snapshots_have_different_positions(
    open_database: Callable[..., Any], tmp_path: Path
) -> None:
    with open_database() as database:
        table = database.table()
        for version in (1, 2):
            table.put_item(Item={"pk": "a", "version": version})
            lake = {"Kind": "file", "Folder": "lake", "Format": "jsonl"}
            name = database.subscribe(table, lake, Start={"At": "SNAPSHOT"})
            database.settle()
            database.operate("RemoveSubscription", Name=name)
        put, again = database.changes(table, 2)
    rows = [
        json.loads(line)
        for path in tmp_path.rglob("*.jsonl")
        if "lake" in path.parts
        for line in path.read_text().splitlines()
    ]

    first, second = sorted(rows, key=lambda row: int(row["number"]))
    assert ["READ", "READ"] == [first["op"], second["op"]]
    assert ["1", "2"] == [row["new"]["version"]["N"] for row in (first, second)]
    assert int(put["number"]) < int(first["number"]) < int(again["number"]) < int(second["number"])
    assert int(put["position"].partition(".")[0]) <= int(first["position"])


@pytest.mark.spec("T5")
def test_a_sqlite_file_has_the_items_of_the_table(open_database: Callable[..., Any], tmp_path: Path) -> None:
    with open_database() as database:
        table = database.table()
        for n in range(60):
            if n == 20:
                sink = {"Kind": "sqlite", "Database": "shop"}
                database.subscribe(
                    table, sink, Start={"At": "SNAPSHOT"}, ParallelizationFactor=3, BatchSize=7
                )
            if n % 4 == 3:
                table.delete_item(Key={"pk": f"{n % 11}"})
            else:
                table.put_item(Item={"pk": f"{n % 11}", "n": n})
        database.settle()
        items = {item["pk"]: int(item["n"]) for item in table.scan()["Items"]}
    [path] = tmp_path.rglob("shop.db")
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(f"""SELECT pk, json_extract(item, '$.n') FROM "{table.name}" """).fetchall()

    assert items == dict(rows)
    assert len(items) == len(rows)
