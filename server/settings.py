"""The settings of a node, each declared once.

The flags of `foldb serve`, the keywords of `foldb.serve`, their bounds and the table in docs/python.md come from the
fields of `Settings`:

    port: Annotated[int, Setting("Listen on this TCP port. 0 takes a free one.", Group.NETWORK, "--port")] = 0
"""

import os
from collections.abc import Mapping
from dataclasses import field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_type_hints

from ..model.durations import duration
from ..model.errors import FoldbError, LogError
from ..model.lazy_dataclass import dataclass
from ..model.limits import limits_named

LAST_PORT: Final = 65535
_MIB: Final = 1024 * 1024
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000

# The images that writes replaced within the lag are kept in memory, and `foldb wait` waits for the lag.
_LAG_MAX_MS: Final = 10_000


class SettingError(FoldbError, ValueError):
    """The value of a setting cannot be used.

    Attributes:
        name: The field of Settings.
        reason: Why, and a value that can be used.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


class Group(StrEnum):
    """The groups of flags in `foldb serve --help`."""

    NETWORK = "Network"
    STORAGE = "Storage"
    SECURITY = "Security"
    CLUSTER = "Cluster and Kafka"
    TABLES = "Tables"
    STREAMS = "Streams and triggers"
    LIMITS = "Limits"
    CLOCK = "Clock"


@dataclass(frozen=True, slots=True, eq=False)  # typing hashes each
class Setting:
    """The declaration of a setting, beside the field of `Settings` that holds its value.

    Attributes:
        help: Effect and unit. A flag in it is shown as a keyword in docs/python.md.
        flag: The flag of `foldb serve`. None: the setting is a keyword of `foldb.serve` alone.
        metavar: The placeholder of the value in `--help`.
        minimum, maximum: Bounds of the value, both included.
        command_default: The default of `foldb serve` where it is not the default of `foldb.serve`.
        name: The field, and the keyword of `foldb.serve`. A duration ends in `_ms`.
        kind: The type of the field.
        default: The default of the field.
    """

    help: str
    group: Group
    flag: str | None = None
    metavar: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    command_default: object = None
    name: str = ""
    kind: Any = None
    default: object = None

    @property
    def is_duration(self) -> bool:
        return self.name.endswith("_ms")

    def check(self, value: object) -> None:
        """Check the bounds.

        Raises:
            SettingError: `value` is below the minimum or above the maximum.
        """
        if not isinstance(value, (int, float)):
            return
        if self.minimum is not None and value < self.minimum:
            raise SettingError(
                self.name, f"{self._shown(value)} is below the minimum {self._shown(self.minimum)}."
            )
        if self.maximum is not None and value > self.maximum:
            raise SettingError(
                self.name, f"{self._shown(value)} is above the maximum {self._shown(self.maximum)}."
            )

    def _shown(self, value: float) -> str:
        return duration(int(value)) if self.is_duration and value > 0 else f"{value}"


def kafka_variables() -> dict[str, str]:
    """Return the variables FOLDB_KAFKA_<NAME>, the settings of connections to Kafka."""
    return {name: value for name, value in os.environ.items() if name.startswith("FOLDB_KAFKA_")}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a node.

    Attributes:
        path: The folder of the log. None keeps everything in memory.
        kafka_variables: The variables FOLDB_KAFKA_<NAME> of this process. They override the file `kafka_settings`.
    """

    path: Path | None = None
    kafka_variables: Mapping[str, str] = field(default_factory=kafka_variables, repr=False, compare=False)

    host: Annotated[
        str,
        Setting(
            "Listen on this address. An address that other machines can reach needs --keys or --insecure-any-address.",
            Group.NETWORK,
            "--host",
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int,
        Setting(
            "Listen on this TCP port. 0 takes a free one.",
            Group.NETWORK,
            "--port",
            minimum=0,
            maximum=LAST_PORT,
            command_default=8000,
        ),
    ] = 0
    allowed_hosts: Annotated[
        tuple[str, ...],
        Setting(
            "Accept this value of the `Host` header, in addition to `localhost` and loopback addresses.",
            Group.NETWORK,
            "--allowed-host",
            "NAME",
        ),
    ] = ()
    cors: Annotated[
        tuple[str, ...],
        Setting(
            "Accept requests from pages of this origin, like http://localhost:3000, or of any origin with `*`.",
            Group.NETWORK,
            "--cors",
            "ORIGIN",
        ),
    ] = ()
    log_requests: Annotated[
        bool,
        Setting(
            "Write a line of JSON to stderr for each request, without the request's contents.",
            Group.NETWORK,
            "--log-requests",
        ),
    ] = False
    slow_log_ms: Annotated[
        int,
        Setting(
            "Write the line of --log-requests for each request that takes at least this long. 0 disables it.",
            Group.NETWORK,
            "--slow-log",
            minimum=0,
        ),
    ] = 0
    tick_ms: Annotated[
        int, Setting("Check the deadlines of connections every N ms.", Group.NETWORK, minimum=1)
    ] = 1000

    fsync: Annotated[
        Literal["always", "interval", "never"],
        Setting(
            "Sync the log to disk before each acknowledgement (`always`), ten times a second (`interval`) or `never`. "
            "A power cut loses acknowledged writes with `interval` and `never`.",
            Group.STORAGE,
            "--fsync",
        ),
    ] = "always"
    segment_bytes: Annotated[
        int,
        Setting(
            "Close a segment of the log at this size, and begin the next.",
            Group.STORAGE,
            "--segment-bytes",
            "BYTES",
            minimum=1,
        ),
    ] = 32 * _MIB
    snapshot_every: Annotated[
        int,
        Setting(
            "Take a snapshot every N commands, in a child process that needs as much memory as the data. "
            "0 disables it.",
            Group.STORAGE,
            "--snapshot-every",
            "N",
            minimum=0,
            command_default=1_000_000,
        ),
    ] = 0
    history: Annotated[
        bool,
        Setting(
            "Keep the history of all items from the start, in a child process with a database of its own in the "
            "folder `history`. Without it, the first read of the past builds the history.",
            Group.STORAGE,
            "--history",
        ),
    ] = False
    history_retention_ms: Annotated[
        int,
        Setting(
            "Remove history of this age and older from a log in a folder, by whole segments and at most once a day. "
            "0 keeps all history.",
            Group.STORAGE,
            "--history-retention",
            minimum=0,
        ),
    ] = 0
    history_archive: Annotated[
        Path | None,
        Setting(
            "Copy segments to this folder before a trim removes them.",
            Group.STORAGE,
            "--archive",
            "DIR",
        ),
    ] = None
    buckets: Annotated[
        Path | None,
        Setting(
            "Keep the files of exports, imports and bulk operations in this folder: the S3 bucket NAME is the folder "
            "DIR/NAME, which must exist. On several nodes it must be the same folder. Without it these operations are "
            "refused.",
            Group.STORAGE,
            "--buckets",
            "DIR",
        ),
    ] = None
    scrub_every_ms: Annotated[
        int,
        Setting(
            "Pause this long between two scrubs, which read log, snapshots and changes and report damage. "
            "0 disables them.",
            Group.STORAGE,
            "--scrub-every",
            minimum=0,
            command_default=24 * _HOUR_MS,
        ),
    ] = 0
    scrub_rate: Annotated[
        int,
        Setting(
            "Read at most this many bytes per second in a scrub.",
            Group.STORAGE,
            "--scrub-rate",
            "BYTES",
            minimum=1024,
        ),
    ] = 8 * _MIB

    keys: Annotated[
        Path | None,
        Setting(
            "Require requests to be signed with an access key of this file, which `foldb key create` writes.",
            Group.SECURITY,
            "--keys",
            "FILE",
        ),
    ] = None
    tls_cert: Annotated[
        Path | None,
        Setting(
            "Serve HTTP over TLS with this certificate chain, in PEM. SIGHUP reads it again.",
            Group.SECURITY,
            "--tls-cert",
            "FILE",
        ),
    ] = None
    tls_key: Annotated[
        Path | None,
        Setting(
            "Read the certificate's private key, in PEM, from this file and not from --tls-cert.",
            Group.SECURITY,
            "--tls-key",
            "FILE",
        ),
    ] = None
    insecure_plaintext: Annotated[
        bool,
        Setting(
            "Serve other machines with --keys but without TLS: the network can read requests and answers.",
            Group.SECURITY,
            "--insecure-plaintext",
        ),
    ] = False
    insecure_any_address: Annotated[
        bool,
        Setting(
            "Serve other machines without --keys: everyone who reaches the port can read and change all data.",
            Group.SECURITY,
            "--insecure-any-address",
        ),
    ] = False

    log: Annotated[
        str | None,
        Setting(
            "Keep the log in Kafka, shared with other nodes. The folder then holds derived data alone.",
            Group.CLUSTER,
            "--log",
            "kafka://HOST:PORT/NAMESPACE",
        ),
    ] = None
    kafka_settings: Annotated[
        Path | None,
        Setting(
            "Read the settings of connections to Kafka, such as TLS and SASL, from this file, in TOML.",
            Group.CLUSTER,
            "--kafka-settings",
            "FILE",
        ),
    ] = None
    allow_unsafe_kafka: Annotated[
        bool,
        Setting(
            "Serve an existing topic whose settings may lose records. A new topic gets safe settings in any case.",
            Group.CLUSTER,
            "--allow-unsafe-kafka",
        ),
    ] = False
    partitions: Annotated[
        int | None,
        Setting(
            "Divide a new database into N partitions, plus one for the catalog. N cannot be changed later. Without it "
            "a new database has 1.",
            Group.CLUSTER,
            "--partitions",
            "N",
            minimum=1,
            maximum=256,
        ),
    ] = None
    node_address: Annotated[
        tuple[str, int] | None,
        Setting(
            "Listen here for other nodes. Without it on a free port of 127.0.0.1. Another address than loopback needs "
            "a secret that all nodes share, in the file of --keys or in FOLDB_CLUSTER_SECRET.",
            Group.CLUSTER,
            "--node-address",
            "HOST:PORT",
        ),
    ] = None
    node_ca: Annotated[
        Path | None,
        Setting(
            "Use TLS between nodes. Each node shows its --tls-cert, signed by this certificate authority, in PEM.",
            Group.CLUSTER,
            "--node-ca",
            "FILE",
        ),
    ] = None
    cluster_secret: Annotated[
        bytes | None,
        Setting("The secret that all nodes share, where no file of --keys holds one.", Group.CLUSTER),
    ] = None
    session_timeout_ms: Annotated[
        int,
        Setting(
            "Move the partitions of a node that sends no heartbeat for this long to other nodes.",
            Group.CLUSTER,
            "--session-timeout",
            minimum=1000,
        ),
    ] = 6000
    strict_reads: Annotated[
        bool,
        Setting(
            "Append an entry to the log for consistent reads. They are then correct even if the broker is cut off "
            "from the other brokers.",
            Group.CLUSTER,
            "--strict-reads",
        ),
    ] = False

    limits: Annotated[
        str,
        Setting(
            "The limits of a new database: `modern` or `2012`, with `,collection_bytes=N` and `,global_indexes=N`. An "
            "existing database keeps its limits.",
            Group.TABLES,
            "--limits",
            "SET[,NAME=N]",
        ),
    ] = "modern"
    table_delay_ms: Annotated[
        int,
        Setting(
            "Keep tables CREATING, UPDATING and DELETING for this long.",
            Group.TABLES,
            "--table-delay",
            minimum=0,
        ),
    ] = 0
    control_plane_delay_ms: Annotated[
        int,
        Setting(
            "Let DescribeTable not find a new table for this long.",
            Group.TABLES,
            "--control-plane-delay",
            minimum=0,
        ),
    ] = 0
    count_refresh_ms: Annotated[
        int,
        Setting(
            "Refresh the item counts of DescribeTable after this long. 0 shows exact counts; DynamoDB's are up to six "
            "hours old.",
            Group.TABLES,
            "--count-refresh",
            minimum=0,
        ),
    ] = 0
    ttl_interval_ms: Annotated[
        int,
        Setting(
            "Pause this long between two sweeps for items whose time to live has passed. 0 disables them.",
            Group.TABLES,
            "--ttl-interval",
            minimum=0,
        ),
    ] = 1000
    read_lag_ms: Annotated[
        int,
        Setting(
            "Answer eventually consistent reads of tables from a state that is up to this old.",
            Group.TABLES,
            "--read-lag",
            minimum=0,
            maximum=_LAG_MAX_MS,
        ),
    ] = 0
    index_lag_ms: Annotated[
        int,
        Setting(
            "Answer reads of global indexes from a state that is up to this old.",
            Group.TABLES,
            "--index-lag",
            minimum=0,
            maximum=_LAG_MAX_MS,
        ),
    ] = 0
    lag_seed: Annotated[
        int,
        Setting(
            "Draw the ages of --read-lag and --index-lag from this seed.",
            Group.TABLES,
            "--lag-seed",
            "N",
        ),
    ] = 0
    throttle: Annotated[
        bool,
        Setting(
            "Refuse requests beyond the throughput of tables and indexes, as DynamoDB does.",
            Group.TABLES,
            "--throttle",
        ),
    ] = False
    throttle_burst_ms: Annotated[
        int,
        Setting(
            "Keep the unused throughput of provisioned tables and indexes for this long, with --throttle.",
            Group.TABLES,
            "--throttle-burst",
            minimum=0,
        ),
    ] = 5 * _MINUTE_MS
    throttle_equally: Annotated[
        bool,
        Setting(
            "Give each capacity partition of a provisioned table an equal share of its throughput, with --throttle. "
            "Without it a partition may borrow the share of others.",
            Group.TABLES,
            "--throttle-equally",
        ),
    ] = False
    heat: Annotated[
        bool,
        Setting(
            "Measure which keys and key ranges of every table and global index are read, written and throttled. "
            "Without it, only those with Contributor Insights are measured.",
            Group.TABLES,
            "--heat",
        ),
    ] = False
    split_delay_ms: Annotated[
        int,
        Setting(
            "Split a capacity partition when it is this old and the reason has lasted this long, with --throttle.",
            Group.TABLES,
            "--split-delay",
            minimum=0,
        ),
    ] = 5 * _MINUTE_MS
    split_bytes: Annotated[
        int,
        Setting(
            "Split a capacity partition with more than this many bytes of items, with --throttle.",
            Group.TABLES,
            "--split-size",
            "BYTES",
            minimum=1,
        ),
    ] = 10 * 1024**3
    split_heat: Annotated[
        int,
        Setting(
            "Split a capacity partition whose requests take this many percent of its limit, with --throttle.",
            Group.TABLES,
            "--split-heat",
            "PERCENT",
            minimum=1,
        ),
    ] = 80
    transaction_conflicts: Annotated[
        float,
        Setting(
            "Refuse this share, from 0 to 1, of writes and transactions with a conflict, at random.",
            Group.TABLES,
            "--transaction-conflicts",
            "RATE",
            minimum=0,
            maximum=1,
        ),
    ] = 0.0

    stream_retention_ms: Annotated[
        int,
        Setting(
            "Keep the records of streams for this long. 0 keeps all. The log keeps every change in any case.",
            Group.STREAMS,
            "--stream-retention",
            minimum=0,
        ),
    ] = 24 * _HOUR_MS
    shard_age_ms: Annotated[
        int,
        Setting(
            "Close a shard of a new stream at this age, and open its child.",
            Group.STREAMS,
            "--shard-age",
            minimum=1,
        ),
    ] = 4 * _HOUR_MS
    runs_triggers: Annotated[bool, Setting("Run triggers.", Group.STREAMS)] = True
    triggers: Annotated[
        Path | None,
        Setting(
            "Run the triggers that the Python files of this folder declare. Functions and commands of triggers come "
            "from no other folder.",
            Group.STREAMS,
            "--triggers",
            "FOLDER",
        ),
    ] = None
    trigger_user: Annotated[
        str | None,
        Setting(
            "Run the code of triggers as this user of the system. The server must run as root. Without it the code "
            "runs as the user of the server.",
            Group.STREAMS,
            "--trigger-user",
            "USER",
        ),
    ] = None
    webhooks: Annotated[
        tuple[str, ...],
        Setting(
            "Let triggers call this address or network, of this machine or private.",
            Group.STREAMS,
            "--webhooks",
            "ADDRESS",
        ),
    ] = ()
    kafka_sink: Annotated[
        str | None,
        Setting(
            "Let triggers write to topics with this prefix. Without it to the brokers of --log.",
            Group.STREAMS,
            "--kafka-sink",
            "kafka://HOST:PORT/PREFIX",
        ),
    ] = None

    memory_limit_bytes: Annotated[
        int,
        Setting(
            "Refuse puts and updates when items take more than this many bytes of memory. 0 disables the limit.",
            Group.LIMITS,
            "--memory-limit",
            "BYTES",
            minimum=0,
        ),
    ] = 0
    queue_bytes: Annotated[
        int,
        Setting(
            "Throttle writes, and long requests, when the requests that wait take more than this many bytes.",
            Group.LIMITS,
            "--queue-bytes",
            "BYTES",
            minimum=1,
        ),
    ] = 64 * _MIB
    connections: Annotated[
        int,
        Setting(
            "Serve at most N connections. Further ones replace idle ones.",
            Group.LIMITS,
            "--connections",
            "N",
            minimum=1,
        ),
    ] = 10_000
    connections_per_address: Annotated[
        int,
        Setting(
            "Serve at most N connections of one client address. 0 disables the limit. All clients on loopback have "
            "one address.",
            Group.LIMITS,
            "--connections-per-address",
            "N",
            minimum=0,
        ),
    ] = 0
    client_buffer_bytes: Annotated[
        int,
        Setting(
            "Disconnect the slowest client when more than this many bytes are buffered for slow clients.",
            Group.LIMITS,
            minimum=1,
        ),
    ] = 256 * _MIB

    clock_step_ms: Annotated[
        int,
        Setting(
            "Refuse a step of the system clock by more than this until it has lasted for --clock-confirm. 0 takes "
            "every step at once.",
            Group.CLOCK,
            "--clock-step",
            minimum=0,
        ),
    ] = 10_000
    clock_confirm_ms: Annotated[
        int,
        Setting(
            "Take a refused step of the system clock when it has lasted this long.",
            Group.CLOCK,
            "--clock-confirm",
            minimum=1,
        ),
    ] = 5 * _MINUTE_MS

    @property
    def lags(self) -> bool:
        """Whether some reads are answered from an earlier state."""
        return bool(self.read_lag_ms or self.index_lag_ms)


def _declared() -> dict[str, Setting]:
    hints = get_type_hints(Settings, include_extras=True)
    found = {}
    for each in fields(Settings):
        for setting in get_args(hints[each.name])[1:]:
            if isinstance(setting, Setting):
                kind = get_args(hints[each.name])[0]
                found[each.name] = replace(setting, name=each.name, kind=kind, default=each.default)
    return found


SETTINGS: Final = _declared()
"""The settings by name: the keywords of `foldb.serve`. `path` is its first argument."""


def check(settings: Settings) -> None:
    """Check every setting that would otherwise fail after the start.

    Raises:
        SettingError: The value of a setting is out of bounds, or cannot be used.
    """
    for name, setting in SETTINGS.items():
        setting.check(getattr(settings, name))
    try:
        limits_named(settings.limits)
    except ValueError as error:
        raise SettingError("limits", str(error)) from None
    _check_names(settings)
    for name in ("history_retention_ms", "history_archive"):
        if getattr(settings, name) and (settings.path is None or settings.log is not None):
            raise SettingError(name, "only a log in a folder is trimmed.")
    if settings.buckets is not None and not settings.buckets.is_dir():
        raise SettingError(
            "buckets", f"{settings.buckets} is not a folder. Make it, and a folder in it for each bucket."
        )
    if settings.triggers is not None and not settings.triggers.is_dir():
        raise SettingError(
            "triggers", f"{settings.triggers} is not a folder. Name one with the files of triggers."
        )
    if settings.trigger_user is not None:
        _check_trigger_user(settings)
    if settings.webhooks:
        _check_webhooks(settings.webhooks)
    if settings.kafka_sink is not None:
        _check_kafka_sink(settings.kafka_sink, settings)


# A check imports its module only if the setting is given, to keep the start short.


def _check_names(settings: Settings) -> None:
    from .http.origin_policy import is_host, is_origin

    for host in settings.allowed_hosts:
        if not is_host(host):
            raise SettingError("allowed_hosts", f"{host!r} is not a name or an address without a port.")
    for origin in settings.cors:
        if not is_origin(origin):
            raise SettingError("cors", f"{origin!r} is not an origin like http://localhost:3000.")


def _check_trigger_user(settings: Settings) -> None:
    from ..streams.workers.os_user import check as check_user

    assert settings.trigger_user is not None
    if settings.triggers is None:
        raise SettingError(
            "trigger_user", "it runs the code of triggers, and there is no folder of triggers."
        )
    try:
        check_user(settings.trigger_user)
    except ValueError as error:
        raise SettingError("trigger_user", f"{error}.") from None


def _check_webhooks(texts: tuple[str, ...]) -> None:
    from ..streams.sinks.http.targets import networks_of

    for text in texts:
        try:
            networks_of([text])
        except ValueError:
            raise SettingError(
                "webhooks", f"{text!r} is not an address or network. Write one like 127.0.0.1 or 10.0.0.0/8."
            ) from None


def _check_kafka_sink(url: str, settings: Settings) -> None:
    from ..log.kafka.settings import KafkaAddress, Security

    try:
        KafkaAddress.of(url)
    except LogError as error:
        raise SettingError("kafka_sink", f"{error}. Write kafka://HOST:PORT/PREFIX.") from None
    try:
        Security.read(settings.kafka_settings, settings.kafka_variables)
    except LogError as error:
        raise SettingError(
            "kafka_sink", f"{error}. Check the file of --kafka-settings and the variables FOLDB_KAFKA_."
        ) from None
