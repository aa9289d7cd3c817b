"""The log in Apache Kafka: one topic, the clients for it, and the checks of both."""

from .client import Clients
from .log import KafkaLog
from .reader import KafkaReader
from .settings import KafkaAddress, Security

__all__ = ["Clients", "KafkaAddress", "KafkaLog", "KafkaReader", "Security"]
