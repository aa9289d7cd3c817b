"""Subscriptions that start, stop and end on a node, with failures in between."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import boto3
import pytest

import foldb
from tests.support.raw import ask, send
from tests.support.subscribed import described, subscribe, until
from tests.support.tables import table_request
from tests.unit.server.subscriptions.conftest import Shop

HOUR_MS = 3600 * 1000


def test_one_that_cannot_be_stopped_keeps_no_other_from_running(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cancelled() -> None:
        await stop()
        raise asyncio.CancelledError

    shop.table("Orders")
    for name in ("one", "two"):
        shop.subscribe(name, "Orders", "fails")
    running = shop.server._serving.node.triggers.runner.running
    stop = running["one"].dispatcher.stop
    monkeypatch.setattr(running["one"].dispatcher, "stop", cancelled)
    for name in ("one", "two"):
        shop.do("PauseSubscription", name)
    shop.resource.Table("Orders").put_item(Item={"pk": "a", "n": 1})
    shop.do("ResumeSubscription", "two")

    shop.noted("a 1")
    until(lambda: [*running] == ["two"])


def test_changes_before_the_end_of_a_stop_are_still_delivered(shop: Shop) -> None:
    """The call in progress may finish. Its writes carry the depth of triggers."""
    for name in ("Orders", "Written"):
        shop.table(name)
    shop.subscribe("one", "Orders", "writes")
    shop.subscribe("tells", "Written", "tells")
    shop.be("gate", there=True)
    shop.resource.Table("Orders").put_item(Item={"pk": "a", "n": 1})
    shop.noted("a 1")
    shop.do("PauseSubscription", "one")
    shop.be("gate", there=False)

    shop.noted("a trigger 1")
    until(lambda: not shop.described("one")["RunsHere"])


class Hook(BaseHTTPRequestHandler):
    """Answers 410 to the item `gone`, and delays the answer to `slow`."""

    protocol_version = "HTTP/1.1"
    asked = threading.Semaphore(0)
    may_answer = threading.Event()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if b'"slow"' in body:
            self.asked.release()
            self.may_answer.wait(30)
        self.send_response(410 if b'"gone"' in body else 204)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def test_one_that_comes_to_its_end_while_the_node_stops_ends_as_ever(tmp_path: Path) -> None:
    """The call in progress is in the checkpoint, and the log has the reason of the end."""
    hook = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=hook.serve_forever, daemon=True).start()
    with foldb.serve(tmp_path, webhooks=("127.0.0.1",)) as server:
        orders = boto3.resource("dynamodb", **server.boto3).create_table(**table_request("Orders", "pk:S"))
        sink = {"Kind": "webhook", "Url": f"http://127.0.0.1:{hook.server_port}/"}
        subscribe(server.endpoint_url, "one", "Orders", sink, ParallelizationFactor=64, BatchSize=1)
        orders.put_item(Item={"pk": "slow"})
        assert Hook.asked.acquire(timeout=30)
        orders.put_item(Item={"pk": "gone"})
        runner = server._serving.node.triggers.runner
        until(lambda: runner._ending)
        threading.Timer(0.2, Hook.may_answer.set).start()
    hook.shutdown()
    hook.server_close()

    with foldb.serve(tmp_path, webhooks=("127.0.0.1",)) as server:
        reported = described(server.endpoint_url, "one")
    assert ("STOPPED", 1) == (reported["Status"], reported["Handled"])


def test_a_subscription_resumes_once_its_missing_part_is_back(tmp_path: Path) -> None:
    """LastError names the missing option. A start with the option continues from the checkpoint."""
    folder = tmp_path / "triggers"
    folder.mkdir()
    command = folder / "notes.sh"
    command.write_text(f"#!/bin/sh\ncat >> {tmp_path}/notes\n")
    command.chmod(0o755)
    with foldb.serve(tmp_path / "data", triggers=folder) as server:
        boto3.resource("dynamodb", **server.boto3).create_table(**table_request("Orders", "pk:S"))
        subscribe(server.endpoint_url, "one", "Orders", {"Kind": "command", "Command": ["./notes.sh"]})
    with foldb.serve(tmp_path / "data") as server:
        boto3.resource("dynamodb", **server.boto3).Table("Orders").put_item(Item={"pk": "meanwhile"})
        reported = described(server.endpoint_url, "one")
    assert ("ACTIVE", False) == (reported["Status"], reported["RunsHere"])
    assert "start it with `foldb serve --triggers FOLDER`" in reported["LastError"]
    command.rename(folder / "other.sh")
    with foldb.serve(tmp_path / "data", triggers=folder) as server:
        assert "there is no ./notes.sh" in described(server.endpoint_url, "one")["LastError"]
        (folder / "other.sh").rename(command)
        server.wait_for_triggers()

    assert '"meanwhile"' in (tmp_path / "notes").read_text()


def test_a_client_named_like_a_trigger_is_answered(shop: Shop) -> None:
    shop.table("Orders")
    shop.subscribe("one", "Orders", "fails")
    for lane in ("\xb2", "9" * 5000, "x", "", "0.0"):
        assert 200 == ask(shop.url, "ListTables", {}, User_Agent=f"app/foldb.one.{lane}").status


def test_a_drain_is_cancelled_when_the_subscription_stops(shop: Shop) -> None:
    shop.table("Orders")
    shop.be("broken", there=True)
    shop.subscribe("one", "Orders", "fails", MaximumRetryAttempts=-1)
    shop.resource.Table("Orders").put_item(Item={"pk": "a", "n": 1})
    with ThreadPoolExecutor(1) as pool:
        drained = pool.submit(shop.refused, "PauseSubscription", Name="one", Drain=True)
        until(lambda: shop.described("one")["LastError"])
        shop.do("PauseSubscription", "one")
        assert "one is PAUSED" in drained.result().body["message"]
    shop.be("broken", there=False)
    shop.do("ResumeSubscription", "one")
    shop.settle()

    assert "ACTIVE" == shop.described("one")["Status"]


def test_a_drain_ends_at_its_time(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foldb.server.subscriptions.service._DRAIN_S", 0.1)
    shop.table("Orders")
    shop.be("broken", there=True)
    shop.subscribe("one", "Orders", "fails", MaximumRetryAttempts=-1)
    shop.resource.Table("Orders").put_item(Item={"pk": "a", "n": 1})
    refusal = shop.refused("PauseSubscription", Name="one", Drain=True).body

    assert "one is not drained yet" in refusal["message"]
    assert "ACTIVE" == shop.described("one")["Status"]


def test_a_dry_run_counts_up_to_any_end(shop: Shop) -> None:
    shop.table("Orders")
    shop.subscribe("one", "Orders", "fails")
    shop.resource.Table("Orders").put_item(Item={"pk": "a", "n": 1})
    shop.settle()
    tomorrow = {"Time": time.time_ns() // 1_000_000 + 24 * HOUR_MS}
    reported = shop.do("ReplaySubscription", "one", From={"At": "HORIZON"}, To=tomorrow, DryRun=True)

    assert {"Calls": 1, "Changes": 1, "Keys": 1, "SideEffects": False} == reported


def test_a_finished_replay_has_no_lag(shop: Shop) -> None:
    """Its lag would raise an alarm that no operator can clear."""
    orders = shop.table("Orders")
    shop.subscribe("one", "Orders", "fails")
    orders.put_item(Item={"pk": "a", "n": 1})
    replay = shop.do("ReplaySubscription", "one", From={"At": "HORIZON"})["Replay"]
    until(lambda: "done" == shop.described(replay)["Reason"])
    for n in range(3):
        orders.put_item(Item={"pk": "b", "n": n})
    shop.settle()

    assert {"0": {"Changes": 0, "Milliseconds": 0}} == shop.described(replay)["Lag"]
    figures = send(shop.url, "GET", "/metrics", None, {}).data.decode().splitlines()
    for figure in ("changes", "seconds"):
        assert f'foldb_subscription_lag_{figure}{{partition="0",subscription="{replay}"}} 0.0' in figures


def test_a_blocked_subscription_is_named_after_its_table_is_gone(shop: Shop) -> None:
    """The blocking change was written before the subscription watched the table, so no feed counts it."""
    orders = shop.table("Orders")
    orders.put_item(Item={"pk": "a"})
    shop.be("broken", there=True)
    shop.subscribe("one", "Orders", "fails", OnFailure="block", Start={"At": "BEGINNING"})
    until(lambda: shop.described("one")["Figures"]["Blocked"])
    orders.delete()

    with pytest.raises(
        TimeoutError, match=r"one is ACTIVE and blocked \(ValueError: not now\), 1 change behind"
    ):
        shop.server.wait_for_triggers(1)
