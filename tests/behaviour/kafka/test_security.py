"""A broker with TLS and passwords: a client with credentials is served; others get an error without secrets."""

import gc
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from foldb.log.kafka import Clients, KafkaAddress, KafkaLog, Security, client
from foldb.model.errors import LogError
from tests.behaviour.auth.certificates import Files, make_certificates
from tests.support.broker import brokers
from tests.support.raw import ask
from tests.support.served import FOLDB, Process
from tests.support.subscribed import settle, subscribe, until
from tests.support.tables import table_request
from tests.unit.contracts.log_contract import Loop, entry

PLAIN_SECRET, SCRAM_SECRET = "a plain secret", "a salted secret"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_certificates(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def url(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with one user by PLAIN and one, made by the first, by SCRAM."""
    store = tmp_path_factory.mktemp("broker") / "store.pem"
    store.write_text(files.key.read_text() + files.cert.read_text())
    login = "org.apache.kafka.common.security.{}LoginModule required"
    properties = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,BROKER:PLAINTEXT,CLIENT:SASL_SSL",
        "listener.name.client.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.client.plain.sasl.jaas.config": f'{login.format("plain.Plain")} user_admin="{PLAIN_SECRET}";',
        "listener.name.client.scram-sha-512.sasl.jaas.config": f"{login.format('scram.Scram')};",
        "listener.name.client.ssl.keystore.type": "PEM",
        "listener.name.client.ssl.keystore.location": str(store),
    }
    options = [f"--property={name}={value}" for name, value in properties.items()]
    with brokers(1, *options) as broker:
        url = f"kafka://{broker.address}/secured"
        with closing(Clients(KafkaAddress.of(url), security(files)).admin()) as admin:
            add_user(admin, "foldb", SCRAM_SECRET)
        yield url


def add_user(admin: Any, name: str, password: str) -> None:
    from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

    admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion(name, ScramMechanism.SCRAM_SHA_512, password)]
    )


def security(files: Files, **changed: str) -> Security:
    """The administrator's, by PLAIN, unless something is changed."""
    settings = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "username": "admin",
        "password": PLAIN_SECRET,
        "ca_file": str(files.ca),
    }
    environment = {f"FOLDB_KAFKA_{name.upper()}": value for name, value in (settings | changed).items()}
    return Security.read(None, environment)


def scram(files: Files, **changed: str) -> Security:
    return security(
        files,
        **{"sasl_mechanism": "SCRAM-SHA-512", "username": "foldb", "password": SCRAM_SECRET} | changed,
    )


def open_log(url: str, how: Security, loop: Loop) -> KafkaLog:
    return KafkaLog(url, deliver=loop.deliver, random_bytes=os.urandom, security=how)


@pytest.mark.parametrize("how", [security, scram])
def test_a_client_with_the_password_appends_and_reads(url: str, files: Files, how: Any) -> None:
    loop, reported = Loop(), list[Any]()
    with closing(open_log(url, how(files), loop)) as log:
        log.append(0, entry(0), reported.append)
        loop.turn(until=lambda: bool(reported))
        assert entry(0) == list(log.read(0))[-1].entry


@pytest.mark.filterwarnings("ignore:unclosed <:ResourceWarning")
@pytest.mark.parametrize(
    "changed",
    [{"password": "a wrong secret"}, {"username": "nobody"}, {"ca_file": ""}],
    ids=["password", "user", "authority"],
)
def test_a_wrong_password_is_an_error_without_the_password(
    url: str, files: Files, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], tmp_path: Path
) -> None:
    if "ca_file" in changed:
        changed = {"ca_file": str(make_certificates(tmp_path).ca)}
    monkeypatch.setattr(client, "BOOTSTRAP_TIMEOUT_MS", 1_000)
    with pytest.raises(LogError, match="cannot reach Kafka at") as refused:
        open_log(url, scram(files, **changed), Loop())

    assert "secret" not in str(refused.value)
    gc.collect()  # kafka-python leaves the socket of a connection that was not made to the collector


def test_a_history_is_read_with_the_password_of_a_variable(url: str, files: Files, tmp_path: Path) -> None:
    """The server drops it from its environment, and hands it over in a pipe."""
    variables = (
        "FOLDB_KAFKA_SECURITY_PROTOCOL=SASL_SSL",
        "FOLDB_KAFKA_SASL_MECHANISM=PLAIN",
        "FOLDB_KAFKA_USERNAME=admin",
        f"FOLDB_KAFKA_PASSWORD={PLAIN_SECRET}",
        f"FOLDB_KAFKA_CA_FILE={files.ca}",
    )
    options = ("--log", f"{url}-served", "--partitions", "1")
    with Process(tmp_path / "data", *options, program=("env", *variables, FOLDB)) as server:
        ask(server.url, "CreateTable", table_request("Orders", "id:S"))
        put = {"TableName": "Orders", "Item": {"id": {"S": "o-1"}}}
        until(lambda: ask(server.url, "PutItem", put).status == 200)
        subscribe(server.url, "lake", "Orders", {"Kind": "file"}, Start={"At": "SNAPSHOT"})
        settle(server.url)
    [file] = (tmp_path / "data" / "files").rglob("*.jsonl")

    assert '"o-1"' in file.read_text()
    assert PLAIN_SECRET not in server.said
