"""`foldb serve --log-requests`: a line of JSON per request, also a refused one, without its data."""

import base64
import http.client
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import foldb
from foldb.server.api.long_answers import LONG_BYTES
from foldb.server.http import request_log
from foldb.server.http.request_head import read_head
from foldb.server.http.request_log import LINE_BYTES, RequestLog
from tests.behaviour.auth.signed import signed
from tests.behaviour.http.wire import Wire, head, request
from tests.support.raw import SIGNED, ask
from tests.support.served import Process
from tests.support.served import foldb as command
from tests.support.tables import table_request

SECRET = "hush-hush"


def lines(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines() if line.startswith('{"time"')]


def exchange(url: str, data: bytes) -> bytes:
    """Send bytes on a connection of their own, and return all that comes back."""
    with Wire(url) as wire:
        wire.send(data)
        return wire.rest()


def put(table: str, **more: Any) -> dict[str, Any]:
    return {"TableName": table, "Item": {"pk": {"S": "a"}}} | more


def test_each_request_has_a_line_also_if_it_is_refused(tmp_path: Path) -> None:
    with Process(tmp_path, "--log-requests") as server:
        url = server.url
        for table in ("Cars", "Vans"):
            ask(url, "CreateTable", table_request(table, "pk:S"))
        ask(url, "PutItem", put("Cars"))
        ask(url, "PutItem", put("Cars", ConditionExpression="attribute_not_exists(pk)"))
        ask(url, "TransactWriteItems", {"TransactItems": [{"Put": put("Vans")}, {"Put": put("Cars")}]})
        ask(url, "BatchGetItem", {"RequestItems": {"Vans": {"Keys": [{"pk": {"S": "a"}}]}}})
        ask(url, "PutItem", {"TableName": 7})
        ask(url, "Nonsense", {})
        ask(url, "ListTables", {}, Authorization="")
        ask(url, "ListTables", {}, Host="evil.example")
        ask(url, "ListTables", {}, Content_Type="text/plain")
        ask(url, "Foldb_20261121.Status", {})
        exchange(url, b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        exchange(
            url, b"POST /x?q=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        )
        exchange(url, head("PutItem", "Content-Length: 99999999"))
        exchange(url, b"nonsense\r\n\r\n")
        server.terminate()

    api = ("POST", "/")
    assert [
        (line["method"], line["path"], line["operation"], line["tables"], line["status"], line["error"])
        for line in lines(server.said)
    ] == [
        (*api, "CreateTable", ["Cars"], 200, None),
        (*api, "CreateTable", ["Vans"], 200, None),
        (*api, "PutItem", ["Cars"], 200, None),
        (*api, "PutItem", ["Cars"], 400, "ConditionalCheckFailedException"),
        (*api, "TransactWriteItems", ["Vans", "Cars"], 200, None),
        (*api, "BatchGetItem", ["Vans"], 200, None),
        (*api, "PutItem", [], 400, "SerializationException"),
        (*api, "Nonsense", [], 400, "UnknownOperationException"),
        (*api, "ListTables", [], 400, "MissingAuthenticationTokenException"),
        (*api, "ListTables", [], 403, "AccessDeniedException"),
        (*api, "ListTables", [], 404, "NotFound"),
        (*api, "Status", [], 200, None),
        ("GET", "/", None, [], 200, None),
        ("POST", "/x", None, [], 404, "NotFound"),
        (*api, "PutItem", [], 413, "PayloadTooLarge"),
        (None, None, None, [], 400, "BadRequest"),
    ]


def test_a_log_line_has_the_consumed_units(tmp_path: Path) -> None:
    """They are those of ConsumedCapacity, which none of the requests asks for, and of refused conditions."""
    long = {"pk": {"S": "b"}, "v": {"S": "x" * 1500}}
    key, refused = {"pk": {"S": "b"}}, {"ConditionExpression": "attribute_not_exists(pk)"}
    statement = {"Statement": "SELECT * FROM Cars WHERE pk = 'b'"}
    insert = {"Statement": "INSERT INTO Cars VALUE {'pk': 'b'}"}
    requests = [
        ("ListTables", {}, None),
        ("PutItem", put("Cars"), 1),
        ("PutItem", {"TableName": "Cars", "Item": long}, 2),
        ("PutItem", put("Cars", **refused), 1),
        ("GetItem", {"TableName": "Cars", "Key": key}, 0.5),
        ("GetItem", {"TableName": "Cars", "Key": key, "ConsistentRead": True}, 1),
        ("GetItem", {"TableName": "Cars", "Key": key, "ProjectionExpression": "v"}, 0.5),
        ("Scan", {"TableName": "Cars", "ConsistentRead": True}, 1),
        ("BatchGetItem", {"RequestItems": {"Cars": {"Keys": [key, {"pk": {"S": "a"}}]}}}, 1),
        ("BatchWriteItem", {"RequestItems": {"Cars": [{"PutRequest": {"Item": long}}]}}, 2),
        ("TransactGetItems", {"TransactItems": [{"Get": {"TableName": "Cars", "Key": key}}]}, 2),
        ("TransactWriteItems", {"TransactItems": [{"Put": put("Cars")}]}, 2),
        ("TransactWriteItems", {"TransactItems": [{"Put": put("Cars", **refused)}]}, 2),
        ("ExecuteStatement", statement, 0.5),
        ("BatchExecuteStatement", {"Statements": [statement, statement]}, 1),
        ("ExecuteTransaction", {"TransactStatements": [statement]}, 2),
        ("ExecuteStatement", insert, 2),
        ("BatchExecuteStatement", {"Statements": [insert, insert]}, 4),
        ("GetItem", {"TableName": "Vans", "Key": key}, None),
    ]
    with Process(tmp_path, "--log-requests") as server:
        ask(server.url, "CreateTable", table_request("Cars", "pk:S"))
        for operation, body, _ in requests:
            ask(server.url, operation, body)
        server.terminate()

    found = [(line["operation"], line["units"]) for line in lines(server.said)[1:]]
    assert [(operation, units) for operation, _, units in requests] == found


def test_a_log_line_matches_the_answer_the_client_received(tmp_path: Path) -> None:
    sent = request("ListTables", {"Limit": 3}, "Connection: close")
    begun = datetime.now(UTC)
    with Process(tmp_path, "--log-requests") as server:
        received = exchange(server.url, sent)
        server.terminate()
    (line,) = lines(server.said)
    fields = dict(field.split(": ", 1) for field in received.decode().split("\r\n\r\n")[0].split("\r\n")[1:])

    assert line["request_id"] == fields["x-amzn-RequestId"]
    assert line["position"] == fields["x-foldb-position"]
    assert (line["bytes_in"], line["bytes_out"]) == (len(sent), len(received))
    assert (line["peer"], line["access_key"]) == ("127.0.0.1", "key")
    assert line["duration_ms"] > 0
    assert begun - timedelta(milliseconds=1) <= datetime.fromisoformat(line["time"]) <= datetime.now(UTC)


def test_a_large_answer_is_counted_whole(tmp_path: Path) -> None:
    """The server sends a large body in portions."""
    item = {"pk": {"S": "a"}, "v": {"S": "x" * 300_000}}
    read = ("GetItem", {"TableName": "Cars", "Key": {"pk": {"S": "a"}}})
    with Process(tmp_path, "--log-requests") as server:
        ask(server.url, "CreateTable", table_request("Cars", "pk:S"))
        ask(server.url, "PutItem", {"TableName": "Cars", "Item": item})
        received = exchange(server.url, request(*read, "Connection: close"))
        with Wire(server.url) as wire:
            wire.send(request(*read))
            wire.answer()
        server.terminate()
    closed, kept = lines(server.said)[2:]

    assert closed["bytes_out"] == len(received) > LONG_BYTES
    assert closed["bytes_out"] - kept["bytes_out"] == len("\r\nConnection: close")


def test_a_connection_that_closes_early_has_a_line(tmp_path: Path) -> None:
    with Process(tmp_path, "--log-requests") as server:
        with Wire(server.url) as wire:
            start = head("PutItem", "Content-Length: 100")
            wire.send(start + b'{"TableName"')
            wire.socket.shutdown(1)
            wire.rest()
        server.terminate()
    (line,) = lines(server.said)

    assert (line["operation"], line["status"], line["error"]) == ("PutItem", None, "ConnectionClosed")
    assert (line["bytes_in"], line["bytes_out"]) == (len(start) + 12, 0)


def test_no_line_has_an_item_a_message_or_a_signature(tmp_path: Path) -> None:
    with Process(tmp_path, "--log-requests") as server:
        url = server.url
        ask(url, "CreateTable", table_request("Cars", "pk:S"))
        ask(url, "PutItem", {"TableName": "Cars", "Item": {"pk": {"S": SECRET}}})
        reported = ask(url, "PutItem", put("Cars", ConditionExpression=f"#{SECRET} = :x"))
        ask(url, "ListTables", {}, Authorization=SIGNED.replace("Signature=0", f"Signature={SECRET}"))
        ask(url, "ListTables", {}, X_Amz_Security_Token=SECRET, User_Agent=SECRET)
        exchange(
            url,
            request("ListTables", {}, "Connection: close").replace(
                b"POST / ", f"POST /?X-Amz-Signature={SECRET} ".encode()
            ),
        )
        server.terminate()

    assert "hush" in reported.data.decode()
    assert len(lines(server.said)) == 6
    assert "hush" not in server.said


def test_with_keys_a_refused_key_is_named(tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    made = json.loads(
        command("key", "create", "--keys", keys, "--read", "Vans", "--monitor", "-o", "json").stdout
    )
    key_id, secret = made["AccessKeyId"], made["SecretAccessKey"]
    with Process(tmp_path / "data", "--log-requests", "--keys", str(keys)) as server:
        for one in (
            signed(key_id=key_id, secret=secret),
            signed(key_id="FOLDBUNKNOWN", secret=secret),
        ):
            exchange(server.url, one.with_fields(Connection="close").data())
        metrics = http.client.HTTPConnection(urlsplit(server.url).netloc)
        for basic in ((key_id, secret), (key_id, "wrong")):
            token = base64.b64encode(":".join(basic).encode()).decode()
            metrics.request("GET", "/metrics", headers={"Authorization": f"Basic {token}"})
            metrics.getresponse().read()
        metrics.close()
        server.terminate()

    assert [(line["access_key"], line["status"], line["error"]) for line in lines(server.said)] == [
        (key_id, 400, "AccessDeniedException"),
        ("FOLDBUNKNOWN", 400, "UnrecognizedClientException"),
        (key_id, 200, None),
        (None, 401, "Unauthorized"),
    ]
    assert secret not in server.said


def test_the_length_of_a_log_line_is_limited(tmp_path: Path) -> None:
    """A pipe takes lines of this size whole, so no other message is written into one."""
    long = "\u00e9" * 5000
    names = ["\U0001f600" * 255] * 3 + [f"{number}" * 200 for number in range(40)]
    with Process(tmp_path, "--log-requests") as server:
        ask(server.url, "Foldb_20261121.Changes", {"TableNames": names})
        for data in (
            b"POST /%b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            % long.encode(),
            head(long.encode().decode("latin-1")[:5000], "Content-Length: 0", "Connection: close"),
            request()
            .replace(b"Credential=key", b"Credential=" + b"k" * 5000)
            .replace(b"\r\n", b"\r\nConnection: close\r\n", 1),
        ):
            exchange(server.url, data)
        server.terminate()
    written = [line for line in server.said.splitlines() if line.startswith('{"time"')]

    assert len(written) == 4
    assert all(len(line.encode()) < LINE_BYTES for line in written)
    assert len(lines(server.said)[0]["tables"]) <= request_log.TABLES


def test_a_stderr_that_is_not_read_stops_no_request(tmp_path: Path) -> None:
    """Its pipe is full after 64 KiB, and who writes to it then waits."""
    with Process(tmp_path, "--log-requests") as server:
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
        for _ in range(1000):
            connection.request("GET", "/")
            assert connection.getresponse().read()
        connection.close()
        server.terminate()

    assert len(lines(server.said)) == 1000
    assert len(server.said) > 128 * 1024


class Loop:
    """Flushes never; `close` does."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> None: ...


def test_lines_past_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_log, "BUFFER_BYTES", 16 * 1024)
    read, write = os.pipe()
    log = RequestLog(Loop(), lambda: 0, descriptor=write)  # type: ignore[arg-type]  # as much of a loop as it needs
    one = read_head(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    for count in (1000, 1):
        for _ in range(count):
            log.end(log.begin("127.0.0.1", one, 0), 200, 0, None, None)
        log.close()
    os.close(write)
    with os.fdopen(read) as file:
        written = lines(file.read())

    kept = [line for line in written if "status" in line]
    (dropped,) = [line["dropped"] for line in written if "dropped" in line]
    assert 1 < len(kept) < 1000
    assert dropped + len(kept) == 1001


def test_without_the_flag_there_is_none(tmp_path: Path) -> None:
    with Process(tmp_path) as server:
        ask(server.url, "ListTables", {})
        server.terminate()

    assert lines(server.said) == []


def test_a_server_in_python_writes_to_stderr_too(capfd: pytest.CaptureFixture[str]) -> None:
    with foldb.serve(log_requests=True) as server:
        ask(server.endpoint_url, "ListTables", {})

    assert [line["operation"] for line in lines(capfd.readouterr().err)] == ["ListTables"]


def test_the_slow_log_has_slow_requests_alone() -> None:
    now = 0.0
    read, write = os.pipe()
    log = RequestLog(Loop(), lambda: 0, at_least_ms=200, descriptor=write, timer=lambda: now)  # type: ignore[arg-type]
    one = read_head(b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: DynamoDB_20120810.Scan\r\n\r\n")
    for taken_s in (0.1, 0.2, 3.0):
        record = log.begin("127.0.0.1", one, 0)
        now += taken_s
        log.end(record, 200, 0, "id", None)
    log.close()
    os.close(write)
    with os.fdopen(read) as file:
        written = lines(file.read())

    assert [200, 3000] == [line["duration_ms"] for line in written]
    assert {"Scan"} == {line["operation"] for line in written}
