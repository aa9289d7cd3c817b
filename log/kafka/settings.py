"""The address of a log in Kafka, and the security settings of its connections.

    kafka://HOST:PORT[,HOST:PORT ...]/NAMESPACE       the log is the topic NAMESPACE.log

Security settings come from a TOML file and from environment variables FOLDB_KAFKA_<NAME>, which take precedence. The
names are the attributes of `Security`; other names are refused. A password never appears in the command line, a log
line or a repr.
"""

import ipaddress
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import field, fields
from pathlib import Path
from typing import Any, Final

from ...model.errors import LogError
from ...model.lazy_dataclass import dataclass

PREFIX: Final = "FOLDB_KAFKA_"
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_ADDRESS: Final = re.compile(r"kafka://(?P<servers>[^/]+)/(?P<namespace>[^/]*)")
_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}")
# The name of a topic has at most 249 characters, including the suffix ".log".
_NAMESPACE: Final = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True)
class KafkaAddress:
    """The bootstrap brokers, and the namespace of topic and group.

    >>> Address.of("kafka://127.0.0.1:9092,127.0.0.1:9093/shop").topic
    'shop.log'
    """

    servers: tuple[str, ...]
    namespace: str

    @classmethod
    def of(cls, url: str) -> "KafkaAddress":
        """Parse a `kafka://` address.

        Raises:
            LogError: The text is not such an address.
        """
        match = _ADDRESS.fullmatch(url)
        servers = tuple(match["servers"].split(",")) if match else ()
        if match is None or not all(_SERVER.fullmatch(server) for server in servers):
            raise LogError(f"{url!r} is not an address like kafka://HOST:PORT,HOST:PORT/NAMESPACE")
        if not _NAMESPACE.fullmatch(match["namespace"]):
            raise LogError(
                f"{match['namespace']!r} is not a namespace: use letters, digits, '.', '_' and '-'"
            )
        return cls(servers, match["namespace"])

    @property
    def topic(self) -> str:
        """The topic that holds the log."""
        return f"{self.namespace}.log"

    @property
    def group(self) -> str:
        """The consumer group of the nodes."""
        return f"{self.namespace}.nodes"

    @property
    def is_loopback(self) -> bool:
        """Whether all brokers have loopback addresses."""
        return all(_is_loopback(server.rpartition(":")[0].strip("[]")) for server in self.servers)

    def __str__(self) -> str:
        return f"kafka://{','.join(self.servers)}/{self.namespace}"


@dataclass(frozen=True, slots=True)
class Security:
    """Encryption and credentials of connections to brokers. The default is Kafka's: neither.

    Attributes:
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        sasl_mechanism: PLAIN (only with TLS), SCRAM-SHA-256 or SCRAM-SHA-512.
        ca_file: The CA certificates that sign the brokers' certificates, in PEM; None for the system's.
        certificate_file: The client certificate in PEM, for brokers that require one; `key_file` holds its key.
    """

    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)

    @classmethod
    def read(cls, path: Path | None, environment: Mapping[str, str]) -> "Security":
        """Read the settings from a file and the environment.

        Raises:
            LogError: A name is unknown, a value is invalid or missing, or other users can read the file.
        """
        given: dict[str, Any] = {} if path is None else _read_file(path)
        for name, value in environment.items():
            if name.startswith(PREFIX):
                given[name.removeprefix(PREFIX).lower()] = value
        known = {each.name for each in fields(cls)}
        if unknown := sorted(given.keys() - known):
            raise LogError(f"unknown Kafka setting {unknown[0]!r}; use one of {', '.join(sorted(known))}")
        if wrong := [name for name, value in given.items() if not isinstance(value, str)]:
            raise LogError(f"the Kafka setting {wrong[0]!r} must be a string")
        security = cls(**given)
        security._check()
        return security

    def _check(self) -> None:
        if self.security_protocol not in PROTOCOLS:
            raise LogError(f"security_protocol must be one of {', '.join(PROTOCOLS)}")
        if self.uses_sasl:
            if self.sasl_mechanism not in MECHANISMS:
                raise LogError(f"sasl_mechanism must be one of {', '.join(MECHANISMS)}")
            if not self.username or not self.password:
                raise LogError("SASL needs the settings username and password")
        if self.sasl_mechanism == "PLAIN" and self.security_protocol != "SASL_SSL":
            raise LogError(
                "PLAIN sends the password without encryption: set security_protocol to SASL_SSL, or use SCRAM"
            )

    @property
    def uses_sasl(self) -> bool:
        """Whether the client authenticates by name and password."""
        return self.security_protocol.startswith("SASL_")

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.security_protocol.endswith("SSL")

    def warning(self, address: KafkaAddress) -> str | None:
        """Return a warning if the connection leaves this machine without encryption."""
        if self.uses_tls or address.is_loopback:
            return None
        return (
            f"{address} is not on this machine and the connection is not encrypted: every item can be read in transit. "
            "Set security_protocol to SSL or SASL_SSL."
        )

    def client_configuration(self) -> dict[str, Any]:
        """Return the settings by the client library's names."""
        return {
            "security_protocol": self.security_protocol,
            "sasl_mechanism": self.sasl_mechanism if self.uses_sasl else None,
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
            "ssl_cafile": self.ca_file,
            "ssl_certfile": self.certificate_file,
            "ssl_keyfile": self.key_file,
            "ssl_password": self.key_password,
        }


def _read_file(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text())
        mode = stat.S_IMODE(path.stat().st_mode)
    except (OSError, ValueError) as error:
        raise LogError(f"cannot read the Kafka settings from {path}: {error}") from None
    if content.keys() & {"password", "key_password"} and mode & 0o077:
        raise LogError(f"{path} holds a password and other users can read it: chmod 600 {path}")
    return content


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
