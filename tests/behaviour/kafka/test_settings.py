"""Kafka's address and security settings: accepted and refused values, and secrets that stay hidden."""

import gc
import logging
from pathlib import Path

import pytest

from foldb.log.kafka import KafkaAddress, Security
from foldb.log.kafka.client import Clients
from foldb.model.errors import LogError

SECRET = "correct horse battery"
SCRAM = {
    "FOLDB_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
    "FOLDB_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
    "FOLDB_KAFKA_USERNAME": "foldb",
    "FOLDB_KAFKA_PASSWORD": SECRET,
}


@pytest.mark.parametrize(
    ("url", "servers", "topic"),
    [
        ("kafka://127.0.0.1:9092/shop", ("127.0.0.1:9092",), "shop.log"),
        ("kafka://a.example:9092,b-2:19092/x_1.y", ("a.example:9092", "b-2:19092"), "x_1.y.log"),
        ("kafka://[::1]:9092/shop", ("[::1]:9092",), "shop.log"),
    ],
)
def test_an_address_names_brokers_and_a_topic(url: str, servers: tuple[str, ...], topic: str) -> None:
    address = KafkaAddress.of(url)

    assert (servers, topic) == (address.servers, address.topic)
    assert url == str(address)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:9092",
        "http://localhost:9092/shop",
        "kafka://localhost:9092",
        "kafka://localhost/shop",
        "kafka:///shop",
        "kafka://localhost:9092/",
        "kafka://localhost:9092/sh op",
        "kafka://localhost:9092/../etc",
        "kafka://user:password@localhost:9092/shop",
        f"kafka://localhost:9092/{'x' * 201}",
    ],
)
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(LogError):
        KafkaAddress.of(url)


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "kafka.toml"
    path.write_text(
        'security_protocol = "SASL_SSL"\nsasl_mechanism = "SCRAM-SHA-256"\nusername = "a"\npassword = "b"\n'
    )
    path.chmod(0o600)

    read = Security.read(path, {"FOLDB_KAFKA_USERNAME": "c", "HOME": "/"})

    assert ("SASL_SSL", "SCRAM-SHA-256", "c", "b") == (
        read.security_protocol,
        read.sasl_mechanism,
        read.username,
        read.password,
    )


@pytest.mark.guarantee("SEC10")
def test_a_file_with_a_password_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kafka.toml"
    path.write_text('password = "b"\n')
    path.chmod(0o640)

    with pytest.raises(LogError, match=f"chmod 600 {path}"):
        Security.read(path, {})


@pytest.mark.guarantee("SEC10")
@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"FOLDB_KAFKA_PASWORD": "x"}, "unknown Kafka setting 'pasword'"),
        ({"FOLDB_KAFKA_SASL_JAAS_CONFIG": "x"}, "unknown Kafka setting 'sasl_jaas_config'"),
        ({"FOLDB_KAFKA_SSL_CHECK_HOSTNAME": "false"}, "unknown Kafka setting 'ssl_check_hostname'"),
        ({"FOLDB_KAFKA_SECURITY_PROTOCOL": "TLS"}, "security_protocol must be one of"),
        (SCRAM | {"FOLDB_KAFKA_SASL_MECHANISM": "GSSAPI"}, "sasl_mechanism must be one of"),
        (SCRAM | {"FOLDB_KAFKA_PASSWORD": ""}, "the settings username and password"),
        (
            SCRAM
            | {"FOLDB_KAFKA_SASL_MECHANISM": "PLAIN", "FOLDB_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT"},
            "PLAIN sends the password without encryption",
        ),
    ],
)
def test_unusable_security_settings_are_refused_by_name(environment: dict[str, str], said: str) -> None:
    with pytest.raises(LogError, match=said):
        Security.read(None, environment)


def test_a_number_where_a_text_belongs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kafka.toml"
    path.write_text("username = 7\n")

    with pytest.raises(LogError, match="'username' must be a string"):
        Security.read(path, {})


@pytest.mark.guarantee("SEC10")
@pytest.mark.parametrize(
    ("url", "protocol", "warned"),
    [
        ("kafka://127.0.0.1:9092,localhost:9093/x", "PLAINTEXT", False),
        ("kafka://127.0.0.1:9092,broker.example:9092/x", "PLAINTEXT", True),
        ("kafka://broker.example:9092/x", "SASL_PLAINTEXT", True),
        ("kafka://broker.example:9092/x", "SSL", False),
    ],
)
def test_unencrypted_remote_connections_cause_a_warning(url: str, protocol: str, warned: bool) -> None:
    assert warned == (Security(security_protocol=protocol).warning(KafkaAddress.of(url)) is not None)


@pytest.mark.guarantee("SEC10")
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_a_password_is_in_no_repr_no_error_and_no_log_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client library says its whole configuration at the level of debugging."""
    from foldb.log.kafka import client

    monkeypatch.setattr(client, "BOOTSTRAP_TIMEOUT_MS", 100)
    caplog.set_level(logging.DEBUG)
    security = Security.read(None, SCRAM)

    with pytest.raises(LogError) as refused:
        Clients(KafkaAddress.of("kafka://127.0.0.1:1/x"), security).admin()

    assert SECRET == security.password
    assert SECRET not in repr(security)
    assert SECRET not in str(refused.value)
    assert SECRET not in caplog.text
    gc.collect()  # kafka-python leaves the socket of a connection that was not made to the collector
