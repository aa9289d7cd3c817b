"""What can be set about a node. The command line and `foldb.serve` make one of these; nothing else reads options."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..model.errors import FoldbError, LogError


class SettingError(FoldbError, ValueError):
    """A setting with which a server would start, and fail later at what it is for."""


def _kafka_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("FOLDB_KAFKA_")}


@dataclass(frozen=True, slots=True)
class Settings:
    """How one node serves.

    Attributes:
        host: A loopback address, or `localhost`; with keys, or `insecure_any_address`, any address of this machine.
        port: 0 takes a free one.
        path: The folder of the log; None keeps everything in memory.
        limits: The set of limits that a new log is given, as `limits_named` reads it. An existing log keeps its own.
        fsync: When the log is synced to disk. With anything but `always`, a crash of the machine may lose writes.
        table_delay_ms: How long a table stays CREATING, UPDATING or DELETING.
        ttl_interval_ms: The pause between two sweeps for items whose time to live has passed; 0 means never.
        eventual_control_plane_ms: For so long after CreateTable, DescribeTable may still not find the table.
        count_refresh_ms: How old the counts in DescribeTable may be; 0 for exact ones. DynamoDB's take six hours.
        segment_bytes: How large a file of the log may grow before the next one begins.
        memory_bytes: How much memory items may take before puts and updates are refused; 0 for no bound.
        queue_bytes: Writes waiting for the log; beyond this they are refused with a ThrottlingException. Long requests
            that wait for their turn are bounded alike.
        connections: Connections at a time; for more, idle ones are closed.
        connections_per_address: The same for one client's address; 0 for no bound. On loopback all have one address.
        slow_bytes: Bytes kept for clients that are slow to send or to read; past it the slowest is cut off.
        allowed_hosts: Names that this server is asked under besides `localhost` and loopback addresses.
        cors: Origins whose pages may ask, or `*`.
        tick_s: The second by which connections count their deadlines.
        partitions: How many a new log gets for its data; with more than one the catalog has another for itself. An
            existing log keeps its number, and None goes by that.
        index_lag_ms: How long what one partition tells another about a global index is held back.
        transaction_conflicts: The share of writes and transactions, from 0 to 1, that meet a conflict by chance.
        log: `kafka://HOST:PORT/NAMESPACE`; None is the local log in `path`.
        kafka: The file that says how brokers are spoken to (log/kafka/settings.py).
        kafka_variables: Variables FOLDB_KAFKA_<NAME>, which say so too, and win; those of this process.
        allow_unsafe_kafka: Serve a topic that may lose records too; a new one is made as it should be.
        node_address: Where other nodes reach this one.
        node_ca: The authority of all nodes' certificates, in PEM: nodes then call each other by TLS, and each shows its
            `tls_cert`.
        strict_reads: A consistent read goes by an entry of its own in the log, not by what a broker says is the end.
        cluster_secret: What nodes prove to each other that they belong together by.
        session_timeout_ms: After so long without a sign of life a node's partitions are given to others.
        snapshot_every: So many commands after a snapshot a second process makes the next; 0 means never.
        keys: The file of access keys; None lets in everybody who can reach the port, and whatever they sign with.
        tls_cert: The certificate and what it rests on, in PEM; with it, HTTP is spoken over TLS.
        tls_key: The certificate's private key, in PEM; None looks for it in `tls_cert`.
        insecure_plaintext: Whether keys without TLS are enough for an address that other machines can reach.
        insecure_any_address: Whether an address that other machines can reach needs no keys.
        log_requests: Whether a line of JSON for each request is written to stderr.
        stream_retention_ms: For how much log time streams can be read; 0 for ever. The log keeps all in any case.
        shard_age_ms: After how much log time a shard of a new stream is followed by another.
        runs_triggers: Whether subscriptions are served; a command that opens a folder for a moment does not.
        triggers: The folder that Python functions and commands of triggers come from; None lets none run.
        trigger_user: The user that these run as, where this process is root's; None is who runs this process.
        webhooks: Addresses and networks of this machine or of private networks that triggers may call all the same.
        scrub_every_ms: The pause between two scrubs, which read all files and find damage; 0 means never.
        scrub_rate: How many bytes a scrub reads in a second.
        clock_step_ms: A step of this machine's clock by more than this is not taken at once; 0 takes every step.
        clock_confirm_ms: A step is taken when it has lasted for so long.
        destinations: `kafka://HOST:PORT/PREFIX` of triggers that write to topics; None is where the log is.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    path: Path | None = None
    limits: str = "modern"
    fsync: Literal["always", "interval", "never"] = "always"
    table_delay_ms: int = 0
    ttl_interval_ms: int = 1000
    eventual_control_plane_ms: int = 0
    count_refresh_ms: int = 0
    segment_bytes: int = 32 * 1024 * 1024
    memory_bytes: int = 0
    queue_bytes: int = 64 * 1024 * 1024
    connections: int = 10_000
    connections_per_address: int = 0
    slow_bytes: int = 256 * 1024 * 1024
    allowed_hosts: tuple[str, ...] = ()
    cors: tuple[str, ...] = ()
    tick_s: float = 1.0
    snapshot_every: int = 0
    partitions: int | None = None
    index_lag_ms: int = 0
    transaction_conflicts: float = 0.0
    log: str | None = None
    kafka: Path | None = None
    kafka_variables: Mapping[str, str] = field(default_factory=_kafka_variables, repr=False, compare=False)
    allow_unsafe_kafka: bool = False
    node_address: tuple[str, int] | None = None
    node_ca: Path | None = None
    strict_reads: bool = False
    cluster_secret: bytes | None = None
    session_timeout_ms: int = 6000
    keys: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure_plaintext: bool = False
    insecure_any_address: bool = False
    log_requests: bool = False
    stream_retention_ms: int = 24 * 3600 * 1000
    shard_age_ms: int = 4 * 3600 * 1000
    runs_triggers: bool = True
    triggers: Path | None = None
    trigger_user: str | None = None
    webhooks: tuple[str, ...] = ()
    destinations: str | None = None
    scrub_every_ms: int = 0
    scrub_rate: int = 8 * 1024 * 1024
    clock_step_ms: int = 10_000
    clock_confirm_ms: int = 5 * 60 * 1000


def check(settings: Settings) -> None:
    """Refuse what would be found to be wrong only when a trigger needs it.

    Raises:
        SettingError: It is so.
    """
    if settings.triggers is not None and not settings.triggers.is_dir():
        raise SettingError(
            f"triggers: {settings.triggers} is no folder. Name one with the files of triggers."
        )
    if settings.trigger_user is not None:
        _check_trigger_user(settings)
    if settings.webhooks:
        _check_webhooks(settings.webhooks)
    if settings.destinations is not None:
        _check_destinations(settings.destinations, settings)


# What reads them is loaded where there are any: a server without is to be there at once.


def _check_trigger_user(settings: Settings) -> None:
    from ..streams.workers.os_user import check as check_user

    assert settings.trigger_user is not None
    if settings.triggers is None:
        raise SettingError("trigger_user: it runs the code of triggers, and there is no folder of triggers.")
    try:
        check_user(settings.trigger_user)
    except ValueError as error:
        raise SettingError(f"trigger_user: {error}.") from None


def _check_webhooks(texts: tuple[str, ...]) -> None:
    from ..streams.sinks.http.targets import networks_of

    for text in texts:
        try:
            networks_of([text])
        except ValueError:
            raise SettingError(
                f"webhooks: {text!r} is no address or network. Write one like 127.0.0.1 or 10.0.0.0/8."
            ) from None


def _check_destinations(url: str, settings: Settings) -> None:
    from ..log.kafka.settings import Address, Security

    try:
        Address.of(url)
    except LogError as error:
        raise SettingError(f"destinations: {error}. Write kafka://HOST:PORT/PREFIX.") from None
    try:
        Security.read(settings.kafka, settings.kafka_variables)
    except LogError as error:
        raise SettingError(
            f"destinations: {error}. Look into the file of --kafka-settings and into FOLDB_KAFKA_ variables."
        ) from None
