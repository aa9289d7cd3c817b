"""GET /metrics: the metrics of the process in the text format of Prometheus."""

import json
import re
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

import foldb
from foldb.materializer.owner.relays import Relays
from tests.support.raw import ask, send
from tests.support.served import foldb as command
from tests.support.served import served
from tests.support.subscribed import until
from tests.support.tables import table_request
from tests.unit.project.source import ROOT

# The ends of the names of a metric's samples, by its type.
ENDS = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_count", "_sum"]}
STREAM = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}


def read(endpoint: str, authorization: str | None = None) -> dict[str, float]:
    """Each sample of the page, by its name and labels, as Prometheus reads it."""
    request = Request(f"{endpoint}/metrics")
    if authorization is not None:
        request.add_header("Authorization", authorization)
    with urlopen(request, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        text = answer.read().decode()
    return {
        f"{sample.name}{{{','.join(f'{name}={value}' for name, value in sample.labels.items())}}}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def status_of(endpoint: str, authorization: str | None) -> int:
    with pytest.raises(HTTPError) as caught:
        read(endpoint, authorization)
    with caught.value as answer:
        return answer.code


def basic(key_id: str, secret: str) -> str:
    return "Basic " + b64encode(f"{key_id}:{secret}".encode()).decode()


def test_metrics_cover_every_partition(tmp_path: Path) -> None:
    with served(tmp_path / "db", "--partitions", "2") as endpoint:
        samples = read(endpoint)

    for partition in range(3):
        assert 1 == samples[f"foldb_owner{{partition={partition}}}"]
        assert 0 == samples[f"foldb_items{{partition={partition}}}"]
    assert samples["foldb_log_time_seconds{partition=0}"] > 1.7e9


def test_the_lag_of_an_index_is_the_age_of_its_oldest_message(monkeypatch: pytest.MonkeyPatch) -> None:
    cars = {"TableName": "Cars"}
    with foldb.serve(partitions=2) as server:
        url = server.endpoint_url
        ask(url, "CreateTable", table_request("Cars", "pk:S", gsi={"colours": "colour:S"}))
        until(lambda: "ACTIVE" == ask(url, "DescribeTable", cars).body["Table"]["TableStatus"])

        def put(number: int) -> None:
            item = {"pk": {"S": f"{number}"}, "colour": {"S": f"{number}"}}
            assert 200 == ask(url, "PutItem", cars | {"Item": item}).status

        with monkeypatch.context() as held:
            held.setattr(Relays, "send", lambda _: None)
            for number in range(9):
                put(number)
            first = until(lambda: lags(url) if max(lags(url)) > 0 else None)
            later = until(lambda: lags(url) if max(lags(url)) > max(first) else None)
        put(9)

        assert 3 == len(first) == len(later)
        assert 0 == first[0], "the catalog has no items"
        assert until(lambda: [0, 0, 0] == lags(url))


def lags(endpoint: str) -> list[float]:
    """Return the lag of each partition."""
    samples = read(endpoint)
    return [samples[f"foldb_index_lag_seconds{{partition={partition}}}"] for partition in range(3)]


def test_dashboard_and_alerts_name_existing_metrics(tmp_path: Path) -> None:
    alerts = yaml.safe_load((ROOT / "compose" / "alerts.yaml").read_text())
    dashboard = json.loads((ROOT / "compose" / "dashboard.json").read_text())
    queries = [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]
    queries += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += [each["query"] for each in dashboard["templating"]["list"]]
    with served(tmp_path / "db", "--memory-limit", "1000000000") as endpoint:
        with urlopen(f"{endpoint}/metrics", timeout=10) as answer:
            families = text_string_to_metric_families(answer.read().decode())
        known = {f"{each.name}{end}" for each in families for end in ENDS[each.type]}

    assert {name for query in queries for name in re.findall(r"foldb_\w+", query)} <= known


@pytest.mark.spec("S71")
def test_units_and_latencies_are_on_the_page(endpoint: str, make_table: Any) -> None:
    before = read(endpoint).get("foldb_successful_request_latency_seconds_count{operation=PutItem}", 0)
    table = make_table("pk:S")
    table.put_item(Item={"pk": "a", "x": "x" * 1500})
    table.get_item(Key={"pk": "a"}, ConsistentRead=True)
    after = read(endpoint)

    assert 2 == after[f"foldb_consumed_write_capacity_units_total{{table={table.name}}}"]
    assert 1 == after[f"foldb_consumed_read_capacity_units_total{{table={table.name}}}"]
    assert 1 == after["foldb_successful_request_latency_seconds_count{operation=PutItem}"] - before
    bucket = "foldb_successful_request_latency_seconds_bucket{le=+Inf,operation=PutItem}"
    assert after["foldb_successful_request_latency_seconds_count{operation=PutItem}"] == after[bucket]


def test_writes_are_counted(endpoint: str, make_table: Any) -> None:
    before = read(endpoint)
    table = make_table("pk:S")
    table.put_item(Item={"pk": "a"})
    after = read(endpoint)

    assert 1 == after["foldb_items{partition=0}"] - before["foldb_items{partition=0}"]
    assert after["foldb_commands_total{partition=0}"] > before["foldb_commands_total{partition=0}"]


def test_a_subscription_says_how_far_it_is(tmp_path: Path) -> None:
    with served(tmp_path / "db", "--partitions", "2") as endpoint:
        ask(endpoint, "CreateTable", table_request("Cars", "pk:S", StreamSpecification=STREAM))
        sink = {"Kind": "kinesis", "StreamArn": "arn:aws:kinesis:us-east-1:000000000000:stream/cars"}
        made = {"Name": "send", "TableNames": ["Cars"], "Sink": sink}
        assert 200 == ask(endpoint, "Foldb_20261121.CreateSubscription", made).status
        for n in range(10):
            ask(endpoint, "PutItem", {"TableName": "Cars", "Item": {"pk": {"S": str(n)}}})
        assert ask(endpoint, "Foldb_20261121.WaitForTriggers", {"TimeoutMs": 20_000}).body["Settled"]
        samples = read(endpoint)

    assert 10 == samples["foldb_subscription_delivered_changes_total{subscription=send}"]
    assert 0 == samples["foldb_subscription_failed_calls_total{subscription=send}"]
    for partition in (1, 2):
        assert 0 == samples[f"foldb_subscription_lag_changes{{partition={partition},subscription=send}}"]
    assert 0 == samples["foldb_feed_drops_total{partition=1}"]
    assert 10 == sum(samples[f"foldb_feed_changes{{partition={n},table=Cars}}"] for n in (1, 2))


def made(keys: Path, *rights: str) -> tuple[str, str]:
    """Return the id and the secret of a new key."""
    key = json.loads(command("key", "create", "--keys", keys, *rights, "-o", "json").stdout)
    return key["AccessKeyId"], key["SecretAccessKey"]


def test_metrics_take_a_key_that_may_monitor(tmp_path: Path) -> None:
    """They name all tables, so a key for data does not read them."""
    keys = tmp_path / "keys.toml"
    data = [basic(*made(keys, right, "*")) for right in ("--read", "--write")]
    one, monitor, admin = (
        basic(*made(keys, *rights)) for rights in (("--admin", "Orders"), ("--monitor",), ("--admin", "*"))
    )
    with served(tmp_path / "db", "--keys", str(keys)) as endpoint:
        unknown = [status_of(endpoint, each) for each in (None, basic("x", "y"), "Basic !")]
        refused = [status_of(endpoint, each) for each in (*data, one)]
        said = send(endpoint, "GET", "/metrics", None, {"Authorization": one}).data
        samples = [read(endpoint, each) for each in (monitor, admin)]

    assert [401, 401, 401] == unknown
    assert [403, 403, 403] == refused
    assert b"`foldb key create --monitor` makes a key that may read this page" in said
    assert [1, 1] == [each["foldb_owner{partition=0}"] for each in samples]


@pytest.mark.guarantee("SEC5")
def test_a_key_that_may_monitor_reads_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = tmp_path / "keys.toml"
    key_id, secret = made(keys, "--monitor")
    with served(tmp_path / "db", "--keys", str(keys)) as endpoint:
        monkeypatch.setenv("FOLDB_ACCESS_KEY_ID", key_id)
        monkeypatch.setenv("FOLDB_SECRET_ACCESS_KEY", secret)
        status, wait, tables, triggers = (
            command(*words, "--db", endpoint)
            for words in (("status",), ("wait", "0"), ("table", "list"), ("trigger", "list"))
        )

    assert [0, 0] == [each.returncode for each in (status, wait)], status.stderr + wait.stderr
    for refused in (tables, triggers):
        assert refused.returncode != 0
        assert "is not authorized to perform" in refused.stderr
