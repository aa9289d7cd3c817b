"""Where Kafka is, and how it is spoken to.

    kafka://HOST:PORT[,HOST:PORT ...]/NAMESPACE       the log is the topic NAMESPACE.log

How comes from a TOML file and from variables FOLDB_KAFKA_<NAME>, which win; the names are the attributes of
`Security`, and no other is taken. A password is in neither the command line, a log line nor a repr.
"""

import ipaddress
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from ...model.errors import LogError

PREFIX: Final = "FOLDB_KAFKA_"
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_ADDRESS: Final = re.compile(r"kafka://(?P<servers>[^/]+)/(?P<namespace>[^/]*)")
_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}")
# A topic's name has at most 249 characters, ours included.
_NAMESPACE: Final = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True)
class Address:
    """The brokers to ask first, and the part of Kafka's names that is ours.

    >>> Address.of("kafka://127.0.0.1:9092,127.0.0.1:9093/shop").topic
    'shop.log'
    """

    servers: tuple[str, ...]
    namespace: str

    @classmethod
    def of(cls, url: str) -> "Address":
        """What a `kafka://` address says.

        Raises:
            LogError: It is no such address.
        """
        match = _ADDRESS.fullmatch(url)
        servers = tuple(match["servers"].split(",")) if match else ()
        if match is None or not all(_SERVER.fullmatch(server) for server in servers):
            raise LogError(f"{url!r} is not an address like kafka://HOST:PORT,HOST:PORT/NAMESPACE")
        if not _NAMESPACE.fullmatch(match["namespace"]):
            raise LogError(f"{match['namespace']!r} is no namespace: letters, digits, '.', '_' and '-'")
        return cls(servers, match["namespace"])

    @property
    def topic(self) -> str:
        """Where the log is."""
        return f"{self.namespace}.log"

    @property
    def group(self) -> str:
        """What the nodes of this log are members of."""
        return f"{self.namespace}.nodes"

    @property
    def is_loopback(self) -> bool:
        """Whether nothing leaves this machine."""
        return all(_is_loopback(server.rpartition(":")[0].strip("[]")) for server in self.servers)

    def __str__(self) -> str:
        return f"kafka://{','.join(self.servers)}/{self.namespace}"


@dataclass(frozen=True, slots=True)
class Security:
    """How brokers are spoken to; by default as brokers are set up by default, for anybody to listen.

    Attributes:
        security_protocol: Kafka's name for it: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        sasl_mechanism: PLAIN (with TLS alone), SCRAM-SHA-256 or SCRAM-SHA-512.
        ca_file: Whom to believe who the brokers are, in PEM; None for those that this machine believes.
        certificate_file: Who this client is, in PEM, for brokers that want to see a certificate; `key_file` its key.
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
        """What a file and the environment say.

        Raises:
            LogError: It cannot be used as it is: an unknown name, a file that others can read, a part missing.
        """
        given: dict[str, Any] = {} if path is None else _read_file(path)
        for name, value in environment.items():
            if name.startswith(PREFIX):
                given[name.removeprefix(PREFIX).lower()] = value
        known = {each.name for each in fields(cls)}
        if unknown := sorted(given.keys() - known):
            raise LogError(f"Kafka has no setting {unknown[0]!r} here; there are {', '.join(sorted(known))}")
        if wrong := [name for name, value in given.items() if not isinstance(value, str)]:
            raise LogError(f"the setting {wrong[0]!r} for Kafka must be a text")
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
                raise LogError("for SASL a username and a password are needed")
        if self.sasl_mechanism == "PLAIN" and self.security_protocol != "SASL_SSL":
            raise LogError(
                "PLAIN sends the password as it is: set security_protocol to SASL_SSL, or use SCRAM"
            )

    @property
    def uses_sasl(self) -> bool:
        """Whether the client says who it is by name and password."""
        return self.security_protocol.startswith("SASL_")

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.security_protocol.endswith("SSL")

    def warning(self, address: Address) -> str | None:
        """What is to be said about this way to speak to these brokers, if anything."""
        if self.uses_tls or address.is_loopback:
            return None
        return (
            f"{address} is not on this machine and the connection is not encrypted: whoever sees it reads every item. "
            "Set security_protocol to SSL or SASL_SSL."
        )

    def client_configuration(self) -> dict[str, Any]:
        """The same in the client library's words."""
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
        raise LogError(f"the settings for Kafka cannot be read from {path}: {error}") from None
    if content.keys() & {"password", "key_password"} and mode & 0o077:
        raise LogError(f"{path} holds a password and others can read it: chmod 600 {path}")
    return content


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
