"""Kafka clients with the configuration that a log needs.

It differs from the library's defaults: no batch is dropped silently, a broker that does not respond is replaced after
two seconds and not after thirty, and a missing offset is an error instead of a reset.
"""

import logging
from contextlib import suppress
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaConfigurationError, KafkaError
from kafka.net.compat import KafkaNetClient

from ...model.errors import LogError
from .settings import KafkaAddress, Security

MESSAGE_BYTES: Final = 20 << 20
"""The largest message in bytes: a request of 16 MiB, and headroom."""
BATCH_BYTES: Final = 1 << 20
REQUEST_TIMEOUT_MS: Final = 2_000
NEVER_MS: Final = 24 * 3_600_000
"""Delivery timeout. A producer that drops a batch may never send another (3.0.12), so foldb closes it first."""
FETCH_MAX_WAIT_MS: Final = 100
"""The time a broker holds a fetch that finds no records; a new follower may wait this long."""
LEADER_AGE_MS: Final = 500
"""Maximum metadata age of clients that fetch end offsets. After a "not leader" response the library (3.0.12) asks the
same broker again without a pause, until the metadata is this old."""
BOOTSTRAP_TIMEOUT_MS: Final = 20_000
RETRY_BACKOFF_MS: Final = 20
END_SECONDS: Final = 1.0

# The library logs retries as errors, and requests that foldb logs itself.
logging.getLogger("kafka").setLevel(logging.CRITICAL)


class Clients:
    """Creates clients of the brokers at an address."""

    def __init__(self, address: KafkaAddress, security: Security) -> None:
        self.address = address
        self._security = security

    def producer(self) -> KafkaProducer:
        """Create a producer that has the topic's metadata, so that `send` does not block."""
        producer = self.producer_for_any()
        try:
            producer.partitions_for(self.address.topic)
        except KafkaError as error:
            raise self.unreachable(error) from None
        # The metadata is cached from here on. If it is lost, `send` fails instead of blocking the loop.
        producer.config["max_block_ms"] = 5
        return producer

    def producer_for_any(self, linger_ms: int = 0) -> KafkaProducer:
        """Create a producer for any topic. `send` blocks until the metadata of a new topic is fetched.

        The producer collects messages for `linger_ms`: fewer requests, later acknowledgements.
        """
        return self._make(
            KafkaProducer,
            acks="all",
            enable_idempotence=True,
            batch_size=BATCH_BYTES,
            max_request_size=MESSAGE_BYTES,
            linger_ms=linger_ms,
            delivery_timeout_ms=NEVER_MS,
            max_block_ms=BOOTSTRAP_TIMEOUT_MS,
        )

    def consumer(self, **configuration: Any) -> KafkaConsumer:
        """Create a consumer with manual assignment: no group, no offset commit, no offset reset."""
        return self._make(
            KafkaConsumer,
            **{
                "group_id": None,
                "enable_auto_commit": False,
                "auto_offset_reset": "none",
                "check_crcs": True,
                "fetch_min_bytes": 1,
                "fetch_max_wait_ms": FETCH_MAX_WAIT_MS,
                "max_poll_records": 2_000,
                **configuration,
            },
        )

    def offsets_consumer(self) -> KafkaConsumer:
        """Create a consumer that only fetches end offsets."""
        return self.consumer(metadata_max_age_ms=LEADER_AGE_MS)

    def admin(self) -> KafkaAdminClient:
        """Create an admin client, which describes and creates topics."""
        return self._make(KafkaAdminClient, request_timeout_ms=30_000)

    def _make(self, kind: type[Any], **configuration: Any) -> Any:
        common = {
            "bootstrap_servers": list(self.address.servers),
            "bootstrap_timeout_ms": BOOTSTRAP_TIMEOUT_MS,
            "client_id": "foldb",
            "kafka_client": _net_client,
            "request_timeout_ms": REQUEST_TIMEOUT_MS,
            "retry_backoff_ms": RETRY_BACKOFF_MS,
            "reconnect_backoff_ms": 20,
            "reconnect_backoff_max_ms": 500,
            "metadata_max_age_ms": 30_000,
            **self._security.client_configuration(),
        }
        if kind is not KafkaAdminClient:
            common |= {"allow_auto_create_topics": False, "metrics_enabled": False}
        try:
            return kind(**common | configuration)
        except KafkaConfigurationError:
            raise  # a mistake in this configuration
        except KafkaError as error:
            raise self.unreachable(error) from None

    def unreachable(self, error: Exception) -> LogError:
        """Return the error for brokers that do not respond or refuse the connection."""
        servers = ",".join(self.address.servers)
        if self._security.uses_sasl or self._security.uses_tls:
            step = "Check that its brokers accept this name, password and certificate."
        else:
            step = "`compose/kafka-local start` starts one on this machine."
        return LogError(f"cannot reach Kafka at {servers} ({type(error).__name__}). {step}")


def close_now(producer: KafkaProducer) -> None:
    """Close a producer at once. Its sends in flight fail."""
    with suppress(KafkaError):
        producer.close(timeout=0)
        return
    # `close` timed out while sends are in flight. Make the sender thread drop them first.
    producer._sender.force_close()
    producer._sender.join(END_SECONDS)
    with suppress(KafkaError):
        producer.close(timeout=0)


def _net_client(**configuration: Any) -> KafkaNetClient:
    # The kernel accepts connections for a stopped process, which never responds on them.
    client = KafkaNetClient(
        **configuration,
        socket_connection_setup_timeout_ms=1_000,
        socket_connection_setup_timeout_max_ms=2_000,
    )
    # The library (3.0.12) does not pass the setting on. A log fetches metadata four times to open, 100 ms apart.
    client.cluster.config["retry_backoff_ms"] = RETRY_BACKOFF_MS
    return client
