"""The reason of a request, `x-foldb-reason`: stored in the log with each command."""

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from typer.testing import CliRunner

import foldb
from foldb.cli.main import app
from foldb.model.errors import ValidationError
from foldb.server.api.reasons import REASON_BYTES, check_reason
from tests.support.tables import table_request

REASON = "Zurück auf den Stand vom Freitag: 订单 7"


def _foldb(*arguments: object) -> list[dict[str, Any]]:
    result = CliRunner().invoke(app, list(map(str, arguments)), prog_name="foldb", catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def _reasons(folder: Path) -> list[tuple[str, str | None]]:
    """Return command and reason of the rows of the log, without those of the server itself."""
    rows = _foldb("log", "cat", folder)
    return [(row["command"], row.get("reason")) for row in rows if row.get("request_id")]


def test_the_log_has_the_reason_of_every_kind_of_write(tmp_path: Path) -> None:
    put = {"TableName": "Orders", "Item": {"pk": {"S": "a"}}}
    with foldb.serve(tmp_path, fsync="never") as server:
        client = server.with_reason(REASON)
        client.create_table(**table_request("Orders", "pk:S"))
        client.put_item(**put)
        client.update_item(TableName="Orders", Key={"pk": {"S": "a"}})
        client.delete_item(TableName="Orders", Key={"pk": {"S": "a"}})
        client.batch_write_item(RequestItems={"Orders": [{"PutRequest": {"Item": put["Item"]}}]})
        client.transact_write_items(TransactItems=[{"Put": put}])
        client.get_item(TableName="Orders", Key={"pk": {"S": "a"}})
        client.close()

    assert [
        (command, REASON) for command in ("DefineTable", "Put", "Update", "Delete", "Put", "Put")
    ] == _reasons(tmp_path)


def test_why_is_the_reason_of_a_command_line(tmp_path: Path) -> None:
    with foldb.serve(tmp_path, fsync="never") as server:
        _foldb("table", "create", "Orders", "pk:S", "--db", server.endpoint_url, "--why", REASON)
        _foldb("item", "put", "Orders", '{"pk": "a"}', "--why", "ticket 7", "--db", server.endpoint_url)
        _foldb("item", "put", "Orders", '{"pk": "a"}', "--db", server.endpoint_url)

    assert [("DefineTable", REASON), ("Put", "ticket 7"), ("Put", None)] == _reasons(tmp_path)


def test_a_skip_has_its_reason_too(tmp_path: Path) -> None:
    """It is appended to the log without a server."""
    with foldb.serve(tmp_path, fsync="never") as server:
        _foldb("table", "create", "Orders", "pk:S", "--db", server.endpoint_url)
        _foldb("item", "put", "Orders", '{"pk": "a"}', "--db", server.endpoint_url)
    [put] = [row for row in _foldb("log", "cat", tmp_path) if row["command"] == "Put"]
    _foldb("log", "skip", put["position"], tmp_path, "--force", "--yes", "--why", REASON)

    [skip] = [row for row in _foldb("log", "cat", tmp_path) if row["command"] == "Skip"]
    assert REASON == skip["reason"]


@pytest.mark.parametrize("reason", [" ", "a" * (REASON_BYTES + 1), "é" * (REASON_BYTES // 2 + 1)])
def test_an_invalid_reason_changes_nothing(reason: str) -> None:
    with foldb.serve() as server:
        client = server.with_reason(reason)
        with pytest.raises(ClientError, match="x-foldb-reason must be 1 to 512 bytes of printable UTF-8"):
            client.create_table(**table_request("Orders", "pk:S"))
        client.close()
        assert [] == server.with_reason("to look").list_tables()["TableNames"]


@pytest.mark.parametrize("header", [b"", b"\xff", b"a\x7f", "a\u0085".encode()])
def test_a_reason_is_printable_text(header: bytes) -> None:
    with pytest.raises(ValidationError, match="bytes of printable UTF-8"):
        check_reason(header, 5)


def test_a_reason_needs_a_log_that_can_keep_it() -> None:
    with pytest.raises(ValidationError, match="level 5, and this one has level 4: run `foldb upgrade`"):
        check_reason(b"ticket 7", 4)
