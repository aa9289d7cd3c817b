"""docs/examples, run unchanged."""

import asyncio
import http.client
import json
import logging
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from foldb.streams.workers.code_folder import CodeFolder
from foldb.streams.workers.declarations import Declarations
from tests.behaviour.cli.consoles import steps
from tests.behaviour.examples.conftest import Run
from tests.behaviour.examples.running import EXAMPLES, Running

# The orders of the article on normalizing, one row each: customer, transaction, price, date, zip code.
PURCHASES = [
    ("cust1", "1", 200, "2013-10-01", "98001"),
    ("cust2", "1", 100, "2013-09-05", "98002"),
    ("cust3", "1", 500, "2013-10-08", "98003"),
    ("cust1", "2", 1000, "2013-09-12", "98004"),
]


def until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds that no event announces."""
    ends = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < ends, "it did not come"


def test_a_receipt_is_sent_when_an_order_becomes_paid(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    running = run("receipts.py")
    orders = running.table("Orders", "id:S")
    orders.put_item(Item={"id": "o-1", "state": "new", "price": 42})
    orders.put_item(Item={"id": "o-2", "state": "paid", "price": 7})
    for state in ("paid", "sent"):
        orders.update_item(
            Key={"id": "o-1"},
            UpdateExpression="SET #s = :s",
            ExpressionAttributeNames={"#s": "state"},
            ExpressionAttributeValues={":s": state},
        )
    orders.delete_item(Key={"id": "o-2"})

    running.settle()

    said = [record.getMessage() for record in caplog.records if "receipt:" in record.getMessage()]
    assert sorted(said) == [
        "send_receipt: receipt: o-1, 42 euros",
        "send_receipt: receipt: o-2, 7 euros",
    ]


def purchased(running: Running) -> None:
    purchases = running.resource.Table("Purchases")
    for customer, transaction, price, date, zipcode in PURCHASES:
        purchases.put_item(
            Item={
                "Custid": customer,
                "Transaction_Id": transaction,
                "Price": price,
                "Order_date": date,
                "Zipcode": zipcode,
            }
        )


def moved(running: Running) -> None:
    """Move a purchase from Seattle to Renton, cancel one, and lower the price of one."""
    purchases = running.resource.Table("Purchases")
    change = purchases.update_item
    change(
        Key={"Custid": "cust1", "Transaction_Id": "2"},
        UpdateExpression="SET Zipcode = :z",
        ExpressionAttributeValues={":z": "98002"},
    )
    change(
        Key={"Custid": "cust3", "Transaction_Id": "1"},
        UpdateExpression="SET Price = :p",
        ExpressionAttributeValues={":p": 450},
    )
    purchases.delete_item(Key={"Custid": "cust1", "Transaction_Id": "1"})


VIEW = [
    {"City": "Bellevue", "spent": Decimal(0), "purchases": Decimal(0)},
    {"City": "Redmond", "spent": Decimal(450), "purchases": Decimal(1)},
    {"City": "Renton", "spent": Decimal(1100), "purchases": Decimal(2)},
    {"City": "Seattle", "spent": Decimal(0), "purchases": Decimal(0)},
]


def view(running: Running) -> list[dict[str, object]]:
    return sorted(running.items("Spending"), key=lambda item: str(item["City"]))


@pytest.mark.spec("S98", "S09")
def test_a_materialized_view_is_the_same_after_a_rebuild(run: Run) -> None:
    running = run("spending.py")
    running.table("Spending", "City:S")
    running.table("Purchases", "Custid:S", "Transaction_Id:S")
    purchased(running)
    running.settle()
    assert [
        ("Bellevue", 200),
        ("Redmond", 500),
        ("Renton", 100),
        ("Seattle", 1000),
    ] == [(item["City"], item["spent"]) for item in view(running)]

    moved(running)
    running.settle()
    assert view(running) == VIEW

    running.foldb("trigger", "pause", "spending")
    for table in ("Spending", "spending.once"):
        running.resource.Table(table).delete()
    running.table("Spending", "City:S")
    running.foldb("trigger", "reset", "spending", "--from", "start")
    running.foldb("trigger", "resume", "spending")
    running.settle()
    assert view(running) == VIEW


def test_a_view_counts_repeated_changes_once(run: Run) -> None:
    running = run("spending.py")
    running.table("Spending", "City:S")
    running.table("Purchases", "Custid:S", "Transaction_Id:S")
    purchased(running)
    moved(running)
    running.settle()

    for _ in range(2):
        running.foldb("trigger", "reset", "spending", "--from", "start")
        running.settle()

    assert view(running) == VIEW


def test_every_example_is_served_unchanged(tmp_path: Path) -> None:
    """`foldb serve --triggers docs/examples`, without configuration."""
    found = asyncio.run(Declarations(CodeFolder(EXAMPLES), tmp_path).read("http://127.0.0.1:1"))

    assert {} == found.problems
    assert found.declared["archive.py"]


@pytest.mark.spec("S93")
def test_expired_items_are_archived_and_deleted_ones_are_not(run: Run, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    running = run("archive.py", env=f"ARCHIVE={archive}", ttl_interval_ms=20)
    sessions = running.table("Sessions", "id:S")
    running.resource.meta.client.update_time_to_live(
        TableName="Sessions", TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires"}
    )
    more = {"visits": 3, "share": Decimal("0.1234567890123456789012345"), "tags": {"b", "a"}, "raw": b"\0\1"}
    sessions.put_item(Item={"id": "mine", "expires": int(time.time()) - 60, **more})
    sessions.put_item(Item={"id": "yours", "expires": int(time.time()) + 3600})
    sessions.delete_item(Key={"id": "yours"})
    until(lambda: not running.items("Sessions"))

    running.settle()

    [file] = archive.iterdir()
    item = json.loads(file.read_text(), parse_float=Decimal)["item"]
    del item["expires"]
    assert item == {"id": "mine", **more, "tags": ["a", "b"], "raw": "AAE="}


@pytest.mark.spec("T16")
def test_visits_are_counted_by_windows_of_time(run: Run) -> None:
    """The window of the example is a minute; here it is a second."""
    running = run("visits.py", edit={'tumbling="1m"': 'tumbling="1s"'})
    running.table("Minutes", "page:S", "minute:S")
    visits = running.table("Visits", "id:S")
    for nth in range(40):
        visits.put_item(Item={"id": f"v-{nth}", "page": "/home" if nth % 4 else "/about"})

    def counted() -> bool:
        running.settle()
        return sum(int(item["visits"]) for item in running.items("Minutes")) == 40

    until(counted)

    by_page = {"/home": 0, "/about": 0}
    for item in running.items("Minutes"):
        by_page[item["page"]] += int(item["visits"])
        assert datetime.fromisoformat(item["minute"]).microsecond == 0
    assert by_page == {"/home": 30, "/about": 10}
    starts = {datetime.fromisoformat(item["minute"]) for item in running.items("Minutes")}
    assert max(starts) - min(starts) < timedelta(minutes=1)


def test_a_lambda_handler_runs_and_reports_its_failures(run: Run) -> None:
    running = run("lambda_app.py")
    running.table("Alerts", "article:S")
    stock = running.table("Stock", "article:S")
    running.foldb(
        "trigger", "add", "stock", "--table", "Stock", "--lambda", "lambda_app.py:lambda_handler", "--partial",
        "--retries", "0",
    )  # fmt: skip
    with stock.batch_writer() as batch:
        for article, left in (("tea", 40), ("salt", 3), ("rice", 4)):
            batch.put_item(Item={"article": article, "left": left})
    stock.put_item(Item={"article": "nothing is known of it"})
    stock.put_item(Item={"article": "milk", "left": 1})

    running.settle()

    alerts = {(item["article"], int(item["left"]), item["by"]) for item in running.items("Alerts")}
    assert alerts == {("salt", 3, "stock"), ("rice", 4, "stock"), ("milk", 1, "stock")}
    [letter] = running.items("stock.dlq")
    assert letter["payload"]["keys"]["article"] == "nothing is known of it"


def test_a_webhook_is_received_with_a_valid_signature(run: Run, tmp_path: Path) -> None:
    running = run("webhook_receiver.py", webhooks=("127.0.0.1",))
    orders = running.table("Orders", "id:S")
    secret = tmp_path / "webhook.json"
    secret.write_text('{"Secrets": ["whsec_dGhlIHNlY3JldCBvZiBvcmRlcnMsIDAwMQ=="]}')
    command = [sys.executable, str(EXAMPLES / "webhook_receiver.py"), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout is not None
        try:
            port = receiver.stdout.readline().split()[-1]
            running.foldb(
                "trigger", "add", "orders", "--table", "Orders", "--webhook", f"http://127.0.0.1:{port}/",
                "--sink", f"@{secret}",
            )  # fmt: skip
            for nth in range(3):
                orders.put_item(Item={"id": f"o-{nth}"})
            running.settle()
            unsigned = http.client.HTTPConnection("127.0.0.1", int(port))
            unsigned.request("POST", "/", '{"type": "forged"}')
            assert 401 == unsigned.getresponse().status
            unsigned.close()
            received = [receiver.stdout.readline().split(maxsplit=1) for _ in range(3)]
        finally:
            receiver.kill()

    assert sorted((kind, json.loads(item)["id"]["S"]) for kind, item in received) == [
        ("foldb.item.insert", f"o-{nth}") for nth in range(3)
    ]


@pytest.mark.parametrize("place", ["journal", "triggers/journal.jsonl"], ids=["a file named", "none named"])
def test_a_command_gets_every_change_as_a_line(run: Run, tmp_path: Path, place: str) -> None:
    journal = tmp_path / place
    running = run("journal.sh", env="" if place.startswith("triggers") else f"JOURNAL={journal}")
    orders = running.table("Orders", "id:S")
    running.foldb("trigger", "add", "journal", "--table", "Orders", "--run", "./journal.sh")
    for nth in range(5):
        orders.put_item(Item={"id": "o-1", "nth": nth})

    running.settle()

    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [line["new"]["nth"]["N"] for line in lines] == list("01234")
    assert [line["op"] for line in lines] == ["INSERT"] + ["MODIFY"] * 4


def test_the_tables_that_examples_need_are_listed_as_commands(run: Run) -> None:
    running = run()

    for step in steps((EXAMPLES / "README.md").read_text()):
        running.foldb(*shlex.split(step.line, comments=True)[1:])

    found = asyncio.run(Declarations(CodeFolder(EXAMPLES), running.folder).read("http://127.0.0.1:1"))
    wanted = {table for each in found.declared.values() for one in each for table in one["TableNames"]}
    assert wanted <= set(running.resource.meta.client.list_tables()["TableNames"])


def test_every_example_is_listed() -> None:
    page = (EXAMPLES / "README.md").read_text()

    for file in EXAMPLES.iterdir():
        if file.name not in ("README.md", "__pycache__"):
            assert f"[{file.name}]({file.name})" in page
