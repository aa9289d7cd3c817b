"""The types of the keywords of `foldb.serve`.

Generated from settings.py by `python -m tests.unit.project.settings_reference`.
"""

from pathlib import Path
from typing import Literal, TypedDict


class SettingKeywords(TypedDict, total=False):
    """The settings in docs/python.md. A file name may be a str, and a tuple a list."""

    host: str
    port: int
    allowed_hosts: tuple[str, ...] | list[str]
    cors: tuple[str, ...] | list[str]
    log_requests: bool
    slow_log_ms: int
    tick_ms: int
    fsync: Literal["always", "interval", "never"]
    segment_bytes: int
    snapshot_every: int
    history: bool
    history_retention_ms: int
    history_archive: str | Path | None
    buckets: str | Path | None
    scrub_every_ms: int
    scrub_rate: int
    keys: str | Path | None
    tls_cert: str | Path | None
    tls_key: str | Path | None
    insecure_plaintext: bool
    insecure_any_address: bool
    log: str | None
    kafka_settings: str | Path | None
    allow_unsafe_kafka: bool
    partitions: int | None
    node_address: tuple[str, int] | None
    node_ca: str | Path | None
    cluster_secret: bytes | None
    session_timeout_ms: int
    strict_reads: bool
    limits: str
    table_delay_ms: int
    control_plane_delay_ms: int
    count_refresh_ms: int
    ttl_interval_ms: int
    read_lag_ms: int
    index_lag_ms: int
    lag_seed: int
    throttle: bool
    throttle_burst_ms: int
    throttle_equally: bool
    heat: bool
    split_delay_ms: int
    split_bytes: int
    split_heat: int
    transaction_conflicts: float
    stream_retention_ms: int
    shard_age_ms: int
    runs_triggers: bool
    triggers: str | Path | None
    trigger_user: str | None
    webhooks: tuple[str, ...] | list[str]
    kafka_sink: str | None
    memory_limit_bytes: int
    queue_bytes: int
    connections: int
    connections_per_address: int
    client_buffer_bytes: int
    clock_step_ms: int
    clock_confirm_ms: int
