"""The HTTP protocol below the level that SDKs show."""

import gzip
import json
import zlib

import pytest

from foldb.model.service import ABSENT
from tests.support.raw import ask, send
from tests.support.tables import MakeTable


@pytest.mark.spec("X6")
def test_an_unsigned_request_is_refused(endpoint: str) -> None:
    answer = ask(endpoint, "ListTables", {}, Authorization="")

    assert 400 == answer.status
    assert answer.body["__type"].endswith("#MissingAuthenticationTokenException")


@pytest.mark.spec("X6")
def test_the_root_answers_a_health_line(endpoint: str) -> None:
    """At the address at which the API answers."""
    answer = send(endpoint, "GET", "/", None, {})

    assert (200, b"healthy: foldb,") == (answer.status, answer.data[:15])
    assert 200 == ask(endpoint, "ListTables", {}).status


@pytest.mark.spec("X6")
def test_no_other_origin_is_let_in(endpoint: str) -> None:
    answer = ask(endpoint, "ListTables", {}, Origin="http://example.com")

    assert 403 == answer.status
    assert answer.headers["Access-Control-Allow-Origin"] is None
    assert 200 == ask(endpoint, "ListTables", {}).status, "a client that is no page names no origin"


@pytest.mark.spec("X8")
def test_the_crc_is_over_the_bytes_as_sent(make_table: MakeTable, endpoint: str) -> None:
    table = make_table("pk:S")
    table.put_item(Item={"pk": "a", "d": "x" * 10_000})
    get = {"TableName": table.name, "Key": {"pk": {"S": "a"}}}
    plain, zipped = ask(endpoint, "GetItem", get), ask(endpoint, "GetItem", get, Accept_Encoding="gzip")

    assert "gzip" == zipped.headers["Content-Encoding"]
    assert len(zipped.data) < len(plain.data)
    assert plain.data == gzip.decompress(zipped.data)
    for answer in (plain, zipped):
        assert zlib.crc32(answer.data) == int(answer.headers["x-amz-crc32"])


def test_a_batch_of_megabytes_is_answered_whole_and_packed(make_table: MakeTable, endpoint: str) -> None:
    table, body = make_table("pk:S"), "x" * 390_000
    keys = [{"pk": {"S": str(number)}} for number in range(8)]
    for key in keys:
        ask(endpoint, "PutItem", {"TableName": table.name, "Item": {**key, "body": {"S": body}}})
    request = {"RequestItems": {table.name: {"Keys": keys}}, "ReturnConsumedCapacity": "TOTAL"}

    answer = ask(endpoint, "BatchGetItem", request, Accept_Encoding="gzip")

    assert "gzip" == answer.headers["Content-Encoding"]
    assert zlib.crc32(answer.data) == int(answer.headers["x-amz-crc32"])
    found = json.loads(gzip.decompress(answer.data))
    assert [{**key, "body": {"S": body}} for key in keys] == found["Responses"][table.name]
    assert {} == found["UnprocessedKeys"]
    assert table.name == found["ConsumedCapacity"][0]["TableName"]


@pytest.mark.spec("X8")
def test_errors_have_a_crc_too(endpoint: str) -> None:
    answer = ask(endpoint, "GetItem", b"no JSON")

    assert 400 == answer.status
    assert zlib.crc32(answer.data) == int(answer.headers["x-amz-crc32"])


@pytest.mark.spec("X8")
def test_a_request_may_be_zipped(make_table: MakeTable, endpoint: str) -> None:
    table = make_table("pk:S")
    body = json.dumps({"TableName": table.name, "Item": {"pk": {"S": "a"}}}).encode()
    answer = ask(endpoint, "PutItem", gzip.compress(body), Content_Encoding="gzip")

    assert 200 == answer.status
    assert 1 == table.scan()["Count"]


@pytest.mark.spec("X9")
@pytest.mark.parametrize("target", ["Nothing", "DynamoDB_20120810.PutItems", "Other_1.PutItem"])
def test_an_unknown_operation_is_refused(endpoint: str, target: str) -> None:
    answer = ask(endpoint, target, {})

    assert 400 == answer.status
    assert {"__type"} == set(answer.body)
    assert answer.body["__type"].endswith("#UnknownOperationException")


@pytest.mark.spec("X9")
@pytest.mark.parametrize("name", sorted(ABSENT))
def test_an_operation_that_foldb_lacks_names_the_page(endpoint: str, name: str) -> None:
    answer = ask(endpoint, f"DynamoDB_20120810.{name}", {})

    assert 400 == answer.status
    assert answer.body["__type"].endswith("#UnknownOperationException")
    assert f"foldb does not have the operation {name}: see docs/limitations.md" == answer.body["message"]


@pytest.mark.spec("S23")
def test_positions_and_log_time_never_go_back(make_table: MakeTable, endpoint: str) -> None:
    """One client asks one server of one partition. tests/unit/server/test_log_time.py compares each time with the log.

    The position of a write has an index in its entry. A read names the entry up to which it saw everything.
    """
    table = make_table("pk:S")
    key = {"pk": {"S": "a"}}
    bodies = {
        "PutItem": {"TableName": table.name, "Item": key},
        "GetItem": {"TableName": table.name, "Key": key},
        "ListTables": {},
        "DeleteItem": {"TableName": table.name, "Key": key},
    }
    put, get, names, delete = (ask(endpoint, operation, body) for operation, body in bodies.items())
    refused = ask(endpoint, "GetItem", {"TableName": table.name, "Key": {}})
    answers = [put, get, names, delete, refused]

    assert [200, 200, 200, 200, 400] == [answer.status for answer in answers]
    entries = [int(answer.headers["x-foldb-position"].partition(".")[0]) for answer in answers]
    assert entries == sorted(entries)
    assert entries[0] < entries[3], "each write is behind the one before"
    times = [int(answer.headers["x-foldb-log-time"]) for answer in answers]
    assert times == sorted(times)
    has_index = ["." in answer.headers["x-foldb-position"] for answer in answers]
    assert [True, False, False, True, False] == has_index
