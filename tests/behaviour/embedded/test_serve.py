"""`foldb.serve`: a server in a Python process."""

import threading
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

import foldb
from foldb.model.errors import LogLockedError
from tests.support.tables import table_request


def _client(server: Any) -> Any:
    return boto3.client("dynamodb", **server.boto3)


def test_without_a_path_everything_is_in_memory() -> None:
    with foldb.serve() as server:
        client = _client(server)
        client.create_table(**table_request("Orders", "pk:S"))
        assert ["Orders"] == client.list_tables()["TableNames"]
        client.close()
    with foldb.serve() as server:
        client = _client(server)
        assert [] == client.list_tables()["TableNames"]
        client.close()


def test_a_folder_keeps_data_between_servers(tmp_path: Path) -> None:
    for n in range(3):
        with foldb.serve(tmp_path / "data") as server:
            client = _client(server)
            if n == 0:
                client.create_table(**table_request("Orders", "pk:S"))
            client.put_item(TableName="Orders", Item={"pk": {"S": f"run {n}"}})
            assert n + 1 == client.scan(TableName="Orders")["Count"]
            client.close()


def test_two_servers_live_beside_each_other() -> None:
    with foldb.serve() as one, foldb.serve() as two:
        assert one.endpoint_url != two.endpoint_url


def test_a_stopped_server_is_gone_and_may_be_stopped_again() -> None:
    server = foldb.serve()
    client = _client(server)
    before = threading.active_count()
    server.stop()
    server.stop()

    assert before - 1 == threading.active_count()
    with pytest.raises(EndpointConnectionError):
        client.list_tables()
    client.close()


def test_a_folder_has_one_server_at_a_time(tmp_path: Path) -> None:
    with foldb.serve(tmp_path), pytest.raises(LogLockedError):
        foldb.serve(tmp_path)


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        foldb.serve(colour="red")  # type: ignore[call-arg]  # mypy refuses it too


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"table_delay": 1}, "did you mean 'table_delay_ms'"),
        ({"kafka_variables": {}}, "no setting 'kafka_variables'"),
        ({"settings": {}}, "docs/python.md"),
    ],
)
def test_a_setting_that_is_not_listed_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        foldb.serve(**wrong)


def test_names_of_files_and_lists_are_taken_as_they_are_written(tmp_path: Path) -> None:
    with foldb.serve(triggers=str(tmp_path), allowed_hosts=["db", "foldb"]) as server:
        assert (tmp_path, ("db", "foldb")) == (server.settings.triggers, server.settings.allowed_hosts)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"port": 65536}, "port: 65536 is above the maximum 65535"),
        ({"session_timeout_ms": 999}, "session_timeout_ms: 999ms is below the minimum 1s"),
        ({"limits": "2013"}, "limits: there are no limits called '2013'"),
        ({"cors": ["localhost"]}, "cors: 'localhost' is not an origin like http://localhost:3000"),
    ],
)
def test_an_unusable_value_is_refused_by_name(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        foldb.serve(**wrong)


@pytest.mark.spec("H3")
def test_a_client_at_a_cut_reads_the_past_with_the_same_requests() -> None:
    with foldb.serve() as server:
        client = _client(server)
        client.create_table(**table_request("Orders", "pk:S"))
        put = client.put_item(TableName="Orders", Item={"pk": {"S": "a"}})
        client.delete_table(TableName="Orders")
        past = server.at(put["ResponseMetadata"]["HTTPHeaders"]["x-foldb-position"])
        key = {"pk": {"S": "a"}}
        batch, actions = {"Orders": {"Keys": [key]}}, [{"Get": {"TableName": "Orders", "Key": key}}]

        for _ in range(2):  # the caller's requests are not changed
            assert key == past.get_item(TableName="Orders", Key=key)["Item"]
            assert {"Orders": [key]} == past.batch_get_item(RequestItems=batch)["Responses"]
            assert key == past.transact_get_items(TransactItems=actions)["Responses"][0]["Item"]
        with pytest.raises(ClientError, match="PutItem cannot use"):
            past.put_item(TableName="Orders", Item=key)
        with pytest.raises(ValueError, match="is not a cut"):
            server.at("yesterday")
        client.close()
        past.close()


@pytest.mark.spec("H5", "H6", served=False)
def test_a_server_yields_histories_and_differences() -> None:
    with foldb.serve() as server:
        dynamodb = boto3.client("dynamodb", **server.boto3)
        dynamodb.create_table(**table_request("Cars", "pk:S"))
        key = {"pk": {"S": "a"}}
        for colour in ("red", "blue"):
            dynamodb.put_item(TableName="Cars", Item={**key, "colour": {"S": colour}})
        dynamodb.delete_item(TableName="Cars", Key=key)
        dynamodb.close()

        removed, blue, red = server.history("Cars", key)
        assert ["remove", "put", "put"] == [each["Kind"] for each in (removed, blue, red)]
        assert [blue] == list(server.history("Cars", key, since=red["Position"], until=blue["Position"]))
        [change] = server.differences("Cars", red["Position"], blue["Position"])
        assert (red["Item"], blue["Item"]) == (change["Old"], change["New"])
        with pytest.raises(ValueError, match="`soon` is not a cut"):
            next(server.differences("Cars", "soon"))
