"""A served process with keys and TLS, driven by third-party clients."""

import json
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, SSLError
from pynamodb.attributes import UnicodeAttribute
from pynamodb.models import Model

import foldb as embedded
from tests.behaviour.auth.certificates import Files, make_certificates
from tests.support.raw import ask
from tests.support.served import FOLDB, foldb, served
from tests.support.tables import table_request

AWS = Path(sys.executable).with_name("aws")


@dataclass(frozen=True)
class Pair:
    """A key as `foldb key create` prints it."""

    id: str
    secret: str

    def environment(self, ca: Path) -> dict[str, str]:
        """How programs of AWS's are given it."""
        own = {"AWS_ACCESS_KEY_ID": self.id, "AWS_SECRET_ACCESS_KEY": self.secret, "AWS_CA_BUNDLE": str(ca)}
        return os.environ | own


@dataclass(frozen=True)
class Server:
    url: str
    keys: Path
    files: Files
    admin: Pair

    def client(self, pair: Pair, token: str | None = None) -> Any:
        return boto3.client(
            "dynamodb",
            endpoint_url=self.url,
            region_name="eu-central-1",
            aws_access_key_id=pair.id,
            aws_secret_access_key=pair.secret,
            aws_session_token=token,
            verify=str(self.files.ca),
            config=Config(retries={"total_max_attempts": 1}),
        )

    def make_table(self) -> str:
        name = f"t-{uuid.uuid4().hex[:12]}"
        client = self.client(self.admin)
        client.create_table(**table_request(name, "pk:S"))
        client.close()
        return name


def create(keys: Path, *rights: str) -> Pair:
    ran = foldb("key", "create", "--keys", keys, *rights, "-o", "json")
    assert ran.returncode == 0, ran.stderr
    key = json.loads(ran.stdout)
    return Pair(key["AccessKeyId"], key["SecretAccessKey"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("served")
    files, keys = make_certificates(folder), folder / "keys.toml"
    admin = create(keys, "--admin", "*")
    options = ("--keys", keys, "--tls-cert", files.cert, "--tls-key", files.key)
    with served(folder / "data", *map(str, options)) as url:
        assert url.startswith("https://127.0.0.1:")
        yield Server(url, keys, files, admin)


def until(is_so: Any) -> None:
    """Return the bytes that arrive within about a second."""
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end


def error(client: Any, operation: str, **parameters: Any) -> str | None:
    try:
        getattr(client, operation)(**parameters)
    except ClientError as refused:
        return str(refused.response["Error"]["Code"])
    return None


def test_boto3_writes_and_reads_with_a_key(server: Server) -> None:
    name, client = server.make_table(), server.client(server.admin)
    client.put_item(TableName=name, Item={"pk": {"S": "ümläut"}, "data": {"B": b"x" * 100_000}})
    pages = client.get_paginator("scan").paginate(TableName=name)

    assert [100_000] == [len(item["data"]["B"]) for page in pages for item in page["Items"]]
    assert "ConditionalCheckFailedException" == error(
        client, "put_item", TableName=name, Item={"pk": {"S": "ümläut"}},
        ConditionExpression="attribute_not_exists(pk)",
    )  # fmt: skip
    client.close()


@pytest.mark.guarantee("SEC5")
def test_a_restore_needs_the_history_of_its_source(server: Server) -> None:
    """The new table has items that may be deleted in the source."""
    name, target = server.make_table(), f"t-{uuid.uuid4().hex[:12]}"
    admin = server.client(server.admin)
    arn = admin.create_backup(TableName=name, BackupName="backup")["BackupDetails"]["BackupArn"]
    request = {"TargetTableName": target, "BackupArn": arn}
    reader = server.client(create(server.keys, "--admin", target, "--read", name))
    restorer = server.client(create(server.keys, "--admin", target, "--read", name, "--history", name))

    until(lambda: error(reader, "describe_table", TableName=name) is None)
    assert "AccessDeniedException" == error(reader, "restore_table_from_backup", **request)
    until(lambda: error(restorer, "restore_table_from_backup", **request) is None)
    for client in (admin, reader, restorer):
        client.close()


@pytest.mark.spec("S97")
def test_each_key_has_its_rights(server: Server) -> None:
    name, other = server.make_table(), server.make_table()
    reader = server.client(create(server.keys, "--read", name))
    until(lambda: error(reader, "describe_table", TableName=name) is None)

    put = {"Put": {"TableName": name, "Item": {"pk": {"S": "a"}}}}
    long = [{"Statement": f"INSERT INTO \"{name}\" VALUE {{'pk': '{'a' * 8000}'}}"}] * 4
    assert None is error(reader, "get_item", TableName=name, Key={"pk": {"S": "a"}})
    assert "AccessDeniedException" == error(reader, "put_item", TableName=name, Item={"pk": {"S": "a"}})
    assert "AccessDeniedException" == error(reader, "transact_write_items", TransactItems=[put])
    assert "AccessDeniedException" == error(reader, "execute_transaction", TransactStatements=long)
    assert "AccessDeniedException" == error(reader, "delete_table", TableName=name)
    assert "AccessDeniedException" == error(reader, "get_item", TableName=other, Key={"pk": {"S": "a"}})
    assert "AccessDeniedException" == error(reader, "describe_table", TableName="no-such-table")
    assert "AccessDeniedException" == error(reader, "list_tables")
    assert [] == server.client(server.admin).scan(TableName=name)["Items"]
    reader.close()


@pytest.mark.spec("H3")
def test_the_past_is_a_right_of_its_own(server: Server) -> None:
    """A key that may write the present must not see the items that were deleted."""
    name = server.make_table()
    writer, historian = (
        server.client(create(server.keys, *rights)) for rights in (("--write", "*"), ("--history", name))
    )
    key = {"pk": {"S": "a"}}
    past = f"{name}@-0"
    until(lambda: error(historian, "describe_table", TableName=past) is None)

    assert None is error(writer, "get_item", TableName=name, Key=key)
    assert "AccessDeniedException" == error(writer, "get_item", TableName=past, Key=key)
    assert "AccessDeniedException" == error(writer, "describe_table", TableName=past)
    assert "AccessDeniedException" == error(
        writer, "transact_get_items", TransactItems=[{"Get": {"TableName": past, "Key": key}}]
    )
    assert None is error(historian, "get_item", TableName=past, Key=key)
    assert "AccessDeniedException" == error(historian, "get_item", TableName=name, Key=key)
    assert "AccessDeniedException" == error(historian, "scan", TableName="another-table@-0")
    assert None is error(server.client(server.admin), "scan", TableName=past)


@pytest.mark.guarantee("SEC6")
def test_a_key_is_refused_as_soon_as_it_is_revoked(server: Server) -> None:
    pair = create(server.keys, "--read", "*")
    client = server.client(pair)
    until(lambda: error(client, "list_tables") is None)

    assert 0 == foldb("key", "revoke", pair.id, "--keys", server.keys).returncode

    until(lambda: error(client, "list_tables") == "UnrecognizedClientException")
    client.close()


def test_a_client_without_a_key_is_refused(server: Server) -> None:
    for pair, token, code in (
        (Pair("FOLDBNOBODY000000000", "x" * 40), None, "UnrecognizedClientException"),
        (Pair(server.admin.id, "x" * 40), None, "InvalidSignatureException"),
        (server.admin, "a token", "UnrecognizedClientException"),
    ):
        client = server.client(pair, token)
        assert code == error(client, "list_tables")
        client.close()


def test_a_certificate_of_an_unknown_authority_is_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = boto3.client("dynamodb", endpoint_url=server.url, region_name="us-east-1")
    with pytest.raises(SSLError):
        client.list_tables()
    client.close()
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    ran = foldb("table", "list", "--db", server.url)

    assert 8 == ran.returncode
    assert "is not trusted: " in ran.stderr
    assert "give that CA with --ca FILE" in ran.stderr


def test_pynamodb_writes_and_reads_with_a_key(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(server.files.ca))

    class Song(Model):
        class Meta:
            table_name = server.make_table()
            host = server.url
            region = "us-east-1"
            aws_access_key_id = server.admin.id
            aws_secret_access_key = server.admin.secret

        pk = UnicodeAttribute(hash_key=True)

    Song("Kyuss").save()

    assert ["Kyuss"] == [song.pk for song in Song.scan()]


def test_the_aws_cli_writes_and_reads_with_a_key(server: Server) -> None:
    name = server.make_table()
    table = ("--table-name", name, "--endpoint-url", server.url, "--output", "json")

    def aws(pair: Pair, operation: str, *options: str) -> subprocess.CompletedProcess[str]:
        command = [str(AWS), "dynamodb", operation, *table, *options]
        environment = pair.environment(server.files.ca)
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)

    put = aws(server.admin, "put-item", "--item", '{"pk": {"S": "a  b"}}')
    assert put.returncode == 0, put.stderr
    assert 1 == json.loads(aws(server.admin, "scan").stdout)["Count"]
    assert "InvalidSignatureException" in aws(Pair(server.admin.id, "wrong"), "scan").stderr


def test_the_command_line_finds_its_key_in_every_place(server: Server, tmp_path: Path) -> None:
    name = server.make_table()
    credentials = tmp_path / "credentials"
    credentials.write_text(
        f"[ours]\naws_access_key_id = {server.admin.id}\naws_secret_access_key = {server.admin.secret}\n"
    )
    where = ("table", "list", "--db", server.url, "--ca", str(server.files.ca), "-o", "raw")

    def run(*options: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [str(FOLDB), *where, *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | variables)

    own = {"FOLDB_ACCESS_KEY_ID": server.admin.id, "FOLDB_SECRET_ACCESS_KEY": server.admin.secret}
    for ran in (run(**own), run("--profile", "ours", AWS_SHARED_CREDENTIALS_FILE=str(credentials))):
        assert name in ran.stdout.splitlines(), ran.stderr
    for ran, says in (
        (run(), "Use a key of the server"),
        (run("--profile", "theirs"), "there is no key of the profile theirs"),
    ):
        assert ran.returncode
        assert says in ran.stderr


@pytest.mark.guarantee("SEC1")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), r"nothing protects it from other machines"),
        (("--keys", "KEYS"), "without TLS others on the network can read"),
        (("--tls-cert", "CERT", "--tls-key", "KEY"), "nothing protects it from other machines"),
        (("--insecure-plaintext",), "nothing protects it from other machines"),
    ],
)
def test_an_address_that_others_can_reach_needs_keys_and_tls(
    server: Server, tmp_path: Path, options: tuple[str, ...], says: str
) -> None:
    named = {"KEYS": server.keys, "CERT": server.files.cert, "KEY": server.files.key}
    given = [str(named.get(option, option)) for option in options]
    ran = foldb("serve", "--db", tmp_path / "data", "--host", "0.0.0.0", "--port", "0", *given)

    assert 2 == ran.returncode
    assert says in ran.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("tls", [True, False])
def test_with_keys_it_serves_other_machines_under_any_name(server: Server, tmp_path: Path, tls: bool) -> None:
    files = ("--tls-cert", str(server.files.cert), "--tls-key", str(server.files.key))
    guarded = files if tls else ("--insecure-plaintext",)
    options = ("--host", "0.0.0.0", "--keys", str(server.keys), *guarded)
    with served(tmp_path / "data", *options) as url:
        there = url.replace("0.0.0.0", "localhost")
        client = Server(there, server.keys, server.files, server.admin).client(server.admin)
        assert [] == client.list_tables()["TableNames"]
        client.close()
        if not tls:
            assert 400 == ask(there, "ListTables", {}, Host="db.example.com", Authorization="").status


def test_a_folder_whose_server_needs_another_key_is_not_locked(server: Server) -> None:
    folder = server.keys.with_name("data")
    ran = foldb("table", "list", "--db", folder, "--ca", server.files.ca)

    assert 7 == ran.returncode
    assert "UnrecognizedClientException" in ran.stderr


def test_boto3_finds_the_key_of_a_server_in_its_own_process(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.admin.id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.admin.secret)
    with embedded.serve(keys=str(server.keys)) as here:
        client = boto3.Session().client("dynamodb", **here.boto3)
        assert [] == client.list_tables()["TableNames"]
        client.close()


def test_invalid_keys_or_certificates_fail_before_the_start(server: Server, tmp_path: Path) -> None:
    db = ("serve", "--db", tmp_path / "data", "--port", "0")
    for options, says in (
        (("--keys", tmp_path / "none.toml"), "none.toml: No such file"),
        (("--tls-cert", server.files.key), "cannot use the certificate in"),
        (("--tls-cert", server.files.cert, "--tls-key", server.files.ca), "cannot use the certificate in"),
    ):
        ran = foldb(*db, *options)
        assert 2 == ran.returncode
        assert says in ran.stderr
    assert not (tmp_path / "data").exists()


def test_a_client_without_tls_is_disconnected(server: Server) -> None:
    port = int(server.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=20) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        said = b""
        while piece := plain.recv(1000):
            said += piece

    assert b"HTTP" not in said
