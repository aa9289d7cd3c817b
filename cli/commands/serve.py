"""`foldb serve`: start a server."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from ...model.limits import limits_named
from ...server.app import run
from ...server.http.listener import ListenError
from ...server.http.origin_policy import is_host, is_origin
from ...server.settings import Settings as ServerSettings
from ..lib.durations import flag_duration
from ..lib.errors import CommandError, ExitCode
from ..lib.session import Session, is_address
from ..lib.settings import Settings, cluster_secret
from ..lib.values import read_folder
from .aws_config import greeting

_LAST_PORT = 65535


def serve(
    ctx: typer.Context,
    host: Annotated[
        str, typer.Option(help="A loopback address. Others need --keys or --insecure-any-address.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    memory: Annotated[
        bool, typer.Option("--memory", help="Keep nothing: no folder, all is gone at the end.")
    ] = False,
    limits: Annotated[
        str,
        typer.Option(
            metavar="SET[,NAME=N]",
            help="The limits of a new database: modern or 2012; collection_bytes and global_indexes can be set.",
        ),
    ] = "modern",
    fsync: Annotated[
        Literal["always", "interval", "never"],
        typer.Option(help="When writes reach the disk; all but `always` may lose some in a power cut."),
    ] = "always",
    table_delay: Annotated[
        int, typer.Option(metavar="MS", min=0, help="How long tables stay CREATING, UPDATING and DELETING.")
    ] = 0,
    ttl_interval: Annotated[
        int, typer.Option(metavar="MS", min=0, help="Pause between two sweeps for expired items; 0 for none.")
    ] = 1000,
    control_plane_delay: Annotated[
        int, typer.Option(metavar="MS", min=0, help="How long DescribeTable may not know a new table.")
    ] = 0,
    count_refresh: Annotated[
        int,
        typer.Option(metavar="MS", min=0, help="How old DescribeTable's counts may be; 0 for exact ones."),
    ] = 0,
    segment_bytes: Annotated[
        int, typer.Option(min=1, help="How large a file of the log may grow before the next one begins.")
    ] = 32 * 1024 * 1024,
    memory_limit: Annotated[
        int,
        typer.Option(
            metavar="BYTES", min=0, help="What items may take before puts are refused; 0: no bound."
        ),
    ] = 0,
    queue_bytes: Annotated[
        int, typer.Option(min=1, help="Writes beyond this many waiting bytes are refused.")
    ] = 64 * 1024 * 1024,
    snapshot_every: Annotated[
        int,
        typer.Option(
            metavar="COMMANDS",
            min=0,
            help="After so many, another process makes a snapshot: it needs the memory of the data again; 0: never.",
        ),
    ] = 1_000_000,
    partitions: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=256,
            help="Into how many a new database is divided, for good; left out: one, or as many as it has.",
        ),
    ] = None,
    index_lag: Annotated[
        int,
        typer.Option(
            metavar="MS",
            min=0,
            help="How far global indexes stay behind their tables, where there are several partitions.",
        ),
    ] = 0,
    transaction_conflicts: Annotated[
        float,
        typer.Option(
            metavar="RATE",
            min=0,
            max=1,
            help="The share of writes and transactions that meet a conflict by chance: to test an application.",
        ),
    ] = 0.0,
    connections: Annotated[
        int, typer.Option(min=1, help="Connections at a time; idle ones make room for more.")
    ] = 10_000,
    connections_per_address: Annotated[
        int, typer.Option(min=0, help="The same for one address of a client; 0: no bound.")
    ] = 0,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A name that clients know this server by besides localhost; repeat it."
        ),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN", help="Whose pages may ask: http://localhost:3000, or * for any; repeat it."
        ),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Let in only who signs with a key of this file; see `foldb key`."),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Speak TLS with this certificate, in PEM; read anew at SIGHUP."),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Its private key; left out where it is in the same file."),
    ] = None,
    insecure_plaintext: Annotated[
        bool,
        typer.Option(
            "--insecure-plaintext", help="Other machines may come without TLS: all that is sent can be read."
        ),
    ] = False,
    insecure_any_address: Annotated[
        bool,
        typer.Option(
            "--insecure-any-address",
            help="Listen on any --host without --keys: who can reach the port can read and change everything.",
        ),
    ] = False,
    log_requests: Annotated[
        bool,
        typer.Option(
            "--log-requests", help="Write a line of JSON to stderr for each request, without its contents."
        ),
    ] = False,
    log: Annotated[
        str | None,
        typer.Option(
            metavar="kafka://HOST:PORT/NAMESPACE",
            help="Share this log in Kafka with other nodes; the folder then keeps what can be made anew.",
        ),
    ] = None,
    kafka_settings: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="How the brokers are spoken to: TLS and SASL, in TOML."),
    ] = None,
    allow_unsafe_kafka: Annotated[
        bool, typer.Option("--allow-unsafe-kafka", help="Serve a topic too that may lose records.")
    ] = False,
    node_address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Where other nodes reach this one; without it a free port of 127.0.0.1. Any other address needs a "
            "secret that all nodes have, in the file of --keys or in FOLDB_CLUSTER_SECRET.",
        ),
    ] = None,
    node_ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Nodes call each other by TLS; each shows its --tls-cert, which this authority signed.",
        ),
    ] = None,
    session_timeout: Annotated[
        int,
        typer.Option(
            metavar="MS", min=1000, help="After so long without a sign of life others take over from a node."
        ),
    ] = 6000,
    strict_reads: Annotated[
        bool,
        typer.Option(
            "--strict-reads",
            help="Consistent reads write to the log: right even where a broker is cut off from the others.",
        ),
    ] = False,
    stream_retention: Annotated[
        str, typer.Option(metavar="TIME", help="For how long streams can be read: 24h, 7d, or all.")
    ] = "24h",
    shard_age: Annotated[
        str,
        typer.Option(metavar="TIME", help="After how long a shard of a new stream is followed by another."),
    ] = "4h",
    scrub_every: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="The pause between two scrubs, which find damage in log, snapshots and changes; `off` for none.",
        ),
    ] = "24h",
    scrub_rate: Annotated[
        int, typer.Option(metavar="BYTES", min=1024, help="How many bytes a scrub reads in a second.")
    ] = 8 * 1024 * 1024,
    clock_step: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Refuse a step of this machine's clock by more than this until it has lasted; `off` takes each.",
        ),
    ] = "10s",
    clock_confirm: Annotated[
        str, typer.Option(metavar="TIME", help="Take a refused step of the clock when it has lasted so long.")
    ] = "5m",
    triggers: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            parser=read_folder,
            help="Run the triggers that its Python files declare; functions and commands come from nowhere else.",
        ),
    ] = None,
    trigger_user: Annotated[
        str | None,
        typer.Option(
            metavar="USER",
            help="Run the code of triggers as this user of the system, which takes a server that runs as root. "
            "Default: the user that runs the server.",
        ),
    ] = None,
    webhooks: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="An address or network, of this machine or private, that triggers may call; repeat it.",
        ),
    ] = None,
    destinations: Annotated[
        str | None,
        typer.Option(
            metavar="kafka://HOST:PORT/PREFIX",
            help="Where triggers write topics; left out: to the brokers of --log.",
        ),
    ] = None,
) -> None:
    """Serve a database folder, made if it is not there, until SIGTERM or Ctrl-C.

    --db (or FOLDB_DB) names the folder; without it that is ./data. With --log the log is in Kafka, and nothing is
    kept in a folder unless --db names one.

    Example: foldb serve --db ./data --port 8000
    """
    session: Session = ctx.obj
    try:
        limits_named(limits)
    except ValueError as error:
        raise CommandError(f"--limits: {error}", ExitCode.USAGE) from None
    _check_names(allowed_host or (), cors or ())
    folder = _folder(session.settings, memory=memory, shared=log is not None)
    settings = ServerSettings(
        host=host,
        port=port,
        path=folder,
        limits=limits,
        fsync=fsync,
        table_delay_ms=table_delay,
        ttl_interval_ms=ttl_interval,
        eventual_control_plane_ms=control_plane_delay,
        count_refresh_ms=count_refresh,
        segment_bytes=segment_bytes,
        memory_bytes=memory_limit,
        queue_bytes=queue_bytes,
        snapshot_every=snapshot_every,
        partitions=partitions,
        index_lag_ms=index_lag,
        transaction_conflicts=transaction_conflicts,
        connections=connections,
        connections_per_address=connections_per_address,
        allowed_hosts=tuple(allowed_host or ()),
        cors=tuple(cors or ()),
        keys=keys,
        tls_cert=tls_cert,
        tls_key=tls_key,
        insecure_plaintext=insecure_plaintext,
        insecure_any_address=insecure_any_address,
        log_requests=log_requests,
        log=log,
        kafka=kafka_settings,
        allow_unsafe_kafka=allow_unsafe_kafka,
        node_address=None if node_address is None else _address(node_address),
        node_ca=node_ca,
        session_timeout_ms=session_timeout,
        strict_reads=strict_reads,
        cluster_secret=cluster_secret(),
        stream_retention_ms=0
        if stream_retention == "all"
        else flag_duration("--stream-retention", stream_retention),
        shard_age_ms=flag_duration("--shard-age", shard_age),
        scrub_every_ms=0 if scrub_every == "off" else flag_duration("--scrub-every", scrub_every),
        scrub_rate=scrub_rate,
        clock_step_ms=0 if clock_step == "off" else flag_duration("--clock-step", clock_step),
        clock_confirm_ms=flag_duration("--clock-confirm", clock_confirm),
        triggers=triggers,
        trigger_user=trigger_user,
        webhooks=tuple(webhooks or ()),
        destinations=destinations,
    )
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    try:
        run(
            settings,
            on_ready=lambda url: session.output.say(_greeting(url, settings)),
            progress=lambda commands: session.output.say(f"refolded {commands:,} commands"),
        )
    except ListenError as error:
        why = os.strerror(error.errno) if error.errno else error
        raise CommandError(
            f"cannot listen on {host}:{port}: {why}. Take another with --port.", ExitCode.UNREACHABLE
        ) from error


def _folder(settings: Settings, *, memory: bool, shared: bool) -> Path | None:
    """Where this process keeps what it keeps, if anything."""
    db = settings.db
    if memory and settings.is_db_flag:
        raise CommandError(
            f"--memory and --db {db}: --memory keeps nothing in a folder. Leave one of them out.",
            ExitCode.USAGE,
        )
    if memory and shared:
        raise CommandError("--memory and --log: the log is either in memory or in Kafka.", ExitCode.USAGE)
    if memory or (shared and is_address(db)):
        return None
    if not settings.is_db_given:
        return Path("data")
    if db.startswith("kafka://"):
        raise CommandError(f"{db} is a log in Kafka: serve it with --log {db}.", ExitCode.USAGE)
    if is_address(db):
        raise CommandError(
            f"{db}, which --db or FOLDB_DB says, is an address and no folder: name what to serve, like --db ./data.",
            ExitCode.USAGE,
        )
    return Path(db)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > _LAST_PORT:
        raise CommandError(
            f"--node-address {text}: an address and a port, like 10.0.0.1:7000.", ExitCode.USAGE
        )
    return host.strip("[]"), int(port)


def _check_names(hosts: Sequence[str], origins: Sequence[str]) -> None:
    for host in hosts:
        if not is_host(host):
            raise CommandError(
                f"--allowed-host {host}: a name or an address, without a port.", ExitCode.USAGE
            )
    for origin in origins:
        if not is_origin(origin):
            raise CommandError(
                f"--cors {origin}: an origin as browsers say it, like http://localhost:3000.", ExitCode.USAGE
            )


def _greeting(url: str, settings: ServerSettings) -> str:
    where = "in memory: nothing is kept" if settings.path is None else f"in {settings.path.resolve()}"
    where = where if settings.log is None else f"in {settings.log}"
    return greeting(url, where, has_keys=settings.keys is not None)
