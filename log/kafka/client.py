"""Clients for Kafka, configured once.

What a log needs of them differs from what the library takes for granted: nothing may be given up silently, a broker
that is silent is left after two seconds and not after thirty, and nothing is guessed where a position is gone.
"""

import logging
from contextlib import suppress
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaConfigurationError, KafkaError
from kafka.net.compat import KafkaNetClient

from ...model.errors import LogError
from .settings import Address, Security

MESSAGE_BYTES: Final = 20 << 20
"""The largest message: a request of 16 MiB, and room."""
BATCH_BYTES: Final = 1 << 20
REQUEST_TIMEOUT_MS: Final = 2_000
NEVER_MS: Final = 24 * 3_600_000
"""A producer that gives up a batch by itself may never send another (3.0.12): whoever waits for it must end it."""
FETCH_MAX_WAIT_MS: Final = 100
"""How long a fetch stays with the broker that finds nothing; so long may it take to begin to follow a partition."""
LEADER_AGE_MS: Final = 500
"""How long whoever asks for ends believes that a leader leads. Told that it does not, the library (3.0.12) asks it
again, at once and on and on, until it has looked up the leaders for their age."""
BOOTSTRAP_TIMEOUT_MS: Final = 20_000
END_SECONDS: Final = 1.0

# Its lines repeat what was asked for, and say "error" of what is tried again. What an operator needs to know the log
# says itself.
logging.getLogger("kafka").setLevel(logging.CRITICAL)


class Clients:
    """Makes clients of the brokers at an address."""

    def __init__(self, address: Address, security: Security) -> None:
        self.address = address
        self._security = security

    def producer(self) -> KafkaProducer:
        """One that knows the topic already, and therefore never waits when it is given something to send."""
        producer = self.producer_for_any()
        try:
            producer.partitions_for(self.address.topic)
        except KafkaError as error:
            raise self.unreachable(error) from None
        # From now on that is known. If it should not be, then a loop is not to stand still for it.
        producer.config["max_block_ms"] = 5
        return producer

    def producer_for_any(self, linger_ms: int = 0) -> KafkaProducer:
        """One for whatever topics; it waits where it is given something for one that it does not know yet.

        It keeps what it is given for so long: one request for many costs less, and each is acknowledged later.
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
        """One that is given partitions and positions, and never moves them by itself."""
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

    def asker(self) -> KafkaConsumer:
        """One that asks where partitions end."""
        return self.consumer(metadata_max_age_ms=LEADER_AGE_MS)

    def admin(self) -> KafkaAdminClient:
        """One that asks about the topic, and makes it."""
        return self._make(KafkaAdminClient, request_timeout_ms=30_000)

    def _make(self, kind: type[Any], **configuration: Any) -> Any:
        common = {
            "bootstrap_servers": list(self.address.servers),
            "bootstrap_timeout_ms": BOOTSTRAP_TIMEOUT_MS,
            "client_id": "foldb",
            "kafka_client": _net_client,
            "request_timeout_ms": REQUEST_TIMEOUT_MS,
            "retry_backoff_ms": 20,
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
            raise  # ours
        except KafkaError as error:
            raise self.unreachable(error) from None

    def unreachable(self, error: Exception) -> LogError:
        """What is told where no broker answers, or answers with a no."""
        servers = ",".join(self.address.servers)
        if self._security.uses_sasl or self._security.uses_tls:
            step = "Do its brokers take this name, password and certificate?"
        else:
            step = "`compose/kafka-local start` starts one on this machine."
        return LogError(f"cannot reach Kafka at {servers} ({type(error).__name__}). {step}")


def end(producer: KafkaProducer) -> None:
    """Close it at once; what is under way fails."""
    with suppress(KafkaError):
        producer.close(timeout=0)
        return
    # It wants to wait for what is under way, and goes on. So its thread is told to drop that first.
    producer._sender.force_close()
    producer._sender.join(END_SECONDS)
    with suppress(KafkaError):
        producer.close(timeout=0)


def _net_client(**configuration: Any) -> KafkaNetClient:
    # A stopped process still takes connections and never answers on them.
    return KafkaNetClient(
        **configuration,
        socket_connection_setup_timeout_ms=1_000,
        socket_connection_setup_timeout_max_ms=2_000,
    )
