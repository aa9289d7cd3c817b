"""Alarms that call a webhook, through boto3 and on a clock that the test moves."""

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.support.raw import ask
from tests.support.tables import table_request
from tests.unit.server.streams.clocked import Clock, clocked

MINUTE_MS = 60_000


@contextmanager
def webhook(failures: int) -> Iterator[tuple[str, "queue.Queue[dict[str, Any]]"]]:
    """Receive calls; the first ones are answered with status 500."""
    received: queue.Queue[dict[str, Any]] = queue.Queue()
    left = failures

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            nonlocal left
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            failed, left = left > 0, left - 1
            self.send_response(500 if failed else 204)
            self.end_headers()
            if not failed:
                received.put(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/alarms", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def throttle(client: Any) -> None:
    """Write until a write is throttled."""

    def write_all() -> None:
        for number in range(100):
            client.put_item(TableName="Cars", Item={"pk": {"S": str(number)}, "x": {"S": "x" * 3000}})

    with pytest.raises(ClientError, match="ProvisionedThroughputExceededException"):
        write_all()


@pytest.mark.spec("S71")
def test_throttled_writes_call_a_webhook(tmp_path: Path) -> None:
    clock = Clock()
    clock.now_ms -= clock.now_ms % MINUTE_MS
    settings: dict[str, Any] = {"throttle": True, "webhooks": ("127.0.0.1",), "tick_ms": 10}
    with (
        webhook(failures=1) as (url, received),
        clocked(tmp_path / "db", clock, **settings) as endpoint,
    ):
        config = Config(retries={"total_max_attempts": 1})
        client = boto3.client("dynamodb", endpoint_url=endpoint, region_name="us-east-1", config=config)
        units = {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}
        request = table_request("Cars", "pk:S", ProvisionedThroughput=units, BillingMode="PROVISIONED")
        client.create_table(**request)
        alarm = {
            "AlarmName": "throttled",
            "TableName": "Cars",
            "MetricName": "WriteThrottleEvents",
            "Threshold": 1,
            "TreatMissingData": "notBreaching",
            "States": ["ALARM", "OK"],
            "Subscription": {"Sink": {"Kind": "webhook", "Url": url}},
        }
        assert ask(endpoint, "Foldb_20261121.PutAlarm", alarm).status == 200

        throttle(client)
        clock.move(MINUTE_MS + 5_000)
        called = [received.get(timeout=30)]
        client.close()
        clock.move(MINUTE_MS)
        called.append(received.get(timeout=30))

        assert ["ALARM", "OK"] == [each["data"]["new"]["StateValue"]["S"] for each in called]
        assert received.empty()
        [described] = ask(endpoint, "Foldb_20261121.DescribeAlarms", {}).body["Alarms"]
        assert described["StateValue"] == "OK"
    with clocked(tmp_path / "db", clock) as endpoint:
        [kept] = ask(endpoint, "Foldb_20261121.DescribeAlarms", {}).body["Alarms"]
    assert kept == described
