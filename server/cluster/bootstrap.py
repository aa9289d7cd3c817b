"""From the settings of a node to its configuration in a cluster.

The log and the group are the broker's. The address is by default any free port of this machine that other machines
cannot reach. The secret is that of the command line or, without one, that of the key file.
"""

import ssl
from collections.abc import Callable
from contextlib import closing
from typing import Final

from kafka.errors import KafkaError

from ...log.kafka import KafkaLog
from ...log.log import Log
from ...model.errors import CertificateError
from ...model.limits import limits_named
from ..auth.keyfile import read_keys
from ..settings import Settings
from .cluster import NodeConfig
from .link import PeerAddress
from .membership import Membership, addresses_of_members
from .routes import RoutingTable

_ANY_PORT: Final = ("127.0.0.1", 0)


def config_of(settings: Settings, log: Log) -> NodeConfig:
    """Return the configuration of a node among those that share its log.

    Raises:
        KeyFileError, CertificateError: The key file or the certificates cannot be used.
    """
    assert isinstance(log, KafkaLog)
    genesis = log.genesis(0)

    def join(
        address: PeerAddress,
        folded: Callable[[], tuple[list[int], list[int]]],
        on_table: Callable[[RoutingTable], None],
    ) -> Membership:
        return Membership(
            log.clients.consumer,
            log.clients.address.topic,
            log.clients.address.group,
            genesis.partitions,
            address,
            folded=folded,
            on_table=on_table,
            session_timeout_ms=settings.session_timeout_ms,
        )

    def members() -> list[PeerAddress] | None:
        with closing(log.clients.admin()) as admin:
            try:
                return addresses_of_members(admin, log.clients.address.group)
            except KafkaError as error:
                raise log.clients.unreachable(error) from None

    return NodeConfig(
        address=settings.node_address or _ANY_PORT,
        join=join,
        secret=_secret(settings),
        log_id=genesis.log_id,
        members=members,
        limits=limits_named(genesis.limits),
        tls=_tls(settings),
    )


def _tls(settings: Settings) -> tuple[ssl.SSLContext, ssl.SSLContext] | None:
    """Return the TLS contexts of callers and of listeners. Both ends show a certificate of one authority.

    Raises:
        CertificateError: The certificates cannot be used, or --tls-cert is missing.
    """
    if settings.node_ca is None:
        return None
    if settings.tls_cert is None:
        raise CertificateError(
            "nodes that call each other by TLS (--node-ca) show a certificate: name it with --tls-cert"
        )
    try:
        calling = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=settings.node_ca)
        listening = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=settings.node_ca)
        listening.verify_mode = ssl.CERT_REQUIRED
        for context in (calling, listening):
            context.load_cert_chain(settings.tls_cert, settings.tls_key, password="")
    except (OSError, ValueError) as error:
        raise CertificateError(f"nodes cannot call each other by TLS: {error}") from error
    return calling, listening


def _secret(settings: Settings) -> bytes | None:
    if settings.cluster_secret is not None or settings.keys is None:
        return settings.cluster_secret
    return read_keys(settings.keys).cluster_secret
